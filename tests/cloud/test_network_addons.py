"""Neutron's add-ons: everything of the project is deleted except what others use; the neighbour keeps all."""

from __future__ import annotations

import re

import pytest
from openstack.connection import Connection

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.plugins.network import SERVICE
from tests.cloud import filler
from tests.cloud.conftest import Sweeper
from tests.cloud.fillings.base import Filled, Rest
from tests.cloud.fillings.network_addons import fill_addons
from tests.support import sweeps

CLOUD = ("neutron-addons",)
PASSES = 2  # the engine asks for another sweep while there is progress
#: The type of the plugin for each kind of the filling.
TYPES = {
    "ipsec site connection": "vpn_ipsec_site_connection",
    "vpnservice": "vpn_service",
    "endpoint group": "vpn_endpoint_group",
    "ikepolicy": "vpn_ike_policy",
    "ipsecpolicy": "vpn_ipsec_policy",
    "firewall group": "firewall_group",
    "firewall policy": "firewall_policy",
    "firewall rule": "firewall_rule",
    "bgp speaker": "bgp_speaker",
    "bgp peer": "bgp_peer",
    "bgpvpn": "bgpvpn",
    "bgpvpn network association": "bgpvpn_network_association",
    "bgpvpn router association": "bgpvpn_router_association",
    "bgpvpn port association": "bgpvpn_port_association",
    "service graph": "sfc_service_graph",
    "port chain": "sfc_port_chain",
    "port pair group": "sfc_port_pair_group",
    "port pair": "sfc_port_pair",
    "flow classifier": "sfc_flow_classifier",
    "tap flow": "tap_flow",
    "tap service": "tap_service",
    "tap mirror": "tap_mirror",
}
#: What Neutron makes of each project by itself, once a list names the project.
DEFAULTS = {"default_firewall_group": 1, "default_firewall_policy": 2, "default_firewall_rule": 4}
#: Tables that are counters, or pools of numbers.
COUNTERS = re.compile(
    r"neutron\.(standardattributes|quotausages|reservations|ml2_vxlan_allocations|tap_id_associations):"
)


@pytest.fixture(scope="module")
def admin(further_admin: Connection) -> Connection:
    """The administrator of the cloud."""
    return further_admin


@pytest.fixture(scope="module")
def sweeper(further_sweeper: Sweeper) -> Sweeper:
    """The orchestrator's user. The first lists make the default groups of its own project, and do not show them yet."""
    network = further_sweeper.connection().network
    assert not [*network.security_groups(name="none"), *network.firewall_groups(name="none")]
    return further_sweeper


@pytest.fixture(scope="module")
def neighbour(admin: Connection) -> Filled:
    """A project that must stay unchanged, with a resource of each type."""
    return fill_addons(admin, "neighbour", 1)


def rows(sweeper: Sweeper) -> set[str]:
    """Return the whole database of Neutron without counters."""
    return {line for line in sweeper.dump("neutron").splitlines() if not COUNTERS.match(line)}


def rows_of(sweeper: Sweeper, filled: Filled) -> set[str]:
    """Return the rows of the database of Neutron that name a project."""
    return {line for line in rows(sweeper) if filled.project_id in line}


def delete(sweeper: Sweeper, target: Filled, **options: object) -> dict[str, StepResult]:
    """Sweep until there is no more progress: first the leftovers, then the project settings as well."""
    for _ in range(PASSES):
        swept = sweeper.delete(SERVICE, target, **options)
        if not left(swept):
            break
    assert not [name for name, each in swept.items() if each.outcome is Outcome.UNKNOWN]
    return swept


def left(swept: dict[str, StepResult]) -> dict:
    """{(type, id): leftover} of all types."""
    return {(name, leftover.id): leftover for name, each in swept.items() for leftover in each.leftovers}


def named(leftover) -> set[tuple[str, str, str]]:
    return {(blocker["type"], blocker["id"], blocker["owner"]) for blocker in leftover.blocked_by}


def sweep(sweeper: Sweeper, target: Filled, name: str, stuck: tuple[str, ...] = (), **options: object) -> StepResult:
    """Delete what the project has of one type."""
    type_ = next(each for each in SERVICE.types if each.name == name)
    definition = sweeper.definition(SERVICE, target, **options)
    return sweeps.delete(type_, sweeper.connection(write=True), definition, stuck=stuck)


def test_an_inventory_creates_nothing_in_a_new_project(admin, sweeper, neighbour):
    """A list of firewall groups creates the default group of the project that it filters by."""
    pristine = filler.make_project(admin, "pristine", password=None, partner=None)
    before = sweeper.dump("neutron")
    listed = sweeper.inventory(SERVICE, pristine)
    assert {each.outcome for each in listed.values()} == {Outcome.CLEAR}
    assert sweeper.dump("neutron") == before
    assert not rows_of(sweeper, pristine)
    # Neutron has no list that creates nothing: the caller's own project has got a group.
    own = sweeper.connection().current_project_id
    assert len(sweeper.rows("neutron", "SELECT id FROM firewall_groups_v2 WHERE project_id = ?", own)) == 1


def test_everything_goes(admin, sweeper, neighbour):
    before = rows(sweeper)
    target = fill_addons(admin, "target", 2)
    filled = sweeper.dump("neutron")
    listed = sweeper.inventory(SERVICE, target)
    assert sweeper.dump("neutron") == filled
    assert {leftover.reason for leftover in left(listed).values()} == {Reason.PRESENT}
    found = {name: {leftover.id for leftover in each.leftovers} for name, each in listed.items()}
    assert {name: found[name] for name in TYPES.values()} == {n: set(target.ids[kind]) for kind, n in TYPES.items()}
    assert {name: len(found[name]) for name in DEFAULTS} == DEFAULTS

    assert not left(delete(sweeper, target))
    assert not rows_of(sweeper, target)
    assert rows(sweeper) == before
    # The verification lists again, and does not create the default group again.
    listed = sweeper.inventory(SERVICE, target)
    assert {each.outcome for each in listed.values()} == {Outcome.CLEAR}
    assert rows(sweeper) == before


@pytest.fixture(scope="module")
def used(admin: Connection) -> Filled:
    """A project with a resource of each type, which the tests leave as it is."""
    return fill_addons(admin, "used", 3)


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        ("vpnservice", "ipsec site connection"),
        ("endpoint group", "ipsec site connection"),
        ("ikepolicy", "ipsec site connection"),
        ("ipsecpolicy", "ipsec site connection"),
        ("firewall policy", "firewall group"),
        ("firewall rule", "firewall policy"),
        ("port chain", "service graph"),
        ("port pair group", "port chain"),
        ("port pair", "port pair group"),
        ("flow classifier", "port chain"),
    ],
)
def test_a_refusal_names_what_uses_the_resource(sweeper, used, kind, by):
    """Neutron refuses to delete it, and its message does not say by what it is used."""
    swept = sweep(sweeper, used, TYPES[kind])
    assert {leftover.id for leftover in swept.leftovers} == set(used.ids[kind])
    assert {leftover.reason for leftover in swept.leftovers} == {Reason.IN_USE}
    users = {(f"network.{TYPES[by]}", id_, used.project_id) for id_ in used.ids[by]}
    assert all(named(leftover) and named(leftover) <= users for leftover in swept.leftovers)


def test_what_others_use_stays_and_is_named(admin, sweeper, neighbour):
    everything, theirs = Rest(admin.network), neighbour.project_id
    user = Rest(neighbour.connection.network)
    target = fill_addons(admin, "blocked", 4)

    def create(collection, key, rest=everything, **body):
        """Create a resource of the neighbour, if the body names no other owner."""
        owner = {"project_id": theirs} if rest is everything else {}
        return rest.call("POST", f"/{collection}", {key: {**owner, **body}})[key]["id"]

    # The user of the neighbour may refer to ports of the target on a network of the neighbour.
    guests = []
    for _ in range(3):
        body = {"network_id": neighbour.first("network"), "project_id": target.project_id, "device_id": "guest"}
        guests.append(create("ports", "port", **body))
    pair = create("sfc/port_pairs", "port_pair", user, ingress=guests[0], egress=guests[0])
    classifier = create(
        "sfc/flow_classifiers", "flow_classifier", user, logical_source_port=guests[1], ethertype="IPv4"
    )
    service = neighbour.first("tap service")
    flow = create("taas/tap_flows", "tap_flow", user, source_port=guests[2], tap_service_id=service, direction="IN")
    # An administrator may let the neighbour use all else.
    router = target.first("router")
    gateway = create("vpn/vpnservices", "vpnservice", router_id=router)
    ike, ipsec = target.first("ikepolicy"), target.first("ipsecpolicy")
    link = create("vpn/ipsec-site-connections", "ipsec_site_connection", psk="secret", peer_address="203.0.113.8",
                  peer_id="203.0.113.8", peer_cidrs=["198.18.9.0/24"], ikepolicy_id=ike, ipsecpolicy_id=ipsec,
                  vpnservice_id=neighbour.first("vpnservice"))  # fmt: skip
    ours = {"project_id": target.project_id, "shared": True}
    rule = create("fwaas/firewall_rules", "firewall_rule", protocol="tcp", action="allow", **ours)
    policy = create("fwaas/firewall_policies", "firewall_policy", name="shared", firewall_rules=[rule], **ours)
    wall = create("fwaas/firewall_groups", "firewall_group", egress_firewall_policy_id=policy)
    interfaces = everything.call("GET", "/ports", params={"device_id": neighbour.first("router")})["ports"]
    spare = [p["id"] for p in interfaces if p["device_owner"] == "network:router_interface"][1]
    group = create("fwaas/firewall_groups", "firewall_group", ports=[spare], project_id=target.project_id)
    speaker, peer = target.first("bgp speaker"), target.first("bgp peer")
    announced, their_speaker = neighbour.first("network"), neighbour.first("bgp speaker")
    everything.call("PUT", f"/bgp-speakers/{speaker}/add_gateway_network", {"network_id": announced})
    everything.call("PUT", f"/bgp-speakers/{their_speaker}/add_bgp_peer", {"bgp_peer_id": peer})

    before = {line for line in rows_of(sweeper, neighbour) if target.project_id not in line}
    swept = delete(sweeper, target)
    assert {line for line in rows_of(sweeper, neighbour) if target.project_id not in line} == before
    found = left(swept)
    expected = {
        ("port", guests[0]): ("sfc_port_pair", pair),
        ("port", guests[1]): ("sfc_flow_classifier", classifier),
        ("port", guests[2]): ("tap_flow", flow),
        ("router", router): ("vpn_service", gateway),
        ("vpn_ike_policy", ike): ("vpn_ipsec_site_connection", link),
        ("vpn_ipsec_policy", ipsec): ("vpn_ipsec_site_connection", link),
        ("firewall_group", group): ("port", spare),
        ("bgp_speaker", speaker): ("network", announced),
        ("bgp_peer", peer): ("bgp_speaker", their_speaker),
    }
    for key, (type_, blocker) in expected.items():
        assert found[key].reason is Reason.FOREIGN, found[key]
        assert named(found[key]) == {(f"network.{type_}", blocker, theirs)}, found[key]
    assert found["firewall_policy", policy].reason is found["firewall_rule", rule].reason is Reason.PROTECTED
    assert everything.call("GET", f"/bgp-speakers/{their_speaker}")["bgp_speaker"]["peers"].count(peer) == 1

    # The operator lets shared policies be deleted: Neutron refuses, and its refusal is explained.
    # The router that the neighbour uses is left whole. So the target's firewall group keeps its port, and no agent has
    # applied it: Neutron does not take it off the port.
    refused = {one.id: one for one in sweep(sweeper, target, "firewall_policy", delete_shared=True).leftovers}
    assert refused.keys() == {policy, target.first("firewall policy")}
    assert named(refused[policy]) == {("network.firewall_group", wall, theirs)}
    pending = target.first("firewall group")
    assert named(refused[target.first("firewall policy")]) == {("network.firewall_group", pending, target.project_id)}
    assert "PENDING_CREATE" in found["firewall_group", pending].message
    assert f"WHERE id = '{pending}'" in found["firewall_group", pending].remedy

    # The neighbour removes its references.
    for path in (f"sfc/port_pairs/{pair}", f"sfc/flow_classifiers/{classifier}", f"taas/tap_flows/{flow}",
                 f"vpn/ipsec-site-connections/{link}", f"vpn/vpnservices/{gateway}",
                 f"fwaas/firewall_groups/{wall}"):  # fmt: skip
        everything.call("DELETE", f"/{path}")
    everything.call("PUT", f"/fwaas/firewall_groups/{group}", {"firewall_group": {"ports": []}}, ok=(409,))
    everything.call("PUT", f"/bgp-speakers/{speaker}/remove_gateway_network", {"network_id": announced})
    everything.call("PUT", f"/bgp-speakers/{their_speaker}/remove_bgp_peer", {"bgp_peer_id": peer})
    assert not left(delete(sweeper, target, delete_shared=True))
    assert not rows_of(sweeper, target)


@pytest.mark.parametrize("kind", ["tap flow", "tap service"])
def test_an_active_tap_is_deleted_once_and_then_waited_for(sweeper, used, kind):
    """A second delete would remove the row, although the agent has not removed the tap. Here is no agent."""
    name, (id_,) = TYPES[kind], used.ids[kind]
    sweeper.rows("neutron", f"UPDATE {name}s SET status = 'ACTIVE' WHERE id = ?", id_)
    for _ in range(2):
        swept = sweep(sweeper, used, name)
        assert [(leftover.id, leftover.reason) for leftover in swept.leftovers] == [(id_, Reason.DELETING)]
    assert sweeper.rows("neutron", f"SELECT status FROM {name}s WHERE id = ?", id_) == [("PENDING_DELETE",)]
    swept = sweep(sweeper, used, name, stuck=(id_,))
    assert not swept.leftovers
