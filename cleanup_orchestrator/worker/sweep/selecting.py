"""Decides which resources of a type are in the selection of a deletion that keeps its project."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.selection import Selection
from cleanup_orchestrator.plugins.base import Resource, ResourceType, Row, Verdict, pick
from cleanup_orchestrator.worker.sweep.context import SweepContext
from cleanup_orchestrator.worker.sweep.parts import own_parts, whole_id

_EPOCH, _FIRST = datetime.datetime(1970, 1, 1), datetime.datetime(2000, 1, 1)

#: Returns why a resource is not selected; ``None`` if it is.
Unselected = Callable[[Resource], "str | None"]


def unselected_by(context: SweepContext) -> Unselected:
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
    """Return a verdict on a resource that may not be selected any more, by the row read right before its delete.

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
    return None if created < selection.created_before else f"it was created at {_time(created)}"


def _tags(type_: ResourceType, row: Row) -> frozenset[str]:
    """Return the tags that a row shows; none if the type has no tags."""
    found = pick(row, type_.tags) if type_.tags else None
    return frozenset(map(str, found)) if isinstance(found, list | tuple | set | frozenset) else frozenset()


def _time(at: datetime.datetime) -> str:
    return at.isoformat(timespec="seconds") + "Z"


def created_at(type_: ResourceType, row: Row) -> datetime.datetime | None:
    """Return when a resource was created: UTC, naive; ``None`` if its service does not say so in a known form."""
    return moment(pick(row, type_.created)) if type_.created else None


def moment(value: Any) -> datetime.datetime | None:
    """Return a time of a service: text in ISO 8601, in UTC unless it says otherwise, or seconds since 1970.

    Nothing in a cloud is older than ``_FIRST``. Some services write such a time for one that they do not know.
    """
    try:
        if isinstance(value, str) and not value.isdigit():
            found = datetime.datetime.fromisoformat(value.strip())
        elif isinstance(value, datetime.datetime):
            found = value
        elif value and not isinstance(value, bool):
            found = _EPOCH + datetime.timedelta(seconds=float(value))
        else:
            return None
        found = found.astimezone(datetime.UTC).replace(tzinfo=None) if found.tzinfo else found
        return found if found >= _FIRST else None
    except (TypeError, ValueError, OverflowError):
        return None


def _younger_parts(context: SweepContext) -> Mapping[str, str]:
    """Return why wholes are not selected: the ID of each with a part that may be too young; empty: any may have it."""
    before = context.selection.created_before
    if before is None:
        return {}
    found: dict[str, str] = {}
    for one in context.related:
        if one.whole or one.type.project_setting:
            continue
        if one.type.token is not context.type.token:
            found[""] = f"when its {one.name} was created cannot be read with the same token"
            continue
        for part in own_parts(one, context.connection):
            if text := _too_young(f"{one.name} {part.id}", created_at(one.type, part.data), before):
                found[whole_id(part, one.attribute)] = text
    return found


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
        return None if created < before else f"{said}, was created at {_time(created)}"
    if changed_at is None:
        return f"its service does not say when {said}, was created"
    return None if changed_at < before else f"{said}, may be as young as the last change at {_time(changed_at)}"
