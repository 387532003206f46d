"""Placement: a probe; allocations are deleted with their servers.

Placement has no list of a project's consumers. To find them takes the allocations of every host of the cloud, and one
call for each consumer. But one call returns the sum. If the servers are gone and the sum is not zero, capacity has
leaked: servers disappeared while their host was down, or a migration failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NoReturn

from cleanup_orchestrator.plugins.base import (
    BadAnswer,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Row,
    Service,
    Verdict,
    exceptions,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

#: The first microversion that returns the sums of a project.
_USAGES = "1.9"


def _usages(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the sums of the project's allocations, if any is not zero."""
    response = connection.placement.get("/usages", params={"project_id": project.id}, microversion=_USAGES)
    exceptions.raise_from_response(response)
    usages = response.json().get("usages")
    if not isinstance(usages, Mapping):
        raise BadAnswer("GET /usages answered without 'usages'")
    if any(usages.values()):
        named = ", ".join(f"{name} {amount}" for name, amount in sorted(usages.items()))
        yield {"id": project.id, "name": named, "project_id": project.id}


def _refuse_delete(connection: Connection, project: ProjectDefinition, usage: Resource) -> NoReturn:
    """Delete nothing: an operator has to find the consumers of the allocations."""
    raise Refused(
        Verdict(
            Reason.REFUSED,
            "allocations of servers that are gone; 'nova-manage placement audit --verbose' finds them, with --delete "
            "it removes them",
        )
    )


SERVICE = Service(
    service_type="placement",
    contract_version=2,
    roles="admin on one project",
    types=(
        ResourceType(
            name="usage",
            used_by=(),
            list=_usages,
            all_projects="Placement sums up one project at a time",
            delete=_refuse_delete,
            why_no_show="nothing is deleted",
            after=("compute.server",),
            source="GET /usages?project_id=X, microversion 1.9; placement handlers/usage.py",
            note="One row with the sums. It counts as left only when the servers are gone: Nova removes their "
            "allocations a moment later.",
        ),
    ),
)
