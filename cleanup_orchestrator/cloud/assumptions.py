"""Checks at the start of a process that libraries still call what this package puts between them and the network.

The promises about tokens, writes and long answers rest on methods that keystoneauth, requests, urllib3 and http.client
call, and some of these are private. A new release of a library could stop calling one, and nothing would fail: the
calls would be made without the check. So each process that makes calls first makes a few through a real session, down
to sockets that lead nowhere, and looks at what was sent. "Hooks in libraries" in the documentation has all of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gzip
import re
import socket
import types
from collections.abc import Callable
from typing import Any

import keystoneauth1
import requests
import urllib3
from keystoneauth1 import plugin

from cleanup_orchestrator.cloud.session import Guard, GuardedSession, answer_limits, http_pool, read_only
from cleanup_orchestrator.core.step import LITERAL_PATH
from cleanup_orchestrator.errors import BadAnswer, CleanupError, Stopped, WriteRefused

_HOME, _FOREIGN = "http://endpoint.invalid", "http://foreign.invalid"
_TOKEN = "the-token-of-the-check"
_LONGEST = 4096
_PATIENCE = 5.0  #: seconds for one read of an answer


def _answer(status: str, body: bytes, *headers: str, missing: int = 0) -> bytes:
    """Return an answer; ``missing``: bytes of its body that do not come."""
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body) + missing}", "Connection: close", *headers, "", "")
    return "\r\n".join(lines).encode() + body


_OK = _answer("200 OK", b"{}")
_REDIRECT = _answer("307 Temporary Redirect", b"", f"Location: {_FOREIGN}/x")


@dataclasses.dataclass(frozen=True)
class _Case:
    """One call, and what must become of it."""

    what: str  #: what the call shows, for the error
    call: Callable[[GuardedSession], Any]
    error: type[Exception] | None = None  #: that must be raised
    sent: tuple[str, ...] = ()  #: the requests that must reach the network
    answer: bytes = _OK
    guard: Guard = read_only
    seconds: float = 60.0  #: the limit of the time of the answer


def _ended(session: GuardedSession) -> None:
    session.end("the check ends it")
    session.get(f"{_HOME}/x")


_CASES = (
    _Case("that calls are made at all", lambda s: s.get(f"{_HOME}/x"), sent=("GET /x",)),
    _Case("that tokens are sent to the catalog only", lambda s: s.get(f"{_FOREIGN}/x"), BadAnswer),
    _Case("that no redirect takes a token", lambda s: s.get(f"{_HOME}/x"), BadAnswer, ("GET /x",), _REDIRECT),
    _Case("that an inventory does not write", lambda s: s.delete(f"{_HOME}/x"), WriteRefused),
    _Case(
        "that no write is redirected",
        lambda s: s.delete(f"{_HOME}/x"),
        BadAnswer,
        ("DELETE /x",),
        _answer("307 Temporary Redirect", b"", f"Location: {_HOME}/y"),
        lambda *_: None,
    ),
    _Case("that an ended session makes no call", _ended, Stopped),
    _Case(
        "the limit of the length of an answer",
        lambda s: s.get(f"{_HOME}/x"),
        BadAnswer,
        ("GET /x",),
        _answer("200 OK", gzip.compress(bytes(2 * _LONGEST)), "Content-Encoding: gzip"),
    ),
    _Case(
        "the limit of the time of an answer",
        lambda s: s.get(f"{_HOME}/x"),
        BadAnswer,
        ("GET /x",),
        _answer("200 OK", b"{", missing=1),
        seconds=0.02,
    ),
    _Case(
        "that a path is sent as it is",
        lambda s: s.get(f"{_HOME}/x", headers={LITERAL_PATH: "/a/%2E%2E/../b"}),
        sent=("GET /a/%2E%2E/../b",),
    ),
)


class _Auth(plugin.BaseAuthPlugin):  # type: ignore[misc] # keystoneauth1 has no type information
    """An identity that has a token, and a catalog with one endpoint."""

    def get_token(self, session: Any, **_options: Any) -> str:
        """Return the token."""
        return _TOKEN

    def get_access(self, session: Any, **_options: Any) -> Any:
        """Return what is known of the token."""
        catalog = types.SimpleNamespace(catalog=[{"type": "network", "endpoints": [{"url": _HOME}]}])
        return types.SimpleNamespace(service_catalog=catalog, has_service_catalog=lambda: True)


class _Network:
    """Stands in for the network: gives each connection the same answer, and keeps what is sent over it."""

    def __init__(self) -> None:
        self.answer, self.limits = b"", answer_limits(longest=_LONGEST)
        self._wires: list[socket.socket] = []

    def pool(self) -> requests.Session:
        """Return a pool as the sessions of the process have it, whose connections are this network's."""
        made = http_pool(self.limits)
        made.trust_env = False  # no proxy
        manager = made.get_adapter(_HOME).poolmanager
        pool = manager.pool_classes_by_scheme["http"]
        connection = type("Connection", (pool.ConnectionCls,), {"connect": lambda made: self._connect(made)})
        manager.pool_classes_by_scheme = {"http": type("Pool", (pool,), {"ConnectionCls": connection})}
        return made

    def _connect(self, connection: Any) -> None:
        connection.sock, other = socket.socketpair()
        other.sendall(self.answer)
        other.setblocking(False)
        self._wires.append(other)

    def sent(self) -> bytes:
        """Return what was sent since the last call."""
        data = b""
        while self._wires:
            with self._wires.pop(0) as wire, contextlib.suppress(OSError):
                data += wire.recv(65536)
        return data


@functools.cache
def check() -> None:
    """Check each hook that a promise of the sessions rests on, once in a process.

    It takes a hundredth of a second of processor time.

    :raises CleanupError: a library does not call one of them
    """
    network = _Network()
    with network.pool() as pool:
        for case in _CASES:
            network.answer, network.limits.seconds = case.answer, case.seconds
            session = GuardedSession(case.guard, auth=_Auth(), session=pool, timeout=_PATIENCE)
            raised: Exception | None = None
            try:
                case.call(session)
            except Exception as error:
                raised = error
            sent = network.sent()
            requests_ = tuple(line.decode() for line in re.findall(rb"^(\S+ \S+) HTTP/1\.1\r$", sent, re.M))
            right = type(raised) is (case.error or type(None)) and requests_ == case.sent
            if not right or sent.count(_TOKEN.encode()) != len(requests_):
                raise CleanupError(
                    f"the installed libraries do not fit this release: it cannot rely on {case.what} (sent: "
                    f"{', '.join(requests_) or 'nothing'}; raised: {raised!r}; keystoneauth1 "
                    f"{keystoneauth1.__version__}, requests {requests.__version__}, urllib3 {urllib3.__version__}): "
                    "install versions of them that this release was tested with"
                )
