"""Mistral: lists, and how a resource is read again where Mistral cannot address it by its id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    BadAnswer,
    Collection,
    Paging,
    ProjectDefinition,
    Resource,
    Rest,
    Row,
    exceptions,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

TYPE = "workflow"

#: Rows of a page. Mistral shortens a longer page to its option ``max_limit``, which has the same default.
LIMIT = 1000

OWN = {"project_id": "{project_id}"}
ALL = {"all_projects": "true"}


#: The attributes that each list shows.
_EACH = ("id", "project_id", "created_at", "updated_at")


def rows_of(body: Any, collection: str) -> list[Row]:
    """Return the rows of a page.

    :raises BadAnswer: there is no list of rows
    """
    rows = body.get(collection) if isinstance(body, dict) else None
    if not isinstance(rows, list):
        raise BadAnswer(f"GET /{collection} answered without {collection!r}")
    return rows


def pages(collection: str, *fields: str) -> Collection:
    """Return a collection whose pages begin after a marker.

    :param fields: the attributes to list besides id, owner and times
    """
    return Collection(
        TYPE,
        f"/{collection}",
        own_query={**ALL, **OWN},
        all_query=ALL,
        query={"fields": ",".join((*_EACH, *fields))},
        paging=Paging.MARKER,
        limit=LIMIT,
    )


def by_time(collection: str, *fields: str, **query: str) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of a collection whose marker Mistral does not find.

    For these collections Mistral looks for the marker, which is an id, by name, or only in the default namespace. It
    answers 404 then. So each page is asked for by the time of the last row, and begins with rows of the page before.

    :param fields: the attributes to list besides id, owner and times
    """
    names = ",".join((*_EACH, *fields))

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        seen: set[str] = set()
        since: dict[str, str] = {}
        while True:
            page = Rest(TYPE, f"/{collection}", query={**query, "fields": names, "limit": LIMIT, **since})
            body = page.call(connection, project)
            rows = rows_of(body, collection)
            new = [row for row in rows if row["id"] not in seen]
            seen.update(row["id"] for row in new)
            yield from new
            if not body.get("next"):  # of a full page alone
                return
            if not new or not rows[-1].get("created_at"):
                raise BadAnswer(f"GET /{collection}: a whole page of rows has the same time, so that no page follows")
            since = {"created_at": f"gte:{rows[-1]['created_at']}"}

    return listing


def namesakes(
    connection: Connection, project: ProjectDefinition, resource: Resource, collection: str, *fields: str
) -> list[Row]:
    """Return the rows of all projects that Mistral finds by the name, and the namespace, of a resource.

    Mistral compares the names, and not this function: on MariaDB neither the case of letters nor accents count.

    :param fields: the attributes to read besides id, owner, times, name and scope
    :raises NotFoundException: the resource is not among them
    """
    query = {"name": "eq:{row[name]}", "fields": ",".join((*_EACH, "name", "scope", *fields))}
    if "namespace" in resource.data:
        query["namespace"] = "{row[namespace]}"  # of actions, Mistral takes the value literally
    body = Rest(TYPE, f"/{collection}", query=query).call(connection, project, resource)
    rows = rows_of(body, collection)
    if body.get("next"):
        raise BadAnswer(f"GET /{collection} answered with a part of those that have the name {resource.name!r}")
    if resource.id not in {row["id"] for row in rows}:
        raise exceptions.failure(404, f"{resource.id} is no longer in the list")
    return rows


def show_named(collection: str, *fields: str) -> Callable[[Connection, ProjectDefinition, Resource], Row]:
    """Return a hook that reads a resource again, from the list of those with its name.

    Mistral shows such a resource by name alone, and may show another project's with the same name.
    """

    def show(connection: Connection, project: ProjectDefinition, resource: Resource) -> Row:
        rows = namesakes(connection, project, resource, collection, *fields)
        return next(row for row in rows if row["id"] == resource.id)

    return show
