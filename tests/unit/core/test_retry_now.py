"""A retry of a deletion under way: it ends the waiting times, and nothing else."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import Child, Status
from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.snapshot import Snapshot
from cleanup_orchestrator.core.step import Outcome, StepKind, StepResult, StepState
from tests.unit.world import CLEAR, T0, UNKNOWN, World, deletion, left, sweep_step

PORT = sweep_step("network.port")
SECOND = datetime.timedelta(seconds=1)
BELOW = StepResult(Outcome.CLEAR, str(Reason.PROJECT_HAS_CHILDREN), "it has child projects: c1")


def waiting(answers, limit=150, **values):
    """Return a world in which every step waits for its next try."""
    world = World(deletion(**values), PORT)
    world.answers = answers
    world.run(limit=limit)
    while ready := [s.id for s in world.steps.values() if s.state is StepState.DISPATCHED]:
        for step_id in ready:
            world.claim(step_id)
            world.finish(step_id)
        world.now += SECOND / 10
        world.settle_engine()
    return world


@pytest.mark.parametrize(
    ("answers", "values", "again"),
    [
        ({"network.port": lambda _: left("p", reason=Reason.FOREIGN)}, {}, "network.port"),
        ({"network.port": lambda _: UNKNOWN}, {}, "network.port"),
        ({"drain": lambda _: UNKNOWN}, {}, "drain"),
        ({"survey": lambda _: UNKNOWN}, {}, "survey"),
    ],
)
def test_what_waits_for_its_next_try_is_tried_at_once(answers, values, again):
    world = waiting(answers, **values)
    tried = world.dispatched.count(again)
    world.retry_now()
    world.settle_engine()
    assert world.dispatched.count(again) == tried + 1


def test_it_is_tried_once_and_then_waits_again():
    world = waiting({"network.port": lambda _: left("p", reason=Reason.FOREIGN)})
    world.now += SECOND
    world.retry_now()
    tried = world.dispatched.count("network.port")
    world.settle_engine()
    world.now += SECOND
    world.claim("network.port")
    world.finish("network.port")
    world.settle_engine()
    assert world.dispatched.count("network.port") == tried + 1


def test_it_goes_on_when_the_blocker_was_cleared():
    world = waiting({"network.port": lambda _: left("p", reason=Reason.FOREIGN)})
    world.answers["network.port"] = lambda _: CLEAR
    before = world.now
    world.retry_now()
    world.run(limit=60, until=Status.VERIFYING)
    assert world.deletion.status is Status.VERIFYING
    assert world.now - before < SECOND


def test_retries_without_progress_neither_hide_that_it_is_stalled_nor_put_off_force():
    """Each one counted as progress: one each few minutes put off an admin's force, which waits for a standstill."""
    world = waiting({"network.port": lambda _: UNKNOWN}, limit=20)
    progress = world.deletion.progress_at
    assert world.now < progress + 300 * SECOND
    while world.now < progress + Rules().stall_after:
        world.now += 100 * SECOND
        world.retry_now()
        world.run(limit=4)
    assert world.deletion.progress_at == progress
    assert world.deletion.condition(ConditionType.STALLED).status


def test_the_projects_below_are_read_again():
    world = World(deletion(include_subtree=True), PORT)
    world.answers["survey"] = lambda _: BELOW
    world.deletion = dataclasses.replace(world.deletion, children=(Child("d1", "c1", Status.DELETING, T0),))
    world.run(limit=4)
    surveyed = world.dispatched.count("survey")
    world.now += SECOND
    world.retry_now()
    world.settle_engine()
    assert world.dispatched.count("survey") == surveyed + 1


def test_it_ends_no_hold_no_window_and_no_settling_time():
    brake = Brake(True, "why", T0)
    held = World(deletion(has_holds=True, brake=brake), PORT)
    held.run(limit=20)
    held.retry_now()
    held.run(limit=20)
    assert "drain" not in held.dispatched
    recoverable = World(deletion(), PORT, rules=Rules(recovery_window=datetime.timedelta(days=1)))
    recoverable.finds("network.port").run(limit=100, until=Status.RECOVERABLE)
    recoverable.retry_now()
    recoverable.settle_engine()
    assert recoverable.deletion.status is Status.RECOVERABLE
    settling = World(deletion(), PORT)
    settling.run(limit=200, until=Status.VERIFYING)
    settling.retry_now()
    opened = settling.deletion.round
    settling.settle_engine()
    assert settling.deletion.round == opened


@pytest.mark.parametrize(
    ("state", "started", "expected"),
    [
        (StepState.DONE, -1, True),
        (StepState.DONE, 0, False),  # it began with the request, or after it: it has seen what the user did
        (StepState.DONE, 1, False),
        (StepState.RUNNING, -1, False),
        (StepState.DISPATCHED, -1, False),
        (StepState.IDLE, None, False),
    ],
)
def test_which_steps_do_not_wait(state, started, expected):
    at = None if started is None else T0 + started * SECOND
    step = dataclasses.replace(PORT, kind=StepKind.SWEEP, state=state, started_at=at)
    assert Snapshot(deletion(retry_now_at=T0), (step,), T0, Rules()).retried_now(step) is expected
    assert not Snapshot(deletion(), (step,), T0, Rules()).retried_now(step)
