"""The driver for a stock Keystone: record and remove every direct grant on the project but the orchestrator's own."""

from __future__ import annotations

from cleanup_orchestrator.drain.base import GRANT_REMOVED, INHERITED, Driver, Ground, Result
from cleanup_orchestrator.model import Reason


class Revoke(Driver):
    """Removes direct grants. Application credentials and trusts survive that, and work again when they come back.

    Grants that reach the project from its domain, from a parent or through inheritance are not the project's, and stay;
    their users keep getting tokens, so the drain is partial until the project is disabled.
    """

    def drain(self, ground: Ground) -> Result:
        """Remove the direct grants and see who is left."""
        removed = 0
        for row in ground.projects.assignments(ground.project_id):
            if INHERITED in row.get("scope", {}):
                continue
            actor = "users" if "user" in row else "groups"
            actor_id, role_id = row[actor[:-1]]["id"], row["role"]["id"]
            if actor == "users" and actor_id == ground.user_id:
                continue
            ground.intend(GRANT_REMOVED, {"actor": actor, "actor_id": actor_id, "role_id": role_id})
            ground.projects.ungrant(ground.project_id, actor, actor_id, role_id)
            removed += 1
        others = self._others(ground)
        if others:
            shown = ", ".join(sorted(others)[:5]) + (", …" if len(others) > 5 else "")
            message = f"{len(others)} users keep getting tokens through inherited grants: {shown}"
            return Result(False, str(Reason.INHERITED_GRANTS), message)
        return Result(True, message=f"{removed} direct grants recorded and removed")

    def held(self, ground: Ground) -> bool:
        """Whether still nobody else has a role that is in effect."""
        return not self._others(ground)

    @staticmethod
    def _others(ground: Ground) -> set[str]:
        return set(ground.projects.members(ground.project_id)) - {ground.user_id}
