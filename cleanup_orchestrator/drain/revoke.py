"""The driver for a stock Keystone: record and remove every direct grant on the project but the orchestrator's own."""

from __future__ import annotations

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.drain import base
from cleanup_orchestrator.drain.base import GRANT_REMOVED, INHERITED, DrainContext, Driver, Result


class Revoke(Driver):
    """Removes direct grants. Application credentials and trusts survive that, and work again when they come back.

    Grants that reach the project from its domain, from a parent or through inheritance are not the project's, and stay;
    their users keep getting tokens, so the drain is partial until the project is disabled.
    """

    def drain(self, context: DrainContext) -> Result:
        """Remove the direct grants and see who is left.

        :raises cleanup_orchestrator.drain.base.NotHeld: when Keystone may still accept tokens that rest on them
        """
        removed = 0
        for _ in range(3):  # somebody may give roles while we take them
            rows = self._direct(context)
            for actor, actor_id, role_id in rows:
                context.record_intent(GRANT_REMOVED, {"actor": actor, "actor_id": actor_id, "role_id": role_id})
                context.projects.ungrant(context.project_id, actor, actor_id, role_id)
            removed += len(rows)
            if not rows:
                break
        # Keystone drops its token cache before it removes a grant: who validates in between keeps an old token good.
        # Also when nothing was removed: a try before this one may have died on the way here.
        base.forget_tokens(context)
        others = self._others(context)
        if others:
            shown = ", ".join(sorted(others)[:5]) + (", …" if len(others) > 5 else "")
            message = f"{len(others)} keep getting tokens through inherited grants: {shown}"
            return Result(False, str(Reason.INHERITED_GRANTS), message)
        return Result(True, message=f"{removed} direct grants recorded and removed")

    def held(self, context: DrainContext) -> bool:
        """Whether still nobody else has a role that is in effect."""
        return not self._direct(context) and not self._others(context)

    def held_until_closed(self, context: DrainContext) -> bool:
        """Whether nobody else was given a role since: it stays where it is when the project is disabled."""
        return self.held(context)

    @staticmethod
    def _direct(context: DrainContext) -> list[tuple[str, str, str]]:
        """Return the direct grants on the project but for our own user's and the janitor's."""
        rows = context.projects.assignments(context.project_id)
        grants = [base.grant_of(row) for row in rows if INHERITED not in row.get("scope", {})]
        own = {("users", user_id) for user_id in (context.user_id, context.janitor_id())}
        return [grant for grant in grants if grant[:2] not in own]

    @staticmethod
    def _others(context: DrainContext) -> set[str]:
        """Return who may get a token for the project, besides us."""
        users = set(context.projects.members(context.project_id)) - {context.user_id, context.janitor_id()}
        groups = {f"whoever is in group {group}" for group in context.projects.inherited_groups(context.project_id)}
        return {f"user {user}" for user in users} | groups
