"""The public contract of drain drivers, version 1.

A driver locks the project (``drain``), and disables it right before the delete (``close``). It records each change with
``DrainContext.record_intent`` before it makes the change. ``undo`` works from these records, also after a
crash, and for a driver that is no longer installed.
"""

from __future__ import annotations

import abc
import concurrent.futures
import dataclasses
import functools
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from keystoneauth1 import exceptions as ka_exceptions
from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator.cloud import janitors
from cleanup_orchestrator.cloud.connections import Clouds
from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound, Projects
from cleanup_orchestrator.cloud.session import Guard, read_only
from cleanup_orchestrator.core.journal import Change, ChangeType
from cleanup_orchestrator.errors import CleanupError, NoProjectToken, expect_keystones

LOG = log.getLogger(__name__)

GRANT_ADDED = ChangeType.GRANT_ADDED
GRANT_REMOVED = ChangeType.GRANT_REMOVED
JANITOR_LENT = ChangeType.JANITOR_LENT
PROJECT_DELETE_SENT = ChangeType.PROJECT_DELETE_SENT
JANITOR_MADE = ChangeType.JANITOR_MADE
PROJECT_DISABLED = ChangeType.PROJECT_DISABLED
PROJECT_FENCED = ChangeType.PROJECT_FENCED
#: A service that speaks the project resources protocol refuses new resources.
SERVICE_DRAINED = ChangeType.SERVICE_DRAINED
#: A resource that ran was stopped when the recovery window opened. The lock does not need this.
RESOURCE_STOPPED = ChangeType.RESOURCE_STOPPED

#: The text about a delete of the project that was refused, or that Keystone did not get.
NO_EFFECT = "the delete of the project took no effect"
#: Key in a role assignment's scope: the role applies to the children of the project, not to the project.
INHERITED = "OS-INHERIT:inherited_to"

OPTS = {
    "drain": [
        cfg.StrOpt(
            "driver",
            default="revoke",
            help="How a project is locked before it is deleted. With 'fence' (recommended), Keystone refuses every "
            "token for the project; this needs the Keystone part of this package in every Keystone. 'revoke' records "
            "and removes every direct grant on the project. 'none' locks nothing until the project is disabled at the "
            "end.",
        ),
        cfg.StrOpt(
            "project_role",
            default="admin",
            help="Role that the orchestrator gives its own user on a project, if that user has no role there and a "
            "token scoped to the project is needed. The grant is recorded and taken back.",
        ),
        cfg.IntOpt(
            "token_cache_time",
            default=300,
            min=0,
            help="The longest time for which a service of the cloud accepts a token or a secret without asking "
            "Keystone again, in seconds. This is the highest value of [keystone_authtoken] token_cache_time of all "
            "services and of secret_cache_duration of Swift's s3token. An inventory counts as final only if this time "
            "has passed since the project was locked.",
        ),
        cfg.StrOpt(
            "inherited_grants",
            default="close",
            choices=[
                ("close", "go on; the project is disabled before the last inventory, and only that one counts"),
                ("block", "wait, locked as far as possible, until an admin has removed these grants"),
            ],
            help="What to do if users still get tokens for the locked project, through grants that they "
            "inherit from its domain or from a parent project.",
        ),
    ]
}


#: Probes at once, each over a new connection: a load balancer may choose another Keystone process for each.
PROBES = 10

Checked = TypeVar("Checked")

#: Seconds to wait after a change, until validations that began before have ended and all database nodes have it.
_WAIT = 2


#: Seconds for which a worker relies on its latest check that Keystone's processes share their token cache.
_RELY = 600


class NotHeld(CleanupError):
    """The lock was set and is not effective."""

    code = "drain_not_held"


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What a driver did.

    ``full``: from now on only the orchestrator gets a token for the project.
    """

    full: bool
    reason: str = ""  #: a code when it is not full
    message: str = ""
    #: What the driver saw of the lock, in at most 255 characters. The deletion keeps it, and later calls get it as
    #: ``DrainContext.evidence``: if the lock was changed since, the driver sees something else.
    evidence: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class DrainContext:
    """What a driver needs to lock one project."""

    deletion_id: str
    project_id: str
    user_id: str  #: the orchestrator's own
    clouds: Clouds
    projects: Projects  #: its calls pass the guard
    guard: Guard
    record_intent: Callable[[str, Mapping[str, Any]], None]  #: records a change; raises if it must not be made
    #: Returns the ids of the roles that the orchestrator gave its own user and has not finally taken back.
    added: Callable[[], Collection[str]] = tuple
    janitor_id: Callable[[], str] = str  #: returns the id of the janitor that the deletion has made; empty: none
    evidence: str = ""  #: ``Result.evidence`` of the lock that the deletion relies on


class Driver(abc.ABC):
    """A way to lock a project."""

    #: Whether :meth:`held_until_closed` proves that a full drain held at each moment, and not only that it holds now.
    #: Then the empty inventories from before the project was disabled still count.
    continuous: ClassVar[bool] = False

    @abc.abstractmethod
    def drain(self, context: DrainContext) -> Result:
        """Lock the project against new resources, as far as possible. Idempotent."""

    def held(self, context: DrainContext) -> bool:
        """Return whether a full drain is still in effect. Read-only.

        Users may have got roles on the project since.
        """
        return True

    def replaced(self, context: DrainContext, project: Project) -> bool:
        """Return whether a project shows another lock of this deletion than the one that the proof rests on.

        :param project: as a Keystone process shows it, which may be an old copy
        """
        return False

    def held_until_closed(self, context: DrainContext) -> bool:
        """Return whether the drain lasted until now. Makes no new changes.

        The orchestrator asks right before it disables the project, and again right after it.
        """
        return True

    def held_until_removed(self, context: DrainContext, project: Project) -> bool:
        """Return whether the lock lasted from the drain, or from the close, until now. Makes no new changes.

        The orchestrator asks right before it deletes the project in Keystone.

        :param project: as Keystone's database has it now
        """
        return True

    def removal_headers(self, context: DrainContext) -> Mapping[str, str]:
        """Return headers for the delete of the project, with which Keystone itself checks the lock."""
        return {}

    def close(self, context: DrainContext) -> Result:
        """Disable the project: not even the orchestrator gets a token. Idempotent."""
        return disable(context)


def ensure_access(context: DrainContext, role: str) -> Result:
    """Make sure that the orchestrator gets tokens of the project.

    If a grant is needed, it is recorded.

    :raises NoProjectToken: it gets none in spite of the grant: the project is disabled
    """
    # Keystone must issue a new token: a cached one does not show the current roles.
    context.clouds.project_auth(context.project_id, fresh=True)
    role_id = context.projects.role_id(role)
    direct = [r for r in context.projects.assignments(context.project_id) if INHERITED not in r.get("scope", {})]
    already = Result(True, message=f"the orchestrator's user has the role {role} on the project already")
    if any(r.get("user", {}).get("id") == context.user_id and r["role"]["id"] == role_id for r in direct):
        # This grant existed before the deletion, or is recorded already: it is not recorded here.
        context.clouds.project_roles(context.project_id)
        return already
    try:
        # A role through a group's grant on the project may be removed by the drain.
        if role in context.clouds.project_roles(context.project_id) and not any("group" in r for r in direct):
            return already
    except NoProjectToken:
        pass
    context.record_intent(GRANT_ADDED, {"actor": "users", "actor_id": context.user_id, "role_id": role_id})
    context.projects.grant(context.project_id, "users", context.user_id, role_id)
    context.clouds.project_auth(context.project_id, fresh=True)
    context.clouds.project_session(context.project_id)
    return Result(True, message=f"gave the orchestrator's user the role {role} on the project")


def disable(context: DrainContext) -> Result:
    """Disable the project and make sure that every Keystone process knows.

    Keystone drops its token cache before the database write, so that a validation in between keeps an old token valid
    for minutes. Each process may also use a cached copy of the project.

    :raises NotHeld: Keystone still issues or accepts a token for the project
    """
    project = context.projects.get_uncached(context.project_id)
    if project.enabled:
        context.clouds.project_auth(context.project_id, fresh=True)
    try:
        # If the project is disabled already, a token from an earlier attempt may still be cached.
        canary = context.clouds.project_session(context.project_id).get_token()
    except NoProjectToken:
        canary = None  # without a token for the orchestrator, no canary is needed
    if project.enabled:
        context.record_intent(PROJECT_DISABLED, {})
        context.projects.set_enabled(context.project_id, False)
    for _ in range(2):
        time.sleep(_WAIT)
        # This update drops a cached project that was read right before the write and cached right after it.
        if context.projects.get_uncached(context.project_id).enabled:
            raise NotHeld(f"a user enabled project {context.project_id} again while it was being disabled")
        _flush_token_cache(context)
        if not _usable(context, canary):
            return Result(True, message="the project is disabled" if project.enabled else "it was disabled already")
    raise NotHeld(f"project {context.project_id} is disabled, and Keystone still gives or accepts a token for it")


def forget_tokens(context: DrainContext) -> None:
    """Make Keystone forget which tokens it found valid before the latest change.

    :raises NotHeld: a Keystone process still has such a token in its cache
    """
    time.sleep(_WAIT)
    _flush_token_cache(context)


def _flush_token_cache(context: DrainContext) -> None:
    """Empty Keystone's token cache, and check that all its processes share it.

    Taking a role from a user empties the cache in every release; revoking a token does so only since Keystone 30. So
    this gives the orchestrator's user a role that it does not have, records the grant, and takes it back.

    A process that does not share the cache keeps its own entries. So this validates a token of the orchestrator over
    several connections and revokes it. A process that still accepts it may accept other users' tokens, too.

    :raises NotHeld: a Keystone process accepts the revoked token
    """
    mine = {
        row["role"]["id"]
        for row in context.projects.assignments(context.project_id)
        if row.get("user", {}).get("id") == context.user_id
    }
    roles = context.projects.role_ids()
    role_id = next((role for role in roles if role not in mine), None)
    if role_id is None:  # each attempt that died right here has left a role
        added = context.added()
        role_id = next((role for role in roles if role in added), None)
    if role_id is None:
        raise CleanupError("the orchestrator's user has every role on the project: it can take none back")
    context.record_intent(GRANT_ADDED, {"actor": "users", "actor_id": context.user_id, "role_id": role_id})
    context.projects.grant(context.project_id, "users", context.user_id, role_id)
    context.projects.ungrant(context.project_id, "users", context.user_id, role_id)

    session = context.clouds.session(context.clouds.scratch_auth(), context.guard)
    scratch = session.get_token()
    assert scratch is not None
    accepted = functools.partial(_accepted, context, scratch)
    probe(accepted, PROBES)
    context.clouds.identity(session).delete("/auth/tokens", headers={"X-Subject-Token": scratch})
    if any(probe(accepted, PROBES)):
        raise NotHeld(
            "Keystone still accepts a token that was revoked: its processes do not share their cache. Set [cache] "
            "backend in keystone.conf to one that they share, such as memcached"
        )


def _usable(context: DrainContext, canary: str | None) -> bool:
    """Return whether Keystone issues a token for the project or accepts the canary."""
    context.clouds.project_auth(context.project_id, fresh=True)
    try:
        context.clouds.project_session(context.project_id)
        return True
    except NoProjectToken:
        return canary is not None and any(probe(functools.partial(_accepted, context, canary), PROBES))


def check_shared_cache(context: DrainContext) -> None:
    """Check that Keystone's processes share their token cache; a worker relies on its check for ten minutes.

    That is a property of the installation, not of a project. A process with a cache of its own may accept a token of a
    project after the project is deleted.

    :raises NotHeld: a Keystone process does not share the cache
    """
    checked_at = context.clouds.cache_checked_at
    if not checked_at or time.monotonic() - checked_at[0] > _RELY:
        _flush_token_cache(context)
        checked_at[:] = [time.monotonic()]


def probe(check: Callable[[], Checked], times: int) -> list[Checked]:
    """Run a check several times at once; return its results.

    :raises Exception: the first error of a check, after all have ended
    """
    if times == 1:
        return [check()]
    with concurrent.futures.ThreadPoolExecutor(times, "probe") as pool:
        return list(pool.map(lambda _: check(), range(times)))


def _accepted(context: DrainContext, token: str) -> bool:
    """Return whether the Keystone process that answers accepts the token.

    :raises BadAnswer: no Keystone process answers
    """
    session = context.clouds.session(context.clouds.admin_auth(), read_only, alone=True)
    try:
        context.clouds.identity(session).get("/auth/tokens", headers={"X-Subject-Token": token})
    except ka_exceptions.NotFound as error:
        expect_keystones(error)
        return False
    return True


def undone_by_others(projects: Projects, project: Project, changes: Iterable[Change], closed: bool) -> list[Change]:
    """Return the changes that others have undone. Read-only.

    The drain must be complete.

    :param closed: whether the closing disable is complete, too; before, it may be recorded and not yet made
    """
    changes = tuple(changes)
    undone = [c for c in changes if c.type == PROJECT_DISABLED and closed and project.enabled]
    removed = [c for c in changes if c.type == GRANT_REMOVED]
    if removed:
        direct = {grant_of(r) for r in projects.assignments(project.id) if INHERITED not in r.get("scope", {})}
        undone += [c for c in removed if (c.data["actor"], c.data["actor_id"], c.data["role_id"]) in direct]
    return undone


def grant_of(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return (``users`` or ``groups``, id, role id) of a role assignment."""
    actor = "user" if "user" in row else "group"
    return f"{actor}s", row[actor]["id"], row["role"]["id"]


def describe(change: Change) -> str:
    """Return a short description of a recorded change, for messages."""
    data = change.data
    if change.type == RESOURCE_STOPPED:
        return f"{change.type} ({data['service']}.{data['type']} {data['id']})"
    if change.type == SERVICE_DRAINED:
        return f"{change.type} ({data['service']}@{data['region']})"
    if change.type == JANITOR_MADE:
        return f"{change.type} (user {data['name']})"
    who = f"{data['actor'][:-1]} {data['actor_id']}, role {data['role_id']}" if "actor" in data else ""
    return f"{change.type} ({who})" if who else change.type


def undo(
    projects: Projects,
    project_id: str,
    change: Change,
    start: Callable[[Change], str] | None = None,
    release: Callable[[Change], str] | None = None,
) -> str:
    """Undo one recorded change and return a sentence. Idempotent.

    If the project is gone, there is nothing to undo in Keystone.

    :param start: starts a stopped resource again, and returns a sentence
    :param release: undoes the drain of a service, and returns a sentence
    """
    if change.type == SERVICE_DRAINED and release is not None:
        return release(change)
    if change.type == JANITOR_MADE:
        return remove_janitor(projects, project_id, change)
    if change.type == JANITOR_LENT:
        return "the token of the janitor ends with its user"
    try:
        if change.type == PROJECT_DELETE_SENT:
            projects.get_uncached(project_id)
            return NO_EFFECT
        if change.type == RESOURCE_STOPPED and start is not None:
            projects.get_uncached(project_id)
            return start(change)
        if change.type == GRANT_ADDED:
            projects.ungrant(project_id, change.data["actor"], change.data["actor_id"], change.data["role_id"])
            return f"took back role {change.data['role_id']} from user {change.data['actor_id']}"
        if change.type == GRANT_REMOVED:
            projects.grant(project_id, change.data["actor"], change.data["actor_id"], change.data["role_id"])
            return f"gave {change.data['actor'][:-1]} {change.data['actor_id']} its role {change.data['role_id']} back"
        if change.type == PROJECT_DISABLED:
            projects.set_enabled(project_id, True)
            return "enabled the project again"
        if change.type == PROJECT_FENCED:
            if projects.get_uncached(project_id).fence != change.data["fence"]:
                return "the fence is no longer there, or is another deletion's"
            projects.set_fence(project_id, None)
            return "lifted the fence"
    except (ka_exceptions.NotFound, ProjectNotFound):
        if change.type == GRANT_REMOVED:
            return _not_given_back(project_id, change.data)
        return f"there is no longer anything to undo: {describe(change)} on a project, user, group or role that is gone"
    raise CleanupError(f"a change of type {change.type} cannot be undone by this version")


def _not_given_back(project_id: str, grant: Mapping[str, Any]) -> str:
    """Say which role was not given back.

    Keystone gives no role to a user that it does not find. A user of a directory may be missing for a while only.
    """
    actor = grant["actor"][:-1]
    return (
        f"did not give {actor} {grant['actor_id']} its role {grant['role_id']} back: Keystone does not know the "
        f"{actor}, the role or the project. If the {actor} appears again, as an admin: openstack role add --{actor} "
        f"{grant['actor_id']} --project {project_id} {grant['role_id']}"
    )


def remove_janitor(projects: Projects, project_id: str, change: Change) -> str:
    """Delete the janitor of a deletion with all that was made with its token, and return a sentence. Idempotent.

    The project may be gone; the user is not gone with it.
    """
    name, domain_id = change.data["name"], change.data["domain_id"]
    if name != janitors.user_name(change.deletion_id):
        raise CleanupError(f"{name} is not the janitor of deletion {change.deletion_id}, and is not deleted")
    there = projects.users.remove(name, domain_id)
    try:
        if projects.get_uncached(project_id).janitor is not None:
            projects.set_janitor(project_id, None)
    except (ka_exceptions.NotFound, ProjectNotFound):
        pass
    return f"deleted the janitor, user {name}" if there else f"the janitor, user {name}, is no longer there"
