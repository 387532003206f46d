"""Decides which resources a deletion in mode ``purge`` does not select."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.selection import Selection
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.plugins.base import LastChange, Resource, ResourceType, Row, Verdict, exceptions, pick
from cleanup_orchestrator.worker.sweep.calls import show
from cleanup_orchestrator.worker.sweep.wholes import by_parts, whole_id

if TYPE_CHECKING:
    from cleanup_orchestrator.plugins.base import Parts
    from cleanup_orchestrator.worker.sweep.context import RelatedType, SweepContext

_EPOCH, _FIRST = datetime.datetime(1970, 1, 1), datetime.datetime(2000, 1, 1)


def unselected_by(context: SweepContext) -> Callable[[Resource], str | None]:
    """Return a function that says why a resource is not selected.

    A service deletes some resources together with another one. These go with it, whatever their types, their tags and
    their names are. But none of them may be skipped or excluded. And where the selection has a time, none of them may
    be younger or changed later, or of an unknown time.

    :raises Exception: a type of parts cannot be listed. What is returned raises it if other parts cannot be
    """
    selection, type_ = context.selection, context.type
    if not selection or type_.project_setting:
        return lambda _resource: None
    if selection.skips(*context.full_name):
        return lambda _resource: "its type is skipped"
    along = _goes_along(context)
    if not context.type_selected:
        return lambda _resource: f"its type is not selected{along}"
    parts = _parts_that_stay(context)

    def unselected(resource: Resource) -> str | None:
        row = resource.data
        if lack := _barred(selection, type_, row, row, _counts_as_old(context, resource)):
            return lack
        if lack := _unmet(selection, type_, row):
            return lack + along
        return parts.get(resource.id) or parts.get("") or _contents_stay(context, resource)

    return unselected


def changed(context: SweepContext, listed: Row, current: Resource) -> Verdict | None:
    """Return a verdict on a resource that may no longer be selected, by the row read right before its delete.

    Tags, names and the time of the last change are not constant: a row without them, or with ``null``, does not prove
    that the resource is still selected. The time of creation is: if the row does not show it, what the list showed
    counts. Parts may be new.

    :raises Exception: the parts cannot be listed
    """
    selection, type_, shown = context.selection, context.type, current.data
    if not (selection.by_resource or selection.excludes) or type_.project_setting:
        return None
    lack = _barred(selection, type_, shown, listed, _counts_as_old(context, current)) or _unmet(selection, type_, shown)
    if lack and (hidden := _hidden(selection, type_, shown, listed)):
        text = f"right before its delete, its service does not show whether it still has the selected {hidden}"
        return Verdict(Reason.REFUSED, text)
    lack = lack or _contents_stay(context, current)
    return Verdict(Reason.NOT_SELECTED, lack) if lack else None


def _hidden(selection: Selection, type_: ResourceType, shown: Row, listed: Row) -> str:
    """Return what a row does not show, of what the selection compares and may change; empty: it shows all of it."""
    by = {
        "tags": type_.tags if selection.tags or selection.not_tags else "",
        "name": type_.title if selection.names or selection.not_names else "",
        "time": type_.updated.attribute if selection.updated_before and type_.updated else "",
    }
    seen = {word: path for word, path in by.items() if path and pick(listed, path) is not None}
    return next((word for word, path in seen.items() if pick(shown, path) is None), "")


def _goes_along(context: SweepContext) -> str:
    """Return with what resources are deleted although they are not selected, as text; empty: with nothing."""
    own = context.name.rpartition(".")[0]
    wholes = [
        one.name
        for one in context.related
        if one.whole and context.selection.has_type(one.name.rpartition(".")[0] or own, one.type.name)
    ]
    return f": deleted only with its {' or '.join(wholes)}" if wholes else ""


# -------------------------------------------------------------------------------------------------------- one resource
def _unmet(selection: Selection, type_: ResourceType, row: Row) -> str | None:
    """Return which criterion that a resource must meet it does not meet, unless a whole takes it along."""
    if missing := sorted(set(selection.tags) - (_tags(type_, row) or frozenset())):
        return f"it does not have the tag '{missing[0]}'"
    if not selection.names:
        return None
    if not (name := _name(type_, row)):
        return "it has no name" if name == "" else "its service does not show a name of it"
    return f"its name '{name}' is not selected" if selection.lacks_name(name) else None


def _barred(
    selection: Selection, type_: ResourceType, row: Row, listed: Row, counts_as_old: bool = False
) -> str | None:
    """Return which criterion keeps a resource, and so what contains it; ``None``: none does.

    :param listed: the row that shows the time of creation, if ``row`` does not
    :param counts_as_old: whether the time of the last change is not compared
    """
    if selection.not_tags and (why := _excluded_tag(selection, type_, row)):
        return why
    if selection.not_names and (why := _excluded_name(selection, type_, row)):
        return why
    created = created_at(type_, row) or created_at(type_, listed)
    if (before := selection.created_before) is not None:
        if created is None:
            return "its service does not say when it was created"
        if created >= before:
            return f"it was created at {utc(created)}"
    if (before := selection.updated_before) is None or counts_as_old:
        return None
    updated = _last_change(type_.updated, row, created)
    if updated is None:
        return "its service does not say when it was changed last"
    return None if updated < before else f"it was changed at {utc(updated)}"


def _excluded_tag(selection: Selection, type_: ResourceType, row: Row) -> str | None:
    """Return which tag of ``not_tags`` a resource has, or that its tags are not known."""
    tags = _tags(type_, row)
    if tags is None:
        return "its service does not show its tags, and it may have one that is not to be deleted"
    found = sorted(tags.intersection(selection.not_tags))
    return f"it has the tag '{found[0]}'" if found else None


def _excluded_name(selection: Selection, type_: ResourceType, row: Row) -> str | None:
    """Return that a resource has a name of ``not_names``, or that its name is not known."""
    name = _name(type_, row)
    if name is None:
        return "its service does not show its name, and it may be one that is not to be deleted"
    pattern = selection.excluded_name(name)
    return None if pattern is None else f"its name '{name}' matches '{pattern}'"


def _tags(type_: ResourceType, row: Row) -> frozenset[str] | None:
    """Return the tags that a row shows; ``None``: the type has no tags, or they cannot be read."""
    tags = pick(row, type_.tags) if type_.tags else None
    return frozenset(map(str, tags)) if isinstance(tags, list | tuple | set | frozenset) else None


def _has_names(type_: ResourceType) -> bool:
    """Whether resources of a type have names: where lists show the id in place of one, they have none."""
    return type_.title != type_.id


def _name(type_: ResourceType, row: Row) -> str | None:
    """Return the name by which lists show a resource, maybe empty; ``None``: it is not known."""
    name = pick(row, type_.title) if _has_names(type_) else None
    return name if isinstance(name, str) else None


def created_at(type_: ResourceType, row: Row) -> datetime.datetime | None:
    """Return when a resource was created: UTC, naive; ``None`` if its service does not say so in a known form."""
    return moment(pick(row, type_.created)) if type_.created else None


def _last_change(shown_by: LastChange | None, row: Row, created: datetime.datetime | None) -> datetime.datetime | None:
    """Return when a resource or part was changed last: UTC, naive; ``None``: not known.

    :param created: when it was created, which counts where the service shows no time until the first change
    """
    if shown_by is None:
        return None
    value = pick(row, shown_by.attribute)
    if value is None:
        return created if shown_by.null_until_changed and shown_by.attribute in row else None
    found = moment(value)
    return max(found, created or found) if found is not None else None


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


def _counts_as_old(context: SweepContext, resource: Resource) -> bool:
    """Whether what changed a resource since it was selected was this deletion, so that it stays selected."""
    return resource.id in context.selected_before


# ------------------------------------------------------------------------------------ what is deleted with a resource
def _with_it(name: str) -> str:
    return f"its {name}, which would be deleted with it,"


def _parts_that_stay(context: SweepContext) -> Mapping[str, str]:
    """Return why wholes are not selected: the ID of each with a part that must stay; empty: any whole may have it."""
    selection = context.selection
    if not (selection.by_time or selection.excludes):
        return {}
    own = context.full_name[0]

    def matters(related: RelatedType) -> bool:
        tagged = bool(selection.not_tags and related.type.tags)
        named = bool(selection.not_names) and _has_names(related.type)
        return selection.by_time or tagged or named or skipped(related)

    def skipped(related: RelatedType) -> bool:
        return selection.skips(related.name.rpartition(".")[0] or own, related.type.name)

    def why(related: RelatedType, part: Resource) -> str | None:
        said = _with_it(f"{related.name} {part.id}")
        if skipped(related):
            return f"{said} is of a skipped type"
        old = whole_id(part, related.attribute) in context.selected_before
        return _part_stays(selection, related.type, part.data, said, old)

    return by_parts(context, "whether its {} must stay", why, matters)


def _part_stays(
    selection: Selection, type_: ResourceType, row: Row, said: str, counts_as_old: bool = False
) -> str | None:
    """Return that a part must stay, by its tags, its name or its times; ``None``: it need not.

    A type without tags has no excluded tag, and a type without names no excluded name.

    :param said: the part in words, as the subject of a sentence
    :param counts_as_old: whether only this deletion may have changed the part, if it is old
    """
    if selection.not_tags and type_.tags and (lack := _excluded_tag(selection, type_, row)):
        return f"{said} must stay: {lack}"
    if selection.not_names and _has_names(type_) and (lack := _excluded_name(selection, type_, row)):
        return f"{said} must stay: {lack}"
    created = created_at(type_, row)
    updated = created if created and counts_as_old else _last_change(type_.updated, row, created)
    return _too_young(said, created, selection.created_before) or _too_young(
        said, updated, selection.updated_before, changes=True
    )


def _contents_stay(context: SweepContext, whole: Resource) -> str | None:
    """Return which of what is deleted with a resource must stay, of what is no related type; ``None``: nothing must.

    :raises Exception: the parts cannot be listed
    """
    return _own_parts_stay(context, whole) or _contained_stays(context, whole)


def _own_parts_stay(context: SweepContext, whole: Resource) -> str | None:
    """Return which part of a resource, of those that are no related types, must stay; ``None``: none must."""
    selection, type_ = context.selection, context.type
    if selection.by_time and type_.parts is None:
        return "its plugin does not say whether younger parts would be deleted with it"
    for parts in type_.parts or ():
        if not (selection.by_time or (parts.type and selection.excludes)):
            continue
        for part in parts.of(context.connection, context.project, whole):
            row: Row = part if isinstance(part, Mapping) else {}
            said = _with_it(f"{parts.name} {row['id']}" if row.get("id") else parts.name)
            if why := _excluded_part(context, parts, row, said) or _young_part(context, parts, row, whole, said):
                return why
    return None


def _excluded_part(context: SweepContext, parts: Parts, row: Row, said: str) -> str | None:
    """Return that a part is of a skipped type, or is excluded by its tags or its name."""
    selection, (service, _dot, name) = context.selection, parts.type.rpartition(".")
    if not name or not selection.excludes:
        return None
    if selection.skips(service, name):
        return f"{said} is of a skipped type"
    if not (selection.not_tags or selection.not_names):
        return None
    other = context.find_type(parts.type)
    if other is None:
        return f"{said} may have a tag or a name that is not to be deleted: no plugin declares {parts.type}"
    excluding = Selection(not_tags=selection.not_tags, not_names=selection.not_names)
    return _part_stays(excluding, other.type, row, said)


def _young_part(context: SweepContext, parts: Parts, row: Row, whole: Resource, said: str) -> str | None:
    """Return that a part may be too young, or may have been changed too late; ``None``: neither."""
    selection = context.selection
    changed_at = moment(pick(whole.data, parts.changed)) if parts.changed else None
    created = moment(pick(row, parts.created)) if parts.created else None
    if why := _too_young(said, created, selection.created_before, changed_at):
        return why
    counts_as_old = _counts_as_old(context, whole)
    updated = created if created and counts_as_old else _last_change(parts.updated, row, created)
    if updated is None and parts.changed and counts_as_old:
        return None
    return _too_young(said, updated, selection.updated_before, changed_at, changes=True)


def _too_young(
    said: str,
    at: datetime.datetime | None,
    before: datetime.datetime | None,
    changed_at: datetime.datetime | None = None,
    changes: bool = False,
) -> str | None:
    """Return that a part may be too young; ``None``: it is not.

    :param said: the part in words, as the subject of a sentence
    :param at: when it was created, or changed last; ``None``: unknown
    :param before: the time before which that must have been; ``None``: at any time
    :param changed_at: when its whole was changed last, as far as each new or changed part changes it
    :param changes: whether ``at`` is the time of its last change
    """
    if before is None:
        return None
    was = "changed" if changes else "created"
    if at is not None:
        return None if at < before else f"{said} was {was} at {utc(at)}"
    if changed_at is None:
        return f"its service does not say when {said} was {was}{' last' if changes else ''}"
    return None if changed_at < before else f"{said} may be as young as the last change at {utc(changed_at)}"


def _contained_stays(context: SweepContext, whole: Resource) -> str | None:
    """Return which resource of another type that is deleted with a whole must stay; see ``Composition.contains``."""
    contains, selection = context.type.composition.contains, context.selection
    if contains is None or not selection.excludes:
        return None
    for name, id_ in dict.fromkeys(contains(context.connection, context.project, whole)):
        service, _dot, own = name.rpartition(".")
        said = f"it contains {name.rstrip('.')} {id_}" if name else f"it contains what is not known here ({id_})"
        if selection.skip and (not service or selection.skips(service, own)):
            return f"{said}, which is of a skipped type" if own else f"{said}, which may be of a skipped type"
        if (selection.not_tags or selection.not_names) and (why := _contained_excluded(context, name, id_)):
            return f"{said}: {why}"
    return None


def _contained_excluded(context: SweepContext, name: str, id_: str) -> str | None:
    """Return which tag or name excludes a contained resource, or that these cannot be read; ``None``: none does."""
    selection, other = context.selection, context.find_type(name)
    if other is None:
        return "whether it has a tag or a name that is not to be deleted is not known"
    type_ = other.type
    if not ((selection.not_tags and type_.tags) or (selection.not_names and _has_names(type_))):
        return None
    if type_.show is None:
        return "its tags and its name cannot be read"
    try:
        shown = show(type_, other.connection, other.project, Resource(id_, "", other.project.id))
    except (exceptions.NotFoundException, exceptions.BadRequestException):  # it is gone, or no id of this type
        return None
    if shown.owner != other.project.id:
        return None
    excluding = Selection(not_tags=selection.not_tags, not_names=selection.not_names)
    return _part_stays(excluding, type_, shown.data, "it")
