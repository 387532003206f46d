"""Finds out which records of other projects Neutron deletes in Designate with a port or a floating IP.

A user writes the DNS name and the domain of a port, also the name of another project's zone. Neutron publishes nothing
there: it finds no such zone with the user's token. When an admin deletes the port, Neutron looks for the zone in all
projects, and deletes the recordset of that name that has an address of the port
(neutron services/externaldns/drivers/designate/driver.py, delete_record_set).
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.calls import Paging, Rest, in_catalog
from cleanup_orchestrator.plugins.neutron import rows_with
from cleanup_orchestrator.plugins.values import ProjectDefinition, Resource, Row, Verdict
from cleanup_orchestrator.plugins.verdicts import Blocker, blocker, foreign_users

if TYPE_CHECKING:
    from openstack.connection import Connection

#: What Neutron has, or may have, published: the id of a resource, the name of a recordset, and an address.
_Published = Iterable[tuple[str, str, str]]


def records_of_ports(
    connection: Connection, project: ProjectDefinition, ports: Sequence[Row]
) -> Iterator[tuple[str, Blocker]]:
    """Yield the recordsets that are deleted with ports, each with the id of the port."""
    if not in_catalog(connection, "dns"):
        return
    addresses = {str(port["id"]): [str(ip.get("ip_address")) for ip in port.get("fixed_ips") or ()] for port in ports}
    names = _names(connection, project, ports)
    yield from _records(connection, project, ((id_, name, ip) for id_, name in names for ip in addresses[id_]))


def records_of_addresses(
    connection: Connection, project: ProjectDefinition, addresses: Sequence[Resource]
) -> dict[str, Verdict]:
    """Return a verdict, by id, on each floating IP with which a recordset of another project is deleted.

    A floating IP without a name of its own has that of its port.
    """
    if not in_catalog(connection, "dns"):
        return {}
    nameless = collections.defaultdict(list)
    published = []
    for one in addresses:
        address = str(one.data.get("floating_ip_address"))
        if one.data.get("dns_name") and one.data.get("dns_domain"):
            published.append((one.id, f"{one.data['dns_name']}.{one.data['dns_domain']}", address))
        elif port := one.data.get("port_id"):
            nameless[str(port)].append((one.id, address))
    ports = list(rows_with(connection, project, "/ports", "id", nameless))
    for port_id, name in _names(connection, project, ports):
        published += [(id_, name, address) for id_, address in nameless[port_id]]
    return foreign_users(project, "its delete would delete", _records(connection, project, published))


def _names(connection: Connection, project: ProjectDefinition, ports: Iterable[Row]) -> Iterator[tuple[str, str]]:
    """Yield the id and the published name of each port that has one. The domain is the port's, or its network's."""
    named = [port for port in ports if port.get("dns_name")]
    without = (port.get("network_id") for port in named if not port.get("dns_domain"))
    rows = rows_with(connection, project, "/networks", "id", without)
    domains = {str(row["id"]): row.get("dns_domain") for row in rows}
    for port in named:
        if domain := port.get("dns_domain") or domains.get(str(port.get("network_id"))):
            yield str(port["id"]), f"{port['dns_name']}.{domain}"


def _records(
    connection: Connection, project: ProjectDefinition, published: _Published
) -> Iterator[tuple[str, Blocker]]:
    """Yield the recordsets, of any project, with one of these names and addresses."""
    by_name: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
    for id_, name, address in published:
        by_name[name].append((id_, address))
    headers = {"X-Auth-All-Projects": "true", "OpenStack-DNS-Hide-Counts": "true"}
    for name, those in by_name.items():
        query = {"name": name}
        listing = Rest("dns", "/recordsets", key="recordsets", query=query, headers=headers, paging=Paging.MARKER)
        for row in listing.rows(connection, project):
            if str(row.get("name")).lower() != name.lower():
                continue
            for id_, address in those:
                if address in (row.get("records") or ()):
                    recordset = blocker("dns.recordset", row["id"], row.get("project_id"), row["name"])
                    yield id_, {**recordset, "of": str(row.get("zone_id") or "")}  # a call needs it beside the id
