"""Limits what one answer of an HTTP server takes: length, time and memory.

A server decides how long its answer is, how slowly it comes, and how many bytes of memory each of its bytes becomes
when it is decompressed and parsed. Without these limits one answer can end the process that reads it.

The limits apply to every answer, also to those of redirects and errors: the header and all bytes on the wire, the body
after decompression, the time from the request to the last byte, and an estimate of the memory that all long answers of
the process take.
"""

from __future__ import annotations

import dataclasses
import functools
import http.client
import io
import re
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import requests

MIB = 2**20
#: Bytes that are read, and decompressed, at once.
CHUNK = 64 * 1024
#: Bytes on the wire besides the body: status, header, the sizes of chunks, trailer.
_AROUND = MIB
#: An answer up to this length is not counted in the memory of all answers.
_SMALL = MIB
#: Bytes of an HTML page that comes with an error. It is a proxy's, and openstacksdk searches it for tags in a time that
#: grows with the square of its length.
_PAGE = 4096
_HTML = "html"
#: A character that takes four bytes in a text, and so makes every character of the text take four.
_WIDE = re.compile(rb"[\xf0-\xff]|\\u[dD][89abAB]")


class ResponseRefused(Exception):
    """An answer takes more than its share."""


class _Exceeded(Exception):
    """The same, before it is known which request was answered.

    It is no error of the operating system, which urllib3 would take for a lost connection.
    """


@dataclasses.dataclass
class Limits:
    """The limits of the answers that one pool of connections reads."""

    longest: int = 256 * MIB  #: bytes of one body, decompressed
    seconds: float = 120.0  #: from the request to the last byte of its answer
    memory: int = 1536 * MIB  #: bytes that all long answers together may take, their parsed JSON included
    error: type[Exception] = ResponseRefused  #: is raised with a text
    group: str = ""  #: configuration group of the options, for messages
    _taken: int = 0
    #: Of a kind that its thread may take again: the garbage collector may free an answer in the middle of ``take``.
    _lock: threading.RLock = dataclasses.field(default_factory=threading.RLock)

    def named(self, option: str) -> str:
        """Return the name of an option, for messages; empty: there is none."""
        return f" ([{self.group}] {option})" if self.group else ""

    def take(self, more: int) -> None:
        """Count memory.

        :raises _Exceeded: the answers take too much
        """
        with self._lock:
            fits = self._taken + more <= self.memory
            self._taken += more if fits else 0
        if not fits:
            raise _Exceeded(
                f"the answer would make those that are read at the same time take more than "
                f"{self.memory / MIB:g} MiB of memory{self.named('answer_memory')}"
            )

    def free(self, taken: int) -> None:
        """Count memory no longer."""
        with self._lock:
            self._taken -= taken


class _Share:
    """The memory that is counted for one answer, until the answer is collected."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self._taken = limits, 0

    def raise_to(self, size: int) -> None:
        """Count at least so many bytes; see :meth:`Limits.take`."""
        if size > max(self._taken, _SMALL):
            self.limits.take(size - self._taken)
            self._taken = size

    def __del__(self) -> None:
        if self._taken:
            self.limits.free(self._taken)


class Response(requests.Response):  # type: ignore[misc] # requests has no type information
    """A response whose body was read within the limits."""

    _body = b""
    _share: _Share

    @property
    def content(self) -> bytes:
        """The body."""
        return self._body

    @property
    def apparent_encoding(self) -> str:
        """The encoding of a text whose header names none.

        The encoding is not guessed: that takes minutes for a long text.
        """
        return "utf-8"

    def json(self, **kwargs: Any) -> Any:
        """Return the JSON value in the body.

        :raises ValueError: it is not JSON, or nested so deeply that it cannot be parsed
        """
        try:
            self._share.raise_to(_parsed_size(self._body))
        except _Exceeded as error:
            raise self._share.limits.error(f"{_request(self.request)}: {error}") from None
        try:
            return super().json(**kwargs)
        except RecursionError:
            raise requests.exceptions.JSONDecodeError("nested too deeply", "", 0) from None


def _parsed_size(body: bytes) -> int:
    """Return about how many bytes of memory a body takes with its JSON value, at most.

    The factors were measured with Python 3.11 for the documents that take most for each of their characters.
    """
    if len(body) <= _SMALL:
        return 0
    wide = 1 if body.isascii() and b"\\u" not in body else 4 if _WIDE.search(body) else 2
    values = body.count(b"[") + body.count(b"{") + body.count(b",")
    return (1 + 2 * wide) * len(body) + 90 * values + 25 * body.count(b":")


def _request(request: requests.PreparedRequest) -> str:
    """Return method and URL of a request, without its query and credentials."""
    parts = urlsplit(request.url)
    return f"{request.method} {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class _Wire(io.RawIOBase):
    """Reads one answer from a connection, not longer and not for more time than the limits say."""

    def __init__(self, wire: io.RawIOBase, connection: socket.socket, limits: Limits) -> None:
        self._wire, self._connection, self._limits = wire, connection, limits
        self._left = limits.longest + _AROUND
        self._pause = connection.gettimeout()  # seconds for each read
        self._end = time.monotonic() + limits.seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._left <= 0:
            raise _Exceeded(_too_long(self._limits))
        left = self._end - time.monotonic()
        if left > 0:
            self._connection.settimeout(left if self._pause is None else min(left, self._pause))
            try:
                read = self._wire.readinto(buffer)
            except TimeoutError:
                if self._pause is not None and time.monotonic() < self._end:
                    raise
            else:
                self._left -= read or 0
                return read
        raise _Exceeded(f"the answer takes more than {self._limits.seconds:g} s{self._limits.named('answer_timeout')}")

    def close(self) -> None:
        self._wire.close()
        super().close()


class _HTTPResponse(http.client.HTTPResponse):
    """Reads an answer, from its first byte on, by :class:`_Wire`."""

    def __init__(self, limits: Limits, connection: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(connection, *args, **kwargs)
        self.fp = io.BufferedReader(_Wire(self.fp.detach(), connection, limits))


def _too_long(limits: Limits) -> str:
    return f"the answer is longer than {limits.longest / MIB:g} MiB{limits.named('answer_limit')}"


def _decompressed(coding: str, wire: Iterator[bytes]) -> Iterator[bytes]:
    """Return a body in pieces of at most :data:`CHUNK` bytes.

    Requests ask for gzip or no compression. Any other, or one in another, is refused.
    """
    if coding in ("", "identity"):
        yield from wire
        return
    if coding not in ("gzip", "x-gzip"):
        if any(wire):
            raise _Exceeded(f"the answer is compressed with {coding[:40]!r}, which was not asked for")
        return
    inflate, begun = zlib.decompressobj(16 + zlib.MAX_WBITS), False
    for piece in wire:
        while piece:
            begun = True
            try:
                yield inflate.decompress(piece, CHUNK)
            except zlib.error as error:
                raise requests.exceptions.ContentDecodingError(f"the answer is no gzip: {error}") from None
            if inflate.unused_data:
                raise requests.exceptions.ContentDecodingError("the answer goes on after its gzip")
            piece = inflate.unconsumed_tail
    if begun and not inflate.eof:
        raise requests.exceptions.ContentDecodingError("the answer ends within its gzip")


class LimitedAdapter(requests.adapters.HTTPAdapter):  # type: ignore[misc] # requests has no type information
    """Reads each answer within limits, before it is returned."""

    def __init__(self, limits: Limits | None = None, **kwargs: Any) -> None:
        self.limits = limits or Limits()
        super().__init__(**kwargs)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools of connections."""
        super().init_poolmanager(*args, **kwargs)
        _limit(self.poolmanager, self.limits)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        """Return the pools of connections to a proxy."""
        known = proxy in self.proxy_manager
        manager = super().proxy_manager_for(proxy, **kwargs)
        if not known:
            _limit(manager, self.limits)
        return manager

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        """Send a request and read its response.

        :raises Exception: ``limits.error``, if the response exceeds a limit
        """
        request.headers["Accept-Encoding"] = "gzip"
        try:
            response: Response = super().send(request, *args, **kwargs)
            response.__class__ = Response
            try:
                self._read(response)
            except BaseException:
                response.close()  # the rest is not read, so that the connection is of no further use
                raise
        except _Exceeded as error:
            raise self.limits.error(f"{_request(request)}: {error}") from None
        return response

    def _read(self, response: Response) -> None:
        """Read the body of a response."""
        response._share = _Share(self.limits)
        # Without this header urllib3 does not decompress, which it does without a limit in some versions and cases.
        coding = response.headers.get("Content-Encoding", "").strip().lower()
        response.raw.headers.pop("Content-Encoding", None)
        body, length = io.BytesIO(), 0
        page = response.status_code >= 400 and _HTML in response.headers.get("Content-Type", "").lower()
        for piece in _decompressed(coding, response.iter_content(CHUNK)):
            length += len(piece)
            if length > self.limits.longest:
                raise _Exceeded(_too_long(self.limits))
            response._share.raise_to(length)
            body.write(piece[: _PAGE - body.tell()] if page else piece)
        response._body = body.getvalue()


def _limit(manager: Any, limits: Limits) -> None:
    """Make the connections of a pool manager read their answers by :class:`_HTTPResponse`."""
    reads = {"response_class": staticmethod(functools.partial(_HTTPResponse, limits))}
    manager.pool_classes_by_scheme = {
        scheme: type(pool.__name__, (pool,), {"ConnectionCls": type("Connection", (pool.ConnectionCls,), reads)})
        for scheme, pool in manager.pool_classes_by_scheme.items()
    }
