"""The driver for an unmodified Keystone: removes and restores direct grants."""

from __future__ import annotations

from cleanup_orchestrator.core import lock
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.drain import base
from cleanup_orchestrator.drain.base import GRANT_REMOVED, INHERITED, DrainContext, Result
from cleanup_orchestrator.drain.roles import ByRoles


class Revoke(ByRoles):
    """Records and removes every direct grant except the orchestrator's.

    Application credentials and trusts remain, and work again when the grants return. Grants that the project inherits
    from its domain or from a parent project are not changed. Their users still get tokens, so the drain is partial
    until the project is disabled.
    """

    def drain(self, context: DrainContext) -> Result:
        """Remove the direct grants and report which users still get tokens.

        :raises cleanup_orchestrator.drain.base.NotHeld: Keystone may still accept tokens based on removed grants
        """
        removed = 0
        for _ in range(3):  # users may grant roles meanwhile
            rows = self._direct(context)
            for actor, actor_id, role_id in rows:
                context.record_intent(GRANT_REMOVED, {"actor": actor, "actor_id": actor_id, "role_id": role_id})
                context.projects.ungrant(context.project_id, actor, actor_id, role_id)
            removed += len(rows)
            if not rows:
                break
        # Keystone drops its token cache before it removes a grant: a validation in between keeps an old token valid.
        # This is needed even if nothing was removed: an earlier attempt may have died right before this line.
        base.forget_tokens(context)
        others = self._others(context)
        if others:
            shown = ", ".join(sorted(others)[:5]) + (", …" if len(others) > 5 else "")
            message = f"{len(others)} keep getting tokens through inherited grants: {shown}"
            return Result(False, str(Reason.INHERITED_GRANTS), message)
        text = f"{removed} direct grants recorded and removed"
        return Result(True, message=text, evidence=lock.evidence(context.user_id, ()))

    def held(self, context: DrainContext) -> bool:
        """Return whether no other user has an effective role on the project."""
        return not self._direct(context) and not self._others(context)

    def held_until_closed(self, context: DrainContext) -> bool:
        """Return whether no other user got a role since. Disabling keeps the grants."""
        return self.held(context)

    @staticmethod
    def _direct(context: DrainContext) -> list[tuple[str, str, str]]:
        """Return the direct grants except the orchestrator's and the janitor's."""
        rows = context.projects.assignments(context.project_id)
        grants = [base.grant_of(row) for row in rows if INHERITED not in row.get("scope", {})]
        own = {("users", user_id) for user_id in (context.user_id, context.janitor_id())}
        return [grant for grant in grants if grant[:2] not in own]

    @staticmethod
    def _others(context: DrainContext) -> set[str]:
        """Return the other users, and the groups, that may get a token."""
        users = set(context.projects.members(context.project_id)) - {context.user_id, context.janitor_id()}
        groups = {f"members of group {group}" for group in context.projects.inherited_groups(context.project_id)}
        return {f"user {user}" for user in users} | groups
