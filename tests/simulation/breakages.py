"""Deliberate defects. They test the simulation: each must break a promise within a few seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from cleanup_orchestrator.api.deletion_actions import DeletionActions
from cleanup_orchestrator.cloud.catalog import AnsweredBy, ServiceCatalog
from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.core import approvals, conditions, decide, force, orphan_scan, plugin_liens, rounds, verifying
from cleanup_orchestrator.core.action_plan import ActionPlan
from cleanup_orchestrator.core.actions import Move
from cleanup_orchestrator.core.deletion import Mode
from cleanup_orchestrator.core.journal import Change
from cleanup_orchestrator.core.rounds import Round
from cleanup_orchestrator.core.snapshot import Snapshot, done
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.drain.fence import Fence
from cleanup_orchestrator.drain.revoke import Revoke
from cleanup_orchestrator.engine.deletions import Engine
from cleanup_orchestrator.plugins.base import ResourceType
from cleanup_orchestrator.store import deletions, guard, journal, steps
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.changes import Changes
from cleanup_orchestrator.store.steps import Steps
from cleanup_orchestrator.worker.census import Census
from cleanup_orchestrator.worker.guard import WriteGuard
from cleanup_orchestrator.worker.steps import survey as survey_step
from cleanup_orchestrator.worker.steps import sweep as sweep_step
from cleanup_orchestrator.worker.steps.context import StepContext
from cleanup_orchestrator.worker.steps.release import Release
from cleanup_orchestrator.worker.steps.survey import Survey
from cleanup_orchestrator.worker.steps.sweep import Sweep
from cleanup_orchestrator.worker.sweep import deleting, exclusions, listing, stopping
from cleanup_orchestrator.worker.sweep.context import SweepContext
from tests.simulation import lock_breakages, purge_breakages
from tests.simulation.breakage import Breakage
from tests.simulation.plan import OBSTACLES, Deed, Fault, Plan, plan
from tests.simulation.setting import Patch


def _cascade(seed: int) -> Plan:
    """A cascade with something to delete."""
    alone = {"tree": (), "lien_types": (), "stop_servers": False, "orphans": False}
    return dataclasses.replace(plan(seed), mode=Mode.CASCADE, dry_run=False, fill=2, obstacle="", ending="", **alone)


def _leaky(seed: int) -> Plan:
    return dataclasses.replace(_cascade(seed), leaky=True)


def _calm(seed: int) -> Plan:
    return dataclasses.replace(_cascade(seed), faults=(), deeds=())


def _bound(seed: int) -> Plan:
    """A cascade by a plan that lacks some of the resources."""
    return dataclasses.replace(_calm(seed), bound=True, limit=0, window=0.0)


def _limited(seed: int) -> Plan:
    return dataclasses.replace(_calm(seed), bound=False, limit=1, window=0.0)


def _windowed(seed: int) -> Plan:
    return dataclasses.replace(_calm(seed), bound=False, limit=0, window=600.0)


def _broken(seed: int) -> Plan:
    """One service answers no listing."""
    return dataclasses.replace(_calm(seed), obstacle="broken", ending="mend")


def _freezing(seed: int) -> Plan:
    faults = tuple(Fault(at, "freeze", 0.5) for at in range(seed % 7, 300, 12))
    return dataclasses.replace(_cascade(seed), workers=3, faults=faults, deeds=())


def _crashing(seed: int) -> Plan:
    faults = tuple(Fault(at, "crash", 0.1) for at in range(20 + seed % 7, 300, 25))
    return dataclasses.replace(_cascade(seed), faults=faults, deeds=())


def _inviting(seed: int) -> Plan:
    deeds = tuple(Deed(at, "create" if at % 2 else "invite", 0.5) for at in range(100 + seed % 9, 400, 9))
    return dataclasses.replace(_cascade(seed), driver="revoke", deeds=deeds, faults=())


def _joining(seed: int) -> Plan:
    return dataclasses.replace(_calm(seed), services=("network", "key-manager"))


def _late(seed: int, deed: str, driver: str) -> Plan:
    """A user gets access at some moment, and uses it."""
    deeds = (Deed(40 + 3 * seed, deed), *(Deed(41 + 3 * seed + more, "create", 0.5) for more in (0, 3, 6, 9)))
    return dataclasses.replace(_calm(seed), driver=driver, deeds=deeds, services=("network",))


def _dated(seed: int) -> Plan:
    return dataclasses.replace(_calm(seed), delay=400.0)


def _dropping(seed: int) -> Plan:
    faults = tuple(Fault(at, "drop", 0.5) for at in range(seed % 7, 300, 25))
    return dataclasses.replace(_cascade(seed), faults=faults, deeds=())


def _held(seed: int) -> Plan:
    """Liens and the brake are set and removed."""
    what = ("protect", "unprotect", "brake", "unbrake")
    deeds = tuple(Deed(at, what[(at + seed) // 7 % 4]) for at in range(40 + seed % 7, 400, 7))
    return dataclasses.replace(_cascade(seed), workers=3, deeds=deeds, faults=())


def _stuck(seed: int) -> Plan:
    return dataclasses.replace(_calm(seed), obstacle=OBSTACLES[seed % len(OBSTACLES)], ending="mend")


def _used(seed: int) -> Plan:
    """One resource is stuck, maybe a server that others use."""
    services = ("compute", "network", "block-storage")
    return dataclasses.replace(_calm(seed), obstacle="stuck", ending="mend", services=services)


def _protected(seed: int) -> Plan:
    return dataclasses.replace(_calm(seed), obstacle="protected", ending="mend")


def _uncovered(seed: int) -> Plan:
    return dataclasses.replace(_calm(seed), obstacle="uncovered", ending="mend")


def _forced(seed: int) -> Plan:
    """A resource is stuck, an admin forces the deletion, and others create resources meanwhile."""
    later = 500 + 25 * (seed % 20)
    deeds = (Deed(170, "force"), *(Deed(at, "create", at % 20 / 20) for at in range(later, later + 120, 10)))
    world = {"driver": "none", "services": ("block-storage",), "bound": False, "disabled": False, "limit": 0}
    return dataclasses.replace(_calm(seed), obstacle="stuck", ending="force", deeds=deeds, **world)


def _tree(seed: int) -> Plan:
    wanted = dataclasses.replace(_calm(seed), fill=1, bound=False, limit=0, window=0.0, disabled=False)
    return dataclasses.replace(wanted, tree=((0,), (0, 1))[seed % 2], services=("network",), regions=1)


def _cancelled_tree(seed: int) -> Plan:
    return dataclasses.replace(_tree(seed), deeds=(Deed(50 + 13 * seed, "cancel", 0.0),))


def _liens(seed: int) -> Plan:
    """A resource of a type with plugin liens is protected, or used by others."""
    wanted = dataclasses.replace(_calm(seed), bound=False, limit=0, window=0.0, disabled=False, services=("network",))
    types = ("network.network", "network.port")
    return dataclasses.replace(wanted, lien_types=types, obstacle=("protected", "foreign")[seed % 2], ending="mend")


def _unseen_liens(seed: int) -> Plan:
    """The type with plugin liens cannot be listed."""
    wanted = dataclasses.replace(_liens(seed), lien_types=("network.port",), obstacle="broken")
    return dataclasses.replace(wanted, ending="mend")


def _cancelled_liens(seed: int) -> Plan:
    return dataclasses.replace(_liens(seed), deeds=(Deed(120 + 20 * seed, "cancel"),))


def _servers(seed: int) -> Plan:
    """Servers are stopped for the recovery window, and the project is restored."""
    wanted = dataclasses.replace(_windowed(seed), services=("compute",), stop_servers=True, disabled=False)
    return dataclasses.replace(wanted, deeds=(Deed(60 + 4 * seed, "restore"),))


def _orphans(seed: int) -> Plan:
    wanted = dataclasses.replace(_calm(seed), orphans=True, bound=False, limit=0, window=0.0, disabled=False)
    return dataclasses.replace(wanted, services=("block-storage",), settle=60.0)


def _revived(seed: int) -> Plan:
    """A project that was gone exists in Keystone again during its adoption."""
    deeds = (Deed(5, "scan"), Deed(3000, "adopt"), Deed(300 + 10 * seed, "revive"))
    return dataclasses.replace(_orphans(seed), deeds=deeds)


def _no_guard() -> Iterator[Patch]:
    yield WriteGuard, "__call__", lambda _self, _method, _url: None


def _careless_guard() -> Iterator[Patch]:
    yield guard, "_causes", lambda connection, *_, **__: ((), guard.queries.database_time(connection))


def _liens_are_not_asked_for() -> Iterator[Patch]:
    yield guard, "holds", lambda *_: ((), None)


def _finish_without_fence() -> Iterator[Patch]:
    real = Steps.finish

    def finish(self: Steps, step: Any, *args: Any) -> bool:
        with self._database.begin() as c:
            row = c.execute(t.steps.select().where(t.steps.c.id == step.id)).first()
            if row is not None:
                step = dataclasses.replace(step, fencing_token=row.fencing_token)
        return real(self, step, *args)

    yield Steps, "finish", finish


def _no_settling() -> Iterator[Patch]:
    yield Snapshot, "settle_until", None


def _one_inventory_is_enough() -> Iterator[Patch]:
    yield verifying, "_needed", lambda deletion, _rules: 0 if deletion.closed_at and deletion.drained_at else 1


def _unknown_is_clear() -> Iterator[Patch]:
    for module in (listing, deleting, stopping):
        yield module, "unknown", lambda _error, found=0: StepResult(Outcome.CLEAR, found=found)


def _every_row_is_the_projects() -> Iterator[Patch]:
    real = ResourceType.resource

    def resource(self: ResourceType, row: Any, project: Any) -> Any:
        return dataclasses.replace(real(self, row, project), owner=project.id)

    yield ResourceType, "resource", resource


def _no_read_right_before() -> Iterator[Patch]:
    real = deleting.delete_one

    def delete(context: SweepContext, *args: Any) -> Any:
        return real(dataclasses.replace(context, type=dataclasses.replace(context.type, show=None)), *args)

    yield deleting, "delete_one", delete


def _protection_is_forgotten() -> Iterator[Patch]:
    yield exclusions, "protected_by", lambda _context: lambda _resource: None


def _no_intent() -> Iterator[Patch]:
    yield Sweep, "record_intent", lambda _self, _resources: None


def _no_record_of_changes() -> Iterator[Patch]:
    yield Changes, "record_intent", lambda _self, step, type_, data: Change("x", step.owner_id, 1, type_, data)


def _undoes_nothing() -> Iterator[Patch]:
    yield drain, "undo", lambda *_: "done"


def _ends_without_release() -> Iterator[Patch]:
    yield ActionPlan, "end", lambda _self, to, reason, message="": (Move(to, reason, message),)


def _everything_is_covered() -> Iterator[Patch]:
    real = ServiceCatalog.status

    def status(self: ServiceCatalog, entry: Any, waivers: Any = (), protocol: Any = None) -> Any:
        found = real(self, entry, waivers, protocol)
        uncovered = found.answered_by is AnsweredBy.UNSUPPORTED
        return dataclasses.replace(found, answered_by=AnsweredBy.NOTHING_TO_OWN) if uncovered else found

    yield ServiceCatalog, "status", status


def _inventories_delete() -> Iterator[Patch]:
    yield listing, "inventory", lambda context, *_, **__: deleting.delete(context)
    yield sweep_step, "read_only", lambda *_: None


def _no_tick() -> Iterator[Patch]:
    yield Engine, "run_ticks", lambda _self, _stop: None


def _endless_lease() -> Iterator[Patch]:
    real = Steps.claim
    yield Steps, "claim", lambda self, step_id, name, _lease: real(self, step_id, name, 1e8)
    yield Steps, "renew", lambda _self, _step, _seconds: True


def _new_access_is_not_noticed() -> Iterator[Patch]:
    yield Survey, "reopened", lambda _self, _project: False
    yield from _access_right_before_disabling()


def _access_right_before_disabling() -> Iterator[Patch]:
    yield Revoke, "held_until_closed", lambda _self, _ground: True
    yield Revoke, "held_until_removed", lambda _self, _ground, project: not project.enabled


def _verification_relies_on_an_earlier_survey() -> Iterator[Patch]:
    """Let a service join the catalog after the drain, and no inventory be preceded by another survey."""
    yield rounds, "_shares_survey", lambda view: done(view.survey, view.deletion.since_round)
    real = survey_step.survey

    def survey(deletion: Any, *args: Any) -> Any:
        found = real(deletion, *args)
        if deletion.drained_at is not None:
            return found
        return dataclasses.replace(found, steps=tuple(s for s in found.steps if s.service != "key-manager"))

    yield survey_step, "survey", survey


def _closing_keeps_every_proof() -> Iterator[Patch]:
    """Let the two inventories count without knowing that the drain held until the project was disabled."""
    yield Revoke, "continuous", True
    yield Revoke, "held_until_closed", lambda _self, _ground: True


def _fence_is_not_read_again() -> Iterator[Patch]:
    yield Fence, "held_until_closed", lambda _self, _ground: True


def _enabled_is_not_noticed() -> Iterator[Patch]:
    real = Projects.get_uncached

    def get(self: Projects, project_id: str) -> Any:
        return dataclasses.replace(real(self, project_id), enabled=False)

    yield Projects, "get_uncached", get
    yield Survey, "reopened", lambda _self, _project: False


def _keystone_forgets_no_token() -> Iterator[Patch]:
    yield drain, "_flush_token_cache", lambda _ground: None


def _journal_is_rewritten() -> Iterator[Patch]:
    real = journal.write_journal

    def write(c: Any, deletion_id: str, now: Any, *others: Any) -> Any:
        c.execute(t.events.update().where(t.events.c.deletion_id == deletion_id).values(at=now))
        return real(c, deletion_id, now, *others)

    for module in (deletions, steps, journal):
        yield module, "write_journal", write


def _never_stalled() -> Iterator[Patch]:
    yield conditions, "observed", lambda _view, _plan: iter(())


def _stalled_without_a_resource() -> Iterator[Patch]:
    yield conditions, "blockers", lambda _deletion, _steps: ()
    yield conditions, "_named", lambda _step: "something"


def _needs_are_forgotten() -> Iterator[Patch]:
    yield Sweep, "_needs", lambda *_: lambda _resources: {}


def _plans_are_forgotten() -> Iterator[Patch]:
    yield StepContext, "planned", lambda _self, _service, _type: None


def _no_approval() -> Iterator[Patch]:
    yield approvals, "for_resources", lambda _deletion, _steps, _limit: None


def _no_date() -> Iterator[Patch]:
    yield Snapshot, "waits_for_date", property(lambda _self: False)


def _no_window() -> Iterator[Patch]:
    yield decide, "_wait_before_deleting", lambda _view: ()


def _abandons_the_unrecorded() -> Iterator[Patch]:
    yield force, "is_abandoned", lambda deletion, step: force.works(deletion) and bool(step.abandoned or step.unseen)


def _abandons_without_force() -> Iterator[Patch]:
    yield force, "works", lambda _deletion: True
    yield Round, "force_due", property(lambda _round: True)


def _parents_do_not_wait() -> Iterator[Patch]:
    yield Snapshot, "below", property(lambda _view: "")


def _cancel_leaves_what_is_below() -> Iterator[Patch]:
    yield DeletionActions, "_stop_below", lambda *_: False


def _what_is_below_is_not_seen() -> Iterator[Patch]:
    yield Projects, "subtree", lambda _self, _project_id: ()


def _only_the_next_below_is_seen() -> Iterator[Patch]:
    real = Projects.subtree
    yield Projects, "subtree", lambda self, id_: tuple(pair for pair in real(self, id_) if pair[1] == id_)


def _no_lien_is_raised() -> Iterator[Patch]:
    yield plugin_liens, "sentence", lambda _leftovers: ""


def _deletes_before_the_inventory_for_liens() -> Iterator[Patch]:
    yield Round, "may_raise_lien", lambda _self, _step: False


def _liens_outlive() -> Iterator[Patch]:
    yield deletions, "end_liens_of", lambda *_: ([], [])


def _links_a_line_to_the_one_before_the_last() -> Iterator[Patch]:
    real = journal._linked

    def linked(head: Any, *args: Any) -> Any:
        after, row = real(head, *args)
        return dataclasses.replace(after, digest=head.digest), row

    yield journal, "_linked", linked


def _liens_do_not_end() -> Iterator[Patch]:
    real = Sweep.with_lien
    yield Sweep, "with_lien", lambda self, result, complete: real(self, result, complete=False)


def _stops_without_a_record() -> Iterator[Patch]:
    real = stopping._stop
    yield stopping, "_stop", lambda *args: real(*args[:-1], lambda _resource: None)


def _starts_nothing_again() -> Iterator[Patch]:
    yield Release, "_start", lambda _self, _change: "started"


def _keystone_knows_no_project() -> Iterator[Patch]:
    yield Census, "knows", lambda *_: False


def _one_read_is_enough() -> Iterator[Patch]:
    real = orphan_scan.advance

    def advance(scan: Any, steps: Any, now: Any, rules: Any) -> Any:
        early = dataclasses.replace(scan, reread_at=now) if scan.reread_at is not None else scan
        return real(early, steps, now, rules)

    yield orphan_scan, "advance", advance


def _adopts_what_keystone_knows() -> Iterator[Patch]:
    yield WriteGuard, "_expect_gone", lambda _self, _method: None


_FOREIGN = "its owner was not checked"
BREAKAGES: dict[str, Breakage] = {
    "the guard allows every write": Breakage(_no_guard, "the store was not asked", _calm),
    "the guard checks no fencing token, lease or cancel": Breakage(_careless_guard, "no longer claimed", _freezing),
    "the guard checks neither liens nor the brake": Breakage(_liens_are_not_asked_for, "or on hold", _held),
    "a result is saved without its fencing token": Breakage(_finish_without_fence, "whose step it is not", _freezing),
    "token caches are not waited for": Breakage(_no_settling, "empty inventories", _calm),
    "one empty inventory is enough": Breakage(_one_inventory_is_enough, "empty inventories", _calm),
    "unknown counts as empty": Breakage(_unknown_is_clear, "", _broken),
    "every listed row counts as the project's": Breakage(_every_row_is_the_projects, _FOREIGN, _leaky),
    "the owner is not read again right before": Breakage(_no_read_right_before, _FOREIGN, _calm),
    "protection is forgotten": Breakage(_protection_is_forgotten, "it is protected", _protected),
    "the intent is not recorded": Breakage(_no_intent, "there was no record", _calm),
    "the changes of the drain are not recorded": Breakage(_no_record_of_changes, "as they were", first=6),
    "nothing is undone": Breakage(_undoes_nothing, "", first=5),
    "a report ends with the project locked": Breakage(_ends_without_release, "", first=5),
    "an unsupported service counts as empty": Breakage(_everything_is_covered, "no plugin covers", _uncovered),
    "an inventory deletes": Breakage(_inventories_delete, "", _calm),
    "what a stuck server uses is deleted": Breakage(_needs_are_forgotten, "uses it, and is still there", _used),
    "a plan is forgotten": Breakage(_plans_are_forgotten, "it is not in the plan", _bound),
    "a deletion above the limit needs no approval": Breakage(_no_approval, "the approval covers only", _limited),
    "the date is not waited for": Breakage(_no_date, "before its date", _dated),
    "the recovery window is not waited for": Breakage(_no_window, "the point of no return is still to come", _windowed),
    "force abandons what it has not recorded": Breakage(_abandons_the_unrecorded, "with something left", _forced),
    "a deletion without force abandons resources": Breakage(
        _abandons_without_force, "project settings go last", _stuck
    ),
    "no tick replaces lost messages": Breakage(_no_tick, "", _dropping),
    "a lease never ends": Breakage(_endless_lease, "does not come to its end", _crashing),
    "new access after the drain is not noticed": Breakage(_new_access_is_not_noticed, "empty inventories", _inviting),
    "new access right before the project is disabled is not noticed": Breakage(
        _access_right_before_disabling, "empty inventories", lambda seed: _late(seed, "invite", "revoke"), first=39
    ),
    "a verification relies on the survey before it": Breakage(
        _verification_relies_on_an_earlier_survey, "project settings go last", _joining
    ),
    "the inventories from before the closing count although the drain was lost": Breakage(
        _closing_keeps_every_proof,
        "project settings go last",
        lambda seed: _late(seed, "invite", "revoke"),
        first=39,
    ),
    "the fence is not read again after the closing": Breakage(
        _fence_is_not_read_again, "project settings go last", lambda seed: _late(seed, "unfence", "fence"), first=32
    ),
    "an enabled project is removed": Breakage(_enabled_is_not_noticed, "", _calm),
    "Keystone's token cache is forgotten": Breakage(_keystone_forgets_no_token, "", _calm),
    "the journal is rewritten": Breakage(_journal_is_rewritten, "never changed", _calm),
    "a parent does not wait for the projects below it": Breakage(
        _parents_do_not_wait, "projects below it are still there", _tree
    ),
    "a cancel leaves the deletions below": Breakage(
        _cancel_leaves_what_is_below, "is cancelled before", _cancelled_tree
    ),
    "projects below are not seen": Breakage(_what_is_below_is_not_seen, "has none of c1", _tree),
    "only the children are seen, not their children": Breakage(_only_the_next_below_is_seen, "has none of c2", _tree),
    "a plugin raises no lien": Breakage(_no_lien_is_raised, "no lien holds it", _liens),
    "a delete precedes the inventory for plugin liens": Breakage(
        _deletes_before_the_inventory_for_liens, "was not listed", _unseen_liens
    ),
    "a plugin's lien outlives its deletion": Breakage(_liens_outlive, "outlives the deletion", _cancelled_liens),
    "a line of the journal is linked to the one before the last": Breakage(
        _links_a_line_to_the_one_before_the_last, "breaks its chain"
    ),
    "a plugin's lien does not end with its reason": Breakage(_liens_do_not_end, "does not end", _liens),
    "a stop of a server is not recorded": Breakage(
        _stops_without_a_record, "there was no record that it was going to be stopped", _servers
    ),
    "a stopped server is not started again": Breakage(_starts_nothing_again, "is stopped", _servers),
    "orphans of a project that Keystone knows": Breakage(
        _keystone_knows_no_project, "Keystone knows project", _orphans
    ),
    "orphans are read once": Breakage(_one_read_is_enough, "reads again too early", _orphans),
    "a project that Keystone knows is adopted": Breakage(_adopts_what_keystone_knows, "Keystone", _revived),
    "no condition is ever set": Breakage(_never_stalled, "does not come to its end", _stuck),
    "the conditions blocked and stalled name no resource": Breakage(
        _stalled_without_a_resource, "does not come to its end", _stuck
    ),
    **purge_breakages.BREAKAGES,
    **lock_breakages.BREAKAGES,
}
