"""What a plan has, and how many cascades began in a day."""

import dataclasses

from cleanup_orchestrator.core import actions
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult
from cleanup_orchestrator.store.plans import cascades_before
from tests.support.stores import save
from tests.unit.store.test_guard import claimed, create

PORTS = Step("", "", StepKind.SWEEP, "R1", "network", "port")


def test_a_plan_has_the_ids_of_one_type_in_one_region_that_are_to_go(store):
    record = create(store, status=Status.INVENTORY, purpose=RoundPurpose.INVENTORY, dry_run=True)
    wanted = [PORTS, dataclasses.replace(PORTS, region="R2"), dataclasses.replace(PORTS, type="network")]
    assert store.put_steps(claimed(store, record, StepKind.SURVEY), wanted)
    for step in [s for s in store.steps(record.id) if s.kind is StepKind.SWEEP]:
        loaded, steps, now = store.load(record.id)
        applied = actions.apply(loaded, steps, (actions.Dispatch(step.id),), now)
        save(store, loaded, applied.deletion, applied.steps)
        held = store.claim(step.id, "w", 3600)[1]
        rows = [Leftover(f"{step.region}-{step.type}", "", Reason.PRESENT), Leftover("kept", "", Reason.KEPT)]
        rows.append(Leftover("aside", "", Reason.NOT_SELECTED))
        assert store.finish(held, StepResult(Outcome.LEFTOVERS, "present", found=2, leftovers=tuple(rows)))
    assert store.planned(record.id, "R1", "network", "port") == {"R1-port"}
    assert store.planned(record.id, "R1", "network", "port", parts=True) == {"R1-port", "aside"}
    assert store.planned("another", "R1", "network", "port") == frozenset()


def test_the_cascades_of_a_day_are_counted_without_dry_runs_and_reports(store):
    # Of those recorded at the same moment the order of the ids decides.
    for number, values in enumerate([{}, {"dry_run": True}, {"mode": Mode.REPORT}, {}]):
        create(store, id=f"{number}", project_id=f"p{number}", **values)
    last = create(store, id="9", project_id="last")
    with store.database.begin() as c:
        assert cascades_before(c, last) == 2
