"""Whether this process can do its work: what ``/healthcheck`` says, of the API and on the monitoring port.

Each part is asked with a short time-out, and its answer kept for a moment: a health check never hangs, and many of them
cost no more than one. No text of an error is shown, only its kind: a URL or a password cannot be in it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import webob
import webob.dec
from keystoneauth1 import exceptions as ka_exceptions
from oslo_log import log

from cleanup_orchestrator.monitoring.probe import CachedProbe, NoAnswer

if TYPE_CHECKING:
    from cleanup_orchestrator.cloud.connections import Clouds

LOG = log.getLogger(__name__)

PATH = "/healthcheck"

#: Seconds after which a part counts as not answering: below what load balancers wait (HAProxy's default is 10).
TIMEOUT = 3.0
#: Seconds for which an answer is given again.
KEEP = 2.0


class Unfit(Exception):
    """Something that this process rests on is not as it should be. Its text is shown to whoever asks."""


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """Something that this process rests on."""

    name: str  #: ``store``, ``keystone``, ``bus``
    check: Callable[[], Any]  #: raises when it does not answer
    needed: bool  #: without it nothing works (503); else the work goes on, only slower, and the answer says so (200)
    without: str = ""  #: how the work goes on without it


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a part answered."""

    part: Part
    ok: bool
    message: str  #: empty if it is fine
    seconds: float  #: until it answered

    def __str__(self) -> str:
        """Return the line of the plain answer."""
        return f"{self.part.name} unavailable" + (f": {self.part.without}" if not self.part.needed else "")


def keystone(clouds: Clouds) -> None:
    """Have Keystone look at the orchestrator's own token: its database, its cache and our password are all in that.

    :raises keystoneauth1.exceptions.ClientException: when it does not answer, or gives no token
    """
    session = clouds.admin_session()
    try:
        clouds.identity(session).get("/auth/tokens?nocatalog", headers={"X-Subject-Token": session.get_token()})
    except ka_exceptions.NotFound:  # it had run out, so that we were given another one: Keystone answers
        LOG.debug("the token was replaced while it was looked at")


class Health:
    """Asks the parts, at once and not one after the other."""

    def __init__(self, parts: Sequence[Part], timeout: float = TIMEOUT, keep: float = KEEP) -> None:
        self._asked = [(part, CachedProbe(part.check, timeout, keep)) for part in parts]
        self._before: dict[str, str] = {}

    def answers(self) -> tuple[Answer, ...]:
        """Return every part's answer; takes no longer than the time-out."""
        for _, ask in self._asked:
            ask.begin()
        found = []
        for part, ask in self._asked:
            call, message = ask.begin(), ""
            try:
                ask()
            except (NoAnswer, Unfit) as error:
                message = str(error)
            except Exception as error:
                message = type(error).__name__
            seconds = (call.ended or time.monotonic()) - call.began
            found.append(Answer(part, not message, message, round(seconds, 3)))
            if message != self._before.get(part.name, ""):  # once, and not with each of ten checks a second
                said = f"does not answer: {message}" if message else "answers again"
                (LOG.error if message else LOG.info)("health check: %s %s", part.name, said)
            self._before[part.name] = message
        return tuple(found)

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        """Answer one check: plain text, or JSON to who asks for it."""
        if request.method not in ("GET", "HEAD"):
            return webob.Response(status=405, headerlist=[("Allow", "GET, HEAD")])
        answers = self.answers()
        down = any(not a.ok and a.part.needed for a in answers)
        if request.method == "HEAD" and not down:
            return webob.Response(status=204)
        status = 503 if down else 200
        offers = request.accept.acceptable_offers(["text/plain", "application/json"])
        if offers and offers[0][0] == "application/json":
            return webob.Response(status=status, json_body=describe(answers), charset="UTF-8")
        lines = [str(a) for a in answers if not a.ok]
        text = "\n".join(lines if down else ["OK", *lines])
        return webob.Response(status=status, text=text, content_type="text/plain", charset="UTF-8")


def describe(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the answers as the JSON body has them."""
    bad = [a for a in answers if not a.ok]
    status = "unavailable" if any(a.part.needed for a in bad) else "degraded" if bad else "ok"
    parts = {
        a.part.name: {"ok": a.ok, "needed": a.part.needed, "message": a.message, "seconds": a.seconds} for a in answers
    }
    return {"status": status, "parts": parts}
