"""The table of legal moves."""

import contextlib
import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core.deletion import Force, RoundPurpose, Status
from cleanup_orchestrator.core.guard import allowed
from cleanup_orchestrator.core.step import Step, StepKind
from cleanup_orchestrator.core.transitions import (
    FINAL,
    LIVE,
    MOVES,
    RESTING,
    By,
    IllegalMove,
    cancellable,
    hurried,
    hurried_lately,
    move,
    retryable,
)
from tests.support.cases import each_case
from tests.unit.world import T0, deletion

S = Status


def test_finality_follows_from_the_table():
    assert FINAL == {S.DELETED, S.EMPTIED, S.PLANNED, S.CANCELLED}
    assert RESTING == {S.LEFTOVERS, S.FAILED}
    assert LIVE == {S.ACCEPTED, S.DRAINING, S.INVENTORY, S.RECOVERABLE, S.DELETING, S.VERIFYING, S.CANCELLING}


def test_every_status_can_be_reached_and_every_live_one_can_end():
    reached = {S.ACCEPTED}
    for _ in Status:
        reached |= {b for a, b in MOVES if a in reached}
    assert reached == set(Status)
    for status in LIVE:
        ends = {status}
        for _ in Status:
            ends |= {b for a, b in MOVES if a in ends}
        assert ends & (FINAL | RESTING)


@pytest.mark.parametrize("end", [S.DELETED, S.EMPTIED])
def test_deleted_and_emptied_are_only_entered_from_verifying(end):
    assert [a for a, b in MOVES if b is end] == [S.VERIFYING]


#: Each legal move, as the manual describes it. The table of the package is not its own proof.
LEGAL = {
    ("engine", "accepted"): "draining inventory failed",
    ("engine", "draining"): "inventory leftovers failed",
    ("engine", "inventory"): "draining recoverable deleting verifying leftovers planned failed",
    ("engine", "recoverable"): "inventory failed",
    ("engine", "deleting"): "verifying failed",
    ("engine", "verifying"): "deleting leftovers deleted emptied failed",
    ("engine", "cancelling"): "cancelled",
    ("user", "accepted"): "cancelling",
    ("user", "draining"): "cancelling",
    ("user", "inventory"): "cancelling",
    ("user", "recoverable"): "cancelling",
    ("user", "deleting"): "cancelling",
    ("user", "verifying"): "cancelling",
    ("user", "leftovers"): "accepted",
    ("user", "failed"): "accepted",
}


@each_case("by", By, "before", Status, "after", Status)
def test_only_the_actors_in_the_table_can_make_a_move(by, before, after):
    legal = after in LEGAL.get((by, before), "").split()
    with contextlib.nullcontext() if legal else pytest.raises(IllegalMove):
        moved = move(deletion(status=before), after, by, T0, "because")
        assert (moved.status, moved.reason) == (after, "because")


def test_a_cancel_is_refused_past_the_point_of_no_return():
    going = deletion(status=S.VERIFYING, purpose=RoundPurpose.PROJECT_SETTINGS)
    assert not cancellable(going)
    with pytest.raises(IllegalMove, match="being removed"):
        move(going, S.CANCELLING, By.USER, T0, "cancel")
    assert cancellable(deletion(status=S.VERIFYING, purpose=RoundPurpose.INVENTORY))


@each_case("status", sorted(Status))
def test_a_resting_or_live_deletion_can_be_retried(status):
    live = status in LIVE and status is not S.CANCELLING
    assert retryable(deletion(status=status)) == (status in RESTING or live)
    assert hurried(deletion(status=status)) == live


@pytest.mark.parametrize(
    ("seconds", "lately"),
    [
        (None, False),
        (0, True),
        (9.999, True),
        (10, False),
        (-1, False),  # the clock was set back
    ],
)
def test_a_retry_of_a_live_deletion_has_an_effect_ten_seconds_after_the_last_one(seconds, lately):
    at = None if seconds is None else T0 - datetime.timedelta(seconds=seconds)
    assert hurried_lately(deletion(retry_now_at=at), T0) is lately


def test_a_retry_forgets_what_the_last_attempt_proved():
    old = deletion(status=S.LEFTOVERS, round=5, since_round=1, empty_inventories=1, drained_at=T0, closed_at=T0)
    new = move(old, S.ACCEPTED, By.USER, T0, "retry")
    assert (new.attempt, new.round, new.since_round) == (2, 6, 6)
    assert (new.drained_at, new.closed_at, new.empty_inventories, new.finished_at) == (None, None, 0, None)


# ------------------------------------------------------------------------------------------ which step may run or write
#: Each kind of step that may write, in a status and a round in which it may.
WRITERS = {
    StepKind.ACCESS: {"status": S.DRAINING},
    StepKind.DRAIN: {"status": S.DRAINING},
    StepKind.HALT: {"status": S.RECOVERABLE},
    StepKind.SWEEP: {"status": S.DELETING, "purpose": RoundPurpose.DELETE},
    StepKind.CLOSE: {"status": S.VERIFYING},
    StepKind.REMOVE: {"status": S.VERIFYING, "purpose": RoundPurpose.PROJECT_SETTINGS},
    StepKind.RELEASE: {"status": S.CANCELLING},
}


def step(kind, **values):
    return dataclasses.replace(Step("s", "d", kind, round=5), **values)


def going(kind, **values):
    return deletion(**{"round": 5, "since_round": 3, **WRITERS[kind], **values})


@each_case("kind", WRITERS)
def test_what_may_write_is_what_its_time_has_come_for(kind):
    assert allowed(going(kind), step(kind), writing=True)
    assert allowed(going(kind), step(kind))


@each_case("kind", WRITERS, "writing", [False, True])
def test_no_step_of_an_earlier_attempt_runs_or_writes(kind, writing):
    assert not allowed(going(kind), step(kind, round=2), writing)


@each_case("kind", [StepKind.SWEEP, StepKind.CLOSE], "round_", [3, 4, 6], "writing", [False, True])
def test_no_sweep_and_no_closing_of_another_round_runs_or_writes(kind, round_, writing):
    """Its round may have been one of deletes, and the present one may be one that counts what is left.

    The lock of the closing's round may be void.
    """
    assert not allowed(going(kind), step(kind, round=round_), writing)


@each_case("kind", sorted(set(WRITERS) - {StepKind.SWEEP, StepKind.CLOSE}))
def test_what_belongs_to_no_round_may_have_begun_in_an_earlier_one_of_the_attempt(kind):
    assert allowed(going(kind), step(kind, round=3), writing=True)


@each_case("kind", WRITERS, "status", sorted(FINAL | RESTING))
def test_nothing_runs_or_writes_once_a_deletion_has_ended(kind, status):
    for writing in (False, True):
        assert not allowed(going(kind, status=status), step(kind), writing)


@each_case("kind", sorted(set(WRITERS) - {StepKind.RELEASE}))
def test_a_cancel_stops_everything_but_the_undoing(kind):
    for writing in (False, True):
        assert not allowed(going(kind, status=S.CANCELLING), step(kind), writing)


@each_case("kind", sorted(set(WRITERS) - {StepKind.RELEASE}))
def test_a_dry_run_writes_nothing(kind):
    assert not allowed(going(kind, dry_run=True), step(kind), writing=True)


@each_case("purpose", [p for p in RoundPurpose if p is not RoundPurpose.DELETE])
def test_a_sweep_writes_in_a_round_of_deletes_alone(purpose):
    assert not allowed(going(StepKind.SWEEP, purpose=purpose), step(StepKind.SWEEP), writing=True)
    project_setting = step(StepKind.SWEEP, project_setting=True)
    assert allowed(going(StepKind.SWEEP, purpose=purpose), project_setting, writing=True) is (
        purpose is RoundPurpose.PROJECT_SETTINGS
    )


@each_case("purpose", [p for p in RoundPurpose if p is not RoundPurpose.PROJECT_SETTINGS])
def test_the_project_is_removed_in_the_project_settings_round_alone(purpose):
    assert not allowed(going(StepKind.REMOVE, purpose=purpose), step(StepKind.REMOVE), writing=True)


@each_case("status", sorted(LIVE - {S.RECOVERABLE}))
def test_what_runs_is_stopped_in_the_recovery_window_alone(status):
    for writing in (False, True):
        assert not allowed(going(StepKind.HALT, status=status), step(StepKind.HALT), writing)


def test_a_move_forgets_the_empty_inventories_of_the_status_before():
    after = move(deletion(status=S.VERIFYING, empty_inventories=1), S.DELETING, By.ENGINE, T0, "found")
    assert after.empty_inventories == 0


@pytest.mark.parametrize("to", [S.CANCELLING])
def test_a_cancel_withdraws_force(to):
    forced = Force("why", (), T0, 1, 1)
    assert move(deletion(status=S.DELETING, forced=forced), to, By.USER, T0, "x").forced is None
