"""What a delete round sweeps, and how the sweeps of a round reach the workers."""

import dataclasses
import datetime
from collections import Counter

import pytest

from cleanup_orchestrator.core import dependencies
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rounds import SHARED
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Outcome, StepResult, StepState
from tests.unit.core.test_fairness import in_flight
from tests.unit.world import CLEAR, T0, UNKNOWN, World, deletion, left, sweep_step

PORT = sweep_step("network.port")
NETWORK = sweep_step("network.network", after=("network.port",))
IMAGE = sweep_step("image.image")
SECOND = datetime.timedelta(seconds=1)


def casts(world):
    """The casts of sweeps so far."""
    return [ids for ids in world.casts if "." in ids[0]]


def began(world):
    """Run a world until the sweeps of its first inventory are cast."""
    world.settle_engine()
    while not casts(world):
        world.run(limit=1)
        world.settle_engine()
    return world


# ------------------------------------------------------------------------------------ what the inventory found empty
def swept_to_delete(world):
    """The types that were swept in delete rounds."""
    return {name for name, purpose in world.writes if purpose is RoundPurpose.DELETE and "." in name}


def deleting(world):
    """Run a world until its delete rounds are over."""
    world.run(until=Status.VERIFYING)
    return world


def test_a_delete_round_sweeps_only_what_the_inventory_before_it_found():
    world = deleting(World(deletion(), PORT, NETWORK, IMAGE).finds("network.port"))
    assert swept_to_delete(world) == {"network.port"}


@pytest.mark.parametrize(
    "result",
    [
        left("r1"),
        UNKNOWN,
        StepResult(Outcome.CLEAR, kept=1),  # a resource that is kept may no longer be kept
        StepResult(Outcome.CLEAR, found=1),
    ],
)
def test_a_type_of_which_anything_was_found_or_is_unknown_is_swept(result):
    world = World(deletion(), PORT, IMAGE).finds("network.port")
    world.answers["image.image"] = lambda _: result if world.deletion.status is Status.INVENTORY else CLEAR
    assert swept_to_delete(deleting(world)) == {"network.port", "image.image"}
    assert world.run() is Status.DELETED


def test_what_waits_for_a_type_that_was_empty_is_swept_at_once():
    world = World(deletion(), PORT, NETWORK).finds("network.network")
    world.run(until=Status.DELETING)
    world.settle_engine()
    assert world.step("network.network").state is StepState.DISPATCHED
    assert world.step("network.port").state is StepState.DONE


def until_deleting(world, wait):
    """Run a world until its delete round opens, which is so much later than the inventory's lists."""
    began(world)
    for step in in_flight(world):
        world.claim(step.id)
        world.finish(step.id)
    world.now += wait
    world.settle_engine()
    return world


@pytest.mark.parametrize(("wait", "swept"), [(SHARED - SECOND, False), (SHARED + SECOND, True)])
def test_a_list_counts_for_thirty_seconds(wait, swept):
    world = until_deleting(World(deletion(), PORT, IMAGE).finds("network.port"), wait)
    assert (world.step("image.image").state is StepState.DISPATCHED) is swept


def test_of_a_project_that_is_gone_all_types_are_swept():
    world = World(deletion(project_gone_at=T0), PORT, IMAGE).finds("network.port")
    assert swept_to_delete(deleting(world)) == {"network.port", "image.image"}


def test_after_a_hold_all_types_are_swept():
    world = World(deletion(), PORT, IMAGE).finds("network.port")
    world.run(until=Status.DELETING)
    world.deletion = dataclasses.replace(world.deletion, brake=Brake(True, "smoke", T0))
    world.settle_engine()
    world.now += SECOND
    world.deletion = dataclasses.replace(world.deletion, brake=None)
    world.run(until=Status.VERIFYING)
    assert swept_to_delete(world) == {"network.port", "image.image"}


def test_a_second_delete_round_sweeps_all_types():
    """Force begins one, for example. What the first one deleted may have left something new."""
    world = World(deletion(), PORT, IMAGE).finds("network.port", lambda _: left("r1"))
    world.run(limit=30, until=Status.VERIFYING)
    assert swept_to_delete(world) == {"network.port"}
    world.force()
    world.settle_engine()
    world.run(limit=10, until=Status.VERIFYING)
    assert "image.image" in swept_to_delete(world)


def test_the_verification_lists_every_type_twice_all_the_same():
    world = World(deletion(), PORT, NETWORK, IMAGE).finds("network.port")
    assert world.run() is Status.DELETED
    sweeps = Counter(name for name in world.dispatched if "." in name)
    # The inventory, the delete round, two inventories, and one more after the project was disabled.
    assert sweeps == {"network.port": 5, "network.network": 4, "image.image": 4}


def test_what_the_verification_finds_is_deleted():
    """A user had access until the project was locked everywhere: a port appears after the inventory."""
    world = World(deletion(), PORT, IMAGE).finds("image.image")
    late = iter([left("late")])
    world.answers["network.port"] = lambda _: next(late, CLEAR) if world.deletion.status is Status.VERIFYING else CLEAR
    assert world.run() is Status.DELETED
    assert swept_to_delete(world) == {"image.image", "network.port"}


# ------------------------------------------------------------------------------------------------------------ batches
MANY = [sweep_step(f"s{n // 5}.t{n}") for n in range(20)]


@pytest.mark.parametrize(
    ("places", "sizes"), [(1, [20]), (3, [7, 7, 6]), (8, [3, 2, 3, 2, 3, 2, 3, 2]), (20, [1] * 20)]
)
def test_an_inventory_is_cast_in_one_batch_for_each_place(places, sizes):
    sent = casts(began(World(deletion(mode=Mode.REPORT), *MANY, rules=Rules(steps_at_once=places))))
    assert [len(batch) for batch in sent] == sizes
    assert [step_id for batch in sent for step_id in batch] == [step.id for step in MANY], "by service, each once"


def test_sweeps_that_delete_are_cast_alone():
    world = World(deletion(), *MANY, rules=Rules(steps_at_once=3))
    for step in MANY:
        world.finds(step.id)
    world.run(until=Status.DELETING)
    world.casts.clear()
    world.run(until=Status.VERIFYING)
    assert {len(batch) for batch in casts(world)} == {1}


def test_the_rest_of_a_batch_that_is_lost_is_cast_alone():
    world = began(World(deletion(mode=Mode.REPORT), *MANY, rules=Rules(steps_at_once=3)))
    world.claim("s0.t0")
    world.finish("s0.t0")
    world.casts.clear()
    world.now += world.rules.claim_timeout  # the worker died, or is still busy with another one of the batch
    world.settle_engine()
    assert casts(world) == [("s0.t1",), ("s0.t2",), ("s0.t3",)]


def test_a_batch_takes_no_place_of_a_step_that_runs():
    world = World(deletion(mode=Mode.REPORT), *MANY, rules=Rules(steps_at_once=3))
    world.answers[MANY[0].id] = lambda _: UNKNOWN
    began(world).casts.clear()
    world.claim(MANY[0].id)
    world.finish(MANY[0].id)
    world.now += datetime.timedelta(seconds=5)  # its next attempt is due, and the three batches are under way
    world.settle_engine()
    assert casts(world) == []
    for step in in_flight(world)[:-2]:
        world.claim(step.id)
        world.finish(step.id)
    world.settle_engine()
    assert casts(world) == [(MANY[0].id,)]


def test_types_that_a_later_survey_adds_wait_for_a_place():
    world = began(World(deletion(mode=Mode.REPORT), *MANY, rules=Rules(steps_at_once=3)))
    world.casts.clear()
    late = [sweep_step("late.t0"), sweep_step("late.t1")]
    world.steps |= {step.id: step for step in late}
    world.settle_engine()
    assert casts(world) == []
    for step in [s for s in in_flight(world) if s.service != "s3"]:
        world.claim(step.id)
        world.finish(step.id)
    world.settle_engine()
    assert casts(world) == [], "five are still under way"
    for step in in_flight(world)[:3]:
        world.claim(step.id)
        world.finish(step.id)
    world.settle_engine()
    assert casts(world) == [("late.t0", "late.t1")], "one place is free"


@pytest.mark.parametrize(
    ("unplanned", "remaining", "only"), [(2, 2, True), (1, 2, False), (0, 2, False), (0, 0, False)]
)
def test_leftovers_block_dependent_types_unless_none_of_them_is_in_the_plan(unplanned, remaining, only):
    values = {"round": 3, "state": StepState.DONE, "outcome": Outcome.LEFTOVERS}
    step = dataclasses.replace(PORT, unplanned=unplanned, remaining=remaining, **values)
    assert dependencies.only_unplanned(step, 3) is only
    assert not dependencies.only_unplanned(step, 4)


@pytest.mark.parametrize(("reason", "surveys"), [("", 1), (str(Reason.PROJECT_HAS_CHILDREN), 2)])
def test_two_inventories_share_a_survey_only_if_it_found_nothing_to_report(reason, surveys):
    world = World(deletion(), IMAGE)
    world.run(until=Status.VERIFYING)
    world.answers["survey"] = lambda _: StepResult(Outcome.CLEAR, reason)
    before = world.dispatched.count("survey")
    for _ in range(100):
        if world.deletion.empty_inventories == 2:
            break
        world.run(limit=1)
    assert (world.deletion.empty_inventories, world.dispatched.count("survey") - before) == (2, surveys)


def test_the_end_names_the_ten_types_with_the_most_left_and_counts_the_others():
    types = [sweep_step(f"network.t{n:02}") for n in range(12)]
    world = World(deletion(mode=Mode.REPORT), *types)
    for n, step in enumerate(types):
        world.answers[step.name] = lambda _, n=n: left(*map(str, range(n + 1)))
    assert world.run() is Status.LEFTOVERS
    named = ", ".join(f"network.t{n:02}" for n in range(11, 1, -1))
    assert world.deletion.message == f"78 left in {named} and 2 more"
