"""When a step is lost, busy and tried again, and what a result leaves in it."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core import dispatch
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult, StepState
from tests.unit.world import T0

RULES = Rules(claim_timeout=datetime.timedelta(seconds=30), retry_base=1.0, retry_cap=8.0)
STEP = Step("s", "d", StepKind.SWEEP, "R1", "network", "port", attempt=1)


def at(seconds):
    return T0 + datetime.timedelta(seconds=seconds)


SENT = dataclasses.replace(STEP, state=StepState.DISPATCHED, dispatched_at=at(0), lease_until=at(5))
RUNNING = dataclasses.replace(STEP, state=StepState.RUNNING, dispatched_at=at(0), started_at=at(1), lease_until=at(61))
DONE = dataclasses.replace(RUNNING, state=StepState.DONE, finished_at=at(10))


@pytest.mark.parametrize(("step", "until"), [(STEP, None), (SENT, at(30)), (RUNNING, at(61)), (DONE, None)])
def test_a_step_under_way_counts_as_lost_when_its_claim_did_not_come_or_its_lease_is_over(step, until):
    assert dispatch.under_way_until(step, RULES) == until


@pytest.mark.parametrize(("now", "busy"), [(29, [at(30), at(61)]), (30, [at(61)]), (61, [])])
def test_a_lost_step_is_not_busy(now, busy):
    assert dispatch.busy_until([STEP, SENT, RUNNING, DONE], at(now), RULES) == busy


@pytest.mark.parametrize(
    ("attempt", "cap", "wait"), [(1, None, 1), (3, None, 4), (9, None, 8), (9, 2.0, 2), (9, 0.0, 0)]
)
def test_the_wait_before_another_attempt_doubles_up_to_a_cap(attempt, cap, wait):
    assert dispatch.retry_at(dataclasses.replace(DONE, attempt=attempt), RULES, cap) == at(10 + wait)


def test_a_dispatched_step_has_no_lease_and_the_time_of_its_dispatch():
    again = dispatch.dispatched(DONE, 4, 2, at(20))
    assert (again.round, again.attempt, again.state) == (4, 2, StepState.DISPATCHED)
    assert (again.dispatched_at, again.lease_until) == (at(20), None)


@pytest.mark.parametrize(("outcome", "same"), [(Outcome.UNKNOWN, 3), (Outcome.CLEAR, 1)])
def test_a_result_ends_the_lease_adds_its_calls_and_counts_how_often_it_came_in_a_row(outcome, same):
    before = dataclasses.replace(RUNNING, outcome=Outcome.UNKNOWN, reason="error", same=2, calls=5)
    after = dispatch.finished(before, StepResult(outcome, "error", "no answer", calls=3, remedy="ask"), at(9))
    assert (after.state, after.lease_until, after.finished_at) == (StepState.DONE, None, at(9))
    assert (after.outcome, after.reason, after.message, after.remedy) == (outcome, "error", "no answer", "ask")
    assert (after.calls, after.same) == (8, same)
