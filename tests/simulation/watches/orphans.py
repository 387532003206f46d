"""Orphans: only what belongs to no project that Keystone knows is reported, and only that is deleted by adoption."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from tests.simulation.cloud import Thing
from tests.simulation.database import at
from tests.simulation.keystone import DEAD, PROJECTS_OF_OTHERS
from tests.simulation.setting import REREAD_AFTER
from tests.simulation.watches.base import Watch
from tests.support.scheduler import Thread

if TYPE_CHECKING:
    from tests.simulation.promises import Promises

#: Simulated seconds within which a worker has to ask Keystone again, retries of the store included.
_ASKED_AGAIN = 30.0


class Orphans(Watch):
    """What holds of orphan scans and adoptions."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._waits_since = 0.0
        self._second_read = 0  #: number of the effect at which the second read began

    def scanned(self, before: str, after: str) -> None:
        """The status of a scan changed."""
        if after == "waiting":
            # Since the last list of the first read. The store may have been down before the status was saved.
            (finished,) = self.promises.one("SELECT MAX(finished_at) FROM steps WHERE kind = 'scan'")
            self._waits_since = (datetime.datetime.fromisoformat(finished) - at(0)).total_seconds()
        elif before == "waiting" and after == "running":
            self._second_read = self.simulation.effects
            if self.simulation.now < self._waits_since + REREAD_AFTER:
                self.promises.fail("an orphan scan reads again too early")

    def confirmed(self, project_id: str, resource_id: str) -> None:
        """A resource counts as an orphan from now on."""
        project = self.keystone.projects.get(project_id)
        if project_id in PROJECTS_OF_OTHERS:
            self.promises.fail(f"{resource_id} counts as an orphan, and Keystone knows project {project_id}")
        if project is None:
            return
        if project.exists and (project_id != DEAD or project.born < self._second_read):
            self.promises.fail(f"{resource_id} counts as an orphan, and Keystone knows project {project_id}")
        elif not project.exists and project.gone >= self._second_read:
            self.promises.fail(f"{resource_id} counts as an orphan, and its project {project_id} was there until now")

    def write(self, thread: Thread, label: str, what: str, thing: Thing | None) -> None:
        mine = self.promises.project[thread.held.owner_id] if thread.held is not None else ""
        if mine != DEAD or label in self.promises.late:
            return
        if thing is None:
            self.promises.fail(f"{label}: an adoption does nothing to a project")
        project = self.keystone.projects.get(DEAD)
        if project is not None and self.simulation.now > project.since + _ASKED_AGAIN:
            self.promises.fail(f"{label}: Keystone knows the project")
