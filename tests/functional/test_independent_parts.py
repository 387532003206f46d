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
@pytest.mark.slow
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


@with_cloud(things={GROUP: 1})
@pytest.mark.slow
def test_a_kept_floating_ip_keeps_its_router_and_no_other_one(emulated, tmp_path):
    [project] = emulated.projects
    add = emulated.state.add
    busy, free = (add(REGION, "network.network", project, name=name) for name in ("busy", "free"))
    used, unused = (add(REGION, "network.router", project, name=name) for name in ("used", "unused"))
    interfaces = [
        add(REGION, "network.port", project, network_id=network.id, device_id=router.id,
            device_owner="network:router_interface")
        for network, router in ((busy, used), (free, unused))
    ]  # fmt: skip
    address = add(REGION, "network.floating_ip", project, router_id=used.id, tags=["keep"])
    with Orchestrator(emulated, tmp_path, protection={"keep_tags": "keep"}) as made:
        id_ = made.request(project)
        wait("the unused router is gone", lambda: unused.id not in unused.table.rows, LONG)
        wait("the free network is gone", lambda: free.id not in free.table.rows, LONG)
        wait("it is told", lambda: used.id in left(made, id_) and left(made, id_)[used.id].reason == "in_use", LONG)
        kept = left(made, id_)[used.id]
        assert kept.message == f"network.floating_ip {address.id} may need it, and is still there"
        assert interfaces[0].id in interfaces[0].table.rows, "the way to the kept address was not touched"
        address.table.change(address, {"tags": []})
        assert made.wait([id_], LONG) == {id_: Status.DELETED}
    assert emulated.audit.deleted_while_not_empty() == []


@with_cloud(without=("network",))
@pytest.mark.slow
def test_a_shared_container_keeps_its_secrets_and_no_other_one(emulated, tmp_path):
    [project] = emulated.projects
    key, *_others = secrets(emulated)
    references = [{"name": "certificate", "secret_ref": f"http://keys/v1/secrets/{key}"}]
    consumers = [{"name": "somebody", "URL": "http://elsewhere"}]
    container = emulated.state.add(
        REGION, "key-manager.container", project, secret_refs=references, consumers=consumers, readers=["a stranger"]
    )
    with Orchestrator(emulated, tmp_path) as made:
        id_ = made.request(project)
        wait("the other secrets are gone", lambda: secrets(emulated) == [key], LONG)
        wait("it is told", lambda: left(made, id_)[key].reason == "in_use", LONG)
        assert left(made, id_)[key].blocked_by[0]["id"] == container.id
        assert left(made, id_)[container.id].reason == "protected"
        container.table.change(container, {"readers": []})
        assert made.wait([id_], LONG) == {id_: Status.DELETED}
    assert emulated.audit.deleted_while_not_empty() == []
