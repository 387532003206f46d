"""Neutron: ports, trunks, local IPs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
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
    refused_in_use,
    to_row,
    verdict_naming,
)
from cleanup_orchestrator.plugins.network.bgp import associated
from cleanup_orchestrator.plugins.network.chaining import check_tap_flows, explain_chained_port
from cleanup_orchestrator.plugins.network.common import ON_OWN_NETWORK, extension, list_rows, rest_list, simple_type
from cleanup_orchestrator.plugins.network.trunks import TRUNK, refuse_in_trunk
from cleanup_orchestrator.plugins.neutron import NETWORK_PORTS, ROUTER_PORTS, of_others, row_blocker, rows_with
from cleanup_orchestrator.plugins.port_uses import uses_of_ports

if TYPE_CHECKING:
    from openstack.connection import Connection


def of_own_network(resource: Resource, project: ProjectDefinition) -> str | None:
    """Keep Neutron's own ports on the project's networks.

    Agents recreate them, and they are deleted with the network.
    """
    if resource.data.get(ON_OWN_NETWORK):
        return f"Neutron made it for network {resource.data.get('network_id')} and deletes it with that"
    return None


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
            row = {**row, ON_OWN_NETWORK: row.get("network_id") in own_networks}
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


def check_local_ip(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the ports of others that a local IP is associated with."""
    ids = (row["fixed_port_id"] for row in associations_of(connection, project, resource))
    ports = of_others(connection, project, rows_with(connection, project, "/ports", "id", ids))
    return verdict_naming(project, "it serves", [row_blocker("port", port) for port in ports])


def delete_port(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Delete a port; name the trunk if Neutron refuses because of one.

    The owner of a network may put a trunk on any port there, also on another project's.

    :raises Refused: naming the trunk
    """
    try:
        connection.network.delete_port(resource.id, ignore_missing=False)
    except exceptions.ConflictException as error:
        refuse_in_trunk(connection, project, error)
        raise


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


def _themselves(
    _connection: Connection, _project: ProjectDefinition, ports: Sequence[Resource]
) -> Iterator[tuple[str, Row]]:
    """Yield the rows of ports, each with its id."""
    return ((port.id, port.data) for port in ports)


PORTS = (
    TRUNK,
    simple_type(
        "local_ip",
        "local_ips",
        available=extension("local_ip"),
        prepare=(release_local_ip,),
        used_by=(Use(("network.port",), "takes the local IP from the port", OneByOne(check_local_ip)),),
        note="The port that Neutron creates for it has no owner, and yet blocks the delete of its network. A "
        "port that a user chose for it is deleted after it. Its associations with other ports are removed "
        "before it.",
        created="created_at",
        updated=LastChange("updated_at"),
        parts=(Parts("association", associations_of),),
        source="DELETE /v2.0/local_ips/L: 409 LocalIPInUse with associations; neutron db/local_ip_db.py",
    ),
    ResourceType(
        name="port",
        if_abandoned="Its addresses stay in use, and may still be reached.",
        list=list_ports,
        all_projects=all_ports(of_routers=False),
        show=Sdk("network", "get_port", "{id}"),
        used_by=(
            Use(("network.tap_flow",), "deletes the flow", OneByOne(check_tap_flows)),
            *uses_of_ports(_themselves, "it is used by"),
        ),
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
        updated=LastChange("updated_at"),
        parts=(),
        source="DELETE /v2.0/ports/P: 409 for trunk and local-IP ports; neutron plugins/ml2/plugin.py, delete_port",
    ),
    ResourceType(
        name="router_port",
        variant_of="port",
        used_by=uses_of_ports(_themselves, "it is used by"),
        composition=Composition(part_of=(("router", "device_id"),)),
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
        updated=LastChange("updated_at"),
        parts=(),
        source="DELETE /v2.0/ports/P: 409 ServicePortInUse while the router is there; neutron db/l3_db.py, "
        "prevent_l3_port_deletion",
    ),
)
