"""Leads a run to its end: after some time there are no more faults, so that every deletion has to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.transitions import LIVE, RESTING, forcible
from tests.simulation.keystone import DEAD, PROJECT

if TYPE_CHECKING:
    from tests.simulation.world import World

#: Effects after which a run fails: a deletion is stuck, or never ends.
LIMIT = 4_000
#: Additional effects for each further project.
LIMIT_BELOW = 1_000

#: The code by which a blocker of each kind is named.
_SAID = {
    "foreign": "foreign",
    "uncovered": "no_plugin",
    "protected": "protected",
    "ownerless": "owner_unknown",
    "broken": "error",
    "stuck": "in_use",
}
#: Simulated seconds in one status within which a plugin lien without a reason has to end: some heartbeats.
_LIEN_ENDS = 300.0
#: Simulated seconds within which the help of an admin takes effect.
_HELPS = 200.0
#: Simulated seconds for which a deletion is blocked before an admin helps: no less than until it would be stalled.
_BLOCKED = 600.0
#: How often an admin helps with what needs an admin.
_TURNS = 6

_PLUGIN_LIENS = """
SELECT l.id, d.status FROM liens l JOIN deletions d ON d.project_id = l.project_id
 WHERE l.origin LIKE 'plugin:%' AND l.deleted_at IS NULL AND d.live_project_id IS NOT NULL
"""


class Ending:
    """Leads a run to its end."""

    def __init__(self, world: World) -> None:
        self._world, self._promises, self._users = world, world.promises, world.users
        self._simulation, self._cloud, self._plan = world.simulation, world.cloud, world.plan
        self._forced = self._is_mended = False
        self._helped_at = 0.0  #: simulated time
        #: Since when each lien of a plugin holds its deletion in this status: (lien, status) to simulated seconds.
        self._held_since: dict[tuple[str, str], float] = {}

    # -- going on
    def chaos(self) -> bool:
        """Run until there are no more faults; return whether that time came."""
        return self._go(lambda: bool(self._promises.status) or not self._users.busy) and self._go(self._chaos_over)

    def _chaos_over(self) -> bool:
        if self._simulation.effects > self._plan.chaos_over:
            return not self._world.others.busy
        if not self._quiet():
            return False
        if self._world.deeds:  # nothing is under way, so what others were going to do is done now
            self._world.do(self._world.deeds.pop(0))
        return not self._world.deeds

    def _go(self, over: Callable[[], bool]) -> bool:
        return self._simulation.run(over, LIMIT + LIMIT_BELOW * (len(self._cloud.keystone.projects) - 1))

    def _quiet(self) -> bool:
        """Return whether nothing is under way, and nothing will start by itself."""
        if self._live() or self._world.busy or not self._world.bus.empty:
            return False
        return not self._users.busy and not self._world.others.busy and not self._scanning()

    def _scanning(self) -> bool:
        return (
            self._plan.orphans and self._promises.one("SELECT 1 FROM orphan_scans WHERE live IS NOT NULL") is not None
        )

    def _live(self) -> list[str]:
        return [id_ for id_, status in self._promises.status.items() if status in LIVE]

    def _user(self, what: str, deletion_id: str = "") -> None:
        self._simulation.note(f"a user comes: {what}")
        self._users.ask(what, deletion_id=deletion_id)
        self._go(lambda: not self._users.busy)

    def _until(self, over: Callable[[], bool]) -> bool:
        """Run until nothing is under way; approve each deletion that waits for an approval."""
        while self._go(lambda: over() or bool(self._promises.asking)):
            if not self._promises.asking:
                return True
            self._user("approve")
        return False

    # -- to the end
    def reached(self) -> bool:
        """Run until nothing is under way, with help where it is needed; return whether that time came."""
        self._helped_at = self._simulation.now
        self._held_since.clear()
        self._go(lambda: not self._users.busy)
        self._user("settle_invoices" if self._plan.seed % 2 else "unprotect")
        self._user("unbrake")
        for _ in range(_TURNS):
            if not self._until(self._quiet_or_stuck):
                return False
            if self._quiet():
                break
            if self._plan.mode is Mode.PURGE and self._stuck():
                self._simulation.fail("a deletion that keeps its project waits for an admin")
            self._help()
        if not self._until(self._quiet):
            return False
        if self._plan.orphans and not self._scan_and_adopt():
            return False
        return self._plan.ending != "retry" or self._retry()

    def _quiet_or_stuck(self) -> bool:
        return self._quiet() or bool(self._stuck() or self._overdue())

    def _stuck(self) -> list[str]:
        """Return the deletions that say that a resource, or a project below, blocks them.

        Those that say so for a short time are not among them: they delete what is not blocked first.
        """
        found: list[str] = []
        now = self._simulation.now
        if self._helped_at + _HELPS > now:
            return found
        blocked = {id_ for id_, since in self._promises.blocked.items() if since + _BLOCKED <= now}
        for deletion_id in sorted(blocked | self._promises.stalled):
            if self._promises.status[deletion_id] not in LIVE:
                continue
            record = self._world.store.get(deletion_id)
            said = [c.message for c in record.conditions if c.type in ("blocked", "stalled") and c.status]
            words = ["project_has_children"]
            words += [_SAID[self._cloud.obstacle]] if self._cloud.obstacle else []
            if any(word in text for text in said for word in words):
                found.append(deletion_id)
        return found

    def _overdue(self) -> list[str]:
        """Return the statuses of the deletions that a plugin's lien has held for too long.

        The recovery window does not count: no plugin lists its service then, so no lien can end.
        """
        if not self._plan.lien_types:
            return []
        now = self._simulation.now
        rows = self._promises.database.raw.execute(_PLUGIN_LIENS).fetchall()
        held = [(lien, status) for lien, status in rows if status != Status.RECOVERABLE]
        self._held_since = {key: self._held_since.get(key, now) for key in held}
        return [status for (_, status), since in self._held_since.items() if now >= since + _LIEN_ENDS]

    def _help(self) -> None:
        """Do what the ending of the plan says about deletions that need an admin."""
        stuck = self._stuck()
        record = self._world.store.get(stuck[0]) if stuck else None
        if not stuck:
            self._lien_over()
        elif self._plan.ending == "cancel":
            top = self._promises.latest()
            live = self._promises.status.get(top) in LIVE
            self._user("cancel", top if live else stuck[0])
        elif self._plan.ending == "force" and not self._forced and forcible(record):
            self._forced = True
            self._user("force", stuck[0])
        elif self._mended():
            self._below(stuck)
        self._helped_at = self._simulation.now

    def _lien_over(self) -> None:
        """Check that a lien has ended with its reason, or remove the reason, then the lien."""
        if self._cloud.obstacle in ("protected", "foreign") and self._plan.ending == "mend" and not self._mended():
            return
        reasons = [t.id for things in self._cloud.things.values() for t in things.values() if t.used_since is not None]
        if not reasons and Status.INVENTORY in self._overdue():
            self._simulation.fail("a plugin's lien does not end, and its reason is gone")
        self._user("unprotect")
        self._held_since.clear()

    def _mended(self) -> bool:
        """Remove the obstacle, or waive it; return whether that was done before."""
        obstacle, before = self._cloud.obstacle, self._is_mended
        self._is_mended = True
        self._cloud.mend()
        if not before:
            self._held_since.clear()  # only now the reasons of plugin liens are removed
            if obstacle == "uncovered":
                self._users.waive()
        return before or not obstacle

    def _below(self, stuck: list[str]) -> None:
        """Handle projects below waiting deletions: retry resting deletions, request deletions that are missing."""
        for deletion_id in stuck:
            for project in reversed(self._cloud.keystone.below(self._promises.project[deletion_id])):
                latest = self._promises.latest(project.id)
                if (
                    latest
                    and self._promises.status[latest] in RESTING
                    and self._promises.status[latest]
                    in (
                        Status.LEFTOVERS,
                        Status.FAILED,
                    )
                ):
                    self._user("retry", latest)
                elif not latest or self._promises.status[latest] not in LIVE:
                    self._simulation.note(f"a user comes: request of {project.id}")
                    self._users.request_below(project.id)
                    self._go(lambda: not self._users.busy)

    def _retry(self) -> bool:
        """Retry resting deletions without leftovers and obstacles: their projects have to be deleted."""
        resting = [id_ for id_, status in self._promises.status.items() if status in RESTING]
        projects = self._cloud.keystone.projects
        latest = [id_ for id_ in resting if self._promises.latest(self._promises.project[id_]) == id_]
        latest = [id_ for id_ in latest if self._promises.project[id_] != DEAD]
        latest = [id_ for id_ in latest if projects[self._promises.project[id_]].exists]
        top = [id_ for id_ in latest if self._promises.project[id_] == PROJECT]
        if not latest or (self._plan.tree and not self._tree_rests(latest)):
            return True
        self._mended()
        self._cloud.empty()
        self._user("unprotect")
        for deletion_id in reversed(latest) if top else latest:
            self._user("retry", deletion_id)
            if not self._go(lambda id_=deletion_id: self._promises.status[id_] in LIVE):  # type: ignore[misc]
                return False
        if not self._until(self._quiet):
            return False
        for deletion_id in latest:
            status = self._promises.status[deletion_id]
            end = Status.PURGED if self._plan.mode is Mode.PURGE else Status.DELETED
            if not self._plan.dry_run and status is not end:
                self._simulation.fail(f"retried with nothing left and nothing in the way, it is {status}")
        return True

    def _tree_rests(self, latest: list[str]) -> bool:
        """Return whether each existing project of the tree has a deletion that rests."""
        with_one = {self._promises.project[id_] for id_ in latest}
        tree = [p for p in self._cloud.keystone.there() if p.id != DEAD]
        return {p.id for p in tree} == with_one

    def _scan_and_adopt(self) -> bool:
        """Scan again and adopt the findings: afterwards the missing project has no orphans."""
        if DEAD in self._cloud.keystone.projects:
            return True
        self._user("scan")
        if not self._until(self._quiet):
            return False
        self._user("adopt")
        if not self._until(self._quiet):
            return False
        left = [t.id for t in self._cloud.of(DEAD) if not self._waits_for_the_unseen(t.type)]
        if left:
            self._simulation.fail(f"scanned and adopted, and the dead project still has {', '.join(left)}")
        return True

    def _waits_for_the_unseen(self, type_: str) -> bool:
        """Return whether it waits for secrets of a missing project, which no token can list any more."""
        return type_ == "identity.credential" and "key-manager" in self._plan.services

    # -- the end
    def check(self) -> None:
        """Check that each deletion has a permitted end."""
        allowed = {Status.CANCELLED}
        if self._plan.dry_run:
            allowed |= {Status.PLANNED}
        elif self._plan.mode is Mode.PURGE:
            allowed |= {Status.PURGED, *({Status.LEFTOVERS} if self._may_keep_something() else ())}
        elif self._plan.mode is Mode.CASCADE:
            allowed |= {Status.DELETED}
            if self._plan.bound or any(p.gone_by_others for p in self._cloud.keystone.projects.values()):
                allowed |= {Status.LEFTOVERS}
        else:
            allowed |= {Status.DELETED, Status.LEFTOVERS, Status.FAILED}
        if self._plan.mode is Mode.PURGE and self._cloud.keystone.projects[PROJECT].gone_by_others:
            allowed |= {Status.FAILED}
        if "child" in {deed.what for deed in self._plan.deeds}:  # one below that came after the lock, or the dry run
            allowed |= {Status.FAILED}
        for deletion_id, status in self._promises.status.items():
            if self._promises.project[deletion_id] == DEAD:  # what needs a token of the project stays unknown
                may = {Status.DELETED, Status.FAILED, Status.CANCELLED, Status.LEFTOVERS}
                may -= set() if "key-manager" in self._plan.services else {Status.LEFTOVERS}
            elif self._promises.noticed(deletion_id):
                may = {Status.DELETED, Status.LEFTOVERS, Status.CANCELLED}
            elif self._promises.project[deletion_id] in self._cloud.keystone.flooded:
                may = {Status.PLANNED, Status.CANCELLED}
            else:
                may = allowed | ({Status.FAILED} if deletion_id in self._promises.unseen else set())
            if status not in may:
                self._simulation.fail(f"deletion {deletion_id} ends as {status}")
        if Status.CANCELLED in self._promises.status.values() and Status.CANCELLING not in self._promises.passed:
            self._simulation.fail("cancelled without a request")

    def _may_keep_something(self) -> bool:
        """Whether a deletion that keeps its project may end with something that is selected.

        Without faults and deeds of others, it may if an obstacle keeps it, if it is not in the plan, or if what is not
        selected may need it.
        """
        plan = self._plan
        if plan.faults or plan.deeds or self._cloud.obstacle or plan.bound:
            return True
        selected = [self._cloud.selects(thing) for thing in self._cloud.left(PROJECT)]
        return any(selected) and not all(selected)

    def why(self) -> str:
        """Return a text about what is still under way."""
        return "; ".join(map(self._state, self._live())) or "something is never quiet"

    def _state(self, deletion_id: str) -> str:
        deletion, steps, now = self._world.store.load(deletion_id)
        open_ = [f"{s.name}:{s.state}:{s.reason}" for s in steps if s.state != "done" or s.outcome == "unknown"]
        waits = (deletion.wake_at - now).total_seconds()
        what = f"{deletion.project_id} {deletion.status} {deletion.purpose} round {deletion.round}"
        return f"{what}, wakes in {waits:.0f} s, {', '.join(open_)}"
