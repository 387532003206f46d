"""A step as a task: what is saved of its result, also while the database is away, and when its claim is released."""

import datetime
import types

import pytest
import sqlalchemy.exc

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.worker import steps, watchdog
from cleanup_orchestrator.worker import task as task_module
from cleanup_orchestrator.worker.steps.context import DeletionRunner
from cleanup_orchestrator.worker.task import StepTask
from tests.support.timing import SleepClock
from tests.unit.worker.test_guard import task
from tests.unit.world import CLEAR, T0, deletion

AWAY = sqlalchemy.exc.OperationalError("UPDATE steps", {}, Exception("connection refused"))
WRONG = sqlalchemy.exc.ProgrammingError("UPDATE steps", {}, Exception("no such column"))


class Records:
    """A store that raises what it is told, as often, before it saves."""

    def __init__(self, *errors):
        self.errors, self.saved = list(errors), []

    def finish(self, step, result, events, yielded):
        if self.errors:
            raise self.errors.pop(0)
        self.saved.append(result)
        return True


class FindsNothing(DeletionRunner):
    def run(self):
        return StepResult(Outcome.CLEAR)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = SleepClock()
    monkeypatch.setattr(task_module, "time", clock)
    monkeypatch.setitem(steps.RUNNERS, StepKind.SWEEP, FindsNothing)
    return clock


def saving(records, lease=60):
    conf = types.SimpleNamespace(worker=types.SimpleNamespace(lease=lease))
    clouds = types.SimpleNamespace(observed_by=lambda _: None)
    owner = types.SimpleNamespace(store=records, clouds=clouds, conf=conf, name="w", bus=None)
    step = Step("s", "d", StepKind.SWEEP, "R1", "network", "port", state=StepState.RUNNING, lease_until=T0)
    record = deletion(status=Status.DELETING, updated_at=T0 + datetime.timedelta(1))
    return StepTask(owner, watchdog.HungThreads(), record, step)


def test_a_result_waits_for_a_database_that_is_away(clock):
    records = Records(*[AWAY] * 5)
    saving(records).run()
    assert records.saved == [StepResult(Outcome.CLEAR)]


def test_it_waits_for_as_long_as_a_lease_and_then_others_do_it_again(clock):
    records = Records(*[AWAY] * 1000)
    with pytest.raises(sqlalchemy.exc.OperationalError):
        saving(records, lease=10).run()
    assert 10 <= clock.now <= 12
    assert records.saved == []


def test_what_the_database_will_never_take_is_not_tried_again_but_said(clock):
    records = Records(WRONG)
    saving(records).run()
    assert clock.now == 0
    (saved,) = records.saved
    assert (saved.outcome, saved.reason) == (Outcome.UNKNOWN, "bad_answer")
    assert "no such column" in saved.message


def test_a_worker_that_stops_does_not_wait(clock):
    records = Records(*[AWAY] * 1000)
    stopped = saving(records)
    clock.sleep = lambda seconds: setattr(stopped, "stopping", True)
    with pytest.raises(sqlalchemy.exc.OperationalError):
        stopped.run()


def test_while_a_drain_may_be_at_work_nothing_that_it_recorded_is_taken_for_undone():
    """After a hold the survey may run beside it: what the drain has written down, and does next, looks undone."""

    class Recorded(Records):
        def changes(self, deletion_id):
            raise AssertionError("they are not read now")

    made = saving(Recorded())
    made.step_context.deletion = deletion(status=Status.DRAINING)
    made.step_context.note_undone_by_users(None)
    assert made.step_context.yielded == []


def test_the_result_of_a_step_that_was_given_up_is_not_saved():
    made = task()
    made.give_up("it hangs")
    made.save(CLEAR)
    assert made.worker.store.saved == []
    other = task()
    other.save(CLEAR)
    assert len(other.worker.store.saved) == 1


@pytest.mark.parametrize("writing", [0, 1])
def test_a_claim_is_released_when_no_write_call_of_the_step_may_still_take_effect(writing):
    made = task()
    made.seen(types.SimpleNamespace(writing=writing, calls=0, end=lambda _: None))
    assert made.release_claim() is not bool(writing)
    assert made.worker.store.given_back == ([] if writing else ["network.port"])


@pytest.mark.parametrize(("answer", "cast"), [(True, [["s"]]), (False, []), (OSError("away"), [])])
def test_a_claim_is_given_back_once_and_cast_if_it_was_still_held(answer, cast):
    made, asked, sent = saving(Records()), [], []

    def release(step):
        asked.append(step.id)
        if isinstance(answer, Exception):
            raise answer
        return answer

    made.worker.store.release_claim, made.worker.bus = release, types.SimpleNamespace(steps=sent.append)
    assert made.release_claim() and made.release_claim()
    assert (asked, sent) == (["s"], cast)


def test_only_a_store_that_answers_ends_a_claim():
    made, answers = saving(Records()), [True, False, OSError("away")]

    def renew(_step, _lease):
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    made.worker.store.renew = renew
    assert [made.renew() for _ in range(3)] == [True, False, True]


@pytest.mark.parametrize("error", [AWAY, WRONG, sqlalchemy.exc.TimeoutError("QueuePool limit of size 10")])
def test_a_step_that_fails_at_the_database_shows_no_statement_and_blames_no_service(error, monkeypatch, caplog):
    class Fails(DeletionRunner):
        def run(self):
            raise error

    monkeypatch.setitem(steps.RUNNERS, StepKind.SWEEP, Fails)
    records = Records()
    saving(records).run()
    (result,) = records.saved
    assert (result.outcome, result.reason) == (Outcome.UNKNOWN, "stopped")
    assert result.message == "the orchestrator's database does not answer, or refuses a statement"
    assert str(getattr(error, "orig", "")) in caplog.text
