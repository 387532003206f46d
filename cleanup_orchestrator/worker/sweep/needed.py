"""Finds out which resources of a type the leftovers of other types need; see ``ResourceType.needed_by``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins.base import NeededBy, ProjectDefinition, Resource, Verdict, blocker
from cleanup_orchestrator.worker.sweep.listing import FindsUsers

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Leftovers of one type that a rule is asked about at most: it may make a call for each.
MOST = 200


def needed_by(
    rules: Mapping[str, NeededBy],
    connection: Connection,
    project: ProjectDefinition,
    left: Mapping[str, Collection[str] | None],
) -> FindsUsers:
    """Return a function that says which leftover needs a resource.

    :param rules: the rules of the swept type, by the full name of the other type
    :param left: the ids of the leftovers, by the full name of their type; ``None``: they are not known, so that each
        resource counts as needed
    :raises Exception: a rule failed: what is needed is not known
    """
    found = []
    for name, ids in left.items():
        if ids is None:
            verdict = Verdict(Reason.IN_USE, f"{name} may need it: its leftovers are not known")
            return lambda resources: {resource.id: verdict for resource in resources}
        if ids:
            found.append((name, rules[name](connection, project, ids)))

    def user(resource: Resource) -> Verdict | None:
        for name, needs in found:
            if id_ := needs(resource):
                text = f"{name} {id_} may need it, and is still there"
                return Verdict(Reason.IN_USE, text, (blocker(name, id_, project.id),))
        return None

    def users(resources: Sequence[Resource]) -> dict[str, Verdict]:
        return {resource.id: verdict for resource in resources if (verdict := user(resource))}

    return users
