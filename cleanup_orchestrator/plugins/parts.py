"""Parts that resources of several plugins have, for ``ResourceType.parts``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.calls import in_catalog
from cleanup_orchestrator.plugins.contract import Parts
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


#: The ports of a server or a container: which of them its service created, no list shows.
PORTS = Parts("port", _ports, created="created_at")
