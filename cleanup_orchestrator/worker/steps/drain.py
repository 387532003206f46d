"""Locks the project with the drain driver."""

from __future__ import annotations

from oslo_log import log

from cleanup_orchestrator.core.findings import ProjectLocked
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import Stopped
from cleanup_orchestrator.worker.steps.access import give_janitor
from cleanup_orchestrator.worker.steps.context import DeletionRunner
from cleanup_orchestrator.worker.steps.release import undo
from cleanup_orchestrator.worker.steps.service_drains import drain_services

LOG = log.getLogger(__name__)


class Drain(DeletionRunner):
    """Locks the project so that users cannot create resources."""

    needs_project = True

    def run(self) -> StepResult:
        """Lock the project as far as the driver can."""
        context = self.context.drain_context()
        opened = self._open(context)
        if opened or self.step.attempt > 1:
            self._regain_access(context)
        self._end_janitor(context)
        result = self.worker.driver.drain(context)
        blocked = result.reason == Reason.INHERITED_GRANTS and self.worker.conf.drain.inherited_grants == "block"
        if blocked:
            return StepResult(Outcome.UNKNOWN, result.reason, result.message)
        message = "; ".join(filter(None, (result.message, drain_services(self.context))))
        return StepResult(Outcome.CLEAR, result.reason, message, learned=(ProjectLocked(result.evidence),))

    def _open(self, context: drain.DrainContext) -> bool:
        """Enable a project that this deletion has disabled; return whether it has.

        The lock was changed afterwards, so that the lists made with a token of the project no longer prove anything.
        For a disabled project there is no such token.
        """
        disabled = [c for c in self.context.store.changes(self.deletion.id) if c.type == drain.PROJECT_DISABLED]
        for change in disabled:
            undo(self.context, context.projects, change)
        return bool(disabled)

    def _end_janitor(self, context: drain.DrainContext) -> None:
        """End the janitor whose token services got, and make another one if lists need it.

        :raises Stopped: the worker no longer holds the step
        """
        changes = self.context.store.changes(self.deletion.id)
        if not any(change.type == drain.JANITOR_LENT for change in changes):
            return
        for type_ in (drain.JANITOR_MADE, drain.JANITOR_LENT):  # in this order: a crash in between repeats it
            for change in changes:
                if change.type == type_:
                    undo(self.context, context.projects, change)
        give_janitor(self.context)

    def _regain_access(self, context: drain.DrainContext) -> None:
        """Give the orchestrator its role on the project again.

        A drain may have failed because a user removed the role. A failure here is only logged. The driver reports what
        it needs and does not have.
        """
        try:
            drain.ensure_access(context, self.worker.conf.drain.project_role)
        except Stopped:
            raise
        except Exception as error:
            LOG.info("no token of project %s before it is locked again: %s", context.project_id, error)
