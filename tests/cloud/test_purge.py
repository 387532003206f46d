"""Mode ``purge`` with a real Nova, Neutron, Cinder and Swift: what is selected goes, and the project is given back."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import secrets
import time
from collections.abc import Iterator

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.selection import EVERYTHING, Selection
from tests.cloud import filler
from tests.cloud.fillings.base import Filled, Rest
from tests.cloud.fillings.block_storage import await_status
from tests.cloud.fillings.compute import await_server, compute, make_server
from tests.cloud.fillings.image import make_image
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import Orchestrator

NAME = f"purged-{secrets.token_hex(2)}"
#: Databases of the services in which the projects have something.
SERVICES = ("nova", "neutron", "cinder", "glance", "swift")


@pytest.fixture
def orchestrator(full_cloud: Cloud, tmp_path: pathlib.Path) -> Iterator[Orchestrator]:
    made = Orchestrator(full_cloud, tmp_path)
    yield made
    made.running.close()


@pytest.fixture(scope="module")
def neighbour(full_admin) -> Filled:
    """A project with the same resources."""
    return furnish(full_admin, f"{NAME}-neighbour")


@pytest.fixture(scope="module")
def project(full_admin, full_sweeper, neighbour) -> Filled:
    filled = furnish(full_admin, NAME)
    full_sweeper.enter(filled)
    return filled


def furnish(admin, name: str) -> Filled:
    """Make a project with a server on a network, a free port, a volume, an image and a container."""
    filled = filler.make_project(admin, name, password=None, partner=None)
    network, volumes = Rest(filled.connection.network), Rest(filled.connection.block_storage)
    net = network.call("POST", "/networks", {"network": {"name": name}})["network"]["id"]
    subnet = {"network_id": net, "ip_version": 4, "cidr": "10.0.0.0/24"}
    network.call("POST", "/subnets", {"subnet": subnet})
    used, free = (
        network.call("POST", "/ports", {"port": {"network_id": net, "name": f"{name}-{what}"}})["port"]["id"]
        for what in ("used", "free")
    )
    filled.note("network", net)
    filled.note("port", used, free)
    filled.note("image", make_image(Rest(filled.connection.image), filled.project_id, name))
    server = make_server(filled, name, imageRef=filled.first("image"), networks=[{"port": used}])
    await_server(compute(admin), server, "ACTIVE")
    filled.note("server", server)
    filled.note("volume", volumes.call("POST", "/volumes", {"volume": {"name": name, "size": 1}})["volume"]["id"])
    filled.connection.object_store.create_container(name)
    return filled


def empty(orchestrator: Orchestrator, filled: Filled, selection: Selection, *statuses: Status):
    """Have a project purged, and return the record and the leftovers by ID."""
    deletion_id = orchestrator.request(filled.project_id, Mode.PURGE, selection=selection)
    record = orchestrator.wait(deletion_id, *statuses, seconds=600)
    assert not record.has_changes
    rows = orchestrator.store.leftovers(deletion_id, 1000)
    return record, {row.leftover.id: row.leftover for row in rows}


def there(connection, service: str, path: str) -> bool:
    """Whether a resource exists."""
    found = getattr(connection, service).get(path)
    assert found.status_code in (200, 404), found.text
    return found.status_code == 200


def test_ports_of_servers_that_are_not_selected_stay(full_admin, project, orchestrator):
    used, free = project.ids["port"]
    record, left = empty(orchestrator, project, Selection(types=("network.port",)), Status.LEFTOVERS)
    assert not there(full_admin, "network", f"/ports/{free}")
    assert there(full_admin, "network", f"/ports/{used}")
    assert compute(full_admin).call("GET", f"/servers/{project.first('server')}")["server"]["status"] == "ACTIVE"
    assert left[project.first("server")].reason == left[project.first("volume")].reason == "not_selected"
    assert left[used].reason == "in_use" and left[used].blocked_by[0]["id"] == project.first("server")
    assert "1 left in network.port" in record.message


def test_only_what_is_older_than_the_selection_says_goes(full_admin, project, orchestrator):
    volumes = Rest(project.connection.block_storage)
    created = volumes.call("GET", f"/volumes/{project.first('volume')}")["volume"]["created_at"]
    before = datetime.datetime.fromisoformat(created) + datetime.timedelta(seconds=1)
    young = volumes.call("POST", "/volumes", {"volume": {"name": "young", "size": 1}})["volume"]["id"]
    selection = Selection(services=("block-storage",), created_before=before)
    record, left = empty(orchestrator, project, selection, Status.PURGED)
    assert not there(full_admin, "block_storage", f"/volumes/{project.first('volume')}")
    assert there(full_admin, "block_storage", f"/volumes/{young}")
    assert left[young].reason == "not_selected" and "it was created at" in left[young].message
    assert "not selected stay" in record.message


def test_only_what_has_the_tag_goes(full_admin, project, orchestrator):
    made = {}
    for name in ("marked", "plain"):
        net = project.connection.network.post("/networks", json={"network": {"name": name}}).json()["network"]
        made[name] = net["id"]
    project.connection.network.put(f"/networks/{made['marked']}/tags/temporary")
    _, left = empty(orchestrator, project, Selection(services=("network",), tags=("temporary",)), Status.PURGED)
    assert not there(full_admin, "network", f"/networks/{made['marked']}")
    assert there(full_admin, "network", f"/networks/{made['plain']}")
    assert left[made["plain"]].message == "it does not have the tag 'temporary'"


def test_a_server_with_a_port_of_a_skipped_type_stays(full_admin, project, orchestrator):
    selection = Selection(services=("compute",), skip=("network.port", "network.router_port"))
    _, left = empty(orchestrator, project, selection, Status.PURGED)
    assert there(full_admin, "compute", f"/servers/{project.first('server')}")
    assert left[project.first("server")].message.endswith("is of a skipped type")


def test_only_what_has_a_selected_name_goes(full_admin, project, orchestrator):
    made = {}
    for name in ("test-1", "test-prod", "other", ""):
        net = project.connection.network.post("/networks", json={"network": {"name": name}}).json()["network"]
        made[name] = net["id"]
    selection = Selection(services=("network",), names=("test-*",), not_names=("*prod",))
    _, left = empty(orchestrator, project, selection, Status.PURGED)
    there_now = {name for name, id_ in made.items() if there(full_admin, "network", f"/networks/{id_}")}
    assert there_now == {"test-prod", "other", ""}
    assert left[made[""]].message == "it has no name"


def test_what_a_delete_changes_is_selected_by_its_last_change_all_the_same(full_admin, project, orchestrator):
    """The delete of the server detaches the volume, which Cinder counts as a change."""
    volumes, nova = Rest(project.connection.block_storage), compute(full_admin)
    ids = {}
    for name in ("attached", "touched"):
        body = {"volume": {"name": name, "size": 1}}
        ids[name] = volumes.call("POST", "/volumes", body)["volume"]["id"]
        await_status(volumes, "volumes", ids[name], "available")
    server = make_server(project, "holder", imageRef=project.first("image"), networks="none")
    await_server(nova, server, "ACTIVE")
    body = {"volumeAttachment": {"volumeId": ids["attached"]}}
    compute(project.connection).call("POST", f"/servers/{server}/os-volume_attachments", body)
    await_status(volumes, "volumes", ids["attached"], "in-use")
    before = datetime.datetime.now(datetime.UTC).replace(tzinfo=None, microsecond=0) + datetime.timedelta(seconds=2)
    time.sleep(4)
    volumes.call("PUT", f"/volumes/{ids['touched']}", {"volume": {"name": "touched again"}})
    selection = Selection(types=("compute.server", "block-storage.volume"), names=("holder", "attached", "touched*"))
    selection = dataclasses.replace(selection, updated_before=before)
    _, left = empty(orchestrator, project, selection, Status.PURGED)
    assert not there(full_admin, "compute", f"/servers/{server}")
    assert not there(full_admin, "block_storage", f"/volumes/{ids['attached']}")
    assert left[ids["touched"]].message.startswith("it was changed at")


def test_a_dry_run_names_what_would_go_and_changes_nothing(full_sweeper, project, orchestrator):
    before = full_sweeper.live(project.project_id, *SERVICES)
    selection = Selection(types=("compute.server",))
    record = orchestrator.request(project.project_id, Mode.PURGE, dry_run=True, selection=selection)
    orchestrator.wait(record, Status.PLANNED)
    assert orchestrator.store.planned(record, "RegionOne", "compute", "server") == {project.first("server")}
    assert full_sweeper.live(project.project_id, *SERVICES) == before


def test_a_project_loses_all_that_it_has_and_its_members_work_on(full_sweeper, project, neighbour, orchestrator):
    grants = full_sweeper.assignments(project.project_id)
    others = full_sweeper.dump_of(neighbour.project_id)
    before = full_sweeper.live(project.project_id, *SERVICES)
    record, left = empty(orchestrator, project, EVERYTHING, Status.PURGED)
    after = full_sweeper.live(project.project_id, *SERVICES)
    print(f"\nrows before: {sum(before.values())}, after: {after}; {record.message}")
    assert left == {}
    assert before["nova.instances"] and before["neutron.ports"]
    assert set(after) <= SETTINGS
    assert full_sweeper.assignments(project.project_id) == grants
    assert full_sweeper.dump_of(neighbour.project_id) == others
    member = project.connection
    member.session.invalidate()
    net = member.network.post("/networks", json={"network": {"name": "again"}})
    assert net.status_code == 201
    member.network.delete(f"/networks/{net.json()['network']['id']}")


#: What stays with the project.
SETTINGS = {
    *("neutron.default_security_group", "neutron.securitygroups", "neutron.securitygrouprules"),
    "swift.accounts",
}
