"""A small HTTP/1.1 server with a thread per connection, so that a fault acts directly on the socket."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

HOST = "127.0.0.1"
_RESET = struct.pack("ii", 1, 0)  #: SO_LINGER: close with a reset
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


@dataclass(slots=True)
class Request:
    """A request. Header names are in lower case; `path` is as sent, `parts` are decoded."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""
    base: str = ""  #: scheme, host and port as the client sent them
    path: str = field(init=False)
    parts: list[str] = field(init=False)
    query: list[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.path, _, query = self.target.partition("?")
        self.parts = [unquote(part) for part in self.path.split("/")[1:]]
        self.query = parse_qsl(query, keep_blank_values=True)

    def first(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        return next((value for key, value in self.query if key == name), default)

    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body) if self.body else {}


@dataclass(slots=True)
class Response:
    """A response: its body is bytes or a JSON value."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    type: str = "application/json"

    def encode(self, head: bool = False) -> bytes:
        """All of it, as it goes over the wire; `head`: without the body."""
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        lines = [f"HTTP/1.1 {self.status} {_PHRASES.get(self.status, 'Unknown')}"]
        if body:
            lines.append(f"Content-Type: {self.type}")
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.status != 204 and "Content-Length" not in self.headers:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join((*lines, "", "")).encode() + (b"" if head else body)


#: Answers a request; `None` drops the connection without a byte.
Answer = Callable[[Request], Response | None]


class Server:
    """Listens on a port of the loopback address from the moment it is made, and answers once it is started."""

    def __init__(self, answer: Answer, port: int = 0) -> None:
        self._answer = answer
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server((HOST, port), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}"

    def start(self) -> None:
        """Answer requests, also those that arrived before."""
        threading.Thread(target=self._accept, name="emulated-accept", daemon=True).start()

    def close(self) -> None:
        """Stop listening and cut every connection."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accept, which a close alone does not
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            with self._lock:
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="emulated-http", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with connection, connection.makefile("rb", 65536) as stream:
                while (request := self._read(stream)) is not None:
                    response = self._answer(request)
                    if response is None:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                        return
                    connection.sendall(response.encode(request.method == "HEAD"))
                    if request.headers.get("connection", "").lower() == "close":
                        return
        except (OSError, ValueError):  # the client disconnected, or does not speak HTTP
            pass
        finally:
            with self._lock:
                self._open.discard(connection)

    def _read(self, stream: Any) -> Request | None:
        line = stream.readline(65537)
        if not line:
            return None
        method, target, _ = line.decode("latin-1").split(" ", 2)
        headers = {}
        while (line := stream.readline(65537)) not in (b"\r\n", b"\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        length = int(headers.get("content-length") or 0)
        return Request(
            method, target, headers, stream.read(length) if length else b"", f"http://{headers.get('host', HOST)}"
        )
