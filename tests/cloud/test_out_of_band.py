"""Projects that are deleted without the orchestrator: real Keystone, its notifications over a real RabbitMQ."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from cleanup_orchestrator.core.deletion import Mode, Origin, Status
from cleanup_orchestrator.core.step import Outcome, StepKind, Token
from cleanup_orchestrator.engine.keystone_listener import Listener
from cleanup_orchestrator.store import Page
from tests.cloud import filler
from tests.cloud.conftest import Sweeper
from tests.cloud.launcher import Cloud
from tests.cloud.noisy import listening
from tests.cloud.orchestrator import Orchestrator


@pytest.fixture(scope="module")
def noisy(cloud_venv, tmp_path_factory) -> Iterator[tuple[Cloud, Orchestrator]]:
    """Keystone, Glance and Barbican."""
    with listening(tmp_path_factory, cloud_venv, "cadf", "glance", "barbican") as pair:
        yield pair


def admin_of(cloud: Cloud):
    return filler.connect(cloud.auth_url, "admin", cloud.site.password, "admin")


def records(orchestrator: Orchestrator, project_id: str):
    return orchestrator.store.list(Page(10), project_id=project_id)


def noticed(orchestrator: Orchestrator, project_id: str, seconds: float = 240):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := records(orchestrator, project_id):
            return found[0]
        time.sleep(0.1)
    raise AssertionError("the orchestrator did not notice the deletion")


def condition(record, type_: str) -> bool:
    return any(c.type == type_ and c.status for c in record.conditions)


def test_what_a_project_left_behind_is_reported_and_not_touched(noisy):
    cloud, orchestrator = noisy
    filled = filler.fill(admin_of(cloud), "past-us", only=("image", "key-manager"))
    images = Sweeper(cloud).dump("glance", "barbican")
    cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    record = orchestrator.wait(noticed(orchestrator, filled.project_id).id, Status.LEFTOVERS)
    assert (record.origin, record.mode) == (Origin.NOTICED, Mode.REPORT)
    assert record.project_gone_at is not None
    left = {row.leftover.id for row in orchestrator.store.leftovers(record.id, 1000)}
    assert set(filled.ids["image"]) <= left
    # what only a token of the project could show is unknown, and said to be
    assert orchestrator.step(record.id, "key-manager.secret").outcome is Outcome.UNKNOWN
    assert Sweeper(cloud).dump("glance", "barbican") == images
    assert record.user_id == ""
    [line] = [row.event for row in orchestrator.store.events(record.id, 100) if row.event.type == "deletion.noticed"]
    assert line.actor == admin_of(cloud).current_user_id


def test_an_earlier_record_lends_its_name(noisy):
    cloud, orchestrator = noisy
    filled = filler.fill(admin_of(cloud), "known-before", only=("image",))
    asked = orchestrator.request(filled.project_id, Mode.REPORT)
    orchestrator.wait(asked, Status.LEFTOVERS)
    cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    deadline = time.monotonic() + 240
    while (newest := records(orchestrator, filled.project_id)[0]).id == asked and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (newest.origin, newest.project_name, newest.domain_id) == (Origin.NOTICED, "known-before", "default")
    assert filled.user_id in newest.member_ids


def test_every_project_of_a_deleted_domain_is_noticed(noisy):
    cloud, orchestrator = noisy
    domain = cloud.admin.call("POST", "/domains", {"domain": {"name": f"going-{uuid.uuid4().hex[:6]}"}})["domain"]["id"]
    projects = [
        cloud.admin.call("POST", "/projects", {"project": {"name": name, "domain_id": domain}})["project"]["id"]
        for name in ("one", "two")
    ]
    cloud.admin.call("PATCH", f"/domains/{domain}", {"domain": {"enabled": False}})
    cloud.admin.call("DELETE", f"/domains/{domain}")
    for project_id in projects:
        record = orchestrator.wait(noticed(orchestrator, project_id).id)
        assert record.origin is Origin.NOTICED


def test_the_removal_by_the_orchestrator_is_not_announced(noisy):
    cloud, orchestrator = noisy
    filled = filler.fill(admin_of(cloud), "by-us", only=("image",))
    orchestrator.wait(orchestrator.request(filled.project_id, Mode.CASCADE), Status.DELETED)
    other = filler.fill(admin_of(cloud), "past-us-too", only=())
    cloud.admin.call("DELETE", f"/projects/{other.project_id}")
    noticed(orchestrator, other.project_id)  # so the notification about the first one has been handled by now
    assert len(records(orchestrator, filled.project_id)) == 1


@pytest.mark.parametrize("only", [("image",), ("image", "key-manager")], ids="+".join)
def test_a_deletion_whose_project_vanishes_goes_on_and_reports_it(noisy, only):
    cloud, orchestrator = noisy
    filled = filler.fill(admin_of(cloud), f"vanishing-{len(only)}", only=only)
    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
    orchestrator.wait(deletion_id, until=lambda r: r.status is Status.DELETING)
    cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    record = orchestrator.wait(deletion_id)
    rows = Sweeper(cloud).rows("glance", "SELECT id FROM images WHERE owner = ? AND deleted = 0", filled.project_id)
    # A step that was under way when the project vanished, such as "access", failed: only the listed resources count.
    sweeps = [s for s in orchestrator.store.steps(deletion_id) if s.kind is StepKind.SWEEP]
    unknown = [s.name for s in sweeps if s.outcome is Outcome.UNKNOWN]
    assert rows == []
    assert not record.has_changes
    assert len(records(orchestrator, filled.project_id)) == 1
    assert condition(record, "project_gone")
    if unknown:
        assert record.status is Status.LEFTOVERS
        steps = {s.name: s for s in sweeps}
        assert all(steps[name].token is Token.PROJECT and name in record.message for name in unknown)
        assert record.reason == "project_gone"
    else:
        assert record.status is Status.DELETED


def test_a_project_that_keystone_still_finds_is_not_gone(noisy):
    cloud, orchestrator = noisy
    filled = filler.fill(admin_of(cloud), "still-there", only=())
    heard = Listener(orchestrator.store, orchestrator.parts.clouds, orchestrator.parts.bus)
    assert heard.deleted(filled.project_id, "") is None
    assert records(orchestrator, filled.project_id) == []


def test_the_basic_format_says_less_and_is_enough(cloud_venv, tmp_path_factory):
    with listening(tmp_path_factory, cloud_venv, "basic") as (cloud, orchestrator):
        filled = filler.fill(admin_of(cloud), "past-us", only=())
        cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
        record = noticed(orchestrator, filled.project_id)
        assert (record.origin, record.user_id) == (Origin.NOTICED, "")
