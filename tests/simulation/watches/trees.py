"""Trees: a project is deleted after all projects below it, and a cancel stops the deletions below first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.transitions import LIVE
from tests.simulation.cloud import PROJECT_SETTINGS, Thing
from tests.simulation.watches.base import Watch
from tests.support.scheduler import Thread

if TYPE_CHECKING:
    from tests.simulation.promises import Promises

#: Statuses in which the lock or the deletes of a deletion begin: its survey of projects below counts from there.
_BEGINNING = frozenset({Status.DRAINING, Status.DELETING})


class Trees(Watch):
    """What holds between the deletions of a tree."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._surveyed: dict[str, int] = {}  #: number of the effect at which the latest survey read what is below
        self._counts: dict[str, int] = {}  #: the same for the survey that the current round uses
        self._going: set[str] = set()  #: deletions past their last cancel, with the project settings round open
        self._since: dict[str, int] = {}  #: number of the effect at which the present attempt began

    def finished(self, thread: Thread) -> None:
        held = thread.held
        read = thread.saw.get(("below", self.promises.project[held.owner_id]))
        if held.kind == "survey" and read is not None:
            self._surveyed[held.owner_id] = read

    def told(self, deletion_id: str, type_: str) -> None:
        if type_ == "round.opened":
            self._counts[deletion_id] = self._surveyed.get(deletion_id, 0)

    def opened(self, deletion_id: str, purpose: str) -> None:
        if purpose == "project_settings":
            self._going.add(deletion_id)

    def moved(self, deletion_id: str, before: str, after: Status) -> None:
        if after is Status.ACCEPTED:
            self._since[deletion_id] = self.simulation.effects
            self._going.discard(deletion_id)
        elif after in _BEGINNING:
            self._counts[deletion_id] = self._surveyed.get(deletion_id, 0)
        elif after is Status.CANCELLING:
            self._cancelled(deletion_id)

    def _cancelled(self, deletion_id: str) -> None:
        """Check that all below is stopped before this one is."""
        thread = self.simulation.current
        began = thread.saw.get("asked", 0) if thread else 0
        for child in self.below(deletion_id):
            live = self.promises.status[child] in LIVE - {Status.CANCELLING}
            if live and child not in self._going and self._since[child] < began:
                project = self.promises.project
                text = f"{project[deletion_id]} is cancelled before the deletion of {project[child]} below it"
                self.promises.fail(text)

    def below(self, deletion_id: str) -> list[str]:
        """Return the deletions below one."""
        children = [child for child, parent in self.promises.parent.items() if parent == deletion_id]
        return [found for child in children for found in (child, *self.below(child))]

    def write(self, thread: Thread, label: str, what: str, thing: Thing | None) -> None:
        deletion_id = thread.held.owner_id if thread.held is not None else ""
        if label in self.promises.late or not deletion_id or thread.held.kind not in ("drain", "sweep", "remove"):
            return
        if thing is not None and thing.type in PROJECT_SETTINGS:
            return
        counts = self._counts.get(deletion_id, 0)
        there = [p.id for p in self.keystone.below(self.promises.project[deletion_id]) if p.born < counts]
        if there:
            self.promises.fail(f"{label}: projects below it are still there: {', '.join(there)}")

    def accepted(self, top: str, began: int) -> None:
        """Check, once a request for a tree is taken, that each project of it has a deletion.

        :param began: number of the effect at which the request came
        """
        named = set(self.promises.project.values())
        missing = [p.id for p in self.keystone.below(top) if p.born <= began and p.id not in named]
        if missing:
            self.promises.fail(f"the deletion of {top} with its subtree has none of {', '.join(missing)}")

    def at_the_end(self) -> None:
        for deletion_id, status in self.promises.status.items():
            if status is not Status.DELETED:
                continue
            for child in self.below(deletion_id):
                project = self.keystone.projects[self.promises.project[child]]
                if project.exists:
                    self.promises.fail(
                        f"{self.promises.project[deletion_id]} is gone, and {project.id} below it is not"
                    )
