"""The table of legal moves."""

import itertools

import pytest

from cleanup_orchestrator.model import Purpose, Status
from cleanup_orchestrator.transitions import FINAL, LIVE, MOVES, RESTING, By, IllegalMove, cancellable, move, retryable
from tests.unit.world import T0, deletion

S = Status


def test_finality_follows_from_the_table():
    assert FINAL == {S.DELETED, S.PLANNED, S.CANCELLED}
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


def test_deleted_is_only_entered_from_verifying():
    assert [a for a, b in MOVES if b is S.DELETED] == [S.VERIFYING]


@pytest.mark.parametrize(("before", "after"), list(itertools.product(Status, Status)))
def test_a_move_is_made_by_whom_the_table_names_and_by_nobody_else(before, after):
    for by in By:
        if MOVES.get((before, after)) is by:
            moved = move(deletion(status=before), after, by, T0, "because")
            assert (moved.status, moved.reason) == (after, "because")
        else:
            with pytest.raises(IllegalMove):
                move(deletion(status=before), after, by, T0, "because")


def test_a_cancel_is_refused_past_the_point_of_no_return():
    going = deletion(status=S.VERIFYING, purpose=Purpose.RESIDUE)
    assert not cancellable(going)
    with pytest.raises(IllegalMove, match="being removed"):
        move(going, S.CANCELLING, By.USER, T0, "cancel")
    assert cancellable(deletion(status=S.VERIFYING, purpose=Purpose.LOOK))


@pytest.mark.parametrize("status", sorted(Status))
def test_what_rests_can_be_retried_and_nothing_else(status):
    assert retryable(deletion(status=status)) == (status in RESTING)


def test_a_retry_forgets_what_the_last_attempt_proved():
    old = deletion(status=S.LEFTOVERS, round=5, since_round=1, empty_inventories=1, drained_at=T0, closed_at=T0)
    new = move(old, S.ACCEPTED, By.USER, T0, "retry")
    assert (new.attempt, new.round, new.since_round) == (2, 6, 6)
    assert (new.drained_at, new.closed_at, new.empty_inventories, new.finished_at) == (None, None, 0, None)
