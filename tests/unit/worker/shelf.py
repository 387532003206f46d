"""A service with resources of one type, for sweeps with a selection."""

import dataclasses
import datetime

from cleanup_orchestrator.core.selection import Selection
from cleanup_orchestrator.plugins.base import ProjectDefinition, ResourceType, exceptions
from cleanup_orchestrator.worker.sweep.context import RelatedType
from tests.support import sweeps

Missing = exceptions.NotFoundException
US = ProjectDefinition("us", "Us", "default", "R1")
NAME = "network.thing"
BEFORE = datetime.datetime(2026, 11, 1)
OLD, YOUNG = "2026-10-31T23:59:59Z", "2026-11-01T00:00:00Z"
OLDER = Selection(created_before=BEFORE)
TAGGED = Selection(tags=("temporary",))


class Shelf:
    """A service with resources of one type."""

    def __init__(self, **rows):
        self.rows = {id_: {"id": id_, "project_id": "us", "name": id_, **row} for id_, row in rows.items()}
        self.shown, self.deletes, self.stops = {}, [], []

    def list(self, _connection, _project):
        return [dict(row) for row in self.rows.values()]

    def show(self, _connection, _project, resource):
        return self.shown.get(resource.id, self.rows[resource.id])

    def delete(self, _connection, _project, resource):
        self.deletes.append(resource.id)
        del self.rows[resource.id]

    def type(self, **values):
        given = {"show": self.show, "tags": "tags", "created": "created_at", "parts": ()} | values
        return ResourceType("thing", self.list, self.delete, **given)


#: Fields of the type that a test may set.
TYPE = (
    *("tags", "title", "created", "updated", "parts", "composition"),
    *("refers_to", "protect", "show", "why_no_show"),
)


def swept(shelf, selection, **values):
    own = {key: values.pop(key) for key in TYPE if key in values}
    return sweeps.delete(shelf.type(**own), None, US, name=NAME, selection=selection, **values)


def reasons(result):
    return {one.id: str(one.reason) for one in result.leftovers}


def part(shelf, attribute="whole", **values):
    type_ = dataclasses.replace(shelf.type(), **values)
    return RelatedType("part", type_, US, whole=False, attribute=attribute)
