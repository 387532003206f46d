"""The token fence: no token is issued or validated for a fenced project, but for the orchestrator's user.

The truth is in Keystone's own database: a project option (:data:`protocol.FENCE_OPTION`), so that a fence is set and
lifted by a plain PATCH of the project, and goes with it. Every process keeps a copy of the set of fenced projects, and
makes no decision on one that is older than ``MAX_AGE``. Not to know is not the same as not fenced: a process that
cannot read refuses every project-scoped token with 503.

Tokens are looked at where Keystone's token provider hands them out, above its caches: whatever the way in (password,
application credential, trust, EC2, OAuth, federation, ...), a token comes from there.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
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
            help="Seconds between two readings of the fenced projects, in each process: one small query.",
        ),
    ]
}

#: Seconds for which a reading holds. Without a younger one, project-scoped tokens are refused with 503.
MAX_AGE = 0.9
#: Seconds after which a reading counts as stuck (a connection that died silently) and another one is begun beside it.
STUCK = 5.0


class Unknown(Exception):
    """Which projects are fenced cannot be said now."""


#: The fences: project id -> id of the deletion that it belongs to.
Fences = Mapping[str, str]


class Reading(NamedTuple):
    """What was read, and when that began: whatever changed since may be missing."""

    began: float
    fences: Fences


def clock() -> float:
    """Return seconds that also pass while the machine is suspended."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Reader:
    """The fences as one process knows them.

    A thread reads them again and again, so that a request normally waits for nothing. Where it gets no time (a server
    without threads stops them between requests), the request that needs to know wakes it and waits. The reading is
    always done by that thread: it has no transaction open, in which an old state would be seen, and a database that
    hangs keeps one thread waiting and not all those that serve requests.
    """

    def __init__(self, read: Callable[[], Fences], interval: float, max_age: float) -> None:
        """``read`` returns all fences as they are when it is called, or raises."""
        self._read, self._interval, self._max_age = read, interval, max_age
        self._last = Reading(float("-inf"), {})
        self._condition = threading.Condition()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._reading_since: float | None = None
        self._failed = float("-inf")  # when the latest failed reading began
        self._broken = False

    def fences(self) -> Fences:
        """Return all fences, read ``max_age`` ago at most.

        :raises Unknown: when they cannot be read in that time
        """
        last = self._last
        if clock() - last.began <= self._max_age:
            return last.fences
        return self._wait_for_news()

    def _wait_for_news(self) -> Fences:
        arrived = clock()
        with self._condition:
            while True:
                self._ensure_thread()
                now = clock()
                if now - self._last.began <= self._max_age:
                    return self._last.fences
                # One that began before may have failed for reasons of then (a connection that slept too long).
                if self._failed >= arrived:
                    raise Unknown("the fenced projects cannot be read")
                if now - arrived >= self._max_age:
                    raise Unknown("the fenced projects could not be read in time")
                self._wanted.set()
                self._condition.wait(arrived + self._max_age - now)

    def _ensure_thread(self) -> None:
        """Start the thread: the first one, or one in place of one that died or is stuck. Called with the lock."""
        stuck = self._reading_since is not None and clock() - self._reading_since > STUCK
        if self._thread is not None and self._thread.is_alive() and not stuck:
            return
        self._reading_since = None
        thread = threading.Thread(target=self._run, name="project-cleanup-fence", daemon=True)
        try:
            thread.start()  # it waits for the lock before it does anything
        except RuntimeError as error:
            raise Unknown(f"no thread can be started to read the fenced projects: {error}") from error
        self._thread = thread

    def _run(self) -> None:
        while True:
            with self._condition:
                if self._thread is not threading.current_thread():
                    return  # it was stuck, and another one has taken over
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
        """Log once when it begins to fail, and once when it is over."""
        if error is not None and not self._broken:
            LOG.error("the fenced projects cannot be read, project-scoped tokens will be refused with 503: %s", error)
        elif error is None and self._broken:
            LOG.warning("the fenced projects can be read again")
        self._broken = error is not None


class Fence:
    """Decides about tokens; one reader for each process.

    :param read: as for :class:`Reader`
    :param user_ids: of the orchestrator's users (its own and the janitor), whom no fence stops
    """

    def __init__(self, read: Callable[[], Fences], user_ids: Collection[str], interval: float, max_age: float) -> None:
        self._make = functools.partial(Reader, read, interval, max_age)
        self._user_ids = frozenset(user_ids)
        self._readers: dict[int, Reader] = {}

    def stops(
        self, user_id: str | None, project_id: str | None, canary: str | None = None, rescoped: bool = False
    ) -> bool:
        """Return whether a token of this user for this project is refused.

        One that was got with a token for another project is refused like anybody's: the orchestrator logs in with
        its credentials for each project, and a service that has its token for one of them must reach no other.

        :param canary: id of the deletion whose fence is to stop the orchestrator's user, too
        :param rescoped: whether the token was got with one that is not for this project
        :raises Unknown: when it is not known whether the project is fenced
        """
        exempt = user_id in self._user_ids and not rescoped
        if not project_id or (exempt and canary is None):
            return False
        fence = self._reader().fences().get(project_id)
        return fence is not None and (not exempt or fence == canary)

    def _reader(self) -> Reader:
        # Servers fork after they have loaded the application, some without a word to Python: neither a thread nor a
        # lock may come over from the parent.
        pid = os.getpid()
        reader = self._readers.get(pid)
        return reader if reader is not None else self._readers.setdefault(pid, self._make())


def register_option() -> None:
    """Make the fence an option of projects. To be called before Keystone's schemas are imported: they are frozen then.

    :raises RuntimeError: when it is too late
    """
    from keystone.common import resource_options
    from keystone.resource.backends import resource_options as project_options

    def validate(value: object) -> None:
        if not isinstance(value, str) or not 0 < len(value) <= 64:
            raise TypeError(f"{protocol.FENCE_OPTION} is the id of a deletion")

    registry = project_options.PROJECT_OPTIONS_REGISTRY
    if protocol.FENCE_OPTION_ID not in registry.option_ids:
        registry.register_option(
            resource_options.ResourceOption(
                protocol.FENCE_OPTION_ID,
                protocol.FENCE_OPTION,
                validator=validate,
                json_schema_validation={"type": "string", "minLength": 1, "maxLength": 64},
            )
        )
    from keystone.resource import schema

    if protocol.FENCE_OPTION not in schema.project_update["properties"]["options"]["properties"]:
        raise RuntimeError("the fence came too late: import cleanup_orchestrator.keystone.wsgi before Keystone")


def read_fences() -> Fences:
    """Return all fences from Keystone's database: one query in a transaction of its own."""
    from keystone.common import sql
    from keystone.resource.backends.sql_model import ProjectOption

    with sql.session_for_read() as session:
        columns = ProjectOption.project_id, ProjectOption.option_value
        rows = session.query(*columns).filter(ProjectOption.option_id == protocol.FENCE_OPTION_ID)
        return {project_id: str(value) for project_id, value in rows}


def guard_tokens(fence: Fence, manager: Any = None) -> None:
    """Put the fence around Keystone's token provider.

    A refused validation is a 404, as of any token that is not valid: keystonemiddleware makes 503 of anything else. A
    refused login is a 401.

    :param manager: the class to wrap; Keystone's by default
    """
    import flask
    from keystone import exception
    from keystone.token import provider

    manager = manager or provider.Manager
    validate, issue = manager.validate_token, manager.issue_token

    def stops(token: Any, canary: str | None = None, rescoped: bool = False) -> bool:
        try:
            return fence.stops(token.user_id, token.project_id, canary, rescoped)
        except Unknown as error:
            LOG.debug("refused with 503: %s", error)
            raise exception.ServiceUnavailable("The projects with a token fence cannot be read now.") from error

    def is_rescoped(self: Any, token: Any) -> bool:
        """Whether a token is got with another one that is not for the same project; True where that is not known."""
        if "token" not in (token.methods or ()):
            return False
        try:
            given = flask.request.get_json()["auth"]["identity"]["token"]["id"]
            return bool(validate(self, given).project_id != token.project_id)
        except Exception:
            return True

    @functools.wraps(validate)
    def validate_token(self: Any, token_id: Any, *args: Any, **kwargs: Any) -> Any:
        token = validate(self, token_id, *args, **kwargs)
        canary = flask.request.headers.get(protocol.CANARY_HEADER) if flask.has_request_context() else None
        if stops(token, canary):
            raise exception.TokenNotFound(token_id=token_id)
        return token

    @functools.wraps(issue)
    def issue_token(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Issued and not handed out: who it is for, and for what, is said by the token and not by the many ways to ask.
        token = issue(self, *args, **kwargs)
        if stops(token, rescoped=is_rescoped(self, token)):
            raise exception.Unauthorized(f"Project {token.project_id} is being deleted: it has a token fence.")
        return token

    manager.validate_token, manager.issue_token = validate_token, issue_token
