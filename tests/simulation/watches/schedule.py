"""A deletion with a date: nothing is written for it, and it does not begin, before the latest date that it got."""

from __future__ import annotations

from cleanup_orchestrator.core.deletion import Status
from tests.simulation.cloud import Thing
from tests.simulation.database import at
from tests.simulation.watches.base import Watch
from tests.support.scheduler import Thread

_DATE = "SELECT not_before FROM deletions WHERE id = ?"


class Schedule(Watch):
    """What must hold before the date."""

    def write(self, thread: Thread, label: str, what: str, thing: Thing | None) -> None:
        if thread.held is not None and self._early(thread.held.owner_id):
            self.promises.fail(f"{label}: the date of the deletion has not come")

    def moved(self, deletion_id: str, before: str, after: Status) -> None:
        if before == Status.ACCEPTED and after is not Status.CANCELLING and self._early(deletion_id):
            self.promises.fail(f"it is {after} before its date")

    def at_the_end(self) -> None:
        for deletion_id, status in self.promises.status.items():
            if status is Status.ACCEPTED:
                self.promises.fail(f"deletion {deletion_id} never begins")

    def _early(self, deletion_id: str) -> bool:
        date = self.promises.one(_DATE, deletion_id)[0]
        return date is not None and str(at(self.simulation.now)) < date
