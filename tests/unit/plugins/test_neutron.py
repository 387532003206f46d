"""Which rows of other projects block a delete in Neutron, as a plan foresees them."""

import types

import pytest

from cleanup_orchestrator.errors import UnreadUse
from cleanup_orchestrator.plugins import network
from cleanup_orchestrator.plugins import neutron as neutron_calls
from cleanup_orchestrator.plugins.base import MAX_BLOCKERS, Refused, Resource
from tests.support.sweeps import foreseen
from tests.unit.answers import Answers, project
from tests.unit.plugins.test_foreseen import declared
from tests.unit.plugins.test_network import Neutron

OURS, THEIRS = "p", "them"
PROJECT = project(OURS)
SERVER = {"device_owner": "compute:nova", "device_id": "server"}


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
    assert named(declared(network, name), cloud) == ([("x", row["project_id"])] if stays else None)


@pytest.mark.parametrize("name", ["network", "subnet", "security_group"])
@pytest.mark.parametrize("makers", [OURS, THEIRS, None])
@pytest.mark.parametrize("row", [each for each, stays in PORTS if not stays and each["project_id"] != OURS], ids=str)
def test_a_plan_names_the_port_of_a_service_that_nothing_of_the_project_needs(name, makers, row):
    """A cascade is refused because of it: no delete of the project's removes it. Trove's cannot be told."""
    cloud = neutron(makers=makers, ports=[row], subnets=[], security_group_rules=[])
    leaked = makers != OURS and row["project_id"] != "trove"
    assert named(declared(network, name), cloud) == ([("x", row["project_id"])] if leaked else None)


@pytest.mark.parametrize(
    ("server", "blocks"), [("web", True), ("amphora-1", False), (None, True)], ids=["a server", "an amphora", "gone"]
)
def test_the_port_of_an_amphora_goes_with_the_load_balancer(server, blocks):
    cloud = neutron(server, ports=[port("x", "octavia", **SERVER)], subnets=[])
    assert named(declared(network, "network"), cloud) == ([("x", "octavia")] if blocks else None)


@pytest.mark.parametrize("name", ["network", "subnet", "security_group"])
@pytest.mark.parametrize(
    ("status", "body"), [(400, {}), (403, {}), (500, {}), (503, "busy"), (200, "a proxy's page"), (200, {}), (200, [])]
)
def test_a_port_blocks_if_nova_does_not_tell_what_its_server_is(name, status, body):
    cloud = neutron(ports=[port("x", THEIRS, **SERVER)], subnets=[], security_group_rules=[])
    cloud.compute = Answers(lambda *_: (status, body))
    assert named(declared(network, name), cloud) == [("x", THEIRS)]


@pytest.mark.parametrize("device", [".", "..", "a/../b", "?", "\0"])
def test_a_port_blocks_although_no_server_can_have_the_name_of_its_device(device):
    """Any user may write it. No call can be about that, and so the uses of all other ports would never be known."""
    cloud = neutron(ports=[port("x", THEIRS, **{**SERVER, "device_id": device})], subnets=[])
    assert named(declared(network, "network"), cloud) == [("x", THEIRS)]
    assert cloud.compute.asked == []


@pytest.mark.parametrize("name", ["network", "subnet", "security_group"])
def test_without_neutrons_ports_it_is_not_known_what_blocks(name):
    def fails(**_query):
        raise RuntimeError("503")

    cloud = neutron(subnets=[], security_group_rules=[])
    cloud.network.ports = fails
    with pytest.raises(UnreadUse):
        named(declared(network, name), cloud)


@pytest.mark.parametrize("name", ["network", "subnet", "security_group"])
def test_nova_is_asked_about_no_more_ports_than_a_verdict_names(name):
    """A network of an operator may have thousands of ports of others."""
    ports = [port(f"x{n}", THEIRS, **SERVER) for n in range(MAX_BLOCKERS + 20)]
    of_trove = port("db", "trove", name="trove-1", **SERVER)
    rows = [of_trove, port("mine", OURS, **SERVER), *ports, of_trove]
    cloud = neutron(ports=rows, subnets=[], security_group_rules=[])
    verdict = foreseen(declared(network, name), cloud, PROJECT, Resource("1", "", OURS, {"id": "1", "network_id": "1"}))
    assert [b["id"] for b in verdict.blocked_by] == [row["id"] for row in ports[:MAX_BLOCKERS]]
    assert "(20 more)" in verdict.message
    assert len(cloud.compute.asked) == MAX_BLOCKERS


def test_nova_is_asked_about_no_port_of_the_project():
    cloud = neutron(ports=[port("x", OURS, **SERVER)], subnets=[])
    assert named(declared(network, "network"), cloud) is None
    assert cloud.compute.asked == []


def test_a_subnet_of_another_project_blocks_its_network():
    cloud = neutron(ports=[], subnets=[{"id": "s", "project_id": THEIRS, "network_id": "1"}])
    assert named(declared(network, "network"), cloud) == [("s", THEIRS)]


@pytest.mark.parametrize("owner", [THEIRS, ""])
@pytest.mark.parametrize("device_owner", neutron_calls.NETWORK_PORTS)
def test_neutrons_own_ports_block_no_network(device_owner, owner):
    """A gateway port of a DVR agent has no owner."""
    own = [{"id": "1", "project_id": OURS, "name": "net"}]
    subnet = {"id": "1", "project_id": OURS, "network_id": "1"}
    cloud = neutron(ports=[port("x", owner, device_owner=device_owner)], subnets=[subnet], networks=own)
    assert named(declared(network, "network"), cloud) is None
    [row] = declared(network, "subnet").list(cloud, PROJECT)
    assert named(declared(network, "subnet"), cloud, **row) is None


@pytest.mark.parametrize("owner", [THEIRS, ""])
@pytest.mark.parametrize("networks", [[], [{"id": "1", "project_id": THEIRS}]], ids=["not listed", "another project's"])
def test_neutrons_own_ports_block_a_subnet_on_another_projects_network(networks, owner):
    """That network stays, and so the delete of the subnet would be refused."""
    subnet = {"id": "1", "project_id": OURS, "network_id": "1"}
    ports = [port("x", owner, device_owner="network:dhcp")]
    cloud = neutron(ports=ports, subnets=[subnet], networks=networks)
    [row] = declared(network, "subnet").list(cloud, PROJECT)
    assert named(declared(network, "subnet"), cloud, **row) == [("x", owner)]
    with pytest.raises(Refused):
        network.networks.check_subnet(cloud, PROJECT, Resource("1", "", OURS, row))


@pytest.mark.parametrize(
    ("owner", "routers_owner", "found"),
    [("", THEIRS, [("r", THEIRS)]), ("", OURS, None), (THEIRS, OURS, [("x", THEIRS)])],
)
def test_a_port_without_an_owner_belongs_to_what_it_is_for(owner, routers_owner, found):
    row = port("x", owner, device_owner="network:router_gateway", device_id="r")
    cloud = neutron(ports=[row], subnets=[], get_router={"r": {"id": "r", "project_id": routers_owner}})
    assert named(declared(network, "network"), cloud) == found


@pytest.mark.parametrize(("owner", "blocks"), [(OURS, False), (THEIRS, True)])
def test_a_router_is_blocked_by_interfaces_and_addresses_of_others(owner, blocks):
    interface = port("i", owner, device_owner="network:router_interface")
    address = {"id": "f", "project_id": owner, "router_id": "1", "floating_ip_address": "192.0.2.1"}
    router = declared(network, "router")
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
        assert named(declared(network, name), neutron(**owned)) == found
