"""Manila: which projects mount a share, by its access rules."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource, Verdict, in_catalog, verdict_naming
from cleanup_orchestrator.plugins.neutron import (
    collection,
    extension_aliases,
    of_others,
    owner_of,
    row_blocker,
    rows_with,
)
from cleanup_orchestrator.plugins.shared_file_system.common import NETWORKS, rest

if TYPE_CHECKING:
    from openstack.connection import Connection


def clients_of_others(connection: Connection, project: ProjectDefinition, share: Resource) -> Verdict | None:
    """Name the ports and floating IPs of others whose addresses may mount a share by its access rules.

    The same address may exist in many networks. Only a port on the network of the share, or on a network that is
    external or shared with all projects, counts.
    """
    listing = rest("/share-access-rules", "2.45", key="access_list", query={"share_id": share.id})
    rules = [row for row in listing.rows(connection, project) if row.get("access_type") == "ip"]
    addresses = sorted({address for row in rules if (address := _host(row.get("access_to")))})
    if not addresses or not in_catalog(connection, "network"):
        return None
    wanted = [f"ip_address={address}" for address in addresses]
    ports = list(collection("/ports", fixed_ips=wanted).rows(connection, project))
    networks = rows_with(connection, project, "/networks", "id", (port.get("network_id") for port in ports))
    there = {str(row["id"]) for row in networks if row.get("shared") or row.get("router:external")}
    if network := share.data.get("share_network_id"):
        row = NETWORKS.show.row(connection, project, Resource(network, "", None))
        there |= {str(each.get("neutron_net_id")) for each in row.get("share_network_subnets") or ()}
    on_it = (port for port in ports if str(port.get("network_id")) in there)
    clients = [row_blocker("port", port) for port in of_others(connection, project, on_it)]
    if "router" in extension_aliases(connection):
        rows = rows_with(connection, project, "/floatingips", "floating_ip_address", addresses)
        clients += [row_blocker("floating_ip", row) for row in rows if owner_of(row) != project.id]
    return verdict_naming(project, "an access rule lets it be mounted from", clients)


def _host(text: object) -> str:
    """Return the address that an access rule is for; empty: it is for several."""
    try:
        network = ipaddress.ip_network(str(text), strict=False)
    except ValueError:
        return ""
    return str(network.network_address) if network.num_addresses == 1 else ""
