"""The token fence's knowledge: how old it may be, and what happens when there is none. Keystone itself: tests/cloud."""

import os
import threading
import time

import pytest

from cleanup_orchestrator.keystone import fence, options, protocol
from tests.timing import measures_time

OURS, USER, PROJECT, OTHER = "orchestrator", "user", "project", "other"
DELETION = "deletion-1"


class Database:
    """What the fences are read from; it can fail, and it can hang."""

    def __init__(self, **fences):
        self.fences, self.error, self.reads = fences, None, 0
        self.open = threading.Event()
        self.open.set()

    def read(self):
        self.reads += 1
        found = dict(self.fences)
        self.open.wait(10)
        if self.error:
            raise self.error
        return found


def fenced_by(database, interval=0.05, max_age=0.3):
    return fence.Fence(database.read, OURS, interval, max_age)


def until(what, seconds=3.0):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.005)


def test_a_fenced_project_s_tokens_are_stopped_and_no_other_s():
    made = fenced_by(Database(project=DELETION))
    assert made.stops(USER, PROJECT)
    assert not made.stops(USER, OTHER)


def test_the_orchestrator_s_user_is_let_through():
    assert not fenced_by(Database(project=DELETION)).stops(OURS, PROJECT)


def test_a_canary_stops_the_orchestrator_s_user_by_the_fence_that_it_names_and_by_no_other():
    made = fenced_by(Database(project=DELETION))
    assert made.stops(OURS, PROJECT, canary=DELETION)
    assert not made.stops(OURS, PROJECT, canary="deletion-2")
    assert not made.stops(OURS, OTHER, canary=DELETION)


@pytest.mark.parametrize("canary", ["", "deletion-2", "1"])
def test_a_canary_lets_nobody_through(canary):
    assert fenced_by(Database(project=DELETION)).stops(USER, PROJECT, canary=canary)


@pytest.mark.parametrize("project_id", [None, ""])
def test_tokens_without_a_project_need_no_knowledge(project_id):
    database = Database()
    database.error = OSError("the database is away")
    assert not fenced_by(database).stops(USER, project_id)
    assert database.reads == 0


def test_the_orchestrator_s_own_tokens_need_no_knowledge():
    database = Database()
    database.error = OSError("the database is away")
    assert not fenced_by(database).stops(OURS, PROJECT)
    assert database.reads == 0


@measures_time
def test_a_new_fence_and_a_lifted_one_are_seen_in_time():
    database = Database()
    made = fenced_by(database)
    assert not made.stops(USER, PROJECT)
    began = time.monotonic()
    database.fences = {PROJECT: DELETION}
    until(lambda: made.stops(USER, PROJECT))
    assert time.monotonic() - began < 2
    database.fences = {}
    until(lambda: not made.stops(USER, PROJECT))


def test_a_request_normally_reads_nothing_itself():
    database = Database()
    made = fenced_by(database, interval=0.2, max_age=0.9)
    made.stops(USER, PROJECT)
    reads = database.reads
    for _ in range(1000):
        made.stops(USER, PROJECT)
    assert database.reads <= reads + 2


def test_what_cannot_be_read_is_unknown_and_not_unfenced():
    database = Database()
    database.error = OSError("the database is away")
    with pytest.raises(fence.Unknown):
        fenced_by(database).stops(USER, PROJECT)


@measures_time
def test_knowledge_runs_out_while_the_source_is_away_and_comes_back_with_it():
    database = Database()
    made = fenced_by(database)
    assert not made.stops(USER, PROJECT)
    database.error = OSError("the database is away")
    began = time.monotonic()

    def unknown():
        try:
            made.stops(USER, PROJECT)
        except fence.Unknown:
            return True
        return False

    until(unknown)
    assert time.monotonic() - began < 2
    database.error = None
    assert not made.stops(USER, PROJECT), "the very next request that comes reads it again"


@measures_time
def test_a_source_that_hangs_keeps_nobody_waiting_longer_than_knowledge_may_be_old():
    database = Database()
    database.open.clear()
    made = fenced_by(database)
    took = []

    def ask():
        began = time.monotonic()
        with pytest.raises(fence.Unknown):
            made.stops(USER, PROJECT)
        took.append(time.monotonic() - began)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    database.open.set()
    assert len(took) == 8
    assert max(took) < 0.6
    assert database.reads == 1, "one reader, and all wait for it"


def test_a_reading_that_began_before_the_fence_does_not_count_as_young():
    """It took longer than knowledge may be old: what it found says nothing about now."""
    database = Database()
    made = fenced_by(database, max_age=0.3)
    database.open.clear()

    def set_fence():
        time.sleep(0.2)
        database.fences = {PROJECT: DELETION}  # after the reading began, which does not see it
        time.sleep(0.2)
        database.open.set()

    threading.Thread(target=set_fence).start()
    try:
        assert made.stops(USER, PROJECT)
    except fence.Unknown:
        pass
    assert made.stops(USER, PROJECT)


def test_a_reader_that_is_stuck_for_good_is_replaced(monkeypatch):
    monkeypatch.setattr(fence, "STUCK", 0.4)
    database = Database()
    database.open.clear()
    stuck = database.open
    made = fenced_by(database)
    with pytest.raises(fence.Unknown):
        made.stops(USER, PROJECT)
    database.open = threading.Event()  # new connections work; the one that hangs goes on hanging
    database.open.set()
    database.fences = {PROJECT: DELETION}
    time.sleep(0.4)
    assert made.stops(USER, PROJECT)
    stuck.set()  # what it read long ago comes late, and must not count
    time.sleep(0.2)
    assert made.stops(USER, PROJECT)


def test_a_reader_thread_that_died_is_replaced():
    database = Database()
    made = fenced_by(database)
    made.stops(USER, PROJECT)
    database.error = SystemExit()  # not an Exception: it ends the thread
    (reader,) = made._readers.values()
    until(lambda: not reader._thread.is_alive())
    database.error, database.fences = None, {PROJECT: DELETION}
    time.sleep(0.3)
    assert made.stops(USER, PROJECT)


def test_a_forked_process_knows_for_itself():
    """Its parent's thread is not there, and its parent's knowledge gets old."""
    database = Database()
    made = fenced_by(database)
    assert not made.stops(USER, PROJECT)
    if (pid := os.fork()) == 0:
        database.fences = {PROJECT: DELETION}
        os._exit(0 if made.stops(USER, PROJECT) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not made.stops(USER, PROJECT)


def test_no_decision_is_made_on_old_knowledge_whatever_the_source_does():
    """Fences come and go, reads are slow, fail and hang: a project that has been fenced for long enough is stopped."""
    database = Database()
    made = fenced_by(database, interval=0.05, max_age=0.2)
    over = threading.Event()
    state = {"fenced_since": None, "free_since": time.monotonic()}
    wrong, said = [], {"stopped": 0, "passed": 0, "unknown": 0}

    def change():
        for round_ in range(12):
            database.fences = {PROJECT: DELETION}
            state.update(fenced_since=time.monotonic(), free_since=None)
            if round_ % 3 == 1:
                database.error = OSError("away")
            if round_ % 3 == 2:
                database.open.clear()
            time.sleep(0.35)
            database.error = None
            database.open.set()
            state.update(fenced_since=None, free_since=time.monotonic())
            database.fences = {}
            time.sleep(0.1)
        over.set()

    def ask():
        while not over.is_set():
            since = state["fenced_since"]
            arrived = time.monotonic()
            try:
                stopped = made.stops(USER, PROJECT)
            except fence.Unknown:
                said["unknown"] += 1
                continue
            said["stopped" if stopped else "passed"] += 1
            # Fenced for longer than knowledge may be old when it was asked, and still so when it was answered.
            if not stopped and since is not None and arrived - since > 0.2 and state["fenced_since"] == since:
                wrong.append(arrived - since)
            time.sleep(0.002)

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for thread in [*askers, changer := threading.Thread(target=change)]:
        thread.start()
    for thread in [*askers, changer]:
        thread.join(30)
    assert wrong == []
    assert min(said.values()) > 10, said


def test_a_fence_is_in_effect_within_what_the_driver_waits():
    (maximum,) = [o.type.max for _, group in options.list_opts() for o in group if o.dest == "fence_max_age"]
    assert maximum <= protocol.FENCE_MAX_AGE
