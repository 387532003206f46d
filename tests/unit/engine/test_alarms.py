"""An engine goes on with a deletion when that is due, and not at the next tick."""

import queue
import threading
import types

import pytest

from cleanup_orchestrator import service
from cleanup_orchestrator.engine import alarms as module
from cleanup_orchestrator.engine.alarms import Alarms


class Clock:
    """A clock that stands still, apart from waits."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


class Rung(Alarms):
    """Alarms that record what they announce, with the times; a wait sets the clock."""

    def __init__(self, clock):
        super().__init__(lambda deletion_id: self.rung.append((clock.now, deletion_id)))
        self.rung, self._clock = [], clock
        self._changed.wait = self._passes

    def _passes(self, seconds):
        assert seconds > 0
        self._clock.now += min(seconds, 10)

    def until(self, seconds):
        """Let this time come; return what was announced."""
        while self._clock.now < seconds:
            for deletion_id in self._next():
                self._ring(deletion_id)
        return self.rung


def test_each_deletion_is_announced_when_it_is_due(clock):
    alarms = Rung(clock)
    for name, seconds in (("late", 7.25), ("soon", 0.5), ("next", 0.75)):
        alarms.set(name, seconds)
    assert alarms.until(10) == [(0.5, "soon"), (0.75, "next"), (7.25, "late")]


def test_a_later_decision_replaces_the_time(clock):
    alarms = Rung(clock)
    alarms.set("later", 1)
    alarms.set("later", 3)
    alarms.set("earlier", 3)
    alarms.set("earlier", 2)
    assert alarms.until(10) == [(2, "earlier"), (3, "later")]


def test_a_deletion_that_has_ended_is_not_announced(clock):
    alarms = Rung(clock)
    alarms.set("d", 1)
    alarms.clear("d")
    alarms.clear("of another engine")
    assert alarms.until(10) == []


def test_what_is_due_at_once_is_announced_without_a_wait(clock):
    alarms = Rung(clock)
    alarms.set("d", 0)
    alarms.set("e", -5)
    assert set(alarms._next()) == {"d", "e"}


def test_a_time_that_is_set_during_a_wait_counts():
    announced = queue.Queue()
    alarms = Alarms(announced.put)
    thread = threading.Thread(target=alarms.run, daemon=True)
    thread.start()
    alarms.set("in an hour", 3600)
    alarms.set("now", 0)
    assert announced.get(timeout=60) == "now"
    alarms.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert announced.empty()


@pytest.mark.parametrize("due", [None, 3600, 1e12])
def test_a_stop_ends_the_wait(due):
    """Before, the process looked each second whether it ends, and its end waited for that."""
    alarms, waits = Alarms(lambda _: None), queue.Queue()
    wait = alarms._changed.wait

    def noted(seconds):
        waits.put(seconds)
        return wait(seconds)

    alarms._changed.wait = noted
    if due is not None:
        alarms.set("d", due)
    thread = threading.Thread(target=alarms.run, daemon=True)
    thread.start()
    assert waits.get(timeout=60) > 3500
    alarms.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert waits.empty()


def test_after_a_stop_nothing_is_announced(clock):
    alarms = Rung(clock)
    alarms.set("d", 0)
    alarms.stop()
    alarms.run()
    assert alarms.rung == []


def test_the_end_of_a_process_stops_the_alarms():
    alarms, closed = Alarms(lambda _: None), []
    store = types.SimpleNamespace(close=lambda: closed.append(True))
    conf = types.SimpleNamespace(graceful_stop_timeout=60)
    running = service.Running(types.SimpleNamespace(conf=conf, store=store, announcer=None))
    running._engines.append(types.SimpleNamespace(alarms=alarms))
    running._thread("alarms", alarms.run)
    assert running.close(), "all threads have ended"
    assert closed


def test_an_earlier_time_wakes_the_thread(clock):
    """It waits for the first of them, and would find an earlier one a second late."""
    alarms, woken = Alarms(lambda _: None), []
    alarms._changed.notify = lambda: woken.append(clock.now)
    alarms.set("first", 5)
    alarms.set("later", 7)
    assert len(woken) == 1
    alarms.set("earlier", 3)
    assert len(woken) == 2
