"""A tree of projects: each has a deletion of its own; the upper one waits for what is below it."""

import dataclasses

import pytest

from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Child, Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult
from tests.unit.world import CLEAR, World, deletion, left, sweep_step

PORT = sweep_step("network.port")
BELOW = StepResult(Outcome.CLEAR, str(Reason.PROJECT_HAS_CHILDREN), "it has child projects: c1, c2")


def tree(mode=Mode.CASCADE, status=Status.DELETING, **values):
    """A parent whose two children are in this status, and which Keystone still knows."""
    world = World(deletion(mode=mode, include_subtree=True, **values), PORT)
    world.answers["survey"] = lambda _: BELOW
    children(world, status)
    return world


def children(world, status):
    found = tuple(Child(f"d{n}", f"c{n}", status, world.now) for n in (1, 2))
    world.deletion = dataclasses.replace(world.deletion, children=found)
    if status is Status.DELETED:
        world.answers["survey"] = lambda _: CLEAR


def condition(world, type_):
    return next((c for c in world.deletion.conditions if c.type == type_), None)


def test_a_cascade_waits_before_it_locks_anything_and_goes_on_when_the_children_are_gone():
    world = tree()
    world.run(limit=50)
    assert world.deletion.status is Status.ACCEPTED
    assert world.writes == []
    assert condition(world, "waiting").status
    assert blockers(world.deletion, world.steps.values()) == ()  # exactly that is under way
    children(world, Status.DELETED)
    assert world.run(limit=500) is Status.DELETED
    assert not condition(world, "waiting").status


def test_a_child_that_is_announced_as_gone_is_read_at_once():
    world = tree()
    world.run(limit=50)
    before, asked = world.now, world.dispatched.count("survey")
    children(world, Status.DELETED)
    world.settle_engine()
    assert world.dispatched.count("survey") == asked + 1
    assert world.now == before


def test_it_is_not_stalled_while_a_child_is_under_way():
    world = tree()
    world.run(limit=200)
    assert world.now > world.deletion.created_at + world.rules.stall_after
    assert condition(world, "stalled") is None or not condition(world, "stalled").status


def test_it_is_blocked_when_no_child_goes_on_by_itself():
    world = tree(status=Status.FAILED)
    world.run(limit=200)
    assert world.deletion.status is Status.ACCEPTED
    assert condition(world, "blocked").status
    assert "project_has_children" in condition(world, "blocked").message
    assert [b.reason for b in blockers(world.deletion, world.steps.values())] == [Reason.PROJECT_HAS_CHILDREN]


def test_a_report_lists_its_leftovers_in_every_state_of_the_children():
    world = tree(Mode.REPORT)
    world.answers["network.port"] = lambda _: left("p1")
    assert world.run(limit=500) is Status.LEFTOVERS
    assert world.writes in ([], [("access", world.deletion.purpose)])


@pytest.mark.parametrize("ended", [Status.LEFTOVERS, Status.FAILED, Status.CANCELLED])
def test_an_empty_report_ends_when_its_children_ended_otherwise(ended):
    world = tree(Mode.REPORT, ended)
    assert world.run(limit=500) is Status.LEFTOVERS
    assert world.deletion.reason == Reason.PROJECT_HAS_CHILDREN
    assert "drain" not in world.dispatched
    assert not world.deletion.has_changes


def test_an_empty_report_waits_for_children_that_are_under_way():
    world = tree(Mode.REPORT)
    world.run(limit=100)
    assert world.deletion.status is Status.INVENTORY
    assert "drain" not in world.dispatched
    children(world, Status.DELETED)
    assert world.run(limit=500) is Status.DELETED


def test_a_dry_run_does_not_wait_for_children():
    assert tree(dry_run=True).run(limit=500) is Status.PLANNED


def test_it_can_be_cancelled_while_it_waits():
    world = tree()
    world.run(limit=50)
    from cleanup_orchestrator.core.transitions import cancellable

    assert cancellable(world.deletion)
