"""Decides what a sweep must not delete: protected, unplanned and unselected resources."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import Resource
from cleanup_orchestrator.worker.sweep.calls import list_resources
from cleanup_orchestrator.worker.sweep.context import RelatedType, SweepContext
from cleanup_orchestrator.worker.sweep.keep_marks import SET_BY, KeepMarks
from cleanup_orchestrator.worker.sweep.parts import own_parts, whole_id
from cleanup_orchestrator.worker.sweep.selecting import unselected_by

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Returns why a resource must not be deleted; ``None`` if nothing forbids it.
Forbids = Callable[[Resource], str | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Exclusions:
    """The rules of one sweep. Related types are listed once, when the rules are made."""

    protected: Forbids
    unplanned: Forbids
    unselected: Forbids

    @classmethod
    def of(cls, context: SweepContext) -> Exclusions:
        """Return the rules that apply to a sweep.

        :raises Exception: a related type cannot be listed: an unknown state is not "unmarked", "planned" or "selected"
        """
        return cls(protected_by(context), unplanned_by(context), unselected_by(context))


def protected_by(context: SweepContext) -> Forbids:
    """Return a function that says why a resource is protected.

    Reasons are the rules of its type, its keep mark, and the keep mark of a related resource. Deleting a resource also
    deletes its parts, so a mark on a part protects the whole. A part is not removed from a marked whole either.

    :raises Exception: a related type cannot be listed
    """
    type_, project, marks = context.type, context.project, context.keep_marks
    by_part: dict[str, str] = {}  # id of a whole with a marked part; empty: any whole may have it
    wholes: list[tuple[str, dict[str, str]]] = []  # attribute with the whole's id, and the marked wholes
    for one in context.related:
        if not marks.may_be_on(one.type):
            continue
        if one.type.token is not type_.token:
            by_part[""] = f"keep marks on its {one.name} cannot be read with the same token"
            continue
        marked = _marked(one, context.connection, marks)
        if one.whole:
            wholes.append((one.attribute, {r.id: f"its {one.name} {r.id} is kept: {why}" for r, why in marked}))
            continue
        for resource, why in marked:
            text = f"its {one.name} {resource.id}, which would be deleted with it, is kept: {why}"
            by_part[whole_id(resource, one.attribute)] = text

    def forbids(resource: Resource) -> str | None:
        if why := next((str(why) for why in (rule(resource, project) for rule in type_.protect) if why), None):
            return why
        if why := marks.why(type_, resource.data):
            return f"{why}: {SET_BY}"
        for attribute, kept in wholes:
            id_ = whole_id(resource, attribute)
            if id_ in kept or (kept and not id_):
                return kept.get(id_) or next(iter(kept.values()))
        return by_part.get(resource.id) or by_part.get("")

    return forbids


def unplanned_by(context: SweepContext) -> Forbids:
    """Return a function that says why a resource is not in the deletion's plan.

    A resource is unplanned if it is not in the plan, or if a part that would be deleted with it is not.

    :raises Exception: a type of parts cannot be listed
    """
    planned = context.planned
    if planned is None:
        return lambda _resource: None
    by_part: dict[str, str] = {}  # id of a whole with an unplanned part; empty: any whole may have it
    for one in context.related:
        if one.whole or one.type.project_setting:
            continue
        if one.type.token is not context.type.token:
            by_part[""] = f"whether its {one.name} is in the plan cannot be read with the same token"
            continue
        for resource in own_parts(one, context.connection):
            if resource.id in (one.planned or ()):
                continue
            text = f"its {one.name} {resource.id}, which would be deleted with it, is not in the plan"
            by_part[whole_id(resource, one.attribute)] = text

    def unplanned(resource: Resource) -> str | None:
        if resource.id not in planned:
            return "it is not in the plan: it was created later, or was not to be deleted when the plan was made"
        return by_part.get(resource.id) or by_part.get("")

    return unplanned


def _marked(related: RelatedType, connection: Connection, marks: KeepMarks) -> list[tuple[Resource, str]]:
    """Return a related type's resources with a keep mark, of any owner, and why."""
    type_ = related.type
    resources = list_resources(type_, connection, related.project)
    return [(resource, why) for resource in resources if (why := marks.why(type_, resource.data))]
