"""Lists the parts of the swept resources: what a service deletes together with another resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import Resource, pick
from cleanup_orchestrator.worker.sweep.calls import list_resources
from cleanup_orchestrator.worker.sweep.context import RelatedType

if TYPE_CHECKING:
    from openstack.connection import Connection


def own_parts(related: RelatedType, connection: Connection) -> list[Resource]:
    """Return the project's resources of a related type, without those that would not be deleted."""
    type_, project = related.type, related.project
    own = (one for one in list_resources(type_, connection, project) if one.owner == project.id)
    return [resource for resource in own if not any(rule(resource, project) for rule in type_.keep)]


def whole_id(part: Resource, attribute: str) -> str:
    """Return the id of the whole that a part names; empty if it names none."""
    return str(pick(part.data, attribute) or "") if attribute else ""
