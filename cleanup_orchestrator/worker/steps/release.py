"""Undoes what the orchestrator changed in the project, and starts what it stopped."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from cleanup_orchestrator.cloud.projects import ProjectNotFound, Projects
from cleanup_orchestrator.core.findings import Finding
from cleanup_orchestrator.core.journal import Change, Event, EventType
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import CleanupError, Stopped
from cleanup_orchestrator.worker.steps.context import DeletionRunner, StepContext, project_definition
from cleanup_orchestrator.worker.steps.service_drains import release_service
from cleanup_orchestrator.worker.sweep import stopping
from cleanup_orchestrator.worker.sweep.context import SweepContext


class Release(DeletionRunner):
    """Undoes every recorded change."""

    def run(self) -> StepResult:
        """Undo the changes, the latest first.

        Services accept a token until their caches expire, also after its role was taken back. So the token is dropped.
        """
        changes = self.context.store.changes(self.deletion.id)
        # An earlier attempt may have marked the record of the delete as undone, and failed after that.
        removed = self.step.attempt > 1 or any(c.type == drain.PROJECT_DELETE_SENT for c in changes)
        projects = self.context.projects(writing=True)
        try:
            count = undo_all(self.context, projects, self._start, functools.partial(release_service, self.context))
        finally:
            self.context.clouds.forget_project(self.deletion.project_id)
        gone: tuple[Finding, ...] = ()
        if removed:  # its delete was under way when the deletion was stopped
            try:
                projects.get_uncached(self.deletion.project_id)
            except ProjectNotFound:
                gone = self.context.gone_facts()
        return StepResult(Outcome.CLEAR, message=f"{count} changes undone", learned=gone)

    def _start(self, change: Change) -> str:
        """Start a resource stopped for the recovery window; see ``stopping.start``."""
        data, context = change.data, self.context
        try:
            type_ = self.worker.registry.find(data["service"], data["type"])
        except (KeyError, StopIteration):
            raise CleanupError(f"no plugin knows how to start {drain.describe(change)}") from None
        session = context.session(type_, context.guard)
        place = dataclasses.replace(self.step, region=data["region"], service=data["service"], type=data["type"])
        project = project_definition(self.worker, self.deletion, place)
        sweep = SweepContext(type_, context.clouds.connection(session, data["region"]), project)
        return stopping.start(sweep, data["id"])


def undo_all(
    context: StepContext,
    projects: Projects,
    start: Callable[[Change], str] | None = None,
    release: Callable[[Change], str] | None = None,
) -> int:
    """Undo the recorded changes, the latest first, and return their number.

    A change that cannot be undone does not keep the others: they lock the users out. Its error is raised at the end.

    :param start: starts a resource that was stopped for the recovery window
    :param release: undoes the drain of a service that speaks the project resources protocol
    :raises Stopped: the worker no longer holds the step
    """
    changes = context.store.changes(context.step.owner_id)
    failed: list[Exception] = []
    for change in reversed(changes):
        try:
            undo(context, projects, change, start, release)
        except Stopped:
            raise
        except Exception as error:
            failed.append(error)
    if failed:
        raise failed[0]
    return len(changes)


def undo(
    context: StepContext,
    projects: Projects,
    change: Change,
    start: Callable[[Change], str] | None = None,
    release: Callable[[Change], str] | None = None,
) -> None:
    """Undo one recorded change, and mark it; see :func:`undo_all`."""
    text = drain.undo(projects, context.deletion.project_id, change, start, release)
    event = Event(EventType.DRAIN_UNDONE, text, context.worker.name, {"type": change.type})
    if not context.store.undone(context.step, change, event):
        raise Stopped(f"step {context.step.name} is no longer held by this worker")
