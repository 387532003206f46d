"""Counts the results of a deletion's steps. Pure.

``actions.apply`` has the counts saved with each decision.
"""

from __future__ import annotations

from collections.abc import Iterable

from cleanup_orchestrator.core import force
from cleanup_orchestrator.core.deletion import Deletion, RoundPurpose, Tally
from cleanup_orchestrator.core.snapshot import done, in_scope
from cleanup_orchestrator.core.step import Outcome, StepKind, StepView


def listed(deletion: Deletion, step: StepView) -> bool:
    """Return whether the step's result counts: the present attempt listed it.

    For a waived step the latest result of any attempt counts.
    """
    return step.round >= deletion.since_round or bool(step.waived)


def remaining(deletion: Deletion, step: StepView) -> int:
    """Return the number of leftovers of a step in this attempt."""
    return step.remaining if listed(deletion, step) else 0


def found(deletion: Deletion, step: StepView) -> int:
    """Return the number of resources that a step ever found.

    Neither a later list with fewer resources nor one that failed reduces it.
    """
    if not listed(deletion, step):
        return step.deleted
    there = step.found if step.outcome is Outcome.UNKNOWN else step.remaining
    return max(step.found, step.deleted + there)


def _finished(deletion: Deletion, step: StepView, since: int) -> bool:
    """Whether a step is not tried again in the present round, so that the number of such steps never goes back."""
    if not done(step, since):
        return False
    listing = deletion.purpose is RoundPurpose.INVENTORY and step.outcome is Outcome.LEFTOVERS
    over = step.outcome is Outcome.CLEAR or listing or force.is_abandoned(deletion, step)
    return deletion.purpose is RoundPurpose.NONE or over


def tally(deletion: Deletion, steps: Iterable[StepView]) -> Tally:
    """Count the results of all steps of a deletion."""
    every = list(steps)
    sweeps = [s for s in every if s.kind in (StepKind.SWEEP, StepKind.UNSUPPORTED)]
    present = [s for s in sweeps if in_scope(deletion, s)]
    since = deletion.since_round if deletion.purpose is RoundPurpose.NONE else deletion.round
    seen = [s for s in sweeps if listed(deletion, s)]
    return Tally(
        steps=len(present),
        steps_done=sum(_finished(deletion, s, since) for s in present),
        found=sum(found(deletion, s) for s in sweeps),
        deleted=sum(s.deleted for s in sweeps),
        remaining=sum(s.remaining for s in seen),
        abandoned=sum(s.abandoned for s in seen),
        kept=sum(s.kept for s in seen),
        unknown=sum(s.outcome is Outcome.UNKNOWN for s in seen),
        calls=sum(s.calls for s in every),
    )
