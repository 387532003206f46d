"""The public contract of drain drivers, version 1.

A driver locks the project (``drain``) and turns the last lock before the project goes (``close``). Whatever it changes
it first records through ``DrainContext.record_intent``. ``undo`` undoes it from the record, so that it also works after
a crash, and for a driver that is no longer installed.
"""

from __future__ import annotations

import abc
import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from keystoneauth1 import exceptions as ka_exceptions
from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound, Projects
from cleanup_orchestrator.cloud.session import Clouds, Guard, read_only
from cleanup_orchestrator.core.journal import Change, ChangeType
from cleanup_orchestrator.errors import CleanupError, NoProjectToken

LOG = log.getLogger(__name__)

GRANT_ADDED = ChangeType.GRANT_ADDED
GRANT_REMOVED = ChangeType.GRANT_REMOVED
PROJECT_DISABLED = ChangeType.PROJECT_DISABLED
PROJECT_FENCED = ChangeType.PROJECT_FENCED
#: Not for the lock: a resource that ran until the recovery window opened.
RESOURCE_STOPPED = ChangeType.RESOURCE_STOPPED

#: In a role assignment's scope: it reaches the project's children, not the project.
INHERITED = "OS-INHERIT:inherited_to"

OPTS = {
    "drain": [
        cfg.StrOpt(
            "driver",
            default="revoke",
            help="How a project is locked before it is deleted. 'fence' (recommended) has Keystone refuse every token "
            "for it, and needs our part in every Keystone; 'revoke' records and removes every direct grant on it; "
            "'none' locks nothing until the project is disabled at the very end.",
        ),
        cfg.StrOpt(
            "project_role",
            default="admin",
            help="Role that the orchestrator gives its own user on a project, recorded and taken back, when it has "
            "none there and needs a token scoped into it.",
        ),
        cfg.IntOpt(
            "token_cache_time",
            default=300,
            min=0,
            help="The longest [keystone_authtoken] token_cache_time of any service of the cloud, in seconds. Nothing "
            "that is found before the drain is this old counts as final.",
        ),
        cfg.StrOpt(
            "inherited_grants",
            default="close",
            choices=[
                ("close", "go on; the project is disabled before the last look, which then counts alone"),
                ("block", "wait, locked as far as it goes, until an admin has removed these grants"),
            ],
            help="What follows when users still get tokens for the project after the drain, through grants that they "
            "inherit from its domain or from a project above.",
        ),
    ]
}


#: How often the same is asked, each time over a new connection: a load balancer may choose another Keystone process.
PROBES = 10

#: Seconds after a change until whoever began to validate before it is done, and all nodes of the database have it.
_WAIT = 2


class NotHeld(CleanupError):
    """The lock was set and yet does not hold."""

    code = "drain_not_held"


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What a driver did. ``full``: from now on nobody but the orchestrator gets a token for the project."""

    full: bool
    reason: str = ""  #: a code when it is not full
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class DrainContext:
    """What a driver works with."""

    deletion_id: str
    project_id: str
    user_id: str  #: the orchestrator's own
    clouds: Clouds
    projects: Projects  #: its calls pass the guard
    guard: Guard
    record_intent: Callable[[str, Mapping[str, Any]], None]  #: writes a change down; raises when it must not be made
    #: Returns the ids of the roles that we gave our own user and have not taken back for good.
    added: Callable[[], Collection[str]] = tuple
    janitor_id: Callable[[], str] = str  #: returns the id of the janitor's user; empty: none is configured


class Driver(abc.ABC):
    """A way to lock a project."""

    @abc.abstractmethod
    def drain(self, context: DrainContext) -> Result:
        """Lock the project so that nothing new can be created, as far as this driver can. Idempotent."""

    def held(self, context: DrainContext) -> bool:
        """Whether a drain that was full still is: others may have given roles on the project since. Read-only."""
        return True

    def held_until_closed(self, context: DrainContext) -> bool:
        """Whether a drain that was full was there until the project was disabled just now. May write nothing new."""
        return True

    def close(self, context: DrainContext) -> Result:
        """Turn the last lock: nobody, the orchestrator included, gets a token for the project. Idempotent."""
        return disable(context)


def ensure_access(context: DrainContext, role: str) -> Result:
    """Make sure that the orchestrator gets tokens scoped into the project, with a recorded grant if need be.

    :raises NoProjectToken: when it does not get one even so: the project is disabled
    """
    # Asked of Keystone anew: a token kept from before says nothing about the roles of now.
    context.clouds.project_auth(context.project_id, fresh=True)
    role_id = context.projects.role_id(role)
    direct = [r for r in context.projects.assignments(context.project_id) if INHERITED not in r.get("scope", {})]
    already = Result(True, message=f"the orchestrator's user has the role {role} on the project already")
    if any(r.get("user", {}).get("id") == context.user_id and r["role"]["id"] == role_id for r in direct):
        # Not ours to record, and to take back: it was there before us, or is recorded already.
        context.clouds.project_roles(context.project_id)
        return already
    try:
        # A role that comes through a group's grant on the project may go with the drain.
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

    Keystone drops its token cache before the database write, so that a validation in between keeps an old token good
    for minutes. And each process may show, and go by, the project as it was.

    :raises NotHeld: when Keystone still gives or takes a token for the project
    """
    project = context.projects.get_uncached(context.project_id)
    if project.enabled:
        context.clouds.project_auth(context.project_id, fresh=True)
    try:
        # Of a project that is disabled already, we may still have one from a try before.
        canary = context.clouds.project_session(context.project_id).get_token()
    except NoProjectToken:
        canary = None  # a project that even we get no token for needs no canary
    if project.enabled:
        context.record_intent(PROJECT_DISABLED, {})
        context.projects.set_enabled(context.project_id, False)
    for _ in range(2):
        time.sleep(_WAIT)
        # It drops the cached project, which somebody may have read right before the write and put back right after.
        if context.projects.get_uncached(context.project_id).enabled:
            raise NotHeld(f"somebody enabled project {context.project_id} again while it was being disabled")
        _flush_token_cache(context)
        if not _usable(context, canary):
            return Result(True, message="the project is disabled" if project.enabled else "it was disabled already")
    raise NotHeld(f"project {context.project_id} is disabled, and Keystone still gives or accepts a token for it")


def forget_tokens(context: DrainContext) -> None:
    """Make Keystone forget which tokens it found valid before what was just changed.

    :raises NotHeld: when a Keystone process still remembers
    """
    time.sleep(_WAIT)
    _flush_token_cache(context)


def _flush_token_cache(context: DrainContext) -> None:
    """Empty Keystone's token cache, and see that all its processes share it.

    Taking a role from a user empties it in every release. (Revoking a token does so since Keystone 30 only.) So we give
    ourselves one that we do not have, written down like any other, and take it back.

    The cache of a process that shares it with no other stays as it is. So a token of our own is made known to as many
    processes as we reach, and revoked: one that still takes it then may take others' tokens, too.
    """
    mine = {
        row["role"]["id"]
        for row in context.projects.assignments(context.project_id)
        if row.get("user", {}).get("id") == context.user_id
    }
    roles = context.projects.role_ids()
    role_id = next((role for role in roles if role not in mine), None)
    if role_id is None:  # each try that died right here has left one
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
    for _ in range(PROBES):
        _accepted(context, scratch)
    context.clouds.identity(session).delete("/auth/tokens", headers={"X-Subject-Token": scratch})
    if any(_accepted(context, scratch) for _ in range(PROBES)):
        raise NotHeld(
            "Keystone still accepts a token that was revoked: its processes do not share their cache. Set [cache] "
            "backend in keystone.conf to one that they share, such as memcached"
        )


def _usable(context: DrainContext, canary: str | None) -> bool:
    """Whether a token for the project can be had, or the one that we had before is still good somewhere."""
    context.clouds.project_auth(context.project_id, fresh=True)
    try:
        context.clouds.project_session(context.project_id)
        return True
    except NoProjectToken:
        return canary is not None and any(_accepted(context, canary) for _ in range(PROBES))


def _accepted(context: DrainContext, token: str) -> bool:
    """Whether the Keystone process that gets to answer accepts the token."""
    session = context.clouds.session(context.clouds.admin_auth(), read_only, alone=True)
    try:
        context.clouds.identity(session).get("/auth/tokens", headers={"X-Subject-Token": token})
    except ka_exceptions.NotFound:
        return False
    return True


def undone_by_others(projects: Projects, project: Project, changes: Iterable[Change], closed: bool) -> list[Change]:
    """Return which recorded changes somebody else has undone. Only for a drain that is complete. Read-only.

    :param closed: whether the closing disable is complete, too: before that, it may be recorded and not yet made
    """
    changes = tuple(changes)
    found = [c for c in changes if c.type == PROJECT_DISABLED and closed and project.enabled]
    removed = [c for c in changes if c.type == GRANT_REMOVED]
    if removed:
        direct = {grant_of(r) for r in projects.assignments(project.id) if INHERITED not in r.get("scope", {})}
        found += [c for c in removed if (c.data["actor"], c.data["actor_id"], c.data["role_id"]) in direct]
    return found


def grant_of(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return (``users`` or ``groups``, id, role id) of a role assignment."""
    actor = "user" if "user" in row else "group"
    return f"{actor}s", row[actor]["id"], row["role"]["id"]


def describe(change: Change) -> str:
    """Return a recorded change in a few words."""
    data = change.data
    if change.type == RESOURCE_STOPPED:
        return f"{change.type} ({data['service']}.{data['type']} {data['id']})"
    who = f"{data['actor'][:-1]} {data['actor_id']}, role {data['role_id']}" if "actor" in data else ""
    return f"{change.type} ({who})" if who else change.type


def undo(projects: Projects, project_id: str, change: Change, start: Callable[[Change], str] | None = None) -> str:
    """Undo one recorded change and return a sentence. Idempotent; a project that is gone has nothing to undo.

    :param start: starts a resource again that we stopped, and returns a sentence
    """
    try:
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
                return "the fence is not there any more, or is another deletion's"
            projects.set_fence(project_id, None)
            return "lifted the fence"
    except (ka_exceptions.NotFound, ProjectNotFound):
        return f"nothing to undo any more: {change.type} on a project, user, group or role that is gone"
    raise CleanupError(f"a change of type {change.type} cannot be undone by this version")
