"""The types of the services as data: paths, shapes, references that refuse a delete, and rows deleted together."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from tests.emulated.state import Hold, Kind, Row

#: One row of each collection as the real services showed it, ids left out; see `tests/cloud`, which compares them.
SHAPES: dict[str, dict[str, Any]] = json.loads(pathlib.Path(__file__).with_name("shapes.json").read_text())

#: Ports that Neutron itself deletes with their network.
NETWORK_PORTS = ("network:dhcp", "network:distributed", "network:floatingip_agent_gateway")
ROUTER_INTERFACE = "network:router_interface"
ROUTER_GATEWAY = "network:router_gateway"

PLAIN = {"id": "", "name": "", "description": "", "project_id": "", "tenant_id": ""}


def _network(name: str, path: str, one: str = "", /, many: str = "", **declared: Any) -> Kind:
    one = one or name
    last = path.rpartition("/")[2].replace("-", "_")
    return Kind("network", name, path, one, many or last, SHAPES.get(f"network.{name}", PLAIN), **declared)


def _of_the_network(port: Row) -> bool:
    return port.get("device_owner") in NETWORK_PORTS


def _gateway(port: Row) -> bool:
    return bool(port.get("device_owner") != ROUTER_INTERFACE)


RBAC = ("rbac_policy", "object_id")

NETWORK = (
    _network(
        "network",
        "networks",
        links=("qos_policy_id",),
        holds=(
            Hold(
                "port",
                "network_id",
                "NetworkInUse",
                message="Unable to complete operation on network {id}. There are one or more ports still in use on the "
                "network, id for these ports is {by}.",
                unless=_of_the_network,
            ),
        ),
        takes=(("port", "network_id"), ("subnet", "network_id"), RBAC),
    ),
    _network(
        "subnet",
        "subnets",
        links=("network_id", "subnetpool_id"),
        holds=(
            Hold(
                "port",
                "fixed_ips.subnet_id",
                "SubnetInUse",
                message="Unable to complete operation on subnet {id}: One or more ports have an IP allocation from "
                "this subnet.",
                unless=_of_the_network,
            ),
        ),
    ),
    _network(
        "port",
        "ports",
        links=("network_id", "device_id", "security_groups", "fixed_ips.subnet_id", "qos_policy_id"),
        holds=(
            Hold("trunk", "port_id", "PortInUseAsTrunkParent", message="Port {id} is a parent port of trunk {by}."),
            Hold("trunk", "sub_ports.port_id", "PortInUseAsSubPort", message="Port {id} is a subport of trunk {by}."),
            Hold("local_ip", "local_port_id", "LocalIPPortInUse", message="Port {id} is used by local IP {by}."),
        ),
        takes=(
            ("port_forwarding", "internal_port_id"),
            ("ndp_proxy", "port_id"),
            ("local_ip_association", "fixed_port_id"),
        ),
        clears=(("floating_ip", "port_id"),),
    ),
    _network(
        "router",
        "routers",
        extension="router",
        holds=(
            Hold("port", "device_id", "RouterInUse", message="Router {id} still has ports", unless=_gateway),
            Hold(
                "floating_ip",
                "router_id",
                "RouterExternalGatewayInUseByFloatingIp",
                message="Gateway cannot be updated for router {id}, since a gateway to external network is required by "
                "one or more floating IPs.",
            ),
            Hold("ndp_proxy", "router_id", "RouterInUseByNDPProxy"),
            Hold("vpn_service", "router_id", "RouterInUseByVPNService"),
        ),
        takes=(("port", "device_id"), ("conntrack_helper", "router_id")),
    ),
    _network(
        "floating_ip",
        "floatingips",
        "floatingip",
        extension="router",
        links=("router_id", "port_id", "floating_network_id", "qos_policy_id"),
        holds=(
            Hold(
                "port_forwarding",
                "floatingip_id",
                "FipInUseByPortForwarding",
                message="Floating IP {id} in use by Port Forwarding resources.",
            ),
        ),
        takes=(("port", "device_id"),),
    ),
    _network(
        "port_forwarding",
        "floatingips/*/port_forwardings",
        extension="floating-ip-port-forwarding",
        owner=(),
        parent="floatingip_id",
        links=("floatingip_id", "internal_port_id"),
    ),
    _network(
        "conntrack_helper",
        "routers/*/conntrack_helpers",
        extension="l3-conntrack-helper",
        owner=(),
        parent="router_id",
        links=("router_id",),
    ),
    _network("ndp_proxy", "ndp_proxies", extension="l3-ndp-proxy", links=("router_id", "port_id")),
    _network("trunk", "trunks", extension="trunk", links=("port_id", "sub_ports.port_id")),
    _network(
        "local_ip",
        "local_ips",
        extension="local_ip",
        links=("local_port_id", "network_id"),
        holds=(Hold("local_ip_association", "local_ip_id", "LocalIPInUse"),),
        takes=(("port", "device_id"),),
    ),
    _network(
        "local_ip_association",
        "local_ips/*/port_associations",
        "port_association",
        extension="local_ip",
        owner=(),
        id="fixed_port_id",
        parent="local_ip_id",
        links=("local_ip_id", "fixed_port_id"),
    ),
    _network(
        "subnet_pool",
        "subnetpools",
        "subnetpool",
        extension="subnet_allocation",
        links=("address_scope_id",),
        holds=(
            Hold(
                "subnet",
                "subnetpool_id",
                "SubnetPoolDeleteError",
                400,
                "Unable to delete subnet pool: Subnet pool has existing allocations.",
            ),
        ),
        takes=(RBAC,),
    ),
    _network(
        "address_scope",
        "address-scopes",
        extension="address-scope",
        holds=(Hold("subnet_pool", "address_scope_id", "AddressScopeInUse"),),
        takes=(RBAC,),
    ),
    _network(
        "security_group",
        "security-groups",
        extension="security-group",
        holds=(Hold("port", "security_groups", "SecurityGroupInUse", message="Security Group {id} in use."),),
        takes=(("security_group_rule", "security_group_id"), ("security_group_rule", "remote_group_id"), RBAC),
    ),
    _network(
        "security_group_rule",
        "security-group-rules",
        extension="security-group",
        links=("security_group_id", "remote_group_id", "remote_address_group_id"),
    ),
    _network(
        "address_group",
        "address-groups",
        extension="address-group",
        holds=(Hold("security_group_rule", "remote_address_group_id", "AddressGroupInUse"),),
        takes=(RBAC,),
    ),
    _network(
        "qos_policy",
        "qos/policies",
        "policy",
        extension="qos",
        holds=tuple(
            Hold(kind, "qos_policy_id", "QosPolicyInUse", message=f"QoS Policy {{id}} is used by {word} {{by}}.")
            for kind, word in (("network", "network"), ("port", "port"), ("floating_ip", "fip"))
        ),
        takes=(RBAC,),
    ),
    _network("rbac_policy", "rbac-policies", extension="rbac-policies", links=("object_id", "target_tenant")),
    _network("metering_label", "metering/metering-labels", extension="metering"),
    _network("log", "log/logs", extension="logging"),
    _network("security_groups_default_statefulness", "security-groups-default-statefulness",
             extension="security-groups-default-statefulness", project_setting=True),
    _network("network_segment_range", "network_segment_ranges", extension="network-segment-range", project_setting=True,
             owner=("project_id",)),
    _network("quota", "quotas", extension="quotas", id="project_id", project_setting=True),
)  # fmt: skip

#: What other packages add to Neutron, without a real service to compare with: name in the plugin, path, key, alias,
#: references, what refuses a delete.
PLUGGED = tuple(
    _network(name, path, one, extension=alias, links=links, holds=tuple(Hold(k, a, t) for k, a, t in holds), **more)
    for name, path, one, alias, links, holds, more in (
        ("vpn_ipsec_site_connection", "vpn/ipsec-site-connections", "ipsec_site_connection", "vpnaas",
         ("vpnservice_id", "ikepolicy_id", "ipsecpolicy_id", "local_ep_group_id",
          "peer_ep_group_id"), (), {}),
        ("vpn_service", "vpn/vpnservices", "vpnservice", "vpnaas", ("router_id",),
         (("vpn_ipsec_site_connection", "vpnservice_id", "VPNServiceInUse"),), {}),
        ("vpn_endpoint_group", "vpn/endpoint-groups", "endpoint_group", "vpn-endpoint-groups", (),
         (("vpn_ipsec_site_connection", "local_ep_group_id", "EndpointGroupInUse"),
          ("vpn_ipsec_site_connection", "peer_ep_group_id", "EndpointGroupInUse")), {}),
        ("vpn_ike_policy", "vpn/ikepolicies", "ikepolicy", "vpnaas", (),
         (("vpn_ipsec_site_connection", "ikepolicy_id", "IKEPolicyInUse"),), {}),
        ("vpn_ipsec_policy", "vpn/ipsecpolicies", "ipsecpolicy", "vpnaas", (),
         (("vpn_ipsec_site_connection", "ipsecpolicy_id", "IPsecPolicyInUse"),), {}),
        ("firewall_group", "fwaas/firewall_groups", "firewall_group", "fwaas_v2",
         ("ingress_firewall_policy_id", "egress_firewall_policy_id"), (), {}),
        ("firewall_policy", "fwaas/firewall_policies", "firewall_policy", "fwaas_v2", ("firewall_rules",),
         (("firewall_group", "ingress_firewall_policy_id", "FirewallPolicyInUse"),
          ("firewall_group", "egress_firewall_policy_id", "FirewallPolicyInUse")), {}),
        ("firewall_rule", "fwaas/firewall_rules", "firewall_rule", "fwaas_v2", (),
         (("firewall_policy", "firewall_rules", "FirewallRuleInUse"),), {}),
        ("bgp_speaker", "bgp-speakers", "bgp_speaker", "bgp", (), (), {}),
        ("bgp_peer", "bgp-peers", "bgp_peer", "bgp", (), (), {}),
        ("bgpvpn", "bgpvpn/bgpvpns", "bgpvpn", "bgpvpn", (), (),
         {"takes": tuple((f"bgpvpn_{kind}_association", "bgpvpn_id") for kind in ("network", "router", "port"))}),
        ("bgpvpn_network_association", "bgpvpn/bgpvpns/*/network_associations", "network_association", "bgpvpn",
         ("bgpvpn_id", "network_id"), (), {"parent": "bgpvpn_id"}),
        ("bgpvpn_router_association", "bgpvpn/bgpvpns/*/router_associations", "router_association", "bgpvpn",
         ("bgpvpn_id", "router_id"), (), {"parent": "bgpvpn_id"}),
        ("bgpvpn_port_association", "bgpvpn/bgpvpns/*/port_associations", "port_association", "bgpvpn-routes-control",
         ("bgpvpn_id", "port_id"), (), {"parent": "bgpvpn_id"}),
        ("sfc_service_graph", "sfc/service_graphs", "service_graph", "service_graph", ("port_chains",), (), {}),
        ("sfc_port_chain", "sfc/port_chains", "port_chain", "sfc", ("port_pair_groups", "flow_classifiers"),
         (("sfc_service_graph", "port_chains", "ServiceGraphPortChainInUse"),), {}),
        ("sfc_port_pair_group", "sfc/port_pair_groups", "port_pair_group", "sfc", ("port_pairs",),
         (("sfc_port_chain", "port_pair_groups", "PortPairGroupInUse"),), {}),
        ("sfc_port_pair", "sfc/port_pairs", "port_pair", "sfc", ("ingress", "egress"),
         (("sfc_port_pair_group", "port_pairs", "PortPairInUse"),), {}),
        ("sfc_flow_classifier", "sfc/flow_classifiers", "flow_classifier", "flow_classifier",
         ("logical_source_port", "logical_destination_port"),
         (("sfc_port_chain", "flow_classifiers", "FlowClassifierInUse"),), {}),
        ("tap_flow", "taas/tap_flows", "tap_flow", "taas", ("tap_service_id", "source_port"), (), {}),
        ("tap_service", "taas/tap_services", "tap_service", "taas", (),
         (("tap_flow", "tap_service_id", "TapServiceInUse"),), {}),
        ("tap_mirror", "taas/tap_mirrors", "tap_mirror", "tap-mirror", (), (), {}),
    )
)  # fmt: skip

IMAGE = (
    Kind("image", "image", "images", "", "images", SHAPES["image.image"], owner=("owner",), links=("members",)),
    Kind("image", "metadef_namespace", "metadefs/namespaces", "", "namespaces", SHAPES["image.metadef_namespace"],
         owner=("owner",), id="namespace"),
    Kind("image", "task", "tasks", "", "tasks", SHAPES["image.task"], owner=("owner",), history=True),
)  # fmt: skip

KEY_MANAGER = (
    *(
        Kind("key-manager", name, f"{name}s", "", f"{name}s", SHAPES[f"key-manager.{name}"], owner=())
        for name in ("order", "container", "secret")
    ),
    Kind("key-manager", "project_quota", "project-quotas", "project_quotas", "project_quotas",
         {"secrets": 500, "orders": 500, "containers": 500, "consumers": None, "cas": None},
         owner=(), project_setting=True),
)  # fmt: skip

SERVER: dict[str, object] = {
    "id": "", "name": "", "status": "ACTIVE", "tenant_id": "", "user_id": "", "metadata": {}, "tags": [],
    "OS-EXT-STS:task_state": None, "os-extended-volumes:volumes_attached": [], "created": "2026-01-01T00:00:00Z",
    "updated": "2026-01-01T00:00:00Z",
}  # fmt: skip
COMPUTE = (Kind("compute", "server", "servers", "server", "servers", SERVER, owner=("tenant_id",)),)


def _identity(name: str, path: str, shape: dict[str, Any] | None = None, **declared: Any) -> Kind:
    shape = SHAPES.get(f"identity.{name}") or shape or {}
    many = path.rpartition("/")[2]
    return Kind("identity", name, path, name.removeprefix("oauth1_"), many, shape, **{"owner": (), **declared})


OF_PROJECT: dict[str, Any] = {"owner": ("project_id",)}
NAMED = {"id": "", "name": "", "description": "", "domain_id": "default", "links": {}}
USER = {"id": "", "name": "", "domain_id": "default", "links": {}, "enabled": True, "password_expires_at": None}

IDENTITY = (
    _identity("service", "services"),
    _identity("endpoint", "endpoints"),
    _identity("role", "roles"),
    _identity("region", "regions", {"id": "", "description": "", "parent_region_id": None, "links": {}}),
    _identity("domain", "domains", {**NAMED, "enabled": True, "options": {}, "tags": []}),
    _identity("user", "users", {**USER, "options": {}}),
    _identity("group", "groups", NAMED),
    _identity("credential", "credentials", **OF_PROJECT),
    _identity("trust", "OS-TRUST/trusts", **OF_PROJECT),
    _identity("limit", "limits", **OF_PROJECT),
    _identity("application_credential", "users/*/application_credentials", parent="user_id", links=("user_id",),
              **OF_PROJECT),
    _identity("oauth1_access_token", "users/*/OS-OAUTH1/access_tokens",
              {"id": "", "consumer_id": "", "project_id": "", "authorizing_user_id": "", "expires_at": None,
               "links": {}}, parent="user_id", links=("user_id",), **OF_PROJECT),
)  # fmt: skip

#: Goes with the project when Keystone deletes it.
WITH_PROJECT = ("credential", "trust", "limit")

#: Extensions of a Neutron without what other packages add.
STOCK = frozenset(kind.extension for kind in NETWORK if kind.extension) | {"filter-validation", "pagination"}
EXTRA = frozenset(kind.extension for kind in PLUGGED)

KINDS = (*NETWORK, *PLUGGED, *IMAGE, *KEY_MANAGER, *COMPUTE, *IDENTITY)
