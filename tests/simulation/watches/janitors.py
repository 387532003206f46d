"""Watches the janitors: each ends with its deletion."""

from __future__ import annotations

from cleanup_orchestrator.cloud import janitors
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.transitions import LIVE
from tests.simulation.watches.base import Watch


class Janitors(Watch):
    """No user that was made for a deletion outlives it, whatever its end."""

    def moved(self, deletion_id: str, before: str, after: Status) -> None:
        if after not in LIVE and janitors.user_name(deletion_id) in self.cloud.janitors.names.values():
            self.promises.fail(f"{after}, and the janitor of the deletion is still there")

    def at_the_end(self) -> None:
        live = {janitors.user_name(id_) for id_, status in self.promises.status.items() if status in LIVE}
        if left := sorted(set(self.cloud.janitors.names.values()) - live):
            self.promises.fail(f"nothing is under way any more, and users are left: {', '.join(left)}")
