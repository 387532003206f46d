"""Heat: lists of stacks, and of what is nested in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from cleanup_orchestrator.plugins.base import BadAnswer, Paging, ProjectDefinition, Resource, Rest, Row, exceptions

if TYPE_CHECKING:
    from openstack.connection import Connection

DELETING = "DELETE_IN_PROGRESS"
DELETE_FAILED = "DELETE_FAILED"


def stacks_of(nested: bool, **query: str) -> Rest:
    """Return the list of the project's stacks, also hidden ones.

    The oldest is first, so that a new stack shifts no page.
    """
    return Rest(
        "orchestration",
        "/stacks",
        key="stacks",
        query={
            "tenant": "{project_id}",
            "show_hidden": "true",
            "show_nested": "true" if nested else "false",
            "sort_keys": "creation_time",
            "sort_dir": "asc",
            **query,
        },
        paging=Paging.MARKER,
        limit=200,
    )


def failed_stacks(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's stacks whose delete failed, or is in progress."""
    for row in stacks_of(nested=False).rows(connection, project):
        if row.get("stack_status") in (DELETING, DELETE_FAILED):
            yield row


def all_stacks(failed: bool) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of all stacks whose delete has failed, or of all others."""
    mine = stacks_of(nested=False)
    call = dataclasses.replace(mine, query={key: value for key, value in mine.query.items() if key != "tenant"})

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for row in call.rows(connection, project):
            if (row.get("stack_status") == DELETE_FAILED) is failed:
                yield row

    return listing


_NESTED = "_nested"  # added to listed rows; no attribute of Heat begins with an underscore


def orphaned_stacks(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield nested stacks whose root is gone, with the ids of those nested in them.

    The others are deleted with their root.
    """
    rows = {str(row["id"]): row for row in stacks_of(nested=True).rows(connection, project)}
    nested: dict[str, list[str]] = {}
    for id_, row in rows.items():
        nested.setdefault(str(row.get("parent")), []).append(id_)
    for row in rows.values():
        seen, parent = {str(row["id"])}, row.get("parent")
        while parent in rows and parent not in seen:
            seen.add(str(parent))
            parent = rows[str(parent)].get("parent")
        if parent is not None:
            yield {**row, _NESTED: nested.get(str(row["id"]), [])}


def nested_in(stack: Resource) -> list[str]:
    """Return the stacks that are nested in an orphaned one, by id: Heat deletes them with it."""
    return list(stack.data.get(_NESTED) or ())


def show_stack(connection: Connection, project: ProjectDefinition, stack: Resource) -> Row:
    """Read a stack again, from the list.

    The answer for a single stack does not show the owner.

    :raises NotFoundException: when the list does not have the stack
    """
    nested = "false" if stack.data.get("parent") is None else "true"
    query = {"id": stack.id, "tenant": project.id, "show_hidden": "true", "show_nested": nested}
    response = connection.orchestration.get("/stacks", params=query)
    exceptions.raise_from_response(response)
    rows = response.json().get("stacks")
    if not isinstance(rows, list):
        raise BadAnswer("GET /stacks answered without 'stacks'")
    for row in rows:
        if row.get("id") == stack.id:
            listed: Row = row
            return listed
    raise exceptions.failure(404, f"stack {stack.id} is no longer in the list")


def events_of(connection: Connection, project: ProjectDefinition, stack: Resource) -> Iterator[Row]:
    """Yield the events of a stack, and of those nested in it, since its delete began.

    With ``nested_depth`` Heat shows events of nested stacks as well, but only with a token of the project. If the
    project is gone, the events of each nested stack are listed separately.
    """
    since = str(stack.data.get("updated_time") or "")
    deep = {} if project.gone else {"nested_depth": 100}
    for row in (stack.data, *(_below(connection, project, stack) if project.gone else ())):
        name, id_ = (quote(str(row[key]), safe="") for key in ("stack_name", "id"))
        events = Rest(
            "orchestration",
            f"/stacks/{name}/{id_}/events",
            key="events",
            query={**deep, "sort_keys": "created_at", "sort_dir": "desc"},
            paging=Paging.MARKER,
            limit=200,
        )
        for event in events.rows(connection, project):
            if str(event.get("event_time") or "") < since:  # of an earlier delete; both are ISO times of the same form
                break
            yield event


def resources_of(connection: Connection, project: ProjectDefinition, stack: Resource) -> Iterator[Row]:
    """Yield the resources of a stack, and of those nested in it. Heat asks no other service for that."""
    name, id_ = (quote(part, safe="") for part in (stack.name, stack.id))
    path = f"/stacks/{name}/{id_}/resources"
    for row in Rest("orchestration", path, key="resources", query={"nested_depth": 100}).rows(connection, project):
        yield {**row, "id": row.get("resource_name")}


def _below(connection: Connection, project: ProjectDefinition, stack: Resource) -> list[Row]:
    """Return the stacks that are nested in a stack, at any depth."""
    rows = list(stacks_of(nested=True).rows(connection, project))
    below: list[Row] = []
    seen, parents = {stack.id}, {stack.id}
    while parents:
        level = [row for row in rows if row.get("parent") in parents and row["id"] not in seen]
        below += level
        parents = {str(row["id"]) for row in level}
        seen |= parents
    return below
