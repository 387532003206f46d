"""Rules for ``ResourceType.needed_by`` that several plugins declare: which resources another type's leftovers need."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins import exceptions
from cleanup_orchestrator.plugins.calls import Rest
from cleanup_orchestrator.plugins.contract import NeededBy, Needs
from cleanup_orchestrator.plugins.values import ProjectDefinition, Resource, Row

if TYPE_CHECKING:
    from openstack.connection import Connection


def refused_in_use(_connection: Connection, _project: ProjectDefinition, _left: Collection[str]) -> Needs:
    """Name no resource: the service itself refuses to delete one that a leftover uses."""
    return lambda _resource: None


def linked(show: Rest | None = None) -> NeededBy:
    """Return a rule by which a leftover needs the resources whose rows name it, and those that it names itself.

    Every place in the two descriptions counts, as the services name resources in many ways: as an id, in a list, in a
    URL. A resource that is named without being used stays a little longer.

    :param show: reads the description of a leftover; ``None``: the rows of the resources name each leftover
    """

    def rule(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
        shown = {id_: {} if show is None else show_leftover(show, connection, project, id_) for id_ in left}
        said = [(id_, _plain(id_), None if row is None else _plain(row)) for id_, row in shown.items()]

        def needs(resource: Resource) -> str | None:
            row, own = _plain(resource.data), _plain(resource.id)
            return next((id_ for id_, plain, text in said if text is None or plain in row or own in text), None)

        return needs

    return rule


def mentions(rows: Iterable[Row]) -> Callable[[Resource], bool]:
    """Return a function that says whether rows name a resource by its id, in any place."""
    text = _plain(list(rows))
    return lambda resource: _plain(resource.id) in text


def show_leftover(show: Rest, connection: Connection, project: ProjectDefinition, id_: str) -> Row | None:
    """Return the description of a leftover; ``None``: its service does not know it, so that it may need anything.

    Nothing was about to delete a leftover of which a rule is asked. So the service may be mistaken, and the next
    listing of its type decides.
    """
    try:
        return show.row(connection, project, Resource(id_, "", None))
    except exceptions.NotFoundException:
        return None


def _plain(value: object) -> str:
    """Return a value as text to search in; hyphens and case of an id do not matter."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text.replace("-", "").lower()
