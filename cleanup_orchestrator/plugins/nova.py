"""What the plugins of several services ask Nova: the servers of other projects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins import exceptions
from cleanup_orchestrator.plugins.calls import Paging, Rest, in_catalog
from cleanup_orchestrator.plugins.values import ProjectDefinition, pick
from cleanup_orchestrator.plugins.verdicts import Blocker, blocker, may_be_id

if TYPE_CHECKING:
    from openstack.connection import Connection


#: Where the row of a server shows what a filter of the list is about.
_SHOWN = {"image": "image.id", "host": "OS-EXT-SRV-ATTR:host", "flavor": "flavor.id"}


def says_not_found(response: Any) -> bool:
    """Return whether Nova itself answers that it does not know a server.

    :param response: a ``requests.Response``
    :raises BadAnswer: the 404 is that of a proxy without a backend. The server may run, and hold what it uses
    """
    if response.status_code != 404:
        return False
    try:
        known = "itemNotFound" in response.json()
    except (ValueError, TypeError):
        known = False
    if not known:
        raise BadAnswer("something answered 404 for a server, and not as Nova does")
    return True


def server_blocker(connection: Connection, server_id: object) -> dict[str, str] | None:
    """Return a server of any project as a blocker; ``None`` when there is none, or no Nova.

    :raises BadAnswer: Nova does not show its owner; or something else than Nova answers 404
    """
    if not in_catalog(connection, "compute") or not may_be_id(str(server_id)):
        return None
    response = connection.compute.get(f"/servers/{quote(str(server_id), safe='')}")
    if says_not_found(response):
        return None
    exceptions.raise_from_response(response)
    try:
        server = response.json()["server"]
        return blocker("compute.server", server_id, str(server["tenant_id"]), server.get("name"))
    except (ValueError, KeyError, TypeError) as error:
        raise BadAnswer(f"GET /servers/{server_id} answered without its owner") from error


def foreign_servers(connection: Connection, project: ProjectDefinition, **query: str) -> Iterator[Blocker]:
    """Yield servers of other projects, as blockers. Servers in cells that do not answer are not among them.

    :param query: filters of the list of all servers: ``image``, ``host``, ``flavor``
    """
    listing = Rest(
        "compute", "/servers/detail", key="servers", query={"all_tenants": "1", **query}, paging=Paging.LINKS
    )
    for row in listing.rows(connection, project):
        ignored = any(pick(row, _SHOWN[name]) not in (None, value) for name, value in query.items())
        if row.get("tenant_id") != project.id and not ignored:
            yield blocker("compute.server", row["id"], row.get("tenant_id"), row.get("name"))
