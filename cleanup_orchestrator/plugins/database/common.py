"""Trove: lists on one page, what counts as stuck, and what must not get an admin's token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    NIL_UUID,
    BadAnswer,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    Rest,
    Row,
    Verdict,
    blocker,
    exceptions,
    is_past,
    state_remedies,
)
from cleanup_orchestrator.plugins.nova import says_not_found

if TYPE_CHECKING:
    from openstack.connection import Connection

TYPE = "database"

#: Trove answers 403 to a caller that it does not treat as an admin.
PROOF = Rest(TYPE, "/backup_strategies", query={"project_id": NIL_UUID})
#: The pages of these lists are sorted by the time of the last change: a row that changes between two pages may be on
#: neither. So there is one page, which no limit of Trove shortens.
ONE_PAGE = 1_000_000
_INSTANCES = {"deleted": "false", "include_clustered": "true", "limit": ONE_PAGE}

_RESET_AFTER = 4 * 3600


def one_page(path: str, key: str, **query: Any) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of a whole collection on one page."""
    call = Rest(TYPE, path, key=key, query=query)

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        body = call.call(connection, project)
        rows = body.get(key) if isinstance(body, dict) else None
        if not isinstance(rows, list):
            raise BadAnswer(f"{call!r} answered without {key!r}")
        if body.get("links"):
            raise BadAnswer(f"{call!r} answered with a part of the rows")
        yield from rows

    return listing


instances = one_page("/mgmt/instances", "instances", project_id="{project_id}", **_INSTANCES)
all_instances = one_page("/mgmt/instances", "instances", **_INSTANCES)


def own_instances(connection: Connection, project: ProjectDefinition) -> list[Row]:
    """Return the project's instances, and no other row."""
    return [row for row in instances(connection, project) if row.get("tenant_id") == project.id]


def is_quiet(row: Row, project: ProjectDefinition) -> bool:
    """Return whether a row has not changed for ``reset_after``. Trove's times are UTC."""
    return is_past(row.get("updated") or row.get("created"), int(project.options.get("reset_after", _RESET_AFTER)))


def describe_status(resource: Resource, project: ProjectDefinition) -> str | None:
    """Return the status for the report."""
    return str(resource.data.get("status") or "") or None


def trove_remedies(call: str, who: str = "an admin") -> Mapping[Reason, str]:
    """Return what a person does about a resource that Trove does not delete.

    :param call: what clears its state
    """
    return state_remedies("the log of trove-taskmanager has the cause", call, who)


def reset_instance(connection: Connection, project: ProjectDefinition, id_: str) -> None:
    """End the task of an instance, and its running backups. Trove sends nothing to the guest agent."""
    body: dict[str, Any] = {"reset-task-status": {}}
    call = Rest(TYPE, "/mgmt/instances/{id}/action", method="POST", body=body)
    call.call(connection, project, Resource(id_, "", None))


def is_refusal_of_a_state(error: Exception) -> bool:
    """Return whether Trove refused a delete because of what it does with the resource."""
    return isinstance(error, exceptions.HttpException) and error.status_code == 422


def refuse_guests(connection: Connection, project: ProjectDefinition, rows: Iterable[Row]) -> None:
    """Refuse to delete instances whose servers may still run: their guest agents would get an admin's token.

    :raises Refused: Nova knows one of the servers
    """
    for row in rows:
        server = str(row.get("server_id") or "")
        if not server:
            continue
        try:
            Rest("compute", "/servers/{id}").call(connection, project, Resource(server, "", None))
        except exceptions.NotFoundException as error:
            says_not_found(error.response)
            continue
        text = (
            f"the project is gone, and Trove would send an admin's token to the guest agent of instance {row['id']}: "
            f"an operator must delete its server {server} in Nova first"
        )
        raise Refused(Verdict(Reason.PROJECT_GONE, text, (blocker("compute.server", server, None),)))
