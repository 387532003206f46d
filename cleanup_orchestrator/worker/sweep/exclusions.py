"""Decides what a sweep must not delete: what is kept, unselected, of an unknown owner, protected, or unplanned."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_config import cfg, types

from cleanup_orchestrator.cloud.projects import letters
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins.base import ROW, ProjectDefinition, Resource, ResourceType, Row, Verdict, pick
from cleanup_orchestrator.worker.sweep.calls import list_resources
from cleanup_orchestrator.worker.sweep.selecting import unselected_by
from cleanup_orchestrator.worker.sweep.wholes import by_parts, whole_id

if TYPE_CHECKING:
    from cleanup_orchestrator.worker.sweep.context import RelatedType, SweepContext
    from cleanup_orchestrator.worker.sweep.item import Item

#: Who may have set a mark, and how to clear it, for the report.
SET_BY = (
    "any member of the project may set one, and its service does not record who did; an admin can remove it, or the "
    "operator can take it off the list ([protection] keep_tags, keep_properties)"
)

OPTS = {
    "protection": [
        cfg.ListOpt(
            "keep_tags",
            default=[],
            mutable=True,
            help="Tags that keep a resource: a resource with one of them is never deleted, and is reported as "
            "protected. Upper and lower case make no difference. Any member of a project may set a tag: with each tag "
            "in this list, the project's members can block its deletion, also a cascade that an operator requests.",
        ),
        cfg.ListOpt(
            "keep_properties",
            item_type=types.String(regex=r"^\s*[^=\s][^=]*(=.*)?$"),
            default=[],
            mutable=True,
            help="Properties (metadata) that keep a resource in the same way: 'key', whatever its value, or "
            "'key=value'. Members of the project can block its deletion with these, too, unless the service lets only "
            "admins set the property (Glance: property_protection_file).",
        ),
    ]
}


@dataclasses.dataclass(frozen=True, slots=True)
class KeepMarks:
    """The configured keep marks, in lower case for comparison."""

    tags: frozenset[str] = frozenset()
    properties: tuple[tuple[str, str | None], ...] = ()  #: (key, value); ``None``: any value

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> KeepMarks:
        """Read ``[protection]``."""
        tags = frozenset(tag.strip().casefold() for tag in conf.protection.keep_tags if tag.strip())
        pairs = (entry.partition("=") for entry in conf.protection.keep_properties if entry.strip())
        return cls(tags, tuple((key.strip().casefold(), _folded(value) if eq else None) for key, eq, value in pairs))

    def may_be_on(self, type_: ResourceType) -> bool:
        """Return whether resources of a type can bear any of the marks."""
        return bool((self.tags and type_.tags) or (self.properties and type_.properties))

    def why(self, type_: ResourceType, row: Row) -> str | None:
        """Return why a row is kept, with the name of the mark; ``None`` if it has none."""
        if self.tags and type_.tags:
            tags = pick(row, type_.tags)
            if not isinstance(tags, list | tuple | set | frozenset):
                return f"it does not show its {type_.tags}, and may bear a keep mark"
            if not all(isinstance(tag, str) for tag in tags):
                return f"one of its {type_.tags} is no text, and may be a keep mark"
            for tag in sorted(tags):
                if tag.strip().casefold() in self.tags:
                    return f"its tag '{tag}' is a keep mark"
        if self.properties and type_.properties:
            properties = row if type_.properties == ROW else pick(row, type_.properties)
            if not isinstance(properties, Mapping):
                return f"it does not show its {type_.properties}, and may bear a keep mark"
            for key, value in sorted(properties.items()):
                for wanted, only in self.properties:
                    if str(key).strip().casefold() == wanted and only in (None, _folded(value)):
                        return f"its property '{key}={value}' is a keep mark"
        return None


def _folded(value: Any) -> str:
    return str(value).strip().casefold()


#: Returns why a resource must not be deleted; ``None`` if nothing forbids it.
Forbids = Callable[[Resource], str | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Exclusions:
    """The filters of one sweep. Related types are listed once, when the filters are made."""

    others: Callable[[Resource], bool]  #: whether a resource is another project's
    #: Of each listed resource of the project, in this order: the first that has something to say decides.
    listed: Sequence[tuple[Reason, Forbids]]
    protected: Forbids  #: is asked again right before the delete
    unplanned: Forbids  #: of what nothing in ``listed`` excludes, and nothing else needs

    @classmethod
    def of(cls, context: SweepContext) -> Exclusions:
        """Return the filters of a sweep.

        :raises Exception: a related type cannot be listed: an unknown state is not "unmarked", "planned" or "selected"
        """
        type_, project = context.type, context.project
        protected, unplanned, unselected = protected_by(context), unplanned_by(context), unselected_by(context)

        def others(resource: Resource) -> bool:
            return resource.owner != project.id and not _stray(type_, resource, project)

        def kept(resource: Resource) -> str | None:
            if resource.owner != project.id:
                return None
            return next((str(why) for why in (rule(resource, project) for rule in type_.keep) if why), None)

        def stray(resource: Resource) -> str | None:
            return _stray(type_, resource, project) if resource.owner != project.id else None

        listed = (
            (Reason.KEPT, kept),
            (Reason.NOT_SELECTED, unselected),
            (Reason.OWNER_UNKNOWN, stray),
            (Reason.PROTECTED, protected),
        )
        return cls(others, listed, protected, unplanned)

    def apply(self, item: Item) -> bool:
        """Exclude a listed item by the first filter that forbids its delete; return whether one does."""
        for reason, forbids in self.listed:
            if why := forbids(item.resource):
                item.exclude(Verdict(reason, why))
                return True
        return False


def _stray(type_: ResourceType, resource: Resource, project: ProjectDefinition) -> str:
    """Return why a resource may be the project's, although its row does not name the project.

    Empty: the resource is another project's.
    """
    if resource.owner is None:  # a shared listing contains rows that belong to no project
        return "" if type_.unfiltered else f"its {type_.owner} is missing: protected"
    if letters(resource.owner) == letters(project.id):  # the same id in another spelling
        return f"its {type_.owner} is {resource.owner!r}, and the project's id is {project.id}: protected"
    return ""


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
        resources = list_resources(one.type, context.connection, one.project)  # of any owner
        marked = ((resource, why) for resource in resources if (why := marks.why(one.type, resource.data)))
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

    def why(related: RelatedType, part: Resource) -> str | None:
        if part.id in (related.planned or ()):
            return None
        return f"its {related.name} {part.id}, which would be deleted with it, is not in the plan"

    by_part = by_parts(context, "whether its {} is in the plan", why)

    def unplanned(resource: Resource) -> str | None:
        if resource.id not in planned:
            return "it is not in the plan: it was created later, or was not to be deleted when the plan was made"
        return by_part.get(resource.id) or by_part.get("")

    return unplanned
