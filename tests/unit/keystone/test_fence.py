"""The token fence's knowledge: how old it may be, and what happens when there is none. Keystone itself: tests/cloud."""

import os
import types

import pytest

from cleanup_orchestrator.keystone import fence, options, protocol
from tests.support import scheduler
from tests.support.examples import examples
from tests.support.virtual_time import virtual_time

OURS, USER, PROJECT, OTHER = "orchestrator", "user", "project", "other"
DELETION = "deletion-1"
INTERVAL, MAX_AGE = 0.25, fence.MAX_AGE


@pytest.fixture
def time(request):
    """Time and threads of the fence's module; a parameter seeds the order of the threads."""
    with virtual_time(fence, seed=getattr(request, "param", 0)) as made:
        yield made


class Database:
    """What the fences are read from; it can fail, be slow, and hang."""

    def __init__(self, **fences):
        self.fences, self.error, self.reads, self.takes = fences, None, 0, 0.0
        self.open = scheduler.Event()
        self.open.set()

    def hang(self):
        self.open = scheduler.Event()

    def read(self):
        self.reads += 1
        found = {project: fence.Fenced(deletion) for project, deletion in self.fences.items()}
        if self.takes:
            scheduler.active().sleep(self.takes)
        self.open.wait()
        if self.error:
            raise self.error
        return found


def fenced_by(database, interval=INTERVAL, max_age=MAX_AGE):
    return fence.Fence(database.read, OURS, interval, max_age)


def token(user_id, project_id):
    """A token that a user got with a password."""
    return types.SimpleNamespace(user_id=user_id, project_id=project_id, methods=["password"])


class Asked:
    """A fence that is asked in virtual time."""

    def __init__(self, time, database, **how):
        self.time, self.fence = time, fenced_by(database, **how)

    def stops(self, token, **how):
        return self.time.call(lambda: self.fence.stops(token, **how))

    def says(self):
        """Return the answer for the project: whether it stops a token, or ``unknown``."""
        try:
            return self.stops(token(USER, PROJECT))
        except fence.Unknown:
            return "unknown"


@pytest.fixture
def asked(time):
    return lambda database, **how: Asked(time, database, **how)


def test_a_fenced_project_s_tokens_are_stopped_and_no_other_s(asked):
    made = asked(Database(project=DELETION))
    assert made.stops(token(USER, PROJECT))
    assert not made.stops(token(USER, OTHER))


def test_the_orchestrator_s_user_is_let_through():
    assert not fenced_by(Database(project=DELETION)).stops(token(OURS, PROJECT))


def test_a_canary_stops_the_orchestrator_s_user_by_the_fence_that_it_names_and_by_no_other(asked):
    made = asked(Database(project=DELETION))
    assert made.stops(token(OURS, PROJECT), canary=DELETION)
    assert not made.stops(token(OURS, PROJECT), canary="deletion-2")
    assert not made.stops(token(OURS, OTHER), canary=DELETION)


@pytest.mark.parametrize("canary", ["", "deletion-2", "1"])
def test_a_canary_lets_no_other_user_through(asked, canary):
    assert asked(Database(project=DELETION)).stops(token(USER, PROJECT), canary=canary)


@pytest.mark.parametrize("project_id", [None, ""])
def test_tokens_without_a_project_need_no_knowledge(project_id):
    database = Database()
    database.error = OSError("the database is away")
    assert not fenced_by(database).stops(token(USER, project_id))
    assert database.reads == 0


def test_tokens_of_the_orchestrator_pass_without_a_reading():
    database = Database()
    database.error = OSError("the database is away")
    assert not fenced_by(database).stops(token(OURS, PROJECT))
    assert database.reads == 0


def test_a_new_fence_and_a_lifted_one_are_seen_at_the_next_reading(time, asked):
    database = Database()
    made = asked(database)
    assert made.says() is False
    database.fences = {PROJECT: DELETION}
    time.sleep(INTERVAL + 0.01)
    assert made.says() is True
    database.fences = {}
    time.sleep(INTERVAL + 0.01)
    assert made.says() is False


def test_a_request_normally_reads_nothing_itself(time, asked):
    database = Database()
    made = asked(database)
    for _ in range(1000):
        time.sleep(0.01)
        made.stops(token(USER, PROJECT))
    assert database.reads == pytest.approx(10 / INTERVAL, abs=1), "one reading in each interval"


def test_a_request_that_needs_a_reading_does_not_wait_for_the_next_interval(time, asked):
    made = asked(Database(project=DELETION), interval=60.0)
    assert made.says() is True
    time.sleep(10)
    assert made.says() is True
    assert time.now == pytest.approx(10)


def test_what_cannot_be_read_is_unknown_and_not_unfenced(asked):
    database = Database()
    database.error = OSError("the database is away")
    assert asked(database).says() == "unknown"


def test_knowledge_runs_out_while_the_source_is_away_and_comes_back_with_it(time, asked):
    database = Database()
    made = asked(database)
    assert made.says() is False
    database.error = OSError("the database is away")
    time.sleep(MAX_AGE - 0.01)
    assert made.says() is False, "the last reading still holds"
    time.sleep(0.02)
    assert made.says() == "unknown"
    database.error = None
    time.sleep(0.01)
    assert made.says() is False, "the very next request that comes reads it again"


def test_a_source_that_hangs_keeps_no_request_waiting_longer_than_knowledge_may_be_old(time, asked):
    database = Database()
    database.hang()
    made, took = asked(database), []

    def ask():
        began = time.now
        with pytest.raises(fence.Unknown):
            made.fence.stops(token(USER, PROJECT))
        took.append(time.now - began)

    time.run(*[ask] * 8)
    assert took == [pytest.approx(MAX_AGE)] * 8
    assert database.reads == 1, "one reader, and all wait for it"


def test_the_age_of_a_reading_is_counted_from_its_beginning(time, asked):
    """What changed while it was read may be missing in it: it is as old as its beginning, however late it came."""
    database = Database()
    database.takes = 0.6
    made = asked(database)
    assert made.says() is False
    assert time.now == pytest.approx(0.6)
    database.fences = {PROJECT: DELETION}  # after the reading that holds now, and in no later one: the source hangs
    database.hang()
    time.sleep(MAX_AGE - 0.6 - 0.01)
    assert made.says() is False, "it holds until it is as old as knowledge may be"
    time.sleep(0.02)
    assert made.says() == "unknown"


def test_a_reading_that_takes_longer_than_knowledge_may_be_old_says_nothing(time, asked):
    database = Database()
    database.takes = MAX_AGE + 0.1
    made = asked(database)
    assert made.says() == "unknown"
    time.sleep(0.1)
    assert made.says() == "unknown"


def test_a_failure_that_began_before_the_request_is_no_answer_to_it(time, asked):
    """The connection may have slept for too long: the request waits for a reading of its own time."""
    database = Database()
    database.error, database.takes = OSError("the connection is stale"), 0.2
    made = asked(database)

    def first():
        with pytest.raises(fence.Unknown):
            made.fence.stops(token(USER, PROJECT))

    waits = time.start(first)
    time.sleep(0.1)

    def mend():
        scheduler.active().sleep(0.15)
        database.error = None

    time.start(mend)
    assert made.says() is False
    time.finish(waits)


def test_a_reader_that_is_stuck_for_good_is_replaced(time, asked):
    database = Database()
    database.hang()
    stuck = database.open
    made = asked(database)
    assert made.says() == "unknown"
    database.open = scheduler.Event()  # new connections work; the one that hangs goes on hanging
    database.open.set()
    time.sleep(fence.STUCK - MAX_AGE)
    assert made.says() == "unknown", "it may still answer"
    assert database.reads == 1
    database.fences = {PROJECT: DELETION}
    time.sleep(0.01)
    assert made.says() is True
    stuck.set()  # what it read long ago comes late, and must not count
    reads = database.reads
    time.sleep(3 * INTERVAL)
    assert made.says() is True
    assert database.reads == reads + 3, "one reader goes on, and not both"


def test_a_reader_thread_that_ended_is_replaced(time, asked):
    database = Database()
    made = asked(database)
    assert made.says() is False
    database.error = SystemExit()  # not an Exception: it ends the thread
    (reader,) = made.fence._readers.values()
    time.until(lambda: not reader._thread.is_alive())
    database.error, database.fences = None, {PROJECT: DELETION}
    time.sleep(MAX_AGE)
    assert made.says() is True


def test_a_forked_process_knows_for_itself():
    """Its parent's thread is not there, and its parent's knowledge gets old. With threads of the operating system."""
    fences = {}
    made = fence.Fence(lambda: {project: fence.Fenced(one) for project, one in fences.items()}, OURS, 60, 600)
    assert not made.stops(token(USER, PROJECT))
    if (pid := os.fork()) == 0:
        fences[PROJECT] = DELETION
        os._exit(0 if made.stops(token(USER, PROJECT)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not made.stops(token(USER, PROJECT))


@pytest.mark.parametrize("time", range(examples(10)), indirect=True)
def test_no_decision_uses_an_old_reading_for_any_behaviour_of_the_source(time):
    """Fences come and go; reads are slow, fail and hang: what is decided was so at most ``max_age`` ago."""
    database = Database()
    made, chance, over = fenced_by(database), time.simulation.rng, scheduler.Event()
    state, since = False, 0.0
    said = {True: 0, False: 0, "unknown": 0}

    def trouble():
        what = chance.choice(["error", "slow", "hang", "none"])
        database.error = OSError("away") if what == "error" else None
        database.takes = chance.uniform(0.1, 1.5) if what == "slow" else 0.0
        if what == "hang":
            database.hang()
            return
        database.open.set()

    def change():
        nonlocal state, since
        for _ in range(60):
            state, since = not state, time.now
            database.fences = {PROJECT: DELETION} if state else {}
            for _ in range(chance.randrange(1, 4)):
                trouble()
                scheduler.active().sleep(chance.choice([0.3, 1.0, 2.0, 6.0]) * chance.random())
        over.set()

    def ask():
        while not over.is_set():
            try:
                answer = made.stops(token(USER, PROJECT))
            except fence.Unknown:
                answer = "unknown"
            said[answer] += 1
            assert answer in (state, "unknown") or time.now - since <= MAX_AGE + 1e-6
            scheduler.active().sleep(chance.uniform(0.0, 0.2))

    time.run(change, ask, ask, ask)
    assert min(said.values()) > 50, said


def test_a_fence_is_in_effect_within_what_the_driver_waits():
    assert fence.MAX_AGE <= protocol.FENCE_MAX_AGE


def test_readings_are_frequent_enough_that_one_is_always_valid():
    (longest,) = [o.type.max for _, group in options.list_opts() for o in group if o.dest == "fence_interval"]
    assert longest < fence.MAX_AGE
