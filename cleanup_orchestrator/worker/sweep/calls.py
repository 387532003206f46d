"""Runs the calls that a resource type declares, and checks their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.errors import BadAnswer, ListChanged, classify
from cleanup_orchestrator.plugins import admin
from cleanup_orchestrator.plugins.base import (
    Action,
    ProjectDefinition,
    Resource,
    ResourceType,
    Rest,
    Row,
    Run,
    Sdk,
    to_row,
)

if TYPE_CHECKING:
    from openstack.connection import Connection


#: Rows of one list, of any owner, after which it counts as endless.
MAX_ROWS = 10_000_000

#: How often one list is read from its beginning, if a page after the first row is refused.
ATTEMPTS = 3


def list_resources(type_: ResourceType, connection: Connection, project: ProjectDefinition) -> Iterator[Resource]:
    """Yield all resources that the service lists, of any owner, page by page.

    Yields nothing if the service reports that it does not have this type.

    :raises Exception: the list call fails, or its answer is malformed, or has no end
    """
    if is_available(type_, connection, project):
        yield from list_available(type_, connection, project)


def list_available(
    type_: ResourceType, connection: Connection, project: ProjectDefinition, again: Callable[[], None] = lambda: None
) -> Iterator[Resource]:
    """Yield all resources of a type that the service has; see :func:`list_resources`.

    A page begins after a row. If that row is gone by then, Neutron and Cinder answer 404, and Nova, Neutron and Octavia
    400. That says nothing about the type, and the pages after it are missing. Then the list is read again from its
    beginning, so that rows may repeat.

    :param again: called when the list is read again
    :raises ListChanged: it had to be read again too often
    :raises BadAnswer: it has no end
    """
    message, number = "", 0
    for attempt in range(ATTEMPTS):
        if attempt:
            again()
        begun = False
        try:
            for row in _rows(type_, connection, project):
                begun, number = True, number + 1
                if number > MAX_ROWS:
                    raise BadAnswer(f"the list of {type_.name} has no end: it has more than {MAX_ROWS} rows")
                yield type_.resource(row, project)
            return
        except Exception as error:
            failure = classify(error)
            if not begun or failure.status not in (400, 404):
                raise
            message = failure.message
    raise ListChanged(f"a page of the list of {type_.name} was refused {ATTEMPTS} times, after others: {message}")


def is_available(type_: ResourceType, connection: Connection, project: ProjectDefinition) -> bool:
    """Return whether the service has this type of resources at all.

    :raises BadAnswer: the hook did not return a boolean; a forgotten ``return`` must not count as "absent"
    """
    if type_.available is None:
        return True
    available: object = type_.available(connection, project)
    if not isinstance(available, bool):
        raise BadAnswer(f"the availability of {type_.name} was answered with {type(available).__name__}, not a boolean")
    return available


def _rows(type_: ResourceType, connection: Connection, project: ProjectDefinition) -> Iterable[Row]:
    """Return the rows that the list call yields.

    :raises BadAnswer: the answer is iterable but is no list of rows; an empty one would look like an empty project
    """
    # A list that is made with a token of the project shows the project's resources whatever roles the caller has. It
    # proves nothing about the orchestrator's admin rights.
    if type_.proof is not None and type_.token is Token.ADMIN:
        admin.prove(type_.proof, connection, project)
    rows = (
        type_.list.rows(connection, project) if isinstance(type_.list, Sdk | Rest) else type_.list(connection, project)
    )
    if isinstance(rows, str | bytes | Mapping):
        raise BadAnswer(f"expected rows of {type_.name}, got {type(rows).__name__}")
    return rows


def show(type_: ResourceType, connection: Connection, project: ProjectDefinition, resource: Resource) -> Resource:
    """Return the resource as its service shows it now; the type declares ``show``."""
    action = type_.show
    assert action is not None
    if isinstance(action, Sdk | Rest):
        row = action.row(connection, project, resource)
    else:
        row = to_row(action(connection, project, resource))
    return type_.resource(row, project)


def act(action: Action, connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Run a declared call on a resource."""
    if isinstance(action, Sdk | Rest):
        action.call(connection, project, resource)
    else:
        action(connection, project, resource)


def describe(type_: ResourceType, project: ProjectDefinition, resource: Resource) -> str:
    """Return a resource's description for the report; empty if there is none."""
    return str(type_.describe(resource, project) or "") if type_.describe else ""


def run_state(type_: ResourceType, row: Row) -> Run:
    """Return whether a resource runs; the type declares ``halt``."""
    assert type_.halt is not None
    return Run(type_.halt.state(row))
