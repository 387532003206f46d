"""Orphan scans in the engine: what a decision casts, and when the schedule starts a scan."""

import dataclasses
import datetime
import types

import pytest

from cleanup_orchestrator.core import orphan_scan
from cleanup_orchestrator.core.orphan_scan import Advance, OrphanScan, ScanStatus
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.engine import orphan_scans
from cleanup_orchestrator.store import ScanUnderWay
from tests.unit.world import T0

CONF = types.SimpleNamespace(orphans=types.SimpleNamespace(schedule_interval=24, min_age=0, reread_after=1))
SCAN = OrphanScan("s", ScanStatus.ACCEPTED, T0, T0, T0, 0, 1)


class Store:
    """A store with one scan."""

    def __init__(self, *errors):
        self.errors, self.saved, self.wanted = list(errors), [], []

    def decide_orphan_scan(self, _scan_id, decision):
        self.saved.append(decision(SCAN, (), T0))
        return SCAN, self.saved[-1]

    def create_orphan_scan(self, scan, not_before):
        if self.errors:
            raise self.errors.pop(0)
        self.wanted.append((scan.scheduled, not_before))
        return scan


@pytest.mark.parametrize("again", [True, False])
def test_a_decision_is_saved_and_its_steps_are_cast(monkeypatch, again):
    store, cast = Store(), []
    advanced = Advance(dataclasses.replace(SCAN, status=ScanStatus.RUNNING), (), ("p", "q"), again)
    monkeypatch.setattr(orphan_scan, "advance", lambda *_: advanced)
    assert orphan_scans.decide(store, types.SimpleNamespace(steps=cast.append), "s", Rules()) is again
    assert (store.saved, cast) == ([advanced], [["p"], ["q"]])


def test_the_schedule_starts_a_scan_a_day_after_the_latest_one():
    store = Store()
    assert orphan_scans.start_scheduled(CONF, store).scheduled
    assert store.wanted == [(True, datetime.timedelta(hours=24))]


def test_the_schedule_starts_no_scan_while_another_one_is_under_way():
    assert orphan_scans.start_scheduled(CONF, Store(ScanUnderWay("s"))) is None


def test_without_a_schedule_no_scan_is_started():
    conf = types.SimpleNamespace(orphans=types.SimpleNamespace(schedule_interval=0))
    assert orphan_scans.start_scheduled(conf, None) is None
