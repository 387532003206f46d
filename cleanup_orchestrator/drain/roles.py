"""The drivers without a fence: other users may change their lock, and Keystone keeps no history of it."""

from __future__ import annotations

import dataclasses

from cleanup_orchestrator.cloud.projects import Project
from cleanup_orchestrator.core import lock
from cleanup_orchestrator.drain import base
from cleanup_orchestrator.drain.base import DrainContext, Driver, Result


class ByRoles(Driver):
    """Compares the role assignments of others when the project is removed with those at the beginning of the lock.

    A role that is given and taken back in between leaves no trace in them, and neither does a project that is enabled
    and disabled again. Only Keystone's notifications tell of these: see ``engine.keystone_listener``.
    """

    def close(self, context: DrainContext) -> Result:
        """Disable the project, and see which roles others have on it."""
        result = super().close(context)
        if context.evidence:  # of a full drain
            return result
        return dataclasses.replace(result, evidence=lock.evidence(context.user_id, roles_of_others(context)))

    def held_until_removed(self, context: DrainContext, project: Project) -> bool:
        """Return whether the project is disabled, and others have the roles that they had."""
        if project.enabled:
            return False
        if not context.evidence:  # a version without evidence began this deletion
            return True
        return context.evidence == lock.evidence(context.user_id, roles_of_others(context))


def roles_of_others(context: DrainContext) -> set[tuple[str, ...]]:
    """Return the direct and the effective roles on the project, except the orchestrator's and the janitor's."""
    own = {context.user_id, context.janitor_id()}
    roles: set[tuple[str, ...]] = set()
    for effective in (False, True):
        for row in context.projects.assignments(context.project_id, effective):
            actor, actor_id, role_id = base.grant_of(row)
            below = not effective and base.INHERITED in row.get("scope", {})  # only on the projects below this one
            if actor_id not in own and not below:
                roles.add((str(effective), actor, actor_id, role_id))
    return roles
