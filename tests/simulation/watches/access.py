"""Access: who sets a fence, who stops whose deletion, and whom a notification makes a requester."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cleanup_orchestrator.core import approvals
from cleanup_orchestrator.core.deletion import Status
from tests.simulation.keystone import ME
from tests.simulation.keystone_api import ADMIN, MANAGER
from tests.simulation.watches.base import Watch

if TYPE_CHECKING:
    from tests.simulation.promises import Promises


class Access(Watch):
    """What holds of a domain manager and of the bus."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._of_admins: set[str] = set()  #: deletions that an admin requested, retried or forced

    @property
    def _by(self) -> str:
        """Return the user whose request is being carried out; empty: none."""
        thread = self.simulation.current
        return thread.saw.get("by", "") if thread is not None else ""

    def told(self, deletion_id: str, type_: str) -> None:
        if type_ in approvals.REQUEST_EVENTS and self._by not in ("", MANAGER):
            self._of_admins.add(deletion_id)

    def moved(self, deletion_id: str, before: str, after: Status) -> None:
        if after is Status.CANCELLING and self._by == MANAGER and deletion_id in self._of_admins:
            self.promises.fail(f"a domain manager stops deletion {deletion_id} of an admin")
        if not before and self.promises.noticed(deletion_id):
            reader = self.promises.one("SELECT user_id FROM deletions WHERE id = ?", deletion_id)[0]
            if reader:
                self.promises.fail(f"{reader}, whom only the bus names, may read deletion {deletion_id}")

    def at_the_end(self) -> None:
        for caller, project_id, fence in self.keystone.fenced_by:
            if caller != ME and (fence or caller != ADMIN):
                self.promises.fail(f"{caller} {'sets' if fence else 'lifts'} the fence of {project_id}")
