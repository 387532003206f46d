"""An HTTP server whose answers harm the caller: too long, too slow, too deep, or not what they say."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import zlib
from collections.abc import Callable, Iterator

MIB = 2**20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
#: Seconds between the pieces of a slow answer.
PAUSE = 0.05


def whole(body: bytes, *headers: str, status: str = "200 OK") -> Iterator[bytes]:
    """An answer with its length."""
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
        "",
        "",
    ]
    yield "\r\n".join(lines).encode()
    yield body


def bomb(mib: int, times: int = 1) -> bytes:
    """So many MiB of JSON, compressed as often."""
    deflate = zlib.compressobj(9, wbits=31)
    parts = [deflate.compress(b'["')]
    parts += [deflate.compress(b"a" * MIB) for _ in range(mib)]
    body = b"".join([*parts, deflate.compress(b'"]'), deflate.flush()])
    for _ in range(times - 1):
        body = gzip.compress(body)
    return body


def forever(head: bytes, piece: bytes) -> Iterator[bytes]:
    """Pieces without an end."""
    yield head
    while True:
        yield piece


def slowly(head: bytes, piece: bytes) -> Iterator[bytes]:
    """Pieces without an end, one after each pause."""
    pause = threading.Event()
    for part in forever(head, piece):
        yield part
        pause.wait(PAUSE)


def numbered(lines: int) -> Iterator[bytes]:
    """An answer with so many lines in its header."""
    yield HEAD
    for number in range(lines):
        yield b"X-%d: %s\r\n" % (number, b"a" * 60_000)
    yield b"Content-Length: 2\r\n\r\n{}"


@contextlib.contextmanager
def serving(answers: dict[str, Callable[[], Iterator[bytes]]]) -> Iterator[tuple[str, list[str]]]:
    """Serve answers by the path, one for each connection; give the URL, and the paths that were requested.

    The path ``*`` stands for all others. ``SELF`` in an answer becomes the URL.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    here = f"http://127.0.0.1:{listener.getsockname()[1]}".encode()
    seen: list[str] = []

    def answer(wire: socket.socket) -> None:
        with contextlib.suppress(OSError), wire:
            wire.settimeout(20)
            request = b""
            while b"\r\n\r\n" not in request:
                if not (read := wire.recv(65536)):
                    return
                request += read
            path = request.split(b" ")[1].decode().partition("?")[0]
            seen.append(path)
            for piece in (answers.get(path) or answers["*"])():
                wire.sendall(piece.replace(b"SELF", here) if len(piece) < 1000 else piece)
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                wire, _ = listener.accept()
                threading.Thread(target=answer, args=(wire,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield here.decode(), seen
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def lies(limit: int) -> dict[str, Callable[[], Iterator[bytes]]]:
    """The answers that must be refused, by path.

    :param limit: MiB of the longest answer that is read
    """
    length = 2 * limit
    costly = b"[[[[]]]],"  #: each of its bytes takes 40 bytes of memory once it is parsed
    chunk = b"10000\r\n" + b"a" * 65536 + b"\r\n"
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    many = b"[" + costly * (limit * MIB // 2 // len(costly)) + b"0]"
    return {
        "/long": lambda: whole(b'["' + b"a" * length * MIB + b'"]'),
        "/gzip": lambda: whole(bomb(length), "Content-Encoding: gzip"),
        "/gzip-of-gzip": lambda: whole(bomb(length, 2), "Content-Encoding: gzip, gzip"),
        "/gzip-lines": lambda: whole(bomb(length, 2), "Content-Encoding: gzip", "Content-Encoding: gzip"),
        "/deflate": lambda: whole(zlib.compress(b"a" * length * MIB), "Content-Encoding: deflate"),
        "/br": lambda: whole(b"\x0b\x00\x80a\x03", "Content-Encoding: br"),
        "/no-gzip": lambda: whole(b"[]", "Content-Encoding: gzip"),
        "/half-gzip": lambda: whole(gzip.compress(b"[]")[:-9], "Content-Encoding: gzip"),
        "/two-gzips": lambda: whole(gzip.compress(b"[") + gzip.compress(b"]"), "Content-Encoding: gzip"),
        "/error-gzip": lambda: whole(bomb(length), "Content-Encoding: gzip", status="404 Not Found"),
        "/redirect-gzip": lambda: whole(bomb(length), "Content-Encoding: gzip", "Location: SELF/", status="302 Found"),
        "/endless": lambda: forever(HEAD + b"\r\n", b"a" * 65536),
        "/endless-chunks": lambda: forever(chunked, chunk),
        "/endless-chunk-size": lambda: forever(chunked, b"0" * 65536),
        "/endless-trailer": lambda: forever(chunked + b"2\r\n{}\r\n0\r\n", b"X-Y: z\r\n" * 1000),
        "/endless-header": lambda: forever(HEAD, b"X-Y: z\r\n" * 1000),
        "/endless-header-line": lambda: forever(HEAD + b"X-Y: ", b"z" * 65536),
        "/endless-continue": lambda: forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
        "/many-headers": lambda: numbered(99),
        "/slow-body": lambda: slowly(HEAD + b"\r\n", b" "),
        "/slow-chunks": lambda: slowly(chunked, b"1\r\n \r\n"),
        "/slow-header": lambda: slowly(HEAD + b"X-Y: ", b"z"),
        "/slow-status": lambda: slowly(b"", b"H"),
        "/slow-continue": lambda: slowly(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        "/slow-gzip": lambda: slowly(HEAD + b"Content-Encoding: gzip\r\n\r\n", gzip.compress(b"")[:3]),
        "/short": lambda: iter([HEAD + b"Content-Length: 100\r\n\r\n{}"]),
        "/negative-length": lambda: forever(HEAD + b"Content-Length: -1\r\n\r\n", b"a" * 65536),
        "/two-lengths": lambda: iter([HEAD + b"Content-Length: 9,8\r\n\r\n{}"]),
        "/deep": lambda: whole(b"[" * 100_000 + b"]" * 100_000),
        "/costly": lambda: whole(many),
        "/digits": lambda: whole(b"[" + b"9" * 100_000 + b"]"),
        "/half": lambda: whole(json.dumps({"rows": []}).encode()[:-1]),
        "/redirects": lambda: whole(b"", "Location: SELF/redirects", status="302 Found"),
    }
