"""In which order deletions begin, on every kind of database."""

import dataclasses
import datetime

import sqlalchemy as sa

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.store import tables
from tests.support.stores import create


def put(store, name, status=Status.ACCEPTED, minutes_old=0, status_minutes_old=0, **values):
    """Record a deletion with these times, and return its id."""
    record = create(store, id=name, project_id=f"project-{name}", **values)
    now = store.now()
    times = {
        "created_at": now - datetime.timedelta(minutes=minutes_old),
        "status_at": now - datetime.timedelta(minutes=status_minutes_old),
    }
    with store.database.begin() as c:
        where = tables.deletions.c.id == record.id
        c.execute(sa.update(tables.deletions).where(where).values(status=str(status), **times))
    return record.id


def attend(store, name, attention):
    with store.database.begin() as c:
        c.execute(sa.update(tables.deletions).where(tables.deletions.c.id == name).values(attention=attention))


def ahead(store, name):
    return store.load(name)[0].ahead


def test_older_ones_that_are_worked_on_are_ahead(store):
    for number, status in enumerate((Status.ACCEPTED, Status.DRAINING, Status.INVENTORY, Status.DELETING)):
        put(store, f"old-{number}", status, minutes_old=10)
    put(store, "mine", minutes_old=5)
    put(store, "young", Status.DELETING)
    assert ahead(store, "mine") == 4
    assert ahead(store, "young") == 0  # it has begun


def test_of_two_at_the_same_time_one_is_first(store):
    for name in ("a", "b"):
        put(store, name)
    with store.database.begin() as c:
        c.execute(sa.update(tables.deletions).values(created_at=datetime.datetime(2026, 1, 1)))
    assert [ahead(store, name) for name in ("a", "b")] == [0, 1]


def test_those_that_only_wait_are_not_ahead(store):
    put(store, "verifying", Status.VERIFYING, minutes_old=10)
    put(store, "recoverable", Status.RECOVERABLE, minutes_old=10)
    put(store, "parent", minutes_old=10, include_subtree=True)
    put(store, "report of a parent", Status.INVENTORY, minutes_old=10, include_subtree=True)
    put(store, "approval", minutes_old=10)
    attend(store, "approval", "approval")
    put(store, "stalled", Status.DELETING, minutes_old=10)
    attend(store, "stalled", "stalled")
    put(store, "mine")
    assert ahead(store, "mine") == 0


def test_a_blocked_deletion_counts_while_it_deletes_what_is_not_blocked(store):
    for name, status, minutes in (("a", Status.ACCEPTED, 1), ("b", Status.DELETING, 1), ("c", Status.DELETING, 9)):
        put(store, name, status, minutes_old=10, status_minutes_old=minutes)
        attend(store, name, "blocked")
    put(store, "mine")
    assert ahead(store, "mine") == 1


def test_a_large_project_does_not_keep_others_waiting(store):
    put(store, "large", Status.DELETING, minutes_old=60, status_minutes_old=6)
    put(store, "other", Status.DELETING, minutes_old=60, status_minutes_old=4)
    put(store, "long accepted", minutes_old=60, status_minutes_old=60)
    put(store, "mine")
    assert ahead(store, "mine") == 2


def test_the_oldest_begin_next(store):
    for name, old in (("b", 2), ("c", 1), ("a", 3), ("begun", 9)):
        put(store, name, Status.DELETING if name == "begun" else Status.ACCEPTED, minutes_old=old)
    put(store, "approval", minutes_old=99)
    attend(store, "approval", "approval")
    assert store.next_ones(2) == ["a", "b"]
    assert store.next_ones(10) == ["a", "b", "c"]


def test_what_has_begun_is_read_as_before(store):
    put(store, "older", Status.DELETING, minutes_old=5)
    put(store, "mine", Status.VERIFYING)
    read = store.load("mine")[0]
    assert read == dataclasses.replace(read, ahead=0)
