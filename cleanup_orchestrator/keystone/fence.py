"""The token fence: refuses tokens for fenced projects.

No token for a fenced project is issued or validated, except for the orchestrator's user and the deletion's janitor.

The fence is a project option in Keystone's database (:data:`protocol.FENCE_OPTION`). A PATCH of the project sets and
lifts it, and it disappears with the project; the module ``guard`` tells who may do that. Every process keeps a copy of
the set of fenced projects. A decision needs a copy that is not older than ``MAX_AGE``. A process that cannot read the
set refuses every project-scoped token with 503.

Tokens are checked at Keystone's token provider, above its caches. All ways to log in (password, application credential,
trust, EC2, OAuth, federation, ...) use the token provider.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from oslo_config import cfg

from cleanup_orchestrator.keystone import protocol

LOG = logging.getLogger(__name__)

OPTS = {
    protocol.GROUP: [
        cfg.FloatOpt(
            "fence_interval",
            default=0.25,
            min=0.05,
            max=0.5,
            help="Seconds between two readings of the fenced projects in each process. A reading is one small query.",
        ),
    ]
}

#: Maximum age of a reading in seconds. Without a younger one, project-scoped tokens are refused with 503.
MAX_AGE = 0.9
#: Seconds after which a reading counts as stuck (for example on a dead connection) and another thread takes over.
STUCK = 5.0


class Unknown(Exception):
    """The set of fenced projects is not known now."""


class Fenced(NamedTuple):
    """The fence of one project."""

    deletion_id: str
    janitor_id: str = ""  #: the user, besides the orchestrator's, that it does not stop


#: The fences by project id.
Fences = Mapping[str, Fenced]


class Reading(NamedTuple):
    """The fences, and the time at which the reading began.

    Later changes can be missing.
    """

    began: float
    fences: Fences


def clock() -> float:
    """Return a time in seconds that also counts while the machine is suspended."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Reader:
    """The copy of the fences in one process.

    A thread reads the fences at an interval, so that requests normally do not wait. Some servers stop threads between
    requests. Then a request wakes the thread and waits for a reading. Only that thread reads: it has no open
    transaction, which would show an old state, and a hanging database blocks only that thread.
    """

    def __init__(self, read: Callable[[], Fences], interval: float, max_age: float) -> None:
        """Wrap ``read``, which returns the current fences or raises."""
        self._read, self._interval, self._max_age = read, interval, max_age
        self._last = Reading(float("-inf"), {})
        self._condition = threading.Condition()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._reading_since: float | None = None
        self._failed = float("-inf")  # when the latest failed reading began
        self._broken = False

    def fences(self) -> Fences:
        """Return all fences. They were read at most ``max_age`` seconds ago.

        :raises Unknown: if they cannot be read in that time
        """
        last = self._last
        if clock() - last.began <= self._max_age:
            return last.fences
        return self._wait_for_reading()

    def _wait_for_reading(self) -> Fences:
        arrived = clock()
        with self._condition:
            while True:
                self._ensure_thread()
                now = clock()
                if now - self._last.began <= self._max_age:
                    return self._last.fences
                # An earlier failure does not count: its connection may have been idle for too long.
                if self._failed >= arrived:
                    raise Unknown("the fenced projects cannot be read")
                if now - arrived >= self._max_age:
                    raise Unknown("the fenced projects could not be read in time")
                self._wanted.set()
                self._condition.wait(arrived + self._max_age - now)

    def _ensure_thread(self) -> None:
        """Start the thread if none runs, or if it is dead or stuck.

        The caller holds the lock.
        """
        stuck = self._reading_since is not None and clock() - self._reading_since > STUCK
        if self._thread is not None and self._thread.is_alive() and not stuck:
            return
        self._reading_since = None
        thread = threading.Thread(target=self._run, name="project-cleanup-fence", daemon=True)
        try:
            thread.start()  # it first waits for the lock
        except RuntimeError as error:
            raise Unknown(f"no thread can be started to read the fenced projects: {error}") from error
        self._thread = thread

    def _run(self) -> None:
        while True:
            with self._condition:
                if self._thread is not threading.current_thread():
                    return  # this thread was stuck, and another one has taken over
                began = self._reading_since = clock()
            try:
                reading = Reading(began, self._read())
            except Exception as error:
                self._report(error)
                reading = None
            with self._condition:
                if self._thread is not threading.current_thread():
                    return
                self._reading_since = None
                if reading is None:
                    self._failed = began
                else:
                    self._last = reading
                self._condition.notify_all()
            if reading is not None:
                self._report(None)
            self._wanted.wait(self._interval)
            self._wanted.clear()

    def _report(self, error: Exception | None) -> None:
        """Log the first failed reading, and the first successful one after it."""
        if error is not None and not self._broken:
            LOG.error("the fenced projects cannot be read, project-scoped tokens will be refused with 503: %s", error)
        elif error is None and self._broken:
            LOG.warning("the fenced projects can be read again")
        self._broken = error is not None


def is_password_login(token: Any) -> bool:
    """Return whether a token was issued for a user's password alone.

    The orchestrator logs in this way for each project. A token that a service made of the orchestrator's token (with
    the method ``token``, a trust, an application credential, an EC2 credential, OAuth) is no such token.

    :param token: Keystone's ``TokenModel``
    """
    derived = ("trust_id", "application_credential_id", "access_token_id", "oauth2_credential_id", "is_federated")
    return list(token.methods or ()) == ["password"] and not any(getattr(token, name, None) for name in derived)


class Fence:
    """Decides about tokens. Has one :class:`Reader` for each process.

    :param read: see :class:`Reader`
    :param user_id: id of the orchestrator's user, which no fence stops
    """

    def __init__(self, read: Callable[[], Fences], user_id: str, interval: float, max_age: float) -> None:
        self._make = functools.partial(Reader, read, interval, max_age)
        self._user_id = user_id
        self._readers: dict[int, Reader] = {}

    def stops(self, token: Any, canary: str | None = None) -> bool:
        """Return whether a token is refused.

        The orchestrator's user is exempt with a token that it got with its password. A service that holds its token for
        one project must not reach another project. The janitor of a deletion is exempt for the project of that deletion
        only, so that a token that a service made of its token reaches no other project either.

        :param token: Keystone's ``TokenModel``
        :param canary: id of a deletion whose fence also stops the exempt users
        :raises Unknown: if it is not known whether the project is fenced
        """
        exempt = token.user_id == self._user_id and is_password_login(token)
        if not token.project_id or (exempt and canary is None):
            return False
        fence = self._reader().fences().get(token.project_id)
        if fence is None:
            return False
        exempt = exempt or bool(fence.janitor_id and token.user_id == fence.janitor_id)
        return not exempt or fence.deletion_id == canary

    def _reader(self) -> Reader:
        # Servers fork after they have loaded the application, some without Python's fork hooks. A child must not
        # use the thread or the lock of its parent.
        pid = os.getpid()
        reader = self._readers.get(pid)
        return reader if reader is not None else self._readers.setdefault(pid, self._make())


_ID = {"type": "string", "pattern": rf"^{protocol.ID_PATTERN}\Z"}
#: The JSON schemas of the options. Keystone checks them before it checks who may change an option.
_SCHEMAS: dict[str, dict[str, Any]] = {
    protocol.FENCE_OPTION: {"type": "string", "pattern": r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z"},
    protocol.JANITOR_OPTION: _ID,
    protocol.SERIAL_OPTION: {"type": "integer"},
    protocol.CHANGED_BY_OPTION: _ID,
}


def register_options() -> None:
    """Register the project options.

    Call it before Keystone's schemas are imported: the import freezes them.

    :raises RuntimeError: if the schemas are already imported
    """
    from keystone.common import resource_options
    from keystone.resource.backends import resource_options as project_options

    registry = project_options.PROJECT_OPTIONS_REGISTRY
    for name, id_ in protocol.OPTION_IDS.items():
        if id_ not in registry.option_ids:
            registry.register_option(resource_options.ResourceOption(id_, name, json_schema_validation=_SCHEMAS[name]))
    from keystone.resource import schema

    if protocol.FENCE_OPTION not in schema.project_update["properties"]["options"]["properties"]:
        raise RuntimeError("Keystone is already imported: import cleanup_orchestrator.keystone.wsgi before it")


def read_fences() -> Fences:
    """Return all fences from Keystone's database, by one query in a new transaction."""
    from keystone.common import sql
    from keystone.resource.backends.sql_model import ProjectOption

    ids = (protocol.FENCE_OPTION_ID, protocol.JANITOR_OPTION_ID)
    with sql.session_for_read() as session:
        columns = ProjectOption.project_id, ProjectOption.option_id, ProjectOption.option_value
        rows = list(session.query(*columns).filter(ProjectOption.option_id.in_(ids)))
    values = {(project_id, id_): str(value) for project_id, id_, value in rows}
    return {
        project_id: Fenced(value, values.get((project_id, protocol.JANITOR_OPTION_ID), ""))
        for (project_id, id_), value in values.items()
        if id_ == protocol.FENCE_OPTION_ID
    }


def _confirm(canary: str, response: Any) -> Any:
    """Say in a response that only the canary made it a refusal; see :data:`protocol.FENCED_HEADER`."""
    response.headers[protocol.FENCED_HEADER] = canary
    return response


def guard_tokens(fence: Fence, manager: Any = None) -> None:
    """Wrap Keystone's token provider with the fence.

    A refused validation is a 404, as for any invalid token. keystonemiddleware would turn other errors into a 503. A
    refused login is a 401.

    :param manager: the class to wrap; Keystone's by default
    """
    import flask
    from keystone import exception
    from keystone.token import provider

    class ServiceUnavailable(exception.Error):  # type: ignore[misc] # Keystone itself has one from release 30 on
        code, title = 503, "Service Unavailable"

    manager = manager or provider.Manager
    validate, issue = manager.validate_token, manager.issue_token

    def stops(token: Any, canary: str | None = None) -> bool:
        try:
            return fence.stops(token, canary)
        except Unknown as error:
            LOG.debug("refused with 503: %s", error)
            raise ServiceUnavailable("The projects with a token fence cannot be read now.") from error

    def stopped_by_canary(token: Any) -> bool:
        canary = flask.request.headers.get(protocol.CANARY_HEADER) if flask.has_request_context() else None
        if canary is None or not stops(token, canary):
            return False
        flask.after_this_request(functools.partial(_confirm, canary))
        return True

    @functools.wraps(validate)
    def validate_token(self: Any, token_id: Any, *args: Any, **kwargs: Any) -> Any:
        token = validate(self, token_id, *args, **kwargs)
        if stops(token) or stopped_by_canary(token):
            raise exception.TokenNotFound(token_id=token_id)
        return token

    @functools.wraps(issue)
    def issue_token(self: Any, *args: Any, **kwargs: Any) -> Any:
        # The token is issued but not returned yet: it has the user, the project and the way to log in.
        token = issue(self, *args, **kwargs)
        if stops(token) or stopped_by_canary(token):
            raise exception.Unauthorized(f"Project {token.project_id} is being deleted: it has a token fence.")
        return token

    manager.validate_token, manager.issue_token = validate_token, issue_token
