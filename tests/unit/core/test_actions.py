"""What a decision makes of a deletion and its steps."""

import dataclasses

from cleanup_orchestrator.core import actions
from cleanup_orchestrator.core.deletion import RoundPurpose, Status, Tally
from cleanup_orchestrator.core.step import Outcome, StepState
from tests.unit.world import T0, deletion, sweep_step

PORT = sweep_step("network.port")


def test_the_force_of_a_step_ends_with_its_round():
    """In the next one an ordinary delete is tried first, on what may be there anew."""
    step = dataclasses.replace(
        PORT, round=3, state=StepState.DONE, outcome=Outcome.LEFTOVERS, forcing=True, finished_at=T0
    )
    for round_, forcing in ((3, True), (4, False)):
        record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE, round=round_)
        [dispatched] = actions.apply(record, (step,), (actions.Dispatch(step.id),), T0).steps
        assert dispatched.forcing is forcing


def test_a_decision_counts_the_steps_as_it_leaves_them():
    values = {"round": 3, "state": StepState.DONE, "outcome": Outcome.LEFTOVERS, "found": 3, "remaining": 2}
    step = dataclasses.replace(PORT, **values)
    record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE, round=3)
    applied = actions.apply(record, (step,), (actions.Abandon(step.id),), T0)
    assert applied.deletion.tally == Tally(steps=1, found=3, remaining=2, abandoned=2)
