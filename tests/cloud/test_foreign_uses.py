"""Neutron: what rests on the project's resources and is another project's goes on working.

Neutron lets an admin delete what it refuses to members, and changes no row of the other project in some of these cases.
So each case looks at what works: addresses, forwardings, ways out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.network import SERVICE
from tests.cloud.filler import make_project
from tests.cloud.fillings.base import Filled, Rest

PASSES = 3  # the engine asks for another sweep while there is progress


@dataclasses.dataclass
class Pair:
    """The project that is deleted, and the one whose things must go on working."""

    rest: Rest  #: of the cloud's administrator
    ours: Filled
    theirs: Filled
    undo: list[str] = dataclasses.field(default_factory=list)  #: paths of what is of the whole cloud

    def make(self, collection: str, key: str, owner: Filled, **body: object) -> dict:
        return self.rest.call("POST", f"/{collection}", {key: {"project_id": owner.project_id, **body}})[key]

    def show(self, path: str, key: str) -> dict | None:
        return self.rest.call("GET", path, ok=(404,)).get(key)

    def network(self, owner: Filled, cidr: str, **subnet: object) -> tuple[str, dict]:
        """Make a network with one subnet, and share it with the other project."""
        network = self.make("networks", "network", owner)["id"]
        other = self.theirs if owner is self.ours else self.ours
        grant = {"object_type": "network", "object_id": network, "action": "access_as_shared"}
        self.make("rbac-policies", "rbac_policy", owner, **grant, target_tenant=other.project_id)
        return network, self.make("subnets", "subnet", owner, network_id=network, ip_version=4, cidr=cidr, **subnet)

    def port(self, owner: Filled, network: str, **body: object) -> dict:
        return self.make("ports", "port", owner, network_id=network, **body)

    def router(self, owner: Filled, **body: object) -> str:
        return self.make("routers", "router", owner, **body)["id"]

    def plug(self, router: str, **what: str) -> str:
        return self.rest.call("PUT", f"/routers/{router}/add_router_interface", what)["port_id"]

    def address(self, owner: Filled, **body: object) -> dict:
        public = self.rest.call("GET", "/networks?name=public")["networks"][0]["id"]
        return self.make("floatingips", "floatingip", owner, floating_network_id=public, **body)

    def outward(self) -> dict:
        public = self.rest.call("GET", "/networks?name=public")["networks"][0]["id"]
        return {"external_gateway_info": {"network_id": public}}

    def forward(self, address: str, port: dict, by: Filled) -> str:
        body = {
            "internal_port_id": port["id"],
            "internal_ip_address": port["fixed_ips"][0]["ip_address"],
            "internal_port": 80,
            "external_port": 8080,
            "protocol": "tcp",
        }
        path = f"/floatingips/{address}/port_forwardings"
        return Rest(by.connection.network).call("POST", path, {"port_forwarding": body})["port_forwarding"]["id"]


@pytest.fixture
def pair(admin, request):
    name = request.node.callspec.id
    password = "a password of the test"
    ours = make_project(admin, f"uses-{name}-ours", password=password, partner=None)
    theirs = make_project(admin, f"uses-{name}-theirs", password=password, partner=None)
    made = Pair(Rest(admin.network), ours, theirs)
    yield made
    for path in made.undo:
        made.rest.call("DELETE", path, ok=(404,))


#: What is expected: the leftovers by type and id, each with the blockers, and a check of what has to work.
Case = tuple[dict[tuple[str, str], set[tuple[str, str]]], Callable[[], bool]]


def addresses_and_a_forwarding_on_ports(pair: Pair) -> Case:
    network, subnet = pair.network(pair.theirs, "10.70.0.0/24")
    pair.plug(pair.router(pair.theirs, **pair.outward()), subnet_id=subnet["id"])
    first, second, third = (pair.port(pair.ours, network) for _ in range(3))
    shared = pair.address(pair.theirs)
    forwarding = pair.forward(shared["id"], first, pair.theirs)
    bound = pair.address(pair.theirs, port_id=second["id"])

    def works() -> bool:
        path = f"/floatingips/{shared['id']}/port_forwardings/{forwarding}"
        one, other = pair.show(path, "port_forwarding"), pair.show(f"/floatingips/{bound['id']}", "floatingip")
        return bool(one) and one["internal_port_id"] == first["id"] and other["port_id"] == second["id"]

    assert third
    return {
        ("port", first["id"]): {("network.port_forwarding", forwarding)},
        ("port", second["id"]): {("network.floating_ip", bound["id"])},
    }, works


def the_gateway_of_a_subnet(pair: Pair) -> Case:
    network, subnet = pair.network(pair.theirs, "10.75.0.0/24")
    pair.port(pair.theirs, network)
    # As a member of the project: so the interface and its port belong to it.
    router = pair.router(pair.ours, **pair.outward())
    member = Rest(pair.ours.connection.network)
    body = {"subnet_id": subnet["id"]}
    interface = member.call("PUT", f"/routers/{router}/add_router_interface", body)["port_id"]
    works = lambda: pair.show(f"/ports/{interface}", "port")["fixed_ips"][0]["ip_address"] == "10.75.0.1"  # noqa: E731
    return {
        ("router", router): {("network.subnet", subnet["id"])},
    }, works


def an_address_and_a_forwarding_to_a_port_of_others(pair: Pair) -> Case:
    network, subnet = pair.network(pair.ours, "10.71.0.0/24")
    router = pair.router(pair.ours, **pair.outward())
    interface = pair.plug(router, subnet_id=subnet["id"])
    first, second = (pair.port(pair.theirs, network) for _ in range(2))
    shared, bound = pair.address(pair.ours), pair.address(pair.ours, port_id=second["id"])
    forwarding = pair.forward(shared["id"], first, pair.ours)

    def works() -> bool:
        path = f"/floatingips/{shared['id']}/port_forwardings/{forwarding}"
        other, way = pair.show(f"/floatingips/{bound['id']}", "floatingip"), pair.show(f"/ports/{interface}", "port")
        return bool(pair.show(path, "port_forwarding")) and other["port_id"] == second["id"] and bool(way)

    theirs = {("network.port", first["id"]), ("network.port", second["id"])}
    return {
        ("port_forwarding", forwarding): {("network.port", first["id"])},
        ("floating_ip", bound["id"]): {("network.port", second["id"])},
        ("router", router): theirs,
        ("network", network): theirs,
    }, works


def a_gateway_that_is_a_plain_port(pair: Pair) -> Case:
    network, subnet = pair.network(pair.theirs, "10.72.0.0/24")
    fixed = [{"subnet_id": subnet["id"], "ip_address": "10.72.0.1"}]
    port = pair.port(pair.ours, network, fixed_ips=fixed)
    return {("port", port["id"]): {("network.subnet", subnet["id"])}}, lambda: bool(
        pair.show(f"/ports/{port['id']}", "port")
    )


def the_next_hop_of_a_router(pair: Pair) -> Case:
    network, subnet = pair.network(pair.theirs, "10.73.0.0/24")
    router = pair.router(pair.theirs)
    pair.plug(router, subnet_id=subnet["id"])
    port = pair.port(pair.ours, network)
    hop = port["fixed_ips"][0]["ip_address"]
    routes = [{"destination": "10.99.0.0/24", "nexthop": hop}]
    pair.rest.call("PUT", f"/routers/{router}", {"router": {"routes": routes}})
    return {("port", port["id"]): {("network.router", router)}}, lambda: bool(pair.show(f"/ports/{port['id']}", "port"))


def the_way_out_of_a_shared_network(pair: Pair) -> Case:
    network, subnet = pair.network(pair.ours, "10.74.0.0/24")
    router = pair.router(pair.ours, **pair.outward())
    interface = pair.plug(router, subnet_id=subnet["id"])
    user = pair.port(pair.theirs, network)
    hop = pair.port(pair.ours, network)["fixed_ips"][0]["ip_address"]
    routes = [{"destination": "10.98.0.0/24", "nexthop": hop}]
    pair.rest.call("PUT", f"/routers/{router}", {"router": {"routes": routes}})

    def works() -> bool:
        shown = pair.show(f"/routers/{router}", "router")
        return bool(pair.show(f"/ports/{interface}", "port")) and shown["routes"] == routes

    theirs = {("network.port", user["id"])}
    return {("router", router): theirs, ("network", network): theirs}, works


def a_port_in_a_trunk(pair: Pair) -> Case:
    network, _ = pair.network(pair.ours, "10.76.0.0/24")
    parent, sub = pair.port(pair.ours, network), pair.port(pair.theirs, network)
    subs = [{"port_id": sub["id"], "segmentation_type": "vlan", "segmentation_id": 7}]
    trunk = pair.make("trunks", "trunk", pair.ours, port_id=parent["id"], sub_ports=subs)["id"]
    theirs = {("network.port", sub["id"])}
    return {
        ("trunk", trunk): theirs,
        ("network", network): theirs,
    }, lambda: [one["port_id"] for one in pair.show(f"/trunks/{trunk}", "trunk")["sub_ports"]] == [sub["id"]]


def a_grant_of_a_network_of_others(pair: Pair) -> Case:
    network = pair.make("networks", "network", pair.theirs)["id"]
    grant = {"object_type": "network", "object_id": network, "action": "access_as_shared"}
    made = pair.make("rbac-policies", "rbac_policy", pair.ours, **grant, target_tenant="f" * 32)["id"]
    return {("rbac_policy", made): {("network.network", network)}}, lambda: bool(
        pair.show(f"/rbac-policies/{made}", "rbac_policy")
    )


def the_template_of_default_groups(pair: Pair) -> Case:
    group = pair.make("security-groups", "security_group", pair.ours, name="template")["id"]
    body = {"direction": "ingress", "remote_group_id": group, "ethertype": "IPv4"}
    body |= {"used_in_default_sg": True, "used_in_non_default_sg": False}
    made = pair.rest.call("POST", "/default-security-group-rules", {"default_security_group_rule": body})
    rule = made["default_security_group_rule"]["id"]
    path = f"/default-security-group-rules/{rule}"
    pair.undo.append(path)
    return {("security_group", group): {("network.default_security_group_rule", rule)}}, lambda: bool(
        pair.show(path, "default_security_group_rule")
    )


def a_gateway_that_servers_share(pair: Pair) -> Case:
    """Two servers have the address of the gateway by turns (VRRP): it is no port's own."""
    network, _ = pair.network(pair.ours, "10.77.0.0/24", gateway_ip="10.77.0.9")
    port = pair.port(pair.ours, network, allowed_address_pairs=[{"ip_address": "10.77.0.9"}])
    theirs = {("network.port", pair.port(pair.theirs, network)["id"])}
    return {("port", port["id"]): theirs, ("network", network): theirs}, lambda: bool(
        pair.show(f"/ports/{port['id']}", "port")
    )


def the_address_of_a_load_balancer_of_others(pair: Pair) -> Case:
    """Octavia gives the port of the address to the project of the load balancer, and its own ports to itself."""
    network, subnet = pair.network(pair.ours, "10.78.0.0/24")
    pair.plug(pair.router(pair.ours, **pair.outward()), subnet_id=subnet["id"])
    id_ = "5c0c2a9f-5f0a-4f5e-8a5e-3a4c1a1f0b11"
    named = {"name": f"octavia-lb-{id_}", "device_owner": "Octavia", "device_id": f"lb-{id_}"}
    port = pair.port(pair.theirs, network, **named, admin_state_up=False)
    bound = pair.address(pair.ours, port_id=port["id"])
    theirs = {("network.port", port["id"])}
    works = lambda: (pair.show(f"/floatingips/{bound['id']}", "floatingip") or {}).get("port_id") == port["id"]  # noqa: E731
    return {("floating_ip", bound["id"]): theirs, ("network", network): theirs}, works


CASES = (
    a_gateway_that_servers_share,
    the_address_of_a_load_balancer_of_others,
    addresses_and_a_forwarding_on_ports,
    the_gateway_of_a_subnet,
    an_address_and_a_forwarding_to_a_port_of_others,
    a_gateway_that_is_a_plain_port,
    the_next_hop_of_a_router,
    the_way_out_of_a_shared_network,
    a_port_in_a_trunk,
    a_grant_of_a_network_of_others,
    the_template_of_default_groups,
)


def left(swept):
    return {(name, one.id): one for name, each in swept.items() for one in each.leftovers}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_what_rests_on_the_projects_resources_goes_on_working(pair, sweeper, case):
    expected, works = case(pair)
    assert works()
    foreseen = left(sweeper.inventory(SERVICE, pair.ours, foresee=True))
    for _ in range(PASSES):
        swept = sweeper.delete(SERVICE, pair.ours)
    assert not [name for name, each in swept.items() if each.outcome is Outcome.UNKNOWN]
    found = {
        key: {(blocker["type"], blocker["id"]) for blocker in one.blocked_by}
        for key, one in left(swept).items()
        if one.reason is Reason.FOREIGN
    }
    assert {key: found.get(key) for key in expected} == expected
    assert works()
    assert {key: foreseen[key].reason for key in expected} == dict.fromkeys(expected, Reason.FOREIGN)
