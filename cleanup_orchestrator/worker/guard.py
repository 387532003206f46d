"""Decides, before each write call of a step, whether the call may be made."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from oslo_log import log

from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.cloud.session import GuardedSession
from cleanup_orchestrator.core.deletion import Deletion, Mode, Origin
from cleanup_orchestrator.core.guard import WAITING, Cause, HoldName, shown
from cleanup_orchestrator.core.step import Step, StepKind
from cleanup_orchestrator.errors import (
    Cancelled,
    CleanupError,
    OnHold,
    ProjectKnown,
    ProjectProtected,
    Stopped,
    WriteRefused,
    classify,
)
from cleanup_orchestrator.worker.context import WorkerContext

LOG = log.getLogger(__name__)

#: What a hold means for the step. Any other one stops it.
_ERRORS: dict[HoldName, type[CleanupError]] = {
    HoldName.CANCELLED: Cancelled,
    HoldName.NEVER_DELETE: ProjectProtected,
    **{hold.name: OnHold for hold in WAITING},
}

#: Seconds for which the guard relies on Keystone's answer that it does not know a project.
_GONE = 5.0


def never_writes(deletion: Deletion, step: Step) -> str:
    """Return why a deletion never makes the write calls of a step; empty: it may make them.

    This is a second check: the store asks the table of holds, which engine and store share. So it reads the worker's
    own copy of what the request set for good, and nothing of that table. The undo of changes is always allowed.
    """
    if step.kind is StepKind.RELEASE:
        return ""
    if deletion.dry_run:
        return "a dry run must not write"
    if deletion.origin is Origin.NOTICED:
        return "another client deleted the project, and its resources are only listed"
    if deletion.mode is Mode.PURGE and (step.project_setting or step.kind in (StepKind.CLOSE, StepKind.REMOVE)):
        return "the project is kept"
    resources = step.kind in (StepKind.HALT, StepKind.SWEEP) and not step.project_setting
    return "a report deletes no resource" if deletion.mode is Mode.REPORT and resources else ""


class WriteGuard:
    """Lets a write call of a step pass while the step may write.

    A step may write while the worker holds it, nothing holds its deletion, and the deletion is not cancelled.
    """

    def __init__(
        self,
        worker: WorkerContext,
        deletion: Deletion,
        step: Step,
        withheld: Callable[[], str],
        made: Callable[[GuardedSession], None],
    ) -> None:
        """Create the guard of one claimed step.

        :param withheld: returns why the task may no longer write; empty: it may write
        :param made: called with each session that the guard itself uses
        """
        self._worker, self._deletion, self._step = worker, deletion, step
        self._withheld, self._made = withheld, made
        self._gone_at = -math.inf  #: when Keystone last said that it does not know the project, monotonic

    def __call__(self, method: str, url: str) -> None:
        """Return if the write call may be made.

        :raises Stopped: the task has to stop: it was given up, its worker ends, or it no longer holds the step
        :raises OnHold: a lien, the brake or the delete windows hold the deletion
        :raises WriteRefused: the deletion never makes such a write
        :raises ProjectProtected: the project is on the never-delete list
        :raises ProjectKnown: Keystone knows the project of an adopted orphan
        """
        if why := self._withheld():
            raise Stopped(f"{method} withheld: {why}")
        if why := never_writes(self._deletion, self._step):
            raise WriteRefused(f"{method} {url} refused: {why}")
        if self._deletion.profile.adopted:
            self._expect_gone(method)
        if causes := self._causes():
            raise self._error(method, causes)

    def refusal(self, what: str) -> CleanupError:
        """Return why the store refused a record of something that was about to be done."""
        causes = self._causes()
        return self._error(what, causes) if causes else Stopped(f"{what} withheld: what withheld it is over now")

    def _causes(self) -> Sequence[Cause]:
        """Ask the store what withholds a write call of the step now.

        :raises Stopped: the store does not answer
        """
        worker, deletion = self._worker, self._deletion
        # An operator may extend the never-delete list while a deletion is under way.
        listed = worker.protection.listed(deletion.project_id, deletion.project_name)
        try:
            return worker.store.withheld(self._step, worker.hold_options, listed or "")
        except Exception as error:  # whatever the store raises: no other write of the step passes, either
            LOG.warning("%s: the store does not say whether it may write: %s", self._step.name, error)
            raise Stopped("withheld: the orchestrator's database does not say whether it may be made") from error

    @staticmethod
    def _error(what: str, causes: Sequence[Cause]) -> CleanupError:
        """Return the error that the first of some causes means."""
        return _ERRORS.get(causes[0].hold, Stopped)(f"{what} withheld: {shown(causes)}")

    def _expect_gone(self, method: str) -> None:
        """Ask Keystone every few seconds whether the project is still unknown.

        The question is outside the rate limits: the write call that waits for it already has a permit.

        :raises ProjectKnown: Keystone knows the project
        :raises Stopped: Keystone does not answer
        """
        if time.monotonic() - self._gone_at < _GONE:
            return
        clouds, project_id = self._worker.unlimited.observed_by(self._made), self._deletion.project_id
        try:
            known = Projects(clouds.identity(clouds.admin_session())).knows(project_id, clouds.project_id())
        except Exception as error:
            why = classify(error).message
            text = f"{method} withheld: Keystone did not say that it does not know the project: {why}"
            raise Stopped(text) from error
        if known:
            raise ProjectKnown(f"{method} withheld: Keystone knows project {project_id}: it is no orphan")
        self._gone_at = time.monotonic()
