"""Derives the conditions of a deletion, such as stalled and on hold. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from cleanup_orchestrator.core import force, plans, trees
from cleanup_orchestrator.core.action_plan import ActionPlan
from cleanup_orchestrator.core.actions import SetCondition
from cleanup_orchestrator.core.blockers import blockers, blocks, only_a_person_clears
from cleanup_orchestrator.core.deletion import DELETING_MODES, Mode, RoundPurpose, Status
from cleanup_orchestrator.core.deletion import ConditionType as Type
from cleanup_orchestrator.core.queue import QueueState
from cleanup_orchestrator.core.reasons import StatusReason
from cleanup_orchestrator.core.snapshot import Snapshot, in_scope
from cleanup_orchestrator.core.step import Step, StepKind

#: Reason of the condition ``waiting``: the deletion has not begun, because every place is taken.
QUEUE = "queue"
#: The condition that ends a hold.
NOT_ON_HOLD = SetCondition(Type.ON_HOLD, False, "over", "nothing holds it any more")


def observed(view: Snapshot, plan: ActionPlan, stalls: datetime.datetime | None) -> Iterator[SetCondition]:
    """Yield the conditions that a snapshot shows, and the end of every other one.

    :param stalls: as :func:`stalls_at` returns it
    """
    yield from _drain(view)
    yield from _project(view)
    yield from _waits(view, plan)
    yield from _people(view, plan)
    yield from _settling(view)
    yield _blocked(view)
    if view.hold is not None:
        yield SetCondition(Type.ON_HOLD, True, view.hold.reason, view.hold.message)
    elif view.was_on_hold:
        yield NOT_ON_HOLD
    if stalls is None or view.now < stalls:
        yield SetCondition(Type.STALLED, False, "progress", "")
    else:
        found = blockers(view.deletion, view.steps)
        names = {f"{b.service}.{b.type}@{b.region}: {b.reason}" for b in found}
        names |= {f"{step.name}@{step.region}: no answer of a worker" for step in view.steps if _awaited(view, step)}
        text = "blocked by " + ("; ".join(sorted(names)) or "no answer of a worker")
        yield SetCondition(Type.STALLED, True, "no_progress", text)


def planned(view: Snapshot) -> tuple[SetCondition, ...]:
    """Return whether a plan saw everything; nothing if the dry run is no plan."""
    d = view.deletion
    if d.mode not in DELETING_MODES:
        return ()
    missing = plans.unseen(d, view.steps)
    if not missing:
        return (SetCondition(Type.PLAN_COMPLETE, True, "complete", "a deletion can be bound to it"),)
    reasons = {step.reason for step in missing}
    reason = reasons.pop() if len(reasons) == 1 else ""
    text = f"no deletion can be bound to it: {plans.incomplete(d, view.steps)}"
    return (SetCondition(Type.PLAN_COMPLETE, False, reason or StatusReason.UNKNOWN, text),)


def stalls_at(view: Snapshot, plan: ActionPlan) -> datetime.datetime | None:
    """Return when the deletion becomes stalled; ``None``: it waits for a known end.

    The time may be in the past.
    """
    d = view.deletion
    until = view.settle_until
    settling = until is not None and view.now < until and d.status is Status.VERIFYING
    waiting = bool(view.below) and view.children_under_way
    # For a place, for a date, or for a person.
    waiting = waiting or QueueState.WAITING in (plan.queue_state, d.queue_state)
    waiting = waiting or d.status is Status.RECOVERABLE or plan.needs is not None
    # After a hold, the time without progress begins anew.
    on_hold = _withheld(view, plan) or (view.was_on_hold and view.hold is None)
    # So it does after the wait for a person.
    on_hold = on_hold or (view.has(Type.BLOCKED) and not view.has(Type.STALLED) and not _blocked(view).status)
    if settling or waiting or on_hold:
        return None
    at = d.progress_at + view.rules.stall_after
    if not any(_needs_a_person(view, step) for step in view.steps):  # checked first: most steps have no such reason
        return at
    blocking = [step for step in view.steps if blocks(d, step)]
    if not all(_needs_a_person(view, step) for step in blocking):
        return at
    if any(_awaited(view, step) for step in view.steps):
        return at
    # It waits for a person, and its steps are tried again meanwhile. If they are not, it is stalled after all.
    cap = datetime.timedelta(seconds=view.rules.retry_cap)
    tried = [_tried_at(view, step) for step in blocking if step.round == d.round]
    again = [each + cap + view.rules.stall_after for each in tried if each is not None]
    return max(at, min(again, default=at))


def _awaited(view: Snapshot, step: Step) -> bool:
    """Whether the round waits for the first result of a sweep that a worker has taken, or has to take."""
    d = view.deletion
    first = step.kind is StepKind.SWEEP and step.round == d.round and view.under_way(step) and not blocks(d, step)
    return first and in_scope(d, step)


def _tried_at(view: Snapshot, step: Step) -> datetime.datetime | None:
    """Return when the latest result of a step was found; a survey finds services without a plugin."""
    return view.survey.finished_at if step.kind is StepKind.UNSUPPORTED else step.finished_at


def _blocked(view: Snapshot) -> SetCondition:
    """Return whether the deletion, or that of a project below, needs a person to go on."""
    d = view.deletion
    found = sorted({_named(step) for step in view.steps if _needs_a_person(view, step)})
    if view.below and not d.dry_run and d.status is not Status.CANCELLING:
        found += sorted(f"project {c.project_name or c.project_id}: {c.attention}" for c in trees.asking(d))
    if found:
        return SetCondition(Type.BLOCKED, True, "person_needed", "; ".join(found))
    return SetCondition(Type.BLOCKED, False, "cleared", "")


def _needs_a_person(view: Snapshot, step: Step) -> bool:
    """Whether a step keeps the deletion waiting for a person.

    No sweep does in a dry run, nor in a deletion that leaves the project: these end by themselves, and name what is
    left.
    """
    d = view.deletion
    ends = d.dry_run or d.mode is not Mode.CASCADE
    return not (ends and step.kind in (StepKind.SWEEP, StepKind.UNSUPPORTED)) and only_a_person_clears(d, step)


def _named(step: Step) -> str:
    """Return a step and its reason in a few words."""
    where = f"@{step.region}" if step.region else ""
    return f"{step.name.rstrip('.')}{where}: {step.reason}"


def _withheld(view: Snapshot, plan: ActionPlan) -> bool:
    """Whether a hold withholds what comes next, so that the deletion is not stalled."""
    d = view.deletion
    before = d.status in (Status.ACCEPTED, Status.INVENTORY, Status.RECOVERABLE)
    listing = before or d.purpose is RoundPurpose.INVENTORY
    return view.hold is not None and (plan.delete_is_next or not listing)


def _drain(view: Snapshot) -> Iterator[SetCondition]:
    """Yield the end of a drain that was undone by another client."""
    if view.settle_until is None and view.has(Type.DRAINED):
        text = "the project was enabled again, or a role on it was given: it is closed and proven empty anew"
        yield SetCondition(Type.DRAINED, False, "reopened", text)
        yield SetCondition(Type.SETTLED, False, "reopened", text)


def _settling(view: Snapshot) -> Iterator[SetCondition]:
    """Yield whether tokens from before the drain may still be cached."""
    until = view.settle_until
    if until is None:
        return
    settled = view.now >= until
    text = f"tokens validated before the drain may be cached by services until {until.isoformat(timespec='seconds')}Z"
    yield SetCondition(Type.SETTLED, settled, "settled" if settled else "token_caches", text)


def _project(view: Snapshot) -> Iterator[SetCondition]:
    """Yield that another client deleted the project."""
    if gone := view.deletion.project_gone_at:
        text = f"Keystone did not know the project any more at {gone.isoformat(timespec='seconds')}Z"
        yield SetCondition(Type.PROJECT_GONE, True, "deleted_elsewhere", f"{text}: another client deleted it")
    elif view.has(Type.PROJECT_GONE):
        yield SetCondition(Type.PROJECT_GONE, False, "back", "Keystone knows the project again")


def _waits(view: Snapshot, plan: ActionPlan) -> Iterator[SetCondition]:
    """Yield that the deletion waits for its first place, and the end of a wait."""
    d, waits = view.deletion, view.deletion.condition(Type.WAITING)
    if plan.queue_state is QueueState.WAITING and not view.begun:
        text = f"{view.rules.deletions_at_once} deletions may be worked on at once ([engine] deletions_at_once), and "
        text += "their places go round by domain and requester"
        earlier = f": {d.queue.before} earlier ones of the same requester in this domain wait, too"
        yield SetCondition(Type.WAITING, True, QUEUE, text + (earlier if d.queue.before else ""))
    elif waits is not None and waits.reason == QUEUE:
        yield SetCondition(Type.WAITING, False, QUEUE, "it has begun")
    elif waits is not None and not view.below:
        yield SetCondition(Type.WAITING, False, "children", "the projects below are gone")


def _people(view: Snapshot, plan: ActionPlan) -> Iterator[SetCondition]:
    """Yield what depends on a person: a missing approval, the waivers in use, force."""
    d = view.deletion
    if plan.needs:
        yield SetCondition(Type.APPROVAL, True, plan.needs.reason, plan.needs.message)
    elif view.has(Type.APPROVAL):
        yield SetCondition(Type.APPROVAL, False, "ended", "it does not wait for an approval any more")
    if d.waivers:
        text = "; ".join(waiver.explained for waiver in d.waivers)
        yield SetCondition(Type.WAIVED, True, "waivers", f"it skips {text}")
    elif view.has(Type.WAIVED):
        yield SetCondition(Type.WAIVED, False, "ended", "it does not rely on a waiver any more")
    if force.asked(d) is not None:
        yield SetCondition(Type.FORCED, True, "forced", force.summary(d, view.steps).removeprefix("; "))
