"""Checks the promises at every effect and at the end. It uses only the rows of the database and the cloud.

One overlap is allowed, because it cannot be prevented. A write passes the guard while the worker has the claim of the
step, and reaches the cloud after the worker has lost it (the process stood still in between). At most one call of each
thread may do this, and the other checks ignore its effect.

``proofs`` defines when a project is empty, and when it is restored. The classes in ``watches`` add the promises about
trees, plugin liens, the recovery window and orphans.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cleanup_orchestrator.core.deletion import Mode, Origin, Status
from cleanup_orchestrator.core.step import SCANS
from cleanup_orchestrator.core.transitions import LIVE, MOVES
from tests.simulation.cloud import PROJECT_SETTINGS, UNSHOWN, Cloud, Thing
from tests.simulation.database import Database, at
from tests.simulation.keystone import PROJECT
from tests.simulation.plan import Plan
from tests.simulation.proofs import RELEASED, Proofs
from tests.simulation.watches import WATCHES, Watch
from tests.support.scheduler import Simulation, Thread

_HELD = """
SELECT s.state, s.fencing_token, s.lease_until, s.kind, s.round, s.project_setting,
       d.status, d.purpose, d.round, d.since_round, d.dry_run
  FROM steps s JOIN deletions d ON d.id = s.owner_id WHERE s.id = ?
"""
#: Whether a lien or the brake is in force.
_PROTECTED = """
SELECT EXISTS (SELECT 1 FROM liens WHERE project_id = ? AND deleted_at IS NULL)
    OR EXISTS (SELECT 1 FROM brakes WHERE "on")
"""
#: The kinds of steps that a lien and the brake do not hold.
_NOT_HELD = ("access", "release")


class Promises:
    """Watches one run."""

    def __init__(self, plan: Plan, simulation: Simulation, cloud: Cloud, database: Database) -> None:
        self.plan, self.simulation, self.cloud, self.database = plan, simulation, cloud, database
        self.status: dict[str, Status] = {}  #: of each deletion
        self.project: dict[str, str] = {}  #: of each deletion
        self.parent: dict[str, str] = {}  #: the deletion that waits for each
        self.passed: set[Status] = set()  #: all statuses that there were
        self.announced: set[str] = set()  #: ids in the journal as going to be deleted
        self.deleted: list[str] = []  #: ids whose delete took effect
        self.late: set[str] = set()  #: writes that were the allowed overlap
        self.stalled: set[str] = set()  #: deletions that are stalled
        self.unseen: set[str] = set()  #: deletions that failed and gave the project back while Keystone was down
        self.blocked: dict[str, float] = {}  #: since when deletions are blocked, by id
        self.asking: set[str] = set()  #: deletions that wait for an approval
        self.planned: frozenset[str] = frozenset()  #: ids in the plan that it is bound to
        self.rests_since: dict[str, float] = {}  #: time since which an attempt has deleted nothing and can be restored
        self.bystanders = cloud.of_others()
        self.writes = 0
        self.proofs = Proofs(self)
        self.watches: list[Watch] = [kind(self) for kind in WATCHES]
        cloud.on_write = self._checked

    def fail(self, text: str) -> None:
        """A promise does not hold."""
        self.simulation.fail(text)

    def one(self, query: str, *values: Any) -> Any:
        """Return the first row of a query, if there is one."""
        return self.database.raw.execute(query, values).fetchone()

    def noticed(self, deletion_id: str) -> bool:
        """Return whether the record was made because Keystone said that the project was deleted."""
        return self.one("SELECT origin FROM deletions WHERE id = ?", deletion_id)[0] == Origin.NOTICED

    def latest(self, project_id: str = PROJECT) -> str:
        """Return the id of the latest deletion of a project; empty: there is none."""
        return next((id_ for id_ in reversed(self.project) if self.project[id_] == project_id), "")

    # -- the record
    def watched(self, what: str, who: Any, one: Any, two: Any) -> None:
        """Called by the triggers of the database."""
        self._failing(f"{what} of {who}", self._watched, what, who, one, two)

    def _watched(self, what: str, who: Any, one: Any, two: Any) -> None:
        if what == "event":
            self._told(who, one, two)
        elif what == "born":
            self.project[who], self.parent[who] = one, two
        elif what == "move":
            self._moved(who, one, Status(two))
        elif what == "result":
            thread = self.simulation.current
            held = thread.held if thread else None
            if held is None or (held.id, held.fencing_token) != (who, one):
                self.fail(f"the result of step {who} is saved by one whose step it is not")
            elif held.kind not in SCANS:
                assert thread is not None
                for watch in self.watches:
                    watch.finished(thread)
        elif what == "purpose":
            for watch in self.watches:
                watch.opened(who, one)
        elif what == "scan":
            for watch in self.watches:
                watch.scanned(one, two)
        elif what == "orphan":
            for watch in self.watches:
                watch.confirmed(who, one)
        else:
            self.fail(f"{what} {who}: {one} {two}: what is written down is never changed")

    def _told(self, deletion_id: str, type_: str, text: str) -> None:
        if type_ in ("resource.deleting", "resource.forcing"):
            self.announced.update(r["id"] for r in json.loads(text)["resources"])
        elif type_ in ("condition.stalled", "condition.approval"):
            flagged = self.stalled if type_ == "condition.stalled" else self.asking
            (flagged.add if json.loads(text)["status"] else flagged.discard)(deletion_id)
        elif type_ == "condition.blocked":
            self.blocked.pop(deletion_id, None)
            if json.loads(text)["status"]:
                self.blocked[deletion_id] = self.simulation.now
        for watch in self.watches:
            watch.told(deletion_id, type_)

    def _moved(self, deletion_id: str, before: str, after: Status) -> None:
        self.status[deletion_id] = after
        self.passed.add(after)
        self.stalled.discard(deletion_id)  # a move forgets that condition
        project = self.project[deletion_id]
        self.simulation.note(f"status of {project}: {before or '-'} -> {after}")
        if before and (Status(before), after) not in MOVES:
            self.fail(f"{before} -> {after} is no legal move")
        if after not in LIVE:
            self.asking.discard(deletion_id)
            self.blocked.pop(deletion_id, None)
        if after is Status.ACCEPTED:
            self.rests_since.pop(deletion_id, None)
        elif after is Status.RECOVERABLE:
            self.rests_since.setdefault(deletion_id, self.simulation.now)
        elif after is Status.DELETING:
            self._approved(deletion_id)
        if after is Status.DELETED:
            self.proofs.ended_as_deleted(deletion_id)
        if after in RELEASED:
            self.proofs.restored(project, f"{after}")
        for watch in self.watches:
            watch.moved(deletion_id, before, after)

    def _approved(self, deletion_id: str) -> None:
        """Check that a deletion deletes no more than the limit without approval, or than the approver saw."""
        if not self.plan.limit:
            return
        project_id = self.project[deletion_id]
        given = json.loads(self.one("SELECT approvals FROM deletions WHERE id = ?", deletion_id)[0])
        most = max([self.plan.limit, *(a["resources"] for a in given)])
        done = "SELECT region, service || '.' || type FROM steps WHERE owner_id = ? AND outcome = 'leftovers'"
        seen = set(self.database.raw.execute(f"{done} AND waived = ''", (deletion_id,)))
        project = self.cloud.keystone.projects.get(project_id)
        listed = project.listed_at if project else {}
        left = [t for t in self.cloud.left(project_id) if (t.region, t.type) in seen]
        left = [t for t in left if self.cloud.selects(t)]
        left = [t for t in left if t.born < listed.get((t.region, t.type), 0)]
        if (number := len([t for t in left if not self.plan.bound or t.id in self.planned])) > most:
            self.fail(f"{number} resources are about to be deleted, and the approval covers only {most}")

    # -- the guard
    def may_write(self, thread: Thread) -> bool:
        """Whether the step that the thread works on may write now, as the rows say."""
        if thread.held is None:
            return False
        row = self.one(_HELD, thread.held.id)
        if row is None:
            return False
        state, fence, lease, kind, round_, project_setting, status, purpose, current, since, dry_run = row
        if state != "running" or fence != thread.held.fencing_token or dry_run or round_ < since:
            return False
        if lease is None or lease <= str(at(self.simulation.now)):
            return False
        if Status(status) not in LIVE or (status == Status.CANCELLING and kind != "release"):
            return False
        if kind not in _NOT_HELD and self.one(_PROTECTED, self.project[thread.held.owner_id])[0]:
            return False
        if kind == "sweep":
            return round_ == current and purpose == ("project_settings" if project_setting else "delete")
        if kind == "halt":
            return status == Status.RECOVERABLE
        return kind in ("access", "drain", "close", "release") or (kind == "remove" and purpose == "project_settings")

    def asked(self, thread: Thread) -> None:
        """Called right after the guard asked the store."""
        self._failing("a permit", lambda: setattr(thread, "permit", self.may_write(thread)))

    # -- writes
    def _checked(self, thread: Thread, method: str, what: str, project_id: str, thing: Thing | None) -> None:
        """Check a write."""
        self._failing(f"{method} {what}", self.write, thread, method, what, project_id, thing)

    def _failing(self, label: str, check: Callable[..., None], *args: Any) -> None:
        """Call a check. A worker would take an error of the check for one of the cloud or of the store."""
        try:
            check(*args)
        except Exception as error:
            self.fail(f"the check of {label} failed: {type(error).__name__}: {error}")

    def write(self, thread: Thread, method: str, what: str, project_id: str, thing: Thing | None) -> None:
        """Called right before a write of the orchestrator takes effect."""
        self.writes += 1
        label = f"{method} {what}" + (f" {thing.id}" if thing else f" of {project_id}" if project_id else "")
        permit, thread.permit = thread.permit, None
        mine = self.project[thread.held.owner_id] if thread.held is not None else ""
        if permit is None:
            self.fail(f"{label}: the store was not asked right before")
        elif not permit:
            self.fail(f"{label}: the step was no longer claimed, or on hold, when the store was asked")
        elif not self.may_write(thread):
            self.late.add(label)
            self.simulation.note(f"late: {label}")
        if mine and self.one("SELECT dry_run FROM deletions WHERE id = ?", thread.held.owner_id)[0]:
            self.fail(f"{label}: a dry run writes nothing")
        if project_id and project_id != mine:
            self.fail(f"{label}: the deletion is of project {mine}")
        destroying = thing is not None and not what.endswith((" stop", " start"))
        if thing is not None:
            self._owned(thread, label, thing, mine)
        if destroying:
            assert thing is not None
            self._destroy(thread, label, thing, mine)
        elif what == "project":
            self.proofs.remove(thread, mine)
        for watch in self.watches:
            watch.write(thread, label, what, thing)

    def _owned(self, thread: Thread, label: str, thing: Thing, mine: str) -> None:
        owner, shared = (mine, False) if thing.type in UNSHOWN else thread.saw.pop(thing.id, (None, True))
        if owner != mine:
            self.fail(f"{label}: its owner was not checked right before, or is {owner}")
        if thing.owner != mine and thing.type in UNSHOWN:
            self.fail(f"{label}: it belongs to {thing.owner}")
        if shared and not label.startswith(f"POST {thing.type} start"):
            self.fail(f"{label}: it is protected")

    def _destroy(self, thread: Thread, label: str, thing: Thing, mine: str) -> None:
        if self.plan.bound and thing.type not in PROJECT_SETTINGS and thing.id not in self.planned:
            self.fail(f"{label}: it is not in the plan")
        if thing.id not in self.announced:
            self.fail(f"{label}: there was no record that it was going to be deleted")
        mode = self.one("SELECT mode FROM deletions WHERE id = ?", thread.held.owner_id)[0]
        if mode == Mode.REPORT and thing.type not in PROJECT_SETTINGS:
            self.fail(f"{label}: a report deletes nothing")
        locked_setting = thing.type in PROJECT_SETTINGS and self.proofs.locked(mine)
        if locked_setting and (left := self.proofs.left(mine, thread.held.owner_id, settings=True)):
            self.fail(f"{label}: project settings go last, and there is {left}")
        self.deleted.append(thing.id)

    # -- the end
    def at_the_end(self) -> None:
        """Check what must hold once nothing is under way."""
        if missing := self.bystanders - self.cloud.of_others() - self.cloud.given_up:
            self.fail(f"what was never the project's is gone: {sorted(missing)}")
        for deletion_id, status in self.status.items():
            if status in RELEASED:
                self.proofs.restored(self.project[deletion_id], f"deletion {deletion_id} is {status} in the end")
        if self.plan.dry_run and not self.plan.orphans and self.writes:
            self.fail("a dry run wrote")
        for watch in self.watches:
            watch.at_the_end()
