"""Decides, before each write call of a step, whether the call may be made."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.cloud.session import GuardedSession, read_only
from cleanup_orchestrator.core.deletion import Deletion, Origin
from cleanup_orchestrator.core.guard import Facts, NeverDelete, destructive, hold
from cleanup_orchestrator.core.step import Step
from cleanup_orchestrator.errors import OnHold, ProjectKnown, ProjectProtected, Stopped, classify
from cleanup_orchestrator.worker.context import WorkerContext

#: Seconds for which the guard relies on Keystone's answer that it does not know a project.
_GONE = 5.0


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

        :param withheld: returns why the task writes nothing any more; empty: it may write
        :param made: called with each session that the guard itself uses
        """
        self._worker, self._deletion, self._step = worker, deletion, step
        self._withheld, self._made = withheld, made
        self._gone_at = -math.inf  #: when Keystone last said that it does not know the project, monotonic

    def __call__(self, method: str, url: str) -> None:
        """Return if the write call may be made.

        :raises Stopped: the task has to stop: it was given up, its worker ends, or it does not hold the step any more
        :raises OnHold: a lien, the brake or the maintenance windows hold the deletion
        :raises WriteRefused: the deletion is a dry run
        :raises ProjectProtected: the project is on the never-delete list
        :raises ProjectKnown: Keystone knows the project of an adopted orphan
        """
        worker, deletion, step = self._worker, self._deletion, self._step
        if why := self._withheld():
            raise Stopped(f"{method} withheld: {why}")
        if deletion.dry_run:
            read_only(method, url)
        # An operator may extend the never-delete list while a deletion is under way.
        listed = worker.protection.listed(deletion.project_id, deletion.project_name)
        if NeverDelete().holds(Facts(deletion, never_delete=listed or ""), step):
            raise ProjectProtected(f"{method} withheld: {listed}")
        if deletion.origin is Origin.ADOPTED:
            self._expect_gone(method)
        if not worker.store.may_write(step, worker.hold_options):
            raise self.refusal(method)

    def refusal(self, what: str) -> Stopped:
        """Return why the store refused something.

        The reason is the hold on the deletion, if there is one, else a lost claim.
        """
        deletion, _steps, now = self._worker.store.load(self._deletion.id)
        on_hold = hold(deletion, now, self._worker.hold_options) if destructive(deletion, self._step) else None
        if on_hold is not None:
            return OnHold(f"{what} withheld: {on_hold}")
        name = self._step.name
        return Stopped(f"{what} withheld: the deletion was cancelled, or the worker does not hold step {name} any more")

    def _expect_gone(self, method: str) -> None:
        """Ask Keystone every few seconds whether the project is still unknown.

        The question is outside the rate limits: the write call that waits for it already has a permit.

        :raises ProjectKnown: Keystone knows the project
        :raises Stopped: Keystone does not answer
        """
        if time.monotonic() - self._gone_at < _GONE:
            return
        clouds, project_id = self._worker.unlimited.seen_by(self._made), self._deletion.project_id
        try:
            known = Projects(clouds.identity(clouds.admin_session())).knows(project_id, clouds.project_id())
        except Exception as error:
            why = classify(error).message
            text = f"{method} withheld: Keystone did not say that it does not know the project: {why}"
            raise Stopped(text) from error
        if known:
            raise ProjectKnown(f"{method} withheld: Keystone knows project {project_id}: it is no orphan")
        self._gone_at = time.monotonic()
