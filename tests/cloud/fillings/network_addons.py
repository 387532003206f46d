"""Neutron's add-ons: at least one resource of each type that a project can own, on a few networks of the project.

The project's user makes what the API lets him make, and the administrator the rest for the project.
"""

from __future__ import annotations

from typing import Any

import openstack.connection

from tests.cloud.filler import connect_as, make_project
from tests.cloud.fillings.base import Filled, Filling, Rest


def fill_addons(admin: openstack.connection.Connection, name: str, number: int) -> Filled:
    """Make the project `name`, and fill it in each add-on.

    :param number: differs from project to project: it is in the numbers that have to be unique in the cloud
    """
    filled = make_project(admin, name, password=None, partner=None)
    filling = Filling(admin, filled, 0, 0)
    for kind in (networks, vpn, firewall, bgp_vpn, service_chains, taps):
        kind(filling)
    bgp(filling, number)
    tap_mirror(filling, number)
    return filled


def make(
    f: Filling, collection: str, key: str, body: dict[str, Any], *, kind: str = "", rest: Rest | None = None
) -> str:
    """Create one resource, and record its id by its kind."""
    made = (rest or f.network).call("POST", f"/{collection}", {key: body})[key]
    return f.note(kind or key.replace("_", " "), made["id"])


def port(f: Filling, name: str, network: str, **more: Any) -> str:
    body = {"name": f"{f.name}-{name}", "network_id": network, **more}
    return f.note("port", f.network.call("POST", "/ports", {"port": body})["port"]["id"])


def networks(f: Filling) -> None:
    """Two networks behind a router with a gateway, and one with nothing but a port."""
    for number in range(3):
        network = make(f, "networks", "network", {"name": f"{f.name}-{number}"})
        subnet = {"network_id": network, "ip_version": 4, "cidr": f"172.20.{number}.0/24"}
        make(f, "subnets", "subnet", subnet)
        port(f, f"plain-{number}", network)
    public = f.network.call("GET", "/networks", params={"name": "public"})["networks"][0]["id"]
    router = make(f, "routers", "router", {"name": f"{f.name}-router", "external_gateway_info": {"network_id": public}})
    for subnet in f.filled.ids["subnet"][:2]:
        f.network.call("PUT", f"/routers/{router}/add_router_interface", {"subnet_id": subnet})


def vpn(f: Filling) -> None:
    """Two connections: one with peer addresses, one with endpoint groups."""
    # The defaults of two attributes are values that the database no longer accepts.
    policy = {"auth_algorithm": "sha256", "pfs": "group14"}
    ike = make(f, "vpn/ikepolicies", "ikepolicy", {"name": f"{f.name}-ike", **policy})
    ipsec = make(f, "vpn/ipsecpolicies", "ipsecpolicy", {"name": f"{f.name}-ipsec", **policy})
    router, subnet = f.first("router"), f.first("subnet", 1)
    one = make(f, "vpn/vpnservices", "vpnservice", {"router_id": router, "subnet_id": subnet})
    two = make(f, "vpn/vpnservices", "vpnservice", {"router_id": router})
    local = make(f, "vpn/endpoint-groups", "endpoint_group", {"type": "subnet", "endpoints": [subnet]})
    peer = make(f, "vpn/endpoint-groups", "endpoint_group", {"type": "cidr", "endpoints": ["198.18.0.0/24"]})
    common = {"psk": "secret", "ikepolicy_id": ike, "ipsecpolicy_id": ipsec, "peer_address": "203.0.113.9",
              "peer_id": "203.0.113.9"}  # fmt: skip
    connections = "vpn/ipsec-site-connections", "ipsec_site_connection"
    make(f, *connections, {**common, "vpnservice_id": one, "peer_cidrs": ["198.18.1.0/24"]})
    make(f, *connections, {**common, "vpnservice_id": two, "local_ep_group_id": local, "peer_ep_group_id": peer})


def firewall(f: Filling) -> None:
    """A group on an interface of the router. The first call makes the project's default group."""
    rule = make(f, "fwaas/firewall_rules", "firewall_rule", {"protocol": "tcp", "action": "allow"})
    policy = make(
        f, "fwaas/firewall_policies", "firewall_policy", {"name": f"{f.name}-policy", "firewall_rules": [rule]}
    )
    interfaces = f.network.call("GET", "/ports", params={"device_id": f.first("router")})["ports"]
    own = [p["id"] for p in interfaces if p["device_owner"] == "network:router_interface"]
    body = {"name": f"{f.name}-firewall", "ingress_firewall_policy_id": policy, "ports": own[:1]}
    make(f, "fwaas/firewall_groups", "firewall_group", body)


def bgp(f: Filling, number: int) -> None:
    """A speaker and a peer, which only an administrator may make. A speaker belongs to the project of his token."""
    inside = admin_in(f)
    speaker = {"name": f"{f.name}-speaker", "ip_version": 4, "local_as": 64512 + number}
    one = make(f, "bgp-speakers", "bgp_speaker", speaker, rest=inside)
    peer = {"name": f"{f.name}-peer", "peer_ip": f"203.0.113.{number}", "remote_as": 64700, "auth_type": "none",
            "project_id": f.project_id}  # fmt: skip
    two = make(f, "bgp-peers", "bgp_peer", peer, rest=f.network_admin)
    f.network_admin.call("PUT", f"/bgp-speakers/{one}/add_bgp_peer", {"bgp_peer_id": two})


def admin_in(f: Filling) -> Rest:
    """A client of Neutron with a token of the administrator for the project."""
    admin = f.admin_connection
    user = f.identity_admin.call("GET", "/users", params={"name": "admin"})["users"][0]["id"]
    role = f.identity_admin.call("GET", "/roles", params={"name": "admin"})["roles"][0]["id"]
    f.identity_admin.call("PUT", f"/projects/{f.project_id}/users/{user}/roles/{role}")
    password = admin.config.get_auth_args()["password"]
    return Rest(connect_as(admin, "admin", password, f.name).network)


def bgp_vpn(f: Filling) -> None:
    """The administrator makes two BGP VPNs for the project, whose user associates them."""
    vpns = []
    for _ in range(2):
        body = {"name": f"{f.name}-bgpvpn", "type": "l3", "route_targets": ["64512:1"], "project_id": f.project_id}
        vpns.append(make(f, "bgpvpn/bgpvpns", "bgpvpn", body, rest=f.network_admin))
    associated = (("network", f.first("network", 2)), ("router", f.first("router")), ("port", f.first("port", 2)))
    for vpn_id, (kind, target) in zip((*vpns, vpns[0]), associated, strict=True):
        path, key = f"bgpvpn/bgpvpns/{vpn_id}/{kind}_associations", f"{kind}_association"
        make(f, path, key, {f"{kind}_id": target}, kind=f"bgpvpn {kind} association")


def service_chains(f: Filling) -> None:
    """Two chains in a service graph."""
    network = f.first("network", 1)
    chains = []
    for number in (1, 2):
        ends = [port(f, f"sfc-{number}-{end}", network, device_id=f"{f.name}-{number}") for end in ("in", "out")]
        ends_of = {"ingress": ends[0], "egress": ends[1], "service_function_parameters": {"correlation": "nsh"}}
        pair = make(f, "sfc/port_pairs", "port_pair", ends_of)
        group = make(f, "sfc/port_pair_groups", "port_pair_group", {"port_pairs": [pair]})
        source = {"logical_source_port": ends[0], "ethertype": "IPv4", "source_ip_prefix": f"198.18.{number}.0/24"}
        classifier = make(f, "sfc/flow_classifiers", "flow_classifier", source)
        chain = {"port_pair_groups": [group], "flow_classifiers": [classifier]}
        chain["chain_parameters"] = {"correlation": "nsh", "symmetric": False}
        chains.append(make(f, "sfc/port_chains", "port_chain", chain))
    make(f, "sfc/service_graphs", "service_graph", {"port_chains": {chains[0]: [chains[1]]}})


def taps(f: Filling) -> None:
    network = f.first("network", 1)
    service = make(f, "taas/tap_services", "tap_service", {"port_id": port(f, "tap", network)})
    flow = {"source_port": port(f, "tapped", network), "tap_service_id": service, "direction": "BOTH"}
    make(f, "taas/tap_flows", "tap_flow", flow)


def tap_mirror(f: Filling, number: int) -> None:
    mirror = {"port_id": port(f, "mirrored", f.first("network", 1)), "directions": {"IN": 100 + number},
              "remote_ip": "198.51.100.9", "mirror_type": "gre"}  # fmt: skip
    make(f, "taas/tap_mirrors", "tap_mirror", mirror)
