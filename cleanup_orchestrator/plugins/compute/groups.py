"""Nova: server groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    BadAnswer,
    OneByOne,
    ProjectDefinition,
    Resource,
    ResourceType,
    Rest,
    Row,
    Use,
    Verdict,
    verdict_naming,
)
from cleanup_orchestrator.plugins.compute.servers import OF_PROJECT
from cleanup_orchestrator.plugins.nova import server_blocker

if TYPE_CHECKING:
    from openstack.connection import Connection

_GROUP_OWNER = "2.13"  #: the first that shows the owner of a server group; Mitaka
PAGE = 1000  #: Nova's ``max_limit``, to which it reduces a larger limit

#: How many rows of a page the next page repeats, so that rows that are deleted meanwhile leave no gap.
OVERLAP = 50


def list_server_groups(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the server groups of the whole cloud: there is no owner filter.

    The list is paged by offset alone. A group that is deleted meanwhile moves all others up. So each page begins within
    the previous one. If its first row is known, no row was skipped. The owners are compared here.

    :raises BadAnswer: when there may be a gap
    """
    # To a caller who is not an admin, Nova silently lists the groups of its own project. It refuses this call then.
    Rest("compute", "/servers", key="servers", query={**OF_PROJECT, "limit": 1}).call(connection, project)
    seen: set[str] = set()
    offset = 0
    while True:
        query = {"all_projects": "true", "limit": PAGE, "offset": offset}
        call = Rest("compute", "/os-server-groups", query=query, microversion=_GROUP_OWNER)
        body = call.call(connection, project)
        page = body.get("server_groups") if isinstance(body, Mapping) else None
        if not isinstance(page, list):
            raise BadAnswer(f"{call!r} answered without 'server_groups'")
        if offset and (not page or page[0]["id"] not in seen):
            raise BadAnswer(
                f"{call!r}: too many groups were deleted while the list was read, so that some may have been skipped"
            )
        new = [row for row in page if row["id"] not in seen]
        if not new:
            return
        yield from new
        seen.update(row["id"] for row in new)
        offset += len(page) - min(OVERLAP, max(1, len(page) // 2))


def _foreign_members(connection: Connection, project: ProjectDefinition, group: Resource) -> Verdict | None:
    """Name the servers of others in a server group, which an admin put there."""
    members = (server_blocker(connection, member) for member in group.data.get("members") or ())
    others = (one for one in members if one is not None and one["owner"] != project.id)
    return verdict_naming(project, "its members are", others)


SERVER_GROUP = ResourceType(
    name="server_group",
    list=list_server_groups,
    all_projects=list_server_groups,
    show=Rest("compute", "/os-server-groups/{id}", key="server_group", microversion=_GROUP_OWNER),
    delete=Rest("compute", "/os-server-groups/{id}", method="DELETE", microversion=_GROUP_OWNER),
    used_by=(
        Use(
            ("compute.server",),
            "ends the rule by which Nova places the server, at its next move",
            OneByOne(_foreign_members),
        ),
    ),
    unfiltered="Nova lists the groups of the token's project or all groups; the owner of each row is compared",
    source="GET /os-server-groups?all_projects=true, DELETE /os-server-groups/{id}; nova "
    "api/openstack/compute/server_groups.py",
    note="Nova deletes it whatever its members. The list is paged by offset, and each page overlaps the previous "
    "one. To a caller who is not an admin Nova silently shows the caller's own project, so this is checked "
    "first.",
)
