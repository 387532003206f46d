"""Neutron: networks and everything on them, with the service plugins that other packages add to it.

Whatever is not part of every Neutron is asked for by the alias of its extension: an alias that ``GET /v2.0/extensions``
does not list is Neutron's own word that there is nothing of that type. A failing call of that list raises.

Several deletes of Neutron silently take along, or change, what is not the project's: a network its subnets, a security
group the rules of others that name it, a subnet with automatic addresses the addresses of anybody's ports. Each of them
is checked right before the delete and refused with the names of those in the way.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    BadAnswer,
    Paging,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Sdk,
    Service,
    Verdict,
    blocker,
    refuse_foreign,
    to_row,
    verdict_naming,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

OPTIONS = (
    cfg.BoolOpt(
        "delete_shared",
        default=False,
        help="Delete a project's networks, subnet pools, address scopes, QoS policies and the like also when they are "
        "shared with all projects. Without it they are reported as protected.",
    ),
    cfg.BoolOpt(
        "delete_external",
        default=False,
        help="Delete a project's external networks, too. Other projects' routers and floating IPs may be using them. "
        "One that is shared as well takes delete_shared besides.",
    ),
    cfg.BoolOpt(
        "drop_foreign_rules",
        default=False,
        help="Delete a project's security group also when rules in other projects' groups name it as their remote "
        "group. Neutron then deletes those rules without a word. Without it the rules are reported as blockers.",
    ),
)

#: Owners of ports that only a router's own calls remove (neutron_lib constants, ROUTER_PORT_OWNERS and HA).
ROUTER_PORTS = (
    "network:router_interface",
    "network:router_interface_distributed",
    "network:ha_router_replicated_interface",
    "network:router_centralized_snat",
    "network:router_gateway",
    "network:router_ha_interface",
)
#: Those of them that ``remove_router_interface`` takes.
ROUTER_INTERFACES = ROUTER_PORTS[:3]
#: Ports that Neutron itself deletes with their network (neutron common/_constants.py, AUTO_DELETE_PORT_OWNERS).
NETWORK_PORTS = ("network:dhcp", "network:distributed", "network:floatingip_agent_gateway")

DEFAULT_GROUP = "default"  #: Neutron lets nobody else take this name, for security and for firewall groups
DEFAULT_FIREWALL_POLICIES = ("default ingress", "default egress")
DEFAULT_FIREWALL_RULES = tuple(f"{policy} {ip}" for policy in DEFAULT_FIREWALL_POLICIES for ip in ("ipv4", "ipv6"))

PAGE = 1000  #: rows of a list over all projects; without it Neutron may answer with the whole cloud at once

# ---------------------------------------------------------------- extensions

_EXTENSIONS_SECONDS = 30.0  # one round of sweeps asks dozens of times; an upgrade of Neutron takes longer
_extensions: dict[str, tuple[float, frozenset[str]]] = {}  # by endpoint: each step has a connection of its own
_extensions_lock = threading.Lock()


def _aliases(connection: Connection) -> frozenset[str]:
    """Return the aliases of what this Neutron can do.

    :raises BadAnswer: when it claims to have no extension at all, which no Neutron has
    """
    endpoint = str(connection.network.get_endpoint() or "")
    with _extensions_lock:
        read_at, known = _extensions.get(endpoint, (0.0, frozenset()))
    if known and time.monotonic() - read_at < _EXTENSIONS_SECONDS:
        return known
    found = frozenset(str(row["alias"]) for row in Sdk("network", "extensions").rows(connection, _NOBODY))
    if not found:
        raise BadAnswer("GET /v2.0/extensions answered with an empty list")
    if endpoint:
        with _extensions_lock:
            _extensions[endpoint] = (time.monotonic(), found)
    return found


_NOBODY = ProjectDefinition(id="-", name="", domain_id="", region="")  # for calls that ask nothing about a project


def extension(alias: str) -> Callable[[Connection, ProjectDefinition], bool]:
    """Return a check for ``ResourceType.available``: whether Neutron lists the extension."""

    def available(connection: Connection, project: ProjectDefinition) -> bool:
        return alias in _aliases(connection)

    return available


# ---------------------------------------------------------------- helpers


def _rows(connection: Connection, method: str, *args: Any, **query: Any) -> Iterator[Row]:
    """Yield the rows of an SDK listing of the network proxy."""
    for item in getattr(connection.network, method)(*args, **query):
        yield to_row(item)


def _owner(row: Row) -> str:
    return str(row.get("project_id") or row.get("tenant_id") or "")


def _is_shared(row: Row) -> bool:
    # The SDK's name where it has one, Neutron's otherwise.
    return bool(row.get("is_shared") or row.get("shared"))


def _blocker(type_: str, row: Row) -> dict[str, str]:
    return blocker(f"network.{type_}", row["id"], _owner(row))


#: Where a collection is, if not at its own name with dashes.
_PATHS = {
    "bgpvpns": "/bgpvpn/bgpvpns",
    "firewall_groups": "/fwaas/firewall_groups",
    "firewall_policies": "/fwaas/firewall_policies",
    "firewall_rules": "/fwaas/firewall_rules",
    "ips": "/floatingips",
    "local_ips": "/local_ips",
    "metering_labels": "/metering/metering-labels",
    "ndp_proxies": "/ndp_proxies",
    "network_segment_ranges": "/network_segment_ranges",
    "qos_policies": "/qos/policies",
    "sfc_flow_classifiers": "/sfc/flow_classifiers",
    "sfc_port_chains": "/sfc/port_chains",
    "sfc_port_pair_groups": "/sfc/port_pair_groups",
    "sfc_port_pairs": "/sfc/port_pairs",
    "sfc_service_graphs": "/sfc/service_graphs",
    "subnet_pools": "/subnetpools",
    "tap_flows": "/taas/tap_flows",
    "tap_mirrors": "/taas/tap_mirrors",
    "tap_services": "/taas/tap_services",
    "vpn_endpoint_groups": "/vpn/endpoint-groups",
    "vpn_ike_policies": "/vpn/ikepolicies",
    "vpn_ipsec_policies": "/vpn/ipsecpolicies",
    "vpn_ipsec_site_connections": "/vpn/ipsec-site-connections",
    "vpn_services": "/vpn/vpnservices",
}


def all_projects_view(plural: str) -> Rest:
    """Return the list of all projects' rows, as Neutron has them: the SDK needs milliseconds for each.

    What is never paged ignores the limit, and gives no next link.
    """
    path = _PATHS.get(plural) or "/" + plural.replace("_", "-")
    key = path.rpartition("/")[2].replace("-", "_")
    return Rest("network", path, key=key, query={"limit": PAGE}, paging=Paging.LINKS)


def _simple(name: str, plural: str, *, get: str = "", **declared: Any) -> ResourceType:
    """Return a type whose list, show and delete are plain SDK calls, the list with the owner filter."""
    declared.setdefault("list", Sdk("network", plural, project_id="{project_id}"))
    declared.setdefault("all_projects", all_projects_view(plural))
    declared.setdefault("show", Sdk("network", get or f"get_{name}", "{id}"))
    declared.setdefault("delete", Sdk("network", f"delete_{name}", "{id}", ignore_missing=False))
    return ResourceType(name=name, **declared)


# ---------------------------------------------------------------- rules


def shared(resource: Resource, project: ProjectDefinition) -> str | None:
    """Protect what every project can see."""
    if _is_shared(resource.data) and not project.options.get("delete_shared"):
        return "it is shared with all projects, who may be using it"
    return None


def external(resource: Resource, project: ProjectDefinition) -> str | None:
    """Protect an external network: it is the way out for everybody's routers."""
    if resource.data.get("is_router_external") and not project.options.get("delete_external"):
        return "it is an external network, which other projects' routers and floating IPs may be using"
    return None


def default_pool(resource: Resource, project: ProjectDefinition) -> str | None:
    """Protect the subnet pool that everybody's subnets come from unless they say otherwise."""
    if resource.data.get("is_default") and not project.options.get("delete_shared"):
        return "it is the default subnet pool of the cloud"
    return None


def shared_with_all(resource: Resource, project: ProjectDefinition) -> str | None:
    """Protect a grant to everybody: without it the object would no longer look shared, and lose its protection."""
    if resource.data.get("target_project_id") == "*" and not project.options.get("delete_shared"):
        return f"it shares {resource.data.get('object_type')} {resource.data.get('object_id')} with all projects"
    return None


def on_protected_network(resource: Resource, project: ProjectDefinition) -> str | None:
    """Protect a subnet of a network that is itself protected."""
    if resource.data.get(_PROTECTED):
        return f"its network {resource.data.get('network_id')} is protected, and others may be using it"
    return None


def of_own_network(resource: Resource, project: ProjectDefinition) -> str | None:
    """Keep Neutron's own ports on the project's networks: agents make them again, and the network takes them along."""
    if resource.data.get(_PARENT_IS_OURS):
        return f"Neutron made it for network {resource.data.get('network_id')} and deletes it with that"
    return None


def granted_by_others(resource: Resource, project: ProjectDefinition) -> str | None:
    """Keep a grant of others to the project: theirs to take back, and of no effect once the project is gone."""
    return f"it belongs to project {resource.data.get('project_id')}, which shares an object with this one"


# ---------------------------------------------------------------- ports, subnets, networks

_PARENT_IS_OURS = "_parent_is_ours"  # put into listed rows; no attribute of Neutron begins with an underscore
_PROTECTED = "_network_is_protected"


def list_ports(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's ports but for those of routers; mark Neutron's own ones on the project's networks."""
    ours: set[str] | None = None
    for row in _rows(connection, "ports", project_id=project.id):
        if row.get("device_owner") in ROUTER_PORTS:
            continue
        if row.get("device_owner") in NETWORK_PORTS:
            if ours is None:
                ours = {str(n["id"]) for n in _rows(connection, "networks", project_id=project.id)}
            row = {**row, _PARENT_IS_OURS: row.get("network_id") in ours}
        yield row


def all_ports(of_routers: bool) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of all projects' ports that belong to routers, or of all others."""

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for row in all_projects_view("ports").rows(connection, project):
            if (row.get("device_owner") in ROUTER_PORTS) is of_routers:
                yield row

    return listing


def list_router_ports(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's ports that belong to routers, whosever."""
    for row in _rows(connection, "ports", project_id=project.id, device_owner=list(ROUTER_PORTS)):
        if row.get("device_owner") in ROUTER_PORTS:
            yield row


def list_subnets(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's subnets; mark those of networks of the project that are protected."""
    protected: set[str] | None = None
    for row in _rows(connection, "subnets", project_id=project.id):
        if protected is None:
            networks = (NETWORK.resource(n, project) for n in _rows(connection, "networks", project_id=project.id))
            protected = {n.id for n in networks if any(rule(n, project) for rule in NETWORK.protect)}
        yield {**row, _PROTECTED: row.get("network_id") in protected}


def check_subnet(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a subnet with others' ports: with automatic addressing Neutron would strip their addresses."""
    ports = _rows(connection, "ports", network_id=resource.data.get("network_id"))
    using = [p for p in ports if any(ip.get("subnet_id") == resource.id for ip in p.get("fixed_ips") or ())]
    blockers = [_port_blocker(connection, port) for port in using]
    refuse_foreign(project, "addresses of it are used by", blockers)


def check_network(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a network that has others' subnets: Neutron deletes them with it, whosever they are."""
    subnets = _rows(connection, "subnets", network_id=resource.id)
    blockers = [_blocker("subnet", s) for s in subnets if s.get("network_id") == resource.id]
    refuse_foreign(project, "deleting it would delete", blockers)


def explain_network(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the ports on a network that Neutron refuses to delete; anybody's port counts."""
    ports = [p for p in _rows(connection, "ports", network_id=resource.id) if p.get("network_id") == resource.id]
    using = [p for p in ports if p.get("device_owner") not in NETWORK_PORTS]
    return verdict_naming(project, "it is used by", [_port_blocker(connection, port) for port in using])


def explain_subnet(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the ports with addresses of a subnet."""
    ports = _rows(connection, "ports", network_id=resource.data.get("network_id"))
    using = [p for p in ports if any(ip.get("subnet_id") == resource.id for ip in p.get("fixed_ips") or ())]
    return verdict_naming(project, "it is used by", [_port_blocker(connection, port) for port in using])


_BEHIND = {  # ports without an owner: what they stand for, and how to read it
    "network:floatingip": ("floating_ip", "get_ip"),
    "network:local_ip": ("local_ip", "get_local_ip"),
    **dict.fromkeys(ROUTER_PORTS, ("router", "get_router")),
}


def _port_blocker(connection: Connection, port: Row) -> dict[str, str]:
    """Return what a port stands for: Neutron gives its own ports no owner, so what is behind them is named instead."""
    type_, method = _BEHIND.get(str(port.get("device_owner")), ("", ""))
    if _owner(port) or not type_ or not port.get("device_id"):
        return _blocker("port", port)
    from openstack import exceptions

    try:
        return _blocker(type_, to_row(getattr(connection.network, method)(port["device_id"])))
    except exceptions.NotFoundException:
        return _blocker("port", port)


def explain_router_port(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the router that a port belongs to."""
    router_id = resource.data.get("device_id")
    if not router_id:
        return None
    return verdict_naming(
        project, "it is an interface of", [_blocker("router", to_row(connection.network.get_router(router_id)))]
    )


# ---------------------------------------------------------------- routers and floating IPs


def clear_routes(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Drop static routes: an interface towards a next hop cannot be removed."""
    if resource.data.get("routes"):
        connection.network.update_router(resource.id, routes=[])


def remove_interfaces(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Remove a router's interfaces, plain, distributed and replicated; each takes its port along.

    So a port of another project is left where it is, and named. One that is refused keeps none of the others.
    """
    from openstack import exceptions

    ports = list(_rows(connection, "ports", device_id=resource.id))
    interfaces = [p for p in ports if p.get("device_id") == resource.id and p.get("device_owner") in ROUTER_INTERFACES]
    refusals = []
    for port in interfaces:
        if _owner(port) == project.id:
            try:
                connection.network.remove_interface_from_router(resource.id, port=port["id"])
            except exceptions.ConflictException as error:
                refusals.append(error)
    refuse_foreign(project, "removing its interface would delete", [_blocker("port", p) for p in interfaces])
    if refusals:
        raise refusals[0]


def explain_router(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the floating IPs behind a router, anybody's."""
    found = [ip for ip in _rows(connection, "ips", router_id=resource.id) if ip.get("router_id") == resource.id]
    return verdict_naming(project, "it is the way out for", [_blocker("floating_ip", ip) for ip in found])


def list_conntrack_helpers(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the helpers of the project's routers, which own them."""
    for router in _rows(connection, "routers", project_id=project.id):
        if _owner(router) == project.id:
            for row in _rows(connection, "conntrack_helpers", router["id"]):
                yield {**row, "router_id": router["id"], "project_id": project.id}


def list_port_forwardings(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the forwardings of the project's floating IPs, which own them."""
    for ip in _rows(connection, "ips", project_id=project.id):
        # One with a port of its own cannot forward (neutron pf_plugin.py, FloatingIPPortAlreadyAssociated).
        if _owner(ip) == project.id and not ip.get("port_id"):
            for row in _rows(connection, "port_forwardings", ip["id"]):
                yield {**row, "floatingip_id": ip["id"], "project_id": project.id}


def show_port_forwarding(connection: Connection, project: ProjectDefinition, resource: Resource) -> Row:
    """Read the owner again: it is the floating IP's."""
    ip = to_row(connection.network.get_ip(resource.data["floatingip_id"]))
    return {**resource.data, "project_id": _owner(ip)}


def release_local_ip(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Remove the associations of a local IP; Neutron refuses to delete it with any.

    Neutron 29 has been seen to answer 500 to a list of associations that is not empty. Then the delete is tried all the
    same, and refused; another sweep succeeds once the associated ports are gone, which take their associations along.
    """
    from openstack import exceptions

    try:
        rows = list(_rows(connection, "local_ip_associations", resource.id))
    except exceptions.HttpException as error:
        if error.status_code != 500:
            raise
        return
    for row in rows:
        connection.network.delete_local_ip_association(resource.id, row["fixed_port_id"], ignore_missing=False)


def enable_trunk(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Enable a trunk: Neutron refuses to delete a disabled one."""
    if resource.data.get("is_admin_state_up") is False:
        connection.network.update_trunk(resource.id, admin_state_up=True)


# ---------------------------------------------------------------- security, addresses, QoS


def _with_own(connection: Connection, project: ProjectDefinition) -> list[str]:
    """Return an owner filter that reads without writing.

    These collections create the default group of the *first* project that a list filters by. So the orchestrator's own
    comes first: its default group is created by every list without a filter as well.
    """
    own = connection.session.get_project_id()
    if not own:
        raise BadAnswer("the orchestrator's token is not scoped to a project: a list here would create default groups")
    return [str(own), project.id]


def _list_groups(plural: str, names: Iterable[str], defaults: bool) -> Callable[..., Iterator[Row]]:
    """Return a listing of the defaults that the service makes, or of all others."""
    default_names = frozenset(names)

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for row in _rows(connection, plural, project_id=_with_own(connection, project)):
            if (row.get("name") in default_names) is defaults:
                yield row

    return listing


def _all_groups(plural: str, names: Iterable[str], defaults: bool) -> Callable[..., Iterator[Row]]:
    """Return the same listing over all projects. Without a filter it creates the orchestrator's own default alone."""
    default_names = frozenset(names)

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for row in all_projects_view(plural).rows(connection, project):
            if (row.get("name") in default_names) is defaults:
                yield row

    return listing


def check_security_group(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a group that others' rules name: the database deletes those rules with it (remote_group_id, CASCADE)."""
    if project.options.get("drop_foreign_rules"):
        return
    rules = _rows(connection, "security_group_rules", remote_group_id=resource.id)
    blockers = [_blocker("security_group_rule", r) for r in rules if r.get("remote_group_id") == resource.id]
    refuse_foreign(project, "deleting it would delete", blockers)


def explain_security_group(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the ports that use a group, anybody's."""
    ports = _rows(connection, "ports", security_group_ids=resource.id)
    using = [p for p in ports if resource.id in (p.get("security_group_ids") or p.get("security_groups") or ())]
    return verdict_naming(project, "it is used by", [_blocker("port", p) for p in using])


def drop_own_rules(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Delete the project's own rules that name an address group: its default security group stays to the very end."""
    for rule in list(_rows(connection, "security_group_rules", remote_address_group_id=resource.id)):
        if rule.get("remote_address_group_id") == resource.id and _owner(rule) == project.id:
            connection.network.delete_security_group_rule(rule["id"], ignore_missing=False)


def _explain_by(type_: str, plural: str, attribute: str, query: str = "") -> Callable[..., Verdict | None]:
    """Return an explanation that names the rows of another collection which refer to the resource."""

    def explain(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
        rows = _rows(connection, plural, **{query or attribute: resource.id})
        blockers = [_blocker(type_, row) for row in rows if row.get(attribute) == resource.id]
        return verdict_naming(project, "it is used by", blockers)

    return explain


_BOUND = re.compile(r"is used by (network|port|router|fip) ([0-9a-f-]{32,36})")
_READ_BOUND = {
    "network": ("network", "get_network"),
    "port": ("port", "get_port"),
    "router": ("router", "get_router"),
    "fip": ("floating_ip", "get_ip"),
}


def delete_qos_policy(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Delete a QoS policy; name what it is bound to, when that is why Neutron refuses.

    Neutron's refusal is the only place to read it: no list can be filtered by policy (400 where filter-validation is
    on), and a list of every port of the cloud is too much for a sentence. It names one at a time.

    :raises Refused: naming it
    """
    from openstack import exceptions

    try:
        connection.network.delete_qos_policy(resource.id, ignore_missing=False)
    except exceptions.ConflictException as error:
        if not (found := _BOUND.search(str(error))):
            raise
        type_, method = _READ_BOUND[found[1]]
        bound = to_row(getattr(connection.network, method)(found[2]))
        verdict = verdict_naming(project, "it is used by", [_blocker(type_, bound)])
        if verdict is None:
            raise
        raise Refused(verdict) from error


_TRUNK = re.compile(r"\btrunk ([0-9a-f-]{32,36})\b")


def delete_port(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Delete a port; name the trunk that it is in, when that is why Neutron refuses.

    The owner of a network may put a trunk on any port there, also on another project's. Of a subport only Neutron's
    refusal tells the trunk: the port does not show it, and no list of trunks can be filtered by it.

    :raises Refused: naming the trunk
    """
    from openstack import exceptions

    try:
        connection.network.delete_port(resource.id, ignore_missing=False)
    except exceptions.ConflictException as error:
        if not (found := _TRUNK.search(str(error))):
            raise
        try:
            trunk = to_row(connection.network.get_trunk(found[1]))
        except exceptions.NotFoundException:  # a 404 here must not pass for one of the port
            raise error from None
        verdict = verdict_naming(project, "it is in", [_blocker("trunk", trunk)])
        if verdict is None:
            raise
        raise Refused(verdict) from error


def explain_rbac_policy(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the project that uses what it was granted; Neutron does not tell by what."""
    target = str(resource.data.get("target_project_id") or "")
    if target in ("", project.id):
        return None
    kind, object_id = resource.data.get("object_type"), resource.data.get("object_id")
    return Verdict(
        Reason.FOREIGN,
        f"{'some project' if target == '*' else f'project {target}'} uses {kind} {object_id}, which it grants",
        ({"type": f"network.{kind}", "id": str(object_id), "owner": target},),
    )


# ---------------------------------------------------------------- service plugins


def release_firewall_ports(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Take a firewall group off its ports: one in use is refused."""
    if resource.data.get("ports"):
        connection.network.update_firewall_group(resource.id, ports=[])


#: What a BGP VPN can be associated with, and the extension that has it.
ASSOCIATIONS = {"network": "bgpvpn", "router": "bgpvpn", "port": "bgpvpn-routes-control"}


def list_associations(kind: str) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of the project's associations, also with BGP VPNs of others, which operators create."""

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for bgpvpn in _rows(connection, "bgpvpns"):
            if bgpvpn.get(f"{kind}s") == []:  # told with the BGP VPN itself; absent in old releases
                continue
            for row in _rows(connection, f"bgpvpn_{kind}_associations", bgpvpn["id"]):
                yield {**row, "bgpvpn_id": bgpvpn["id"]}

    return listing


def check_bgpvpn(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a BGP VPN with others' associations: they would be deleted with it."""
    blockers = [
        _blocker(f"bgpvpn_{kind}_association", row)
        for kind, alias in ASSOCIATIONS.items()
        if alias in _aliases(connection)  # without it the list answers 404
        for row in _rows(connection, f"bgpvpn_{kind}_associations", resource.id)
    ]
    refuse_foreign(project, "deleting it would delete", blockers)


def _association(kind: str) -> ResourceType:
    name = f"bgpvpn_{kind}_association"
    return ResourceType(
        name=name,
        title=f"{kind}_id",
        list=list_associations(kind),
        all_projects=list_associations(kind),
        unfiltered="the associations hang below the BGP VPNs, which are mostly the operator's",
        show=Sdk("network", f"get_{name}", "{row[bgpvpn_id]}", "{id}"),
        delete=Sdk("network", f"delete_{name}", "{row[bgpvpn_id]}", "{id}", ignore_missing=False),
        available=extension(ASSOCIATIONS[kind]),
        source=f"/v2.0/bgpvpn/bgpvpns/B/{kind}_associations; networking_bgpvpn neutron/db/bgpvpn_db.py",
    )


def _rest_type(name: str, collection: str, **declared: Any) -> ResourceType:
    """Return a type of a collection that the SDK does not have, or cannot filter by owner."""
    path = f"/{collection}"  # below the versioned endpoint, which the SDK discovers
    plural = collection.rpartition("/")[2].replace("-", "_")
    return ResourceType(
        name=name,
        list=Rest("network", path, key=plural, query={"project_id": "{project_id}"}, paging=Paging.LINKS),
        all_projects=Rest("network", path, key=plural, query={"limit": PAGE}, paging=Paging.LINKS),
        show=Rest("network", f"{path}/{{id}}", key=name),
        delete=Rest("network", f"{path}/{{id}}", method="DELETE"),
        **declared,
    )


# ---------------------------------------------------------------- the types

NETWORK = _simple(
    "network",
    "networks",
    tags="tags",
    protect=(shared, external),
    prepare=(check_network,),
    explain=explain_network,
    after=("port", "router_port", "vpn_endpoint_group", "bgpvpn_network_association"),
    note="Takes its subnets, segments, DHCP and metadata ports and RBAC policies along; also the row of an "
    "auto-allocated topology, which is never asked for: reading that one provisions it. The 'shared' that an admin "
    "sees means all projects; one that is shared with single projects is deleted unless their ports are on it.",
    source="DELETE /v2.0/networks/N: 409 NetworkInUse with anybody's port; neutron db/db_base_plugin_v2.py",
)

CORE = (
    _simple(
        "floating_ip",
        "ips",
        get="get_ip",
        delete=Sdk("network", "delete_ip", "{id}", ignore_missing=False),
        title="floating_ip_address",
        available=extension("router"),
        after=("port_forwarding", "dns.ptr"),
        note="Its own port has an empty project_id and is never listed.",
        tags="tags",
        source="DELETE /v2.0/floatingips/F: 409 FipInUseByPortForwarding; neutron db/l3_db.py",
    ),
    ResourceType(
        name="port_forwarding",
        title="floatingip_id",
        list=list_port_forwardings,
        all_projects="it has no owner of its own, and goes with its floating IP",
        show=show_port_forwarding,
        delete=Sdk("network", "delete_port_forwarding", "{id}", "{row[floatingip_id]}", ignore_missing=False),
        available=extension("floating-ip-port-forwarding"),
        note="Has no owner of its own: it is its floating IP's.",
        source="/v2.0/floatingips/F/port_forwardings; neutron services/portforwarding/pf_plugin.py",
    ),
    _simple(
        "ndp_proxy",
        "ndp_proxies",
        list=Sdk("network", "ndp_proxies"),
        unfiltered="Neutron refuses an owner filter here (400 where filter-validation is on)",
        available=extension("l3-ndp-proxy"),
        note="While it is there, its router's interfaces and gateway stay.",
        source="/v2.0/ndp_proxies; neutron services/ndp_proxy/plugin.py, neutron_lib api/definitions/l3_ndp_proxy.py",
    ),
    _simple(
        "router",
        "routers",
        available=extension("router"),
        after=("floating_ip", "ndp_proxy", "vpn_service", "bgpvpn_router_association"),
        prepare=(clear_routes, remove_interfaces),
        explain=explain_router,
        note="Removing an interface deletes its port, whosever: another project's is left and named. The gateway, HA "
        "and SNAT ports have no owner and go with the router, the HA network with the last HA router.",
        tags="tags",
        source="DELETE /v2.0/routers/R: 409 RouterInUse, RouterExternalGatewayInUseByFloatingIp; neutron db/l3_db.py",
    ),
    ResourceType(
        name="conntrack_helper",
        title="helper",
        list=list_conntrack_helpers,
        all_projects="it has no owner of its own, and goes with its router",
        delete=Sdk("network", "delete_conntrack_helper", "{id}", "{row[router_id]}", ignore_missing=False),
        fresh="never deleted by itself: it goes with its router",
        deleted_with=("router",),
        part_of=(("router", "router_id"),),
        after=("router",),
        available=extension("l3-conntrack-helper"),
        source="/v2.0/routers/R/conntrack_helpers; neutron db/models/conntrack_helper.py, CASCADE",
    ),
    _simple(
        "trunk",
        "trunks",
        available=extension("trunk"),
        after=("compute.server", "compute.unreachable_server"),
        prepare=(enable_trunk,),
        note="409 TrunkDisabled while it is administratively down; its parent and subports stay, as ordinary ports.",
        tags="tags",
        source="DELETE /v2.0/trunks/T; neutron services/trunk/rules.py, trunk_can_be_managed",
    ),
    _simple(
        "local_ip",
        "local_ips",
        available=extension("local_ip"),
        prepare=(release_local_ip,),
        note="The port that Neutron makes for it has no owner, yet keeps its network from going. A port that was "
        "chosen for it goes after it, but ports that it is associated with may go before: see release_local_ip.",
        source="DELETE /v2.0/local_ips/L: 409 LocalIPInUse with associations; neutron db/local_ip_db.py",
    ),
    ResourceType(
        name="port",
        list=list_ports,
        all_projects=all_ports(of_routers=False),
        show=Sdk("network", "get_port", "{id}"),
        delete=delete_port,
        by_hand="as an admin: openstack port delete {id}",
        keep=(of_own_network,),
        after=(
            "compute.server",
            "compute.unreachable_server",
            "load-balancer.load_balancer",
            "database.instance",
            "shared-file-system.share_network",
            "trunk",
            "vpn_service",
            "bgpvpn_port_association",
            "sfc_port_pair",
            "sfc_flow_classifier",
            "tap_flow",
            "tap_service",
            "tap_mirror",
        ),
        note="Whatever device_owner says: what a port was made for is confirmed gone before, so one that is still "
        "there has been forgotten, by a server that is long gone or in a cloud without its service, and is deleted. "
        "Neutron does not stop an admin from deleting the port of a live server; only this order does. Kept are DHCP "
        "and metadata ports of the project's own networks alone. It does not wait for local IPs: see there. The owner "
        "of a network may put a trunk on any port there, with no role on the port's project: the trunk is named, and "
        "the port goes once its owner or an admin has deleted it.",
        tags="tags",
        source="DELETE /v2.0/ports/P: 409 for trunk and local-IP ports; neutron plugins/ml2/plugin.py, delete_port",
    ),
    ResourceType(
        name="router_port",
        part_of=(("router", "device_id"),),
        list=list_router_ports,
        all_projects=all_ports(of_routers=True),
        show=Sdk("network", "get_port", "{id}"),
        delete=Sdk("network", "delete_port", "{id}", ignore_missing=False),
        explain=explain_router_port,
        after=("router",),
        note="A port of the project that is a router's interface: gone with the project's router, so one that is left "
        "is another project's router's, or an orphan that Neutron lets go. A type of its own, so that plain ports need "
        "not wait for routers.",
        tags="tags",
        source="DELETE /v2.0/ports/P: 409 ServicePortInUse while the router is there; neutron db/l3_db.py, "
        "prevent_l3_port_deletion",
    ),
    NETWORK,
    ResourceType(
        name="subnet",
        part_of=(("network", "network_id"),),
        list=list_subnets,
        all_projects=all_projects_view("subnets"),
        show=Sdk("network", "get_subnet", "{id}"),
        delete=Sdk("network", "delete_subnet", "{id}", ignore_missing=False),
        protect=(on_protected_network,),
        prepare=(check_subnet,),
        explain=explain_subnet,
        after=("network",),
        note="Goes with its network without a call; what is left then is on another project's network. Deleting a "
        "subnet with automatic addressing strips the addresses of anybody's live ports: refused when there are any.",
        tags="tags",
        source="DELETE /v2.0/subnets/S: 409 SubnetInUse; neutron db/db_base_plugin_v2.py, _subnet_check_ip_allocations",
    ),
    _simple(
        "subnet_pool",
        "subnet_pools",
        available=extension("subnet_allocation"),
        protect=(shared, default_pool),
        explain=_explain_by("subnet", "subnets", "subnet_pool_id"),
        after=("subnet",),
        note="400, not 409, while subnets of any project come from it.",
        tags="tags",
        source="DELETE /v2.0/subnetpools/P; neutron db/db_base_plugin_v2.py, SubnetPoolDeleteError",
    ),
    _simple(
        "address_scope",
        "address_scopes",
        available=extension("address-scope"),
        protect=(shared,),
        explain=_explain_by("subnet_pool", "subnet_pools", "address_scope_id"),
        after=("subnet_pool",),
        source="DELETE /v2.0/address-scopes/A: 409 AddressScopeInUse; neutron db/address_scope_db.py",
    ),
    _simple(
        "security_group",
        "security_groups",
        list=_list_groups("security_groups", (DEFAULT_GROUP,), defaults=False),
        all_projects=_all_groups("security_groups", (DEFAULT_GROUP,), defaults=False),
        available=extension("security-group"),
        protect=(shared,),
        prepare=(check_security_group,),
        explain=explain_security_group,
        after=("port",),
        note="A list that filters by project_id creates that project's default group; with several, the first one's. "
        "So the orchestrator's own project comes first. Rules in others' groups that name it vanish with it: refused, "
        "unless drop_foreign_rules is set.",
        tags="tags",
        source="/v2.0/security-groups; neutron db/securitygroups_db.py, get_security_groups",
    ),
    _simple(
        "address_group",
        "address_groups",
        available=extension("address-group"),
        protect=(shared,),
        prepare=(drop_own_rules,),
        explain=_explain_by("security_group_rule", "security_group_rules", "remote_address_group_id"),
        after=("security_group",),
        note="A rule in the project's own default security group, which stays to the end, holds it: dropped before.",
        source="DELETE /v2.0/address-groups/A: 409 AddressGroupInUse; neutron db/address_group_db.py",
    ),
    _simple(
        "qos_policy",
        "qos_policies",
        available=extension("qos"),
        protect=(shared,),
        delete=delete_qos_policy,
        after=("port", "router_port", "network", "floating_ip", "router"),
        tags="tags",
        source="DELETE /v2.0/qos/policies/Q: 409 QosPolicyInUse; neutron objects/qos/policy.py",
    ),
    _simple(
        "rbac_policy",
        "rbac_policies",
        available=extension("rbac-policies"),
        title="object_id",
        protect=(shared_with_all,),
        explain=explain_rbac_policy,
        after=(
            "network",
            "subnet_pool",
            "address_scope",
            "security_group",
            "address_group",
            "qos_policy",
            "bgpvpn",
        ),
        note="Goes with the object that it grants; only what is left then is deleted. Never before: without the grant "
        "a shared network would no longer look shared, and lose its protection.",
        source="/v2.0/rbac-policies, never paged; neutron db/rbac_db_mixin.py",
    ),
    ResourceType(
        name="rbac_grant",
        title="object_id",
        owner="target_project_id",
        list=Sdk("network", "rbac_policies", target_project_id="{project_id}"),
        all_projects="it belongs to the project that shares an object with this one",
        delete=None,
        fresh="never deleted: it is another project's",
        keep=(granted_by_others,),
        available=extension("rbac-policies"),
        note="What others share with the project. Deleting it would delete what is theirs; it counts as kept.",
        source="GET /v2.0/rbac-policies?target_tenant=X; neutron db/rbac_db_mixin.py",
    ),
    _simple(
        "metering_label",
        "metering_labels",
        available=extension("metering"),
        protect=(shared,),
        note="Takes its rules along. A shared one measures everybody's traffic.",
        source="/v2.0/metering/metering-labels; neutron db/metering/metering_db.py",
    ),
    _rest_type(
        "log",
        "log/logs",
        available=extension("logging"),
        source="/v2.0/log/logs; neutron services/logapi/logging_plugin.py",
    ),
    _simple(
        "security_groups_default_statefulness",
        "security_groups_default_statefulness",
        # openstacksdk looks for another key in the answer, and would find no owner in it.
        show=Rest(
            "network",
            "/security-groups-default-statefulness/{id}",
            key="security_groups_default_statefulness",
        ),
        available=extension("security-groups-default-statefulness"),
        title="id",
        project_setting=True,
        note="A setting, not a resource. The row without a project is the whole cloud's and never listed here.",
        source="/v2.0/security-groups-default-statefulness; neutron conf/policies of the same name",
    ),
    _simple(
        "network_segment_range",
        "network_segment_ranges",
        available=extension("network-segment-range"),
        protect=(shared,),
        project_setting=True,
        note="An admin made it for the project, and only an admin can remove it: no leftover of a user. 409 while a "
        "network of the project lies in it.",
        source="/v2.0/network_segment_ranges; neutron services/network_segment_range/plugin.py",
    ),
    _simple(
        "default_security_group",
        "security_groups",
        list=_list_groups("security_groups", (DEFAULT_GROUP,), defaults=True),
        all_projects=_all_groups("security_groups", (DEFAULT_GROUP,), defaults=True),
        show=Sdk("network", "get_security_group", "{id}"),
        delete=Sdk("network", "delete_security_group", "{id}", ignore_missing=False),
        available=extension("security-group"),
        prepare=(check_security_group,),
        explain=explain_security_group,
        project_setting=True,
        note="Neutron makes it with the project's first port, network or filtered list. An admin may delete it.",
        tags="tags",
        source="DELETE /v2.0/security-groups/S; neutron db/securitygroups_db.py, delete_security_group",
    ),
    ResourceType(
        name="quota",
        list=Sdk("network", "quotas"),
        all_projects=all_projects_view("quotas"),
        unfiltered="Neutron lists the projects that have a quota row; reading one by id answers the defaults instead",
        id="project_id",
        title="project_id",
        delete=Sdk("network", "delete_quota", "{project_id}", ignore_missing=False),
        fresh="it is addressed by the project's id",
        available=extension("quotas"),
        project_setting=True,
        note="404 TenantQuotaNotFound without a row, which is gone.",
        source="/v2.0/quotas; neutron extensions/quotasv2.py",
    ),
)

VPN = (
    _simple(
        "vpn_ipsec_site_connection",
        "vpn_ipsec_site_connections",
        available=extension("vpnaas"),
        source="/v2.0/vpn/ipsec-site-connections; neutron_vpnaas db/vpn/vpn_db.py",
    ),
    _simple(
        "vpn_service",
        "vpn_services",
        available=extension("vpnaas"),
        after=("vpn_ipsec_site_connection",),
        source="DELETE /v2.0/vpn/vpnservices/V: 409 VPNServiceInUse; neutron_vpnaas db/vpn/vpn_db.py",
    ),
    _simple(
        "vpn_endpoint_group",
        "vpn_endpoint_groups",
        available=extension("vpn-endpoint-groups"),
        after=("vpn_ipsec_site_connection",),
        note="400, not 409, while in use.",
        source="DELETE /v2.0/vpn/endpoint-groups/E: EndpointGroupInUse; neutron_vpnaas db/vpn/vpn_db.py",
    ),
    _simple(
        "vpn_ike_policy",
        "vpn_ike_policies",
        available=extension("vpnaas"),
        after=("vpn_ipsec_site_connection",),
        source="DELETE /v2.0/vpn/ikepolicies/I: 409 IKEPolicyInUse; neutron_vpnaas db/vpn/vpn_db.py",
    ),
    _simple(
        "vpn_ipsec_policy",
        "vpn_ipsec_policies",
        available=extension("vpnaas"),
        after=("vpn_ipsec_site_connection",),
        source="DELETE /v2.0/vpn/ipsecpolicies/I: 409 IPsecPolicyInUse; neutron_vpnaas db/vpn/vpn_db.py",
    ),
)

FIREWALL = (
    _simple(
        "firewall_group",
        "firewall_groups",
        list=_list_groups("firewall_groups", (DEFAULT_GROUP,), defaults=False),
        all_projects=_all_groups("firewall_groups", (DEFAULT_GROUP,), defaults=False),
        available=extension("fwaas_v2"),
        protect=(shared,),
        prepare=(release_firewall_ports,),
        note="Any list that filters by project_id creates that project's default group, policies and rules; with "
        "several, the first one's. So the orchestrator's own project comes first.",
        source="DELETE /v2.0/fwaas/firewall_groups/G: 409 FirewallGroupInUse; neutron_fwaas db/firewall/v2",
    ),
    _simple(
        "firewall_policy",
        "firewall_policies",
        list=_list_groups("firewall_policies", DEFAULT_FIREWALL_POLICIES, defaults=False),
        all_projects=_all_groups("firewall_policies", DEFAULT_FIREWALL_POLICIES, defaults=False),
        available=extension("fwaas_v2"),
        protect=(shared,),
        after=("firewall_group",),
        source="DELETE /v2.0/fwaas/firewall_policies/P: 409 FirewallPolicyInUse; neutron_fwaas db/firewall/v2",
    ),
    _simple(
        "firewall_rule",
        "firewall_rules",
        list=_list_groups("firewall_rules", DEFAULT_FIREWALL_RULES, defaults=False),
        all_projects=_all_groups("firewall_rules", DEFAULT_FIREWALL_RULES, defaults=False),
        available=extension("fwaas_v2"),
        protect=(shared,),
        after=("firewall_policy",),
        source="DELETE /v2.0/fwaas/firewall_rules/R: 409 FirewallRuleInUse; neutron_fwaas db/firewall/v2",
    ),
    _simple(
        "default_firewall_group",
        "firewall_groups",
        list=_list_groups("firewall_groups", (DEFAULT_GROUP,), defaults=True),
        all_projects=_all_groups("firewall_groups", (DEFAULT_GROUP,), defaults=True),
        show=Sdk("network", "get_firewall_group", "{id}"),
        delete=Sdk("network", "delete_firewall_group", "{id}", ignore_missing=False),
        available=extension("fwaas_v2"),
        prepare=(release_firewall_ports,),
        project_setting=True,
        note="Only an admin may delete it. It takes its two policies along, but not their four rules.",
        source="neutron_fwaas db/firewall/v2/firewall_db_v2.py, delete_firewall_group",
    ),
    _simple(
        "default_firewall_policy",
        "firewall_policies",
        list=_list_groups("firewall_policies", DEFAULT_FIREWALL_POLICIES, defaults=True),
        all_projects=_all_groups("firewall_policies", DEFAULT_FIREWALL_POLICIES, defaults=True),
        show=Sdk("network", "get_firewall_policy", "{id}"),
        delete=Sdk("network", "delete_firewall_policy", "{id}", ignore_missing=False),
        available=extension("fwaas_v2"),
        deleted_with=("default_firewall_group",),
        after=("default_firewall_group",),
        project_setting=True,
        source="neutron_fwaas db/firewall/v2/firewall_db_v2.py, delete_firewall_group",
    ),
    _simple(
        "default_firewall_rule",
        "firewall_rules",
        list=_list_groups("firewall_rules", DEFAULT_FIREWALL_RULES, defaults=True),
        all_projects=_all_groups("firewall_rules", DEFAULT_FIREWALL_RULES, defaults=True),
        show=Sdk("network", "get_firewall_rule", "{id}"),
        delete=Sdk("network", "delete_firewall_rule", "{id}", ignore_missing=False),
        available=extension("fwaas_v2"),
        after=("default_firewall_policy",),
        project_setting=True,
        note="Known by its name alone. A user's rule of that name is deleted as well, only later.",
        source="neutron_fwaas db/firewall/v2/firewall_db_v2.py, _create_default_firewall_rules",
    ),
)

BGP = (
    _rest_type(
        "bgp_speaker",
        "bgp-speakers",
        available=extension("bgp"),
        note="openstacksdk has no owner filter for it, and would filter at the client.",
        source="/v2.0/bgp-speakers; neutron_dynamic_routing db/bgp_db.py",
    ),
    _rest_type(
        "bgp_peer",
        "bgp-peers",
        available=extension("bgp"),
        after=("bgp_speaker",),
        source="/v2.0/bgp-peers; neutron_dynamic_routing db/bgp_db.py",
    ),
    _association("network"),
    _association("router"),
    _association("port"),
    _simple(
        "bgpvpn",
        "bgpvpns",
        available=extension("bgpvpn"),
        prepare=(check_bgpvpn,),
        after=(
            "bgpvpn_network_association",
            "bgpvpn_router_association",
            "bgpvpn_port_association",
        ),
        note="Mostly an operator's, made for the project. Takes its associations along, others' as well: refused then.",
        source="/v2.0/bgpvpn/bgpvpns; networking_bgpvpn neutron/services/plugin.py",
    ),
)

SFC = (
    _simple(
        "sfc_service_graph",
        "sfc_service_graphs",
        available=extension("service_graph"),
        source="/v2.0/sfc/service_graphs; networking_sfc db/sfc_db.py",
    ),
    _simple(
        "sfc_port_chain",
        "sfc_port_chains",
        available=extension("sfc"),
        after=("sfc_service_graph",),
        source="DELETE /v2.0/sfc/port_chains/C: 409 ServiceGraphPortChainInUse; networking_sfc db/sfc_db.py",
    ),
    _simple(
        "sfc_port_pair_group",
        "sfc_port_pair_groups",
        available=extension("sfc"),
        after=("sfc_port_chain",),
        source="DELETE /v2.0/sfc/port_pair_groups/G: 409 PortPairGroupInUse; networking_sfc db/sfc_db.py",
    ),
    _simple(
        "sfc_port_pair",
        "sfc_port_pairs",
        available=extension("sfc"),
        after=("sfc_port_pair_group",),
        source="DELETE /v2.0/sfc/port_pairs/P: 409 PortPairInUse; networking_sfc db/sfc_db.py",
    ),
    _simple(
        "sfc_flow_classifier",
        "sfc_flow_classifiers",
        available=extension("flow_classifier"),
        after=("sfc_port_chain",),
        source="DELETE /v2.0/sfc/flow_classifiers/F: 409 FlowClassifierInUse; networking_sfc db/flowclassifier_db.py",
    ),
)

TAP = (
    _simple(
        "tap_flow",
        "tap_flows",
        available=extension("taas"),
        note="An active one is deleted by its agent, later.",
        source="/v2.0/taas/tap_flows; neutron_taas services/taas/taas_plugin.py",
    ),
    _simple(
        "tap_service",
        "tap_services",
        available=extension("taas"),
        after=("tap_flow",),
        note="An active one is deleted by its agent, later.",
        source="/v2.0/taas/tap_services; neutron_taas services/taas/taas_plugin.py",
    ),
    _simple(
        "tap_mirror",
        "tap_mirrors",
        available=extension("tap-mirror"),
        source="/v2.0/taas/tap_mirrors; neutron_taas services/taas/tap_mirror_plugin.py",
    ),
)

SERVICE = Service(
    service_type="network",
    contract_version=1,
    types=(*CORE, *VPN, *FIREWALL, *BGP, *SFC, *TAP),
    after=CONTROLLERS,
    options=OPTIONS,
    # By the same rule as the lists (context_is_admin), which are cut down to his own project for anybody else.
    proof=Rest("network", "/quotas", key="quotas"),
    roles="admin on any one project: Neutron shows an admin everything, so each list carries the owner filter",
)
