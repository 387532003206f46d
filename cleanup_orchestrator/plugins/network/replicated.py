"""Neutron: the network that joins the replicas of a project's highly available routers.

Neutron makes it for the first such router of a project and gives it no project: only its name says whose it is. It
deletes it with the last router, unless a port of a replica is still there at that moment, or the creation of the router
failed. Then nothing deletes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    ProjectDefinition,
    Reason,
    Resource,
    ResourceType,
    Row,
    Sdk,
    Verdict,
    to_row,
)
from cleanup_orchestrator.plugins.network.common import extension, is_shared, list_rows, rest_list
from cleanup_orchestrator.plugins.neutron import owner_of, row_blocker

if TYPE_CHECKING:
    from openstack.connection import Connection

#: ``neutron_lib.constants.HA_NETWORK_NAME``.
_NAME = "HA network tenant {}"
_ID = re.compile(re.escape(_NAME.format("")) + r"([0-9A-Za-z_-]{1,64})")


def project_of(row: Row) -> str:
    """Return the id of the project whose routers a network joins; empty: it is another network.

    A network of this name that has a project is one that a user made. An admin may have shared one without a project,
    or made it external: Neutron makes none like that.
    """
    named = _ID.fullmatch(str(row.get("name") or ""))
    external = row.get("is_router_external") or row.get("router:external")
    return named[1] if named and not (owner_of(row) or is_shared(row) or external) else ""


def list_ha_networks(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the networks that join the routers of the project."""
    for row in rest_list("networks", name=_NAME.format(project.id)).rows(connection, project):
        if project_of(row) == project.id:
            yield {**row, "project_id": project.id}


def list_all_ha_networks(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the networks that join routers, each with the project that its name has."""
    for row in rest_list("networks").rows(connection, project):
        if owner := project_of(row):
            yield {**row, "project_id": owner}


def show_ha_network(connection: Connection, project: ProjectDefinition, resource: Resource) -> Row:
    """Read the name and the owner again."""
    row = to_row(connection.network.get_network(resource.id))
    return {**row, "project_id": project_of(row) or owner_of(row)}


def explain_ha_network(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
    """Name the ports on it, which have no project either: each belongs to the replica of a router."""
    ports = list_rows(connection, "ports", network_id=resource.id)
    blockers = tuple(
        row_blocker("port", port, f"of router {port.get('device_id')}")
        for port in ports
        if port.get("network_id") == resource.id
    )
    return Verdict(Reason.IN_USE, "ports of the replicas of routers are on it", blockers) if blockers else None


REPLICATED = (
    ResourceType(
        name="ha_network",
        list=list_ha_networks,
        all_projects=list_all_ha_networks,
        show=show_ha_network,
        delete=Sdk("network", "delete_network", "{id}", ignore_missing=False),
        explain=explain_ha_network,
        after=("router",),
        available=extension("l3-ha"),
        used_by=(),
        project_setting=True,
        unfiltered="the network has no project; its name has the project's id",
        by_hand="as an admin: openstack network delete {id}",
        source="GET /v2.0/networks?name=HA network tenant X, DELETE /v2.0/networks/{id}; neutron db/l3_hamode_db.py",
        note="Neutron makes it without a project, so that no owner filter finds it, and answers 409 while the port of "
        "a replica is on it. Only a network without a project, with exactly this name, counts: any user may give "
        "the name to a network of his own project.",
    ),
)
