"""The store of orphan scans: one scan at a time, claims that were lost, and what counts as an orphan."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.orphan_scan import Advance, OrphanScan, ScanStatus
from cleanup_orchestrator.core.step import TASKS, StepState
from cleanup_orchestrator.store import ScanUnderWay
from tests.support import orphaned, sqlite_stores
from tests.support.orphaned import DEAD, NEVER, OTHER, port
from tests.support.stores import save
from tests.unit import world


@pytest.fixture
def store():
    return sqlite_stores.in_memory()


@pytest.fixture
def scan(store):
    return orphaned.begin(store)


def new(id_="another"):
    return OrphanScan(id_, ScanStatus.ACCEPTED, NEVER, NEVER, NEVER, 3600, 600)


def read(store, scan, number, *orphans):
    """Do one read of the ports, which finds these."""
    step = orphaned.claim(store, scan.id, "port", number)
    assert (store.note_orphans if number == 1 else store.see_orphans_again)(step, orphans)
    assert store.finish(step, orphaned.clear(step))


def confirmed(store, scan):
    return [row.orphan.resource_id for row in store.orphans(scan.id, 100)]


def test_only_one_scan_runs_and_one_that_ended_is_in_nobodys_way(store, scan):
    with pytest.raises(ScanUnderWay):
        store.create_orphan_scan(new())
    orphaned.move(store, scan.id, ScanStatus.COMPLETED)
    assert store.create_orphan_scan(new()).id == "another"


@pytest.mark.parametrize(
    ("not_before", "made"), [(None, True), (datetime.timedelta(0), True), (datetime.timedelta(hours=1), False)]
)
def test_of_several_engines_one_starts_the_scheduled_scan(store, scan, not_before, made):
    orphaned.move(store, scan.id, ScanStatus.COMPLETED)
    assert (store.create_orphan_scan(new(), not_before) is not None) is made


def test_a_decision_that_changes_nothing_writes_nothing(store, scan):
    before = store.orphan_scan(scan.id)
    assert store.decide_orphan_scan(scan.id, lambda scan, _steps, _now: Advance(scan))[0] == before[0]
    assert store.orphan_scan(scan.id) == before


def test_a_step_is_claimed_once(store, scan):
    step = orphaned.claim(store, scan.id, "port", 1)
    assert store.claim(step.id, "another", 60) is None
    assert store.release_claim(step)
    assert store.claim(step.id, "another", 60)[1].worker == "another"


def test_after_a_cancel_no_worker_writes(store, scan):
    step = orphaned.claim(store, scan.id, "port", 1)
    store.cancel_orphan_scan(scan.id, "cancelled by alice")
    assert not store.renew(step, 60)
    assert not store.note_orphans(step, [port("p1")])
    assert not store.finish(step, orphaned.clear(step))
    assert store.claim(step.id, "another", 60) is None


def test_after_a_cancel_no_worker_claims_a_step_that_an_engine_had_dispatched(store, scan):
    step = orphaned.claim(store, scan.id, "port", 1)
    orphaned.dispatch(store, scan.id, step.id)
    store.cancel_orphan_scan(scan.id, "cancelled by alice")
    assert store.claim(step.id, "another", 60) is None


def test_a_first_read_that_is_repeated_begins_anew(store, scan):
    step = orphaned.claim(store, scan.id, "port", 1)
    assert store.note_orphans(step, [port("p1"), port("p2", OTHER)])
    assert store.candidate_projects(step) == (DEAD, OTHER)
    assert store.release_claim(step)
    again = store.claim(step.id, "another", 60)[1]
    assert store.candidate_projects(again) == ()


@pytest.mark.parametrize(
    ("second", "found"),
    [
        pytest.param([port("p1")], ["p1"], id="seen twice"),
        pytest.param([], [], id="seen once"),
        pytest.param([port("p1", OTHER)], [], id="another owner"),
        pytest.param([port("p1"), port("p9")], ["p1"], id="seen by the second read only"),
    ],
)
def test_an_orphan_is_seen_twice_with_the_same_owner(store, scan, second, found):
    read(store, scan, 1, port("p1"), port("p2"))
    assert confirmed(store, scan) == []
    read(store, scan, 2, *second)
    assert confirmed(store, scan) == found
    (step,) = (each for each in store.orphan_scan(scan.id)[1] if each.type == "port")
    assert (step.counts.candidates, step.counts.orphans, step.state) == (2, len(found), StepState.DONE)


def test_what_only_a_lost_second_read_saw_is_no_orphan(store, scan):
    """It was given to a project that Keystone knows, or deleted, before another worker read the list."""
    read(store, scan, 1, port("p1"), port("p2"))
    lost = orphaned.claim(store, scan.id, "port", 2)
    assert store.see_orphans_again(lost, [port("p1"), port("p2")])
    read(store, scan, 2, port("p1"))
    assert confirmed(store, scan) == ["p1"]
    (step,) = (each for each in store.orphan_scan(scan.id)[1] if each.type == "port")
    assert step.counts.orphans == 1


@pytest.mark.parametrize("ends", ["completed", "cancelled"])
def test_a_scan_that_ended_keeps_only_what_was_seen_twice(store, scan, ends):
    read(store, scan, 1, port("p1"), port("p2"))
    read(store, scan, 2, port("p1"))
    if ends == "cancelled":
        store.cancel_orphan_scan(scan.id, "cancelled by alice")
    else:
        orphaned.move(store, scan.id, ScanStatus.COMPLETED)
    (step,) = (each for each in store.orphan_scan(scan.id)[1] if each.type == "port")
    assert confirmed(store, scan) == ["p1"]
    assert store.candidate_projects(step) == (DEAD,)
    with store.database.read() as c:
        assert c.exec_driver_sql("SELECT count(*) FROM orphans").scalar() == 1


def test_a_dead_project_has_the_name_of_its_latest_deletion(store):
    for number, name in enumerate(("before", "after")):
        at = world.T0 + datetime.timedelta(hours=number)
        record = world.deletion(id=f"d{number}", project_id=DEAD, project_name=name, created_at=at)
        made = store.create(record, TASKS, Event("deletion.accepted", ""))
        save(store, made, dataclasses.replace(made, status=Status.FAILED, created_at=at))
    scan = orphaned.found(store, [port("p1")])
    (project,) = store.orphan_projects(scan.id, 10)
    assert (project.name, project.deletion_id, project.counts) == ("after", "d1", {"network.port": 1})
