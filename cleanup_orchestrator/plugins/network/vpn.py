"""Neutron: VPN services and what configures them (neutron-vpnaas)."""

from __future__ import annotations

from collections.abc import Callable

from cleanup_orchestrator.plugins.base import REFUSED, OneByOne, Use, Verdict, refused_in_use
from cleanup_orchestrator.plugins.network.common import explain_by_rows, extension, simple_type


def _connections(*attributes: str) -> Callable[..., Verdict | None]:
    return explain_by_rows("vpn_ipsec_site_connection", "vpn_ipsec_site_connections", *attributes)


def _by_connections(*attributes: str) -> tuple[Use]:
    foresee = OneByOne(_connections(*attributes))
    return (Use(("network.vpn_ipsec_site_connection",), REFUSED, foresee=foresee),)


VPN = (
    simple_type(
        "vpn_ipsec_site_connection",
        "vpn_ipsec_site_connections",
        used_by=(),
        available=extension("vpnaas"),
        source="/v2.0/vpn/ipsec-site-connections; neutron_vpnaas db/vpn/vpn_db.py",
    ),
    simple_type(
        "vpn_service",
        "vpn_services",
        used_by=_by_connections("vpnservice_id"),
        available=extension("vpnaas"),
        explain=_connections("vpnservice_id"),
        after=("vpn_ipsec_site_connection",),
        needed_by=(("vpn_ipsec_site_connection", refused_in_use),),
        source="DELETE /v2.0/vpn/vpnservices/V: 409 VPNServiceInUse; neutron_vpnaas db/vpn/vpn_db.py",
    ),
    simple_type(
        "vpn_endpoint_group",
        "vpn_endpoint_groups",
        used_by=_by_connections("local_ep_group_id", "peer_ep_group_id"),
        available=extension("vpn-endpoint-groups"),
        explain=_connections("local_ep_group_id", "peer_ep_group_id"),
        after=("vpn_ipsec_site_connection",),
        needed_by=(("vpn_ipsec_site_connection", refused_in_use),),
        note="Neutron answers 400, not 409, while it is in use.",
        source="DELETE /v2.0/vpn/endpoint-groups/E: EndpointGroupInUse; neutron_vpnaas db/vpn/vpn_db.py",
    ),
    simple_type(
        "vpn_ike_policy",
        "vpn_ike_policies",
        used_by=_by_connections("ikepolicy_id"),
        available=extension("vpnaas"),
        explain=_connections("ikepolicy_id"),
        after=("vpn_ipsec_site_connection",),
        needed_by=(("vpn_ipsec_site_connection", refused_in_use),),
        source="DELETE /v2.0/vpn/ikepolicies/I: 409 IKEPolicyInUse; neutron_vpnaas db/vpn/vpn_db.py",
    ),
    simple_type(
        "vpn_ipsec_policy",
        "vpn_ipsec_policies",
        used_by=_by_connections("ipsecpolicy_id"),
        available=extension("vpnaas"),
        explain=_connections("ipsecpolicy_id"),
        after=("vpn_ipsec_site_connection",),
        needed_by=(("vpn_ipsec_site_connection", refused_in_use),),
        source="DELETE /v2.0/vpn/ipsecpolicies/I: 409 IPsecPolicyInUse; neutron_vpnaas db/vpn/vpn_db.py",
    ),
)
