"""Mode ``purge``: what is selected is deleted, all else stays, and the project is given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.step import Outcome
from tests.simulation.cloud import PROJECT_SETTINGS, UNSHOWN, Thing
from tests.simulation.keystone import OURS, Project, Selected
from tests.simulation.proofs import RELEASED
from tests.simulation.setting import STALL_AFTER
from tests.simulation.watches.base import Watch
from tests.support.scheduler import Thread

if TYPE_CHECKING:
    from tests.simulation.promises import Promises

#: Empty inventories in a row that a project needs to be purged.
INVENTORIES = 2
#: Events after which the empty inventories before them no longer count.
_VOID = ("drain.held", "inventory.void")
#: Which types need what a resource is: their resources name it in ``on``.
_ON = {"block-storage.volume": "block-storage.snapshot"}


class Purges(Watch):
    """What must hold of a deletion that keeps its project."""

    def __init__(self, promises: Promises) -> None:
        super().__init__(promises)
        self._opened: dict[str, float] = {}  #: when the present round was opened
        self._surveyed: dict[str, int] = {}  #: number of the effect at which the latest survey read the project
        self._clear: dict[str, float] = {}  #: when the latest survey succeeded
        self._empty: dict[str, list[str]] = {}  #: what is wrong with each of the empty inventories in a row
        self._locked: dict[str, bool] = {}  #: whether it was on record at the latest one that the lock is complete

    def _keeps(self, deletion_id: str) -> bool:
        row = self.promises.one("SELECT mode FROM deletions WHERE id = ?", deletion_id)
        return row is not None and row[0] == Mode.PURGE

    # -- writes
    def write(self, thread: Thread, label: str, what: str, thing: Thing | None) -> None:
        if self.plan.mode is not Mode.PURGE or thread.held is None or not self._keeps(thread.held.owner_id):
            return
        if what in ("project", "enabled=False"):
            self.promises.fail(f"{label}: the deletion keeps the project")
        if thing is None or what.endswith(" start"):
            return
        if thing.type in PROJECT_SETTINGS:
            self.promises.fail(f"{label}: the deletion keeps the project and its settings")
        shown = thread.saw.pop(("selected", thing.id), False)
        if not (self.cloud.selects(thing) if thing.type in UNSHOWN else shown):
            self.promises.fail(f"{label}: it is not selected")
        if what.endswith(" stop"):
            return
        if staying := self._staying(thing):
            self.promises.fail(f"{label}: {staying} needs it, and stays")

    def _staying(self, thing: Thing) -> str:
        """Return a resource that is not selected, or not in the plan, and needs another one; empty: there is none.

        ``Needs`` watches what servers use, and a service refuses to delete a network with ports.
        """
        needing = self.cloud.there(thing.region, _ON.get(thing.type, ""))
        return next((t.id for t in needing if t.on == thing.id and not self._goes(t)), "")

    def _goes(self, thing: Thing) -> bool:
        """Whether a resource is to be deleted."""
        planned = not self.plan.bound or thing.id in self.promises.planned
        return self.cloud.selects(thing) and planned

    # -- inventories
    def finished(self, thread: Thread) -> None:
        held = thread.held
        if held is not None and held.kind == "survey":
            project_id = self.promises.project[held.owner_id]
            self._surveyed[held.owner_id] = thread.saw.get(("project", project_id), 0)
            if self.promises.one("SELECT outcome FROM steps WHERE id = ?", held.id)[0] == Outcome.CLEAR:
                self._clear[held.owner_id] = self.simulation.now

    def told(self, deletion_id: str, type_: str) -> None:
        if type_ == "round.opened":
            self._opened[deletion_id] = self.simulation.now
        elif type_ in _VOID:
            self._empty.pop(deletion_id, None)
        elif type_ == "inventory.empty" and self._keeps(deletion_id):
            self._empty.setdefault(deletion_id, []).append(self._wrong(deletion_id))
            self._locked[deletion_id] = self._drained(deletion_id)

    def _wrong(self, deletion_id: str) -> str:
        """Return why an inventory does not prove anything; empty: it listed each selected type behind the lock.

        An inventory may end after its survey found that the lock was lost. The drain that follows makes it void.
        """
        project = self.keystone.projects[self.promises.project[deletion_id]]
        dns = any(service == "dns" for _, service in self.keystone.catalog) and not self.cloud.waived
        if dns and self.plan.selects("dns"):
            return "although no plugin covers dns"
        opened = self._opened.get(deletion_id, 0.0)
        unlocked = self._may_be_unlocked(project, deletion_id)
        for (region, name), lists in project.selections.items():
            if name in PROJECT_SETTINGS or not self.plan.selects(name):
                continue
            made = [one for one in lists if one.at >= opened]
            counted = made if unlocked else made[-1:]
            if not any(not one.ids and (unlocked or self._settled(one)) for one in counted):
                return f"without an empty list of {name}@{region} behind the lock"
        left = [t.id for t in self.cloud.left(project.id) if self.cloud.selects(t)]
        return f"although there is {', '.join(left)}" if left and not unlocked else ""

    def _may_be_unlocked(self, project: Project, deletion_id: str) -> bool:
        """Whether the lock is incomplete, or others regained access after the latest survey checked it.

        A lock that others kept from being complete is on record: the end says so.
        """
        plan = self.plan
        partial = plan.inherited or plan.driver == "none" or plan.disabled or not self._drained(deletion_id)
        return partial or project.reopened >= self._surveyed.get(deletion_id, 0) > 0

    def _drained(self, deletion_id: str) -> bool:
        """Whether it is on record that the lock is complete."""
        return self.promises.one("SELECT drained_at FROM deletions WHERE id = ?", deletion_id)[0] is not None

    def _settled(self, one: Selected) -> bool:
        return one.locked_at is not None and one.at >= one.locked_at + self.plan.settle

    # -- the end
    def moved(self, deletion_id: str, before: str, after: Status) -> None:
        empty = self._empty.pop(deletion_id, [])
        if self.plan.mode is not Mode.PURGE or not self._keeps(deletion_id):
            return
        project = self.keystone.projects[self.promises.project[deletion_id]]
        if after is Status.PURGED and len(empty) < INVENTORIES:
            self.promises.fail(f"purged after {len(empty)} empty inventories in a row")
        if after is Status.PURGED and (wrong := " and ".join(filter(None, empty[-INVENTORIES:]))):
            self.promises.fail(f"an inventory counts as empty {wrong}")
        if after is Status.PURGED and not self._locked.get(deletion_id):
            said = self.promises.one("SELECT message FROM deletions WHERE id = ?", deletion_id)[0]
            if "not locked completely" not in said:
                self.promises.fail("purged without a complete lock, and the deletion does not say so")
        if after is Status.FAILED and self._unseen(deletion_id):
            self.promises.unseen.add(deletion_id)
        elif after is Status.FAILED and project.exists:
            self.promises.fail("a deletion that keeps its project failed, and the project is there")
        if after is Status.DELETED:
            self.promises.fail("a deletion that keeps its project ends as deleted")
        if after in RELEASED:
            self._members_work(project, after)

    def _unseen(self, deletion_id: str) -> bool:
        """Whether Keystone was down for so long that the project is given back without an answer of its."""
        down = any(fault.kind == "outage" for fault in self.plan.faults)
        return down and self.simulation.now - self._clear.get(deletion_id, self.simulation.now) >= STALL_AFTER

    def _members_work(self, project: Project, status: Status) -> None:
        """Check that the members of a project that was given back get tokens again."""
        members = project.wanted_enabled and any(who not in OURS for _, who, _ in project.wanted_grants)
        late = any(label.endswith(f" of {project.id}") for label in self.promises.late)
        if project.exists and members and not late and not self.keystone.open(project):
            self.promises.fail(f"{status}, and the members of the project are still locked out")
