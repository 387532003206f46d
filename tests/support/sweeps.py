"""Sweeps of one resource type, with the fields of their context and their options as keyword arguments."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from openstack.connection import Connection

from cleanup_orchestrator.core.step import StepResult
from cleanup_orchestrator.core.storable import Ids
from cleanup_orchestrator.plugins.base import OneByOne, ProjectDefinition, Resource, ResourceType, Use, Verdict
from cleanup_orchestrator.worker.sweep import deleting, listing, stopping, uses
from cleanup_orchestrator.worker.sweep.context import SweepContext

_CONTEXT = {field.name for field in dataclasses.fields(SweepContext)}


def _split(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of the context, and all other arguments."""
    return (
        {name: value for name, value in values.items() if name in _CONTEXT},
        {name: value for name, value in values.items() if name not in _CONTEXT},
    )


def inventory(
    type_: ResourceType, connection: Connection, project: ProjectDefinition, foresee: bool = False, **values: Any
) -> StepResult:
    """Return the inventory of a type.

    :param foresee: whether it says what a cascade would leave because of other projects, as in a dry run
    """
    context, more = _split(values)
    sweep = SweepContext(type_, connection, project, **context)
    if foresee:
        more["remark"] = uses.may_refuse(sweep)
    return listing.inventory(sweep, find_users=functools.partial(uses.foreseen, sweep) if foresee else None, **more)


def use(check: Callable[..., Verdict | None], *by: str) -> tuple[Use]:
    """Return the one use of a type that a check of single resources finds."""
    return (Use(by or ("other.thing",), "harms it", OneByOne(check)),)


def foreseen(
    type_: ResourceType, connection: Connection, project: ProjectDefinition, resource: Resource
) -> Verdict | None:
    """Return what a plan says about the use of a resource by other projects."""
    return uses.foreseen(SweepContext(type_, connection, project), [resource]).get(resource.id)


def before_delete(
    type_: ResourceType, connection: Connection, project: ProjectDefinition, resource: Resource, **context: Any
) -> Verdict | None:
    """Return why a resource is not deleted because it is used."""
    return uses.before_delete(SweepContext(type_, connection, project, **context), [resource]).get(resource.id)


def delete(type_: ResourceType, connection: Connection, project: ProjectDefinition, **values: Any) -> StepResult:
    """Delete what the project owns of a type."""
    context, more = _split(values)
    more |= {name: Ids(more[name]) for name in ("stuck", "announced") if name in more}
    return deleting.delete(SweepContext(type_, connection, project, **context), deleting.DeleteOptions(**more))


def halt(
    type_: ResourceType,
    connection: Connection,
    project: ProjectDefinition,
    record: Callable[[Resource], None],
    **context: Any,
) -> StepResult:
    """Stop what runs of the project of a type."""
    return stopping.halt(SweepContext(type_, connection, project, **context), record)


def start(type_: ResourceType, connection: Connection, project: ProjectDefinition, id_: str) -> str:
    """Start one resource that was stopped."""
    return stopping.start(SweepContext(type_, connection, project), id_)
