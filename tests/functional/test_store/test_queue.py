"""The queue for the places for work, as the store reads it, on every kind of database."""

import dataclasses
import datetime

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.queue import Line, Queue, QueueState
from cleanup_orchestrator.core.transitions import WORKING
from cleanup_orchestrator.store import tables
from tests.support.stores import create, save
from tests.unit.world import T0

MINUTE = datetime.timedelta(minutes=1)
OUT, WAITING, WORKS = QueueState.OUT, QueueState.WAITING, QueueState.WORKING


def put(store, name, status=Status.ACCEPTED, state=WAITING, minutes_old=0, status_minutes_old=0, turn=None, **values):
    """Record a deletion with these times, in minutes before now, and return its id."""
    record = create(store, id=name, project_id=f"project-{name}", **values)
    now = store.now()
    times = {"created_at": now - minutes_old * MINUTE, "status_at": now - status_minutes_old * MINUTE}
    times["turn_at"] = None if turn is None else now - turn * MINUTE
    with store.database.begin() as c:
        where = tables.deletions.c.id == record.id
        c.execute(sa.update(tables.deletions).where(where).values(status=str(status), queue_state=str(state), **times))
    return record.id


def seen(store, name):
    return store.load(name)[0].queue


def counts(store, name):
    """Return how many wait and how many work in each line, as a deletion sees it."""
    return {"".join(key): (line.waiting, line.working) for key, line in seen(store, name).lines.items()}


def test_lines_are_counted_by_domain_and_requester(store):
    for name, domain, user, state in (
        ("1", "A", "u", WAITING),
        ("2", "A", "u", WAITING),
        ("3", "A", "v", WAITING),
        ("4", "A", "v", WORKS),
        ("5", "B", "u", WORKS),
        ("6", "C", "u", OUT),
    ):
        status = Status.ACCEPTED if state is WAITING else Status.DELETING
        put(store, name, status, state, domain_id=domain, user_id=user)
    assert counts(store, "1") == {"Au": (2, 0), "Av": (1, 1), "Bu": (0, 1)}
    assert seen(store, "4") == Queue(), "it has a place: the queue is not read"


def test_those_before_one_are_the_older_ones_of_its_line(store):
    for number in range(4):
        put(store, f"mine-{number}", minutes_old=9 - number, domain_id="A", user_id="u")
    put(store, "of another user", minutes_old=99, domain_id="A", user_id="v")
    put(store, "of another domain", minutes_old=99, domain_id="B", user_id="u")
    assert [seen(store, f"mine-{number}").before for number in range(4)] == [0, 1, 2, 3]
    line = seen(store, "mine-0").lines["A", "u"]
    assert line.oldest == store.get("mine-0").created_at


def test_of_two_at_the_same_time_one_is_first(store):
    for name in ("a", "b"):
        put(store, name)
    with store.database.begin() as c:
        c.execute(sa.update(tables.deletions).values(created_at=datetime.datetime(2026, 1, 1)))
    assert [seen(store, name).before for name in ("a", "b")] == [0, 1]


@pytest.mark.parametrize("status", Status)
def test_only_what_is_worked_on_has_a_place(store, status):
    """The cancel of a user changes the status, and only the next decision gives the place back."""
    put(store, "other", status, WORKS, domain_id="A")
    put(store, "another", status, WAITING, domain_id="B")
    put(store, "mine", domain_id="C", user_id="u")
    expected = {"A": (0, 1), "B": (1, 0)} if status in WORKING else {}
    assert counts(store, "mine") == {**expected, "Cu": (1, 0)}


def test_a_large_project_does_not_keep_others_waiting(store):
    put(store, "large", Status.DELETING, WORKS, status_minutes_old=6, turn=60, domain_id="A")
    put(store, "status changed", Status.DELETING, WORKS, status_minutes_old=4, turn=60, domain_id="B")
    put(store, "has just got a place", Status.DELETING, WORKS, status_minutes_old=60, turn=4, domain_id="C")
    put(store, "mine", domain_id="D")
    found = counts(store, "mine")
    assert {key: found[key][1] for key in "ABC"} == {"A": 0, "B": 1, "C": 1}


def test_the_latest_turn_of_a_requester_counts_also_after_the_end(store):
    put(store, "1", Status.DELETED, OUT, turn=9, domain_id="A", user_id="u")
    put(store, "2", Status.VERIFYING, OUT, turn=5, domain_id="A", user_id="u")
    put(store, "mine", domain_id="B", user_id="u")
    lines = seen(store, "mine").lines
    assert lines["A", "u"] == Line(turn_at=store.get("2").turn_at)
    assert lines["B", "u"].turn_at == datetime.datetime.min


def test_the_next_ones_go_round(store):
    for number in range(3):
        for domain, user in (("A", "u"), ("A", "v"), ("B", "u")):
            put(store, f"{domain}{user}{number}", minutes_old=9 - number, domain_id=domain, user_id=user)
    put(store, "works", Status.DELETING, WORKS, domain_id="B", user_id="u")
    put(store, "waits for a person", state=OUT, minutes_old=99, domain_id="A", user_id="u")
    assert store.next_ones(1, 10) == []
    assert store.next_ones(3, 1) == ["Au0"]
    assert sorted(store.next_ones(4, 10)) == ["Au0", "Av0", "Bu0"]
    assert sorted(store.next_ones(99, 10)) == sorted(f"{line}{n}" for line in ("Au", "Av", "Bu") for n in range(3))


def test_one_that_is_not_recorded_as_waiting_waits_all_the_same(store):
    """As one that has given its place back: it gets its place in its turn."""
    put(store, "old", state=OUT, minutes_old=5, domain_id="A", user_id="u")
    put(store, "young", minutes_old=1, domain_id="A", user_id="u")
    for name, first in (("old", True), ("young", True)):
        read = store.load(name)[0]
        assert read.queue.gives_place(read.line, read.created_at, 1) is first, name


def test_what_is_stored_of_the_queue_is_read_again(store):
    put(store, "mine", Status.DELETING, WORKS, turn=1)
    read = store.load("mine")[0]
    assert read.queue_state is WORKS
    assert save(store, read, dataclasses.replace(read, queue_state=OUT)).queue_state is OUT
    assert store.get("mine").turn_at == read.turn_at


def test_the_lines_are_not_read_while_no_place_is_free(store):
    """Then a decision on one of thousands that wait costs two short statements."""
    for number in range(3):
        put(store, f"works-{number}", Status.DELETING, WORKS, domain_id=f"{number}")
    put(store, "mine", domain_id="A", user_id="u")
    seen_by = []
    for places in (2, 3, 4):
        store.decide("mine", lambda d, *_: seen_by.append(d.queue), places)
    given = [queue.gives_place(("A", "u"), T0, places) for places, queue in zip((2, 3, 4), seen_by, strict=True)]
    assert given == [False, False, True]
    assert [len(queue.lines) for queue in seen_by] == [1, 1, 4]
