"""Quotas that a service shows for every project, whether the project has a row of its own or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins.calls import Rest
from cleanup_orchestrator.plugins.contract import ResourceType
from cleanup_orchestrator.plugins.values import ProjectDefinition, Row

if TYPE_CHECKING:
    from openstack.connection import Connection


def quota_limits(call: Rest, connection: Connection, project: ProjectDefinition, limit: str) -> dict[str, Any]:
    """Return the limits that a call shows.

    :param limit: the name of a limit that each answer has
    :raises BadAnswer: the answer has no limits
    """
    body = call.call(connection, project)
    limits = body.get(call.key) if call.key and isinstance(body, Mapping) else body
    if not isinstance(limits, Mapping) or limit not in limits:
        raise BadAnswer(f"{call!r} answered no quotas: there is no {limit!r}")
    return {name: value for name, value in limits.items() if name != "id"}


def quota_type(
    own: Rest, default: Rest, limit: str, *, name: str = "quota", of: str = "", **declared: Any
) -> ResourceType:
    """Return the type of the quota of a project. A quota that differs from the default counts as one.

    :param own: shows the limits of the project
    :param default: shows the limits of a project without a row
    :param limit: the name of a limit that each answer has
    :param of: what it limits, for people: ``containers``
    :param declared: see :class:`ResourceType`
    """
    title = name.replace("_", " ") + (f" of {of}" if of else "")

    def quota(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        """Yield the project's quota if it differs from the default. No call shows whether there is a row."""
        mine, others = (quota_limits(call, connection, project, limit) for call in (own, default))
        if mine != others:
            yield {"id": project.id, "name": title, "project_id": project.id}

    return ResourceType(
        name=name,
        list=quota,
        why_no_show="it is addressed by the project's id",
        used_by=(),
        project_setting=True,
        **declared,
    )
