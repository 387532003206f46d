"""The driver that locks nothing until the project is disabled at the very end."""

from __future__ import annotations

from cleanup_orchestrator.drain.base import DrainContext, Driver, Result


class NoDrain(Driver):
    """Leaves the project usable while it is cleaned; only what is found after the closing disable is final."""

    def drain(self, context: DrainContext) -> Result:
        """Do nothing, and say so."""
        return Result(False, "no_drain", "the driver 'none' locks nothing before the project is disabled")
