"""Finds what keeps a deletion from going on. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from cleanup_orchestrator.core import force
from cleanup_orchestrator.core.deletion import Deletion, Status
from cleanup_orchestrator.core.reasons import Reason, remedy
from cleanup_orchestrator.core.rounds import in_scope
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepState


@dataclasses.dataclass(frozen=True, slots=True)
class Blocker:
    """What keeps a deletion from going on, and what clears it."""

    region: str
    service: str
    type: str
    reason: str
    message: str
    remedy: str


def blockers(deletion: Deletion, steps: Iterable[Step]) -> tuple[Blocker, ...]:
    """Return what keeps a deletion from going on, by region, service and type."""
    found = [
        Blocker(step.region, step.service, step.type or str(step.kind), step.reason, step.message, remedy(step.reason))
        for step in steps
        if _has_result(deletion, step) and _blocks(deletion, step)
    ]
    return tuple(sorted(found, key=lambda b: (b.region, b.service, b.type)))


def _has_result(deletion: Deletion, step: Step) -> bool:
    """Whether the step has a result of this attempt.

    While the step is tried again, its last result counts.
    """
    again = step.state in (StepState.DISPATCHED, StepState.RUNNING) and step.attempt > 1
    return (step.state is StepState.DONE or again) and step.round >= deletion.since_round


def _blocks(deletion: Deletion, step: Step) -> bool:
    """Whether the result of a step keeps the deletion from going on.

    A sweep that has not run in the present round does not block: it waits for other steps or for its turn. Resources
    that are merely present do not block: a cascade deletes them. What is on hold does not block: its condition says
    why. An informational step never blocks.
    """
    if step.reason == Reason.ON_HOLD or step.informational:
        return False
    if step.kind is StepKind.HALT and deletion.status is not Status.RECOVERABLE:
        return False  # nothing is halted after the recovery window
    if step.kind not in (StepKind.SWEEP, StepKind.UNSUPPORTED):
        return step.outcome is Outcome.UNKNOWN or step.reason == Reason.PROJECT_HAS_CHILDREN
    current = step.round == deletion.round or step.kind is StepKind.UNSUPPORTED
    left = step.outcome is Outcome.LEFTOVERS and step.reason not in (Reason.PRESENT, Reason.QUEUED)
    blocks = current and in_scope(deletion, step) and (left or step.outcome is Outcome.UNKNOWN)
    return blocks and not force.is_abandoned(deletion, step)
