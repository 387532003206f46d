"""Neutron's add-ons: what of other projects blocks a delete, and that a tap whose agent is late is left alone."""

from __future__ import annotations

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins import network
from cleanup_orchestrator.plugins.base import Resource
from tests.support.sweeps import before_delete
from tests.unit.answers import Answers, connection, project

OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


class Neutron(Answers):
    """Answers from the rows of each collection by its path; filters by the attributes that a row has."""

    def __init__(self, **collections):
        super().__init__(self.read)
        plain = {"floatingips": [], "ports": [], "subnets": [], "routers": []}
        self.collections = plain | {path.replace("__", "/"): rows for path, rows in collections.items()}

    def read(self, _method, path, query, _body):
        collection = path.strip("/").replace("-", "_")
        if collection in self.collections:
            filters = {name: value for name, value in query.items() if name != "limit"}
            rows = [row for row in self.collections[collection] if self.fits(row, filters)]
            return 200, {collection.rpartition("/")[2]: rows}
        collection, _, id_ = collection.rpartition("/")
        (row,) = (row for row in self.collections[collection] if row["id"] == id_)
        return 200, {collection.rpartition("/")[2].removesuffix("s"): row}

    @staticmethod
    def fits(row, filters):
        return all(
            row[name] in value if isinstance(value, list) else value in row[name] for name, value in filters.items()
        )

    def extensions(self):
        return [{"alias": alias} for alias in ("sfc", "flow_classifier", "taas", "bgp", "vpnaas", "fwaas_v2")]

    def get_network(self, id_):
        return self.read("GET", f"/networks/{id_}", {}, None)[1]["network"]

    def get_firewall_group(self, id_):
        return self.read("GET", f"/fwaas/firewall_groups/{id_}", {}, None)[1]["firewall_group"]


def row(id_, owner, **more):
    return {"id": id_, "project_id": owner, "name": "", **more}


def cloud(**collections):
    made = connection()
    made.network = Neutron(**collections)
    return made


def type_of(name):
    return next(type_ for type_ in network.SERVICE.types if type_.name == name)


def refusals(type_, made):
    """Return the verdict of the type's checks and of its explanation, by which of the two says it."""
    one, said = Resource("1", "one", OURS, {"id": "1", "network_id": "n"}), {}
    if verdict := before_delete(type_, made, PROJECT, one):
        said["check"] = verdict
    if type_.explain and (verdict := type_.explain(made, PROJECT, one)):
        said["explain"] = verdict
    return said


def speakers(owner):
    return {"bgp_speakers": [row("s", owner, peers=["1"]), row("x", THEIRS, peers=["2"])]}


def announced(owner):
    return {"bgp_speakers": [row("1", OURS, networks=["n"])], "networks": [row("n", owner)]}


def walled(owner):
    group = row("1", OURS, ports=["n"])
    return {"fwaas__firewall_groups": [group], "ports": [row("n", owner), row("x", THEIRS)]}


def chained(**users):
    none = {"sfc__port_pairs": [], "sfc__flow_classifiers": [], "taas__tap_flows": []}
    return lambda owner: none | {path: [{**each, "project_id": owner} for each in rows] for path, rows in users.items()}


def connections(attribute):
    plain = dict.fromkeys(
        ("ikepolicy_id", "ipsecpolicy_id", "vpnservice_id", "local_ep_group_id", "peer_ep_group_id"), "2"
    )
    return lambda owner: {
        "vpn__ipsec_site_connections": [row("c", owner, **{**plain, attribute: "1"}), row("x", THEIRS, **plain)]
    }


def policies(attribute):
    plain = dict.fromkeys(("ingress_firewall_policy_id", "egress_firewall_policy_id"), "2")
    return lambda owner: {"fwaas__firewall_groups": [row("g", owner, **{**plain, attribute: "1"})]}


def listed(path, attribute, value, other):
    return lambda owner: {path: [row("u", owner, **{attribute: value}), row("x", THEIRS, **{attribute: other})]}


PAIR = row("u", "", ingress="1", egress="2")
CLASSIFIER = row("u", "", logical_source_port="2", logical_destination_port="1")
FLOW = row("u", "", source_port="1")
#: (type, what says so, the rows of the cloud by the owner of the user, id of the user)
CASES = [
    ("bgp_peer", "check", speakers, "s"),
    ("bgp_speaker", "check", announced, "n"),
    ("firewall_group", "check", walled, "n"),
    ("default_firewall_group", "check", walled, "n"),
    ("port", "check", chained(taas__tap_flows=[FLOW]), "u"),
    ("port", "explain", chained(sfc__port_pairs=[PAIR]), "u"),
    ("port", "explain", chained(sfc__flow_classifiers=[CLASSIFIER]), "u"),
    ("vpn_service", "explain", connections("vpnservice_id"), "c"),
    ("vpn_ike_policy", "explain", connections("ikepolicy_id"), "c"),
    ("vpn_ipsec_policy", "explain", connections("ipsecpolicy_id"), "c"),
    ("vpn_endpoint_group", "explain", connections("local_ep_group_id"), "c"),
    ("vpn_endpoint_group", "explain", connections("peer_ep_group_id"), "c"),
    ("firewall_policy", "explain", policies("ingress_firewall_policy_id"), "g"),
    ("firewall_policy", "explain", policies("egress_firewall_policy_id"), "g"),
    ("firewall_rule", "explain", listed("fwaas__firewall_policies", "firewall_rules", ["1"], ["2"]), "u"),
    ("sfc_port_chain", "before", listed("sfc__service_graphs", "port_chains", {"3": ["1"]}, {"2": ["4"]}), "u"),
    ("sfc_port_pair_group", "before", listed("sfc__port_chains", "port_pair_groups", ["1"], ["2"]), "u"),
    ("sfc_port_pair", "before", listed("sfc__port_pair_groups", "port_pairs", ["1"], ["2"]), "u"),
    ("sfc_flow_classifier", "before", listed("sfc__port_chains", "flow_classifiers", ["1"], ["2"]), "u"),
    ("tap_service", "check", listed("taas__tap_flows", "tap_service_id", "1", "2"), "u"),
    ("bgpvpn_network_association", "check", lambda owner: {"networks": [row("n", owner)]}, "n"),
]


@pytest.mark.parametrize(("name", "says", "rows", "id_"), CASES, ids=[f"{name}-{id_}" for name, _, _, id_ in CASES])
@pytest.mark.parametrize("owner", [OURS, THEIRS])
def test_what_uses_a_resource_is_named_with_its_owner(name, says, rows, id_, owner):
    """A check refuses only because of others: Neutron would change or delete what is theirs without a refusal.

    What is said before the delete is said of the project's own resources as well.
    """
    said = refusals(type_of(name), cloud(**rows(owner)))
    if says == "check" and owner == OURS:
        assert said == {}
        return
    verdict = said.pop("check" if says == "before" else says)
    assert not said
    assert [(b["id"], b["owner"]) for b in verdict.blocked_by] == [(id_, owner)]
    assert verdict.reason is (Reason.FOREIGN if owner == THEIRS else Reason.IN_USE)


@pytest.mark.parametrize("name", ["firewall_group", "default_firewall_group"])
def test_a_firewall_group_that_is_not_shown_may_be_on_ports_of_others(name):
    """openstacksdk makes an empty group of an answer that is no JSON, such as the page of a proxy."""
    verdict = refusals(type_of(name), cloud(fwaas__firewall_groups=[{"id": "1"}]))["check"]
    assert (verdict.reason, "could not be read" in verdict.message) == (Reason.BAD_ANSWER, True)
    assert refusals(type_of(name), cloud(fwaas__firewall_groups=[row("1", OURS)])) == {}


@pytest.mark.parametrize("owner", [OURS, THEIRS])
def test_a_vpn_that_others_are_associated_with_stays(owner):
    """Without the extension for ports, Neutron answers 404 to a list of their associations."""
    made = cloud()
    made.network.extensions = lambda: [{"alias": "bgpvpn"}]
    made.network.bgpvpn_network_associations = lambda _vpn: []
    made.network.bgpvpn_router_associations = lambda _vpn: [row("a", owner)]
    said = refusals(type_of("bgpvpn"), made)
    named = [(b["id"], b["owner"]) for verdict in said.values() for b in verdict.blocked_by]
    assert named == ([("a", THEIRS)] if owner == THEIRS else [])


@pytest.mark.parametrize("owner", [OURS, THEIRS])
def test_a_local_ip_that_serves_a_port_of_others_stays(owner):
    made = cloud(ports=[row("a", owner)], networks=[])
    made.network.local_ip_associations = lambda _local_ip: [{"fixed_port_id": "a"}]
    named = [
        (b["id"], b["owner"]) for verdict in refusals(type_of("local_ip"), made).values() for b in verdict.blocked_by
    ]
    assert named == ([("a", THEIRS)] if owner == THEIRS else [])


@pytest.mark.parametrize("owner", [OURS, THEIRS])
@pytest.mark.parametrize("graph", [{"c": []}, {"d": ["c"]}, {"d": ["e"]}], ids=str)
def test_a_graph_that_joins_chains_of_others_stays(graph, owner):
    made = cloud(sfc__port_chains=[row("c", owner), row("d", OURS), row("z", THEIRS)])
    one = Resource("1", "one", OURS, {"id": "1", "port_chains": graph})
    verdict = before_delete(type_of("sfc_service_graph"), made, PROJECT, one)
    stays = owner == THEIRS and "c" in str(graph)
    assert [b["id"] for b in (verdict.blocked_by if verdict else ())] == (["c"] if stays else [])


def test_a_neutron_without_add_ons_is_not_asked_about_them():
    made = cloud(networks=[])
    made.network.extensions = lambda: [{"alias": "router"}]
    assert refusals(type_of("port"), made) == {}
    assert {path for _method, path, *_ in made.network.asked} <= {"/floatingips", "/networks", "/ports"}


@pytest.mark.parametrize("name", ["tap_flow", "tap_service"])
@pytest.mark.parametrize(
    ("status", "waits"), [("ACTIVE", False), ("DOWN", False), ("PENDING_DELETE", True), (None, False)]
)
def test_a_tap_that_its_agent_removes_is_not_deleted_again(name, status, waits):
    """Neutron would delete the row at once, and the agent would never remove what it has configured."""
    assert bool(type_of(name).deleting(Resource("1", "", OURS, {"status": status}), PROJECT)) is waits
