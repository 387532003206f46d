"""Parts that resources of several plugins have, for ``ResourceType.parts``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins import exceptions
from cleanup_orchestrator.plugins.calls import in_catalog
from cleanup_orchestrator.plugins.contract import LastChange, Parts
from cleanup_orchestrator.plugins.values import ProjectDefinition, Resource, Row, to_row

if TYPE_CHECKING:
    from openstack.connection import Connection


def _ports(connection: Connection, _project: ProjectDefinition, device: Resource) -> Iterator[Row]:
    """Yield the ports of a server or container. Its service deletes those that it created, and detaches the others."""
    if not in_catalog(connection, "network"):
        return
    for port in connection.network.ports(device_id=device.id):
        row = to_row(port)
        if row.get("device_id") == device.id:
            yield row


def _vip_ports(connection: Connection, _project: ProjectDefinition, balancer: Resource) -> Iterator[Row]:
    """Yield the ports of the addresses of a load balancer. Octavia deletes those that it created."""
    if not in_catalog(connection, "network"):
        return
    more = (vip.get("port_id") for vip in balancer.data.get("additional_vips") or ())
    for port_id in filter(None, (balancer.data.get("vip_port_id"), *more)):
        try:
            yield to_row(connection.network.get_port(port_id))
        except exceptions.NotFoundException:  # it is gone, or of no network service
            continue


#: The ports of a load balancer: which of them Octavia created, no list shows.
VIP_PORTS = Parts("port", _vip_ports, created="created_at", updated=LastChange("updated_at"), type="network.port")
#: The ports of a server or a container: which of them its service created, no list shows.
PORTS = Parts("port", _ports, created="created_at", updated=LastChange("updated_at"), type="network.port")
