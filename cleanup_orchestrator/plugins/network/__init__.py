"""Neutron: networks and all that is on them, with the service plugins.

Some types exist only if Neutron has an extension. If ``GET /v2.0/extensions`` does not list the alias of the extension,
there is no resource of the type. If that call fails, the list of the type fails, too.

Several deletes in Neutron silently delete or change resources of other projects: the delete of a network deletes all of
its subnets, that of a security group deletes the rules of others that name it, and that of a subnet with automatic
addressing removes addresses from ports of any project. Each of them is checked right before the delete. It is refused
with the names of the resources that block it.

The add-ons (VPN, firewall, BGP, BGP VPN, service function chaining, tap as a service) were tried with the API of a real
Neutron and no agent. So these were never met: a VPN connection, a firewall group or a tap that an agent has configured,
a BGP session, the gateway port of a VPN service with OVN, and what the drivers of vendors keep.
"""

from __future__ import annotations

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import CONTROLLERS, Rest, Service
from cleanup_orchestrator.plugins.network.bgp import BGP
from cleanup_orchestrator.plugins.network.chaining import SFC, TAP
from cleanup_orchestrator.plugins.network.firewall import FIREWALL
from cleanup_orchestrator.plugins.network.networks import NETWORKS
from cleanup_orchestrator.plugins.network.ports import PORTS
from cleanup_orchestrator.plugins.network.replicated import REPLICATED
from cleanup_orchestrator.plugins.network.routers import ROUTERS
from cleanup_orchestrator.plugins.network.security import DEFAULTS, SECURITY
from cleanup_orchestrator.plugins.network.settings import METERS, QUOTA, SETTINGS, SHARING
from cleanup_orchestrator.plugins.network.vpn import VPN

OPTIONS = (
    cfg.BoolOpt(
        "delete_shared",
        default=False,
        help="Delete a project's networks, subnet pools, address scopes, QoS policies and the like even if they are "
        "shared with all projects. If false, they are reported as protected.",
    ),
    cfg.BoolOpt(
        "delete_external",
        default=False,
        help="Delete a project's external networks, too. Other projects' routers and floating IPs may be using them. "
        "One that is also shared needs delete_shared, too.",
    ),
    cfg.BoolOpt(
        "drop_foreign_rules",
        default=False,
        help="Delete a project's security group even if rules in groups of other projects name it as their remote "
        "group. Neutron then deletes these rules silently. If false, the rules are reported as blockers.",
    ),
)

SERVICE = Service(
    service_type="network",
    contract_version=2,
    types=(
        *ROUTERS,
        *PORTS,
        *NETWORKS,
        *SECURITY,
        *SHARING,
        *METERS,
        *SETTINGS,
        *DEFAULTS,
        *REPLICATED,
        *QUOTA,
        *VPN,
        *FIREWALL,
        *BGP,
        *SFC,
        *TAP,
    ),
    after=CONTROLLERS,
    options=OPTIONS,
    # Neutron decides this by the same rule as the lists (context_is_admin), which show others only their own project.
    proof=Rest("network", "/quotas", key="quotas"),
    roles="admin on one project: with it Neutron lists the resources of all projects",
)
