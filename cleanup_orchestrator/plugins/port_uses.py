"""Finds out what of other projects rests on ports, or is served by a resource through a port."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.calls import Paging, Rest, in_catalog
from cleanup_orchestrator.plugins.contract import FindsUses, Use
from cleanup_orchestrator.plugins.external_dns import records_of_ports
from cleanup_orchestrator.plugins.neutron import (
    PAGE,
    collection,
    extension_aliases,
    of_others,
    owner_of,
    ports_of_others,
    routers_on,
    routers_out_by,
    row_blocker,
    rows_with,
)
from cleanup_orchestrator.plugins.values import ProjectDefinition, Resource, Row, Verdict
from cleanup_orchestrator.plugins.verdicts import Blocker, blocker, foreign_users

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Yields the ports that are deleted with resources, each with the id of its resource.
PortsOf = Callable[["Connection", ProjectDefinition, Sequence[Resource]], Iterable[tuple[str, Row]]]

#: Yields what of any project rests on ports, each with the id of the port.
_Finder = Callable[["Connection", ProjectDefinition, Sequence[Row]], Iterator[tuple[str, Blocker]]]


@dataclasses.dataclass(frozen=True, slots=True)
class PortUse:
    """What may rest on a port."""

    by: tuple[str, ...]  #: as in :attr:`Use.by`
    harm: str  #: what the delete of the port does to it, as in :attr:`Use.harm`
    find: _Finder


def serves_ports(ports_of: Callable[[Resource], Iterable[object]], harm: str) -> Use:
    """Return how ports of other projects may depend on resources that name them.

    :param ports_of: returns the ids of the ports in the row of a resource
    :param harm: as in :attr:`Use.harm`
    """

    def uses(connection: Connection, project: ProjectDefinition, resources: Sequence[Resource]) -> dict[str, Verdict]:
        named = {one.id: {str(port) for port in ports_of(one) if port} for one in resources}
        ports = rows_with(connection, project, "/ports", "id", (port for some in named.values() for port in some))
        foreign = {str(port["id"]): port for port in of_others(connection, project, ports)}
        served = (
            (id_, row_blocker("port", foreign[port])) for id_, some in named.items() for port in some & foreign.keys()
        )
        return foreign_users(project, "it serves", served)

    return Use(("network.port",), harm, uses)


def _next_hops(
    connection: Connection, project: ProjectDefinition, ports: Sequence[Row]
) -> Iterator[tuple[str, Blocker]]:
    """Yield what sends its packets to an address of a port, each with the id of the port.

    These are subnets with the address as gateway, next hop or name server, and routers with a static route to it. If
    the subnet is the project's, these are the ports of others on it. Servers may share an address by turns (VRRP): each
    of their ports has it as an allowed address pair, and no port as its own.
    """
    addresses = [
        (str(port["id"]), str(ip.get("subnet_id")), address)
        for port in ports
        for ip in port.get("fixed_ips") or ()
        for address in {_address(one) for one in (ip, *(port.get("allowed_address_pairs") or ()))}
    ]
    rows = rows_with(connection, project, "/subnets", "id", (subnet for _, subnet, _ in addresses))
    subnets = {str(row["id"]): row for row in rows}
    ways = [(port, subnets[subnet]) for port, subnet, address in addresses if address in _hops(subnets.get(subnet))]
    yield from ((port, row_blocker("subnet", subnet)) for port, subnet in ways if owner_of(subnet) != project.id)
    own = [(port, subnet) for port, subnet in ways if owner_of(subnet) == project.id]
    on: dict[str, list[Row]] = collections.defaultdict(list)
    for user in ports_of_others(connection, project, {subnet["network_id"] for _, subnet in own}):
        for ip in user.get("fixed_ips") or ():
            on[str(ip.get("subnet_id"))].append(user)
    yield from ((port, row_blocker("port", user)) for port, subnet in own for user in on[str(subnet["id"])])
    networks = {port["network_id"] for port in ports}
    for router in (*routers_on(connection, project, networks), *routers_out_by(connection, project, networks)):
        hops = {route["nexthop"] for route in router.get("routes") or ()}
        yield from ((port, row_blocker("router", router)) for port, _, address in addresses if address in hops)


def _address(row: Row) -> str:
    """Return the address in a row. That of an allowed address pair may be written as a network of one address."""
    return str(row.get("ip_address")).removesuffix("/32").removesuffix("/128")


def _hops(subnet: Row | None) -> set[object]:
    """Return the addresses to which the ports of a subnet send what leaves it, and ask for names."""
    if subnet is None:
        return set()
    routes = {route["nexthop"] for route in subnet.get("host_routes") or ()}
    return {subnet.get("gateway_ip"), *routes, *(subnet.get("dns_nameservers") or ())} - {None}


def _addresses(
    connection: Connection, project: ProjectDefinition, ports: Sequence[Row]
) -> Iterator[tuple[str, Blocker]]:
    if "router" not in extension_aliases(connection):  # a Neutron without routers answers 404 to the list
        return
    for row in rows_with(connection, project, "/floatingips", "port_id", (port["id"] for port in ports)):
        yield str(row["port_id"]), row_blocker("floating_ip", row)


def _forwardings(
    connection: Connection, project: ProjectDefinition, ports: Sequence[Row]
) -> Iterator[tuple[str, Blocker]]:
    """Yield the port forwardings of others.

    Neutron has no list of all forwardings. The floating IP of one has the router that reaches the port's network.
    """
    if "floating-ip-port-forwarding" not in extension_aliases(connection):
        return
    known = {str(port["id"]) for port in ports}
    routers = [row["id"] for row in routers_on(connection, project, {port["network_id"] for port in ports})]
    for address in rows_with(connection, project, "/floatingips", "router_id", routers):
        # A floating IP with a port has no forwardings (neutron pf_plugin.py, FloatingIPPortAlreadyAssociated).
        if owner_of(address) == project.id or address.get("port_id"):
            continue
        listing = collection(f"/floatingips/{address['id']}/port_forwardings")
        for row in listing.rows(connection, project):
            if (port := str(row.get("internal_port_id"))) in known:
                name = f"{address.get('floating_ip_address')}:{row.get('external_port')}"
                forwarding = blocker("network.port_forwarding", row["id"], owner_of(address), name)
                yield port, {**forwarding, "of": str(address["id"])}  # a call needs it beside the id


def _ndp_proxies(
    connection: Connection, project: ProjectDefinition, ports: Sequence[Row]
) -> Iterator[tuple[str, Blocker]]:
    """Yield the NDP proxies. Neutron does not filter them by the port."""
    if "l3-ndp-proxy" not in extension_aliases(connection):
        return
    known = {str(port["id"]) for port in ports}
    for row in collection("/ndp_proxies").rows(connection, project):
        if (port := str(row.get("port_id"))) in known:
            yield port, row_blocker("ndp_proxy", row, row.get("ip_address"))


def _balancers(
    connection: Connection, project: ProjectDefinition, ports: Sequence[Row]
) -> Iterator[tuple[str, Blocker]]:
    """Yield the load balancers whose address is on a port."""
    if not in_catalog(connection, "load-balancer"):
        return
    known = {str(port["id"]) for port in ports}
    for network in sorted({str(port["network_id"]) for port in ports}):
        query = {"limit": PAGE, "vip_network_id": network}
        listing = Rest("load-balancer", "/lbaas/loadbalancers", key="loadbalancers", query=query, paging=Paging.LINKS)
        for row in listing.rows(connection, project):
            if (port := str(row.get("vip_port_id"))) in known:
                yield port, blocker("load-balancer.load_balancer", row["id"], row.get("project_id"), row.get("name"))


#: Owner of the ports from which health monitors check the members on a subnet, with the OVN provider of Octavia, and
#: how the names of these ports begin. Before 2024.1 the owner was the one of Neutron's metadata ports.
_MONITORS, _MONITORS_NAME = "ovn-lb-hm:distributed", "ovn-lb-hm-"
_OVN = "ovn"  #: name of the provider


def _monitors(
    connection: Connection, project: ProjectDefinition, ports: Sequence[Row]
) -> Iterator[tuple[str, Blocker]]:
    """Yield the health monitors of others that check members from a port, each with the id of the port.

    The OVN provider makes one port for a subnet, in the project of the first member's port. All health monitors with
    members on the subnet share it, of any project, and nothing makes it again before they change
    (ovn_octavia_provider/helper.py, _ensure_hm_ovn_port). Only the projects with ports on the network are asked about.
    """
    own = [
        port
        for port in ports
        if port.get("device_owner") == _MONITORS or str(port.get("name")).startswith(_MONITORS_NAME)
    ]
    if not own or not in_catalog(connection, "load-balancer"):
        return
    sources = [(str(ip.get("subnet_id")), str(port["id"])) for port in own for ip in port.get("fixed_ips") or ()]
    others = ports_of_others(connection, project, {port["network_id"] for port in own})
    for owner in sorted({owner_of(port) for port in others}):
        for subnet, monitor in _monitored_subnets(connection, project, owner):
            yield from ((port, monitor) for source, port in sources if source == subnet)


def _monitored_subnets(connection: Connection, project: ProjectDefinition, owner: str) -> Iterator[tuple[str, Blocker]]:
    """Yield the health monitors of a project with the OVN provider, each with the subnet of a member."""

    def rows(name: str, key: str) -> Iterator[Row]:
        query = {"limit": PAGE, "project_id": owner}
        listing = Rest("load-balancer", f"/lbaas/{name}", key=key, query=query, paging=Paging.LINKS)
        return listing.rows(connection, project)

    balancers = {row["id"]: row for row in rows("loadbalancers", "loadbalancers") if row.get("provider") == _OVN}
    for pool in rows("pools", "pools") if balancers else ():
        above = [balancers[one["id"]] for one in pool.get("loadbalancers") or () if one["id"] in balancers]
        if not above or not pool.get("healthmonitor_id"):
            continue
        monitor = blocker("load-balancer.health_monitor", pool["healthmonitor_id"], pool.get("project_id"))
        for member in rows(f"pools/{pool['id']}/members", "members"):
            yield str(member.get("subnet_id") or above[0].get("vip_subnet_id")), monitor


NEXT_HOPS = PortUse(
    ("network.subnet", "network.router", "network.port"),
    "leaves them without a gateway, a next hop or a name server",
    _next_hops,
)
PORT_USES = (
    PortUse(("network.floating_ip",), "takes the address off the port", _addresses),
    PortUse(("network.port_forwarding",), "deletes the forwarding", _forwardings),
    PortUse(("network.ndp_proxy",), "deletes the proxy", _ndp_proxies),
    PortUse(("load-balancer.load_balancer",), "takes the address of the load balancer", _balancers),
    PortUse(("load-balancer.health_monitor",), "takes the port from which the members are checked", _monitors),
    PortUse(("dns.recordset",), "deletes the recordset that Neutron takes for the port's", records_of_ports),
    NEXT_HOPS,
)


def uses_of_ports(ports_of: PortsOf, what: str, among: Sequence[PortUse] = PORT_USES) -> tuple[Use, ...]:
    """Return how other projects may depend on resources through the ports that are deleted with them.

    :param what: the beginning of the sentence: ``it is used by``, ``a port of it is used by``
    :param among: the uses that matter for these ports
    """
    return tuple(Use(one.by, one.harm, _finding(ports_of, what, one.find)) for one in among)


def _finding(ports_of: PortsOf, what: str, find: _Finder) -> FindsUses:
    def uses(connection: Connection, project: ProjectDefinition, resources: Sequence[Resource]) -> dict[str, Verdict]:
        owners = {str(port["id"]): (id_, port) for id_, port in ports_of(connection, project, resources)}
        if not owners:
            return {}
        rests = find(connection, project, [port for _, port in owners.values()])
        return foreign_users(project, what, ((owners[port_id][0], one) for port_id, one in rests))

    return uses
