"""What of other projects rests on ports, or is served through a port, by the rows of Neutron and Octavia."""

from __future__ import annotations

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins import network
from cleanup_orchestrator.plugins.base import Resource, ResourceType
from cleanup_orchestrator.plugins.port_uses import uses_of_ports
from tests.support.sweeps import before_delete
from tests.unit.answers import connection, project

OURS, THEIRS = "us", "them"
PROJECT = project(OURS)
EXTENSIONS = ("router", "floating-ip-port-forwarding", "l3-ndp-proxy", "security-groups-default-rules")


def type_of(name):
    return next(type_ for type_ in network.SERVICE.types if type_.name == name)


def cloud(extensions=EXTENSIONS, balancers=None, recordsets=None, **rows):
    """A connection to a Neutron with these rows, which filters by what they have, an Octavia and a Designate."""

    def neutron(_method, path, query, _body):
        key = path.strip("/").replace("-", "_").replace("/", "__")
        if key in {"floatingips", "routers"} and "router" not in extensions:
            return 404, {"NeutronError": {"message": "The resource could not be found."}}
        if key not in {"floatingips", "networks", "ports", "routers", "subnets"} and key not in rows:
            return 404, {}
        filters = {name: value for name, value in query.items() if name != "limit"}
        found = [row for row in rows.get(key, ()) if all(row.get(name) in value for name, value in filters.items())]
        return 200, {key.rpartition("__")[2]: found}

    def octavia(_method, _path, query, _body):
        return 200, {"loadbalancers": [row for row in balancers if row["vip_network_id"] == query["vip_network_id"]]}

    def designate(_method, path, query, _body):
        assert path == "/recordsets"
        pages = {} if "marker" in query else {row["name"]: [row] for row in recordsets}
        return 200, {"recordsets": pages.get(query["name"], [])}

    services = {"network": neutron} | ({} if balancers is None else {"load_balancer": octavia})
    services |= {} if recordsets is None else {"dns": designate}
    made = connection(**services)
    made.config.get_session_endpoint = lambda name: "http://cloud" if name.replace("-", "_") in services else None
    made.network.extensions = lambda: iter([{"alias": alias} for alias in extensions])
    made.network.get_endpoint = lambda *_, **__: None
    return made


def port(id_="p", owner=OURS, address="10.0.0.5", **row):
    ips = [{"subnet_id": "s", "ip_address": address}]
    return {"id": id_, "project_id": owner, "network_id": "n", "fixed_ips": ips, "name": "", **row}


def router(owner, **row):
    return {
        "ports": [port("i", owner, "10.0.0.1", device_owner="network:router_interface", device_id="r")],
        "routers": [{"id": "r", "project_id": owner, **row}],
    }


def shared_address(owner, **row):
    """The port forwarding of a floating IP with a router that reaches the network."""
    forwarding = {"id": "x", "internal_port_id": "p", "external_port": 80, **row}
    return router(THEIRS) | {
        "floatingips": [{"id": "f", "project_id": owner, "router_id": "r", "port_id": None}],
        "floatingips__f__port_forwardings": [forwarding],
    }


def subnet(owner, **row):
    return {"subnets": [{"id": "s", "network_id": "n", "project_id": owner, "gateway_ip": "10.0.0.1", **row}]}


SERVER = {"device_owner": "compute:nova", "device_id": "of a service"}


def user(owner=THEIRS, **row):
    return {"ports": [port("u", owner, "10.0.0.9", **row)]}


def address(owner, port_id="p"):
    return {"floatingips": [{"id": "f", "project_id": owner, "port_id": port_id}]}


def proxy(owner):
    return {"ndp_proxies": [{"id": "x", "project_id": owner, "port_id": "p"}]}


def balancer(owner, vip="p"):
    return {"balancers": [{"id": "b", "project_id": owner, "vip_port_id": vip, "vip_network_id": "n"}]}


HERE = {"gateway_ip": "10.0.0.5"}
HOP = {"destination": "10.9.0.0/24", "nexthop": "10.0.0.5"}
#: what the cloud has, and what is named: the type and the id
ON_A_PORT = [
    ({}, None),
    (address(THEIRS), ("network.floating_ip", "f")),
    (address(OURS), None),
    (address(THEIRS, "q"), None),
    (shared_address(THEIRS), ("network.port_forwarding", "x")),
    (shared_address(OURS), None),
    (shared_address(THEIRS, internal_port_id="q"), None),
    (shared_address(THEIRS) | {"extensions": ("router",)}, None),
    (proxy(THEIRS), ("network.ndp_proxy", "x")),
    (proxy(OURS), None),
    (subnet(THEIRS), None),
    (subnet(THEIRS, **HERE), ("network.subnet", "s")),
    (subnet(THEIRS, gateway_ip=None, host_routes=[HOP]), ("network.subnet", "s")),
    (subnet(THEIRS, dns_nameservers=["10.0.0.5"]), ("network.subnet", "s")),
    (subnet(OURS, **HERE), None),
    (subnet(OURS, **HERE) | user(), ("network.port", "u")),
    (subnet(OURS, **HERE) | user(OURS), None),
    (subnet(OURS, **HERE) | user(device_owner="network:dhcp"), None),
    (subnet(OURS, **HERE) | user(name="octavia-lb-vrrp-1", **SERVER), None),
    (subnet(OURS, **HERE) | user(fixed_ips=[{"subnet_id": "t"}]), None),
    (router(THEIRS, routes=[HOP]), ("network.router", "r")),
    (router(OURS, routes=[HOP]), None),
    (router(THEIRS, routes=[{**HOP, "nexthop": "10.0.0.6"}]), None),
    (subnet(OURS) | user(), None),
    (balancer(THEIRS), ("load-balancer.load_balancer", "b")),
    (balancer(OURS), None),
    (balancer(THEIRS, "q"), None),
]


def named(verdict):
    if verdict is None:
        return None
    assert verdict.reason is Reason.FOREIGN
    (blocker,) = verdict.blocked_by
    assert blocker["owner"] == THEIRS
    return blocker["type"], blocker["id"]


@pytest.mark.parametrize(("rows", "expected"), ON_A_PORT, ids=str)
def test_what_rests_on_a_port_is_named(rows, expected):
    made = cloud(**{"ndp_proxies": [], **rows})
    assert named(before_delete(type_of("port"), made, PROJECT, Resource("p", "", OURS, port()))) == expected


@pytest.mark.parametrize(("rows", "expected"), ON_A_PORT, ids=str)
def test_what_rests_on_a_port_that_goes_with_another_resource_is_named_as_well(rows, expected):
    """Such as a server, whose delete deletes its ports."""
    ports_of = lambda _c, _p, servers: ((server.id, port()) for server in servers)  # noqa: E731
    type_ = ResourceType("server", list=lambda *_: [], delete=None, used_by=uses_of_ports(ports_of, "its port serves"))
    made = cloud(**{"ndp_proxies": [], **rows})
    assert named(before_delete(type_, made, PROJECT, Resource("s", "", OURS))) == expected


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("floating_ip", {"port_id": "u"}),
        ("port_forwarding", {"internal_port_id": "u"}),
        ("ndp_proxy", {"port_id": "u"}),
        ("trunk", {"port_id": "u"}),
        ("trunk", {"port_id": "other", "sub_ports": [{"port_id": "u"}]}),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (user(), ("network.port", "u")),
        (user(name="octavia-lb-1", device_owner="Octavia", device_id="lb-1"), ("network.port", "u")),
        (user(OURS), None),
        (user(name="trove-1", **SERVER), None),
        (user(name="trove-1"), ("network.port", "u")),
        (user(""), None),
        ({}, None),
    ],
    ids=[
        "another project's",
        "a load balancer's",
        "the project's",
        "a service's",
        "named like a service's",
        "Neutron's own",
        "gone",
    ],
)
def test_what_serves_a_port_of_another_project_stays(name, row, made, expected):
    assert named(before_delete(type_of(name), cloud(**made), PROJECT, Resource("x", "", OURS, row))) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (router(OURS) | subnet(THEIRS), ("network.subnet", "s")),
        (router(OURS) | subnet(OURS), None),
        (router(OURS) | subnet(OURS) | {"ports": [*router(OURS)["ports"], *user()["ports"]]}, ("network.port", "u")),
        (router(OURS) | subnet(THEIRS, gateway_ip="10.0.0.254"), None),
    ],
    ids=str,
)
def test_a_router_that_others_send_through_stays(rows, expected):
    (use,) = (use for use in type_of("router").used_by if "network.subnet" in use.by)
    found = use.find(cloud(**rows), PROJECT, [Resource("r", "", OURS, {"id": "r"})])
    assert named(found.get("r")) == expected


def gateway(owner, router_id, address_):
    """The gateway port of a router on the network: Neutron gives it no project."""
    on_it = port(f"g-{router_id}", "", address_, device_owner="network:router_gateway", device_id=router_id)
    return [on_it], [{"id": router_id, "project_id": owner, "external_gateway_info": {"network_id": "n"}}]


@pytest.mark.parametrize(
    ("owner", "hop", "expected"),
    [(THEIRS, "10.0.0.5", ("network.router", "t")), (THEIRS, "10.0.0.6", None), (OURS, "10.0.0.5", None)],
    ids=str,
)
@pytest.mark.parametrize("of_router", [False, True], ids=["a port", "the gateway of a router"])
def test_a_router_may_send_to_an_address_on_its_external_network(owner, hop, expected, of_router):
    """Routers of several projects reach each other over the external network that all of them are on."""
    others, (theirs,) = gateway(owner, "t", "10.0.0.8")
    routes = {"routes": [{**HOP, "nexthop": hop}]}
    own, (ours,) = gateway(OURS, "r", "10.0.0.5")
    networks = [{"id": "n", "router:external": True}]
    ports, routers = others + (own if of_router else []), [{**theirs, **routes}, ours]
    made = cloud(ndp_proxies=[], networks=networks, ports=ports, routers=routers)
    if of_router:
        (use,) = (use for use in type_of("router").used_by if "network.subnet" in use.by)
        found = use.find(made, PROJECT, [Resource("r", "", OURS, {"id": "r"})]).get("r")
    else:
        found = before_delete(type_of("port"), made, PROJECT, Resource("p", "", OURS, port()))
    assert named(found) == expected


def octavia_of(owner, subnet_id="s", provider="ovn", monitor="h", vip="t"):
    """An Octavia with one pool of one member."""
    balancers = [{"id": "b", "project_id": owner, "provider": provider, "vip_subnet_id": vip}]
    pools = [{"id": "l", "project_id": owner, "healthmonitor_id": monitor, "loadbalancers": [{"id": "b"}]}]
    members = [{"id": "m", "project_id": owner, "subnet_id": subnet_id}]
    lists = {"/lbaas/loadbalancers": balancers, "/lbaas/pools": pools, "/lbaas/pools/l/members": members}

    def octavia(_method, path, query, _body):
        found = [row for row in lists[path] if query.get("project_id") in (None, row["project_id"])]
        return 200, {path.rpartition("/")[2]: [] if "vip_network_id" in query else found}

    return octavia


CHECKS = {"device_owner": "ovn-lb-hm:distributed", "device_id": "ovn-lb-hm-s", "name": "ovn-lb-hm-s"}


@pytest.mark.parametrize(
    ("octavia", "row", "expected"),
    [
        (octavia_of(THEIRS), CHECKS, ("load-balancer.health_monitor", "h")),
        (octavia_of(THEIRS), {**CHECKS, "device_owner": "network:distributed"}, ("load-balancer.health_monitor", "h")),
        (octavia_of(THEIRS, subnet_id=None, vip="s"), CHECKS, ("load-balancer.health_monitor", "h")),
        (octavia_of(THEIRS, subnet_id="t"), CHECKS, None),
        (octavia_of(THEIRS, provider="amphora"), CHECKS, None),
        (octavia_of(THEIRS, monitor=None), CHECKS, None),
        (octavia_of(OURS), CHECKS, None),
        (octavia_of(THEIRS), {}, None),
    ],
    ids=[
        "theirs",
        "an old release",
        "on the VIP's subnet",
        "elsewhere",
        "amphorae",
        "unmonitored",
        "ours",
        "a plain port",
    ],
)
def test_the_port_from_which_members_of_others_are_checked_stays(octavia, row, expected):
    """All health monitors of the OVN provider share one port for a subnet, whose owner is that of the first member."""
    made = cloud(ndp_proxies=[], balancers=[], **user())
    made.load_balancer.answer = octavia
    assert named(before_delete(type_of("port"), made, PROJECT, Resource("p", "", OURS, port(**row)))) == expected


SHARED = {"allowed_address_pairs": [{"ip_address": "10.0.0.1", "mac_address": "fa:16:3e:00:00:01"}]}
WITH_PAIRS = [
    (SHARED, user(), ("network.port", "u")),
    (SHARED, user(OURS), None),
    ({"allowed_address_pairs": [{"ip_address": "10.0.0.0/24"}]}, user(), None),
    ({"allowed_address_pairs": [{"ip_address": "10.0.0.1/32"}]}, user(), ("network.port", "u")),
    ({}, user(), None),
]


@pytest.mark.parametrize(("row", "others", "expected"), WITH_PAIRS, ids=str)
def test_an_address_that_servers_share_may_be_the_gateway_of_others(row, others, expected):
    """None of the ports has the address of the gateway as its own."""
    made = cloud(ndp_proxies=[], **subnet(OURS), **others)
    assert named(before_delete(type_of("port"), made, PROJECT, Resource("p", "", OURS, port(**row)))) == expected


@pytest.mark.parametrize("balancers", [None, []], ids=str)
def test_a_port_of_a_neutron_without_routers_has_no_floating_ip(balancers):
    """A cloud with provider networks alone has no routers: Neutron then answers 404 to the list of floating IPs."""
    on_it = port("i", THEIRS, device_owner="network:router_interface", device_id="r")
    made = cloud(extensions=("binding",), balancers=balancers, ports=[on_it])
    assert before_delete(type_of("port"), made, PROJECT, Resource("p", "", OURS, port())) is None


def test_the_last_of_many_ports_is_asked_about_as_well():
    """A query has only so many ids."""
    ports = [Resource(f"p{number:03}", "", OURS, port(f"p{number:03}")) for number in range(151)]
    (use,) = (use for use in type_of("port").used_by if "network.floating_ip" in use.by)
    taken = [{"id": f"f{one.id}", "project_id": THEIRS, "port_id": one.id} for one in ports]
    assert use.find(cloud(floatingips=taken), PROJECT, ports).keys() == {one.id for one in ports}


def test_many_ports_take_few_calls():
    made = cloud(ndp_proxies=[], balancers=[])
    ports = [Resource(f"p{number}", "", OURS, port(f"p{number}")) for number in range(100)]
    for use in type_of("port").used_by:
        if "network.tap_flow" not in use.by:
            assert use.find(made, PROJECT, ports) == {}
    assert len(made.network.asked) + len(made.load_balancer.asked) <= 10
