"""What the plugins of several services ask Neutron: extensions, owners, ports and routers.

Neutron refuses a call to members where it harms others, and lets an admin make it. Several services delete ports as
well: Nova with a server, Octavia with a load balancer.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins.calls import Paging, Rest, Sdk, in_catalog
from cleanup_orchestrator.plugins.values import ProjectDefinition, Resource, Row, pick
from cleanup_orchestrator.plugins.verdicts import MAX_BLOCKERS, blocker, may_be_id

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Rows of a page of a list over all projects. Without a limit Neutron may return the whole cloud at once.
PAGE = 1000
_IDS = 50  #: values in one query: a URL must not get too long
#: Owners of ports that only the calls of a router remove (neutron_lib constants, ROUTER_PORT_OWNERS and HA).
ROUTER_PORTS = (
    "network:router_interface",
    "network:router_interface_distributed",
    "network:ha_router_replicated_interface",
    "network:router_centralized_snat",
    "network:router_gateway",
    "network:router_ha_interface",
)
ROUTER_INTERFACES = ROUTER_PORTS[:3]  #: owners of the ports by which a router reaches a network
ROUTER_GATEWAY = "network:router_gateway"  #: owner of the port by which a router reaches an external network
#: Ports that Neutron itself deletes with their network (neutron common/_constants.py, AUTO_DELETE_PORT_OWNERS).
NETWORK_PORTS = ("network:dhcp", "network:distributed", "network:floatingip_agent_gateway")
_EXTENSIONS_SECONDS = 30.0  # one round of sweeps reads them dozens of times; an upgrade of Neutron takes longer
_extensions: dict[str, tuple[float, frozenset[str]]] = {}  # by endpoint, because each step has a new connection
_extensions_lock = threading.Lock()


def extension_aliases(connection: Connection) -> frozenset[str]:
    """Return the aliases of the extensions that this Neutron has.

    :raises BadAnswer: when the list is empty: every Neutron has some extensions
    """
    endpoint = str(connection.network.get_endpoint() or "")
    with _extensions_lock:
        read_at, known = _extensions.get(endpoint, (0.0, frozenset()))
    if known and time.monotonic() - read_at < _EXTENSIONS_SECONDS:
        return known
    aliases = frozenset(str(row["alias"]) for row in Sdk("network", "extensions").rows(connection, _NO_PROJECT))
    if not aliases:
        raise BadAnswer("GET /v2.0/extensions answered with an empty list")
    if endpoint:
        with _extensions_lock:
            _extensions[endpoint] = (time.monotonic(), aliases)
    return aliases


_NO_PROJECT = ProjectDefinition(id="-", name="", domain_id="", region="")  # for calls that name no project


def owner_of(row: Row) -> str:
    """Return the id of the project that owns a row; empty when the row shows none."""
    return str(row.get("project_id") or row.get("tenant_id") or "")


def row_blocker(type_: str, row: Row, name: object = "") -> dict[str, str]:
    """Return a row as a blocker.

    :param name: what a person knows it by, where that is not its name
    """
    known = name or row.get("name") or row.get("floating_ip_address")
    return blocker(f"network.{type_}", row["id"], owner_of(row), known)


def collection(path: str, **query: Any) -> Rest:
    """Return the list of the rows of all projects, or of those that the query selects.

    :param path: ``/floatingips``; its last part is the key of the answer
    """
    key = path.rpartition("/")[2].replace("-", "_")
    return Rest("network", path, key=key, query={"limit": PAGE, **query}, paging=Paging.LINKS)


#: Names of ports that Octavia and Trove make in a project of their own: of an amphora, of a database instance. Any user
#: can give such a name: it counts for ports of servers only.
_SERVICE_PORT = re.compile(r"(octavia|trove)-")
#: Owners of ports that Octavia and Manila make.
_SERVICE_PORT_OWNERS = ("octavia", "manila:")
#: How the ``device_id`` of a port begins that has the address of a load balancer. It belongs to the project of that.
_BALANCER = "lb-"
#: Names of Octavia's servers, whose ports on the networks of members have no name.
_AMPHORA = "amphora-"


def without_service_ports(connection: Connection, project: ProjectDefinition, ports: Iterable[Row]) -> Iterator[Row]:
    """Yield the ports, without those that services made in projects of their own.

    Before a network is deleted, such a port is deleted with the project's load balancer, share server or database. A
    user may give a port such a name: then a plan does not foresee that it blocks, and its network stays nevertheless.

    A look-up in Nova is one call for each port. Once as many ports stay as a verdict names, Nova is no longer asked:
    the number of the others may then contain ports of amphorae.
    """
    staying = 0
    for port in ports:
        if owner_of(port) not in ("", project.id):
            if _is_of_service(connection, port, ask_nova=staying < MAX_BLOCKERS):
                continue
            staying += 1
        yield port


#: What of the project makes ports in projects of its service: by how these ports are known, the list of it.
_MAKERS: tuple[tuple[re.Pattern[str], str, str, str, Mapping[str, str]], ...] = (
    (re.compile(r"octavia"), "load-balancer", "/lbaas/loadbalancers", "loadbalancers", {}),
    (re.compile(r"manila:"), "shared-file-system", "/share-networks/detail", "share_networks", {"all_tenants": "1"}),
)


def without_ports_that_go(connection: Connection, project: ProjectDefinition, ports: Iterable[Row]) -> Iterator[Row]:
    """Yield the ports that stay when the project is deleted, for a plan.

    A service deletes its port with the resource that it was made for. If the project no longer has such a resource, the
    port has leaked: a cascade is refused because of it, and so a plan names it. Trove shows instances to their project
    alone, so its ports count as those of the project's instances.
    """
    ports = list(ports)
    made = _made_by(ports)
    has = {maker: _has_any(connection, project, maker) for maker in set(made.values())}
    leaked = {id_ for id_, maker in made.items() if not has[maker]}
    staying = {str(port["id"]) for port in without_service_ports(connection, project, ports)}
    yield from (port for port in ports if str(port["id"]) in staying | leaked)


def _made_by(ports: Iterable[Row]) -> dict[str, int]:
    """Return the index in ``_MAKERS`` by the id of each port that a service made by its owner or its name."""
    makers = {}
    for port in ports:
        owner, name = str(port.get("device_owner") or "").lower(), str(port.get("name") or "")
        for number, (pattern, *_) in enumerate(_MAKERS):
            if pattern.match(owner) or (pattern.match(name) and _SERVICE_PORT.match(name)):
                makers[str(port["id"])] = number
    return makers


def _has_any(connection: Connection, project: ProjectDefinition, maker: int) -> bool:
    _pattern, service, path, key, query = _MAKERS[maker]
    if not in_catalog(connection, service):
        return False
    listing = Rest(service, path, key=key, query={**query, "project_id": project.id, "limit": 1})
    return any(owner_of(row) == project.id for row in listing.rows(connection, project))


def _is_of_service(connection: Connection, port: Row, ask_nova: bool) -> bool:
    """Return whether a service made a port; if Nova does not say so of its server, the port counts as a user's."""
    owner = str(port.get("device_owner") or "").lower()
    if str(port.get("device_id") or "").startswith(_BALANCER):
        return False
    if owner.startswith(_SERVICE_PORT_OWNERS):
        return True
    if not owner.startswith("compute:") or not (server := port.get("device_id")):
        return False
    if _SERVICE_PORT.match(str(port.get("name") or "")):
        return True
    if not ask_nova or not may_be_id(str(server)):
        return False
    if connection.config.get_session_endpoint("compute") is None:
        return False
    response = connection.compute.get(f"/servers/{quote(str(server), safe='')}")
    if response.status_code != 200:
        return False
    try:
        name = pick(response.json(), "server.name")
    except ValueError:
        return False
    return str(name or "").startswith(_AMPHORA)


def rows_with(
    connection: Connection,
    project: ProjectDefinition,
    path: str,
    attribute: str,
    values: Iterable[object],
    **query: Any,
) -> Iterator[Row]:
    """Yield the rows of a collection, of any project, with one of these values in an attribute.

    :param path: see :func:`collection`
    :param attribute: one that Neutron filters by
    """
    wanted = sorted({str(value) for value in values if value})
    for start in range(0, len(wanted), _IDS):
        part = wanted[start : start + _IDS]
        rows = collection(path, **query, **{attribute: part}).rows(connection, project)
        yield from (row for row in rows if str(row.get(attribute)) in part)


def ports_of_devices(
    connection: Connection, project: ProjectDefinition, devices: Sequence[Resource]
) -> Iterator[tuple[str, Row]]:
    """Yield the ports of servers or containers, each with the id of its device."""
    if in_catalog(connection, "network"):
        for port in rows_with(connection, project, "/ports", "device_id", (device.id for device in devices)):
            yield str(port["device_id"]), port


def routers_on(connection: Connection, project: ProjectDefinition, networks: Iterable[object]) -> list[Row]:
    """Return the routers, of any project, with an interface on one of these networks."""
    if "router" not in extension_aliases(connection):  # a Neutron without routers answers 404 to their list
        return []
    owners = list(ROUTER_INTERFACES)
    ports = rows_with(connection, project, "/ports", "network_id", networks, device_owner=owners)
    routers = {port.get("device_id") for port in ports if port.get("device_owner") in owners}
    return list(rows_with(connection, project, "/routers", "id", routers))


def routers_out_by(connection: Connection, project: ProjectDefinition, networks: Iterable[object]) -> Iterator[Row]:
    """Yield the routers, of any project, with a gateway on one of these networks.

    An external network may have thousands of gateways, so that one list of all routers takes fewer calls.
    """
    if "router" not in extension_aliases(connection):
        return
    rows = rows_with(connection, project, "/networks", "id", networks)
    external = {str(row["id"]) for row in rows if row.get("router:external")}
    if not external:
        return
    for row in collection("/routers").rows(connection, project):
        gateways = (row.get("external_gateway_info"), *(row.get("external_gateways") or ()))
        if external & {str(each.get("network_id")) for each in gateways if each}:
            yield row


def ports_of_others(connection: Connection, project: ProjectDefinition, networks: Iterable[object]) -> Iterator[Row]:
    """Yield the ports on these networks that users of other projects made."""
    ports = rows_with(connection, project, "/ports", "network_id", networks)
    others = (port for port in ports if port.get("device_owner") not in (*ROUTER_PORTS, *NETWORK_PORTS))
    yield from of_others(connection, project, others)


def of_others(connection: Connection, project: ProjectDefinition, ports: Iterable[Row]) -> Iterator[Row]:
    """Yield those of the ports that users of other projects made: not services, and not Neutron itself."""
    foreign = (port for port in ports if owner_of(port) not in ("", project.id))
    yield from without_service_ports(connection, project, foreign)
