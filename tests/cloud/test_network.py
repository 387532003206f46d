"""Neutron: everything of the project is deleted except what others use; the neighbour keeps all."""

from __future__ import annotations

import re

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.network import SERVICE
from tests.cloud.filler import fill, make_project, scan
from tests.cloud.fillings.base import Rest

PASSES = 3  # the engine asks for another sweep while there is progress


@pytest.fixture(scope="module", autouse=True)
def default_group_of_the_sweeper(sweeper):
    """The first list of security groups makes Neutron give a default group to the project of the caller."""
    list(sweeper.connection().network.security_groups())


def rows(sweeper):
    """Return the whole database of Neutron without counters, locks and revisions."""
    counters = tuple(f'INSERT INTO "{name}' for name in ("subnetpools", "ml2_", "quotausages", "network_subnet_lock"))
    lines = {line for line in sweeper.dump("neutron").splitlines() if not line.startswith(counters)}
    return {re.sub(r'("standardattributes" VALUES\(\d+,).*', r"\1", line) for line in lines}


def delete(sweeper, target, **options):
    """Sweep until there is no more progress: first the leftovers, then the project settings as well."""
    for _ in range(PASSES):
        swept = sweeper.delete(SERVICE, target, **options)
        if not left(swept):
            break
    assert not [name for name, each in swept.items() if each.outcome is Outcome.UNKNOWN]
    return swept


def left(swept):
    """{(type, id): leftover} of all types."""
    return {(name, leftover.id): leftover for name, each in swept.items() for leftover in each.leftovers}


def in_neutron(cloud, project_id):
    return {name: count for name, count in scan(cloud, project_id).items() if name.startswith("neutron.")}


def named(leftover):
    return {(blocker["type"], blocker["id"], blocker["owner"]) for blocker in leftover.blocked_by}


def port_of(rest, network, project, **more):
    body = {"network_id": network, "project_id": project.project_id, **more}
    return rest.call("POST", "/ports", {"port": body})["port"]["id"]


def rule_of(rest, group, project, **more):
    body = {"security_group_id": group, "project_id": project.project_id, "direction": "ingress", **more}
    return rest.call("POST", "/security-group-rules", {"security_group_rule": body})["security_group_rule"]["id"]


def test_an_inventory_of_a_new_project_creates_nothing(admin, sweeper, cloud, neighbour):
    """Several of Neutron's lists create a default group for the project that they filter by."""
    pristine = make_project(admin, "network-pristine", password=None, partner=None)
    before = sweeper.dump("neutron")
    listed = sweeper.inventory(SERVICE, pristine)
    assert {each.outcome for each in listed.values()} == {Outcome.CLEAR}
    assert sweeper.dump("neutron") == before
    assert not in_neutron(cloud, pristine.project_id)


def test_everything_goes(admin, sweeper, cloud, neighbour):
    before = rows(sweeper)
    target = fill(admin, "network-target", partner=neighbour.project_id, only=["network"])
    everything = Rest(admin.network)
    net, backend = target.first("network"), target.first("network", 1)
    # Ports that a server, a load balancer and a DHCP agent leave behind.
    for device_owner in ("compute:nova", "Octavia", "network:dhcp", "baremetal:none"):
        port_of(everything, net, target, device_owner=device_owner, device_id="gone")
    # A local IP on an existing port, which cannot be deleted before the local IP.
    chosen = port_of(everything, backend, target, fixed_ips=[{"subnet_id": target.first("subnet", 1)}])
    body = {"network_id": backend, "local_port_id": chosen, "project_id": target.project_id}
    everything.call("POST", "/local_ips", {"local_ip": body})
    # A subnet of the project on a network of another project.
    body = {"network_id": neighbour.first("network", 2), "ip_version": 4, "cidr": "172.30.0.0/24"}
    body["project_id"] = target.project_id
    everything.call("POST", "/subnets", {"subnet": body})
    # The default group, which stays to the end, holds an address group.
    groups = everything.call("GET", "/security-groups", params={"name": "default"})["security_groups"]
    default = next(group["id"] for group in groups if group["project_id"] == target.project_id)
    rule_of(everything, default, target, remote_address_group_id=target.first("address group"))

    filled = sweeper.dump("neutron")
    listed = sweeper.inventory(SERVICE, target)
    assert sweeper.dump("neutron") == filled
    assert {leftover.reason for leftover in left(listed).values()} == {Reason.PRESENT}
    assert [leftover.id for leftover in listed["default_security_group"].leftovers] == [default]
    assert listed["port"].kept == 1  # the DHCP port: with its network
    for kind, type_ in (("port", "port"), ("router", "router"), ("network", "network"), ("floating ip", "floating_ip"),
                        ("security group", "security_group"), ("trunk", "trunk"), ("network log", "log"),
                        ("rbac policy", "rbac_policy"), ("subnet pool", "subnet_pool")):  # fmt: skip
        assert set(target.ids[kind]) - {default} <= {leftover.id for leftover in listed[type_].leftovers}, kind

    swept = delete(sweeper, target)
    assert not left(swept)
    assert not in_neutron(cloud, target.project_id)
    assert rows(sweeper) == before


def test_what_others_use_stays_and_is_named(admin, sweeper, cloud, neighbour):
    everything = Rest(admin.network)
    target = fill(admin, "network-blocked", partner=neighbour.project_id, only=["network"])
    ours, theirs = target.project_id, neighbour.project_id
    net, backend, lonely = target.ids["network"][:3]
    router, second = target.ids["router"][:2]
    web, db = target.ids["security group"][:2]
    addresses, qos, pool = (target.first(kind) for kind in ("address group", "qos policy", "subnet pool"))
    their_group = neighbour.first("security group")

    guest = port_of(everything, net, neighbour, security_groups=[web], qos_policy_id=qos)
    public = everything.call("GET", "/networks", params={"name": "public"})["networks"][0]["id"]
    body = {"floating_network_id": public, "port_id": guest, "project_id": theirs}
    way_out = everything.call("POST", "/floatingips", {"floatingip": body})["floatingip"]["id"]
    rule = rule_of(everything, their_group, neighbour, remote_group_id=db)
    by_address = rule_of(everything, their_group, neighbour, remote_address_group_id=addresses)
    body = {"network_id": lonely, "ip_version": 4, "cidr": "172.31.0.0/24", "project_id": theirs}
    subnet = everything.call("POST", "/subnets", {"subnet": body})["subnet"]["id"]
    spare = everything.call("POST", "/networks", {"network": {"name": "spare", "project_id": theirs}})["network"]["id"]
    body = {"network_id": spare, "subnetpool_id": pool, "ip_version": 4, "project_id": theirs}
    from_pool = everything.call("POST", "/subnets", {"subnet": body})["subnet"]["id"]
    inside = [{"subnet_id": neighbour.first("subnet", 1)}]
    their_interface = port_of(everything, neighbour.first("network", 1), neighbour, fixed_ips=inside)
    everything.call("PUT", f"/routers/{second}/add_router_interface", {"port_id": their_interface})
    our_interface = port_of(everything, backend, target, fixed_ips=[{"subnet_id": target.first("subnet", 1)}])
    their_router = neighbour.first("router", 1)
    everything.call("PUT", f"/routers/{their_router}/add_router_interface", {"port_id": our_interface})
    shared = everything.call("POST", "/networks", {"network": {"name": "shared", "shared": True, "project_id": ours}})
    shared = shared["network"]["id"]
    body = {"network_id": shared, "ip_version": 4, "cidr": "172.29.0.0/24", "project_id": ours}
    on_shared = everything.call("POST", "/subnets", {"subnet": body})["subnet"]["id"]
    grant = {"object_type": "network", "object_id": neighbour.first("network"), "target_tenant": ours}
    grant |= {"action": "access_as_shared", "project_id": theirs}
    grant = everything.call("POST", "/rbac-policies", {"rbac_policy": grant})["rbac_policy"]["id"]

    # A grant of the target to the neighbour belongs to the target.
    before = {line for line in rows(sweeper) if theirs in line and ours not in line}
    swept = delete(sweeper, target)
    assert {line for line in rows(sweeper) if theirs in line and ours not in line} == before

    found = left(swept)
    for key, blockers in {
        ("network", net): {("network.port", guest, theirs)},
        ("network", lonely): {("network.subnet", subnet, theirs)},
        ("router", router): {("network.floating_ip", way_out, theirs)},
        ("router", second): {("network.port", their_interface, theirs)},
        ("router_port", our_interface): {("network.router", their_router, theirs)},
        ("security_group", web): {("network.port", guest, theirs)},
        ("security_group", db): {("network.security_group_rule", rule, theirs)},
        ("address_group", addresses): {("network.security_group_rule", by_address, theirs)},
        ("qos_policy", qos): {("network.port", guest, theirs)},
        ("subnet_pool", pool): {("network.subnet", from_pool, theirs)},
    }.items():
        assert found[key].reason is Reason.FOREIGN, found[key]
        assert named(found[key]) == blockers, found[key]
    assert found["network", shared].reason is found["subnet", on_shared].reason is Reason.PROTECTED
    # The network waits for a port of the project, which is an interface of another project's router, and for those of
    # the project's router that is left: nothing of it is taken away.
    assert found["network", backend].reason is Reason.IN_USE
    waits_for = named(found["network", backend])
    assert ("network.port", our_interface, ours) in waits_for
    interfaces = everything.call("GET", "/ports", params={"device_id": second, "network_id": backend})["ports"]
    assert {("network.port", port["id"], port["project_id"]) for port in interfaces} <= waits_for
    assert {owner for _, _, owner in waits_for} == {ours}
    assert swept["rbac_grant"].kept == 1
    policies = everything.call("GET", "/rbac-policies", params={"object_id": shared})["rbac_policies"]
    assert found["rbac_policy", policies[0]["id"]].reason is Reason.PROTECTED
    assert swept["port"].outcome is swept["trunk"].outcome is swept["floating_ip"].outcome is Outcome.CLEAR

    # The neighbour removes its references, and the operator sets the options.
    everything.call("DELETE", f"/floatingips/{way_out}")
    everything.call("DELETE", f"/ports/{guest}")
    for each in (subnet, from_pool):
        everything.call("DELETE", f"/subnets/{each}")
    everything.call("DELETE", f"/security-group-rules/{by_address}")
    everything.call("PUT", f"/routers/{second}/remove_router_interface", {"port_id": their_interface})
    everything.call("PUT", f"/routers/{their_router}/remove_router_interface", {"port_id": our_interface})
    assert not left(delete(sweeper, target, delete_shared=True, drop_foreign_rules=True))
    assert not everything.call("GET", "/security-group-rules", params={"id": rule})["security_group_rules"]
    assert set(in_neutron(cloud, ours)) == {"neutron.networkrbacs.target_project"}
    everything.call("DELETE", f"/rbac-policies/{grant}")


def test_a_port_that_merely_names_a_router_does_not_hold_it(admin, sweeper, cloud):
    """Without its row in Neutron's table an interface cannot be removed (404), nor deleted before the router."""
    target = make_project(admin, "network-half-interface", password=None, partner=None)
    rest = Rest(admin.network)
    owner = {"project_id": target.project_id}
    network = rest.call("POST", "/networks", {"network": owner})["network"]["id"]
    body = {**owner, "network_id": network, "ip_version": 4, "cidr": "10.60.0.0/24"}
    subnet = rest.call("POST", "/subnets", {"subnet": body})["subnet"]["id"]
    router = rest.call("POST", "/routers", {"router": owner})["router"]["id"]
    port = rest.call("PUT", f"/routers/{router}/add_router_interface", {"subnet_id": subnet})["port_id"]
    sweeper.rows("neutron", "DELETE FROM routerports WHERE port_id = ?", port)
    swept = delete(sweeper, target)
    assert not left(swept)
    assert not in_neutron(cloud, target.project_id)
