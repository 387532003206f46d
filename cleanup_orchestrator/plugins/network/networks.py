"""Neutron: networks, subnets, ports, trunks, local IPs, address pools."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    Needs,
    Parts,
    ProjectDefinition,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Sdk,
    Verdict,
    exceptions,
    foreign_use,
    linked,
    refuse,
    refuse_foreign,
    refused_in_use,
    show_leftover,
    to_row,
    verdict_naming,
)
from cleanup_orchestrator.plugins.network.bgp import associated
from cleanup_orchestrator.plugins.network.chaining import check_tap_flows, explain_chained_port
from cleanup_orchestrator.plugins.network.common import (
    NETWORK_PORTS,
    ROUTER_PORTS,
    SERVERS,
    behind_ports_of_servers,
    explain_by,
    extension,
    extension_aliases,
    list_rows,
    owner_of,
    rest_list,
    row_blocker,
    shared,
    simple_type,
    without_service_ports,
)

if TYPE_CHECKING:
    from openstack.connection import Connection


def external(resource: Resource, project: ProjectDefinition) -> str | None:
    """Protect an external network: routers of any project may be using it."""
    if resource.data.get("is_router_external") and not project.options.get("delete_external"):
        return "it is an external network, which other projects' routers and floating IPs may be using"
    return None


def default_pool(resource: Resource, project: ProjectDefinition) -> str | None:
    """Protect the default subnet pool, which subnets of any project come from."""
    if resource.data.get("is_default") and not project.options.get("delete_shared"):
        return "it is the default subnet pool of the cloud"
    return None


def on_protected_network(resource: Resource, project: ProjectDefinition) -> str | None:
    """Protect a subnet of a network that is itself protected."""
    if resource.data.get(_PROTECTED):
        return f"its network {resource.data.get('network_id')} is protected, and others may be using it"
    return None


def of_own_network(resource: Resource, project: ProjectDefinition) -> str | None:
    """Keep Neutron's own ports on the project's networks.

    Agents recreate them, and they are deleted with the network.
    """
    if resource.data.get(_ON_OWN_NETWORK):
        return f"Neutron made it for network {resource.data.get('network_id')} and deletes it with that"
    return None


_ON_OWN_NETWORK = "_on_own_network"  # added to listed rows; no attribute of Neutron begins with an underscore
_PROTECTED = "_network_is_protected"


def list_ports(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's ports without those of routers.

    Neutron's own ports on the project's networks are marked.
    """
    own_networks: set[str] | None = None
    for row in rest_list("ports", project_id="{project_id}").rows(connection, project):
        if row.get("device_owner") in ROUTER_PORTS:
            continue
        if row.get("device_owner") in NETWORK_PORTS:
            if own_networks is None:
                own_networks = {str(n["id"]) for n in list_rows(connection, "networks", project_id=project.id)}
            row = {**row, _ON_OWN_NETWORK: row.get("network_id") in own_networks}
        yield row


def all_ports(of_routers: bool) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of all ports that belong to routers, or of all others."""
    only = {"device_owner": ROUTER_PORTS} if of_routers else {}

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for row in rest_list("ports", **only).rows(connection, project):
            if (row.get("device_owner") in ROUTER_PORTS) is of_routers:
                yield row

    return listing


def list_router_ports(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's ports that belong to routers of any project."""
    for row in list_rows(connection, "ports", project_id=project.id, device_owner=list(ROUTER_PORTS)):
        if row.get("device_owner") in ROUTER_PORTS:
            yield row


def list_subnets(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's subnets; mark those of its networks, and those of its protected networks."""
    protected: set[str] = set()
    own_networks: set[str] | None = None
    for row in list_rows(connection, "subnets", project_id=project.id):
        if own_networks is None:
            networks = [NETWORK.resource(n, project) for n in list_rows(connection, "networks", project_id=project.id)]
            own_networks = {n.id for n in networks if n.owner == project.id}
            protected = {n.id for n in networks if any(rule(n, project) for rule in NETWORK.protect)}
        network_id = row.get("network_id")
        yield {**row, _ON_OWN_NETWORK: network_id in own_networks, _PROTECTED: network_id in protected}


def check_subnet(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a subnet with ports of others, or with a port that is left: they could lose their addresses.

    Neutron removes the addresses where addressing is automatic. The project's DHCP and metadata ports do not count.
    """
    using = _ports_in(connection, resource)
    users = [p for p in using if owner_of(p) != project.id or p.get("device_owner") not in NETWORK_PORTS]
    blockers = [_port_blocker(connection, port) for port in users]
    refuse(verdict_naming(project, _ADDRESSES, blockers))


def check_network(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a network that has subnets of others: Neutron would delete them."""
    subnets = list_rows(connection, "subnets", network_id=resource.id)
    blockers = [row_blocker("subnet", s) for s in subnets if s.get("network_id") == resource.id]
    refuse_foreign(project, "deleting it would delete", blockers)


def explain_network(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the ports, of any project, on a network that Neutron refuses to delete."""
    ports = [p for p in list_rows(connection, "ports", network_id=resource.id) if p.get("network_id") == resource.id]
    using = [p for p in ports if p.get("device_owner") not in NETWORK_PORTS]
    return verdict_naming(project, "it is used by", [_port_blocker(connection, port) for port in using])


def explain_subnet(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the ports with addresses of a subnet."""
    ports = _ports_in(connection, resource)
    return verdict_naming(project, "it is used by", [_port_blocker(connection, port) for port in ports])


def foresee_network(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the ports of others on a network."""
    ports = [p for p in list_rows(connection, "ports", network_id=resource.id) if p.get("network_id") == resource.id]
    using = [p for p in ports if p.get("device_owner") not in NETWORK_PORTS and owner_of(p) != project.id]
    staying = without_service_ports(connection, project, using)
    return verdict_naming(project, "it is used by", [_port_blocker(connection, port) for port in staying])


def foresee_subnet(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the ports of others with addresses of a subnet.

    Neutron's own ports on the project's network do not count: they are deleted with it, like the subnet.
    """
    using = [p for p in _ports_in(connection, resource) if owner_of(p) != project.id]
    if resource.data.get(_ON_OWN_NETWORK):
        using = [p for p in using if p.get("device_owner") not in NETWORK_PORTS]
    staying = without_service_ports(connection, project, using)
    return verdict_naming(project, _ADDRESSES, [_port_blocker(connection, port) for port in staying])


_ADDRESSES = "addresses of it are used by"


def _ports_in(connection: Connection, subnet: Resource) -> list[Row]:
    ports = list_rows(connection, "ports", network_id=subnet.data.get("network_id"))
    return [p for p in ports if any(ip.get("subnet_id") == subnet.id for ip in p.get("fixed_ips") or ())]


_BEHIND = {  # ports without an owner: the type that they belong to, and how to read it
    "network:floatingip": ("floating_ip", "get_ip"),
    "network:local_ip": ("local_ip", "get_local_ip"),
    **dict.fromkeys(ROUTER_PORTS, ("router", "get_router")),
}


def _port_blocker(connection: Connection, port: Row) -> dict[str, str]:
    """Return a port as a blocker.

    Neutron's own ports have no owner. The resource that they belong to is named instead.
    """
    type_, method = _BEHIND.get(str(port.get("device_owner")), ("", ""))
    if owner_of(port) or not type_ or not port.get("device_id"):
        return row_blocker("port", port)
    try:
        return row_blocker(type_, to_row(getattr(connection.network, method)(port["device_id"])))
    except exceptions.NotFoundException:
        return row_blocker("port", port)


def explain_router_port(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the router that a port belongs to."""
    router_id = resource.data.get("device_id")
    if not router_id:
        return None
    return verdict_naming(
        project, "it is an interface of", [row_blocker("router", to_row(connection.network.get_router(router_id)))]
    )


def associations_of(connection: Connection, project: ProjectDefinition, resource: Resource) -> Iterator[Row]:
    """Yield the associations of a local IP, which show no time.

    Neutron 29 was observed to answer 500 to a list of associations that is not empty.
    """
    yield from list_rows(connection, "local_ip_associations", resource.id)


def segments_of(connection: Connection, project: ProjectDefinition, resource: Resource) -> Iterator[Row]:
    """Yield the segments of a network. Without the extension a network has those of its creation."""
    if "segment" in extension_aliases(connection):
        yield from list_rows(connection, "segments", network_id=resource.id)


def release_local_ip(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Remove the associations of a local IP: Neutron refuses to delete it with any.

    If they cannot be listed, the delete is tried anyway, and refused. A later sweep succeeds once the associated ports
    are gone: associations are deleted with their port.
    """
    try:
        rows = list(associations_of(connection, project, resource))
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


_TRUNK = re.compile(r"\btrunk ([0-9a-f-]{32,36})\b")


def delete_port(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Delete a port; name the trunk if Neutron refuses because of one.

    The owner of a network may put a trunk on any port there, also on another project's. The trunk of a subport is only
    in Neutron's refusal: the port does not show it, and no list of trunks can be filtered by a subport.

    :raises Refused: naming the trunk
    """
    try:
        connection.network.delete_port(resource.id, ignore_missing=False)
    except exceptions.ConflictException as error:
        if not (found := _TRUNK.search(str(error))):
            raise
        try:
            trunk = to_row(connection.network.get_trunk(found[1]))
        except exceptions.NotFoundException:  # the caller would take this 404 for one of the port
            raise error from None
        verdict = verdict_naming(project, "it is in", [row_blocker("trunk", trunk)])
        if verdict is None:
            raise
        raise Refused(verdict) from error


#: What the ``device_owner`` of a port begins with that is a server's or a trunk's.
_OF_SERVERS = ("compute:", "baremetal:", "trunk:")


def ports_of_services(_connection: Connection, _project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function by which a leftover needs each port that a service may have made for it.

    These are all ports but those of servers and trunks, and those without any device. A driver of another vendor
    chooses the ``device_owner`` of its ports.
    """

    def needs(port: Resource) -> str | None:
        owner = str(port.data.get("device_owner") or "").lower()
        free = owner.startswith(_OF_SERVERS) if owner else not port.data.get("device_id")
        return None if free else min(left)

    return needs


def ports_of_balancers(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function that says which load balancer needs a port: one that it names, or one that a service made."""
    named = linked(Rest("load-balancer", "/lbaas/loadbalancers/{id}"))(connection, project, left)
    made = ports_of_services(connection, project, left)
    return lambda port: named(port) or made(port)


def networks_of_endpoint_groups(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function that says which endpoint group of a VPN names a network, or a subnet of it."""
    one = Rest("network", "/vpn/endpoint-groups/{id}", key="endpoint_group")
    shown = {id_: show_leftover(one, connection, project, id_) for id_ in left}
    named = {id_: None if row is None else {str(each) for each in row["endpoints"]} for id_, row in shown.items()}

    def needs(network: Resource) -> str | None:
        own = {network.id, *map(str, network.data.get("subnet_ids") or ())}
        return next((id_ for id_, found in named.items() if found is None or own & found), None)

    return needs


NETWORK = simple_type(
    "network",
    "networks",
    tags="tags",
    protect=(shared, external),
    prepare=(check_network,),
    explain=explain_network,
    used=foreign_use(check_network, foresee_network),
    after=("port", "router_port", "vpn_endpoint_group", "bgpvpn_network_association"),
    needed_by=(
        ("port", refused_in_use),
        ("router_port", refused_in_use),
        ("vpn_endpoint_group", networks_of_endpoint_groups),
        ("bgpvpn_network_association", associated("network", "network_id")),
    ),
    note="The delete also removes its subnets, segments, DHCP and metadata ports and RBAC policies. It removes the "
    "row of an auto-allocated topology, too, which is never read: a read would create a topology. The 'shared' "
    "that an admin sees means all projects. A network that is shared with single projects is deleted unless "
    "their ports are on it.",
    created="created_at",
    parts=(Parts("segment", segments_of, created="created_at"),),
    source="DELETE /v2.0/networks/N: 409 NetworkInUse with a port of any project; neutron db/db_base_plugin_v2.py",
)

NETWORKS = (
    simple_type(
        "trunk",
        "trunks",
        available=extension("trunk"),
        after=SERVERS,
        needed_by=tuple((name, behind_ports_of_servers("port_id")) for name in SERVERS),
        prepare=(enable_trunk,),
        note="Neutron answers 409 TrunkDisabled while it is administratively down. Its parent and subports stay "
        "as ordinary ports.",
        tags="tags",
        created="created_at",
        parts=(Parts("subport", "sub_ports", changed="updated_at"),),
        source="DELETE /v2.0/trunks/T; neutron services/trunk/rules.py, trunk_can_be_managed",
    ),
    simple_type(
        "local_ip",
        "local_ips",
        available=extension("local_ip"),
        prepare=(release_local_ip,),
        note="The port that Neutron creates for it has no owner, and yet blocks the delete of its network. A "
        "port that a user chose for it is deleted after it. Its associations with other ports are removed "
        "before it.",
        created="created_at",
        parts=(Parts("association", associations_of),),
        source="DELETE /v2.0/local_ips/L: 409 LocalIPInUse with associations; neutron db/local_ip_db.py",
    ),
    ResourceType(
        name="port",
        list=list_ports,
        all_projects=all_ports(of_routers=False),
        show=Sdk("network", "get_port", "{id}"),
        prepare=(check_tap_flows,),
        delete=delete_port,
        explain=explain_chained_port,
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
        needed_by=(
            ("compute.server", linked()),
            ("compute.unreachable_server", linked()),
            ("load-balancer.load_balancer", ports_of_balancers),
            ("database.instance", ports_of_services),
            ("shared-file-system.share_network", ports_of_services),
            ("trunk", refused_in_use),
            ("vpn_service", ports_of_services),
            ("bgpvpn_port_association", associated("port", "port_id")),
            ("sfc_port_pair", linked(Rest("network", "/sfc/port_pairs/{id}"))),
            ("sfc_flow_classifier", linked(Rest("network", "/sfc/flow_classifiers/{id}"))),
            ("tap_flow", linked(Rest("network", "/taas/tap_flows/{id}"))),
            ("tap_service", linked(Rest("network", "/taas/tap_services/{id}"))),
            ("tap_mirror", linked(Rest("network", "/taas/tap_mirrors/{id}"))),
        ),
        note="The device_owner of a port makes no difference: the resource that the port was created for is "
        "confirmed gone before. So a port that still exists is a leftover of a deleted server, or is in a "
        "cloud without that service, and is deleted. Neutron lets an admin delete the port of a live "
        "server; only this order prevents that. Only DHCP and metadata ports of the project's own networks "
        "are kept. A port does not wait for local IPs: see local_ip. The owner of a network may put a trunk "
        "on any port there, with no role on the port's project: the trunk is named, and the port is "
        "deleted once its owner or an admin has deleted the trunk. The same holds for the port pairs, flow classifiers "
        "and tap flows of other projects that refer to a port.",
        tags="tags",
        created="created_at",
        parts=(),
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
        needed_by=(("router", linked()),),
        note="A port of the project that is a router's interface. It is deleted with the project's router. One that "
        "is left belongs to a router of another project, or is an orphan that Neutron lets an admin delete. It "
        "is a separate type, so that plain ports do not wait for routers.",
        tags="tags",
        created="created_at",
        parts=(),
        source="DELETE /v2.0/ports/P: 409 ServicePortInUse while the router is there; neutron db/l3_db.py, "
        "prevent_l3_port_deletion",
    ),
    NETWORK,
    ResourceType(
        name="subnet",
        part_of=(("network", "network_id"),),
        list=list_subnets,
        all_projects=rest_list("subnets"),
        show=Sdk("network", "get_subnet", "{id}"),
        delete=Sdk("network", "delete_subnet", "{id}", ignore_missing=False),
        protect=(on_protected_network,),
        prepare=(check_subnet,),
        explain=explain_subnet,
        used=foreign_use(foresee_subnet),
        after=("network",),
        needed_by=(("network", linked()),),
        note="It is deleted with its network, without a call. What is left then is on another project's network. The "
        "delete of a subnet with automatic addressing removes the addresses of live ports of any project: it is "
        "refused when there are any. So the subnets of a network that is left stay with it.",
        tags="tags",
        created="created_at",
        parts=(),
        source="DELETE /v2.0/subnets/S: 409 SubnetInUse; neutron db/db_base_plugin_v2.py, _subnet_check_ip_allocations",
    ),
    simple_type(
        "subnet_pool",
        "subnet_pools",
        available=extension("subnet_allocation"),
        protect=(shared, default_pool),
        explain=explain_by("subnet", "subnets", "subnet_pool_id"),
        used=foreign_use(explain_by("subnet", "subnets", "subnet_pool_id")),
        after=("subnet",),
        needed_by=(("subnet", refused_in_use),),
        note="Neutron answers 400, not 409, while subnets of any project use it.",
        tags="tags",
        created="created_at",
        parts=(Parts("prefix", "prefixes", changed="updated_at"),),
        source="DELETE /v2.0/subnetpools/P; neutron db/db_base_plugin_v2.py, SubnetPoolDeleteError",
    ),
    simple_type(
        "address_scope",
        "address_scopes",
        available=extension("address-scope"),
        protect=(shared,),
        explain=explain_by("subnet_pool", "subnet_pools", "address_scope_id"),
        used=foreign_use(explain_by("subnet_pool", "subnet_pools", "address_scope_id")),
        after=("subnet_pool",),
        needed_by=(("subnet_pool", refused_in_use),),
        source="DELETE /v2.0/address-scopes/A: 409 AddressScopeInUse; neutron db/address_scope_db.py",
    ),
)
