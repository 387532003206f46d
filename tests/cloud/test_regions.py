"""The real services with a second region in the catalog: down, then back, or waived."""

from __future__ import annotations

import datetime
import uuid

import pytest

from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.dependencies import confirmed_gone
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.step import Outcome
from tests.cloud import filler
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import Orchestrator
from tests.cloud.proof import left

SECOND = "RegionTwo"
DEAD = "http://127.0.0.1:1"
TYPES = ("network", "image")


class Region:
    """The second region: the services of the first one under another name, or nothing behind its endpoints."""

    def __init__(self, cloud: Cloud, orchestrator: Orchestrator) -> None:
        self.cloud, self.orchestrator = cloud, orchestrator
        cloud.admin.call("POST", "/regions", {"region": {"id": SECOND}})
        self.urls = {}
        for type_ in TYPES:
            (entry,) = cloud.admin.call("GET", f"/services?type={type_}")["services"]
            (first, *_) = cloud.admin.call("GET", f"/endpoints?service_id={entry['id']}&interface=public")["endpoints"]
            self.urls[type_] = first["url"]
            cloud.admin.ensure_service(type_, type_, DEAD, SECOND)
        orchestrator.parts.clouds.admin_auth().invalidate()  # the catalog comes with the token

    def rises(self) -> None:
        for type_, url in self.urls.items():
            self.cloud.admin.ensure_service(type_, type_, url, SECOND)

    def close(self) -> None:
        for endpoint in self.cloud.admin.call("GET", f"/endpoints?region_id={SECOND}")["endpoints"]:
            self.cloud.admin.call("DELETE", f"/endpoints/{endpoint['id']}")
        self.cloud.admin.call("DELETE", f"/regions/{SECOND}")
        self.orchestrator.parts.clouds.admin_auth().invalidate()


@pytest.fixture
def second(cloud, orchestrator):
    region = Region(cloud, orchestrator)
    yield region
    region.close()


def fill(admin, name):
    """A project without protected images."""
    filled = filler.fill(admin, name, only=TYPES)
    for image in filled.ids["image"]:
        if admin.image.get_image(image).visibility == "community":
            admin.image.update_image(image, visibility="private")
    return filled


def blocked(orchestrator, deletion_id):
    found = {}
    for one in blockers(orchestrator.store.get(deletion_id), orchestrator.store.steps(deletion_id)):
        found.setdefault((one.region, one.service), set()).add(one.reason)
    return found


def test_a_region_that_is_down_blocks_its_steps_and_completion_until_it_is_back(cloud, admin, orchestrator, second):
    filled = fill(admin, "two-regions")
    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
    seen = {}
    dead = {(SECOND, type_): {"unreachable"} for type_ in TYPES}

    def all_else_is_gone(record):
        if record.status is not Status.DELETING:
            return False
        seen.clear()
        seen.update(blocked(orchestrator, deletion_id))
        first = [s for s in orchestrator.store.steps(deletion_id) if s.region == "RegionOne" and not s.project_setting]
        return seen == dead and first and all(confirmed_gone(step, record.round) for step in first)

    orchestrator.wait(deletion_id, until=all_else_is_gone, seconds=600)
    # They are named as unreachable with their region, and there is no other blocker.
    assert seen == dead
    assert {name.split(":")[0] for name in left(cloud, filled.project_id)} <= {"keystone", "neutron"}
    assert admin.network.find_network(filled.first("network"), ignore_missing=True) is None
    assert cloud.admin.call("GET", f"/projects/{filled.project_id}")["project"]["id"] == filled.project_id
    second.rises()
    orchestrator.wait(deletion_id, Status.DELETED, seconds=600)  # without a request: the catalog is read again
    assert left(cloud, filled.project_id) == {}


def test_a_region_that_is_lost_is_waived_and_the_record_names_it(cloud, admin, orchestrator, second):
    filled = fill(admin, "lost-region")
    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
    seen = {}
    orchestrator.wait(
        deletion_id,
        until=lambda r: r.status is Status.DELETING and (seen.update(blocked(orchestrator, deletion_id)) or seen),
        seconds=600,
    )
    now = orchestrator.store.now()
    until = now + datetime.timedelta(hours=1)
    asked = {
        orchestrator.store.add_waiver(
            Waiver(str(uuid.uuid4()), type_, "flooded", now, until, SECOND, filled.project_id, "u", "alice")
        )
        for type_ in TYPES
    }
    record = orchestrator.wait(deletion_id, Status.DELETED, seconds=600)
    assert left(cloud, filled.project_id) == {}
    assert set(record.waivers) == asked
    assert record.message.count("of alice until") == len(TYPES)
    assert "flooded" not in record.message, "why is for those who may read waivers"
    waived = {(s.region, s.service, s.outcome) for s in orchestrator.store.steps(deletion_id) if s.waived}
    assert waived == {(SECOND, type_, Outcome.NONE) for type_ in TYPES}
