"""The public contract of drain drivers, version 1.

A driver locks the project (``drain``) and turns the last lock before the project goes (``close``). Whatever it changes
it first writes down through ``Ground.intend``; undoing is not its business but ``undo``'s, from the record, so that it
also works after a crash, and for a driver that is no longer installed.
"""

from __future__ import annotations

import abc
import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

from keystoneauth1 import exceptions as ka_exceptions
from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator.clouds import Clouds, Guard
from cleanup_orchestrator.errors import CleanupError, NoProjectToken
from cleanup_orchestrator.model import Change
from cleanup_orchestrator.projects import ProjectNotFound, Projects

LOG = log.getLogger(__name__)

GRANT_ADDED = "grant_added"
GRANT_REMOVED = "grant_removed"
PROJECT_DISABLED = "project_disabled"
PROJECT_FENCED = "project_fenced"

#: In a role assignment's scope: it reaches the project's children, not the project.
INHERITED = "OS-INHERIT:inherited_to"

OPTS = {
    "drain": [
        cfg.StrOpt(
            "driver",
            default="revoke",
            help="How a project is locked before it is deleted. 'revoke' records and removes every direct grant on it; "
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
    ]
}


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
class Ground:
    """What a driver works with."""

    deletion_id: str
    project_id: str
    user_id: str  #: the orchestrator's own
    clouds: Clouds
    projects: Projects  #: its calls pass the guard
    guard: Guard
    intend: Callable[[str, Mapping[str, Any]], None]  #: writes a change down; raises when it must not be made


class Driver(abc.ABC):
    """A way to lock a project."""

    @abc.abstractmethod
    def drain(self, ground: Ground) -> Result:
        """Lock the project so that nothing new can be created, as far as this driver can. Idempotent."""

    def held(self, ground: Ground) -> bool:
        """Whether a drain that was full still is: others may have given roles on the project since. Read-only."""
        return True

    def close(self, ground: Ground) -> Result:
        """Turn the last lock: nobody, the orchestrator included, gets a token for the project. Idempotent."""
        return disable(ground)


def ensure_access(ground: Ground, role: str) -> Result:
    """Make sure that the orchestrator gets tokens scoped into the project, with a recorded grant if need be.

    :raises NoProjectToken: when it does not get one even so: the project is disabled
    """
    # Asked of Keystone anew: a token kept from before says nothing about the roles of now.
    ground.clouds.project_auth(ground.project_id, fresh=True)
    role_id = ground.projects.role_id(role)
    direct = [r for r in ground.projects.assignments(ground.project_id) if INHERITED not in r.get("scope", {})]
    already = Result(True, message=f"the orchestrator's user has the role {role} on the project already")
    if any(r.get("user", {}).get("id") == ground.user_id and r["role"]["id"] == role_id for r in direct):
        # Not ours to record, and to take back: it was there before us, or is recorded already.
        ground.clouds.project_roles(ground.project_id)
        return already
    try:
        # A role that comes through a group's grant on the project may go with the drain.
        if role in ground.clouds.project_roles(ground.project_id) and not any("group" in r for r in direct):
            return already
    except NoProjectToken:
        pass
    ground.intend(GRANT_ADDED, {"actor": "users", "actor_id": ground.user_id, "role_id": role_id})
    ground.projects.grant(ground.project_id, "users", ground.user_id, role_id)
    ground.clouds.project_auth(ground.project_id, fresh=True)
    ground.clouds.project_session(ground.project_id)
    return Result(True, message=f"gave the orchestrator's user the role {role} on the project")


def disable(ground: Ground) -> Result:
    """Disable the project and make sure that Keystone knows.

    Keystone drops its token cache before the database write, so that a validation in between keeps an old token good
    for minutes. Revoking a token of our own flushes the cache; then a canary token must be refused.

    :raises NotHeld: when Keystone still takes the canary
    """
    project = ground.projects.get(ground.project_id)
    if project.enabled:
        ground.clouds.project_auth(ground.project_id, fresh=True)
    try:
        # Of a project that is disabled already, we may still have one from a try before.
        canary = ground.clouds.project_session(ground.project_id).get_token()
    except NoProjectToken:
        canary = None  # a project that even we get no token for needs no canary
    if project.enabled:
        ground.intend(PROJECT_DISABLED, {})
        ground.projects.set_enabled(ground.project_id, False)
    for _ in range(3):
        time.sleep(1)
        _flush_token_cache(ground)
        if canary is None or not _accepted(ground, canary):
            ground.clouds.project_auth(ground.project_id, fresh=True)
            return Result(True, message="the project is disabled" if project.enabled else "it was disabled already")
    raise NotHeld(f"project {ground.project_id} is disabled, and Keystone still accepts a token for it")


def _flush_token_cache(ground: Ground) -> None:
    session = ground.clouds.session(ground.clouds.scratch_auth(), ground.guard)
    ground.clouds.identity(session).delete("/auth/tokens", headers={"X-Subject-Token": session.get_token()})


def _accepted(ground: Ground, token: str) -> bool:
    session = ground.clouds.admin_session()
    try:
        ground.clouds.identity(session).get("/auth/tokens", headers={"X-Subject-Token": token})
    except ka_exceptions.NotFound:
        return False
    return True


def undo(projects: Projects, project_id: str, change: Change) -> str:
    """Undo one recorded change and return a sentence. Idempotent; a project that is gone has nothing to undo."""
    try:
        if change.type == GRANT_ADDED:
            projects.ungrant(project_id, change.data["actor"], change.data["actor_id"], change.data["role_id"])
            return "took back the orchestrator's own role"
        if change.type == GRANT_REMOVED:
            projects.grant(project_id, change.data["actor"], change.data["actor_id"], change.data["role_id"])
            return f"gave {change.data['actor'][:-1]} {change.data['actor_id']} its role {change.data['role_id']} back"
        if change.type == PROJECT_DISABLED:
            projects.set_enabled(project_id, True)
            return "enabled the project again"
        if change.type == PROJECT_FENCED:
            if projects.get(project_id).fence != change.data["fence"]:
                return "the fence was lifted by somebody else, or is another deletion's"
            projects.set_fence(project_id, None)
            return "lifted the fence"
    except (ka_exceptions.NotFound, ProjectNotFound):
        return f"nothing to undo any more: {change.type} on a project, user, group or role that is gone"
    raise CleanupError(f"a change of type {change.type} cannot be undone by this version")
