"""What must hold at every effect, and at the end, whatever goes wrong. It trusts nothing but the rows and the cloud.

One overlap is allowed, for nobody can prevent it: a write that has passed the guard while its step was its own, and
reaches the cloud later, when the step is not (a process that stood still in between). It may be one call for each
thread, and what it does is not held against the rest.
"""

from __future__ import annotations

import json
import math
from typing import Any

from cleanup_orchestrator.model import Mode, Status
from cleanup_orchestrator.transitions import LIVE, MOVES
from tests.simulation.cloud import PROJECT, RESIDUE, SCOPED, UNSHOWN, Cloud, Thing
from tests.simulation.database import Database, at
from tests.simulation.plan import Plan
from tests.simulation.scheduler import Simulation, Thread

_HELD = """
SELECT s.state, s.fence, s.lease_until, s.kind, s.round, s.residue,
       d.status, d.purpose, d.round, d.since_round, d.dry_run
  FROM steps s JOIN deletions d ON d.id = s.deletion_id WHERE s.id = ?
"""
#: Whether a lien or the brake is in force.
_PROTECTED = """
SELECT EXISTS (SELECT 1 FROM liens WHERE project_id = ? AND deleted_at IS NULL)
    OR EXISTS (SELECT 1 FROM brakes WHERE "on")
"""
#: What force has let go of: by name, and without knowing.
_ABANDONED = """
SELECT l.resource_id FROM leftovers l JOIN deletions d ON d.id = l.deletion_id
 WHERE l.abandoned AND d.id = ? AND d.forced IS NOT NULL
"""
_UNSEEN = """
SELECT s.region, s.service, s.type FROM steps s JOIN deletions d ON d.id = s.deletion_id
 WHERE s.unseen AND d.id = ? AND d.forced IS NOT NULL
"""
#: At rest, or at the end: nothing that the drain changed may be left.
RELEASED = frozenset({Status.CANCELLED, Status.LEFTOVERS, Status.FAILED, Status.PLANNED})


class Promises:
    """Watches one run."""

    def __init__(self, plan: Plan, simulation: Simulation, cloud: Cloud, database: Database) -> None:
        self.plan, self.simulation, self.cloud, self.database = plan, simulation, cloud, database
        self.status: dict[str, Status] = {}  #: of each deletion
        self.passed: set[Status] = set()  #: all statuses that there were
        self.announced: set[str] = set()  #: ids in the journal as going to be deleted
        self.deleted: list[str] = []  #: ids whose delete took effect
        self.late: set[str] = set()  #: writes that were the allowed overlap
        self.stalled = False
        self.asking = False  #: it waits for somebody's approval
        self.planned: frozenset[str] = frozenset()  #: ids in the plan that it is bound to
        self.rests_since: float | None = None  #: since when an attempt has not deleted anything and could be restored
        self.bystanders = cloud.of_others()
        self.writes = 0
        cloud.on_write = self.write

    def _fail(self, text: str) -> None:
        self.simulation.fail(text)

    # -- the record
    def watched(self, what: str, who: Any, one: Any, two: Any) -> None:
        """Called by the triggers of the database."""
        if what == "event":
            if one == "resource.deleting":
                self.announced.update(r["id"] for r in json.loads(two)["resources"])
            elif one == "condition.stalled":
                self.stalled = json.loads(two)["status"]
            elif one == "condition.approval":
                self.asking = json.loads(two)["status"]
        elif what == "move":
            self._moved(who, one, Status(two))
        elif what == "result":
            held = self.simulation.current.held if self.simulation.current else None
            if held is None or (held.id, held.fence) != (who, one):
                self._fail(f"the result of step {who} is saved by one whose step it is not")
        else:
            self._fail(f"{what} {who}: {one} {two}: what is written down is never changed")

    def _moved(self, deletion_id: str, before: str, after: Status) -> None:
        self.status[deletion_id] = after
        self.passed.add(after)
        self.stalled = False  # a move forgets that condition
        self.simulation.note(f"status {before or '-'} -> {after}")
        if before and (Status(before), after) not in MOVES:
            self._fail(f"{before} -> {after} is no legal move")
        if after not in LIVE:
            self.asking = False
        if after is Status.ACCEPTED:
            self.rests_since = None
        elif after is Status.RECOVERABLE and self.rests_since is None:
            self.rests_since = self.simulation.now
        elif after is Status.DELETING:
            self._approved(deletion_id)
        if after is Status.DELETED:
            if self.cloud.exists:
                self._fail("deleted, and Keystone still has the project")
            elif self.cloud.gone_by_others:
                self._proven("deleted (by somebody else)", None)
        if after in RELEASED:
            self.restored(f"{after}")

    def _approved(self, deletion_id: str) -> None:
        """What is going to be deleted is no more than goes without a second person's word, or than that one knew of."""
        if not self.plan.limit:
            return
        one = self.database.raw.execute
        given = json.loads(one("SELECT approvals FROM deletions WHERE id = ?", (deletion_id,)).fetchone()[0])
        most = max([self.plan.limit, *(a["resources"] for a in given)])
        done = "SELECT region, service || '.' || type FROM steps WHERE deletion_id = ? AND outcome = 'leftovers'"
        seen = set(one(f"{done} AND waived = ''", (deletion_id,)))
        looked = self.cloud.looked
        left = [t for t in self.cloud.left() if (t.region, t.type) in seen and t.born < looked[t.region, t.type]]
        if (number := len([t for t in left if not self.plan.bound or t.id in self.planned])) > most:
            self._fail(f"{number} are going to be deleted, and nobody approved more than {most}")

    # -- the guard
    def may_write(self, thread: Thread) -> bool:
        """Whether the step that the thread works on may write now, as the rows say."""
        if thread.held is None:
            return False
        row = self.database.raw.execute(_HELD, (thread.held.id,)).fetchone()
        if row is None:
            return False
        state, fence, lease, kind, round_, residue, status, purpose, current, since, dry_run = row
        if state != "running" or fence != thread.held.fence or dry_run or round_ < since:
            return False
        if lease is None or lease <= str(at(self.simulation.now)):
            return False
        if Status(status) not in LIVE or (status == Status.CANCELLING and kind != "release"):
            return False
        if kind not in ("access", "release") and self.database.raw.execute(_PROTECTED, (PROJECT,)).fetchone()[0]:
            return False
        if kind == "sweep":
            return round_ == current and purpose == ("residue" if residue else "delete")
        return kind in ("access", "drain", "close", "release") or (kind == "remove" and purpose == "residue")

    def asked(self, thread: Thread) -> None:
        """The guard asked the store, just now."""
        thread.permit = self.may_write(thread)

    # -- writes
    def write(self, thread: Thread, method: str, what: str, thing: Thing | None) -> None:
        """Called right before a write of the orchestrator takes effect."""
        self.writes += 1
        label = f"{method} {what}" + (f" {thing.id}" if thing else "")
        permit, thread.permit = thread.permit, None
        if permit is None:
            self._fail(f"{label}: the store was not asked right before")
        elif not permit:
            self._fail(f"{label}: the step was not ours any more, or held, when the store was asked")
        elif not self.may_write(thread):
            self.late.add(label)
            self.simulation.note(f"late: {label}")
        if self.plan.dry_run:
            self._fail(f"{label}: a dry run writes nothing")
        if thing is not None:
            self._destroy(thread, label, thing)
        elif what == "project":
            self._remove(thread)

    def _destroy(self, thread: Thread, label: str, thing: Thing) -> None:
        owner, shared = (PROJECT, False) if thing.type in UNSHOWN else thread.saw.pop(thing.id, (None, True))
        if owner != PROJECT:
            self._fail(f"{label}: its owner was not looked at right before, or is {owner}")
        if thing.owner != PROJECT and thing.type in UNSHOWN:
            self._fail(f"{label}: it belongs to {thing.owner}")
        if shared:
            self._fail(f"{label}: it is protected")
        if self.plan.bound and thing.type not in RESIDUE and thing.id not in self.planned:
            self._fail(f"{label}: it is not in the plan")
        if self.plan.window and thing.type not in RESIDUE and label not in self.late:
            # Half of it: between the decision and its record there may be tries of the store.
            early = self.rests_since is None or self.simulation.now < self.rests_since + self.plan.window / 2
            if early:
                self._fail(f"{label}: the point of no return is still to come")
        if thing.id not in self.announced:
            self._fail(f"{label}: nobody wrote down that it was going to be deleted")
        if self.plan.mode is Mode.REPORT and thing.type not in RESIDUE:
            self._fail(f"{label}: a report deletes nothing")
        if thing.type in RESIDUE and self.cloud.locked_at is not None and (left := self._left()):
            self._fail(f"{label}: residue goes last, and there is {left}")
        self.deleted.append(thing.id)

    def _left(self, but_since: float = math.inf) -> list[str]:
        """What is left, but for what nobody can see.

        That is what only a token of the project shows, and came after the last look with one, where others were let in
        until the project was disabled. The report says of such types on which look they rest.
        """
        cloud = self.cloud
        blind = cloud.locked_at is None or cloud.locked_at >= cloud.disabled_at
        unseen = [t for t in cloud.left() if t.type in SCOPED and t.born >= cloud.looked[t.region, t.type]]
        abandoned, types = self._abandoned(), {(r, f"{s}.{t}") for r, s, t in self._unseen()}
        found = [t for t in cloud.left() if t.born <= but_since and not (blind and t in unseen)]
        return [t.id for t in found if t.id not in abandoned and (t.region, t.type) not in types]

    def _abandoned(self) -> set[str]:
        return {row[0] for row in self.database.raw.execute(_ABANDONED, (self.latest,))}

    def _unseen(self) -> set[tuple[str, str, str]]:
        return set(self.database.raw.execute(_UNSEEN, (self.latest,)))

    @property
    def latest(self) -> str:
        """The id of the latest deletion."""
        return next(reversed(self.status))

    def _remove(self, thread: Thread) -> None:
        looked = thread.saw.get("project", -1)
        opened = self.cloud.reopened > looked  # between the last look at the project and its delete: nobody sees that
        if left := self._left(looked if opened else math.inf):
            self._fail(f"the project goes with something left: {left}")
        dns = any(service == "dns" for _, service in self.cloud.catalog) and not self.cloud.waived
        if dns and not any(service == "dns" for _, service, _ in self._unseen()):
            self._fail("the project goes although nobody answers for dns")
        if not opened:
            self._proven("removed", thread)

    def _proven(self, what: str, thread: Thread | None) -> None:
        """Two complete empty inventories, begun after the lock and the longest token cache."""
        locked = self.cloud.locked_at
        if locked is None:
            self._fail(f"{what} while others are let in")
            return
        since = locked + self.plan.settle
        partial = self.plan.inherited or self.plan.driver == "none" or self.plan.disabled
        abandoned, unseen = self._abandoned(), {(r, f"{s}.{t}") for r, s, t in self._unseen()}
        for (region, name), seen in self.cloud.looks.items():
            if name in RESIDUE or (region, name) in unseen:
                continue
            looks = [(when, shown <= abandoned) for when, shown in seen]
            empty = [when for when, nothing in looks if nothing and when >= since]
            if name in SCOPED:
                # Disabled while somebody was let in: what needs a token of the project rests on its last look before.
                if partial or thread is None or locked >= self.cloud.disabled_at:
                    empty = [when for when, nothing in looks if nothing] * 2
                if thread is None and not empty and not any(t.type == name for t in self.cloud.left()):
                    continue
            if thread is None and empty:  # the other one may be from before it vanished, behind the lock of then
                empty = [when for when, nothing in looks if nothing]
            if len(empty) < 2:
                self._fail(f"{what} after {len(empty)} empty looks at {name}@{region} since it was locked for good")

    # -- the end
    def restored(self, when: str) -> None:
        """What we changed for the drain is as it was: as the others left it."""
        cloud = self.cloud
        if not cloud.exists:
            return
        late = " ".join(self.late)
        wrong = {" ".join(g) for g in cloud.grants ^ cloud.wanted_grants}
        if wrong := sorted(g for g in wrong if f"grant {g}" not in late):
            self._fail(f"{when}, and these grants are not as they were: {wrong}")
        if cloud.enabled is not cloud.wanted_enabled and "enabled=" not in late:
            self._fail(f"{when}, and the project is {'enabled' if cloud.enabled else 'disabled'}")
        if cloud.fence and "fence=" not in late:
            self._fail(f"{when}, and the fence is still there")

    def at_the_end(self) -> None:
        """What holds once everything is quiet."""
        if missing := self.bystanders - self.cloud.of_others() - self.cloud.given_up:
            self._fail(f"what was never the project's is gone: {sorted(missing)}")
        for deletion_id, status in self.status.items():
            if status in RELEASED:
                self.restored(f"deletion {deletion_id} is {status} in the end")
        if self.plan.dry_run and self.writes:
            self._fail("a dry run wrote")
