"""The janitor: the user with whose token services are asked to act on what the project's users wrote.

Heat deletes a stack by running what its template says, with the token that asked for the delete; Magnum's drivers do
the like. With an admin's token a template reaches the whole cloud. The janitor has no role of its own anywhere: it gets
a member's role on a project right before its token is needed there, recorded like every other grant, and loses it when
the deletion ends. So a template can do nothing that its author could not do himself.
"""

from __future__ import annotations

from collections.abc import Sequence

from cleanup_orchestrator.clouds import JANITOR, GuardedSession
from cleanup_orchestrator.drain.base import GRANT_ADDED, INHERITED, Ground
from cleanup_orchestrator.errors import NoJanitor, NoProjectToken
from cleanup_orchestrator.keystone import protocol

_SET_UP = (
    f"[{JANITOR}] is not configured, and an admin's token must not be used for it: make a user without any role, and "
    f"name it in [{JANITOR}] of the worker's configuration and as [{protocol.GROUP}] janitor_user_id in keystone.conf"
)


def session(ground: Ground, roles: Sequence[str]) -> GuardedSession:
    """Return a session with the janitor's token for the project; its user gets its roles there if it has them not.

    :param roles: names; the token carries these and what they imply, and nothing else
    :raises NoJanitor: when there is none, Keystone gives it no token, or the token could do more than a member's
    """
    janitor_id = ground.janitor_id()
    if not janitor_id:
        raise NoJanitor(_SET_UP)
    role_ids = [ground.projects.role_id(role) for role in roles]
    rows = ground.projects.assignments(ground.project_id)
    there = {r["role"]["id"] for r in rows if _is_direct(r) and r.get("user", {}).get("id") == janitor_id}
    for role_id in role_ids:
        if role_id not in there:
            ground.intend(GRANT_ADDED, {"actor": "users", "actor_id": janitor_id, "role_id": role_id})
            ground.projects.grant(ground.project_id, "users", janitor_id, role_id)
    try:
        made, found = ground.clouds.janitor_session(ground.project_id, ground.guard)
    except NoProjectToken as error:
        raise NoJanitor(
            f"the janitor, user {janitor_id}, gets no token for the project ({error}): check "
            f"[{protocol.GROUP}] janitor_user_id in the keystone.conf of every Keystone"
        ) from None
    if more := sorted(found - ground.projects.implied_roles(role_ids)):
        raise NoJanitor(
            f"the janitor, user {janitor_id}, has more roles on the project than [{JANITOR}] roles allows: "
            f"{', '.join(more)}; take them from it"
        )
    return made


def _is_direct(row: dict) -> bool:
    return INHERITED not in row.get("scope", {})
