"""What the plugins of several services ask Nova: the servers of other projects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins import exceptions
from cleanup_orchestrator.plugins.calls import Paging, Rest
from cleanup_orchestrator.plugins.values import ProjectDefinition, Resource, pick
from cleanup_orchestrator.plugins.verdicts import Blocker, blocker

if TYPE_CHECKING:
    from openstack.connection import Connection


#: Where the row of a server shows what a filter of the list is about.
_SHOWN = {"image": "image.id", "host": "OS-EXT-SRV-ATTR:host", "flavor": "flavor.id"}


def foreign_servers(
    connection: Connection, project: ProjectDefinition, *, ids: Iterable[object] = (), **query: str
) -> Iterator[Blocker]:
    """Yield servers of other projects, as blockers. Servers in cells that do not answer are not among them.

    :param ids: of single servers of any project
    :param query: filters of the list of all servers: ``image``, ``host``, ``flavor``
    """
    listing = Rest(
        "compute", "/servers/detail", key="servers", query={"all_tenants": "1", **query}, paging=Paging.LINKS
    )
    rows = list(listing.rows(connection, project)) if query else []
    one = Rest("compute", "/servers/{id}", key="server")
    for id_ in ids:
        try:
            rows.append(one.row(connection, project, Resource(str(id_), "", None)))
        except exceptions.NotFoundException:
            continue
    for row in rows:
        ignored = any(pick(row, _SHOWN[name]) not in (None, value) for name, value in query.items())
        if row.get("tenant_id") != project.id and not ignored:
            yield blocker("compute.server", row["id"], row.get("tenant_id"), row.get("name"))
