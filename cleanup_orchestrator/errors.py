"""Errors of our own, and what an error of a cloud call means for a sweep."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.redact import short


class CleanupError(Exception):
    """Base of what this package raises on purpose. ``code`` is stable and machine-readable."""

    code = "error"


class BadAnswer(CleanupError):
    """A service answered in a shape that cannot be trusted. Unknown, never empty."""

    code = "bad_answer"


class Stopped(CleanupError):
    """The deletion was cancelled, or the lease was lost: no further write call is made."""

    code = "stopped"


class OnHold(Stopped):
    """A lien, the brake or the hours withhold it for now: no further write call is made, and it goes on by itself."""

    code = "on_hold"


class WriteRefused(CleanupError):
    """A write call was attempted during a look or a dry run. A defect, stopped before it did harm."""

    code = "write_refused"


class NoProjectToken(CleanupError):
    """No token scoped into the project can be had."""

    code = "no_project_token"


class NoJanitor(CleanupError):
    """The janitor gets no token for the project that may be used: it is not set up, or it has too many roles."""

    code = "no_janitor"


class RateLimited(CleanupError):
    """There was no turn to make a call in time: our own limits, or a service that asked us to wait."""

    code = "rate_limited"


class ProjectGone(CleanupError):
    """Only while Keystone knew the project could this have been answered."""

    code = "project_gone"


class ProjectKnown(Stopped):
    """Keystone knows the project, whose leftovers were to be deleted because it does not."""

    code = "project_known"


class ProjectProtected(Stopped):
    """The project is on the never-delete list by now."""

    code = "project_protected"


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """What an error means: a reason code and a sentence that names the way out."""

    reason: Reason
    message: str
    status: int | None = None  #: HTTP status, if there was an answer


_BY_STATUS = {
    401: Reason.FORBIDDEN,
    403: Reason.FORBIDDEN,
    404: Reason.NOT_SUPPORTED,
    405: Reason.NOT_SUPPORTED,
    409: Reason.IN_USE,
    413: Reason.RATE_LIMITED,
    429: Reason.RATE_LIMITED,
    498: Reason.RATE_LIMITED,
}


def classify(error: BaseException) -> Failure:
    """Tell what an error of a cloud call means.

    It knows openstacksdk's and keystoneauth's exceptions by their attributes (``status_code`` or ``http_status``), so
    that the core does not import either. 404 is ``not_supported`` here: whoever deletes treats it as gone before.
    """
    message = short(_text(error), 500) or type(error).__name__
    if isinstance(error, OnHold):
        return Failure(Reason.ON_HOLD, message)
    if isinstance(error, ProjectKnown):
        return Failure(Reason.PROJECT_KNOWN, message)
    if isinstance(error, ProjectProtected):
        return Failure(Reason.PROJECT_PROTECTED, message)
    if isinstance(error, Stopped):
        return Failure(Reason.STOPPED, message)
    if isinstance(error, BadAnswer):
        return Failure(Reason.BAD_ANSWER, message)
    if isinstance(error, NoProjectToken):
        return Failure(Reason.NO_PROJECT_TOKEN, message)
    if isinstance(error, NoJanitor):
        return Failure(Reason.NO_JANITOR, message)
    if isinstance(error, ProjectGone):
        return Failure(Reason.PROJECT_GONE, message)
    if isinstance(error, RateLimited):
        return Failure(Reason.RATE_LIMITED, message)
    status = getattr(error, "status_code", None) or getattr(error, "http_status", None)
    if isinstance(status, int):
        reason = _BY_STATUS.get(status, Reason.REFUSED if 400 <= status < 500 else Reason.ERROR)
        return Failure(reason, message, status)
    names = {cls.__name__ for cls in type(error).__mro__}
    # NotSupported: the SDK's word when nothing at the endpoint tells which versions it speaks.
    if names & {
        "NotSupported",
        "ConnectFailure",
        "ConnectTimeout",
        "Timeout",
        "ConnectionError",
        "TimeoutError",
        "EndpointNotFound",
    }:
        return Failure(Reason.UNREACHABLE, message)
    return Failure(Reason.ERROR, f"{type(error).__name__}: {message}"[:500])


def _text(error: BaseException) -> str:
    """Return an error's own words, if it can say them: a plugin's may be as broken as the plugin."""
    try:
        return str(error)
    except Exception:
        return ""


def body(response: Any, *keys: str) -> Mapping[str, Any]:
    """Return the JSON object of an answer of Keystone's.

    :param response: a ``requests.Response``
    :param keys: what must be in it
    :raises BadAnswer: when it was cut off, or is something else: a proxy answers 200 with its own page, too
    """
    try:
        found = response.json()
    except ValueError:
        found = None
    if not isinstance(found, Mapping) or any(key not in found for key in keys):
        raise BadAnswer("Keystone's answer is not what it should be" + (f": no {', no '.join(keys)}" if keys else ""))
    return found


def keystone_says_not_found(response: Any) -> bool:
    """Whether an answer of 404 is Keystone's own, and not a proxy's that does not know Keystone.

    What is taken for gone is not asked about, nor locked, any more; so the answer has to have Keystone's shape.

    :param response: a ``requests.Response``
    """
    try:
        body = response.json()
    except ValueError:
        return False
    said = body.get("error") if isinstance(body, Mapping) else None
    return isinstance(said, Mapping) and said.get("code") == 404 and bool(said.get("message"))
