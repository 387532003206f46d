"""The whole orchestrator, engine and workers over the in-process bus, against the real services."""

from __future__ import annotations

import dataclasses
import datetime
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import openstack.exceptions
import pytest

from cleanup_orchestrator import service, tables, transitions
from cleanup_orchestrator.decide import blockers
from cleanup_orchestrator.model import TASKS, Deletion, Event, Mode, Outcome, Purpose, Status, Waiver
from cleanup_orchestrator.ordering import confirmed_gone
from cleanup_orchestrator.store import Conflict
from tests.cloud import filler
from tests.cloud.conftest import Sweeper
from tests.cloud.launcher import Cloud

EVERYTHING = ("keystone", "neutron", "glance", "barbican")

CONFIGURATION = """
[database]
connection = sqlite:///{directory}/orchestrator.sqlite
[orchestrator]
auth_type = password
auth_url = {auth_url}
username = orchestrator
password = orchestrator
project_name = service
user_domain_id = default
project_domain_id = default
interface = public
[drain]
token_cache_time = 5
[engine]
tick = 0.5
retry_cap = 4
[service_image]
delete_shared_images = true
"""


class Orchestrator:
    """Engine and workers in this process, and what a test asks of them."""

    def __init__(self, cloud: Cloud, directory, extra: str = "") -> None:
        self.cloud = cloud
        self.user_id = cloud.admin.ensure_user("orchestrator", "orchestrator", "service", ("admin", "service"))["id"]
        path = directory / "orchestrator.conf"
        path.write_text(CONFIGURATION.format(directory=directory, auth_url=cloud.auth_url) + extra)
        self.parts = service.Parts(service.load(["--config-file", str(path)]), in_process=True)
        self.store = self.parts.store
        tables.metadata.create_all(self.store._engine)
        self.running = service.Running(self.parts)
        part = self.parts.engine()
        part.rules = dataclasses.replace(part.rules, heartbeat=datetime.timedelta(seconds=3))
        self.parts.engine = lambda: part
        self.running.start_engine()
        self.running.start_worker()

    def request(self, project_id: str, mode: Mode, dry_run: bool = False) -> str:
        now = self.store.now()
        record = Deletion(
            str(uuid.uuid4()), project_id, "?", "default", mode, dry_run, Status.ACCEPTED, now, now, now, now, now
        )
        self.store.create(record, TASKS, Event("deletion.accepted", "a test asks for it"))
        self.parts.bus.deletion(record.id)
        return record.id

    def wait(self, deletion_id: str, *statuses: Status, until=None, seconds: float = 400) -> Deletion:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            record = self.store.get(deletion_id)
            if until is not None and until(record):
                return record
            if until is None and record.status not in transitions.LIVE:
                assert not statuses or record.status in statuses, (record.status, record.message)
                return record
            time.sleep(0.1)
        steps = self.store.steps(deletion_id)
        raise AssertionError(f"still {record.status}: {blockers(record, steps)}")

    def cancel(self, deletion_id: str) -> None:
        while True:
            record = self.store.get(deletion_id)
            moved = transitions.move(record, Status.CANCELLING, transitions.By.USER, self.store.now(), "cancel")
            try:
                self.store.save(record, moved)
                break
            except Conflict:  # an engine or a worker wrote at the same moment
                continue
        self.parts.bus.deletion(deletion_id)

    def step(self, deletion_id: str, name: str):
        return next(s for s in self.store.steps(deletion_id) if s.name == name)

    def tried_again(self, deletion_id: str, name: str, times: int = 2) -> None:
        """Wait until workers have begun a step so many times more."""
        before = self.step(deletion_id, name).fence
        self.wait(deletion_id, until=lambda _: self.step(deletion_id, name).fence >= before + times)

    def blockers(self, deletion_id: str) -> dict[str, str]:
        record = self.store.get(deletion_id)
        return {f"{b.service}.{b.type}": b.reason for b in blockers(record, self.store.steps(deletion_id))}


@pytest.fixture(scope="module")
def orchestrator(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    made = Orchestrator(cloud, tmp_path_factory.mktemp("orchestrator"))
    yield made
    made.running.close()


def assignments(sweeper: Sweeper, project_id: str) -> set[tuple]:
    return set(sweeper.rows("keystone", "SELECT * FROM assignment WHERE target_id = ?", project_id))


def left(cloud: Cloud, project_id: str) -> dict[str, int]:
    return {f"{s}: {what}": n for s, _, what, n in filler.proof(cloud, project_id) if n}


def test_a_report_of_a_full_project_lists_it_and_leaves_it_as_it_was(cloud, admin, sweeper, orchestrator):
    filled = filler.fill(admin, "full-report", only=("network", "image", "key-manager", "identity"))
    grants, before = assignments(sweeper, filled.project_id), left(cloud, filled.project_id)
    deletion_id = orchestrator.request(filled.project_id, Mode.REPORT)
    orchestrator.wait(deletion_id, Status.LEFTOVERS)
    found = {row.leftover.id for row in orchestrator.store.leftovers(deletion_id, 1000)}
    for kind in ("network", "port", "router", "image", "application credential", "trust", "floating ip"):
        assert set(filled.ids[kind]) & found, kind
    assert left(cloud, filled.project_id) == before
    assert assignments(sweeper, filled.project_id) == grants
    assert "drain" not in {e.event.type.removeprefix("step.") for e in orchestrator.store.events(deletion_id, 1000)}


def test_a_dry_run_writes_nothing_at_all_anywhere(cloud, admin, sweeper, orchestrator):
    filled = filler.fill(admin, "dry", only=("network", "image", "key-manager", "identity"))
    # At its first listing ever Neutron makes a default security group for the orchestrator's own project.
    orchestrator.wait(orchestrator.request(filled.project_id, Mode.CASCADE, dry_run=True), Status.PLANNED)
    before = sweeper.dump(*EVERYTHING)
    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE, dry_run=True)
    orchestrator.wait(deletion_id, Status.PLANNED)
    assert sweeper.dump(*EVERYTHING) == before
    # no role may be taken for it, so what needs a project-scoped token is unknown, and says so with the way out
    assert orchestrator.step(deletion_id, "key-manager.secret").reason == "no_project_token"
    # an inherited role, which the operator gave once and for all, makes it whole
    role = cloud.admin.call("GET", "/roles?name=admin")["roles"][0]["id"]
    inherited = f"/OS-INHERIT/domains/default/users/{orchestrator.user_id}/roles/{role}/inherited_to_projects"
    cloud.admin.call("PUT", inherited)
    try:
        before = sweeper.dump("neutron", "glance", "keystone")
        deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE, dry_run=True)
        orchestrator.wait(deletion_id, Status.PLANNED)
        assert orchestrator.step(deletion_id, "key-manager.secret").outcome is Outcome.LEFTOVERS
        assert orchestrator.step(deletion_id, "key-manager.secret").deleted == 0
        assert sweeper.dump("neutron", "glance", "keystone") == before
    finally:
        cloud.admin.call("DELETE", inherited)


def test_a_cascade_leaves_nothing_and_touches_nobody_else(cloud, admin, sweeper, orchestrator):
    neighbour = filler.fill(admin, "spared", objects=5)
    spared = left(cloud, neighbour.project_id)
    filled = filler.fill(admin, "doomed", partner=neighbour.project_id)
    image = next(i for i in filled.ids["image"] if admin.image.get_image(i).visibility == "community")
    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
    # The community image is protected by default: it is named, and all goes that does not wait for images.
    orchestrator.wait(
        deletion_id,
        until=lambda r: (
            orchestrator.blockers(deletion_id) == {"image.image": "protected"}
            and confirmed_gone(orchestrator.step(deletion_id, "network.address_scope"), r.round)
            and confirmed_gone(orchestrator.step(deletion_id, "network.rbac_policy"), r.round)
        ),
        seconds=400,
    )
    assert [r.leftover.id for r in orchestrator.store.leftovers(deletion_id, 10, type="image")] == [image]
    admin.image.update_image(image, visibility="private")
    record = orchestrator.wait(deletion_id, Status.DELETED)
    assert left(cloud, filled.project_id) == {}
    assert left(cloud, neighbour.project_id) == spared
    assert record.drained_at < record.closed_at
    events = orchestrator.store.events(deletion_id, 10000)
    opened = [e.at for e in events if e.event.data.get("purpose") == Purpose.LOOK and e.at > record.drained_at]
    settled = record.drained_at + datetime.timedelta(seconds=5)
    assert len([at for at in opened if at >= settled]) >= 3, "two before the project was disabled, one after"
    assert orchestrator.store.changes(deletion_id) == ()
    gone = [r["id"] for e in events if e.event.type == "resource.deleted" for r in e.event.data["resources"]]
    assert set(filled.ids["network"]) <= set(gone), "the journal says what was deleted"


def test_an_empty_project_is_removed_by_a_report_too(cloud, admin, orchestrator):
    filled = filler.fill(admin, "empty", only=())
    deletion_id = orchestrator.request(filled.project_id, Mode.REPORT)
    orchestrator.wait(deletion_id, Status.DELETED)
    assert left(cloud, filled.project_id) == {}


def test_a_cancel_gives_back_exactly_what_was_taken(cloud, admin, sweeper, orchestrator):
    filled = filler.fill(admin, "cancelled", only=("image", "identity"))  # its community image keeps it from ending
    grants = assignments(sweeper, filled.project_id)
    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
    orchestrator.wait(deletion_id, until=lambda r: r.status is Status.DELETING and orchestrator.blockers(deletion_id))
    assert {row for row in assignments(sweeper, filled.project_id) if row not in grants}, "our own grant"
    assert not assignments(sweeper, filled.project_id) & grants, "the others' are gone"
    with pytest.raises(openstack.exceptions.SDKException, match="401"):
        filler.connect_as(admin, filled.user_name, filled.password, filled.project_name).authorize()
    orchestrator.cancel(deletion_id)
    orchestrator.wait(deletion_id, Status.CANCELLED)
    assert assignments(sweeper, filled.project_id) == grants
    assert filler.connect_as(admin, filled.user_name, filled.password, filled.project_name).authorize()
    # its application credentials survived the drain
    assert left(cloud, filled.project_id)["keystone: application credentials"] == 2


def test_inherited_grants_are_named_and_only_what_follows_the_closing_counts(cloud, admin, orchestrator):
    filled = filler.fill(admin, "inherited", only=("key-manager",))
    role = cloud.admin.call("GET", "/roles?name=member")["roles"][0]["id"]
    heir = cloud.admin.ensure_user("heir", "heir", "service", ("member",))["id"]
    cloud.admin.call("PUT", f"/OS-INHERIT/domains/default/users/{heir}/roles/{role}/inherited_to_projects")
    try:
        deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
        drained = lambda r: next((c for c in r.conditions if c.type == "drained"), None)  # noqa: E731
        record = orchestrator.wait(deletion_id, until=drained)
        assert (drained(record).status, drained(record).reason) == (False, "inherited_grants")
        assert heir in drained(record).message
        record = orchestrator.wait(deletion_id, Status.DELETED)
        settled = record.closed_at + datetime.timedelta(seconds=5)
        events = orchestrator.store.events(deletion_id, 1000)
        opened = [e.at for e in events if e.event.data.get("purpose") == Purpose.LOOK]
        assert len([at for at in opened if at >= settled]) == 2
    finally:
        cloud.admin.call("DELETE", f"/OS-INHERIT/domains/default/users/{heir}/roles/{role}/inherited_to_projects")


@contextmanager
def catalogued(cloud: Cloud, type_: str, url: str):
    """A service in the catalog that was not there."""
    cloud.admin.ensure_service(type_, type_, url, "RegionOne")
    (entry,) = cloud.admin.call("GET", f"/services?type={type_}")["services"]
    try:
        yield entry
    finally:
        cloud.admin.call("DELETE", f"/services/{entry['id']}")


def test_a_service_that_nobody_answers_for_blocks_completion_until_it_is_dealt_with(cloud, admin, orchestrator):
    filled = filler.fill(admin, "uncovered", only=("key-manager",))
    with catalogued(cloud, "workflow", "http://127.0.0.1:1/"):
        deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
        gone = lambda r: orchestrator.step(deletion_id, "key-manager.secret").deleted  # noqa: E731
        orchestrator.wait(deletion_id, until=lambda r: r.status is Status.DELETING and gone(r))
        nobody = {"workflow.uncovered": "no_plugin"}
        orchestrator.wait(deletion_id, until=lambda r: orchestrator.blockers(deletion_id) == nobody)
        orchestrator.tried_again(deletion_id, "survey")
        assert orchestrator.store.get(deletion_id).status is Status.DELETING
        assert orchestrator.blockers(deletion_id) == nobody
    # It has left the catalog: what the project has there is out of sight, and not gone. An admin says to go on.
    said = lambda: orchestrator.step(deletion_id, "workflow.").message  # noqa: E731
    orchestrator.wait(deletion_id, until=lambda r: "left the catalog" in said())
    assert orchestrator.blockers(deletion_id) == nobody
    now = orchestrator.store.now()
    until = now + datetime.timedelta(hours=1)
    orchestrator.store.add_waiver(Waiver(str(uuid.uuid4()), "workflow", "it was a trial", now, until))
    record = orchestrator.wait(deletion_id, Status.DELETED)
    assert "it was a trial" in record.message
    assert left(cloud, filled.project_id) == {}


def test_a_dead_endpoint_blocks_its_own_part_and_completion(cloud, admin, orchestrator):
    filled = filler.fill(admin, "dead-endpoint", only=("network", "image"))
    for image in filled.ids["image"]:
        if admin.image.get_image(image).visibility == "community":
            admin.image.update_image(image, visibility="private")
    (image,) = cloud.admin.call("GET", "/services?type=image")["services"]
    endpoints = cloud.admin.call("GET", f"/endpoints?service_id={image['id']}")["endpoints"]
    for endpoint in endpoints:
        cloud.admin.call("PATCH", f"/endpoints/{endpoint['id']}", {"endpoint": {"url": "http://127.0.0.1:1"}})
    orchestrator.parts.clouds.admin_auth().invalidate()  # the catalog comes with the token
    try:
        deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
        gone = lambda r: orchestrator.step(deletion_id, "network.network").deleted  # noqa: E731
        orchestrator.wait(deletion_id, until=lambda r: r.status is Status.DELETING and gone(r))
        dead = lambda r: orchestrator.step(deletion_id, "image.image").reason == "unreachable"  # noqa: E731
        orchestrator.wait(deletion_id, until=dead)
        orchestrator.tried_again(deletion_id, "image.image")
        assert orchestrator.store.get(deletion_id).status is Status.DELETING
        assert dead(None)
    finally:
        for endpoint in endpoints:
            cloud.admin.call("PATCH", f"/endpoints/{endpoint['id']}", {"endpoint": {"url": endpoint["url"]}})
    orchestrator.wait(deletion_id, Status.DELETED)  # with no word from anybody: the catalog is read again
    assert left(cloud, filled.project_id) == {}


def test_a_disabled_project_is_reported_as_far_as_an_admin_can_see(cloud, admin, orchestrator):
    filled = filler.fill(admin, "disabled", only=("key-manager", "image"))
    cloud.admin.call("PATCH", f"/projects/{filled.project_id}", {"project": {"enabled": False}})
    deletion_id = orchestrator.request(filled.project_id, Mode.REPORT)
    orchestrator.wait(deletion_id, Status.LEFTOVERS)
    assert orchestrator.step(deletion_id, "image.image").outcome is Outcome.LEFTOVERS
    assert orchestrator.step(deletion_id, "key-manager.secret").outcome is Outcome.UNKNOWN
    assert orchestrator.blockers(deletion_id)["key-manager.secret"] == "no_project_token"


def test_a_project_with_children_fails_untouched(cloud, admin, orchestrator):
    parent = filler.fill(admin, "parent", only=())
    child = cloud.admin.call(
        "POST", "/projects", {"project": {"name": "child", "domain_id": "default", "parent_id": parent.project_id}}
    )["project"]["id"]
    record = orchestrator.wait(orchestrator.request(parent.project_id, Mode.CASCADE), Status.FAILED)
    assert record.reason == "project_has_children"
    assert child in record.message


def test_a_second_deletion_of_a_project_does_not_live_on_the_token_of_the_first(cloud, admin, orchestrator):
    filled = filler.fill(admin, "twice", only=("key-manager",))
    orchestrator.wait(orchestrator.request(filled.project_id, Mode.REPORT), Status.LEFTOVERS)
    orchestrator.wait(orchestrator.request(filled.project_id, Mode.CASCADE), Status.DELETED)
    assert left(cloud, filled.project_id) == {}
