"""The engine drives orphan scans: conflicts, a schedule, and ticks that fail."""

import datetime
import threading
import types

import pytest

from cleanup_orchestrator.core import orphan_scan
from cleanup_orchestrator.core.orphan_scan import OrphanScan, ScanStatus
from cleanup_orchestrator.engine.orphan_scans import Scans
from cleanup_orchestrator.store import Conflict, NotFound, ScanUnderWay
from tests.unit.world import T0

CONF = types.SimpleNamespace(
    engine=types.SimpleNamespace(claim_timeout=60, attempts=3, retry_base=1, retry_cap=9, tick=0),
    orphans=types.SimpleNamespace(parts_at_once=2, schedule_interval=24, min_age=0, reread_after=1),
)
SCAN = OrphanScan("s", ScanStatus.ACCEPTED, T0, T0, T0, 0, 1)
ADVANCED = OrphanScan("s", ScanStatus.RUNNING, T0, T0, T0, 0, 1)


class Store:
    """A store with one scan; a test says what it raises."""

    def __init__(self):
        self.errors, self.saved, self.due, self.wanted = {}, [], None, []

    def _raise(self, name):
        if errors := self.errors.get(name):
            raise errors.pop(0)

    def orphan_scan(self, _scan_id):
        self._raise("orphan_scan")
        return SCAN, (), T0

    def save_orphan_scan(self, _before, after, _parts):
        self._raise("save_orphan_scan")
        self.saved.append(after)

    def orphan_scan_due(self):
        self._raise("orphan_scan_due")
        return self.due

    def create_orphan_scan(self, scan, not_before):
        self._raise("create_orphan_scan")
        self.wanted.append((scan.scheduled, not_before))
        return scan


@pytest.fixture
def engine(monkeypatch):
    cast = []
    made = Scans(CONF, Store(), types.SimpleNamespace(orphan_scan_part=cast.append))
    made.cast = cast
    decided = types.SimpleNamespace(scan=ADVANCED, parts=(), casts=("p", "q"), again=False)
    monkeypatch.setattr(orphan_scan, "advance", lambda *_: decided)
    return made


def test_a_decision_is_saved_and_its_parts_are_cast(engine):
    engine.handle("s")
    assert (engine._store.saved, engine.cast) == ([ADVANCED], ["p", "q"])


def test_a_decision_that_another_process_overtook_is_made_anew(engine):
    engine._store.errors = {"save_orphan_scan": [Conflict("overtaken")]}
    engine.handle("s")
    assert (engine._store.saved, engine.cast) == ([ADVANCED], ["p", "q"])


def test_a_scan_that_is_gone_is_no_error(engine, caplog):
    engine._store.errors = {"orphan_scan": [NotFound("s")]}
    engine.handle("s")
    assert engine.cast == []
    assert "orphan scan s is not in the store" in caplog.text


def test_the_schedule_starts_a_scan_a_day_after_the_latest_one(engine):
    assert engine.schedule().scheduled
    assert engine._store.wanted == [(True, datetime.timedelta(hours=24))]


def test_a_scan_that_is_due_is_decided_on_while_the_schedule_would_start_another(engine):
    engine._store.errors, engine._store.due = {"create_orphan_scan": [ScanUnderWay("s")]}, "s"
    engine.tick()
    assert engine._store.saved == [ADVANCED]


def test_a_tick_that_fails_is_followed_by_the_next_one(engine, caplog):
    stop, store = threading.Event(), engine._store
    store.errors, store.due = {"orphan_scan_due": [OSError("away"), OSError("away")]}, "s"
    engine._bus.orphan_scan_part = lambda _: stop.set()
    engine.run_ticks(stop)
    assert len(store.saved) == 1
    assert caplog.text.count("the tick for orphan scans failed") == 2
