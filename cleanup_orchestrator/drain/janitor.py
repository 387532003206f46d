"""The janitor, whose token services use to execute what a project's users wrote.

Heat deletes a stack by executing its template with the token of the delete request; Magnum's drivers do the same. With
an admin's token, a template could change the whole cloud. The janitor has no permanent role anywhere. It gets a
member's role on a project right before its token is needed there, recorded like every other grant, and loses it at the
end of the deletion. So a template can do nothing that its author could not do.

Types with ``Token.MEMBER`` are listed with its token, too. The access step makes the grant for them, because a list
makes no write call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cleanup_orchestrator.cloud.connections import JANITOR
from cleanup_orchestrator.cloud.session import GuardedSession, read_only
from cleanup_orchestrator.drain.base import GRANT_ADDED, INHERITED, DrainContext
from cleanup_orchestrator.errors import NoJanitor, NoProjectToken
from cleanup_orchestrator.keystone import protocol

_SET_UP = (
    f"[{JANITOR}] is not configured, and an admin's token must not be used for it: make a user without any role, and "
    f"name it in [{JANITOR}] of the worker's configuration and as [{protocol.GROUP}] janitor_user_id in keystone.conf"
)


#: Types of Mistral in the catalog: a workflow that Heat starts can read the token that it is started with.
_WORKFLOW = frozenset({"workflow", "workflowv2"})
_ADMIN = "admin"
_NEXT = "the orchestrator gives it the role when the deletion goes on, or is retried"
_NAMED = 10  #: surplus roles and groups that one message names


def session(context: DrainContext, roles: Sequence[str], fenced: bool, writing: bool = True) -> GuardedSession:
    """Return a session with the janitor's token for the project; grant missing roles.

    :param roles: names; the token has only these roles and the roles that they imply
    :param fenced: whether the token fence is effective; it refuses to exchange a token for one of another project
    :param writing: ``False``: the session makes no write call, and nothing is granted
    :raises NoJanitor: there is none, Keystone issues it no token, or its token allows more than a member's token of
        this project
    """
    janitor_id = context.janitor_id()
    if not janitor_id:
        raise NoJanitor(_SET_UP)
    role_ids = [context.projects.role_id(role) for role in roles]
    allowed = context.projects.implied_roles(role_ids)
    if _ADMIN in {role.lower() for role in allowed}:
        raise NoJanitor(f"[{JANITOR}] roles = {', '.join(roles)} makes the janitor an admin: give it a member's role")
    rows = context.projects.assignments_of(janitor_id)
    groups = [f"group {name}" for name in context.projects.groups_of(janitor_id)]
    if beyond := groups + _beyond(rows, role_ids):
        named = "; ".join(beyond[:_NAMED])
        raise NoJanitor(
            f"the janitor, user {janitor_id}, must have no role and no group of its own, and has {named}: "
            "take them from it"
        )
    there = {row["role"]["id"] for row in rows if row["scope"]["project"]["id"] == context.project_id}
    for role_id in role_ids:
        if role_id not in there:
            if not writing:
                raise NoJanitor(f"the janitor, user {janitor_id}, does not have its role on the project: {_NEXT}")
            context.record_intent(GRANT_ADDED, {"actor": "users", "actor_id": janitor_id, "role_id": role_id})
            context.projects.grant(context.project_id, "users", janitor_id, role_id)
    try:
        made, found = context.clouds.janitor_session(context.project_id, context.guard if writing else read_only)
    except NoProjectToken as error:
        raise NoJanitor(
            f"the janitor, user {janitor_id}, gets no token for the project ({error}): check "
            f"[{protocol.GROUP}] janitor_user_id in the keystone.conf of every Keystone"
        ) from None
    if more := sorted(found - allowed):
        raise NoJanitor(
            f"the janitor, user {janitor_id}, has more roles on the project than [{JANITOR}] roles allows: "
            f"{', '.join(more)}; take them from it"
        )
    if not writing:  # a list starts no workflow
        return made
    # With the token of one project, a workflow could get a token of every other project that is being deleted.
    if not fenced and _WORKFLOW & made.service_types() and context.clouds.can_rescope(made, context.project_id):
        raise NoJanitor(
            "the cloud has Mistral, a workflow of which may read the janitor's token, and Keystone exchanges that for "
            "one of another project: set [token] allow_rescope_scoped_token = false in keystone.conf, or use the "
            "token fence ([drain] driver = fence)"
        )
    return made


def _beyond(rows: Sequence[Mapping[str, Any]], role_ids: Sequence[str]) -> list[str]:
    """Return role assignments other than these roles directly on a project, as texts."""
    found = []
    for row in rows:
        role, scope = row["role"]["id"], row.get("scope", {})
        if not _is_direct(row) or "project" not in scope or role not in role_ids:
            where = " ".join(str(place.get("id", kind)) for kind, place in scope.items() if isinstance(place, dict))
            found.append(f"role {role} on {where}{'' if _is_direct(row) else ' (inherited by projects)'}")
    return found


def _is_direct(row: Mapping[str, Any]) -> bool:
    return INHERITED not in row.get("scope", {})
