"""Neutron: routers, floating IPs, and what hangs on them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    REFUSED,
    Blocker,
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
    refuse_foreign,
    to_row,
    verdict_naming,
)
from cleanup_orchestrator.plugins.external_dns import records_of_addresses
from cleanup_orchestrator.plugins.network.bgp import associated
from cleanup_orchestrator.plugins.network.common import (
    SERVERS,
    behind_ports_of_servers,
    extension,
    list_rows,
    needed_by_attribute,
    ports_of_servers,
    rest_list,
    simple_type,
)
from cleanup_orchestrator.plugins.network.trunks import refuse_in_trunk
from cleanup_orchestrator.plugins.neutron import (
    ROUTER_GATEWAY,
    ROUTER_INTERFACES,
    extension_aliases,
    owner_of,
    row_blocker,
    rows_with,
)
from cleanup_orchestrator.plugins.port_uses import NEXT_HOPS, serves_ports, uses_of_ports

if TYPE_CHECKING:
    from openstack.connection import Connection

_WAY_OUT = "it is the way out for"
_INTERFACE = "removing its interface would delete"


def interfaces_of(
    connection: Connection, project: ProjectDefinition, routers: Sequence[Resource]
) -> Iterator[tuple[str, Row]]:
    """Yield the interfaces and gateways of routers, each with the id of its router."""
    for port in rows_with(connection, project, "/ports", "device_id", (router.id for router in routers)):
        if port.get("device_owner") in (*ROUTER_INTERFACES, ROUTER_GATEWAY):
            yield str(port["device_id"]), port


def clear_routes(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Remove static routes: Neutron refuses to remove an interface towards a next hop."""
    if resource.data.get("routes"):
        connection.network.update_router(resource.id, routes=[])


def check_router(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a router that has interfaces with ports of others."""
    ports = list_rows(connection, "ports", device_id=resource.id)
    refuse_foreign(project, _INTERFACE, [row_blocker("port", port) for port in ports if _is_interface(port, resource)])


def _is_interface(port: Row, router: Resource) -> bool:
    return port.get("device_id") == router.id and port.get("device_owner") in ROUTER_INTERFACES


def remove_interfaces(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Remove a router's interfaces, plain, distributed and replicated.

    Removing an interface deletes its port. So an interface with a port of another project is left, and named. A refused
    removal does not prevent the removal of the others. A port that merely names the router, without being an interface
    of it in Neutron's table (404), does not hold the router; Neutron lets an admin delete the port once the router is
    gone (neutron db/l3_db.py, prevent_l3_port_deletion).
    """
    interfaces = [p for p in list_rows(connection, "ports", device_id=resource.id) if _is_interface(p, resource)]
    refusals = []
    for port in interfaces:
        if owner_of(port) == project.id:
            try:
                # By position: openstacksdk before 4.14 has other names for the parameters.
                connection.network.remove_interface_from_router(resource.id, None, port["id"])
            except exceptions.NotFoundException:
                continue
            except exceptions.ConflictException as error:
                refusals.append(error)
    refuse_foreign(project, _INTERFACE, [row_blocker("port", p) for p in interfaces])
    if refusals:
        refuse_in_trunk(connection, project, refusals[0])
        raise refusals[0]


def _behind(connection: Connection, project: ProjectDefinition, router: Resource) -> list[Blocker]:
    """Return the floating IPs, NDP proxies and VPN services, of any project, behind a router."""
    rows = [("floating_ip", ip) for ip in list_rows(connection, "ips", router_id=router.id)]
    if "l3-ndp-proxy" in extension_aliases(connection):
        rows += [("ndp_proxy", proxy) for proxy in rest_list("ndp_proxies").rows(connection, project)]
    if "vpnaas" in extension_aliases(connection):
        rows += [("vpn_service", vpn) for vpn in list_rows(connection, "vpn_services", router_id=router.id)]
    return [row_blocker(type_, row) for type_, row in rows if row.get("router_id") == router.id]


def explain_router(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name what is behind a router, of any project."""
    return verdict_naming(project, _WAY_OUT, _behind(connection, project, resource))


def check_way_out(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Refuse a router that is the way out for floating IPs, NDP proxies or VPN services of others."""
    refuse_foreign(project, _WAY_OUT, _behind(connection, project, resource))


def list_conntrack_helpers(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the conntrack helpers of the project's routers."""
    for router in list_rows(connection, "routers", project_id=project.id):
        if owner_of(router) == project.id:
            for row in list_rows(connection, "conntrack_helpers", router["id"]):
                yield {**row, "router_id": router["id"], "project_id": project.id}


def list_port_forwardings(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the port forwardings of the project's floating IPs."""
    for ip in list_rows(connection, "ips", project_id=project.id):
        # A floating IP with a port cannot forward (neutron pf_plugin.py, FloatingIPPortAlreadyAssociated).
        if owner_of(ip) == project.id and not ip.get("port_id"):
            for row in list_rows(connection, "port_forwardings", ip["id"]):
                yield {**row, "floatingip_id": ip["id"], "project_id": project.id}


def show_port_forwarding(connection: Connection, project: ProjectDefinition, resource: Resource) -> Row:
    """Read the owner again: the owner of the floating IP."""
    ip = to_row(connection.network.get_ip(resource.data["floatingip_id"]))
    return {**resource.data, "project_id": owner_of(ip)}


#: Neutron refuses to delete the floating IP of a port forwarding (409 FipInUseByPortForwarding), but only after it has
#: removed the DNS records of this address (l3_db.py, _delete_floatingip).
FORWARDING_ADDRESSES = needed_by_attribute(list_port_forwardings, "floatingip_id")


def addresses_of_records(_connection: Connection, _project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function that says which PTR record is addressed by a floating IP: ``{region}:{floating IP}``."""
    by_floating_ip = {record.rpartition(":")[2]: record for record in left}
    return lambda address: by_floating_ip.get(address.id)


def routers_of_servers(connection: Connection, _project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function that says which server has a port on a network of a router, of any of its subnets."""
    networks = {port["network_id"]: server for server, port in ports_of_servers(connection, left)}

    def needs(router: Resource) -> str | None:
        ports = list_rows(connection, "ports", device_id=router.id) if networks else ()
        own = (port["network_id"] for port in ports if _is_interface(port, router))
        return next((networks[network] for network in own if network in networks), None)

    return needs


def behind_ports_of_balancers(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function that says which load balancer has the address of a floating IP."""
    named = linked(Rest("load-balancer", "/lbaas/loadbalancers/{id}"))(connection, project, left)

    def needs(address: Resource) -> str | None:
        port = address.data.get("port_id")
        return named(Resource(str(port), "", None, {})) if port else None

    return needs


_ON_PORTS = behind_ports_of_servers("port_id")
_TO_PORTS = behind_ports_of_servers("internal_port_id")

ROUTERS = (
    simple_type(
        "floating_ip",
        "ips",
        if_abandoned="The address stays allocated. Other projects cannot use it.",
        get="get_ip",
        delete=Sdk("network", "delete_ip", "{id}", ignore_missing=False),
        title="floating_ip_address",
        available=extension("router"),
        after=("port_forwarding", "dns.ptr"),
        needed_by=(("port_forwarding", FORWARDING_ADDRESSES), ("dns.ptr", addresses_of_records)),
        serves=(
            *((name, _ON_PORTS) for name in SERVERS),
            ("load-balancer.load_balancer", behind_ports_of_balancers),
        ),
        used_by=(
            serves_ports(lambda address: [address.data.get("port_id")], "cuts off the address of the port"),
            Use(("dns.recordset",), "deletes the recordset that Neutron takes for its own", records_of_addresses),
        ),
        note="The port of a floating IP has an empty project_id and is never listed.",
        tags="tags",
        created="created_at",
        updated=LastChange("updated_at"),
        parts=(),
        source="DELETE /v2.0/floatingips/F: 409 FipInUseByPortForwarding; neutron db/l3_db.py",
    ),
    ResourceType(
        name="port_forwarding",
        title="floatingip_id",
        list=list_port_forwardings,
        all_projects="it has no owner of its own, and is deleted with its floating IP",
        show=show_port_forwarding,
        delete=Sdk("network", "delete_port_forwarding", "{id}", "{row[floatingip_id]}", ignore_missing=False),
        available=extension("floating-ip-port-forwarding"),
        serves=tuple((name, _TO_PORTS) for name in SERVERS),
        used_by=(
            serves_ports(
                lambda forwarding: [forwarding.data.get("internal_port_id")], "ends the forwarding to the port"
            ),
        ),
        note="It has no owner of its own. Its owner is that of its floating IP.",
        source="/v2.0/floatingips/F/port_forwardings; neutron services/portforwarding/pf_plugin.py",
    ),
    simple_type(
        "ndp_proxy",
        "ndp_proxies",
        list=rest_list("ndp_proxies"),  # openstacksdk reads only its first page
        unfiltered="Neutron refuses an owner filter here (400 where filter-validation is on)",
        available=extension("l3-ndp-proxy"),
        used_by=(serves_ports(lambda proxy: [proxy.data.get("port_id")], "cuts off the address of the port"),),
        note="While it exists, its router's interfaces and gateway cannot be removed.",
        created="created_at",
        updated=LastChange("updated_at"),
        parts=(),
        source="/v2.0/ndp_proxies; neutron services/ndp_proxy/plugin.py, neutron_lib api/definitions/l3_ndp_proxy.py",
    ),
    simple_type(
        "router",
        "routers",
        if_abandoned="Its gateway still uses an external address. It still forwards packets.",
        available=extension("router"),
        after=("floating_ip", "ndp_proxy", "vpn_service", "bgpvpn_router_association"),
        needed_by=(
            ("floating_ip", linked(Rest("network", "/floatingips/{id}"))),
            ("ndp_proxy", linked(Rest("network", "/ndp_proxies/{id}"))),
            ("vpn_service", linked(Rest("network", "/vpn/vpnservices/{id}"))),
            ("bgpvpn_router_association", associated("router", "router_id")),
        ),
        serves=tuple((name, routers_of_servers) for name in SERVERS),
        prepare=(clear_routes, remove_interfaces),
        explain=explain_router,
        used_by=(
            Use(("network.port",), "deletes the port", OneByOne(check_router)),
            Use(("network.floating_ip", "network.ndp_proxy", "network.vpn_service"), REFUSED, OneByOne(check_way_out)),
            *uses_of_ports(interfaces_of, "its interface is the way out for", (NEXT_HOPS,)),
        ),
        note="The removal of an interface deletes its port. So an interface with a port of another project is left "
        "and named. The gateway, HA and SNAT ports have no owner and are deleted with the router, and the HA "
        "network with the last HA router.",
        tags="tags",
        created="created_at",
        updated=LastChange("updated_at"),
        parts=(Parts("route", "routes", changed="updated_at"),),
        source="DELETE /v2.0/routers/R: 409 RouterInUse, RouterExternalGatewayInUseByFloatingIp; neutron db/l3_db.py",
    ),
    ResourceType(
        name="conntrack_helper",
        used_by=(),
        title="helper",
        list=list_conntrack_helpers,
        all_projects="it has no owner of its own, and is deleted with its router",
        delete=Sdk("network", "delete_conntrack_helper", "{id}", "{row[router_id]}", ignore_missing=False),
        why_no_show="never deleted by itself: it is deleted with its router",
        composition=Composition(deleted_with=("router",), part_of=(("router", "router_id"),)),
        after=("router",),
        available=extension("l3-conntrack-helper"),
        source="/v2.0/routers/R/conntrack_helpers; neutron db/models/conntrack_helper.py, CASCADE",
    ),
)
