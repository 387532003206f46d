"""Neutron: networks, subnets, address pools."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    REFUSED,
    Composition,
    LastChange,
    Needs,
    OneByOne,
    Parts,
    ProjectDefinition,
    Resource,
    ResourceType,
    Rest,
    Row,
    Sdk,
    Use,
    Verdict,
    exceptions,
    linked,
    protection_remedy,
    refuse,
    refuse_foreign,
    refused_in_use,
    show_leftover,
    to_row,
    verdict_naming,
)
from cleanup_orchestrator.plugins.network.bgp import associated
from cleanup_orchestrator.plugins.network.common import (
    ON_OWN_NETWORK,
    explain_by,
    extension,
    list_rows,
    rest_list,
    shared,
    simple_type,
)
from cleanup_orchestrator.plugins.neutron import (
    NETWORK_PORTS,
    ROUTER_PORTS,
    extension_aliases,
    owner_of,
    row_blocker,
    without_ports_that_go,
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


_PROTECTED = "_network_is_protected"


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
        yield {**row, ON_OWN_NETWORK: network_id in own_networks, _PROTECTED: network_id in protected}


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
    staying = without_ports_that_go(connection, project, using)
    return verdict_naming(project, "it is used by", [_port_blocker(connection, port) for port in staying])


def foresee_subnet(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the ports of others with addresses of a subnet.

    Neutron's own ports on the project's network do not count: they are deleted with it, like the subnet.
    """
    using = [p for p in _ports_in(connection, resource) if owner_of(p) != project.id]
    if resource.data.get(ON_OWN_NETWORK):
        using = [p for p in using if p.get("device_owner") not in NETWORK_PORTS]
    staying = without_ports_that_go(connection, project, using)
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


def segments_of(connection: Connection, project: ProjectDefinition, resource: Resource) -> Iterator[Row]:
    """Yield the segments of a network. Without the extension a network has those of its creation."""
    if "segment" in extension_aliases(connection):
        yield from list_rows(connection, "segments", network_id=resource.id)


def networks_of_endpoint_groups(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function that says which endpoint group of a VPN names a network, or a subnet of it."""
    one = Rest("network", "/vpn/endpoint-groups/{id}", key="endpoint_group")
    shown = {id_: show_leftover(one, connection, project, id_) for id_ in left}
    named = {id_: None if row is None else {str(each) for each in row["endpoints"]} for id_, row in shown.items()}

    def needs(network: Resource) -> str | None:
        own = {network.id, *map(str, network.data.get("subnet_ids") or ())}
        return next((id_ for id_, networks in named.items() if networks is None or own & networks), None)

    return needs


NETWORK = simple_type(
    "network",
    "networks",
    if_abandoned="It still uses a segment of the network. Its ports stay connected.",
    tags="tags",
    protect=(shared, external),
    remedies=protection_remedy(
        "ends the sharing ('openstack network set --no-share {id}'), or an admin makes an external network internal "
        "('openstack network set --internal {id}')"
    ),
    explain=explain_network,
    used_by=(
        Use(("network.subnet",), "deletes the subnet", OneByOne(check_network)),
        Use(("network.port",), REFUSED, foresee=OneByOne(foresee_network)),
    ),
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
    updated=LastChange("updated_at"),
    parts=(Parts("segment", segments_of, created="created_at", updated=LastChange("updated_at")),),
    source="DELETE /v2.0/networks/N: 409 NetworkInUse with a port of any project; neutron db/db_base_plugin_v2.py",
)

NETWORKS = (
    NETWORK,
    ResourceType(
        name="subnet",
        if_abandoned="Its address range stays in use. A subnet pool cannot give it to others.",
        composition=Composition(part_of=(("network", "network_id"),)),
        list=list_subnets,
        all_projects=rest_list("subnets"),
        show=Sdk("network", "get_subnet", "{id}"),
        delete=Sdk("network", "delete_subnet", "{id}", ignore_missing=False),
        protect=(on_protected_network,),
        explain=explain_subnet,
        used_by=(
            Use(
                ("network.port",),
                "removes the addresses of the port, where addressing is automatic",
                OneByOne(check_subnet),
                OneByOne(foresee_subnet),
            ),
        ),
        after=("network",),
        needed_by=(("network", linked()),),
        note="It is deleted with its network, without a call. What is left then is on another project's network. The "
        "delete of a subnet with automatic addressing removes the addresses of live ports of any project: it is "
        "refused when there are any. So the subnets of a network that is left stay with it.",
        tags="tags",
        created="created_at",
        updated=LastChange("updated_at"),
        parts=(),
        source="DELETE /v2.0/subnets/S: 409 SubnetInUse; neutron db/db_base_plugin_v2.py, _subnet_check_ip_allocations",
    ),
    simple_type(
        "subnet_pool",
        "subnet_pools",
        available=extension("subnet_allocation"),
        protect=(shared, default_pool),
        explain=explain_by("subnet", "subnets", "subnet_pool_id"),
        used_by=(
            Use(("network.subnet",), REFUSED, foresee=OneByOne(explain_by("subnet", "subnets", "subnet_pool_id"))),
        ),
        after=("subnet",),
        needed_by=(("subnet", refused_in_use),),
        note="Neutron answers 400, not 409, while subnets of any project use it.",
        tags="tags",
        created="created_at",
        updated=LastChange("updated_at"),
        parts=(Parts("prefix", "prefixes", changed="updated_at"),),
        source="DELETE /v2.0/subnetpools/P; neutron db/db_base_plugin_v2.py, SubnetPoolDeleteError",
    ),
    simple_type(
        "address_scope",
        "address_scopes",
        available=extension("address-scope"),
        protect=(shared,),
        remedies=protection_remedy("ends the sharing: 'openstack address scope set --no-share {id}'"),
        explain=explain_by("subnet_pool", "subnet_pools", "address_scope_id"),
        used_by=(
            Use(
                ("network.subnet_pool",),
                REFUSED,
                foresee=OneByOne(explain_by("subnet_pool", "subnet_pools", "address_scope_id")),
            ),
        ),
        after=("subnet_pool",),
        needed_by=(("subnet_pool", refused_in_use),),
        source="DELETE /v2.0/address-scopes/A: 409 AddressScopeInUse; neutron db/address_scope_db.py",
    ),
)
