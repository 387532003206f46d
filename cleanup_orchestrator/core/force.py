"""What force means for a deletion. Pure.

An admin asks for force on a deletion that is under way and cannot complete. Force works in delete rounds. When nothing
still moves, it is used on the leftovers in the way that their type declares (``ResourceType.force``). What is left
after that is abandoned, by name. Nothing is skipped: each inventory lists abandoned resources like all others, and
sends the deletion back if it finds anything else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from cleanup_orchestrator.core.deletion import Deletion, Force, Status, UseDecision
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, StepKind, StepResult, StepView


def _of_attempt(deletion: Deletion) -> Force | None:
    """Return what admins decided for the present attempt. A cancel withdraws it."""
    force = deletion.forced
    if force is None or force.attempt != deletion.attempt or deletion.status in (Status.CANCELLING, Status.CANCELLED):
        return None
    return force


def asked(deletion: Deletion) -> Force | None:
    """Return the force of the present attempt, by which the deletion abandons what it cannot delete."""
    force = _of_attempt(deletion)
    return force if force is not None and force.abandons else None


def decisions(deletion: Deletion) -> tuple[UseDecision, ...]:
    """Return which resources are deleted although others use them, as admins decided for the present attempt."""
    force = _of_attempt(deletion)
    return force.uses if force is not None else ()


def decided_uses(deletion: Deletion) -> dict[str, frozenset[tuple[str, str]]]:
    """Return, by resource, the (type, id) of each user that does not prevent its delete."""
    users: dict[str, frozenset[tuple[str, str]]] = {}
    for use in decisions(deletion):
        users[use.of] = users.get(use.of, frozenset()) | frozenset(use.by)
    return users


def with_decisions(deletion: Deletion, asked_now: Force) -> Deletion:
    """Return a deletion with further decisions about uses. Those of the attempt, and its force, stay."""
    before = _of_attempt(deletion)
    if before is not None:
        asked_now = dataclasses.replace(before, uses=(*before.uses, *asked_now.uses))
    return dataclasses.replace(deletion, forced=asked_now)


def pending(deletion: Deletion) -> bool:
    """Whether force was asked for in this round, so that a delete round must follow."""
    force = asked(deletion)
    return force is not None and deletion.round <= force.round


def works(deletion: Deletion) -> bool:
    """Whether force works in the present round."""
    force = asked(deletion)
    return force is not None and deletion.round > force.round


def usable(deletion: Deletion, step: StepView) -> bool:
    """Whether the force of its type was not yet used on the leftovers of a step."""
    force = asked(deletion)
    left = step.outcome is Outcome.LEFTOVERS and not step.forcing
    return force is not None and left and step.name in force.types


def is_abandoned(deletion: Deletion, step: StepView) -> bool:
    """Whether everything in a step's latest result was abandoned.

    Such a result is reported, and no round waits for it. This does not cover a new leftover, nor an unknown result
    where the leftovers were known before.
    """
    if not works(deletion) or step.waived:
        return False
    if step.outcome is Outcome.UNKNOWN:
        return step.unseen
    return step.outcome is Outcome.LEFTOVERS and 0 < step.remaining == step.abandoned


def keep_abandoned(sweep: StepResult, before: Mapping[str, Leftover], key: Callable[[str], str] = str) -> StepResult:
    """Return a result in which resources abandoned before keep mark and reason.

    :param before: the abandoned leftovers, by id
    :param key: returns an id as it is stored
    """
    if not before:
        return sweep
    leftovers = []
    for one in sweep.leftovers:
        if (old := before.get(key(one.id))) is not None:
            one = dataclasses.replace(one, abandoned=True, owner=old.owner, remedy=old.remedy or one.remedy)
            if one.reason is Reason.PRESENT:  # an inventory says that it is there, and not why it cannot be deleted
                one = dataclasses.replace(one, reason=old.reason, message=old.message, blocked_by=old.blocked_by)
        leftovers.append(one)
    return dataclasses.replace(sweep, leftovers=tuple(leftovers))


def unseen(deletion: Deletion, steps: Iterable[StepView]) -> list[StepView]:
    """Return the steps that were abandoned without a list of their resources."""
    if asked(deletion) is None:
        return []
    unlisted = [s for s in steps if s.kind in (StepKind.SWEEP, StepKind.UNSUPPORTED) and s.unseen and not s.waived]
    return sorted(unlisted, key=lambda s: (s.region, s.service, s.type))


def summary(deletion: Deletion, steps: Iterable[StepView]) -> str:
    """Return who asked for force, why, and what was abandoned; empty: no force."""
    force, steps = asked(deletion), list(steps)
    if force is None:
        return ""
    named = [f"{s.abandoned} {_where(s)}" for s in sorted(steps, key=lambda s: (s.region, s.name)) if s.abandoned]
    parts = [f"{sum(step.abandoned for step in steps)} abandoned: {', '.join(named)}"] if named else []
    if lost := unseen(deletion, steps):
        parts.append(f"unknown, abandoned unseen: {', '.join(map(_where, lost))}")
    return f"; {force}: " + ("; ".join(parts) or "nothing is abandoned")


def _where(step: StepView) -> str:
    name = step.name if step.type else step.service
    return f"{name} in {step.region}" if step.region else name
