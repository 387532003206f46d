"""Answers ``/healthcheck``: whether this process can do its work.

The API and the monitoring port use it. Each part is probed with a short timeout, and its result is cached for some
seconds. So a health check never hangs, and many checks cost as much as one. An answer shows the type of an error, not
its text, which could contain a URL or a password.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import webob
import webob.dec
from oslo_log import log

from cleanup_orchestrator.monitoring.probe import CachedProbe, NoResponse

LOG = log.getLogger(__name__)

PATH = "/healthcheck"

#: Timeout of a probe in seconds. Shorter than the timeout of load balancers (HAProxy's default is 10).
TIMEOUT = 3.0
#: Seconds for which a result is cached.
KEEP = 2.0


class Unfit(Exception):
    """A part is not in order. The answer shows this text."""


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A service or a state that this process depends on."""

    name: str  #: ``store``, ``keystone``, ``bus``
    check: Callable[[], Any]  #: raises if the part does not answer
    needed: bool  #: without it the process cannot work (503); otherwise the work is only slower (200)
    without: str = ""  #: how the work continues without it


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """The result of a probe."""

    part: Part
    ok: bool
    message: str  #: empty if the part is in order
    seconds: float  #: duration of the probe

    def __str__(self) -> str:
        """Return the line in the plain text answer."""
        return f"{self.part.name} unavailable" + (f": {self.part.without}" if not self.part.needed else "")


class Health:
    """Probes the parts in parallel."""

    def __init__(self, parts: Sequence[Part], timeout: float = TIMEOUT, keep: float = KEEP) -> None:
        self._asked = [(part, CachedProbe(part.check, timeout, keep)) for part in parts]
        self._before: dict[str, str] = {}

    def results(self) -> tuple[Result, ...]:
        """Return the results of all parts within the timeout."""
        for _, ask in self._asked:
            ask.begin()
        results = []
        for part, ask in self._asked:
            call, message = ask.begin(), ""
            try:
                ask()
            except (NoResponse, Unfit) as error:
                message = str(error)
            except Exception as error:
                message = type(error).__name__
            seconds = (call.ended or time.monotonic()) - call.began
            results.append(Result(part, not message, message, round(seconds, 3)))
            if message != self._before.get(part.name, ""):  # log only changes: there can be many checks
                said = f"does not answer: {message}" if message else "answers again"
                (LOG.error if message else LOG.info)("health check: %s %s", part.name, said)
            self._before[part.name] = message
        return tuple(results)

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        """Return the results in plain text, or in JSON if the client accepts it."""
        if request.method not in ("GET", "HEAD"):
            return webob.Response(status=405, headerlist=[("Allow", "GET, HEAD")])
        results = self.results()
        down = any(not r.ok and r.part.needed for r in results)
        if request.method == "HEAD" and not down:
            return webob.Response(status=204)
        status = 503 if down else 200
        offers = request.accept.acceptable_offers(["text/plain", "application/json"])
        if offers and offers[0][0] == "application/json":
            return webob.Response(status=status, json_body=describe(results), charset="UTF-8")
        lines = [str(r) for r in results if not r.ok]
        text = "\n".join(lines if down else ["OK", *lines])
        return webob.Response(status=status, text=text, content_type="text/plain", charset="UTF-8")


def describe(results: Sequence[Result]) -> dict[str, Any]:
    """Return the JSON body for the results."""
    bad = [r for r in results if not r.ok]
    status = "unavailable" if any(r.part.needed for r in bad) else "degraded" if bad else "ok"
    parts = {
        r.part.name: {"ok": r.ok, "needed": r.part.needed, "message": r.message, "seconds": r.seconds} for r in results
    }
    return {"status": status, "parts": parts}
