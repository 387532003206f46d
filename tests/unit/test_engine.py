"""The shell around decisions: who decides when many ask at once, and what one bad record does to the others."""

import threading

import pytest
from oslo_config import cfg

from cleanup_orchestrator import engine, opts
from cleanup_orchestrator.model import Status
from tests.unit import world


class Records:
    """A store whose reads a test can hold up, and which notes who reads what; all in it has ended."""

    def __init__(self):
        self.loaded, self.broken, self.waiting = [], set(), []
        self.reading, self.go = threading.Semaphore(0), threading.Semaphore(0)
        self.slow = False

    def due(self):
        return list(self.waiting)

    def load(self, deletion_id):
        self.loaded.append(deletion_id)
        if deletion_id in self.broken:
            raise ValueError("a row that nobody can read")
        if self.slow:
            self.reading.release()
            assert self.go.acquire(timeout=60)
        return world.deletion(status=Status.DELETED), (), world.T0


@pytest.fixture
def records():
    return Records()


@pytest.fixture
def made(records):
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([])
    conf.set_override("tick", 0.1, "engine")
    return engine.Engine(conf, "engine", records, None)


def thread(made, deletion_id):
    started = threading.Thread(target=made.handle, args=(deletion_id,), daemon=True)
    started.start()
    return started


def test_news_of_a_deletion_in_hand_is_looked_at_once_more_by_whoever_has_it_in_hand(made, records):
    records.slow = True
    first = thread(made, "d")
    assert records.reading.acquire(timeout=60)
    for _ in range(5):
        made.handle("d")  # returns at once, though the first one is still at it
    assert records.loaded == ["d"]
    records.go.release()
    assert records.reading.acquire(timeout=60)
    records.go.release()
    first.join(60)
    assert not first.is_alive()
    assert records.loaded == ["d", "d"], "all the news at once"


def test_two_deletions_do_not_wait_for_each_other(made, records):
    records.slow = True
    both = [thread(made, name) for name in ("d", "e")]
    assert records.reading.acquire(timeout=60)
    assert records.reading.acquire(timeout=60)
    records.go.release(2)
    for each in both:
        each.join(60)
        assert not each.is_alive()


def test_a_deletion_whose_decision_failed_is_decided_on_anew(made, records):
    records.broken = {"d"}
    with pytest.raises(ValueError, match="nobody can read"):
        made.handle("d")
    records.broken = set()
    made.handle("d")
    assert records.loaded == ["d", "d"]


def test_one_that_nobody_can_decide_on_does_not_keep_the_tick_from_the_others(made, records):
    records.broken, records.waiting = {"bad"}, ["bad", "good"]
    stop = threading.Event()
    ticks = threading.Thread(target=made.run_ticks, args=(stop,), daemon=True)
    ticks.start()
    deadline = threading.Event()
    for _ in range(600):
        if "good" in records.loaded:
            break
        deadline.wait(0.1)
    stop.set()
    ticks.join(60)
    assert "good" in records.loaded
