"""Finds out which resources must stay because of their parts, where the parts are a type of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import Resource, pick
from cleanup_orchestrator.worker.sweep.calls import list_resources

if TYPE_CHECKING:
    from openstack.connection import Connection

    from cleanup_orchestrator.worker.sweep.context import RelatedType, SweepContext


def by_parts(
    context: SweepContext,
    question: str,
    why: Callable[[RelatedType, Resource], str | None],
    matters: Callable[[RelatedType], bool] = lambda _related: True,
) -> dict[str, str]:
    """Return why wholes must not be deleted, by the id of each with a part that forbids it; empty: any may have it.

    :param question: what cannot be read with another token; ``{}`` stands for the type of the parts
    :param why: returns why the whole of a part must not be deleted; ``None``: the part does not forbid it
    :param matters: whether a part of a type may forbid it; otherwise the type is not listed
    :raises Exception: a type of parts cannot be listed
    """
    reasons: dict[str, str] = {}
    for one in context.related:
        if one.whole or one.type.project_setting or not matters(one):
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
