"""An engine goes on with a deletion when that is due, and not at the next tick."""

import queue
import threading

import pytest

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
        assert 0 < seconds <= 1
        self._clock.now += seconds

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
    announced, stop = queue.Queue(), threading.Event()
    alarms = Alarms(announced.put)
    thread = threading.Thread(target=alarms.run, args=(stop,), daemon=True)
    thread.start()
    alarms.set("in an hour", 3600)
    alarms.set("now", 0)
    assert announced.get(timeout=60) == "now"
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    assert announced.empty()
