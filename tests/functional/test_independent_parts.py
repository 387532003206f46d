"""What waits for one blocked resource: only what it needs. From end to end over the emulated cloud."""

import pytest

from cleanup_orchestrator.core.deletion import Status
from tests.emulated.object_store import Account, Container
from tests.emulated.orchestrator import Orchestrator
from tests.support.emulated_site import with_cloud
from tests.support.timing import wait

LONG = 300
REGION = "RegionOne"
IMAGE, SECRET, GROUP = "image.image", "key-manager.secret", "network.security_group"
CLOUD = {"projects": 0, "bystanders": 1, "small": True, "fences": True, "things": {SECRET: 3}}


@pytest.fixture
def image(emulated):
    """The project's community image, whose properties name the first of its secrets."""
    [project] = emulated.projects
    key = secrets(emulated)[0]
    return emulated.state.add(REGION, IMAGE, project, visibility="community", cinder_encryption_key_id=key)


def secrets(emulated):
    return list(emulated.state.table(REGION, SECRET).owned[emulated.projects[0]])


def containers(emulated):
    return emulated.services[REGION, "object-store"].accounts[emulated.projects[0]].containers


def left(made, id_):
    return {row.leftover.id: row.leftover for row in made.store.leftovers(id_, 100)}


@with_cloud(without=("network",))
def test_a_community_image_keeps_its_key_and_its_container_and_nothing_else(emulated, image, tmp_path):
    [project] = emulated.projects
    key, *others = secrets(emulated)
    account = emulated.services[REGION, "object-store"].accounts.setdefault(project, Account())
    account.containers |= {f"glance_{image.id}": Container([image.id]), "plain": Container(["object"])}
    with Orchestrator(emulated, tmp_path) as made:
        id_ = made.request(project)
        wait("the other secrets are gone", lambda: secrets(emulated) == [key], LONG)
        wait("the other container is gone", lambda: list(containers(emulated)) == [f"glance_{image.id}"], LONG)
        wait("it is told", lambda: left(made, id_)[key].reason == "in_use", LONG)
        kept = left(made, id_)[key]
        assert kept.message == f"image.image {image.id} may need it, and is still there"
        assert kept.blocked_by == ({"type": IMAGE, "id": image.id, "owner": project},)
        assert others and image.id in left(made, id_) and made.store.get(id_).status is Status.DELETING
        image.table.change(image, {"visibility": "private"})
        assert made.wait([id_], LONG) == {id_: Status.DELETED}
        asked = [row.event for row in made.store.events(id_, 10_000) if row.event.type == "resource.deleting"]
        named = [each["id"] for event in asked for each in event.data["resources"]]
        assert named.index(image.id) < named.index(key), "the key was not touched while the image was there"
    assert emulated.audit.deleted_while_not_empty() == []


def test_a_port_in_the_trunk_of_another_project_keeps_its_network_and_no_other_one(emulated, tmp_path):
    [project] = emulated.projects
    busy, free = (emulated.state.add(REGION, "network.network", project, name=name) for name in ("busy", "free"))
    group, unused = (emulated.state.add(REGION, GROUP, project, name=name) for name in ("group", "unused"))
    port = emulated.state.add(REGION, "network.port", project, network_id=busy.id, security_groups=[group.id])
    child = {"port_id": port.id, "segmentation_type": "vlan", "segmentation_id": 7}
    theirs = emulated.bystanders[0]
    parent = emulated.state.add(REGION, "network.port", theirs, network_id=busy.id)
    trunk = emulated.state.add(REGION, "network.trunk", theirs, port_id=parent.id, sub_ports=[child])
    with Orchestrator(emulated, tmp_path) as made:
        id_ = made.request(project)
        wait("the free network is gone", lambda: free.id not in free.table.rows, LONG)
        wait("the unused group is gone", lambda: unused.id not in unused.table.rows, LONG)
        assert {port.id, parent.id, trunk.id} <= {*port.table.rows, *trunk.table.rows}
        assert busy.id in busy.table.rows and group.id in group.table.rows
        trunk.table.remove(trunk)
        parent.table.remove(parent)
        assert made.wait([id_], LONG) == {id_: Status.DELETED}
    assert emulated.audit.deleted_while_not_empty() == []
