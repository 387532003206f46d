"""The recovery window: nothing is deleted before its end, and each server that is stopped for it is started again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cleanup_orchestrator.core.deletion import Status
from tests.simulation.cloud import PROJECT_SETTINGS, SERVER, Thing
from tests.simulation.proofs import RELEASED
from tests.simulation.watches.base import Watch
from tests.support.scheduler import Thread

if TYPE_CHECKING:
    from tests.simulation.promises import Promises

_STOPPED = "SELECT data FROM changes WHERE deletion_id = ? AND type = 'resource_stopped' AND NOT undone"
_ALL_STOPPED = "SELECT data FROM changes WHERE type = 'resource_stopped' AND NOT undone"


class Recovery(Watch):
    """What must hold while a project can be restored."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self.cloud.stop_recorded = self._stop_recorded

    def _stop_recorded(self, server: Thing) -> bool:
        rows = self.promises.database.raw.execute(_ALL_STOPPED)
        return server.id in {json.loads(row[0])["id"] for row in rows}

    def write(self, thread: Thread, label: str, what: str, thing: Thing | None) -> None:
        if thing is None or thing.type in PROJECT_SETTINGS or label in self.promises.late:
            return
        if what.endswith(" start"):
            if thread.held.kind != "release":
                self.promises.fail(f"{label}: a server is started only where its project is given back")
        elif what.endswith(" stop"):
            self._stop(thread, label, thing)
        elif self.plan.window:
            since = self.promises.rests_since.get(thread.held.owner_id)
            # Half of it: the store may retry between the decision and its record.
            if since is None or self.simulation.now < since + self.plan.window / 2:
                self.promises.fail(f"{label}: the point of no return is still to come")

    def _stop(self, thread: Thread, label: str, thing: Thing) -> None:
        if not self.plan.stop_servers:
            self.promises.fail(f"{label}: [deletion] recovery_stop_servers is off")
        rows = self.promises.database.raw.execute(_STOPPED, (thread.held.owner_id,))
        if thing.id not in {json.loads(row[0])["id"] for row in rows}:
            self.promises.fail(f"{label}: there was no record that it was going to be stopped")

    def moved(self, deletion_id: str, before: str, after: Status) -> None:
        if after in RELEASED:
            self._restored(self.promises.project[deletion_id], str(after))

    def _restored(self, project_id: str, when: str) -> None:
        """Check that each server runs, or does not, as others left it.

        Exempt is a server that others stopped between the last read and the stop of the orchestrator. The stop was
        recorded before, and whether the refused stop was the first one is not known after a lost answer.
        """
        project = self.keystone.projects.get(project_id)
        if project is None or not project.exists:
            return
        late = " ".join(self.promises.late)
        for region, name in self.cloud.things:
            for server in self.cloud.mine(region, name, project_id) if name == SERVER else ():
                overlaps = any(f"{SERVER} {action} {server.id}" in late for action in ("stop", "start"))
                exempt = overlaps or server.stopped_first
                if server.running is not server.wanted_running and not exempt:
                    text = "runs" if server.running else "is stopped"
                    self.promises.fail(f"{when}, and server {server.id} {text}")

    def at_the_end(self) -> None:
        for deletion_id, status in self.promises.status.items():
            if status in RELEASED:
                self._restored(self.promises.project[deletion_id], f"{status} in the end")
