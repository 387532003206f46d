"""Makes sure that the orchestrator gets a token for the project."""

from __future__ import annotations

from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.worker.steps.context import StepRunner


class Access(StepRunner):
    """Gives the orchestrator's user a role on the project if it has none."""

    needs_project = True

    def run(self) -> StepResult:
        """Make sure of the role."""
        done = drain.ensure_access(self.context.drain_context(), self.worker.conf.drain.project_role)
        return StepResult(Outcome.CLEAR, done.reason, done.message)
