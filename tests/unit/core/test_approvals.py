"""A second person's word, and the time in which a project can be had back: nothing is deleted before."""

import dataclasses
import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.core import approvals, transitions
from cleanup_orchestrator.core.deletion import Approval, Mode, RoundPurpose, Status
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Outcome, StepKind, StepState
from tests.support.cases import each_case
from tests.support.examples import examples
from tests.unit.world import CLEAR, T0, UNKNOWN, World, allowed, deletion, left, sweep_step

DAY = datetime.timedelta(days=1)
PORT = sweep_step("network.port")
NETWORK = sweep_step("network.network", after=("network.port",))
IMAGE = sweep_step("image.image")
QUOTA = sweep_step("network.quota", project_setting=True)


def given_for(needed, resources=0):
    return Approval(needed, "ticket", T0, resources, user_id="second")


def conditions(world):
    return {c.type: (c.status, c.reason) for c in world.deletion.conditions}


def seen(name, remaining, deleted=0, **values):
    return sweep_step(
        name, **{"round": 1, "state": StepState.DONE, "remaining": remaining, "deleted": deleted, **values}
    )


# ------------------------------------------------------------------------------------------------------------- tables
@pytest.mark.parametrize(
    ("steps", "number", "why"),
    [
        ([seen("a.b", 3), seen("a.c", 4)], 7, "all that is left"),
        ([seen("a.b", 3, 2)], 5, "and all that is gone by it"),
        ([seen("a.b", 3, 2, unplanned=2)], 3, "but not what stays for it is in no plan"),
        ([seen("a.b", 3, 2, round=0)], 2, "nor what an earlier attempt left"),
        ([seen("a.b", 3, project_setting=True)], 0, "nor what goes with the project"),
        ([seen("a.b", 3, waived="w")], 0, "nor what a waiver excludes"),
        ([seen("a.b", 3, kind=StepKind.UNSUPPORTED)], 0, "nor an unsupported service"),
    ],
)
def test_what_a_deletion_is_about(steps, number, why):
    assert approvals.affected_count(deletion(), steps) == number, why


@pytest.mark.parametrize(
    ("values", "limit", "asks"),
    [
        ({}, 0, False),
        ({}, 10, False),
        ({}, 9, True),
        ({"mode": Mode.REPORT}, 9, False),
        ({"dry_run": True}, 9, False),
        ({"approvals": (given_for(approvals.TOO_MANY_RESOURCES, 10),)}, 9, False),
        ({"approvals": (given_for(approvals.TOO_MANY_RESOURCES, 9),)}, 8, True),
        ({"approvals": (given_for(approvals.TOO_MANY_DELETIONS, 10),)}, 9, True),
    ],
    ids=str,
)
def test_too_many_resources(values, limit, asks):
    found = approvals.for_resources(deletion(**values), [seen("a.b", 10)], limit)
    assert bool(found) is asks
    if found:
        assert found.reason == "too_many_resources" and "10 resources" in found.message and str(limit) in found.message


@pytest.mark.parametrize(
    ("values", "limit", "asks"),
    [
        ({"cascades_before": 5}, 0, False),
        ({"cascades_before": 5}, 6, False),
        ({"cascades_before": 5}, 5, True),
        ({"cascades_before": 5, "mode": Mode.REPORT}, 5, False),
        ({"cascades_before": 5, "dry_run": True}, 5, False),
        ({"cascades_before": 5, "approvals": (given_for(approvals.TOO_MANY_DELETIONS),)}, 5, False),
        ({"cascades_before": 5, "approvals": (given_for(approvals.TOO_MANY_RESOURCES, 99),)}, 5, True),
    ],
    ids=str,
)
def test_too_many_deletions_a_day(values, limit, asks):
    assert bool(approvals.for_deletion(deletion(**values), limit)) is asks


@pytest.mark.parametrize(
    ("attempt", "hours", "asks"),
    [(1, 0, False), (2, 23, False), (2, 24, True), (3, 500, True)],
)
def test_a_retry_of_one_that_no_day_counts_any_more_needs_an_approval(attempt, hours, asks):
    """Else many could be recorded over days, such that each fails, and all be retried on one."""
    at = T0 + datetime.timedelta(hours=hours)
    retried = deletion(attempt=attempt, created_at=T0, status_at=at)
    assert bool(approvals.for_deletion(retried, 5)) is asks
    assert approvals.for_deletion(retried, 0) is None
    given = dataclasses.replace(retried, approvals=(given_for(approvals.TOO_MANY_DELETIONS),))
    assert approvals.for_deletion(given, 5) is None


# -------------------------------------------------------------------------------------------------- it rests, and how
class Cloud:
    """Resources by step, which a delete round takes away; unplanned ones may come."""

    def __init__(self, world, **there):
        self.world, self.there = world, {name.replace("__", "."): set(ids) for name, ids in there.items()}
        self.deleted = []  #: (id, when)
        self.broken = set()
        world.answers = dict.fromkeys(self.there, self.answer)

    def answer(self, step):
        if step.id in self.broken:
            return UNKNOWN
        there, purpose = self.there[step.id], self.world.deletion.purpose
        if purpose is RoundPurpose.INVENTORY:
            return left(*sorted(there)) if there else CLEAR
        gone = tuple((i, i) for i in sorted(there))
        self.deleted += [(i, self.world.now) for i, _ in gone]
        there.clear()
        return dataclasses.replace(CLEAR, found=len(gone), deleted=gone)


def approve(world, needed=approvals.TOO_MANY_RESOURCES):
    """As the API does."""
    record = world.deletion
    given = given_for(needed, approvals.affected_count(record, world.steps.values()))
    world.deletion = dataclasses.replace(record, approvals=(*record.approvals, given), wake_at=world.now)


def limited(resources=3, rules=None, **there):
    rules = rules or Rules(approval_resources=resources)
    world = World(deletion(), PORT, NETWORK, QUOTA, rules=rules)
    return world, Cloud(world, **there)


def test_a_deletion_within_the_limit_needs_no_approval():
    world, cloud = limited(network__port="abc")
    assert world.run() is Status.DELETED
    assert "approval" not in conditions(world) and len(cloud.deleted) == 3
    assert "deletion.recoverable" not in [e.type for e in world.events]


def test_a_deletion_beyond_the_limit_stays_drained_until_it_is_approved():
    world, cloud = limited(network__port="abcd")
    world.run(until=Status.RECOVERABLE)
    world.run(limit=200)
    assert world.deletion.status is Status.RECOVERABLE
    assert conditions(world)["approval"] == (True, "too_many_resources")
    assert cloud.deleted == [] and world.deletion.drained_at is not None
    approve(world)
    assert world.run() is Status.DELETED
    assert conditions(world)["approval"][0] is False
    assert len(cloud.deleted) == 4


def test_a_deletion_that_waits_for_an_approval_is_not_stalled():
    world, _ = limited(network__port="abcd")
    world.run(until=Status.RECOVERABLE)
    world.now += 10 * DAY
    world.run(limit=5)
    assert conditions(world)["stalled"] == (False, "progress") if "stalled" in conditions(world) else True


def test_an_approved_deletion_lists_again_and_needs_a_new_approval_if_there_is_more():
    world, cloud = limited(network__port="abcd")
    world.run(until=Status.RECOVERABLE)
    approve(world)
    cloud.there["network.port"].add("e")
    world.run(limit=200)
    assert (world.deletion.status, cloud.deleted) == (Status.RECOVERABLE, [])
    assert conditions(world)["approval"] == (True, "too_many_resources")
    assert any("4 were approved" in c.message for c in world.deletion.conditions)
    approve(world)
    assert world.run() is Status.DELETED


def test_what_comes_behind_it_counts_with_what_is_gone():
    """Ten of three each are as many as thirty."""
    world, cloud = limited(network__port="abc")
    world.run(until=Status.VERIFYING)
    cloud.there["network.port"].add("d")
    world.run(limit=200)
    assert world.deletion.status is Status.VERIFYING
    assert conditions(world)["approval"] == (True, "too_many_resources")
    assert [i for i, _ in cloud.deleted] == ["a", "b", "c"]
    approve(world)
    cloud.there["network.port"].add("e")  # between the inventory and the approval
    world.run(limit=200)
    assert [i for i, _ in cloud.deleted] == ["a", "b", "c"]
    approve(world)
    assert world.run() is Status.DELETED


def test_uncounted_types_are_not_deleted_before_they_are_counted():
    world, cloud = limited(network__port="a", network__network="bcde")
    cloud.broken = {"network.network"}
    world.run(until=Status.DELETING)
    cloud.broken = set()
    world.run(limit=300)
    assert [i for i, _ in cloud.deleted] == ["a"], "the rest is counted first, and is too much"
    assert (world.deletion.status, conditions(world)["approval"][0]) == (Status.VERIFYING, True)
    approve(world)
    assert world.run() is Status.DELETED


def test_a_type_that_waits_for_an_uncounted_type_is_deleted_in_the_next_round():
    world, cloud = limited(network__port="a", network__network="b")
    cloud.broken = {"network.port"}
    world.run(until=Status.DELETING)
    cloud.broken = set()
    assert world.run() is Status.DELETED
    assert [i for i, _ in cloud.deleted] == ["a", "b"]


def test_a_service_that_stays_dead_keeps_nothing_else():
    world, cloud = limited(network__port="a", image__image="b")
    world.steps["image.image"] = IMAGE
    cloud.broken = {"network.port"}
    world.run(limit=300)
    assert [i for i, _ in cloud.deleted] == ["b"]
    assert world.deletion.status is Status.VERIFYING


def test_beyond_the_limit_of_a_day_nothing_is_locked_before_the_approval():
    world = World(deletion(cascades_before=2), PORT, rules=Rules(approval_deletions=2))
    world.run(limit=100)
    assert world.deletion.status is Status.ACCEPTED
    assert conditions(world)["approval"] == (True, "too_many_deletions")
    assert not {"access", "drain"} & set(world.dispatched)
    approve(world, approvals.TOO_MANY_DELETIONS)
    assert world.run() is Status.DELETED


@pytest.mark.parametrize("values", [{"mode": Mode.REPORT}, {"dry_run": True}], ids=str)
def test_a_deletion_that_deletes_nothing_needs_no_approval(values):
    rules = Rules(approval_resources=1, approval_deletions=1, recovery_window=DAY)
    world = World(deletion(cascades_before=9, **values), PORT, rules=rules)
    Cloud(world, network__port="abcd")
    assert world.run() is (Status.PLANNED if values.get("dry_run") else Status.LEFTOVERS)


# -------------------------------------------------------------------------------------------------- the recovery window
def windowed(**rules):
    return limited(rules=Rules(recovery_window=7 * DAY, **rules), network__port="abcd")


def test_nothing_is_deleted_before_the_window_is_over():
    world, cloud = windowed()
    world.run(until=Status.RECOVERABLE)
    until = world.deletion.point_of_no_return_at
    assert until == world.deletion.status_at + 7 * DAY
    assert world.run(limit=20_000) is Status.DELETED
    assert len(cloud.deleted) == 4 and min(when for _, when in cloud.deleted) >= until
    assert world.deletion.point_of_no_return_at >= until
    visited = [e.type.split(".")[1] for e in world.events if e.type.startswith("deletion.")]
    assert visited == ["draining", "inventory", "recoverable", "inventory", "deleting", "verifying", "deleted"]


def test_a_shorter_window_later_does_not_shorten_one_that_was_promised():
    world, _ = windowed()
    world.run(until=Status.RECOVERABLE)
    until = world.deletion.point_of_no_return_at
    world.rules = Rules(recovery_window=DAY)
    world.now += 2 * DAY
    world.settle_engine()
    assert (world.deletion.status, world.deletion.point_of_no_return_at) == (Status.RECOVERABLE, until)
    assert world.deletion.wake_at == until, "and it is not decided before"


def test_an_approval_does_not_shorten_the_window_nor_the_window_replace_the_approval():
    world, cloud = windowed(approval_resources=3)
    world.run(until=Status.RECOVERABLE)
    world.settle_engine()
    approve(world)
    world.settle_engine()
    assert (world.deletion.status, cloud.deleted) == (Status.RECOVERABLE, [])

    world, cloud = windowed(approval_resources=3)
    world.run(until=Status.RECOVERABLE)
    world.now += 8 * DAY
    world.run(limit=50)
    assert (world.deletion.status, cloud.deleted) == (Status.RECOVERABLE, [])
    approve(world)
    assert world.run() is Status.DELETED


def test_a_project_is_restored_as_it_was():
    world, cloud = windowed()
    world.run(until=Status.RECOVERABLE)
    assert world.deletion.has_changes
    world.user(Status.CANCELLING)
    assert world.run() is Status.CANCELLED
    assert (world.deletion.has_changes, cloud.deleted, len(cloud.there["network.port"])) == (False, [], 4)


def test_a_new_attempt_has_a_new_recovery_window():
    world, _ = windowed()
    world.run(limit=20_000, until=Status.VERIFYING)
    failed = transitions.move(world.deletion, Status.FAILED, transitions.By.ENGINE, world.now, "x")
    again = transitions.move(failed, Status.ACCEPTED, transitions.By.USER, world.now, "retried")
    assert again.point_of_no_return_at is None


@each_case("status", sorted(Status), "purpose", list(RoundPurpose))
def test_restored_is_what_nothing_was_deleted_of(status, purpose):
    record = deletion(status=status, purpose=purpose)
    before = {Status.ACCEPTED, Status.DRAINING, Status.INVENTORY, Status.RECOVERABLE}
    assert transitions.restorable(record) is (status in before and purpose is not RoundPurpose.PROJECT_SETTINGS)


@pytest.mark.parametrize("purpose", [RoundPurpose.NONE, RoundPurpose.INVENTORY])
def test_no_sweep_may_write_while_it_rests(purpose):
    step = sweep_step("network.port", round=1, state=StepState.RUNNING)
    assert not allowed(deletion(status=Status.RECOVERABLE, purpose=purpose), step, writing=True)


@settings(max_examples=examples(20))
@given(
    there=st.integers(0, 6),
    limit=st.integers(0, 6),
    days=st.sampled_from([0, 1]),
    later=st.integers(0, 3),
    unknown=st.booleans(),
)
def test_nothing_is_deleted_before_the_end_of_the_window_or_without_an_approval(there, limit, days, later, unknown):
    rules = Rules(approval_resources=limit, recovery_window=days * DAY)
    world, cloud = limited(rules=rules, network__port="abcdef"[:there], network__network="")
    cloud.broken = {"network.port"} if unknown else set()
    word, began = limit, world.now
    for _ in range(400):
        before = len(cloud.deleted)
        world.run(limit=1)
        if len(cloud.deleted) > before:
            assert not limit or len(cloud.deleted) <= word
            assert world.now - began >= days * DAY
        if conditions(world).get("approval", (False,))[0]:
            number = approvals.affected_count(world.deletion, world.steps.values())
            assert number > word
            word = number
            approve(world)
        if world.deletion.status in (Status.DELETING, Status.VERIFYING):
            cloud.broken = set()
        if world.deletion.status is Status.VERIFYING and world.deletion.purpose is RoundPurpose.NONE and later:
            later -= 1
            cloud.there["network.network"].add(f"late{later}")
        if world.deletion.status is Status.DELETED:
            break
    assert world.deletion.status is Status.DELETED
    assert [s for s in world.steps.values() if s.kind is StepKind.SWEEP and s.outcome is Outcome.UNKNOWN] == []
