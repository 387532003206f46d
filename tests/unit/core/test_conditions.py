"""When a deletion is stalled, and when it only waits for a person or for another deletion."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Outcome, StepResult, StepState
from tests.unit.core.test_blockers import blocked, stalled, world_with
from tests.unit.world import T0, UNKNOWN, World, deletion, left, sweep_step

NETWORK = sweep_step("network.network", after=("network.port",))
PORT = sweep_step("network.port")


def test_a_deletion_that_waits_for_a_person_is_not_stalled():
    world = world_with(Reason.FOREIGN)
    world.run(limit=600)
    assert world.now - T0 > 3 * world.rules.stall_after
    assert blocked(world) is not None
    assert stalled(world) is None


def test_it_is_stalled_if_no_worker_tries_again():
    world = world_with(Reason.FOREIGN)
    world.run(limit=100)
    assert stalled(world) is None
    for _ in range(40):  # no worker takes a step any more
        world.now += datetime.timedelta(seconds=60)
        world.settle_engine()
    assert stalled(world) is not None
    assert blocked(world) is not None


def test_it_is_stalled_if_something_else_does_not_move_either():
    world = world_with(Reason.FOREIGN)
    world.finds("network.port", lambda _: UNKNOWN)
    world.run(limit=600)
    assert stalled(world) is not None
    assert blocked(world) is not None


def test_it_is_stalled_if_the_worker_of_another_step_ends_at_each_try():
    world = world_with(Reason.FOREIGN)
    world.finds("network.port")
    world.steps["image.image"] = sweep_step("image.image")
    world.finds("image.image")
    world.run(limit=100, until=Status.DELETING)
    began = world.now
    while world.now - began < 2 * world.rules.stall_after:
        world.settle_engine()
        ready = [s.id for s in world.steps.values() if s.state is StepState.DISPATCHED]
        for step_id in ready:
            world.claim(step_id)
            if step_id != "image.image":
                world.finish(step_id)
        if not ready:
            world.now = max(world.deletion.wake_at, world.now + datetime.timedelta(milliseconds=1))
    assert world.steps["image.image"].fencing_token > 5
    assert blocked(world) is not None
    assert "image.image@R1: no answer of a worker" in stalled(world).message


@pytest.mark.parametrize("then", [left("n1", reason=Reason.DELETING), left("n1", reason=Reason.IN_USE)])
def test_when_it_is_cleared_the_time_without_progress_begins_anew(then):
    world = World(deletion(), NETWORK)
    world.answers["network.network"] = lambda _: StepResult(Outcome.UNKNOWN, str(Reason.FORBIDDEN), "no role")
    world.run(limit=300)
    assert world.now - T0 > 3 * world.rules.stall_after
    world.answers["network.network"] = lambda _: then
    while blocked(world) is not None:
        world.run(limit=1)
    cleared = world.now
    while world.now - cleared < world.rules.stall_after - datetime.timedelta(seconds=90):
        assert stalled(world) is None
        world.run(limit=1)
    world.run(limit=100)
    assert stalled(world) is not None


def test_what_was_stalled_as_well_stays_stalled_when_it_is_cleared():
    world = world_with(Reason.FOREIGN)
    world.finds("network.port", lambda _: UNKNOWN)
    world.run(limit=600)
    assert stalled(world) is not None
    world.steps["network.network"] = dataclasses.replace(world.step("network.network"), reason=str(Reason.IN_USE))
    world.settle_engine()
    assert blocked(world) is None
    assert stalled(world) is not None


def test_the_rules_of_stalled_do_not_change_with_a_short_time():
    world = World(deletion(), NETWORK, PORT, rules=Rules(stall_after=datetime.timedelta(seconds=5)))
    world.answers["network.network"] = lambda _: left("n1", reason=Reason.FOREIGN)
    world.run(limit=300)
    assert [e.data["status"] for e in world.events if e.type == "condition.stalled"] == []
