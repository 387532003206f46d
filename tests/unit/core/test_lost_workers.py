"""A step that kills each worker that takes it: it does not keep the others busy, nor the users locked out."""

import datetime
import itertools

import pytest

from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import StepKind, StepState
from cleanup_orchestrator.core.transitions import LIVE
from tests.unit.world import CLEAR, T0, World, deletion, left, sweep_step

PORT, SERVER = "network.port", "compute.server"


def world_of(**values):
    return World(deletion(**values), sweep_step(PORT), sweep_step(SERVER))


def run(world, kills, limit=datetime.timedelta(hours=3)):
    """Run until only a person can go on, or the time is over; return when each worker was killed.

    :param kills: returns whether a step kills its worker now
    """
    killed = []
    while world.deletion.status in LIVE and world.now < T0 + limit:
        world.settle_engine()
        ready = [step for step in world.steps.values() if step.state is StepState.DISPATCHED]
        for step in ready:
            world.claim(step.id)
            if kills(step):
                killed.append(world.now)
            else:
                world.finish(step.id)
        if not ready:
            world.now = max(world.deletion.wake_at, world.now + datetime.timedelta(milliseconds=1))
    return killed


@pytest.mark.parametrize("mode", [Mode.REPORT, Mode.EMPTY])
def test_a_deletion_that_may_leave_the_project_ends_and_gives_it_back(mode):
    world = world_of(mode=mode)
    if mode is Mode.EMPTY:
        world.answers[PORT] = lambda _: left("p")
    killed = run(world, lambda step: step.id == PORT and world.deletion.drained_at is not None)
    assert world.deletion.status is Status.LEFTOVERS
    assert not world.deletion.has_changes and world.dispatched.count(str(StepKind.RELEASE)) == 1
    assert 0 < len(killed) <= 3 * world.rules.attempts


def test_a_dry_run_ends_and_says_what_it_does_not_know():
    world = world_of(dry_run=True)
    killed = run(world, lambda step: step.id == PORT)
    assert (world.deletion.status, len(killed)) == (Status.PLANNED, world.rules.attempts)
    assert world.steps[PORT].reason == "timed_out"


def test_a_cascade_names_the_step_and_tries_again_more_and_more_slowly():
    world = world_of()
    killed = run(world, lambda step: step.id == PORT)
    waits = [(after - before).total_seconds() for before, after in itertools.pairwise(killed)]
    assert waits[:2] == [60, 60]  # a lease each: the first workers may have been lost by chance
    assert set(waits[-20:]) == {60 + world.rules.retry_cap}
    (blocker,) = blockers(world.deletion, world.steps.values())
    assert (blocker.type, blocker.reason) == ("port", "timed_out")
    assert "was lost before its end" in blocker.message and "memory" in blocker.remedy


def test_a_cascade_goes_on_when_the_workers_no_longer_end():
    world = world_of()
    run(world, lambda step: step.id == PORT and world.now < T0 + datetime.timedelta(hours=1))
    assert world.deletion.status is Status.DELETED


@pytest.mark.parametrize("kind", [StepKind.SURVEY, StepKind.ACCESS, StepKind.DRAIN, StepKind.RELEASE])
def test_a_task_that_loses_its_workers_is_tried_again_more_and_more_slowly(kind):
    world = world_of(mode=Mode.REPORT)
    over = T0 + datetime.timedelta(hours=1)
    if kind is StepKind.RELEASE:
        world.answers[SERVER] = lambda _: left("s") if world.deletion.drained_at else CLEAR
    killed = run(world, lambda step: step.kind is kind and world.now < over)
    assert world.deletion.status not in LIVE and not world.deletion.has_changes
    assert 3 <= len(killed) < 45


def test_a_worker_that_is_lost_while_a_delete_is_polled_ends_nothing():
    world, polls = world_of(), []

    def poll(_step):
        polls.append(world.now)
        return left("p", reason=Reason.DELETING) if len(polls) < 20 else CLEAR

    world.finds(PORT, poll)
    killed = run(world, lambda step: step.id == PORT and len(polls) in (5, 6) and step.fencing_token % 2 == 0)
    assert world.deletion.status is Status.DELETED and killed
