"""What force means for a deletion. Pure.

Force is an admin's word about a deletion that is under way and does not come to its end. It works in rounds of deletes:
what is left when nothing moves any more is met with what its type declares (``ResourceType.force``), and what is left
then is let go of, by name. Nothing is skipped: what was let go of is looked for in each inventory like all else, and
what an inventory finds besides sends the deletion back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from cleanup_orchestrator.core.deletion import Deletion, Force, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult


def asked(deletion: Deletion) -> Force | None:
    """Return the force that was asked for in the present attempt; a cancel withdraws it."""
    force = deletion.forced
    if force is None or force.attempt != deletion.attempt or deletion.status in (Status.CANCELLING, Status.CANCELLED):
        return None
    return force


def pending(deletion: Deletion) -> bool:
    """Whether it was asked for in the present round: the next one has to be one of deletes."""
    force = asked(deletion)
    return force is not None and deletion.round <= force.round


def works(deletion: Deletion) -> bool:
    """Whether the present round is one in which it works."""
    force = asked(deletion)
    return force is not None and deletion.round > force.round


def usable(deletion: Deletion, step: Step) -> bool:
    """Whether the force of its type is still to be tried on what a step left."""
    force = asked(deletion)
    left = step.outcome is Outcome.LEFTOVERS and not step.forcing
    return force is not None and left and step.name in force.types


def is_abandoned(deletion: Deletion, step: Step) -> bool:
    """Whether all that its latest result has was let go of: it is on the report, and neither blocks nor is waited for.

    A single new leftover, or not knowing where something was known before, is not covered by that.
    """
    if not works(deletion) or step.waived:
        return False
    if step.outcome is Outcome.UNKNOWN:
        return step.unseen
    return step.outcome is Outcome.LEFTOVERS and 0 < step.remaining == step.abandoned


def carried(sweep: StepResult, before: Mapping[str, Leftover], key: Callable[[str], str] = str) -> StepResult:
    """Return a result in which what was let go of before is still marked so, with what was said of it.

    :param before: what was let go of, by id
    :param key: what an id is on record
    """
    if not before:
        return sweep
    leftovers = []
    for one in sweep.leftovers:
        if (old := before.get(key(one.id))) is not None:
            one = dataclasses.replace(one, abandoned=True, owner=old.owner, remedy=one.remedy or old.remedy)
            if one.reason is Reason.PRESENT:  # a look only says that it is there, and not why it could not go
                one = dataclasses.replace(one, reason=old.reason, message=old.message, blocked_by=old.blocked_by)
        leftovers.append(one)
    return dataclasses.replace(sweep, leftovers=tuple(leftovers))


def abandoned(steps: Iterable[Step]) -> int:
    """Return how many resources are let go of."""
    return sum(step.abandoned for step in steps)


def unseen(deletion: Deletion, steps: Iterable[Step]) -> list[Step]:
    """Return what was let go of without knowing what is there: it is named, for nobody can list it."""
    if asked(deletion) is None:
        return []
    found = [s for s in steps if s.kind in (StepKind.SWEEP, StepKind.UNSUPPORTED) and s.unseen and not s.waived]
    return sorted(found, key=lambda s: (s.region, s.service, s.type))


def summary(deletion: Deletion, steps: Iterable[Step]) -> str:
    """Say by whose force a result stands, and what it leaves behind; empty: there was none."""
    force, steps = asked(deletion), list(steps)
    if force is None:
        return ""
    named = [f"{s.abandoned} {_where(s)}" for s in sorted(steps, key=lambda s: (s.region, s.name)) if s.abandoned]
    parts = [f"{abandoned(steps)} abandoned: {', '.join(named)}"] if named else []
    if lost := unseen(deletion, steps):
        parts.append(f"unknown, abandoned unseen: {', '.join(map(_where, lost))}")
    return f"; {force}: " + ("; ".join(parts) or "nothing is abandoned")


def _where(step: Step) -> str:
    name = step.name if step.type else step.service
    return f"{name} in {step.region}" if step.region else name
