"""The errors of this package, and the meaning of a failed cloud call for a sweep."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.redact import short


class CleanupError(Exception):
    """Base class of the errors of this package. ``code`` is stable."""

    code = "error"


class BadAnswer(CleanupError):
    """A service returned a malformed answer. It counts as unknown, never as empty."""

    code = "bad_answer"


class ListChanged(CleanupError):
    """A list changed so much while it was read that no attempt came to its end. It counts as unknown."""

    code = "list_changed"


class UnreadUse(CleanupError):
    """Whether other projects use a resource could not be read."""

    code = "unread_use"

    def __init__(self, message: str, reason: Reason, remedy: str) -> None:
        """Take the reason of the failure, and what a person does about it."""
        super().__init__(message)
        self.reason, self.remedy = reason, remedy


class Stopped(CleanupError):
    """The deletion was cancelled, or the lease was lost. No write call is made."""

    code = "stopped"


class WritesWithheld(Stopped):
    """The deletion itself no longer allows the write. The worker still holds the step: what it reads counts."""


class Cancelled(WritesWithheld):
    """The deletion was cancelled."""


class OnHold(WritesWithheld):
    """A lien, the brake or a delete window withholds writes until it ends."""

    code = "on_hold"


class WriteRefused(CleanupError):
    """A defect: an inventory or a dry run tried to write. The call was not made."""

    code = "write_refused"


class NoProjectToken(CleanupError):
    """Keystone issues no token scoped to the project."""

    code = "no_project_token"


class ScopeDisabled(NoProjectToken):
    """Keystone issues no token scoped to the project, because the project or its domain is disabled."""


class UnreadableName(CleanupError):
    """A service cannot read the project's token, because a name in it is not Latin-1."""

    code = "unreadable_name"


class NoJanitor(CleanupError):
    """The janitor has no usable token: there is none, it has too many roles, or lacks its role on the project."""

    code = "no_janitor"


class NoServiceToken(CleanupError):
    """No token may be sent to services that speak the project resources protocol."""

    code = "no_service_token"


class RateLimited(CleanupError):
    """A call got no permit in time, under the limits or a pause of the service."""

    code = "rate_limited"


class ProjectGone(CleanupError):
    """The question can be answered only while Keystone knows the project."""

    code = "project_gone"


class ProjectKnown(WritesWithheld):
    """Keystone knows the project of an adopted deletion, which it must not."""

    code = "project_known"


class ProjectProtected(WritesWithheld):
    """The project is on the never-delete list now."""

    code = "project_protected"


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """The meaning of an error: a reason code and a message."""

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
    """Return the meaning of an error of a cloud call.

    It recognizes exceptions of openstacksdk and keystoneauth by their attributes (``status_code``, ``http_status``), so
    that this module imports neither. 404 is ``not_supported`` here: a caller that deletes handles it before.
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
    if isinstance(error, UnreadableName):
        return Failure(Reason.UNREADABLE_NAME, message)
    if isinstance(error, NoJanitor):
        return Failure(Reason.NO_JANITOR, message)
    if isinstance(error, NoServiceToken):
        return Failure(Reason.NO_SERVICE_TOKEN, message)
    if isinstance(error, ProjectGone):
        return Failure(Reason.PROJECT_GONE, message)
    if isinstance(error, UnreadUse):
        return Failure(error.reason, message)
    if isinstance(error, ListChanged):
        return Failure(Reason.ERROR, message)
    if isinstance(error, RateLimited):
        return Failure(Reason.RATE_LIMITED, message)
    names = {cls.__name__ for cls in type(error).__mro__}
    if "SQLAlchemyError" in names:  # the text has the statement, its values and the host of the database
        return Failure(Reason.STOPPED, "the orchestrator's database does not answer, or refuses a statement")
    status = getattr(error, "status_code", None) or getattr(error, "http_status", None)
    if isinstance(status, int):
        reason = _BY_STATUS.get(status, Reason.REFUSED if 400 <= status < 500 else Reason.ERROR)
        return Failure(reason, message, status)
    # NotSupported: raised by the SDK if the endpoint does not tell which API versions it offers.
    # ServiceDisabledException: raised by the SDK if the catalog has no endpoint of the service.
    if names & {
        "NotSupported",
        "ServiceDisabledException",
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
    """Return the text of an error; empty if its ``__str__`` fails, as a plugin's may."""
    try:
        return str(error)
    except Exception:
        return ""


def body(response: Any, *keys: str) -> Mapping[str, Any]:
    """Return the JSON object in an answer of Keystone.

    :param response: a ``requests.Response``
    :param keys: keys that must be in it
    :raises BadAnswer: it is truncated or no such object; a proxy may answer 200 with an HTML page
    """
    try:
        found = response.json()
    except ValueError:
        found = None
    if not isinstance(found, Mapping) or any(key not in found for key in keys):
        raise BadAnswer("Keystone's answer is malformed" + (f": no {', no '.join(keys)}" if keys else ""))
    return found


def keystone_says_not_found(response: Any) -> bool:
    """Return whether a 404 is Keystone's, and not that of a proxy without a backend.

    A project that counts as gone is no longer queried nor locked, so the answer must have Keystone's format.

    :param response: a ``requests.Response``
    """
    try:
        body = response.json()
    except ValueError:
        return False
    said = body.get("error") if isinstance(body, Mapping) else None
    return isinstance(said, Mapping) and said.get("code") == 404 and bool(said.get("message"))


def expect_keystones(error: Any) -> None:
    """Check that a 404 is Keystone's, because the caller takes it as a proof that the thing is gone.

    :param error: a ``keystoneauth1.exceptions.NotFound``
    :raises BadAnswer: it is that of a proxy without a backend, or has no answer, so that nothing is known
    """
    if error.response is None or not keystone_says_not_found(error.response):
        raise BadAnswer(f"something answered 404 to {error.method} {error.url}, and not as Keystone does") from error
