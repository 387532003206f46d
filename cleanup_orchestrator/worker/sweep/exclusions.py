"""Decides what a sweep must not delete: what is kept, unselected, of an unknown owner, protected, or unplanned."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_config import cfg, types

from cleanup_orchestrator.cloud.projects import letters
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.selection import Selection
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.plugins.base import ROW, ProjectDefinition, Resource, ResourceType, Row, Verdict, pick
from cleanup_orchestrator.worker.sweep.calls import list_resources

if TYPE_CHECKING:
    from openstack.connection import Connection

    from cleanup_orchestrator.worker.sweep.context import RelatedType, SweepContext
    from cleanup_orchestrator.worker.sweep.item import Item

_EPOCH, _FIRST = datetime.datetime(1970, 1, 1), datetime.datetime(2000, 1, 1)

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

    by_part = _by_parts(context, "whether its {} is in the plan", why)

    def unplanned(resource: Resource) -> str | None:
        if resource.id not in planned:
            return "it is not in the plan: it was created later, or was not to be deleted when the plan was made"
        return by_part.get(resource.id) or by_part.get("")

    return unplanned


def _by_parts(
    context: SweepContext, question: str, why: Callable[[RelatedType, Resource], str | None]
) -> dict[str, str]:
    """Return why wholes must not be deleted, by the id of each with a part that forbids it; empty: any may have it.

    :param question: what cannot be read with another token; ``{}`` stands for the type of the parts
    :param why: returns why the whole of a part must not be deleted; ``None``: the part does not forbid it
    :raises Exception: a type of parts cannot be listed
    """
    reasons: dict[str, str] = {}
    for one in context.related:
        if one.whole or one.type.project_setting:
            continue
        if one.type.token is not context.type.token:
            reasons[""] = f"{question.format(one.name)} cannot be read with the same token"
            continue
        for part in _own_parts(one, context.connection):
            if text := why(one, part):
                reasons[whole_id(part, one.attribute)] = text
    return reasons


def _own_parts(related: RelatedType, connection: Connection) -> Iterator[Resource]:
    """Yield the project's resources of a related type, without those that would not be deleted."""
    type_, project = related.type, related.project
    own = (one for one in list_resources(type_, connection, project) if one.owner == project.id)
    return (resource for resource in own if not any(rule(resource, project) for rule in type_.keep))


def whole_id(part: Resource, attribute: str) -> str:
    """Return the id of the whole that a part names; empty if it names none."""
    return str(pick(part.data, attribute) or "") if attribute else ""


def unselected_by(context: SweepContext) -> Forbids:
    """Return a function that says why a resource is not selected.

    A service deletes some resources together with another one. These go with it, whatever their types and their tags
    are. But where the selection has an age, none of them may be younger, or of unknown age.

    :raises Exception: a type of parts cannot be listed. What is returned raises it if parts that are no type cannot be
    """
    selection, type_ = context.selection, context.type
    if not selection or type_.project_setting:
        return lambda _resource: None
    along = _goes_along(context)
    if not context.type_selected:
        return lambda _resource: f"its type is not selected{along}"
    younger = _younger_parts(context)

    def unselected(resource: Resource) -> str | None:
        row = resource.data
        tags, created = _tags(type_, row), created_at(type_, row)
        lack = _lacks(selection, tags, created)
        if lack and not tags.issuperset(selection.tags):
            lack += along
        return lack or younger.get(resource.id) or younger.get("") or _parts_lack(context, resource)

    return unselected


def _goes_along(context: SweepContext) -> str:
    """Return with what resources are deleted although they are not selected, as text; empty: with nothing."""
    own = context.name.rpartition(".")[0]
    wholes = [
        one.name
        for one in context.related
        if one.whole and context.selection.has_type(one.name.rpartition(".")[0] or own, one.type.name)
    ]
    return f": deleted only with its {' or '.join(wholes)}" if wholes else ""


def changed(context: SweepContext, listed: Row, current: Resource) -> Verdict | None:
    """Return a verdict on a resource that may no longer be selected, by the row read right before its delete.

    Tags change: a row without them, or with ``null``, does not prove that the resource still has a tag. The time of
    creation does not change: if the row does not show it, what the list showed counts. Parts may be new.

    :raises Exception: the parts cannot be listed
    """
    selection, type_, shown = context.selection, context.type, current.data
    if not selection.by_resource or type_.project_setting:
        return None
    created = created_at(type_, shown) or created_at(type_, listed)
    lack = _lacks(selection, _tags(type_, shown), created) or _parts_lack(context, current)
    if lack and selection.tags and pick(shown, type_.tags or "-") is None:
        text = "right before its delete, its service does not show whether it still has the selected tags"
        return Verdict(Reason.REFUSED, text)
    return Verdict(Reason.NOT_SELECTED, lack) if lack else None


def _lacks(selection: Selection, tags: frozenset[str], created: datetime.datetime | None) -> str | None:
    """Return which criterion of single resources a resource does not meet; ``None``: it meets them."""
    if missing := sorted(set(selection.tags) - tags):
        return f"it does not have the tag '{missing[0]}'"
    if selection.created_before is None:
        return None
    if created is None:
        return "its service does not say when it was created"
    return None if created < selection.created_before else f"it was created at {utc(created)}"


def _tags(type_: ResourceType, row: Row) -> frozenset[str]:
    """Return the tags that a row shows; none if the type has no tags."""
    tags = pick(row, type_.tags) if type_.tags else None
    return frozenset(map(str, tags)) if isinstance(tags, list | tuple | set | frozenset) else frozenset()


def created_at(type_: ResourceType, row: Row) -> datetime.datetime | None:
    """Return when a resource was created: UTC, naive; ``None`` if its service does not say so in a known form."""
    return moment(pick(row, type_.created)) if type_.created else None


def moment(value: Any) -> datetime.datetime | None:
    """Return a time of a service: text in ISO 8601, in UTC unless it says otherwise, or seconds since 1970.

    Nothing in a cloud is older than ``_FIRST``. Some services write such a time for one that they do not know.
    """
    try:
        if isinstance(value, str) and not value.isdigit():
            instant = datetime.datetime.fromisoformat(value.strip())
        elif isinstance(value, datetime.datetime):
            instant = value
        elif value and not isinstance(value, bool):
            instant = _EPOCH + datetime.timedelta(seconds=float(value))
        else:
            return None
        instant = instant.astimezone(datetime.UTC).replace(tzinfo=None) if instant.tzinfo else instant
        return instant if instant >= _FIRST else None
    except (TypeError, ValueError, OverflowError):
        return None


def _younger_parts(context: SweepContext) -> Mapping[str, str]:
    """Return why wholes are not selected: the ID of each with a part that may be too young; empty: any may have it."""
    before = context.selection.created_before
    if before is None:
        return {}

    def why(related: RelatedType, part: Resource) -> str | None:
        return _too_young(f"{related.name} {part.id}", created_at(related.type, part.data), before)

    return _by_parts(context, "when its {} was created", why)


def _parts_lack(context: SweepContext, whole: Resource) -> str | None:
    """Return which part of a resource, of those that are no types, may be too young; ``None``: none may.

    :raises Exception: the parts cannot be listed
    """
    before, type_ = context.selection.created_before, context.type
    if before is None:
        return None
    if type_.parts is None:
        return "its plugin does not say whether younger parts would be deleted with it"
    for parts in type_.parts:
        changed_at = moment(pick(whole.data, parts.changed)) if parts.changed else None
        for part in parts.of(context.connection, context.project, whole):
            row = part if isinstance(part, Mapping) else {}
            created = moment(pick(row, parts.created)) if parts.created else None
            name = f"{parts.name} {row['id']}" if row.get("id") else parts.name
            if text := _too_young(name, created, before, changed_at):
                return text
    return None


def _too_young(
    name: str,
    created: datetime.datetime | None,
    before: datetime.datetime,
    changed_at: datetime.datetime | None = None,
) -> str | None:
    """Return that a part may be too young; ``None``: it is not.

    :param name: of the part, with its ID
    :param created: when it was created; ``None``: unknown
    :param changed_at: when its whole was changed last, as far as each new part changes it
    """
    said = f"its {name}, which would be deleted with it"
    if created is not None:
        return None if created < before else f"{said}, was created at {utc(created)}"
    if changed_at is None:
        return f"its service does not say when {said}, was created"
    return None if changed_at < before else f"{said}, may be as young as the last change at {utc(changed_at)}"
