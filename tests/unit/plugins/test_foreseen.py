"""What a plan foresees: each declared use names what other projects have, and nothing of the project's own."""

import types

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.errors import UnreadUse
from cleanup_orchestrator.plugins import (
    block_storage,
    container_infrastructure_management,
    dns,
    image,
    network,
    shared_file_system,
)
from cleanup_orchestrator.plugins import neutron as neutron_calls
from cleanup_orchestrator.plugins.base import MOST_BLOCKERS, OneByOne, Refused, Resource, ResourceType, Use, Verdict
from tests.support.sweeps import foreseen
from tests.unit.answers import Answers, connection, project
from tests.unit.plugins.test_owner_checks import Neutron

OURS, THEIRS = "p", "them"
PROJECT = project(OURS)
SERVER = {"device_owner": "compute:nova", "device_id": "server"}


def type_of(module, name):
    return next(type_ for type_ in module.SERVICE.types if type_.name == name)


def neutron(server="web", makers=OURS, **rows):
    """A connection to Neutron's rows, and to a Nova whose servers have a name; ``None``: it knows none.

    :param makers: the project that has a load balancer and a share network; ``None``: there are no such services
    """

    def compute(_method, path, _query, _body):
        return (404, {}) if server is None else (200, {"server": {"id": path.split("/")[-1], "name": server}})

    def made(_method, path, _query, _body):
        key = "loadbalancers" if path.endswith("loadbalancers") else "share_networks"
        return 200, {key: [{"id": "m", "project_id": makers}]}

    services = {"compute"} | ({"load-balancer", "shared-file-system"} if makers else set())
    config = types.SimpleNamespace(get_session_endpoint=lambda name: "http://cloud" if name in services else None)
    others = {"load_balancer": Answers(made), "shared_file_system": Answers(made)}
    return types.SimpleNamespace(network=Neutron(**rows), compute=Answers(compute), config=config, **others)


def port(id_, owner, **row):
    values = {"network_id": "1", "fixed_ips": [{"subnet_id": "1"}], "security_group_ids": ["1"], "device_id": "1"}
    return {"id": id_, "project_id": owner, "name": "", **values, **row}


def named(type_, cloud, **data):
    verdict = foreseen(type_, cloud, PROJECT, Resource("1", "one", OURS, {"id": "1", "network_id": "1", **data}))
    assert cloud.network.did == []
    return [(b["id"], b["owner"]) for b in verdict.blocked_by] if verdict else None


#: the port of another project, and whether it stays when the project's own resources are deleted
PORTS = [
    (port("x", THEIRS), True),
    (port("x", THEIRS, **SERVER), True),
    (port("x", OURS), False),
    (port("x", OURS, **SERVER), False),
    (port("x", "octavia", name="octavia-lb-vrrp-1", **SERVER), False),
    (port("x", "trove", name="trove-1", **SERVER), False),
    (port("x", THEIRS, name="trove-1"), True),  # a user gave it that name
    (port("x", "octavia", device_owner="Octavia"), False),
    (port("x", "manila", device_owner="manila:share"), False),
]


@pytest.mark.parametrize("name", ["network", "subnet", "security_group"])
@pytest.mark.parametrize(("row", "stays"), PORTS, ids=str)
def test_a_port_of_another_project_blocks_what_it_uses(name, row, stays):
    cloud = neutron(ports=[row, port("other", THEIRS, network_id="2", fixed_ips=[], security_group_ids=["2"])],
                    subnets=[], security_group_rules=[])  # fmt: skip
    if name != "security_group":  # the stub returns all rows, also those of another network
        cloud.network.rows["ports"] = [row]
    assert named(type_of(network, name), cloud) == ([("x", row["project_id"])] if stays else None)


@pytest.mark.parametrize("name", ["network", "subnet", "security_group"])
@pytest.mark.parametrize("makers", [OURS, THEIRS, None])
@pytest.mark.parametrize("row", [each for each, stays in PORTS if not stays and each["project_id"] != OURS], ids=str)
def test_a_plan_names_the_port_of_a_service_that_nothing_of_the_project_needs(name, makers, row):
    """A cascade is refused because of it: no delete of the project's removes it. Trove's cannot be told."""
    cloud = neutron(makers=makers, ports=[row], subnets=[], security_group_rules=[])
    leaked = makers != OURS and row["project_id"] != "trove"
    assert named(type_of(network, name), cloud) == ([("x", row["project_id"])] if leaked else None)


@pytest.mark.parametrize(
    ("server", "blocks"), [("web", True), ("amphora-1", False), (None, True)], ids=["a server", "an amphora", "gone"]
)
def test_the_port_of_an_amphora_goes_with_the_load_balancer(server, blocks):
    cloud = neutron(server, ports=[port("x", "octavia", **SERVER)], subnets=[])
    assert named(type_of(network, "network"), cloud) == ([("x", "octavia")] if blocks else None)


@pytest.mark.parametrize("name", ["network", "subnet", "security_group"])
@pytest.mark.parametrize(
    ("status", "body"), [(400, {}), (403, {}), (500, {}), (503, "busy"), (200, "a proxy's page"), (200, {}), (200, [])]
)
def test_a_port_blocks_if_nova_does_not_tell_what_its_server_is(name, status, body):
    cloud = neutron(ports=[port("x", THEIRS, **SERVER)], subnets=[], security_group_rules=[])
    cloud.compute = Answers(lambda *_: (status, body))
    assert named(type_of(network, name), cloud) == [("x", THEIRS)]


@pytest.mark.parametrize("name", ["network", "subnet", "security_group"])
def test_without_neutrons_ports_it_is_not_known_what_blocks(name):
    def fails(**_query):
        raise RuntimeError("503")

    cloud = neutron(subnets=[], security_group_rules=[])
    cloud.network.ports = fails
    with pytest.raises(UnreadUse):
        named(type_of(network, name), cloud)


@pytest.mark.parametrize("name", ["network", "subnet", "security_group"])
def test_nova_is_asked_about_no_more_ports_than_a_verdict_names(name):
    """A network of an operator may have thousands of ports of others."""
    ports = [port(f"x{n}", THEIRS, **SERVER) for n in range(MOST_BLOCKERS + 20)]
    of_trove = port("db", "trove", name="trove-1", **SERVER)
    rows = [of_trove, port("mine", OURS, **SERVER), *ports, of_trove]
    cloud = neutron(ports=rows, subnets=[], security_group_rules=[])
    verdict = foreseen(type_of(network, name), cloud, PROJECT, Resource("1", "", OURS, {"id": "1", "network_id": "1"}))
    assert [b["id"] for b in verdict.blocked_by] == [row["id"] for row in ports[:MOST_BLOCKERS]]
    assert "(20 more)" in verdict.message
    assert len(cloud.compute.asked) == MOST_BLOCKERS


def test_nova_is_asked_about_no_port_of_the_project():
    cloud = neutron(ports=[port("x", OURS, **SERVER)], subnets=[])
    assert named(type_of(network, "network"), cloud) is None
    assert cloud.compute.asked == []


def test_a_subnet_of_another_project_blocks_its_network():
    cloud = neutron(ports=[], subnets=[{"id": "s", "project_id": THEIRS, "network_id": "1"}])
    assert named(type_of(network, "network"), cloud) == [("s", THEIRS)]


@pytest.mark.parametrize("owner", [THEIRS, ""])
@pytest.mark.parametrize("device_owner", neutron_calls.NETWORK_PORTS)
def test_neutrons_own_ports_block_no_network(device_owner, owner):
    """A gateway port of a DVR agent has no owner."""
    own = [{"id": "1", "project_id": OURS, "name": "net"}]
    subnet = {"id": "1", "project_id": OURS, "network_id": "1"}
    cloud = neutron(ports=[port("x", owner, device_owner=device_owner)], subnets=[subnet], networks=own)
    assert named(type_of(network, "network"), cloud) is None
    [row] = type_of(network, "subnet").list(cloud, PROJECT)
    assert named(type_of(network, "subnet"), cloud, **row) is None


@pytest.mark.parametrize("owner", [THEIRS, ""])
@pytest.mark.parametrize("networks", [[], [{"id": "1", "project_id": THEIRS}]], ids=["not listed", "another project's"])
def test_neutrons_own_ports_block_a_subnet_on_another_projects_network(networks, owner):
    """That network stays, and so the delete of the subnet would be refused."""
    subnet = {"id": "1", "project_id": OURS, "network_id": "1"}
    ports = [port("x", owner, device_owner="network:dhcp")]
    cloud = neutron(ports=ports, subnets=[subnet], networks=networks)
    [row] = type_of(network, "subnet").list(cloud, PROJECT)
    assert named(type_of(network, "subnet"), cloud, **row) == [("x", owner)]
    with pytest.raises(Refused):
        network.networks.check_subnet(cloud, PROJECT, Resource("1", "", OURS, row))


@pytest.mark.parametrize(
    ("owner", "routers_owner", "found"),
    [("", THEIRS, [("r", THEIRS)]), ("", OURS, None), (THEIRS, OURS, [("x", THEIRS)])],
)
def test_a_port_without_an_owner_belongs_to_what_it_is_for(owner, routers_owner, found):
    row = port("x", owner, device_owner="network:router_gateway", device_id="r")
    cloud = neutron(ports=[row], subnets=[], get_router={"r": {"id": "r", "project_id": routers_owner}})
    assert named(type_of(network, "network"), cloud) == found


@pytest.mark.parametrize(("owner", "blocks"), [(OURS, False), (THEIRS, True)])
def test_a_router_is_blocked_by_interfaces_and_addresses_of_others(owner, blocks):
    interface = port("i", owner, device_owner="network:router_interface")
    address = {"id": "f", "project_id": owner, "router_id": "1", "floating_ip_address": "192.0.2.1"}
    router = type_of(network, "router")
    assert named(router, neutron(ports=[interface], ips=[])) == ([("i", owner)] if blocks else None)
    assert named(router, neutron(ports=[], ips=[address])) == ([("f", owner)] if blocks else None)
    vpn = {"id": "v", "project_id": owner, "router_id": "1"}
    with_vpn = neutron(ports=[], ips=[], vpn_services=[vpn], extensions=[{"alias": "vpnaas"}])
    assert named(router, with_vpn) == ([("v", owner)] if blocks else None)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("subnet_pool", {"subnets": [{"id": "x", "subnet_pool_id": "1"}]}),
        ("address_scope", {"subnet_pools": [{"id": "x", "address_scope_id": "1"}]}),
        ("address_group", {"security_group_rules": [{"id": "x", "remote_address_group_id": "1"}]}),
        ("security_group", {"ports": [], "security_group_rules": [{"id": "x", "remote_group_id": "1"}]}),
    ],
)
def test_rows_of_others_that_refer_to_it_block_it(name, rows):
    for owner, found in ((OURS, None), (THEIRS, [("x", THEIRS)])):
        owned = {key: [{**row, "project_id": owner} for row in some] for key, some in rows.items()}
        assert named(type_of(network, name), neutron(**owned)) == found


REFUSED_BY = [
    (network, "vpn_service", "vpn_ipsec_site_connection", {"vpnservice_id": "1"}),
    (network, "vpn_endpoint_group", "vpn_ipsec_site_connection", {"local_ep_group_id": "1"}),
    (network, "vpn_endpoint_group", "vpn_ipsec_site_connection", {"peer_ep_group_id": "1"}),
    (network, "vpn_ike_policy", "vpn_ipsec_site_connection", {"ikepolicy_id": "1"}),
    (network, "vpn_ipsec_policy", "vpn_ipsec_site_connection", {"ipsecpolicy_id": "1"}),
    (network, "firewall_policy", "firewall_group", {"ingress_firewall_policy_id": "1"}),
    (network, "firewall_policy", "firewall_group", {"egress_firewall_policy_id": "1"}),
    (network, "firewall_rule", "firewall_policy", {"firewall_rules": ["1"]}),
    (block_storage, "group", "group_snapshot", {"group_id": "1"}),
    (block_storage, "consistency_group", "group_snapshot", {"group_id": "1"}),
    (shared_file_system, "share_group", "share", {"share_group_id": "1"}),
    (shared_file_system, "share_group", "group_snapshot", {"share_group_id": "1"}),
    (shared_file_system, "share", "snapshot", {"share_id": "1"}),
    (shared_file_system, "share", "resource_lock", {"resource_id": "1", "resource_action": "delete"}),
]
#: The key of a list in its answer, where it is not the plural of the type.
LIST_KEYS = {
    "vpn_ipsec_site_connection": "ipsec_site_connections",
    "firewall_policy": "firewall_policies",
    "shared_file_system.group_snapshot": "share_group_snapshots",
}


@pytest.mark.parametrize(("owner", "blocks"), [(OURS, False), (THEIRS, True)])
@pytest.mark.parametrize(
    ("module", "name", "by", "refers"), REFUSED_BY, ids=[f"{each[1]}:{each[2]}:{min(each[3])}" for each in REFUSED_BY]
)
def test_a_plan_foresees_that_a_service_refuses_a_delete_because_of_others(
    monkeypatch, module, name, by, refers, owner, blocks
):
    monkeypatch.setattr(shared_file_system.shares, "since", lambda _microversion: lambda *_: True)
    group = module.__name__.rpartition(".")[2]
    key = LIST_KEYS.get(f"{group}.{by}") or LIST_KEYS.get(by) or f"{by}s"
    user = {"id": "u", "project_id": owner, "name": "theirs", "volume_id": "", **refers}

    def answer(_method, path, query, _body):
        if path == "/share-access-rules":
            return 200, {"access_list": []}
        plural = path.removesuffix("/detail").rpartition("/")[2].replace("-", "_")
        return 200, {plural: [user] if plural == key and not query.get("offset") and not query.get("marker") else []}

    service = module.SERVICE.service_type.replace("-", "_")
    cloud = connection(**{service: answer})
    verdict = foreseen(type_of(module, name), cloud, PROJECT, Resource("1", "", OURS, {"id": "1", "project_id": OURS}))
    found = verdict and (verdict.reason, [(b["type"], b["id"]) for b in verdict.blocked_by])
    assert found == ((Reason.FOREIGN, [(f"{module.SERVICE.service_type}.{by}", "u")]) if blocks else None)
    assert getattr(cloud, service).writes() == []


@pytest.mark.parametrize(("owner", "blocks"), [(OURS, False), (THEIRS, True)])
def test_clusters_of_others_block_their_template(owner, blocks):
    clusters = [{"uuid": "c", "cluster_template_id": "1", "project_id": owner, "name": "k8s"}]
    cloud = connection(container_infrastructure_management=lambda *_: (200, {"clusters": clusters}))
    template = type_of(container_infrastructure_management, "cluster_template")
    verdict = foreseen(template, cloud, PROJECT, Resource("1", "", OURS, {"uuid": "1"}))
    assert (verdict and verdict.reason) == (Reason.FOREIGN if blocks else None)


@pytest.mark.parametrize(("owner", "blocks"), [(OURS, False), (THEIRS, True)])
def test_shares_of_others_block_their_network(owner, blocks):
    def answer(_method, path, query, _body):
        key = path.split("/")[1].replace("-", "_")
        first = key == "shares" and not query.get("offset")
        rows = [{"id": "s", "project_id": owner, "share_network_id": "1"}] if first else []
        return 200, {key: rows}

    cloud = connection(shared_file_system=answer)
    verdict = foreseen(type_of(shared_file_system, "share_network"), cloud, PROJECT, Resource("1", "", OURS, {}))
    assert (verdict and verdict.reason) == (Reason.FOREIGN if blocks else None)


@pytest.mark.parametrize(
    ("below", "records", "shared", "expected", "read"),
    [
        ([OURS], [OURS], True, None, True),
        ([THEIRS], [], False, "dns.zone", False),
        ([], [THEIRS], True, "dns.recordset", True),
        ([], [THEIRS], False, None, False),  # a plan reads the records of shared zones only
    ],
    ids=str,
)
def test_zones_and_recordsets_of_others_block_their_zone(below, records, shared, expected, read):
    asked = []

    def answer(_method, path, query, _body):
        asked.append(path)
        if query.get("marker"):
            return 200, {"recordsets": [], "zones": []}
        if path.endswith("/recordsets"):
            return 200, {"recordsets": [{"id": "r", "name": "a", "project_id": owner} for owner in records]}
        return 200, {"zones": [{"id": "z", "name": "sub.example.org.", "project_id": owner} for owner in below]}

    cloud = connection(dns=answer)
    zone = Resource("1", "example.org.", OURS, {"id": "1", "shared": shared})
    verdict = foreseen(type_of(dns, "zone"), cloud, PROJECT, zone)
    assert (verdict.blocked_by[0]["type"] if verdict else None) == expected
    assert any(path.endswith("/recordsets") for path in asked) is read
    assert cloud.dns.writes() == []


def test_an_image_that_others_are_members_of_is_blocked():
    members = [{"member_id": THEIRS, "status": "accepted", "image_id": "1"}]
    cloud = connection(image=lambda *_: (200, {"members": members}))
    shared = Resource("1", "", OURS, {"id": "1", "visibility": "shared"})
    verdict = foreseen(type_of(image, "image"), cloud, PROJECT, shared)
    assert (verdict.reason, verdict.blocked_by[0]["owner"]) == (Reason.PROTECTED, THEIRS)


@pytest.mark.parametrize("reason", Reason)
def test_only_what_others_decide_is_foreseen(reason):
    """What the project's own resources block is deleted after them."""
    verdict = Verdict(reason, "x")

    def refuse(*_args):
        raise Refused(verdict)

    for checks in ((lambda *_: verdict,), (refuse,), (lambda *_: None, refuse)):
        used_by = (Use(("other.thing",), "harms it", OneByOne(*checks)),)
        type_ = ResourceType("thing", list=lambda *_: [], delete=None, used_by=used_by)
        found = foreseen(type_, None, PROJECT, Resource("1", "", OURS))
        assert (found is verdict) is (reason in (Reason.FOREIGN, Reason.PROTECTED))


def test_a_check_that_fails_is_no_answer():
    def fails(*_args):
        raise RuntimeError("503")

    with pytest.raises(RuntimeError):
        OneByOne(fails)(None, PROJECT, [Resource("1", "", OURS)])
