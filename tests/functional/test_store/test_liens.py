"""Liens and the brake on every kind of database: they hold from the commit on, and do not hold undo steps."""

import dataclasses
import datetime
import uuid

import pytest

from cleanup_orchestrator.core.delete_windows import Windows
from cleanup_orchestrator.core.deletion import RoundPurpose, Status
from cleanup_orchestrator.core.guard import HoldOptions
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import StepKind
from cleanup_orchestrator.store import NotFound, Page
from tests.support.stores import claimed, create, save

SECOND = datetime.timedelta(seconds=1)


def protect(store, project_id="p", seconds=None, **values):
    until = None if seconds is None else store.now() + seconds * SECOND
    return store.add_lien(Lien(str(uuid.uuid4()), project_id, "billing", "ünïcødé 🗑", store.now(), until, **values))


def test_what_is_written_is_read(store):
    made = protect(store, seconds=3600, user_id="u", user_name="alice", request_id="req-1")
    read, now = store.lien(made.id)
    assert read == made and read.in_force(now)
    with pytest.raises(NotFound):
        store.lien("11111111-2222-3333-4444-555555555555")
    on = store.set_brake(Brake(True, "ünïcødé 🗑", None, "u", "alice", "req-1"))
    assert store.brake() == on and on.since is not None


def test_only_unexpired_liens_are_in_force(store):
    holds, ended = protect(store), protect(store, seconds=-1)
    removed, other = protect(store), protect(store, "q", seconds=3600)
    store.remove_lien(removed.id, "u")
    assert [one.id for one in store.liens_in_force(["p"])] == [holds.id]
    assert {one.id for one in store.liens_in_force(["p", "q", "r"])} == {holds.id, other.id}
    assert store.liens_in_force([]) == ()
    found = lambda **how: {one.id for one in store.liens(Page(10), **how)[0]}  # noqa: E731
    assert found(in_force=True) == {holds.id, other.id}
    assert found(in_force=False) == {ended.id, removed.id}
    assert found(in_force=True, project_id="q") == {other.id}
    assert len(found()) == 4


@pytest.mark.parametrize(
    ("kind", "values", "held"),
    [
        (StepKind.DRAIN, {"status": Status.DRAINING}, True),
        (StepKind.CLOSE, {"status": Status.VERIFYING}, True),
        (StepKind.REMOVE, {"status": Status.VERIFYING, "purpose": RoundPurpose.PROJECT_SETTINGS}, True),
        (StepKind.ACCESS, {"status": Status.INVENTORY}, False),
        (StepKind.RELEASE, {"status": Status.CANCELLING}, False),
    ],
)
@pytest.mark.parametrize("hold", ["lien", "brake", "window"])
def test_from_the_commit_on_nothing_is_locked_or_deleted(store, kind, values, held, hold):
    step = claimed(store, create(store), kind, **values)
    begin, end = (store.now() + datetime.timedelta(hours=hours) for hours in (2, 3))
    shut = HoldOptions(Windows.of([f"{begin:%H:%M}-{end:%H:%M}"], "UTC"))
    assert not store.withheld(step)
    options = (shut,) if hold == "window" else ()
    if hold == "lien":
        protect(store, "another")
        assert not store.withheld(step), "a lien is about one project"
        made = protect(store)
    elif hold == "brake":
        store.set_brake(Brake(True, "x"))
    assert bool(store.withheld(step, *options)) is held
    if hold == "lien":
        store.remove_lien(made.id, "u")
    elif hold == "brake":
        store.set_brake(Brake(False))
    assert not store.withheld(step)


def test_an_expired_lien_puts_nothing_on_hold(store):
    step = claimed(store, create(store))
    protect(store, seconds=-1)
    assert not store.withheld(step)
    record, _steps, _now = store.load(step.owner_id)
    assert (record.has_holds, record.liens, record.brake) == (True, (), None)


def test_an_undone_change_is_marked_also_on_hold(store):
    """After the removal of a project its changes are marked as undone, which is no write to the cloud."""
    step = claimed(store, create(store))
    change = store.record_intent(step, "project_disabled", {})
    protect(store)
    assert store.record_intent(step, "project_fenced", {}) is None
    assert store.undone(step, change, Event("drain.undone", "x"))
    assert store.changes(step.owner_id) == ()


def test_a_loaded_deletion_has_its_liens_and_the_brake(store):
    record = create(store)
    lien = protect(store)
    protect(store, "another")
    store.set_brake(Brake(True, "x"))
    loaded, _steps, _now = store.load(record.id)
    assert loaded.liens == (lien,) and loaded.brake == store.brake()
    saved = save(store, loaded, dataclasses.replace(loaded, message="m"))
    assert store.get(record.id).message == saved.message, "and what is derived is not written"
