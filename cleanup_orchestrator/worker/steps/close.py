"""Disables the project: Keystone then gives no user a token for it."""

from __future__ import annotations

import datetime

from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.core.findings import InventoryOutdated, ProjectLocked, ProjectReclosed, ProjectReopened
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.snapshot import scoped_lists
from cleanup_orchestrator.core.step import Outcome, StepKind, StepResult
from cleanup_orchestrator.errors import classify
from cleanup_orchestrator.worker.steps.context import DeletionRunner

#: How long ago a project may have been listed that is still in use when it is disabled.
LISTED_WITHIN = datetime.timedelta(minutes=5)


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
            if not drained and (outdated := self._outdated(context.projects)):
                return StepResult(Outcome.UNKNOWN, str(Reason.STOPPED), outdated, learned=(InventoryOutdated(),))
            result = driver.close(context)
        except ka_exceptions.Forbidden as error:
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

    def _outdated(self, projects: Projects) -> str:
        """Return why a project in use must be listed again before it is disabled; empty: it need not.

        Its users may create something until then, and a type that needs a token of the project cannot be listed
        afterwards. The list may be days old: Keystone refused the closing, a hold withheld it, or the inventory waited
        for another service. If it waited for none, its end counts: else a long one would follow another for ever.
        """
        steps = self.context.store.steps(self.deletion.id)
        scoped = scoped_lists(self.deletion, steps)
        if not scoped:
            return ""
        swept = [s for s in steps if s.kind is StepKind.SWEEP and s.round == self.deletion.round]
        waited = any(s.attempt > 1 for s in swept)
        since = min(scoped.values()) if waited else max(s.finished_at for s in swept if s.finished_at)
        if self.context.store.now() - since <= LISTED_WITHIN:
            return ""
        if not projects.get_uncached(self.deletion.project_id).enabled:  # an earlier try did so, or a user
            return ""
        names = ", ".join(sorted({step.name for step in scoped}))
        text = f"the project is in use, and was listed last at {since.isoformat()}Z: it is listed again before it is"
        return f"{text} disabled, because {names} cannot be listed afterwards"


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
