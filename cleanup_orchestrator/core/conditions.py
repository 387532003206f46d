"""Observes the conditions of a deletion, such as stalled and on hold. Pure.

Every condition is made here; ``condition_types`` has what holds for each type.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping

from cleanup_orchestrator.core import force, plans, trees
from cleanup_orchestrator.core.action_plan import ActionPlan
from cleanup_orchestrator.core.actions import Actions, MarkDrained, SetCondition
from cleanup_orchestrator.core.blockers import blockers, blocks, only_a_person_clears
from cleanup_orchestrator.core.condition_types import CONDITIONS
from cleanup_orchestrator.core.condition_types import ConditionType as Type
from cleanup_orchestrator.core.deletion import RoundPurpose, Status
from cleanup_orchestrator.core.queue import QueueState
from cleanup_orchestrator.core.reasons import StatusReason
from cleanup_orchestrator.core.snapshot import Snapshot, done, in_scope
from cleanup_orchestrator.core.step import Outcome, Step, StepKind
from cleanup_orchestrator.core.times import utc

#: Reason of the condition ``waiting``: the deletion has not begun, because every place is taken.
QUEUE = "queue"
#: Reason of the condition ``scheduled``: the date is not near. When it is: ``in_7_days``, by ``[deletion] reminders``.
DATE = "date"


def fine(type_: Type, message: str = "") -> SetCondition:
    """Return that a condition has its fine status.

    :param message: empty: the one of its type
    """
    rule = CONDITIONS[type_]
    return SetCondition(type_, rule.fine, rule.reason, message or rule.message)


def observed(view: Snapshot, plan: ActionPlan) -> Iterator[SetCondition]:
    """Yield the conditions that a snapshot shows, and the end of every other one."""
    for type_, observe in _OBSERVERS.items():
        if condition := observe(view, plan):
            yield condition
        elif view.has(type_) and not CONDITIONS[type_].fine:
            yield fine(type_)


def planned(view: Snapshot) -> tuple[SetCondition, ...]:
    """Return whether a plan saw everything; nothing if the dry run is no plan."""
    d = view.deletion
    if d.profile.only_reports:
        return ()
    missing = plans.unseen(d, view.steps)
    if not missing:
        return (fine(Type.PLAN_COMPLETE),)
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
    # It waits for a place, for a date, or for a person. It begins its work when the date comes.
    waiting = waiting or view.waits_for_date or view.has(Type.SCHEDULED)
    waiting = waiting or QueueState.WAITING in (plan.queue_state, d.queue_state)
    waiting = waiting or d.status is Status.RECOVERABLE or plan.needs is not None
    # After a hold, the time without progress begins anew.
    on_hold = _withheld(view, plan) or (view.was_on_hold and view.hold is None)
    # So it does after the wait for a person.
    on_hold = on_hold or (view.has(Type.BLOCKED) and not view.has(Type.STALLED) and not _blocked(view, plan))
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


def _needs_a_person(view: Snapshot, step: Step) -> bool:
    """Whether a step keeps the deletion waiting for a person.

    No sweep does in a dry run, nor in a deletion that leaves the project: these end by themselves, and name what is
    left.
    """
    d, sweeps = view.deletion, step.kind in (StepKind.SWEEP, StepKind.UNSUPPORTED)
    return (d.profile.insists or not sweeps) and only_a_person_clears(d, step)


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


def drained(drain: Step) -> Actions:
    """Return what follows from a clear result of the drain: since when the project is locked, or for whom it is not."""
    assert drain.finished_at is not None
    if drain.reason:
        return (SetCondition(Type.DRAINED, False, drain.reason, drain.message),)
    return (MarkDrained(drain.finished_at), fine(Type.DRAINED, drain.message))


def closed(message: str) -> SetCondition:
    """Return that the project is disabled, which locks it, too."""
    return SetCondition(Type.DRAINED, True, "project_disabled", message)


# ------------------------------------------------------------------------------- what a snapshot shows of each type
def _reopened(type_: Type, view: Snapshot) -> SetCondition | None:
    """Return the end of a drain that was undone by another client."""
    if view.settle_until is not None or not view.has(Type.DRAINED):
        return None
    text = "the project was enabled again, or a role on it was given: it is closed and proven empty anew"
    return SetCondition(type_, False, "reopened", text)


def _drained(view: Snapshot, _plan: ActionPlan) -> SetCondition | None:
    return _reopened(Type.DRAINED, view)


def _settled(view: Snapshot, _plan: ActionPlan) -> SetCondition | None:
    """Return whether tokens from before the drain may still be cached."""
    until = view.settle_until
    if until is None:
        return _reopened(Type.SETTLED, view)
    if view.now >= until:
        return fine(Type.SETTLED, f"no service caches a token from before the lock since {utc(until)}")
    text = f"tokens validated before the lock may be cached by services until {utc(until)}"
    return SetCondition(Type.SETTLED, False, "token_caches", text)


def _project_gone(view: Snapshot, _plan: ActionPlan) -> SetCondition | None:
    """Return that another client deleted the project."""
    if (gone := view.deletion.project_gone_at) is None:
        return None
    text = f"Keystone no longer knew the project at {utc(gone)}: another client deleted it"
    return SetCondition(Type.PROJECT_GONE, True, "deleted_elsewhere", text)


def _waiting(view: Snapshot, plan: ActionPlan) -> SetCondition | None:
    """Return that the deletion waits for its first place, or for the projects below."""
    d, waits = view.deletion, view.deletion.condition(Type.WAITING)
    if plan.queue_state is QueueState.WAITING and not view.begun:
        text = f"{view.rules.deletions_at_once} deletions may be worked on at once ([engine] deletions_at_once), and "
        text += "their places go round by domain and requester"
        earlier = f": {d.queue.before} earlier ones of the same requester in this domain wait, too"
        return SetCondition(Type.WAITING, True, QUEUE, text + (earlier if d.queue.before else ""))
    if waits is not None and waits.reason == QUEUE and not plan.awaits_children:
        return SetCondition(Type.WAITING, False, QUEUE, "it has begun")
    if view.below and (plan.awaits_children or waits is not None):
        return SetCondition(Type.WAITING, True, "children", view.below)
    return None


def _scheduled(view: Snapshot, _plan: ActionPlan) -> SetCondition | None:
    """Return that the deletion waits for its date."""
    at = view.deletion.not_before
    if at is None or not view.waits_for_date:
        return None
    text = f"nothing of it begins before {utc(at)}: 'openstack project deletion set {view.deletion.id} --at' changes it"
    near = [days for days in view.rules.reminders if view.now >= at - datetime.timedelta(days=days)]
    return SetCondition(Type.SCHEDULED, True, f"in_{min(near)}_days" if near else DATE, text)


def _approval(_view: Snapshot, plan: ActionPlan) -> SetCondition | None:
    return SetCondition(Type.APPROVAL, True, plan.needs.reason, plan.needs.message) if plan.needs else None


def _waived(view: Snapshot, _plan: ActionPlan) -> SetCondition | None:
    text = "; ".join(waiver.explained for waiver in view.deletion.waivers)
    return SetCondition(Type.WAIVED, True, "waivers", f"it skips {text}") if text else None


def _forced(view: Snapshot, _plan: ActionPlan) -> SetCondition | None:
    if force.asked(view.deletion) is None:
        return None
    return SetCondition(Type.FORCED, True, "forced", force.summary(view.deletion, view.steps).removeprefix("; "))


def _halted(view: Snapshot, plan: ActionPlan) -> SetCondition | None:
    """Return whether what runs is stopped, while that is being done."""
    if not plan.halts:
        return None
    ended = [s for s in plan.halts if done(s, view.deletion.since_round)]
    text = "; ".join(s.message for s in ended) or "what runs is being stopped"
    failed = next((s.reason for s in ended if s.outcome is not Outcome.CLEAR), "")
    if len(ended) == len(plan.halts) and not failed:
        return fine(Type.HALTED, text)
    return SetCondition(Type.HALTED, False, failed or "under_way", text)


def _on_hold(view: Snapshot, _plan: ActionPlan) -> SetCondition | None:
    return SetCondition(Type.ON_HOLD, True, view.hold.reason, view.hold.message) if view.hold else None


def _blocked(view: Snapshot, _plan: ActionPlan) -> SetCondition | None:
    """Return that the deletion, or that of a project below, needs a person to go on."""
    d = view.deletion
    names = sorted({_named(step) for step in view.steps if _needs_a_person(view, step)})
    if view.below and not d.dry_run and d.status is not Status.CANCELLING:
        names += sorted(
            f"project {c.project_name or c.project_id}: {', '.join(c.attention)}" for c in trees.needing_person(d)
        )
    return SetCondition(Type.BLOCKED, True, "person_needed", "; ".join(names)) if names else None


def _stalled(view: Snapshot, plan: ActionPlan) -> SetCondition | None:
    """Return that the deletion makes no progress."""
    if plan.stalls_at is None or view.now < plan.stalls_at:
        return None
    names = {f"{b.service}.{b.type}@{b.region}: {b.reason}" for b in blockers(view.deletion, view.steps)}
    names |= {f"{step.name}@{step.region}: no answer of a worker" for step in view.steps if _awaited(view, step)}
    text = "blocked by " + ("; ".join(sorted(names)) or "no answer of a worker")
    return SetCondition(Type.STALLED, True, "no_progress", text)


#: What shows each condition; ``None``: nothing does. ``blocked`` comes before ``stalled``: see ``actions``.
_OBSERVERS: Mapping[Type, Callable[[Snapshot, ActionPlan], SetCondition | None]] = {
    Type.DRAINED: _drained,
    Type.SETTLED: _settled,
    Type.PROJECT_GONE: _project_gone,
    Type.SCHEDULED: _scheduled,
    Type.WAITING: _waiting,
    Type.APPROVAL: _approval,
    Type.WAIVED: _waived,
    Type.FORCED: _forced,
    Type.HALTED: _halted,
    Type.BLOCKED: _blocked,
    Type.ON_HOLD: _on_hold,
    Type.STALLED: _stalled,
}
