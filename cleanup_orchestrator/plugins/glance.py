"""What the plugins of several services ask Glance: lists of images, of any project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins import exceptions
from cleanup_orchestrator.plugins.values import ProjectDefinition, Row
from cleanup_orchestrator.plugins.verdicts import Blocker, blocker

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Glance's default page is 25; 1000 is ``api_limit_max``, to which it reduces a larger limit.
PAGE = 1000


def list_pages(connection: Connection, path: str, key: str, query: Mapping[str, Any]) -> Iterator[Row]:
    """Yield every row of a collection.

    Only the marker is taken from Glance's next link, so that the filters are in every request. The SDK is not used for
    three reasons. With a limit it asks for one page too many, by a marker that may be deleted by then (400). It filters
    tasks by owner only in the client. It creates 170 attributes for every image.
    """
    marker: dict[str, str] = {}
    while True:
        response = connection.image.get(path, params={**query, "limit": PAGE, **marker})
        exceptions.raise_from_response(response)
        try:
            body = response.json()
        except ValueError as error:
            raise BadAnswer(f"GET {path} answered no JSON") from error
        if not isinstance(body, Mapping) or not isinstance(body.get(key), list):
            raise BadAnswer(f"GET {path} answered without {key!r}")
        yield from body[key]
        if not body.get("next"):
            return
        following = parse_qs(urlsplit(str(body["next"])).query).get("marker")
        if not following or {"marker": following[0]} == marker:
            raise BadAnswer(f"GET {path} gave a next page that leads nowhere")
        marker = {"marker": following[0]}


def foreign_images(project: ProjectDefinition, rows: Iterable[Row]) -> Iterator[Blocker]:
    """Yield those of the images that are other projects', as blockers."""
    for row in rows:
        if row.get("owner") != project.id:
            yield blocker("image.image", row["id"], row.get("owner"), row.get("name"))


def images_with(connection: Connection, name: str, value: str) -> Iterator[Row]:
    """Yield the images of all projects with a value of a property, hidden ones included."""
    for hidden in ("false", "true"):
        for row in list_pages(connection, "/images", "images", {"visibility": "all", "os_hidden": hidden, name: value}):
            if row.get(name) == value:
                yield row
