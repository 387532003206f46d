"""Which worker may write, as the store answers on SQLite: fencing token, lease, status, liens, brake, hours."""

import dataclasses
import datetime
import uuid

import pytest

from cleanup_orchestrator.core.delete_windows import Windows
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.guard import HoldOptions
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS, Outcome, Step, StepKind, StepResult
from cleanup_orchestrator.core.transitions import By, move
from tests.support.stores import dispatched, save
from tests.unit.world import CLEAR, T0, deletion

ACCEPTED = Event("deletion.accepted", "")
NOTE = Event("note", "x")
HOUR = datetime.timedelta(hours=1)
CLOSED = HoldOptions(Windows.of(["mon 03:00-03:01"], "UTC"))  #: all but never open
GRANT = {"actor": "users", "actor_id": "u", "role_id": "r"}


def create(store, kinds=TASKS, **values):
    return store.create(deletion(**{"id": str(uuid.uuid4()), **values}), kinds, ACCEPTED)


def claimed(store, record, kind=StepKind.DRAIN, lease=3600):
    step = dispatched(store, record, kind)
    return store.claim(step.id, "w", lease)[1]


def draining(store, **values):
    record = create(store, status=Status.DRAINING, **values)
    return record, claimed(store, record)


def moved(store, record, to, by=By.USER):
    record = store.get(record.id)
    return save(store, record, move(record, to, by, store.now(), "x"))


def taken_over(store, record, step):
    """Another worker claims the step, whose lease is over."""
    assert store.renew(step, -1)
    dispatched(store, record, step.kind)
    return store.claim(step.id, "successor", 3600)[1]


#: Every way in which the holder of a step writes.
WRITES = {
    "renew": lambda store, step: store.renew(step, 3600),
    "finish": lambda store, step: store.finish(step, StepResult(Outcome.CLEAR, message="of a zombie")),
    "give_back": lambda store, step: store.release_claim(step),
    "put_steps": lambda store, step: store.put_steps(step, [Step("", step.owner_id, StepKind.SWEEP, "R", "x", "y")]),
    "tell": lambda store, step: store.append_events(step, NOTE),
    "intend": lambda store, step: store.record_intent(step, "grant_removed", GRANT) is not None,
    "write call": lambda store, step: not store.withheld(step),
}


# ---------------------------------------------------------------------------------------------------------- the holder
@pytest.mark.parametrize("method", WRITES)
def test_the_claimant_writes(store, method):
    _, step = draining(store)
    assert WRITES[method](store, step)


@pytest.mark.parametrize("method", WRITES)
def test_the_previous_claimant_does_not_write(store, method):
    record, step = draining(store)
    taken_over(store, record, step)
    before = store.load(record.id)[:2]
    assert not WRITES[method](store, step)
    steps = {s.id: dataclasses.replace(s, version=0) for s in store.steps(record.id)}
    assert steps == {s.id: dataclasses.replace(s, version=0) for s in before[1]}


@pytest.mark.parametrize("method", WRITES)
def test_a_claimant_that_has_finished_does_not_write(store, method):
    _, step = draining(store)
    assert store.finish(step, CLEAR)
    assert not WRITES[method](store, step)


@pytest.mark.parametrize("method", WRITES)
def test_a_step_of_an_ended_or_restarted_deletion_has_no_claimant(store, method):
    record, step = draining(store)
    moved(store, record, Status.FAILED, By.ENGINE)
    assert not WRITES[method](store, step)
    moved(store, record, Status.ACCEPTED)
    assert not WRITES[method](store, step)


CALLS = ["tell", "intend", "write call"]


@pytest.mark.parametrize("method", CALLS)
def test_past_the_lease_no_call_is_made(store, method):
    _, step = draining(store)
    assert store.renew(step, -1)
    assert not WRITES[method](store, step)
    assert store.finish(step, CLEAR), "but what was found out is true"


@pytest.mark.parametrize("method", CALLS)
def test_after_a_cancel_no_call_is_made(store, method):
    record, step = draining(store)
    moved(store, record, Status.CANCELLING)
    assert not WRITES[method](store, step)


def protect(store, project_id="p", **values):
    return store.add_lien(Lien(str(uuid.uuid4()), project_id, "ops", "x", T0, **values))


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("hold", ["lien", "brake"])
def test_on_hold_no_call_is_made_and_after_the_hold_calls_are_made_again(store, method, hold):
    _, step = draining(store)
    lien = protect(store) if hold == "lien" else store.set_brake(Brake(True, "x"))
    assert not WRITES[method](store, step)
    if hold == "lien":
        store.remove_lien(lien.id, "u")
    else:
        store.set_brake(Brake(False))
    assert WRITES[method](store, step)


def test_liens_of_others_and_those_that_have_expired_hold_nothing(store):
    _, step = draining(store)
    protect(store, "another")
    protect(store, expires_at=store.now() - HOUR)
    assert not store.withheld(step)
    protect(store, expires_at=store.now() + HOUR)
    assert store.withheld(step)


def test_outside_the_delete_window_only_read_steps_run(store):
    record, step = draining(store)
    assert store.withheld(step, CLOSED)
    assert not store.withheld(claimed(store, record, StepKind.ACCESS), CLOSED)


def test_changes_are_undone_also_on_hold_but_not_after_the_lease(store):
    record, step = draining(store)
    change = store.record_intent(step, "grant_removed", GRANT)
    moved(store, record, Status.CANCELLING)
    release = claimed(store, record, StepKind.RELEASE)
    protect(store)
    store.set_brake(Brake(True, "x"))
    assert store.renew(release, -1)
    assert not store.undone(release, change, NOTE)
    assert store.renew(release, 3600)
    assert store.undone(release, change, NOTE)
    assert store.changes(record.id) == ()
