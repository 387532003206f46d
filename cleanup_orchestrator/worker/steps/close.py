"""Disables the project: Keystone then gives no user a token for it."""

from __future__ import annotations

from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.core.findings import ProjectLocked, ProjectReclosed, ProjectReopened
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.errors import classify
from cleanup_orchestrator.worker.steps.context import DeletionRunner


class Close(DeletionRunner):
    """Disables the project."""

    needs_project = True

    def run(self) -> StepResult:
        """Disable the project; report if a user had regained access before."""
        context, driver = self.context.drain_context(), self.worker.driver
        drained = self.deletion.drained_at is not None
        if drained and not driver.held_until_closed(context):
            # The project is not closed now: a type that needs a token of it could no longer be listed afterwards.
            text = self.context.lock_changed(context.projects.get_uncached(self.deletion.project_id))
            return StepResult(Outcome.UNKNOWN, str(Reason.STOPPED), text, learned=(ProjectReopened(),))
        try:
            result = driver.close(context)
        except ka_exceptions.Forbidden as error:
            if not _enabled(context.projects, self.deletion.project_id):
                # The other reasons say that the project is enabled: a user may create something until the next try.
                text = f"the project is disabled, and Keystone refuses what follows: {classify(error).message}"
                return StepResult(Outcome.UNKNOWN, str(Reason.ERROR), text)
            return why_keystone_refuses(context.projects, self.deletion.project_id, error)
        locked = (ProjectLocked(result.evidence),) if result.evidence else ()
        if not drained:
            return StepResult(Outcome.CLEAR, result.reason, result.message, learned=locked)
        if driver.held_until_closed(context):
            reason = str(Reason.DRAIN_HELD) if driver.continuous else result.reason
            return StepResult(Outcome.CLEAR, reason, result.message, learned=locked)
        # A user had access after the last inventory: only inventories from the closing on prove anything.
        text = f"{result.message}; a user had regained access right before: the project is proven empty again"
        learned = (*locked, ProjectReclosed(self.context.store.now()))
        return StepResult(Outcome.CLEAR, result.reason, text, learned=learned)


def _enabled(projects: Projects, project_id: str) -> bool:
    """Return whether a project is enabled, although Keystone refused to disable it or what follows."""
    try:
        return projects.get_uncached(project_id).enabled
    except ka_exceptions.Forbidden:  # it is an update: this try has written nothing, and no process has an old copy
        return projects.get(project_id).enabled


def why_keystone_refuses(projects: Projects, project_id: str, error: ka_exceptions.Forbidden) -> StepResult:
    """Return why Keystone refuses to disable or to delete a project.

    Keystone deletes no project that has child projects, and disables none that has enabled child projects.
    """
    text = classify(error).message
    project = projects.get(project_id)
    if project.immutable:
        return StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_IMMUTABLE), text)
    if children := projects.children(project.id):
        text = f"it has child projects: {', '.join(children)}; Keystone says: {text}"
        return StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_HAS_CHILDREN), text)
    return StepResult(Outcome.UNKNOWN, str(Reason.FORBIDDEN), text)
