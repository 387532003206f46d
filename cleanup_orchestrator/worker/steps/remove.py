"""Deletes the project in Keystone."""

from __future__ import annotations

from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.projects import ProjectNotFound, Projects
from cleanup_orchestrator.core.findings import Finding, ProjectReopened, RemovalStopped
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.journal import Change, Event, EventType
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import BadAnswer, RateLimited, Stopped, classify
from cleanup_orchestrator.worker.steps.close import why_keystone_refuses
from cleanup_orchestrator.worker.steps.context import DeletionRunner
from cleanup_orchestrator.worker.steps.service_drains import forget_drain


class Remove(DeletionRunner):
    """Deletes the project, unless a waiver has ended or the project is enabled again.

    If Keystone does not know the project, the answer to an earlier delete of this round may have been lost. If this
    round sent no delete, another client deleted the project, and may have opened it after the last inventory.
    """

    def run(self) -> StepResult:
        """Delete the project and ask Keystone whether it is gone."""
        if ended := self._ended_waiver():
            # What the waiver covered is listed again, or blocks.
            return self._stopped(f"it has expired, or was withdrawn, before the project went: {ended}")
        projects = self.context.projects(writing=True)
        if (kept := self._delete(projects)) is not None:
            return kept
        try:
            projects.get(self.deletion.project_id)
        except ProjectNotFound:
            self._forget_changes(projects)
            return StepResult(Outcome.CLEAR, message="Keystone no longer knows the project")
        text = "Keystone accepted the delete and still knows the project"
        return StepResult(Outcome.UNKNOWN, str(Reason.ERROR), text)

    def _ended_waiver(self) -> Waiver | None:
        """Return a waiver that the deletion relies on and that is no longer in force."""
        in_force = {w.id for w in self.context.store.waivers_in_force(self.deletion.project_id)}
        return next((w for w in self.deletion.waivers if w.id not in in_force), None)

    def _delete(self, projects: Projects) -> StepResult | None:
        """Delete the project; return why not, or ``None``."""
        try:
            # A cache does not do: a user who enabled the project a moment ago may have created a resource in it.
            project = projects.get_uncached(self.deletion.project_id)
            context, driver = self.context.drain_context(), self.worker.driver
            if project.enabled:
                self._forget_sent()  # before the next line, which may be stopped
                self.context.note_undone_by_users(project)
                return self._reopened("a user enabled the project again: it is closed and proven empty again")
            if not driver.held_until_removed(context, project):
                return self._reopened(self.context.lock_changed(project))
            headers = driver.removal_headers(context)
            sent = {"round": self.step.round}
            self.context.record_intent(drain.PROJECT_DELETE_SENT, sent, "the delete of the project")
            try:
                deleted = projects.delete(self.deletion.project_id, self.deletion.id, headers)
            except ka_exceptions.Conflict as error:
                return self._reopened(f"{classify(error).message}: the project is locked and proven empty again")
            except (Stopped, RateLimited, BadAnswer, ka_exceptions.HTTPClientError):  # not sent, or refused
                self._forget_sent()
                raise
            if not deleted:  # another client was faster
                self._forget_sent()
                raise ProjectNotFound(f"no project has the id {self.deletion.project_id}")
        except ProjectNotFound:
            in_this_round = any(change.data.get("round") == self.step.round for change in self._sent())
            if in_this_round or self.deletion.project_gone_at is not None:
                return None
            why = "another client deleted the project, and may have opened it before: it is proven empty again"
            return self._stopped(why, *self.context.gone_facts())
        except ka_exceptions.Forbidden as error:
            self._forget_sent()
            return why_keystone_refuses(projects, self.deletion.project_id, error)
        return None

    def _reopened(self, why: str) -> StepResult:
        """Return the result that voids every inventory since the closing. No delete took effect until now."""
        self._forget_sent()
        return self._stopped(why, ProjectReopened())

    @staticmethod
    def _stopped(why: str, *learned: Finding) -> StepResult:
        """Return the result after which the project is proven empty again."""
        return StepResult(Outcome.UNKNOWN, str(Reason.STOPPED), why, learned=(*learned, RemovalStopped()))

    def _sent(self) -> list[Change]:
        """Return the records of the deletes that were sent and not refused, in any round."""
        return [c for c in self.context.store.changes(self.deletion.id) if c.type == drain.PROJECT_DELETE_SENT]

    def _forget_sent(self) -> None:
        """Record that no delete took effect: a later answer that the project is gone is not due to one."""
        for change in self._sent():
            self._mark_undone(change, drain.NO_EFFECT)

    def _forget_changes(self, projects: Projects) -> None:
        """Mark every recorded change as undone: they went with the project, except for the janitor."""
        for change in self.context.store.changes(self.deletion.id):
            text = f"{change.type}: gone with the project"
            if change.type == drain.SERVICE_DRAINED:
                text = forget_drain(self.context, change)
            elif change.type == drain.PROJECT_DELETE_SENT:
                text = "the delete of the project took effect"
            elif change.type == drain.JANITOR_MADE:
                text = drain.remove_janitor(projects, self.deletion.project_id, change)
            self._mark_undone(change, text)

    def _mark_undone(self, change: Change, text: str) -> None:
        """Mark a recorded change as undone.

        :raises Stopped: another worker holds the step
        """
        event = Event(EventType.DRAIN_UNDONE, text, self.worker.name)
        if not self.context.store.undone(self.step, change, event):
            raise Stopped(f"step {self.step.name} is no longer held by this worker")
