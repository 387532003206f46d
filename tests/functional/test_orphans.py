"""Orphan scans over the emulated cloud: they find resources of missing projects, and never of existing ones."""

from __future__ import annotations

import dataclasses
import uuid
from collections import Counter

import pytest

from cleanup_orchestrator.core.deletion import Mode, Origin, Status, accepted
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.orphan_scan import SCANNING, ScanStatus, counted
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import TASKS, StepKind
from cleanup_orchestrator.plugins.base import Refused, Verdict
from cleanup_orchestrator.store import Page, ScanUnderWay
from cleanup_orchestrator.store.orphans import new_scan
from tests.emulated.cloud import OWN_PROJECT
from tests.emulated.http import Response
from tests.emulated.orchestrator import Orchestrator
from tests.support.emulated_site import with_cloud
from tests.support.timing import wait

CLOUD = {
    "projects": 2,
    "bystanders": 1,
    "seed": 5,
    "everything": True,
    "fences": True,
    "without": ("network", "object-store", "key-manager"),
}
QUICK = {"orphans": {"min_age": 0, "reread_after": 1, "steps_at_once": 8}}
#: Seconds between the two reads, if a test does something in between and then lets the time pass.
LATER = 600
#: Of the emulated services, what no admin can list over all projects.
UNSEEN = {"object-store", "key-manager"}


@pytest.fixture
def running(emulated, tmp_path):
    with Orchestrator(emulated, tmp_path, **QUICK) as made:
        yield made


def die(emulated, project):
    """Remove a project from Keystone, as if it had been deleted without the orchestrator."""
    return emulated.identity.projects.pop(project), emulated.identity.grants.pop(project)


def begin(running, **changes):
    scan = dataclasses.replace(new_scan(running.parts.conf, user_name="a test"), **changes)
    running.store.create_orphan_scan(scan)
    running.parts.bus.decide(scan.id)
    return scan.id


def until(running, scan_id, *statuses):
    """Wait for one of these statuses, or for the end; return the scan and its steps."""

    def there():
        scan, steps = running.store.orphan_scan(scan_id)
        ended = scan.status in statuses or (not statuses and scan.status not in SCANNING)
        return (scan, steps) if ended else None

    return wait(f"the scan is {', '.join(statuses) or 'over'}", there, 300)


def scan(running):
    scan_id = begin(running)
    ended, steps = until(running, scan_id)
    return ended, steps, [row.orphan for row in running.store.orphans(scan_id, 100_000)]


@with_cloud(without=())
def test_everything_that_an_admin_can_list_of_a_dead_project_is_found_and_nothing_else(emulated, running):
    dead, _alive = emulated.projects
    left = emulated.left(dead)
    die(emulated, dead)
    writes = len(emulated.audit.writes)
    ended, _steps, found = scan(running)
    assert ended.status is ScanStatus.COMPLETED, ended.message
    assert {orphan.project_id for orphan in found} == {dead}
    seen = Counter(f"{orphan.service}.{orphan.type}" for orphan in found)
    skipped = {f"{row['service']}.{row['type']}" for row in ended.not_covered}
    hidden = {"network.security_group_rule", "network.local_ip_association"}  # parts of others
    names = {"network.default_firewall": "network.firewall_group"}
    for kind, number in left.items():
        kind = names.get(kind, kind)
        if kind in skipped | hidden or kind.partition(".")[0] in UNSEEN:
            continue
        counted = [kind, *(f"{k.split('.')[0]}.default_{k.split('.')[1]}" for k in [kind])]
        counted += ["network.router_port"] if kind == "network.port" else []
        assert sum(seen[name] for name in counted) == number, kind
    assert {row["service"] for row in ended.not_covered} >= UNSEEN
    assert all(row["reason"] for row in ended.not_covered)
    touched = {
        touch.owner for write in emulated.audit.writes[writes:] for touch in write.touched if "token" not in touch.kind
    }
    own = next(p.id for p in emulated.identity.projects.values() if p.name == OWN_PROJECT)
    assert touched <= {own}, "Neutron's default group of our own project, with the first list"
    project_setting = {orphan.type for orphan in found if orphan.project_setting}
    assert {"default_security_group", "quota"} <= project_setting
    assert not {"port", "image", "router"} & project_setting


@pytest.mark.slow
def test_in_a_cloud_without_dead_projects_one_read_is_enough(emulated, running):
    ended, steps, found = scan(running)
    assert (ended.status, found, ended.reread_at) == (ScanStatus.COMPLETED, [], None)
    assert {step.round for step in steps if step.kind is StepKind.SCAN} == {1}
    assert counted(steps)["listed"] > 5


@pytest.mark.slow
def test_a_project_that_keystone_knows_again_at_the_second_read_has_no_orphans(emulated, running, database_clock):
    dead = emulated.projects[0]
    project, grants = die(emulated, dead)
    scan_id = begin(running, reread_after=LATER)
    until(running, scan_id, ScanStatus.WAITING)
    emulated.identity.projects[dead], emulated.identity.grants[dead] = project, grants
    database_clock.advance(LATER)
    ended, steps = until(running, scan_id)
    assert counted(steps)["candidates"] > 1
    assert (ended.status, running.store.orphans(scan_id, 10)) == (ScanStatus.COMPLETED, [])


@pytest.mark.slow
def test_what_is_gone_or_has_another_owner_at_the_second_read_is_no_orphan(emulated, running, database_clock):
    dead = emulated.projects[0]
    die(emulated, dead)
    scan_id = begin(running, reread_after=LATER)
    until(running, scan_id, ScanStatus.WAITING)
    images = emulated.state.table("RegionOne", "image.image")
    gone = next(iter(images.owned[dead].values()))
    images.remove(gone)
    database_clock.advance(LATER)
    until(running, scan_id)
    found = {row.orphan.resource_id for row in running.store.orphans(scan_id, 1000)}
    assert found and gone.id not in found


@pytest.mark.parametrize("fault", ["down", "unauthorized", "proxy", "own"])
@pytest.mark.slow
def test_a_keystone_that_does_not_answer_makes_nothing_an_orphan(emulated, running, fault, monkeypatch, database_clock):
    """From the second read on Keystone fails. A careless check would read each failure as "not known"."""
    die(emulated, emulated.projects[0])
    scan_id = begin(running, reread_after=LATER)
    until(running, scan_id, ScanStatus.WAITING)
    real = emulated.identity.answer
    own = next(p.id for p in emulated.identity.projects.values() if p.name == OWN_PROJECT)

    def broken(call):
        path = "/".join(call.parts) if hasattr(call, "parts") else ""
        if "projects/" in path:
            if fault == "down":
                return Response(503, {"error": {"code": 503, "message": "no"}})
            if fault == "unauthorized":
                return Response(403, {"error": {"code": 403, "message": "no"}})
            if fault == "proxy":
                return Response(404, {"message": "no such host"})
            if own in path:
                return Response(404, {"error": {"code": 404, "message": "Could not find project"}})
        return real(call)

    monkeypatch.setattr(emulated.identity, "answer", broken)
    database_clock.advance(LATER)
    ended, _steps = until(running, scan_id)
    assert ended.status is ScanStatus.INCOMPLETE
    assert "unknown" in ended.message
    assert running.store.orphans(scan_id, 10) == []


@pytest.mark.slow
def test_a_service_that_does_not_answer_makes_the_scan_incomplete_and_the_others_are_reported(emulated, running):
    die(emulated, emulated.projects[0])
    emulated.faults.down("image")
    ended, steps, found = scan(running)
    assert ended.status is ScanStatus.INCOMPLETE
    assert {step.service for step in steps if step.outcome == "unknown"} == {"image"}
    assert {orphan.service for orphan in found} == {"identity"}


@pytest.mark.slow
def test_a_tenth_of_all_calls_fails_and_no_living_project_has_an_orphan(emulated, running):
    dead = emulated.projects[0]
    die(emulated, dead)
    emulated.faults.errors(0.1)
    ended, _, found = scan(running)
    emulated.faults.clear()
    assert ended.status in (ScanStatus.COMPLETED, ScanStatus.INCOMPLETE)
    assert {orphan.project_id for orphan in found} <= {dead}


@pytest.mark.slow
def test_what_is_younger_than_the_minimum_age_is_left_out(emulated, running):
    die(emulated, emulated.projects[0])
    scan_id = begin(running, min_age=100 * 365 * 24 * 3600)
    _, steps = until(running, scan_id)
    found = [row.orphan for row in running.store.orphans(scan_id, 1000)]
    assert found, "of some types no service says when they were made"
    assert {orphan.created_at for orphan in found} == {None}
    assert counted(steps)["too_young"] > 0


@pytest.mark.slow
def test_one_scan_at_a_time_and_a_cancelled_one_reports_nothing_more(emulated, running, database_clock):
    die(emulated, emulated.projects[0])
    scan_id = begin(running, reread_after=LATER)
    with pytest.raises(ScanUnderWay) as other:
        begin(running)
    assert other.value.scan_id == scan_id
    until(running, scan_id, ScanStatus.WAITING)
    assert running.store.cancel_orphan_scan(scan_id, "not now").status is ScanStatus.CANCELLED
    database_clock.advance(LATER)  # its second read would be due
    running.parts.bus.decide(scan_id)
    ended, _steps, found = scan(running)  # engine and workers have done all of another one meanwhile
    assert (ended.status, bool(found)) == (ScanStatus.COMPLETED, True)
    assert running.store.orphan_scan(scan_id)[0].status is ScanStatus.CANCELLED
    assert running.store.orphans(scan_id, 10) == []


@pytest.mark.slow
def test_the_engines_begin_a_scan_when_its_time_has_come_and_never_two(emulated, tmp_path, database_clock):
    options = {**QUICK, "orphans": {**QUICK["orphans"], "schedule_interval": 24}}
    with Orchestrator(emulated, tmp_path, **options) as running:
        for number in (1, 2):

            def ended(number=number):
                scans = running.store.orphan_scans(Page(10))
                return len(scans) >= number and not any(each.status in SCANNING for each in scans) and scans

            scans = wait(f"scan {number} has ended", ended, 300)
            assert len(scans) == number and all(each.scheduled for each in scans)
            database_clock.advance(23 * 3600)
            scans = running.store.orphan_scans(Page(10))
            assert len(scans) == number, "not before its time"
            database_clock.advance(3600)


# ------------------------------------------------------------------------------------------------------ adopted
def adopt(running, project_id, dry_run=False):
    """Record what the API records."""
    record = accepted(
        id=str(uuid.uuid4()), project_id=project_id, project_name="", domain_id="", mode=Mode.CASCADE,
        dry_run=dry_run, origin=Origin.ADOPTED,
    )  # fmt: skip
    running.store.create(record, TASKS, Event("deletion.adopted", "a test asks for it"))
    running.parts.bus.decide(record.id)
    return record.id


@with_cloud(without=("network",))
def test_an_adopted_project_is_cleared_of_what_is_in_reach_and_the_rest_is_named(emulated, running):
    dead = emulated.projects[0]
    before = emulated.left(dead, project_setting=False)
    die(emulated, dead)
    deletion = adopt(running, dead)
    assert running.wait([deletion]) == {deletion: Status.LEFTOVERS}
    record = running.store.get(deletion)
    assert record.reason == "project_gone"
    assert "key-manager.secret" in record.message and "object-store" not in record.message
    left = emulated.left(dead, project_setting=False)
    in_reach = {"image.image", "object-store.container"}
    assert in_reach <= set(before)
    assert not in_reach & set(left), left
    steps = {step.name: step for step in running.store.steps(deletion)}
    secret = steps["key-manager.secret"]
    assert (secret.outcome, secret.reason) == ("unknown", "project_gone")
    assert "bound to the token's project" in secret.message
    kinds = {step.kind for step in running.store.steps(deletion) if step.round}
    assert kinds <= {"survey", "sweep"}


@with_cloud(without=("network", "image", "key-manager"))
@pytest.mark.slow
def test_what_cannot_go_for_want_of_the_project_is_left_by_name_and_the_adoption_ends(emulated, running, monkeypatch):
    """It is not tried and listed without end: an inventory would treat it as a new resource."""
    registry, find = running.parts.registry, running.parts.registry.find

    def refuse(*_):
        raise Refused(Verdict(Reason.PROJECT_GONE, "only the project could"))

    def found(service, name):
        type_ = find(service, name)
        return dataclasses.replace(type_, delete=refuse) if (service, name) == ("object-store", "container") else type_

    monkeypatch.setattr(registry, "find", found, raising=True)
    dead = emulated.projects[0]
    die(emulated, dead)
    deletion = adopt(running, dead)
    assert running.wait([deletion]) == {deletion: Status.LEFTOVERS}
    rows = [row.leftover for row in running.store.leftovers(deletion, 1000, service="object-store", type="container")]
    assert rows and {row.reason for row in rows} == {Reason.PROJECT_GONE}
    assert all(row.remedy and row.message == "only the project could" for row in rows)


@pytest.mark.slow
def test_a_dry_run_of_an_adoption_writes_nothing(emulated, running):
    dead = emulated.projects[0]
    die(emulated, dead)
    before = emulated.left(dead)
    deletion = adopt(running, dead, dry_run=True)
    assert running.wait([deletion]) == {deletion: Status.PLANNED}
    assert emulated.left(dead) == before


@pytest.mark.slow
def test_a_project_that_keystone_knows_is_never_adopted(emulated, running):
    alive = emulated.projects[1]
    before = emulated.things(alive)
    deletion = adopt(running, alive)
    assert running.wait([deletion]) == {deletion: Status.FAILED}
    assert running.store.get(deletion).reason == "project_known"
    assert emulated.things(alive) == before


@pytest.mark.slow
def test_a_project_that_keystone_knows_again_under_way_is_left_alone_at_once(emulated, running, monkeypatch):
    """Keystone knows it after the survey found it missing, and before the first write."""
    monkeypatch.setattr("cleanup_orchestrator.worker.guard._GONE", 0.0)
    dead = emulated.projects[0]
    project, grants = die(emulated, dead)
    things = emulated.left(dead)
    real = emulated.faults.fate

    def fate(service, region, method, target, concerned):
        if service == "image":  # the first list of the sweep
            emulated.identity.projects.setdefault(dead, project)
            emulated.identity.grants.setdefault(dead, grants)
        return real(service, region, method, target, concerned)

    monkeypatch.setattr(emulated.faults, "fate", fate)
    deletion = adopt(running, dead)
    assert running.wait([deletion]) == {deletion: Status.FAILED}
    assert running.store.get(deletion).reason == "project_known"
    assert emulated.left(dead) == things
