"""A deletion with a date: nothing of it begins earlier, and then it goes its whole way by itself."""

import dataclasses
import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.core import actions, approvals, decide, guard, proposals
from cleanup_orchestrator.core.deletion import Mode, Status, accepted
from cleanup_orchestrator.core.guard import HoldInputs
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.proposals import Change, Requester
from cleanup_orchestrator.core.queue import QueueState
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Step, StepKind
from tests.support.examples import examples
from tests.unit.world import T0, World, deletion, left, sweep_step

DAY = datetime.timedelta(days=1)
DATE = T0 + 90 * DAY
PORT = sweep_step("network.port")


def waiting(**values):
    return World(deletion(queue_state=QueueState.OUT, not_before=DATE, **values), PORT)


@pytest.mark.parametrize("mode", list(Mode))
def test_until_its_date_nothing_is_dispatched_and_it_wakes_at_the_date(mode):
    world = waiting(mode=mode)
    world.settle_engine()
    assert world.dispatched == []
    assert world.deletion.wake_at == DATE
    assert world.deletion.status is Status.ACCEPTED
    assert world.deletion.queue_state is QueueState.OUT, "it takes no place, and no turn of others"
    said = world.deletion.condition("scheduled")
    assert said.reason == "date" and "before 2026-04-01T00:00:00Z" in said.message
    assert world.deletion.attention == ()


@pytest.mark.parametrize("mode", list(Mode))
def test_at_its_date_it_goes_on_by_itself_and_is_not_stalled(mode):
    world = waiting(mode=mode)
    end = Status.PURGED if mode is Mode.PURGE else Status.DELETED
    world.run(limit=1)
    assert world.now <= DATE
    assert world.run() is end
    assert not [event for event in world.events if event.type == "condition.stalled"]
    assert world.deletion.condition("scheduled") is None


def test_the_first_write_is_after_the_date():
    world = waiting()
    began = []
    world.answers["network.port"] = lambda _: began.append(world.now) or left()
    world.run()
    assert began and min(began) >= DATE


def test_it_reminds_at_each_of_the_days_once_and_wakes_for_the_next_one():
    world = World(deletion(queue_state=QueueState.OUT, not_before=DATE), PORT, rules=Rules(reminders=(30, 1, 7)))
    seen = []
    while world.deletion.status is Status.ACCEPTED and len(seen) < 20:
        world.settle_engine()
        if (waits := world.deletion.condition("scheduled")) is None:
            break
        seen.append(((DATE - world.now).days, waits.reason))
        world.now = world.deletion.wake_at
    assert seen == [(90, "date"), (30, "in_30_days"), (7, "in_7_days"), (1, "in_1_days")]
    lines = [event.data["reason"] for event in world.events if event.type == "condition.scheduled"]
    assert lines == ["date", "in_30_days", "in_7_days", "in_1_days", "date"], "and the last: the date has come"


def test_a_date_that_is_near_at_the_request_is_no_reminder():
    world = World(deletion(queue_state=QueueState.OUT, not_before=T0 + 5 * DAY), PORT, rules=Rules(reminders=(30, 7)))
    world.settle_engine()
    assert world.deletion.condition("scheduled").reason == "in_7_days"
    assert world.deletion.wake_at == T0 + 5 * DAY


def test_a_lien_at_the_date_holds_the_deletion():
    world = waiting(liens=(Lien("l", "p", "legal", "court", T0),), has_holds=True)
    world.run(limit=400)
    assert world.now > DATE
    assert "drain" not in world.dispatched


def test_a_wake_up_before_the_date_changes_nothing():
    world = waiting()
    world.settle_engine()
    before = world.deletion
    world.now += 10 * DAY
    world.settle_engine()
    assert world.deletion == before


def test_it_is_stalled_by_the_time_after_its_date_alone():
    world = waiting()
    world.settle_engine()
    world.now = DATE
    for _ in range(3):  # no worker takes a step
        world.settle_engine()
        assert world.deletion.condition("stalled") is None
        world.now += datetime.timedelta(seconds=60)
    for _ in range(40):
        world.settle_engine()
        world.now += datetime.timedelta(seconds=60)
    assert world.deletion.condition("stalled") is not None


@given(st.integers(-100, 100))
@settings(max_examples=examples(50))
def test_no_step_writes_before_the_date_whoever_sent_it(hours):
    """Not even one that an engine sent whose clock is wrong: the worker asks the database before each write."""
    now = DATE + datetime.timedelta(hours=hours)
    record = deletion(status=Status.DRAINING, not_before=DATE)
    step = Step("s", "d", StepKind.DRAIN, round=1)
    causes = [each.hold for each in guard.causes(HoldInputs(record, now), step)]
    assert ("not_before" in causes) is (now < DATE)


def test_what_the_drain_changed_can_be_undone_before_the_date():
    record = deletion(status=Status.DRAINING, not_before=DATE)
    assert list(guard.causes(HoldInputs(record, T0), Step("s", "d", StepKind.RELEASE, round=1))) == []


def test_it_is_recorded_without_a_place_in_the_queue():
    fields = {"id": "d", "project_id": "p", "project_name": "P", "domain_id": "dom", "mode": Mode.CASCADE}
    assert accepted(**fields, dry_run=False, not_before=DATE).queue_state is QueueState.OUT
    assert accepted(**fields, dry_run=False).queue_state is QueueState.WAITING


def test_it_begins_at_its_request_or_at_its_date():
    assert deletion().begins_at == T0
    assert deletion(not_before=DATE).begins_at == DATE
    assert deletion(not_before=T0 - DAY).begins_at == T0


def test_the_retry_of_a_day_counts_from_the_date():
    record = deletion(not_before=DATE, attempt=2, status_at=DATE + DAY / 2)
    assert approvals.for_deletion(record, 5) is None
    late = dataclasses.replace(record, status_at=DATE + DAY)
    assert "more than 24 hours" in approvals.for_deletion(late, 5).message


# ------------------------------------------------------------------------------------------------------- its change
SURVEY = Step("v", "d", StepKind.SURVEY)


@given(st.datetimes(T0, T0 + 300 * DAY), st.datetimes(T0, T0 + 300 * DAY))
@settings(max_examples=examples(50))
def test_a_new_date_counts_and_the_old_one_no_longer_does(now, date):
    record = deletion(not_before=DATE)
    change = Change(by=Requester("u"), seen=record, fields={"not_before": date})
    applied = proposals.apply(change, record, [SURVEY], now, approvals.Requests())
    after = applied.deletion if applied else record
    assert after.not_before == (max(date, now) if applied else DATE), "a date that has passed meanwhile is now"
    chosen = decide.decide(after, tuple(World(after).steps.values()), now)
    assert any(isinstance(each, actions.Dispatch) for each in chosen) is (now >= date)
