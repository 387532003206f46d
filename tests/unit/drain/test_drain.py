"""Draining anew, and what a record says of a drain in part: the core's side, without any Keystone."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult, Token
from tests.unit.world import CLEAR, DONE, World, deletion, sweep_step

PORT = sweep_step("network.port")
SECRET = sweep_step("key-manager.secret", token=Token.PROJECT)
INHERITED = StepResult(Outcome.UNKNOWN, str(Reason.INHERITED_GRANTS), "1 users keep getting tokens: heir")


def verifying(**values):
    """A world whose drain holds, right before its first verification."""
    world = World(deletion(**values), PORT, SECRET)
    assert world.run(until=Status.VERIFYING) is Status.VERIFYING
    assert world.deletion.drained_at
    return world


def let_in(world):
    """What a survey does with the record when it sees that others have roles on the project again."""
    world.deletion = dataclasses.replace(world.deletion, drained_at=None, closed_at=None, empty_inventories=0)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_project_to_which_a_user_regained_access_is_drained_again_before_its_results_count(mode):
    world = verifying(mode=mode)
    reopened = []

    def survey(_):
        if not reopened:
            reopened.append(world.now)
            let_in(world)
        return CLEAR

    world.answers = {"survey": survey}
    assert world.run() is DONE[mode]
    assert world.dispatched.count("drain") == 2
    held = [e for e in world.events if e.type == "drain.held"]
    assert len(held) == 2
    counted = [opened for opened in world.empty_rounds if opened > reopened[0]]
    assert len(counted) == (2 if mode is Mode.PURGE else 3)  # the third one follows the closing
    drained_at = datetime.datetime.fromisoformat(held[-1].message.rsplit(" ", 1)[1].removesuffix("Z"))
    assert all(opened >= drained_at + world.rules.settle for opened in counted)
    assert drained_at > reopened[0]


def test_while_the_repeated_drain_is_blocked_nothing_is_listed_and_nothing_is_closed():
    world = verifying()
    let_in(world)
    world.answers = {"drain": lambda _: INHERITED}
    world.run(limit=200)
    assert world.deletion.status is Status.VERIFYING
    assert (world.empty_rounds, world.dispatched.count("close")) == ([], 0)
    blocked = next(c for c in world.deletion.conditions if c.type == "blocked")
    assert (blocked.status, blocked.message) == (True, "drain: inherited_grants")
    world.answers = {}
    assert world.run() is Status.DELETED


def test_a_report_does_not_wait_for_a_new_drain_that_is_blocked():
    world = verifying(mode=Mode.REPORT)
    let_in(world)
    world.answers = {"drain": lambda _: INHERITED}
    assert world.run() is Status.LEFTOVERS
    assert (world.deletion.message, world.deletion.has_changes) == (INHERITED.message, False)


@pytest.mark.parametrize("reason", ["no_drain", "inherited_grants"])
def test_a_drain_that_was_never_complete_is_not_repeated(reason):
    world = World(deletion(), PORT, SECRET)
    world.answers = {"drain": lambda _: StepResult(Outcome.CLEAR, reason, "in part")}
    assert world.run() is Status.DELETED
    assert world.dispatched.count("drain") == 1


def test_a_worker_that_fails_during_a_repeated_drain_is_replaced():
    world = verifying()
    let_in(world)
    world.settle_engine()
    world.claim("drain")  # and nothing more is heard of it
    assert world.run(limit=1) is Status.VERIFYING
    lease = world.step("drain").lease_until
    while world.now < lease:
        world.settle_engine()
        world.now = max(world.deletion.wake_at, world.now)
        assert world.deletion.purpose is RoundPurpose.NONE
    assert world.run() is Status.DELETED


@pytest.mark.parametrize(
    ("drained", "words"), [(CLEAR, "while the project was locked"), (INHERITED, "while others still got tokens")]
)
def test_the_record_names_the_types_that_were_last_listed_with_a_project_token(drained, words):
    later = dataclasses.replace(SECRET, id="secret@R2", region="R2")
    world = World(deletion(), PORT, SECRET, later)
    world.answers = {"drain": lambda _: dataclasses.replace(drained, outcome=Outcome.CLEAR)}
    assert world.run() is Status.DELETED
    [condition] = [c for c in world.deletion.conditions if c.type == "drained"]
    at = world.step(SECRET.name).finished_at.isoformat()
    text = f"; empty at the last list with a token of the project, not before {at}Z, {words}: {SECRET.name}"
    assert condition.message.endswith(text)
