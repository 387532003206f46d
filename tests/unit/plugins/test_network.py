"""Neutron: whose ports, routers, groups and forwardings are deleted, and what of other projects stays."""

from __future__ import annotations

import types
from urllib.parse import urlencode

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins import network
from cleanup_orchestrator.plugins import neutron as neutron_calls
from cleanup_orchestrator.plugins.base import Resource, exceptions
from cleanup_orchestrator.plugins.network import trunks
from tests.unit.answers import Answers, connection, ids, project, refusal, resource

OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


# -------------------------------------------------------------------------------------------------------------- network
class Neutron(Answers):
    """The network proxy of a connection: rows by method; it writes down what it is told to change."""

    def __init__(self, **rows):
        super().__init__(self.collection)
        self.rows, self.did = {"extensions": [{"alias": "router"}], **rows}, []

    def collection(self, _method, path, _query, _body):
        """Return all rows of a collection, whatever is asked for."""
        key = path.strip("/").replace("-", "_")
        return 200, {key: self.rows.get({"floatingips": "ips"}.get(key, key), [])}

    def get_endpoint(self):
        """Return none, so that the extensions of one Neutron are not taken for those of another."""
        return None

    def __getattr__(self, method):
        if method.startswith(("delete_", "remove_", "update_")):
            return lambda *args, **kwargs: self.did.append(
                (method, *args, *(v for k, v in kwargs.items() if k == "port"))
            )
        if method.startswith("get_"):
            return lambda id_: self.rows[method][id_]
        if method in vars(self).get("rows", ()):  # a copy asks before it has any
            return lambda *args, **query: iter(self.filtered(method, *args, **query))
        raise AttributeError(method)

    def filtered(self, method, *args, **query):
        """Return all rows, whatever is asked for: a filter that Neutron ignores must do no harm."""
        rows = self.rows[method]
        return rows[args[0]] if args else rows


def neutron(scope="own", **rows):
    session = types.SimpleNamespace(get_project_id=lambda: scope)
    return types.SimpleNamespace(network=Neutron(**rows), session=session)


def port(id_, owner, **row):
    return {"id": id_, "project_id": owner, "network_id": "1", **row}


@pytest.mark.parametrize(
    ("owners", "foreign"), [([], []), ([OURS], []), ([OURS, THEIRS], [THEIRS]), ([THEIRS], [THEIRS]), ([""], [""])]
)
def test_a_network_is_deleted_with_subnets_of_the_project_and_with_no_others(owners, foreign):
    subnets = [{"id": f"s{n}", "project_id": owner, "network_id": "1"} for n, owner in enumerate(owners)]
    verdict = refusal(network.networks.check_network, neutron(subnets=subnets), PROJECT, resource())
    assert [b["owner"] for b in (verdict.blocked_by if verdict else ())] == foreign
    assert verdict is None or verdict.reason is Reason.FOREIGN


def test_a_subnet_with_a_port_that_would_lose_its_address_stays():
    """Neutron removes automatic addresses from the ports of any project, the deleted one included."""
    on_it = {"fixed_ips": [{"subnet_id": "s"}]}
    subnet = resource("s", network_id="1")
    dhcp = port("dhcp", OURS, device_owner="network:dhcp", **on_it)
    cloud = neutron(ports=[dhcp, port("off", THEIRS, fixed_ips=[{"subnet_id": "other"}])])
    assert refusal(network.networks.check_subnet, cloud, PROJECT, subnet) is None
    cloud.network.rows["ports"].append(port("mine", OURS, **on_it))
    verdict = refusal(network.networks.check_subnet, cloud, PROJECT, subnet)
    assert (verdict.reason, [b["id"] for b in verdict.blocked_by]) == (Reason.IN_USE, ["mine"])
    cloud.network.rows["ports"].append(port("theirs", THEIRS, **on_it))
    verdict = refusal(network.networks.check_subnet, cloud, PROJECT, subnet)
    assert (verdict.reason, [b["id"] for b in verdict.blocked_by]) == (Reason.FOREIGN, ["theirs"])


def test_interfaces_of_the_project_are_removed_from_a_router_and_others_are_named():
    owner = {"device_id": "1", "device_owner": "network:router_interface"}
    rows = [port("mine", OURS, **owner), port("theirs", THEIRS, **owner), port("x", OURS, device_id="2")]
    cloud = neutron(ports=rows)
    verdict = refusal(network.routers.remove_interfaces, cloud, PROJECT, resource())
    assert cloud.network.did == [("remove_interface_from_router", "1", None, "mine")]
    assert [b["id"] for b in verdict.blocked_by] == ["theirs"]
    assert refusal(network.routers.remove_interfaces, neutron(ports=rows[:1]), PROJECT, resource()) is None


@pytest.mark.parametrize(("owner", "reason"), [(OURS, Reason.IN_USE), (THEIRS, Reason.FOREIGN)])
@pytest.mark.parametrize("call", ["remove_interfaces", "delete_port"])
def test_the_trunk_that_a_port_is_in_is_named(call, owner, reason):
    """Neutron refuses the removal of an interface whose port is a subport. Only its refusal has the trunk."""
    trunk = "0a2b0000-0000-4000-8000-000000000000"
    cloud = neutron(
        ports=[port("mine", OURS, device_id="1", device_owner="network:router_interface")],
        get_trunk={trunk: {"id": trunk, "project_id": owner}},
    )

    def refused(*_args, **_query):
        raise exceptions.ConflictException(f"Port mine is currently a subport for trunk {trunk}.")

    cloud.network.remove_interface_from_router = cloud.network.delete_port = refused
    hook = network.routers.remove_interfaces if call == "remove_interfaces" else network.ports.delete_port
    verdict = refusal(hook, cloud, PROJECT, resource())
    assert (verdict.reason, [b["id"] for b in verdict.blocked_by]) == (reason, [trunk])


def test_conntrack_helpers_are_those_of_the_projects_routers():
    routers = [{"id": "r1", "project_id": OURS}, {"id": "r2", "project_id": THEIRS}]
    cloud = neutron(routers=routers, conntrack_helpers={"r1": [{"id": "h1"}], "r2": [{"id": "h2"}]})
    assert ids(network.routers.list_conntrack_helpers(cloud, PROJECT)) == ["h1"]


def test_port_forwardings_are_those_of_the_projects_floating_ips():
    addresses = [{"id": "f1", "project_id": OURS}, {"id": "f2", "project_id": THEIRS}]
    cloud = neutron(ips=addresses, port_forwardings={"f1": [{"id": "w1"}], "f2": [{"id": "w2"}]})
    found = list(network.routers.list_port_forwardings(cloud, PROJECT))
    assert [(row["id"], row["project_id"]) for row in found] == [("w1", OURS)]


def test_a_port_forwarding_belongs_to_the_current_owner_of_its_floating_ip():
    cloud = neutron(get_ip={"f": {"id": "f", "project_id": THEIRS}})
    row = network.routers.show_port_forwarding(cloud, PROJECT, resource("w", floatingip_id="f"))
    assert row["project_id"] == THEIRS


@pytest.mark.parametrize(
    ("groups", "reason"),
    [(["other"], None), ([], None), (["default"], Reason.IN_USE), (["other", "default"], Reason.IN_USE)],
)
def test_rules_of_the_project_that_name_an_address_group_are_deleted_unless_a_port_uses_them(groups, reason):
    rows = [
        {"id": "mine", "project_id": OURS, "remote_address_group_id": "1", "security_group_id": "default"},
        {"id": "theirs", "project_id": THEIRS, "remote_address_group_id": "1", "security_group_id": "other"},
        {"id": "another", "project_id": OURS, "remote_address_group_id": "2", "security_group_id": "other"},
    ]
    cloud = neutron(security_group_rules=rows, ports=[port("left", OURS, security_group_ids=groups)])
    verdict = refusal(network.security.drop_own_rules, cloud, PROJECT, resource())
    assert (verdict and verdict.reason) == reason
    assert cloud.network.did == ([] if reason else [("delete_security_group_rule", "mine")])


def test_a_security_group_that_a_rule_of_another_project_names_stays():
    mine = {"id": "mine", "project_id": OURS, "remote_group_id": "1"}
    other = {"id": "other", "project_id": THEIRS, "remote_group_id": "2"}
    assert (
        refusal(network.security.check_security_group, neutron(security_group_rules=[mine, other]), PROJECT, resource())
        is None
    )
    theirs = {"id": "theirs", "project_id": THEIRS, "remote_group_id": "1"}
    verdict = refusal(
        network.security.check_security_group, neutron(security_group_rules=[mine, theirs]), PROJECT, resource()
    )
    assert [b["id"] for b in verdict.blocked_by] == ["theirs"]
    assert verdict.reason is Reason.FOREIGN


def test_a_list_of_groups_names_the_project_of_the_orchestrator_first():
    assert network.common.own_and(neutron(), PROJECT) == ["own", OURS]
    with pytest.raises(BadAnswer):
        network.common.own_and(neutron(scope=None), PROJECT)


def test_neutrons_own_ports_are_kept_on_the_projects_networks_alone():
    dhcp = {"device_owner": "network:dhcp"}
    rows = [
        {"id": "here", "project_id": OURS, "network_id": "own", **dhcp},
        {"id": "there", "project_id": OURS, "network_id": "foreign", **dhcp},
    ]
    asked = []

    def answer(_method, path, query, _body):
        asked.append((path, query))
        return 200, {"ports": rows}

    cloud = connection(network=answer)
    cloud.network.networks = lambda **_: iter([{"id": "own", "project_id": OURS}])
    found = [resource(row["id"], **row) for row in network.ports.list_ports(cloud, PROJECT)]
    assert [bool(network.ports.of_own_network(each, PROJECT)) for each in found] == [True, False]
    assert asked == [("/ports", {"project_id": OURS, "limit": 1000})]


def test_the_ports_of_routers_are_asked_for_on_each_page_and_no_others_are_taken():
    owners, asked = neutron_calls.ROUTER_PORTS, []
    link = f"http://other/v2.0/ports?limit=1&{urlencode({'device_owner': owners, 'marker': 'a'}, doseq=True)}"

    def answer(_method, _path, query, _body):
        asked.append(query)
        rows = [{"id": "a", "device_owner": owners[0]}, {"id": "b", "device_owner": "compute:nova"}]
        if "marker" in query:
            return 200, {"ports": [{"id": "c", "device_owner": owners[-1]}]}
        return 200, {"ports": rows, "ports_links": [{"rel": "next", "href": link}]}

    assert ids(network.ports.all_ports(of_routers=True)(connection(network=answer), PROJECT)) == ["a", "c"]
    assert [query["device_owner"] for query in asked] == [list(owners)] * 2


PORT = {
    "id": "parent", "project_id": "p", "device_id": "server", "device_owner": "compute:nova", "binding_host_id": "gone",
}  # fmt: skip


@pytest.mark.parametrize(
    ("port", "server", "nova", "cleared"),
    [
        (PORT, False, True, True),
        ({**PORT, "device_id": "", "device_owner": ""}, True, True, True),
        ({**PORT, "device_id": "", "device_owner": ""}, False, False, True),
        (PORT, True, True, False),
        (PORT, False, False, False),  # no Nova: whether there is such a server is not known
        ({**PORT, "device_owner": "baremetal:none"}, False, True, False),
        ({**PORT, "device_owner": "network:dhcp"}, False, True, False),
        ({**PORT, "project_id": "q"}, False, True, False),
        ({**PORT, "binding_host_id": ""}, False, True, False),
    ],
)
def test_a_binding_is_cleared_only_if_no_device_has_the_port(port, server, nova, cleared):
    answer = (200, {"server": {"id": "server", "tenant_id": "p"}}) if server else (404, {"itemNotFound": {}})
    made = connection(**({"compute": lambda *_: answer} if nova else {}))
    updated = []
    made.network = types.SimpleNamespace(
        get_port=lambda _id: port, update_port=lambda id_, **change: updated.append((id_, change))
    )
    trunk = Resource("t", "", "p", {"id": "t", "port_id": "parent"})
    error = exceptions.ConflictException("Trunk t is currently in use.")
    assert trunks.clear_stale_binding(made, made, project(), trunk, error) is cleared
    assert updated == ([("parent", {"binding_host_id": ""})] if cleared else [])
    assert not trunks.clear_stale_binding(made, made, project(), trunk, exceptions.BadRequestException("no"))
