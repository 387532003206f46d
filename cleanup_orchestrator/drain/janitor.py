"""The janitor, whose token services use to execute what a project's users wrote.

Heat deletes a stack by executing its template with the token of the delete request; Magnum's drivers do the same. With
an admin's token, a template could change the whole cloud. The janitor is a user that the orchestrator makes for one
deletion, and deletes with it. It gets a member's role on the project of this deletion, and never has a role elsewhere.
So a template can do nothing that its author could not do, and the token opens no other project.

Types with ``Token.MEMBER`` are listed with its token, too. The access step makes it for them, because a list makes no
write call.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.janitors import GROUP, Janitor
from cleanup_orchestrator.cloud.session import GuardedSession, read_only
from cleanup_orchestrator.drain.base import GRANT_ADDED, INHERITED, JANITOR_MADE, DrainContext
from cleanup_orchestrator.errors import NoJanitor, NoProjectToken, classify
from cleanup_orchestrator.keystone import protocol

_SET_UP = (
    f"there is no janitor, and an admin's token must not be used for it: set [{GROUP}] secret in the configuration of "
    "all workers"
)
_ADMIN = "admin"
_NEXT = "the orchestrator gives it the role when the deletion goes on, or is retried"
_NAMED = 10  #: surplus roles and groups that one message names


def session(context: DrainContext, roles: Sequence[str], fenced: bool, writing: bool = True) -> GuardedSession:
    """Return a session with the janitor's token for the project; make the janitor and its missing roles.

    :param roles: names; the token has only these roles and the roles that they imply
    :param fenced: whether the project is locked by the token fence, which has to know the janitor
    :param writing: ``False``: the session makes no write call, and nothing is made
    :raises NoJanitor: there is none, Keystone issues it no token, or it may do more than a member of this project
    """
    janitor = context.clouds.janitor(context.deletion_id)
    if janitor is None:
        raise NoJanitor(_SET_UP)
    role_ids = [context.projects.role_id(role) for role in roles]
    allowed = context.projects.implied_roles(role_ids)
    if _ADMIN in {role.lower() for role in allowed}:
        raise NoJanitor(f"[{GROUP}] roles = {', '.join(roles)} makes the janitor an admin: give it a member's role")
    user_id = context.janitor_id() or _made(context, janitor, writing)
    rows = context.projects.assignments_of(user_id)
    groups = [f"group {name}" for name in context.projects.groups_of(user_id)]
    if beyond := groups + _beyond(rows, context.project_id, role_ids):
        named = "; ".join(beyond[:_NAMED])
        raise NoJanitor(f"the janitor, user {user_id}, got from another user what it must not have: {named}: {_AGAIN}")
    there = {row["role"]["id"] for row in rows}
    # This is asked before the user gets anything: another user may have made a user of this name in advance.
    if writing and not context.clouds.is_janitor(janitor, user_id):
        raise NoJanitor(f"the janitor, user {user_id}, does not have its password: {_FOREIGN}")
    if writing and fenced:
        _exempt(context, user_id)
    for role_id in role_ids:
        if role_id not in there:
            if not writing:
                raise NoJanitor(f"the janitor, user {user_id}, does not have its role on the project: {_NEXT}")
            context.record_intent(GRANT_ADDED, {"actor": "users", "actor_id": user_id, "role_id": role_id})
            context.projects.grant(context.project_id, "users", user_id, role_id)
    guard = context.guard if writing else read_only
    try:
        made, granted = context.clouds.janitor_session(janitor, user_id, context.project_id, guard)
    except NoProjectToken as error:
        raise NoJanitor(f"the janitor, user {user_id}, gets no token for the project ({error}): {_FOREIGN}") from None
    if more := sorted(granted - allowed):
        raise NoJanitor(
            f"the janitor, user {user_id}, has more roles on the project than [{GROUP}] roles allows: "
            f"{', '.join(more)}; take them from it"
        )
    return made


_AGAIN = "find out who did that, and delete this user: the orchestrator makes another one"
_FOREIGN = (
    "another user has made it or reset its password, or "
    f"[{GROUP}] secret has changed, or is not the same in all workers: {_AGAIN}"
)


def _made(context: DrainContext, janitor: Janitor, writing: bool) -> str:
    """Record the janitor, make it, and return the id of the user."""
    if not writing:
        raise NoJanitor(f"the janitor, user {janitor.name}, does not exist yet: {_NEXT}")
    context.record_intent(JANITOR_MADE, {"name": janitor.name, "domain_id": janitor.domain_id})
    about = f"Made by cleanup-orchestrator, and deleted at the end of its deletion of project {context.project_id}"
    return context.projects.users.make(janitor, about)


def _exempt(context: DrainContext, user_id: str) -> None:
    """Have the token fence of the project pass the janitor, in every Keystone process."""
    if context.projects.get_uncached(context.project_id).janitor == user_id:
        return
    try:
        context.projects.set_janitor(context.project_id, user_id)
    except ka_exceptions.BadRequest as error:
        raise NoJanitor(
            f"this Keystone refuses the option {protocol.JANITOR_OPTION} of projects ({classify(error).message}): "
            "serve cleanup_orchestrator.keystone.wsgi:application of this release in every Keystone"
        ) from None
    time.sleep(protocol.FENCE_MAX_AGE)


def _beyond(rows: Sequence[Mapping[str, Any]], project_id: str, role_ids: Sequence[str]) -> list[str]:
    """Return role assignments other than these roles directly on the project, as texts."""
    assignments = []
    for row in rows:
        role, scope = row["role"]["id"], row.get("scope", {})
        direct = INHERITED not in scope
        if not direct or scope.get("project", {}).get("id") != project_id or role not in role_ids:
            where = " ".join(str(place.get("id", kind)) for kind, place in scope.items() if isinstance(place, dict))
            assignments.append(f"role {role} on {where}{'' if direct else ' (inherited by projects)'}")
    return assignments
