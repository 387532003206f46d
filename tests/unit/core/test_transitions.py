"""The table of legal moves."""

import contextlib
import datetime

import pytest

from cleanup_orchestrator.core.condition_types import Condition, ConditionType
from cleanup_orchestrator.core.deletion import Force, RoundPurpose, Status
from cleanup_orchestrator.core.transitions import (
    FINAL,
    LIVE,
    MOVES,
    RESTING,
    By,
    IllegalMove,
    cancellable,
    move,
    retried_lately,
    retries_in_place,
    retryable,
)
from cleanup_orchestrator.core.words import ENDED
from tests.support.cases import each_case
from tests.unit.world import T0, deletion

S = Status


def test_finality_follows_from_the_table():
    assert FINAL == {S.DELETED, S.PURGED, S.PLANNED, S.CANCELLED}
    assert RESTING == {S.LEFTOVERS, S.FAILED}
    assert set(Status) - LIVE == ENDED, "the client's table"
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


@pytest.mark.parametrize("end", [S.DELETED, S.PURGED])
def test_deleted_and_purged_are_only_entered_from_verifying(end):
    assert [a for a, b in MOVES if b is end] == [S.VERIFYING]


#: Each legal move, as the manual describes it. The table of the package is not its own proof.
LEGAL = {
    ("engine", "accepted"): "draining inventory failed",
    ("engine", "draining"): "inventory leftovers failed",
    ("engine", "inventory"): "draining recoverable deleting verifying leftovers planned failed",
    ("engine", "recoverable"): "inventory failed",
    ("engine", "deleting"): "verifying failed",
    ("engine", "verifying"): "deleting leftovers deleted purged failed",
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
    assert retries_in_place(deletion(status=status)) == live


@each_case("waits", [True, False])
def test_a_deletion_that_waits_for_its_date_offers_no_retry(waits):
    waiting = Condition("scheduled", waits, "date", "", T0)
    assert retryable(deletion(status=S.ACCEPTED, conditions=(waiting,))) is not waits


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
    assert retried_lately(deletion(retry_now_at=at), T0) is lately


def test_a_retry_forgets_what_the_last_attempt_proved():
    old = deletion(status=S.LEFTOVERS, round=5, since_round=1, empty_inventories=1, drained_at=T0, closed_at=T0)
    new = move(old, S.ACCEPTED, By.USER, T0, "retry")
    assert (new.attempt, new.round, new.since_round) == (2, 6, 6)
    assert (new.drained_at, new.closed_at, new.empty_inventories, new.finished_at) == (None, None, 0, None)


def test_a_move_forgets_the_empty_inventories_of_the_status_before():
    after = move(deletion(status=S.VERIFYING, empty_inventories=1), S.DELETING, By.ENGINE, T0, "found")
    assert after.empty_inventories == 0


@pytest.mark.parametrize("to", [S.CANCELLING])
def test_a_cancel_withdraws_force(to):
    forced = Force("why", (), T0, 1, 1)
    assert move(deletion(status=S.DELETING, forced=forced), to, By.USER, T0, "x").forced is None


#: By condition: the statuses after ``verifying`` in which it stays on record while it is true.
STAYS = {
    "approval": {S.DELETING, S.CANCELLING},
    "blocked": {S.DELETING, S.CANCELLING},
    "drained": {S.DELETING, S.CANCELLING, S.DELETED},
    "forced": {S.DELETING, S.DELETED, S.LEFTOVERS},
    "halted": {S.DELETING},
    "on_hold": {S.DELETING, S.CANCELLING},
    "plan_complete": {S.DELETING, S.CANCELLING, S.DELETED, S.LEFTOVERS},
    "project_gone": {S.DELETING, S.CANCELLING, S.DELETED, S.LEFTOVERS},
    "scheduled": {S.DELETING, S.CANCELLING},
    "settled": {S.DELETING, S.CANCELLING, S.DELETED},
    "stalled": set(),
    "waiting": {S.DELETING, S.CANCELLING},
    "waived": {S.DELETING, S.CANCELLING, S.DELETED, S.LEFTOVERS},
    "of a later release": {S.DELETING, S.CANCELLING, S.DELETED, S.LEFTOVERS},
}


@pytest.mark.parametrize("type_", [*ConditionType, "of a later release"])
def test_how_long_a_condition_stays_on_record(type_):
    record = deletion(status=S.VERIFYING, conditions=(Condition(type_, True, "code", "why", T0),))
    ends = (S.DELETING, S.CANCELLING, S.DELETED, S.LEFTOVERS)
    after = {to: move(record, to, MOVES[S.VERIFYING, to], T0, "x") for to in ends}
    assert {to for to, each in after.items() if each.conditions} == STAYS[type_]
    assert move(after[S.LEFTOVERS], S.ACCEPTED, By.USER, T0, "x").conditions == ()


@pytest.mark.parametrize("type_", ["approval", "waiting"])
def test_that_a_wait_is_over_stays_on_record(type_):
    over = Condition(type_, False, "ended", "", T0)
    assert move(deletion(status=S.VERIFYING, conditions=(over,)), S.DELETED, By.ENGINE, T0, "x").conditions == (over,)
