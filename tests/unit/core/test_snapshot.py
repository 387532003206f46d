"""Which results count, when tokens are gone, and when the next try is, of one snapshot."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core import results
from cleanup_orchestrator.core.deletion import Force, RoundPurpose
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.snapshot import done, in_scope, keeps_last_result, retry_at, scoped_lists, settle_until
from cleanup_orchestrator.core.step import Outcome, StepKind, StepState, Token
from tests.unit.world import T0, UNKNOWN, deletion, left, sweep_step

PORT = sweep_step("network.port")
SECRET = sweep_step("key-manager.secret", token=Token.PROJECT)
HOUR = datetime.timedelta(hours=1)


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
    _, after = results.record(deletion(purpose=RoundPurpose.DELETE), step, result, T0)
    assert after.attempt == attempt


@pytest.mark.parametrize(
    "values",
    [
        {"round": 2},
        {"state": StepState.RUNNING},
        {"token": Token.ADMIN},
        {"kind": StepKind.UNSUPPORTED},
        {"waived": "an admin waived it"},
        {"outcome": Outcome.LEFTOVERS, "remaining": 1, "abandoned": 1},
    ],
    ids=lambda values: next(iter(values)),
)
def test_the_last_lists_with_a_token_of_the_project_are_those_of_each_region_in_the_latest_round(values):
    ended = dataclasses.replace(SECRET, round=3, state=StepState.DONE, finished_at=T0)
    elsewhere = dataclasses.replace(ended, region="R2", finished_at=T0 - HOUR)
    record = deletion(round=3, forced=Force("why", (), T0, attempt=1, round=2))
    other = dataclasses.replace(ended, region="R3", **values)
    assert scoped_lists(record, [ended, elsewhere, other]) == {ended: T0, elsewhere: T0 - HOUR}
