"""The driver that locks nothing until the project is disabled at the very end."""

from __future__ import annotations

from cleanup_orchestrator.drain.base import DrainContext, Result
from cleanup_orchestrator.drain.roles import ByRoles


class NoDrain(ByRoles):
    """Leaves the project usable during the cleanup.

    Only inventories after the closing disable are final.
    """

    def drain(self, context: DrainContext) -> Result:
        """Change nothing, and report that the project is not locked."""
        return Result(False, "no_drain", "the driver 'none' locks nothing before the project is disabled")
