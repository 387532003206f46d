"""Stops the running resources of one type in one region for the recovery window."""

from __future__ import annotations

import dataclasses

from cleanup_orchestrator.core.journal import EventType
from cleanup_orchestrator.core.step import Outcome, StepResult
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.plugins.base import Resource
from cleanup_orchestrator.worker.steps.context import DeletionRunner, chunks, named
from cleanup_orchestrator.worker.sweep import stopping


class Halt(DeletionRunner):
    """Stops what runs of one resource type."""

    def run(self) -> StepResult:
        """Stop the resources; a cancel starts them again."""
        context = self.context
        if not context.stops_resources:
            return StepResult(Outcome.CLEAR, message="nothing is stopped: [deletion] recovery_stop_servers is off")
        type_ = self.worker.registry.find(self.step.service, self.step.type)
        project = context.definition()
        connection = context.clouds.connection(context.session(type_, context.guard), self.step.region)
        result = stopping.halt(context.sweep(type_, connection, project), self._record)
        for chunk in chunks(result.stopped):
            text = f"{self.step.name}: {len(chunk)} stopped for the recovery window"
            context.note(EventType.RESOURCE_STOPPED, text, {**context.place, "resources": named(chunk)})
        said = f"{self.step.name}@{self.step.region or '-'}: {self._count()} stopped"
        return dataclasses.replace(result, message="; ".join(filter(None, (said, result.message))))

    def _record(self, resource: Resource) -> None:
        """Record that a resource is going to be stopped."""
        data = {**self.context.place, "id": resource.id}
        self.context.record_intent(drain.RESOURCE_STOPPED, data, "the stop")

    def _count(self) -> int:
        """Return how many resources are on record as stopped.

        The result of the last attempt is not enough: an earlier attempt may have ended in a crash.
        """
        changes = self.context.store.changes(self.deletion.id)
        stopped = [change for change in changes if change.type == drain.RESOURCE_STOPPED]
        return sum(self.context.place.items() <= change.data.items() for change in stopped)
