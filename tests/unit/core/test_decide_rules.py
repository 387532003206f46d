"""Single rules of decisions, each by itself; whole deletions and properties are in ``test_decide``."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core import actions, decide, dependencies
from cleanup_orchestrator.core.deletion import Force, Mode, RoundPurpose, Status
from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rounds import Round, in_scope, keeps_last_result
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.snapshot import Snapshot, done, retry_at, settle_until
from cleanup_orchestrator.core.step import TASKS, Outcome, Step, StepKind, StepState, Token
from tests.unit.world import CLEAR, T0, UNKNOWN, World, deletion, left, sweep_step

PORT = sweep_step("network.port")
SECRET = sweep_step("key-manager.secret", token=Token.PROJECT)
HOUR = datetime.timedelta(hours=1)


# ------------------------------------------------------------------------------------------------------- what is done
@pytest.mark.parametrize(
    ("round_", "state", "expected"),
    [
        (5, StepState.DONE, True),
        (6, StepState.DONE, True),
        (4, StepState.DONE, False),
        (0, StepState.DONE, False),
        (5, StepState.IDLE, False),
        (5, StepState.DISPATCHED, False),
        (5, StepState.RUNNING, False),
    ],
)
def test_a_result_counts_from_its_round_on_and_once_it_is_there(round_, state, expected):
    assert done(dataclasses.replace(PORT, round=round_, state=state), 5) is expected


@pytest.mark.parametrize(
    ("closed", "values", "rests"),
    [
        (True, {}, True),
        (True, {"token": Token.MEMBER}, True),
        (False, {}, False),
        (False, {"token": Token.MEMBER}, False),
        (True, {"outcome": Outcome.LEFTOVERS, "remaining": 1}, False),
        (True, {"outcome": Outcome.UNKNOWN}, False),
        (True, {"outcome": Outcome.NONE}, False),
        (True, {"round": 2}, False),
        (True, {"state": StepState.RUNNING}, False),
        (True, {"token": Token.ADMIN}, False),
    ],
)
def test_a_type_that_needs_a_token_is_not_listed_again_once_the_project_is_closed_and_it_was_empty(
    closed, values, rests
):
    record = deletion(since_round=3, round=6, closed_at=T0 if closed else None)
    step = dataclasses.replace(SECRET, **{"round": 5, "state": StepState.DONE, "outcome": Outcome.CLEAR, **values})
    assert keeps_last_result(record, step) is rests


@pytest.mark.parametrize(
    ("kind", "values", "purpose", "expected"),
    [
        (StepKind.SWEEP, {}, RoundPurpose.INVENTORY, True),
        (StepKind.SWEEP, {}, RoundPurpose.DELETE, True),
        (StepKind.SWEEP, {}, RoundPurpose.PROJECT_SETTINGS, False),
        (StepKind.SWEEP, {"project_setting": True}, RoundPurpose.INVENTORY, False),
        (StepKind.SWEEP, {"project_setting": True}, RoundPurpose.DELETE, False),
        (StepKind.SWEEP, {"project_setting": True}, RoundPurpose.PROJECT_SETTINGS, True),
        (StepKind.SWEEP, {"waived": "w"}, RoundPurpose.INVENTORY, False),
        (StepKind.UNSUPPORTED, {}, RoundPurpose.INVENTORY, True),
        (StepKind.UNSUPPORTED, {"waived": "w"}, RoundPurpose.INVENTORY, False),
        (StepKind.HALT, {}, RoundPurpose.INVENTORY, False),
        (StepKind.SURVEY, {}, RoundPurpose.INVENTORY, False),
    ],
)
def test_what_belongs_to_a_round(kind, values, purpose, expected):
    assert in_scope(deletion(purpose=purpose), dataclasses.replace(PORT, kind=kind, **values)) is expected


@pytest.mark.parametrize(
    ("drained", "gone", "expected"),
    [(None, None, None), (T0, None, T0), (None, T0, T0), (T0, T0 + HOUR, T0 + HOUR), (T0 + HOUR, T0, T0 + HOUR)],
)
def test_tokens_are_out_of_every_cache_a_settling_time_after_the_later_of_lock_and_loss(drained, gone, expected):
    rules = Rules(settle=datetime.timedelta(seconds=7))
    until = settle_until(deletion(drained_at=drained, project_gone_at=gone), rules)
    assert until == (expected and expected + rules.settle)


# ------------------------------------------------------------------------------------------------ the next attempt
@pytest.mark.parametrize(
    ("kind", "attempt", "elapsed", "seconds"),
    [
        (StepKind.SWEEP, 2, 60, 2),
        (StepKind.SWEEP, 6, 60, 10),
        (StepKind.SWEEP, 6, 160, 20),
        (StepKind.SWEEP, 6, 1000, 32),
        (StepKind.SWEEP, 20, 1000, 60),
        (StepKind.SURVEY, 6, 60, 32),
    ],
)
def test_leftovers_are_tried_again_within_an_eighth_of_the_time_so_far(kind, attempt, elapsed, seconds):
    """Otherwise a stack in use is tried again up to a minute after the port that used it is gone."""
    record = deletion(purpose=RoundPurpose.DELETE, round_opened_at=T0 - datetime.timedelta(seconds=elapsed))
    in_use = {"state": StepState.DONE, "outcome": Outcome.LEFTOVERS, "reason": Reason.IN_USE}
    step = dataclasses.replace(PORT, kind=kind, attempt=attempt, finished_at=T0, **in_use)
    assert (retry_at(step, record, Rules()) - T0).total_seconds() == seconds


@pytest.mark.parametrize(
    ("reason", "result", "attempt"),
    [
        (Reason.DELETING, UNKNOWN, 1),
        (Reason.DELETING, left("1"), 9),
        (Reason.IN_USE, UNKNOWN, 9),
    ],
)
def test_a_poll_is_no_failed_attempt(reason, result, attempt):
    """Otherwise one list that fails after eight polls is repeated only after a minute."""
    step = dataclasses.replace(PORT, attempt=9, state=StepState.RUNNING, outcome=Outcome.LEFTOVERS, reason=reason)
    _, after = actions.record(deletion(purpose=RoundPurpose.DELETE), step, result, T0)
    assert after.attempt == attempt


# ------------------------------------------------------------------------------------------------ whole deletions
def names(world):
    return [event.type for event in world.events if event.type.startswith("deletion.")]


def test_a_report_that_cannot_see_everything_ends_without_locking_the_project():
    world = World(deletion(mode=Mode.REPORT), PORT)
    world.answers["network.port"] = lambda _: UNKNOWN
    assert world.run(limit=500) is Status.LEFTOVERS
    assert world.deletion.reason == "unknown"
    assert "drain" not in world.dispatched


def test_no_round_counts_while_the_catalog_cannot_be_read():
    world = World(deletion(), PORT)
    world.run(until=Status.VERIFYING)
    world.answers["survey"] = lambda _: UNKNOWN
    world.run(limit=300)
    assert world.deletion.status is Status.VERIFYING
    assert (world.empty_rounds, world.deletion.empty_inventories) == ([], 0)
    assert "close" not in world.dispatched


def test_a_verification_waits_for_what_it_cannot_see_and_deletes_nothing_meanwhile():
    world = World(deletion(), PORT, sweep_step("image.image"))
    world.run(until=Status.VERIFYING)
    world.answers["network.port"] = lambda _: UNKNOWN
    before = names(world)
    world.run(limit=300)
    assert world.deletion.status is Status.VERIFYING
    assert names(world) == before
    assert world.empty_rounds == []


def test_more_than_may_go_without_an_approval_stops_the_deletes_at_once():
    world = World(deletion(), PORT, rules=Rules(approval_resources=3))
    more = left(*"12345", reason=Reason.IN_USE)
    world.answers["network.port"] = lambda _: more if world.deletion.purpose is RoundPurpose.DELETE else left("1")
    assert world.run(until=Status.DELETING) is Status.DELETING
    assert world.run(limit=20, until=Status.VERIFYING) is Status.VERIFYING
    assert world.deletion.reason == "too_many_resources"


@pytest.mark.parametrize("state", [StepState.RUNNING, StepState.DONE])
def test_force_waits_for_what_still_runs(state):
    """It may be what keeps the other one."""
    now = T0 + HOUR
    forced = Force("why", (), T0, 1, 1)
    record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE, round=3, forced=forced, round_opened_at=T0)
    ended = {"round": 3, "state": StepState.DONE, "finished_at": T0, "started_at": T0}
    stuck = {**ended, "outcome": Outcome.LEFTOVERS, "remaining": 1, "reason": "in_use", "attempt": 3}
    tasks = [Step(str(kind), "d", kind, outcome=Outcome.CLEAR, **ended) for kind in TASKS]
    running = {**stuck, "state": state, "lease_until": now + HOUR}
    steps = (*tasks, dataclasses.replace(PORT, **stuck), sweep_step("image.image", **running))
    found = decide.decide(record, steps, now, Rules())
    is_abandoned = {action.step_id for action in found if isinstance(action, actions.Abandon)}
    assert is_abandoned == (set() if state is StepState.RUNNING else {"network.port", "image.image"})


def test_project_settings_are_deleted_only_in_a_separate_round():
    quota = sweep_step("network.quota", project_setting=True)
    world = World(deletion(), PORT, quota)
    assert world.run() is Status.DELETED
    assert [purpose for name, purpose in world.writes if name == "network.quota"] == [RoundPurpose.PROJECT_SETTINGS]


def test_the_force_of_a_step_ends_with_its_round():
    """In the next one an ordinary delete is tried first, on what may be there anew."""
    step = dataclasses.replace(
        PORT, round=3, state=StepState.DONE, outcome=Outcome.LEFTOVERS, forcing=True, finished_at=T0
    )
    for round_, forcing in ((3, True), (4, False)):
        record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE, round=round_)
        [dispatched] = actions.apply(record, (step,), (actions.Dispatch(step.id),), T0).steps
        assert dispatched.forcing is forcing


@pytest.mark.parametrize(
    ("before", "sweep", "progress"),
    [
        ({}, dataclasses.replace(left("1"), deleted=(("2", "two"),)), True),
        ({"remaining": 1, "outcome": Outcome.LEFTOVERS}, left("1"), False),
        ({"remaining": 2, "outcome": Outcome.LEFTOVERS}, left("1"), True),
        ({"outcome": Outcome.LEFTOVERS}, CLEAR, True),
        ({"outcome": Outcome.CLEAR}, CLEAR, False),
        ({}, UNKNOWN, False),
    ],
)
def test_what_is_progress(before, sweep, progress):
    record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE)
    after, _ = actions.record(record, dataclasses.replace(PORT, **before), sweep, T0 + HOUR)
    assert (after.progress_at == T0 + HOUR) is progress


@pytest.mark.parametrize(
    ("unplanned", "remaining", "only"), [(2, 2, True), (1, 2, False), (0, 2, False), (0, 0, False)]
)
def test_leftovers_block_dependent_types_unless_none_of_them_is_in_the_plan(unplanned, remaining, only):
    values = {"round": 3, "state": StepState.DONE, "outcome": Outcome.LEFTOVERS}
    step = dataclasses.replace(PORT, unplanned=unplanned, remaining=remaining, **values)
    assert dependencies.only_unplanned(step, 3) is only
    assert not dependencies.only_unplanned(step, 4)


@pytest.mark.parametrize("held", [False, True])
def test_force_does_nothing_while_the_deletion_is_on_hold(held):
    forced = Force("why", (), T0, 1, 1)
    brake = Brake(True, "x") if held else None
    record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE, round=3, forced=forced, brake=brake)
    assert Round(Snapshot(record, (), T0 + HOUR, Rules())).force_due is not held
