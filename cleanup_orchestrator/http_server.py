"""The HTTP server of the API and the monitoring port: waitress with limits.

One thread reads and writes for all connections. It passes a request to another thread when the request is complete. So
a client that sends or reads slowly occupies a socket, but no thread. The size of a request is limited, and the time to
send it and to read the answer. A connection has one request under way: of several pipelined requests only the first is
answered.

The subclasses of waitress stop two attacks that take few bytes and no token:

1. Clients that send a request or read an answer slowly keep their connections, until no other client gets one.
2. A head or a chunk whose parsing takes quadratic time stops the thread that serves all connections: 64 KiB of blanks
   in a header take 13 seconds.

waitress would need three changes, so that the subclasses can go: its regular expressions match in linear time;
``ChunkedReceiver`` enforces the limits ``max_control_line`` and ``max_trailer`` that it names in a comment;
``maintenance`` closes a connection whose request is incomplete, or whose answer is not read, after a time. A search of
its issues and pull requests found none of them. Its pull request 503, for release 4.0.0, changes the parser that
``_Request`` extends. Therefore setup.cfg excludes this release.
"""

from __future__ import annotations

import dataclasses
import http
import json
import logging
import re
import resource
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, ThreadedTaskDispatcher
from waitress.utilities import BadRequest, Error

#: Bytes of a request's line and headers. A token has some hundred bytes, in the largest formats some thousand.
MAX_HEAD = 64 * 1024
#: Bytes of a body. The API has a lower limit with its own error; this one stops clients that send more regardless.
MAX_BODY = 128 * 1024
#: Bytes of an unfinished control line of a chunk, and of the trailer.
MAX_CONTROL = 4 * 1024
#: Open files that a process needs besides the connections of a server: database, Keystone, broker, logs, monitoring.
_OTHER_FILES = 256
#: Seconds between two checks for late clients.
_INTERVAL = 1
#: Seconds for which the loop waits for an event.
_POLL = 1.0

#: Request lines of HTTP/1.0 and HTTP/1.1 (RFC 9112, 3), and header lines without folding (RFC 9112, 5). No part matches
#: the character that ends it, and all quantifiers are possessive, so a match takes linear time.
_REQUEST_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Z]++ [\x21-\x7e]++ HTTP/1\.[01]")
_HEADER_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]++):([\t\x20-\x7e\x80-\xff]*+)")
#: Headers of answers without the application. The application adds the same headers to its answers.
_HEADERS = (
    ("Content-Type", "application/json"),
    ("Cache-Control", "no-store"),
    ("Vary", "X-Auth-Token, OpenStack-API-Version"),
)

#: By status: the code and the text of an error of this server. ``api.errors`` explains the codes.
ERRORS = {
    400: ("bad_request", "this is not an HTTP request"),
    408: ("request_timeout", "the request did not arrive in time"),
    413: ("body_too_large", f"the body is larger than {MAX_BODY} bytes"),
    431: ("request_header_fields_too_large", f"the request's line and headers are larger than {MAX_HEAD} bytes"),
    500: ("internal_error", "an unexpected error: see the log of the server"),
    501: ("not_implemented", "the only Transfer-Encoding of this server is chunked"),
}

_LOG = logging.getLogger(__name__)


class _Refusal(ErrorTask):
    """Answers a refused request, or an error of the application, in the shape of the API."""

    def execute(self) -> None:
        """Write the answer, and close the connection."""
        status = self.request.error.code
        code, detail = ERRORS[status]
        title = http.HTTPStatus(status).phrase
        error: dict[str, Any] = {"status": status, "code": code, "title": title, "detail": detail}
        error |= {"limit": MAX_BODY} if status == 413 else {}
        body = json.dumps({"errors": [{**error, "request_id": f"req-{uuid.uuid4()}"}]}).encode()
        self.status = f"{status} {self.request.error.reason}"
        self.response_headers.extend(_HEADERS)
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class _Chunks(ChunkedReceiver):
    """A chunked body with limited control lines and trailer.

    waitress searches the whole unfinished line for each piece that arrives. A line without an end would take quadratic
    time.
    """

    def received(self, data: bytes) -> int:
        """Take a piece of the body; return the number of bytes that belong to it."""
        taken: int = super().received(data)
        if max(len(self.control_line), len(self.trailer)) > MAX_CONTROL:
            self.error = BadRequest(f"a control line or the trailer is larger than {MAX_CONTROL} bytes")
        return taken


class _Request(HTTPRequestParser):
    """One request.

    If more data follows the request, answer it, drop the rest and close the connection. Otherwise a client could
    request many large answers and read none of them: they would fill the memory or block the threads.
    """

    body_rcv: Any
    path = ""  #: waitress logs it for each client that disconnects early, even if no path was parsed

    def received(self, data: bytes) -> int:
        """Take data of the client; return the number of bytes taken."""
        taken: int = super().received(data)
        if self.completed:
            # The request is refused or has no body. After a "100 Continue" waitress would wait for a body.
            self.expect_continue = False
        if not self.completed or self.empty or taken == len(data):
            return taken
        self.headers["CONNECTION"] = "close"
        return len(data)

    def parse_header(self, header_plus: bytes) -> None:
        """Parse the request line and the header lines.

        The regular expressions of waitress take quadratic time for some heads, and they hold the GIL in the thread that
        serves all connections. Therefore waitress gets only lines that match in linear time, without the blanks around
        the values.

        :raises ParsingError: if a line is malformed
        """
        first, *others = header_plus.split(b"\r\n")
        if _REQUEST_LINE.fullmatch(first) is None:
            raise ParsingError("the request line is malformed")
        lines = [first]
        for line in filter(None, others):
            field = _HEADER_LINE.fullmatch(line)
            if field is None:
                raise ParsingError("a header line is malformed")
            lines.append(field[1] + b":" + field[2].strip(b" \t"))
        try:
            super().parse_header(b"\r\n".join(lines) + b"\r\n\r\n")
        except ValueError as error:  # an invalid IPv6 address in brackets, or a Content-Length of over 4300 digits
            raise ParsingError("the URI or the Content-Length is malformed") from error
        if self.chunked:
            self.body_rcv = _Chunks(self.body_rcv.getbuf())


class _Timeout(Error):
    code = 408
    reason = "Request Timeout"


class _Channel(HTTPChannel):
    """One connection."""

    parser_class = _Request
    error_task_class = _Refusal
    request: Any
    requests: list[Any]
    awaited: object = None  #: what the client has not completed: a request, or the reading of an answer
    awaited_since = 0.0

    def end_if_late(self, now: float, patience: float) -> None:
        """Refuse a request that takes more than ``patience`` seconds, or close if the client reads so slowly."""
        unread = self.total_outbufs_len > 0
        awaited = self.outbufs if unread else self.request
        if awaited is not self.awaited:
            self.awaited, self.awaited_since = awaited, now
        late = awaited is not None and now - self.awaited_since > patience
        if self.will_close or (late and unread):
            self.handle_close()  # at once: for a client that does not read, the loop would wait for ever to write
        elif late and not (self.requests or self.close_when_flushed):
            self._refuse()

    def _refuse(self) -> None:
        """Let a thread answer the incomplete request with an error."""
        with self.requests_lock:
            late, self.request = self.request, None
            late.version, late.error = "1.1", _Timeout("")
            self.requests.append(late)
            self.server.add_task(self)


class _Listener(TcpWSGIServer):
    """One listening address."""

    channel_class = _Channel
    patience: float

    def maintenance(self, now: float) -> None:
        """Close late connections; the loop calls it at an interval."""
        super().maintenance(now)
        for channel in tuple(self.active_channels.values()):
            channel.end_if_late(time.monotonic(), self.patience)


def _allow_open_files(connections: int) -> None:
    """Raise the soft limit of open files to the hard limit if the connections need it.

    Without a free file descriptor the process reaches neither database nor Keystone, and the loop retries to accept
    the next connection without a pause.

    :raises OSError: if the hard limit is too low
    """
    needed = connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    infinite = hard == resource.RLIM_INFINITY
    if not infinite and hard < needed:
        raise OSError(
            f"{connections} connections need {needed} open files, but this process may open only {hard}: raise the "
            "limit (LimitNOFILE in the unit), or lower [api] connections"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed if infinite else hard, hard))


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What a server allows its clients."""

    threads: int  #: requests that are answered at once
    #: seconds in which a whole request has to arrive, in which an answer has to be read, and for which a connection may
    #: be idle
    patience: float
    connections: int  #: connections that are open at once; further ones wait in the kernel
    stop_patience: float = 1.0  #: seconds in which the requests under way may end when the server stops


class Server:
    """An HTTP server on one host name and port."""

    def __init__(
        self,
        host: str,
        port: int,
        application: Callable[..., Any],
        limits: Limits,
    ) -> None:
        """Listen. :meth:`serve` answers the requests.

        :raises OSError: if the address is in use, or the process may not open enough files for the connections
        """
        _allow_open_files(limits.connections)
        settings = Adjustments(
            host=host,
            port=port,
            threads=limits.threads,
            ident=None,
            max_request_header_size=MAX_HEAD,
            max_request_body_size=MAX_BODY,
            connection_limit=limits.connections + 10,  # it includes the listening sockets
            channel_timeout=limits.patience,
            cleanup_interval=_INTERVAL,
            asyncore_use_poll=True,
            log_socket_errors=False,
            # [oslo_middleware] enable_proxy_headers_parsing decides whether the headers of a proxy count.
            clear_untrusted_proxy_headers=False,
        )
        logging.getLogger("waitress.queue").setLevel(
            logging.ERROR
        )  # it warns about each request that waits for a thread
        self._map: dict[Any, Any] = {}
        self._tasks = ThreadedTaskDispatcher()
        self._listeners: list[_Listener] = []
        self._stop, self._stop_patience = threading.Event(), limits.stop_patience
        try:
            for address in settings.listen:
                listener = _Listener(
                    application, self._map, dispatcher=self._tasks, adj=settings, sockinfo=address, _start=True
                )
                listener.patience = limits.patience
                self._listeners.append(listener)
        except OSError:
            wasyncore.close_all(self._map)
            raise
        self._tasks.set_thread_count(limits.threads)

    def serve(self) -> None:
        """Answer requests until :meth:`stop`."""
        while not self._stop.is_set():
            self._poll(_POLL)
        for listener in self._listeners:
            # Its own close() would also close the trigger. A thread may use it after the stop, when another file of
            # this process may have its number.
            wasyncore.dispatcher.close(listener)
        until = time.monotonic() + self._stop_patience
        while self._busy() and time.monotonic() < until:
            self._poll(0.1)
        self._tasks.shutdown(timeout=max(0.0, until - time.monotonic()))
        for channel in self._channels():
            channel.handle_close()
        self._map.clear()

    def stop(self) -> None:
        """Stop accepting requests.

        :meth:`serve` returns when the requests under way have ended, or after ``stop_patience``.
        """
        self._stop.set()
        self._listeners[0].pull_trigger()

    def _channels(self) -> list[_Channel]:
        return [channel for listener in self._listeners for channel in tuple(listener.active_channels.values())]

    def _busy(self) -> bool:
        """Return whether a request or an answer is under way. Closes idle connections."""
        channels = self._channels()
        for channel in channels:
            if not channel.requests and not channel.total_outbufs_len:
                channel.will_close = True
        return any(channel.requests or channel.total_outbufs_len for channel in channels)

    def _poll(self, seconds: float) -> None:
        try:
            wasyncore.loop(seconds, True, self._map, 1)
        except Exception:  # the error of one connection must not end the others
            _LOG.exception("error on a connection")
            time.sleep(0.05)
