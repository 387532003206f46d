"""Neutron: everything of the project goes, but for what others are using; the neighbour keeps all."""

from __future__ import annotations

import pytest

from cleanup_orchestrator.model import Outcome, Reason
from cleanup_orchestrator.plugins.network import SERVICE
from tests.cloud.filler import fill, make_project, scan
from tests.cloud.fillings.base import Rest

RESIDUE = {type_.name for type_ in SERVICE.types if type_.residue}
PASSES = 3  # the engine asks for another sweep while there is progress


@pytest.fixture(scope="module")
def neighbour(admin, sweeper):
    # The first list of security groups by anybody makes the default group of the caller's own project.
    list(sweeper.connection().network.security_groups())
    return fill(admin, "network-neighbour", only=["network"])


def rows(sweeper):
    """Neutron's whole database but for the counters that pools and types keep of what was taken out of them."""
    counters = ('INSERT INTO "subnetpools"', 'INSERT INTO "ml2_', 'INSERT INTO "quotausages"')
    return {line for line in sweeper.dump("neutron").splitlines() if not line.startswith(counters)}


def delete(sweeper, target, **options):
    """Sweep until nothing more is to be had: first what counts as left over, then the residue too."""
    for _ in range(PASSES):
        swept = sweeper.delete(SERVICE, target, **options)
    assert not [name for name, each in swept.items() if each.outcome is Outcome.UNKNOWN]
    return swept


def left(swept):
    """{(type, id): leftover} of all types."""
    return {(name, leftover.id): leftover for name, each in swept.items() for leftover in each.leftovers}


def in_neutron(cloud, project_id):
    return {name: count for name, count in scan(cloud, project_id).items() if name.startswith("neutron.")}


def port_of(rest, network, project, **more):
    body = {"network_id": network, "project_id": project.project_id, **more}
    return rest.call("POST", "/ports", {"port": body})["port"]["id"]


def rule_of(rest, group, project, **more):
    body = {"security_group_id": group, "project_id": project.project_id, "direction": "ingress", **more}
    return rest.call("POST", "/security-group-rules", {"security_group_rule": body})["security_group_rule"]["id"]


def test_a_look_at_a_pristine_project_creates_nothing(admin, sweeper, cloud, neighbour):
    """Several of Neutron's lists create a default group for the project that they filter by."""
    pristine = make_project(admin, "network-pristine", password=None, partner=None)
    before = sweeper.dump("neutron")
    looked = sweeper.look(SERVICE, pristine)
    assert {each.outcome for each in looked.values()} == {Outcome.CLEAR}
    assert sweeper.dump("neutron") == before
    assert not in_neutron(cloud, pristine.project_id)


def test_everything_goes(admin, sweeper, cloud, neighbour):
    before = rows(sweeper)
    target = fill(admin, "network-target", partner=neighbour.project_id, only=["network"])
    everything = Rest(admin.network)
    net, backend = target.first("network"), target.first("network", 1)
    # What a server, a load balancer and a DHCP agent leave when they are no longer there.
    for device_owner in ("compute:nova", "Octavia", "network:dhcp", "baremetal:none"):
        port_of(everything, net, target, device_owner=device_owner, device_id="gone")
    # A local IP on a port that was chosen for it, which then cannot go before it.
    chosen = port_of(everything, backend, target)
    body = {"network_id": backend, "local_port_id": chosen, "project_id": target.project_id}
    everything.call("POST", "/local_ips", {"local_ip": body})
    # A subnet of the project on somebody else's network.
    body = {"network_id": neighbour.first("network", 2), "ip_version": 4, "cidr": "172.30.0.0/24"}
    body["project_id"] = target.project_id
    everything.call("POST", "/subnets", {"subnet": body})
    # The default group, which stays to the end, holds an address group.
    groups = everything.call("GET", "/security-groups", params={"name": "default"})["security_groups"]
    default = next(group["id"] for group in groups if group["project_id"] == target.project_id)
    rule_of(everything, default, target, remote_address_group_id=target.first("address group"))

    filled = sweeper.dump("neutron")
    looked = sweeper.look(SERVICE, target)
    assert sweeper.dump("neutron") == filled
    assert {leftover.reason for leftover in left(looked).values()} == {Reason.PRESENT}
    assert looked["port"].kept == 1  # the DHCP port: with its network
    for kind, type_ in (("port", "port"), ("router", "router"), ("network", "network"), ("floating ip", "floating_ip"),
                        ("security group", "security_group"), ("trunk", "trunk"), ("network log", "log"),
                        ("rbac policy", "rbac_policy"), ("subnet pool", "subnet_pool")):  # fmt: skip
        assert set(target.ids[kind]) <= {leftover.id for leftover in looked[type_].leftovers}, kind

    swept = delete(sweeper, target)
    assert not left(swept)
    assert not in_neutron(cloud, target.project_id)
    assert rows(sweeper) == before
