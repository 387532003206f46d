"""What another project uses of the project's resources goes on working, in each service of the whole cloud.

An admin, or the project itself, has made each of these uses, and the services let an admin delete what is used. Each
case looks at what works for the other project, and not only at rows.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest
from openstack.connection import Connection

from cleanup_orchestrator.core.deletion import Mode
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins import (
    block_storage,
    compute,
    image,
    key_manager,
    orchestration,
    shared_file_system,
)
from cleanup_orchestrator.plugins.base import Service
from tests.cloud.conftest import Sweeper
from tests.cloud.filler import connect_as, make_project
from tests.cloud.fillings.base import Filled, Filling, Rest
from tests.cloud.fillings.block_storage import cinder, make_volume
from tests.cloud.fillings.compute import await_server, make_server
from tests.cloud.fillings.compute import compute as nova
from tests.cloud.fillings.image import DATA, make_image
from tests.cloud.fillings.shared_file_system import client as manila_client
from tests.cloud.fillings.shared_file_system import share as make_share
from tests.cloud.fillings.shared_file_system import share_type
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import Orchestrator

PASSES = 3  #: the engine asks for another sweep while there is progress
SECONDS = 300
_ATTACHMENTS = "2.79"  #: the first microversion in which an attachment says whether its volume goes with the server


@dataclasses.dataclass
class Pair:
    """The project that is deleted, and the one whose things must go on working."""

    cloud: Cloud
    admin: Connection
    ours: Filled
    theirs: Filled
    members: list[str] = dataclasses.field(default_factory=list)  #: more users with a role on the project

    @property
    def neutron(self) -> Rest:
        return Rest(self.admin.network)

    def port(self, owner: Filled, cidr: str, of: Filled) -> dict[str, Any]:
        """Make a port on a network of a project, which is shared with the other one, with a way out."""
        other = self.theirs if of is self.ours else self.ours
        body = {"project_id": of.project_id}
        network = self.neutron.call("POST", "/networks", {"network": body})["network"]["id"]
        subnet = {**body, "network_id": network, "ip_version": 4, "cidr": cidr}
        subnet_id = self.neutron.call("POST", "/subnets", {"subnet": subnet})["subnet"]["id"]
        grant = {"object_type": "network", "object_id": network, "action": "access_as_shared"}
        self.neutron.call(
            "POST", "/rbac-policies", {"rbac_policy": {**body, **grant, "target_tenant": other.project_id}}
        )
        router = {**body, "external_gateway_info": {"network_id": self.public()}}
        router_id = self.neutron.call("POST", "/routers", {"router": router})["router"]["id"]
        self.neutron.call("PUT", f"/routers/{router_id}/add_router_interface", {"subnet_id": subnet_id})
        made = {"network_id": network, "project_id": owner.project_id}
        port: dict[str, Any] = self.neutron.call("POST", "/ports", {"port": made})["port"]
        return port

    def public(self) -> str:
        """Return an external network with addresses; make one if there is none. Other tests make some without."""
        all_ = self.neutron.call("GET", "/networks", params={"router:external": "true", "name": "public"})["networks"]
        found = [network for network in all_ if network["subnets"]]
        if not found:
            body = {"name": "public", "router:external": True}
            found = [self.neutron.call("POST", "/networks", {"network": body})["network"]]
            subnet = {"network_id": found[0]["id"], "ip_version": 4, "cidr": "203.0.113.0/24", "enable_dhcp": False}
            self.neutron.call("POST", "/subnets", {"subnet": subnet})
        id_: str = found[0]["id"]
        return id_

    def address(self, port_id: str) -> str:
        """Give a port a floating IP of the other project, as an admin."""
        body = {"floating_network_id": self.public(), "project_id": self.theirs.project_id, "port_id": port_id}
        made: str = self.neutron.call("POST", "/floatingips", {"floatingip": body})["floatingip"]["id"]
        return made

    def leads_to(self, address: str, port_id: str) -> bool:
        return bool(self.neutron.call("GET", f"/floatingips/{address}")["floatingip"]["port_id"] == port_id)


#: The service that is swept, the expected leftovers with the types that they name, and a check of what has to work.
Case = tuple[Service, dict[tuple[str, str], set[str]], Callable[[], bool]]


def until(done: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (found := done()):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return found


def stack(pair: Pair, resources: dict[str, Any], **more: Any) -> dict[str, str]:
    """Make a stack as a member of the project; return its id, and the ids of its resources by name."""
    heat = Rest(pair.ours.connection.orchestration)
    template = {"heat_template_version": "2018-08-31", "resources": resources}
    made = heat.call("POST", "/stacks", {"stack_name": "of-use", "template": template, **more})["stack"]["id"]

    def ready() -> bool:
        row = heat.call("GET", f"/stacks/of-use/{made}")["stack"]
        assert row["stack_status"] in ("CREATE_IN_PROGRESS", "CREATE_COMPLETE"), row["stack_status_reason"]
        return bool(row["stack_status"] == "CREATE_COMPLETE")

    until(ready)
    rows = heat.call("GET", f"/stacks/of-use/{made}/resources", params={"nested_depth": 5})["resources"]
    return {"stack": made} | {row["resource_name"]: row["physical_resource_id"] for row in rows}


# Heat deletes the rules of a group before it finds out that Neutron refuses to delete the group.
def a_security_group_of_a_stack(pair: Pair) -> Case:
    made = stack(pair, {"group": {"type": "OS::Neutron::SecurityGroup",
                                  "properties": {"rules": [{"protocol": "tcp", "port_range_min": 22,
                                                            "port_range_max": 22}]}}})  # fmt: skip
    group = made["group"]
    grant = {"object_type": "security_group", "object_id": group, "action": "access_as_shared"}
    grant |= {"project_id": pair.ours.project_id, "target_tenant": pair.theirs.project_id}
    pair.neutron.call("POST", "/rbac-policies", {"rbac_policy": grant})
    port = pair.port(pair.theirs, "10.60.0.0/24", pair.theirs)
    body = {"port": {"security_groups": [group]}}
    Rest(pair.theirs.connection.network).call("PUT", f"/ports/{port['id']}", body)

    def works() -> bool:
        rules = pair.neutron.call("GET", f"/security-groups/{group}")["security_group"]["security_group_rules"]
        return any(rule["port_range_min"] == 22 for rule in rules)

    return orchestration.SERVICE, {("stack", made["stack"]): {"network.port"}}, works


def a_port_of_a_stack_under_another_name(pair: Pair) -> Case:
    """The environment of the stack gives the type of Heat another name, and the port is in a stack below it."""
    network = pair.port(pair.theirs, "10.61.0.0/24", pair.theirs)["network_id"]
    inner = {"heat_template_version": "2018-08-31",
             "resources": {"leaf": {"type": "My::Thing", "properties": {"network": network}}}}  # fmt: skip
    more = {
        "files": {"inner.yaml": json.dumps(inner)},
        "environment": {"resource_registry": {"My::Thing": "OS::Neutron::Port"}},
    }
    made = stack(pair, {"below": {"type": "inner.yaml"}}, **more)
    address = pair.address(made["leaf"])
    works = lambda: pair.leads_to(address, made["leaf"])  # noqa: E731
    return orchestration.SERVICE, {("stack", made["stack"]): {"network.floating_ip"}}, works


def a_router_interface_of_a_stack(pair: Pair) -> Case:
    """The interface is the gateway of a subnet of the other project."""
    body = {"project_id": pair.theirs.project_id}
    network = pair.neutron.call("POST", "/networks", {"network": body})["network"]["id"]
    subnet = {**body, "network_id": network, "ip_version": 4, "cidr": "10.62.0.0/24"}
    subnet_id = pair.neutron.call("POST", "/subnets", {"subnet": subnet})["subnet"]["id"]
    grant = {**body, "object_type": "network", "object_id": network, "action": "access_as_shared"}
    pair.neutron.call("POST", "/rbac-policies", {"rbac_policy": {**grant, "target_tenant": pair.ours.project_id}})
    pair.neutron.call("POST", "/ports", {"port": {**body, "network_id": network}})
    made = stack(pair, {
        "router": {"type": "OS::Neutron::Router",
                   "properties": {"external_gateway_info": {"network": pair.public()}}},
        "interface": {"type": "OS::Neutron::RouterInterface",
                      "properties": {"router": {"get_resource": "router"}, "subnet": subnet_id}},
    })  # fmt: skip

    def works() -> bool:
        query = {"device_id": made["router"], "fixed_ips": f"subnet_id={subnet_id}"}
        ports = pair.neutron.call("GET", "/ports", params=query)["ports"]
        return [port["fixed_ips"][0]["ip_address"] for port in ports] == ["10.62.0.1"]

    return orchestration.SERVICE, {("stack", made["stack"]): set()}, works


def the_data_of_an_image(pair: Pair) -> Case:
    """A Cinder store of Glance names the image in the metadata of the volume."""
    theirs = make_image(Rest(pair.theirs.connection.image), pair.theirs.project_id, "of a volume")
    note = {"glance_image_id": theirs, "image_owner": pair.theirs.project_id}
    held = make_volume(pair.ours, f"image-{theirs}", metadata=note)
    free = make_volume(pair.ours, "free", metadata={"glance_image_id": secrets.token_hex(16)})
    volumes = cinder(pair.admin)
    works = lambda: volumes.raw("GET", f"/volumes/{held}", ok=(404,)).status_code == 200  # noqa: E731
    assert free
    return block_storage.SERVICE, {("volume", held): {"image.image"}}, works


def a_snapshot_of_a_volume_that_was_transferred(pair: Pair) -> Case:
    mine = make_volume(pair.theirs, "given away")
    theirs, ours = cinder(pair.theirs.connection), cinder(pair.ours.connection)
    body = {"snapshot": {"volume_id": mine, "name": "kept"}}
    kept = theirs.call("POST", "/snapshots", body)["snapshot"]["id"]
    until(lambda: theirs.call("GET", f"/snapshots/{kept}")["snapshot"]["status"] == "available")
    offer = {"transfer": {"volume_id": mine, "name": "offer", "no_snapshots": True}}
    transfer = theirs.call("POST", "/volume-transfers", offer)["transfer"]
    ours.call("POST", f"/volume-transfers/{transfer['id']}/accept", {"accept": {"auth_key": transfer["auth_key"]}})
    until(lambda: ours.call("GET", f"/volumes/{mine}")["volume"]["status"] == "available")

    def works() -> bool:
        answer = theirs.raw("GET", f"/snapshots/{kept}", ok=(404,))
        return answer.status_code == 200 and bool(answer.json()["snapshot"]["status"] == "available")

    return block_storage.SERVICE, {("volume", mine): {"block-storage.snapshot"}}, works


def some_image(owner: Filled) -> str:
    return make_image(Rest(owner.connection.image), owner.project_id, "of a server")


def a_volume_on_a_server_that_takes_it_along(pair: Pair) -> Case:
    """An admin attached the volume of the other project, and so that Nova deletes it with the server."""
    server = make_server(pair.ours, "with a volume", imageRef=some_image(pair.ours))
    await_server(nova(pair.ours.connection), server, "ACTIVE")
    volume = make_volume(pair.theirs, "lent")
    admin = Rest(pair.admin.compute, {"OpenStack-API-Version": f"compute {_ATTACHMENTS}"})
    body = {"volumeAttachment": {"volumeId": volume, "delete_on_termination": True}}
    admin.call("POST", f"/servers/{server}/os-volume_attachments", body)
    until(lambda: cinder(pair.admin).call("GET", f"/volumes/{volume}")["volume"]["status"] == "in-use")

    asked: list[bool] = []

    def works() -> bool:
        if asked:  # the delete was requested: Nova asks Cinder for that of the volume after it has detached it
            until(lambda: admin.raw("GET", f"/servers/{server}", ok=(404,)).status_code == 404)
            time.sleep(5)
        asked.append(True)
        answer = cinder(pair.theirs.connection).raw("GET", f"/volumes/{volume}", ok=(404,))
        return answer.status_code == 200 and answer.json()["volume"]["status"] in ("available", "detaching", "in-use")

    return compute.SERVICE, {}, works


def a_server_with_an_address(pair: Pair) -> Case:
    port = pair.port(pair.ours, "10.63.0.0/24", pair.theirs)
    server = make_server(pair.ours, "served", networks=[{"port": port["id"]}], imageRef=some_image(pair.ours))
    await_server(nova(pair.ours.connection), server, "ACTIVE")
    address = pair.address(port["id"])
    admin = nova(pair.admin)

    def works() -> bool:
        there = admin.raw("GET", f"/servers/{server}", ok=(404,)).status_code == 200
        return there and pair.leads_to(address, port["id"])

    return compute.SERVICE, {("server", server): {"network.floating_ip"}}, works


def a_server_that_a_port_of_others_names(pair: Pair) -> Case:
    """Any member may write the id of a server on a port of his own; Nova deletes the port with the server."""
    server = make_server(pair.ours, "named", imageRef=some_image(pair.ours))
    await_server(nova(pair.ours.connection), server, "ACTIVE")
    theirs = Rest(pair.theirs.connection.network)
    network = theirs.call("POST", "/networks", {"network": {"name": "of theirs"}})["network"]["id"]
    body = {"network_id": network, "device_id": server, "device_owner": "compute:nova"}
    port = theirs.call("POST", "/ports", {"port": body})["port"]["id"]
    works = lambda: theirs.raw("GET", f"/ports/{port}", ok=(404,)).status_code == 200  # noqa: E731
    return compute.SERVICE, {("server", server): {"network.port"}}, works


def a_server_group_with_a_server(pair: Pair) -> Case:
    body = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
    group = nova(pair.ours.connection).call("POST", "/os-server-groups", body)["server_group"]["id"]
    empty = {"server_group": {"name": "empty", "policy": "anti-affinity"}}
    nova(pair.ours.connection).call("POST", "/os-server-groups", empty)
    rest = Rest(pair.admin.identity)
    admin_role = rest.call("GET", "/roles", params={"name": "admin"})["roles"][0]["id"]
    path = f"/projects/{pair.theirs.project_id}/users/{pair.theirs.user_id}/roles/{admin_role}"
    rest.call("PUT", path)
    try:  # an admin in the other project: Nova shows him the group
        as_admin = connect_as(pair.admin, pair.theirs.user_name, pair.theirs.password, pair.theirs.project_name)
        there = dataclasses.replace(pair.theirs, connection=as_admin)
        server = make_server(
            there, "member", {"os:scheduler_hints": {"group": group}}, imageRef=some_image(pair.theirs)
        )
        await_server(nova(as_admin), server, "ACTIVE")
    finally:
        rest.call("DELETE", path)

    def works() -> bool:
        rows = nova(pair.admin).call("GET", "/os-server-groups", params={"all_projects": "true"})["server_groups"]
        return any(row["id"] == group and row["members"] == [server] for row in rows)

    return compute.SERVICE, {("server_group", group): {"compute.server"}}, works


def an_image_of_a_server(pair: Pair) -> Case:
    """The other project has booted from the image, and then rejected it, so that its list does not show it."""
    mine = make_image(Rest(pair.ours.connection.image), pair.ours.project_id, "shared once")
    Rest(pair.ours.connection.image).call("POST", f"/images/{mine}/members", {"member": pair.theirs.project_id})
    server = make_server(pair.theirs, "from it", imageRef=mine)
    theirs = nova(pair.theirs.connection)
    await_server(theirs, server, "ACTIVE")
    path = f"/images/{mine}/members/{pair.theirs.project_id}"
    Rest(pair.theirs.connection.image).call("PUT", path, {"status": "rejected"})

    def works() -> bool:
        answer = theirs.raw("POST", f"/servers/{server}/action", ok=(400, 404), json={"rebuild": {"imageRef": mine}})
        return answer.status_code == 202 and bool(await_server(theirs, server, "ACTIVE"))

    return image.SERVICE, {("image", mine): {"compute.server"}}, works


def the_kernel_of_an_image(pair: Pair) -> Case:
    mine = make_image(Rest(pair.ours.connection.image), pair.ours.project_id, "kernel", visibility="private")
    make_image(Rest(pair.theirs.connection.image), pair.theirs.project_id, "with a kernel", kernel_id=mine)
    admin = Rest(pair.admin.image)

    def works() -> bool:
        answer = admin.raw("GET", f"/images/{mine}/file", ok=(204, 404))
        return answer.status_code == 200 and answer.content == DATA

    return image.SERVICE, {("image", mine): {"image.image"}}, works


def secret_of(pair: Pair, *readers: str) -> str:
    """Make a secret of the project that these users can read with a token of any project."""
    ours = Rest(pair.ours.connection.key_manager, {"OpenStack-API-Version": "key-manager 1.1"})
    body = {"name": "key", "payload": "of both", "payload_content_type": "text/plain"}
    made: str = ours.call("POST", "/secrets", body)["secret_ref"].rpartition("/")[2]
    ours.call("PUT", f"/secrets/{made}/acl", {"read": {"users": list(readers), "project-access": True}})
    return made


def reads(pair: Pair, secret: str) -> Callable[[], bool]:
    theirs = Rest(pair.theirs.connection.key_manager)
    headers = {"Accept": "text/plain"}
    return lambda: theirs.raw("GET", f"/secrets/{secret}/payload", ok=(404,), headers=headers).text == "of both"


def the_key_of_a_volume(pair: Pair) -> Case:
    """The consumer was registered by a user of both projects, who is therefore no outsider."""
    rest = Rest(pair.admin.identity)
    member = rest.call("GET", "/roles", params={"name": "member"})["roles"][0]["id"]
    rest.call("PUT", f"/projects/{pair.ours.project_id}/users/{pair.theirs.user_id}/roles/{member}")
    pair.members.append(pair.theirs.user_id)
    secret = secret_of(pair, pair.theirs.user_id)
    volume = make_volume(pair.theirs, "encrypted by it")
    theirs = Rest(pair.theirs.connection.key_manager, {"OpenStack-API-Version": "key-manager 1.1"})
    consumer = {"service": "block-storage", "resource_type": "volume", "resource_id": volume}
    theirs.call("POST", f"/secrets/{secret}/consumers", consumer)
    return key_manager.SERVICE, {("secret", secret): {"block-storage.volume"}}, reads(pair, secret)


def the_certificate_of_an_image(pair: Pair) -> Case:
    """No consumer is registered: only a property of the other project's image names it."""
    secret = secret_of(pair, pair.theirs.user_id)
    images = Rest(pair.theirs.connection.image)
    make_image(images, pair.theirs.project_id, "signed", data=None, img_signature_certificate_uuid=secret)
    return key_manager.SERVICE, {("secret", secret): {"image.image"}}, reads(pair, secret)


def a_share_that_a_client_mounts(pair: Pair) -> Case:
    """The client is at an address on the external network, which an access rule names."""
    body = {"floating_network_id": pair.public(), "project_id": pair.theirs.project_id}
    client = pair.neutron.call("POST", "/floatingips", {"floatingip": body})["floatingip"]
    f = Filling(pair.admin, pair.ours, 3600, 1)
    assert share_type(f)
    used, free = make_share(f, "used"), make_share(f, "free")
    manila = manila_client(pair.ours.connection.shared_file_system)
    for one in (used, free):
        until(lambda one=one: manila.call("GET", f"/shares/{one}")["share"]["status"] == "available")
    rule = {"allow_access": {"access_type": "ip", "access_to": client["floating_ip_address"], "access_level": "rw"}}
    manila.call("POST", f"/shares/{used}/action", rule)
    admin = manila_client(pair.admin.shared_file_system)

    def works() -> bool:
        rows = admin.call("GET", "/share-access-rules", ok=(400, 404), params={"share_id": used}).get("access_list", [])
        return [row["access_to"] for row in rows] == [client["floating_ip_address"]]

    return shared_file_system.SERVICE, {("share", used): {"network.floating_ip"}}, works


CASES = (
    a_security_group_of_a_stack,
    a_port_of_a_stack_under_another_name,
    a_router_interface_of_a_stack,
    the_data_of_an_image,
    a_snapshot_of_a_volume_that_was_transferred,
    a_volume_on_a_server_that_takes_it_along,
    a_server_with_an_address,
    a_server_that_a_port_of_others_names,
    a_server_group_with_a_server,
    an_image_of_a_server,
    the_kernel_of_an_image,
    the_key_of_a_volume,
    the_certificate_of_an_image,
    a_share_that_a_client_mounts,
)


@pytest.mark.parametrize("make", CASES, ids=lambda case: case.__name__)
def test_what_others_use_stays_and_is_named(make, full_cloud, full_admin, full_sweeper: Sweeper):
    password, tag = secrets.token_urlsafe(12), secrets.token_hex(2)
    ours, theirs = (
        make_project(full_admin, f"use-{tag}-{whose}", password=password, partner=None) for whose in ("ours", "theirs")
    )
    pair = Pair(full_cloud, full_admin, ours, theirs)
    service, expected, works = make(pair)
    assert works(), "the case is not what it should be"
    types = {type_.name for type_ in service.types if not type_.project_setting}
    for _ in range(PASSES):
        swept = full_sweeper.delete(service, ours, *pair.members)
        time.sleep(2)
    left = {(name, one.id): one for name, each in swept.items() if name in types for one in each.leftovers}
    said = {key: (one.reason, {blocker["type"] for blocker in one.blocked_by}) for key, one in left.items()}
    assert works(), said
    unnamed = {key for key, types_ in expected.items() if not types_}
    assert said.keys() == expected.keys(), said
    for key, one in left.items():
        assert one.reason is Reason.FOREIGN, (key, one)
        assert key in unnamed or {blocker["type"] for blocker in one.blocked_by} == expected[key], one
        assert {blocker["owner"] for blocker in one.blocked_by} == {theirs.project_id}, one


@pytest.fixture
def orchestrator(full_cloud, tmp_path):
    """Engine and workers in this process."""
    made = Orchestrator(full_cloud, tmp_path)
    yield made
    made.running.close()


def test_a_cascade_leaves_a_stack_until_an_admin_has_ended_the_use(orchestrator, full_cloud, full_admin):
    password, tag = secrets.token_urlsafe(12), secrets.token_hex(2)
    ours, theirs = (
        make_project(full_admin, f"use-{tag}-{whose}", password=password, partner=None) for whose in ("ours", "theirs")
    )
    pair = Pair(full_cloud, full_admin, ours, theirs)
    _service, expected, works = a_router_interface_of_a_stack(pair)
    ((_type, stack_id),) = expected
    deletion_id = orchestrator.request(ours.project_id, Mode.CASCADE)

    def rows() -> list[Any]:
        return [row for row in orchestrator.store.leftovers(deletion_id, 100) if row.leftover.id == stack_id]

    foreign = lambda _: any(row.leftover.reason == "foreign" for row in rows())  # noqa: E731
    orchestrator.wait(deletion_id, until=foreign, seconds=300)
    (row,) = rows()
    assert row.leftover.message.startswith("it contains network.router ")
    assert {blocker["project_name"] for blocker in row.leftover.blocked_by} == {theirs.project_name}
    assert works()
    query = {"device_owner": "network:router_interface", "project_id": ours.project_id}
    (port,) = pair.neutron.call("GET", "/ports", params=query)["ports"]
    pair.neutron.call("PUT", f"/routers/{port['device_id']}/remove_router_interface", {"port_id": port["id"]})
    # This engine has no janitor, whose token Heat has to get. So the use is the only thing that has changed.
    now = lambda _: orchestrator.blockers(deletion_id).get("orchestration.stack") == "no_janitor"  # noqa: E731
    orchestrator.wait(deletion_id, until=now, seconds=300)
