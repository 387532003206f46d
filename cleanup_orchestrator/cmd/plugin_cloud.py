"""The connections of ``plugin check``, which make no write call.

A check calls the plugin with an admin's token, its deletes included. So each session refuses every write. A plugin
makes all its calls by the connection that it is given. A call by any other way would pass the session. Therefore new
connections and new processes are refused while the plugin runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from openstack.connection import Connection

from cleanup_orchestrator.cloud.endpoints import official
from cleanup_orchestrator.cloud.projects import ProjectNotFound, Projects
from cleanup_orchestrator.cloud.session import GuardedSession, read_only
from cleanup_orchestrator.cmd import clouds
from cleanup_orchestrator.cmd.schema import ManageError
from cleanup_orchestrator.errors import NoProjectToken, Stopped, WriteRefused, classify
from cleanup_orchestrator.plugins.base import ProjectDefinition, Service

#: What a plugin does by another way than its connection, as Python's audit events.
_PAST_THE_SESSION = frozenset({"socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"})

_local = threading.local()  #: ``within``: this thread is within a call of a session
_active: list[Watch] = []  #: the watch of the question that is being asked; at most one


class Watch:
    """Refuses and records each write, and each call that passes the session, while a question is asked."""

    def __init__(self) -> None:
        self.refused: list[str] = []  #: what was refused since the question began
        self.deadline, self._seconds = math.inf, math.inf
        _add_hook()

    def __call__(self, method: str, url: str) -> None:
        """Record a write and refuse it: the guard of the sessions.

        :raises WriteRefused: always
        """
        self.refused.append(f"{method} {url}")
        read_only(method, url)

    @contextlib.contextmanager
    def asking(self, seconds: float) -> Iterator[None]:
        """Watch what runs within the context, for at most some seconds."""
        self.refused, self.deadline, self._seconds = [], time.monotonic() + seconds, seconds
        _active.append(self)
        try:
            yield
        finally:
            _active.remove(self)
            self.deadline = math.inf

    def expect_time(self) -> None:
        """Check the time.

        :raises Stopped: the time of the question is over
        """
        if time.monotonic() > self.deadline:
            raise Stopped(f"it takes more than {self._seconds:g} seconds: see --time-limit")


@functools.cache
def _add_hook() -> None:
    """Add the audit hook, once: Python cannot remove it."""
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _PAST_THE_SESSION or not _active or getattr(_local, "within", False):
        return
    if event == "socket.connect" and not isinstance(arguments[1], tuple):  # no address of the internet
        return
    what = f"a connection to {arguments[1][0]}" if event == "socket.connect" else f"{event} {arguments[0]}"
    _active[0].refused.append(f"{what} past its connection")
    raise WriteRefused(f"{what} refused: a plugin makes all its calls by the connection that it is given")


class _Session(GuardedSession):
    """A guarded session that ends with the time of the question."""

    def __init__(self, watch: Watch, **kwargs: Any) -> None:
        super().__init__(watch, **kwargs)
        self._watch = watch

    def sign(self) -> None:
        self._watch.expect_time()
        super().sign()

    def _send_request(self, *args: Any, **kwargs: Any) -> Any:
        _local.within = True
        try:
            return super()._send_request(*args, **kwargs)
        finally:
            _local.within = False


@dataclasses.dataclass(frozen=True)
class Tokens:
    """The connections to one cloud: of an admin, in the project, and of a user without the admin role."""

    watch: Watch
    project: ProjectDefinition
    admin: Connection
    own: Connection | NoProjectToken  #: with a token of the project, or why there is none
    member: Connection | None  #: with the token of ``--as-member``
    cloud: str  #: the name in clouds.yaml
    seconds: float  #: that one question may take


def connect(
    cloud: str, project_id: str, member: str, service: Service, options: Mapping[str, Any], seconds: float
) -> Tokens:
    """Log in to a cloud of clouds.yaml and read the project.

    :param member: another cloud of clouds.yaml, whose user lacks the admin role; empty: none
    :param options: the values of the service's options
    :param seconds: the longest time of one question, and of one call
    :raises ManageError: with what to change
    """
    watch = Watch()
    try:
        config = clouds.config(functools.partial(_Session, watch), seconds)
        admin = Connection(config=config.get_one(cloud=cloud))
        if service.service_type not in _with_endpoints(admin):
            raise ManageError(
                f"cloud {cloud} has no endpoint of {service.service_type} in region {admin.config.region_name!r}: "
                "name the region in clouds.yaml (region_name), or another cloud"
            )
        projects = Projects(clouds.identity(admin))
        shown = projects.get(project_id)
        region = admin.config.region_name if service.regional else ""
        members = projects.members(project_id)
        project = ProjectDefinition(shown.id, shown.name, shown.domain_id, region or "", members, options)
        other = Connection(config=config.get_one(cloud=member)) if member else None
        if other is not None and other.session.get_project_id() == project_id:
            raise ManageError(f"--as-member {member}: its token is of the project itself; name a user of another one")
    except ProjectNotFound as error:
        raise ManageError(f"{error}: see openstack project list") from None
    except clouds.ERRORS as error:
        raise ManageError(f"clouds.yaml, {cloud}: {classify(error).message}") from None
    return Tokens(watch, project, admin, _scoped(admin, project_id, cloud), other, cloud, seconds)


def _with_endpoints(connection: Connection) -> set[str]:
    """Return the service types that have an endpoint in the region, under their official names."""
    there = connection.session.auth.get_access(connection.session).service_catalog
    region = connection.config.region_name or None
    return {official(name) for name in there.get_endpoints(region_name=region)}


def _scoped(admin: Connection, project_id: str, cloud: str) -> Connection | NoProjectToken:
    """Return a connection of the same user with a token of the project, or why there is none."""
    try:
        own = admin.connect_as(project_id=project_id)
        scope = own.session.get_project_id()
    except clouds.ERRORS as error:
        why = classify(error).message
    else:
        if scope == project_id:
            return own
        why = "Keystone gave a token of another project"
    return NoProjectToken(f"no token of the project ({why}): give the user of cloud {cloud} a role on it")
