"""Makes sure that the orchestrator gets a token for the project."""

from __future__ import annotations

from cleanup_orchestrator.core.step import Outcome, StepResult, Token
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import NoJanitor
from cleanup_orchestrator.worker.steps.context import DeletionRunner, StepContext


class Access(DeletionRunner):
    """Gives the orchestrator's user a role on the project if it has none; the janitor, too, if lists need its token."""

    needs_project = True

    def run(self) -> StepResult:
        """Make sure of the roles."""
        done = drain.ensure_access(self.context.drain_context(), self.worker.conf.drain.project_role)
        return StepResult(
            Outcome.CLEAR, done.reason, "; ".join(filter(None, (done.message, give_janitor(self.context))))
        )


def give_janitor(context: StepContext) -> str:
    """Make the janitor if a type is listed with its token; return what the journal says of it.

    Without a usable janitor these types are unknown, with the same reason. Everything else goes on.
    """
    steps = context.store.steps(context.deletion.id)
    if not any(step.token is Token.MEMBER and not step.waived for step in steps):
        return ""
    if not context.worker.conf.janitor.secret:
        return ""
    try:
        context.janitor_session()
    except NoJanitor as error:
        return str(error)
    return "the janitor has its role on the project"
