"""Decides what happens next with a deletion. Pure: no I/O, clock, configuration.

``decide`` reads one deletion and its steps as they are stored, and returns actions. ``actions.apply`` turns the actions
into new values and journal lines. The engine loads, calls these two, and saves with compare-and-swap. Decisions are
level-triggered: the same facts give the same decision. So a lost, repeated or late message costs time and changes
nothing else.

Each status has one handler. A handler asks the ``Snapshot``, collects dispatches and wake-up times in the
``ActionPlan``, and returns the actions that change the deletion. ``verifying`` has the handler of that status.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

from cleanup_orchestrator.core import approvals, backoff, conditions, dependencies, force, plugin_liens
from cleanup_orchestrator.core.action_plan import QUEUE_WAKE, ActionPlan
from cleanup_orchestrator.core.actions import (
    STATE_CHANGES,
    Abandon,
    Actions,
    Dispatch,
    MarkRecoverable,
    Move,
    OpenRound,
    Reprove,
    SetQueueState,
    UseForce,
    Wake,
)
from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import DeletionCase, RoundPurpose, Status
from cleanup_orchestrator.core.guard import NAMED_LIENS
from cleanup_orchestrator.core.queue import QueueState
from cleanup_orchestrator.core.reasons import Reason, StatusReason
from cleanup_orchestrator.core.rounds import Progress, Round, drive, found_empty, summary
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.selection import unmatched
from cleanup_orchestrator.core.snapshot import Snapshot, done
from cleanup_orchestrator.core.step import Outcome, Step, StepKind
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.core.verifying import verifying


def decide(
    deletion: DeletionCase, steps: Sequence[Step], now: datetime.datetime, rules: Rules | None = None
) -> Actions:
    """Return what to do next with a deletion.

    :param steps: all of them, as stored
    :param now: the database's time, UTC
    :returns: actions in the order in which they apply; empty if only a person can move the deletion on
    """
    if deletion.status not in LIVE:
        return ()
    view = Snapshot(deletion, steps, now, rules or Rules())
    plan = ActionPlan(view)
    known = view.known if deletion.profile.adopted and deletion.status is not Status.CANCELLING else None
    if not known and (hold_over := _after_hold(view)):
        return _with_place(view, hold_over)
    if known:
        actions = _end_known_project(known, plan)
    elif view.lost:
        actions = _lost(plan)
    else:
        actions = _HANDLERS[deletion.status](view, plan)
    if any(isinstance(a, STATE_CHANGES) for a in actions):
        return actions
    plan.withhold()
    plan.limit_sweeps()
    plan.take_place()
    if plan.dispatches:  # a cast may be lost: then it is sent again
        plan.wake(now + view.rules.claim_timeout)
    plan.stalls_at = conditions.stalls_at(view, plan)
    if plan.stalls_at is not None and now < plan.stalls_at:
        plan.wake(plan.stalls_at)
    observed = conditions.observed(view, plan)
    place = () if plan.queue_state is deletion.queue_state else (SetQueueState(plan.queue_state),)
    return (*actions, *observed, *place, *plan.dispatches, Wake(min(plan.wakes)))


def _end_known_project(step: Step, plan: ActionPlan) -> Actions:
    """End an adopted deletion, because a step found that Keystone knows the project."""
    return plan.end(Status.FAILED, step.reason, step.message)


def _lost(plan: ActionPlan) -> Actions:
    """End a deletion that keeps its project, because another client deleted the project: nothing can be given back."""
    text = "another client deleted the project: what is left of it has no project now, and an orphan scan finds it"
    return plan.end(Status.FAILED, Reason.PROJECT_GONE, text)


def _after_hold(view: Snapshot) -> Actions:
    """End the condition ``on_hold``, and survey or prove the project empty again.

    The hold may have lasted for days. So the never-delete list, the waivers and the catalog are read again before
    anything is deleted, and the project is proven empty again before it is removed. But if the close step has begun, it
    ends first: the project may be disabled by now, and then no token for it can be had. An inventory follows it anyway.
    """
    d = view.deletion
    if view.hold is not None or not view.was_on_hold:
        return ()
    over = conditions.fine(ConditionType.ON_HOLD)
    survey = Dispatch(view.survey.id), Wake(view.now + view.rules.claim_timeout)
    if d.status is Status.DRAINING:
        return (over, *survey)
    if d.status is Status.DELETING:
        return (over, OpenRound(RoundPurpose.DELETE), *survey)
    if view.giving_back:
        return (over,)
    if view.task(StepKind.CLOSE).round == d.round and not d.closed_at:
        return (over,)
    if d.status is Status.VERIFYING and d.empty_inventories and d.purpose is not RoundPurpose.PROJECT_SETTINGS:
        return (over, Reprove("the deletion was on hold: the project is proven empty anew"))
    return ()


def _with_place(view: Snapshot, hold_over: Actions) -> Actions:
    """Return how a deletion goes on after a hold; without a place, it waits for one first."""
    if not any(isinstance(action, Dispatch) for action in hold_over):
        return hold_over
    if not view.may_work:
        return (SetQueueState(QueueState.WAITING), Wake(view.now + QUEUE_WAKE))
    return (*hold_over, SetQueueState(QueueState.WORKING))


def await_children(view: Snapshot, plan: ActionPlan) -> Actions:
    """Ask Keystone again for the projects below, from time to time or if one is gone."""
    survey = view.survey
    if view.under_way(survey):
        plan.follow(survey)
    else:
        assert survey.finished_at is not None
        at = view.now if view.child_gone_since_survey else survey.finished_at + view.rules.heartbeat
        plan.dispatch_at(survey, at)
    plan.awaits_children = True
    return ()


# --------------------------------------------------------------------------------------------- accepted and draining
def _accepted(view: Snapshot, plan: ActionPlan) -> Actions:
    d = view.deletion
    if view.waits_for_date and d.not_before is not None:
        # Not even the catalog is read: what a survey finds today may be wrong at the date.
        ahead = (d.not_before - datetime.timedelta(days=days) for days in (0, *view.rules.reminders))
        plan.wake_only(min(at for at in ahead if at > view.now))
        return ()
    survey = plan.run(StepKind.SURVEY)
    if survey is None:
        return ()
    if failed := view.survey_failed:
        return plan.fail(failed)
    if survey.outcome is not Outcome.CLEAR:
        return ()
    if lost := unmatched(d.selection, view.steps):
        text = f"the selection names {', '.join(lost)}, and the catalog has no such service or type: nothing is deleted"
        return plan.end(Status.FAILED, StatusReason.NOT_IN_CATALOG, text)
    if d.dry_run:
        return (Move(Status.INVENTORY, StatusReason.DRY_RUN, "taking an inventory without any write"),)
    if d.profile.only_reports:
        text = "taking an inventory first: a project that is not empty is not locked"
        return (Move(Status.INVENTORY, StatusReason.INVENTORY_FIRST, text),)
    if view.below:
        return await_children(view, plan)
    plan.needs = approvals.for_deletion(d, view.rules.approval_deletions)
    if plan.needs:  # nothing is locked for a deletion that may never be approved
        return ()
    if d.project_gone_at:
        return (Move(Status.INVENTORY, StatusReason.PROJECT_GONE, survey.message),)
    return (Move(Status.DRAINING, StatusReason.CASCADE, ""),)


def _access_settled(view: Snapshot, plan: ActionPlan) -> bool:
    """Schedule the access step; return whether its result, good or bad, is final."""
    access = plan.run(StepKind.ACCESS)
    if access is None:
        return False
    if access.outcome is Outcome.CLEAR:
        return True
    if access.reason == Reason.NO_PROJECT_TOKEN or access.attempt >= view.rules.attempts:
        # Steps that need such a token report "unknown". Everything else goes on.
        plan.drop(access)
        return True
    return False


def _draining(view: Snapshot, plan: ActionPlan) -> Actions:
    if view.deletion.project_gone_at:
        text = "another client deleted the project: there is nothing to lock"
        return (Move(Status.INVENTORY, StatusReason.PROJECT_GONE, text),)
    survey = plan.run(StepKind.SURVEY)  # it runs again after a hold
    if failed := view.survey_failed:
        return plan.fail(failed)
    if survey is None or survey.outcome is not Outcome.CLEAR or not _access_settled(view, plan):
        return ()
    drain = plan.run(StepKind.DRAIN)
    if drain is None:
        return ()
    if drain.outcome is Outcome.CLEAR:
        reason = StatusReason.DRAINED_IN_PART if drain.reason else StatusReason.DRAINED
        return (*conditions.drained(drain), Move(Status.INVENTORY, reason, drain.message))
    if view.retries_exhausted(drain):
        plan.drop()
        return plan.end(Status.LEFTOVERS, StatusReason.DRAIN_FAILED, drain.message)
    return ()


# ------------------------------------------------------------------------------------------ inventory and recoverable
def _inventory(view: Snapshot, plan: ActionPlan) -> Actions:
    d, round_ = view.deletion, Round(view)
    if d.purpose is RoundPurpose.NONE:
        if not d.dry_run and not d.project_gone_at and not _access_settled(view, plan):
            return ()
        return (OpenRound(RoundPurpose.INVENTORY),)
    progress = Progress(over=True) if view.giving_back else drive(round_, plan)
    if failed := view.survey_failed:
        return plan.fail(failed)
    if not progress.over:
        return ()
    totals = summary(round_.results(Outcome.LEFTOVERS), round_.results(Outcome.UNKNOWN))
    if d.profile.keeps_project and not d.dry_run and (round_.lien_unknown or view.giving_back):
        # Without these lists nothing is deleted, and the users of a project that stays are not locked out for ever.
        text = "nothing is deleted, because a type that may raise a lien could not be listed: "
        return plan.end(Status.LEFTOVERS, StatusReason.UNKNOWN, text + totals)
    if d.dry_run:
        liens = "".join(f"; a deletion would be refused: {lien}" for lien in d.liens[:NAMED_LIENS])
        conclusion = conditions.planned(view)
        missing = "".join(f"; INCOMPLETE, {c.message}" for c in conclusion if not c.status)
        return (*conclusion, Move(Status.PLANNED, StatusReason.DRY_RUN_OVER, totals + liens + missing))
    if d.profile.only_reports:
        return _after_report(round_, plan, totals)
    if not d.profile.keeps_project or not round_.found_nothing:  # a project that is kept is not locked for no delete
        if waiting := _wait_before_deleting(view):
            return waiting
        on_hold = _hold_before_deleting(round_, plan)
        if on_hold is not None:
            return on_hold
    if not d.project_gone_at and round_.found_nothing:
        # A delete round would list the same types once more, delete nothing, and prove nothing: the inventories of the
        # verification do, and they go back to deleting if they find something. Of a project that is gone, the delete
        # rounds also sweep the informational types.
        return (Move(Status.VERIFYING, StatusReason.INVENTORY_EMPTY, totals),)
    return (Move(Status.DELETING, StatusReason.CASCADE, totals),)


def _after_report(round_: Round, plan: ActionPlan, totals: str) -> Actions:
    """End a report that found something, and lock a project that was empty."""
    view, d = round_.view, round_.view.deletion
    leftovers, unknown = round_.results(Outcome.LEFTOVERS), round_.results(Outcome.UNKNOWN)
    if leftovers or unknown:
        return plan.end(Status.LEFTOVERS, StatusReason.LEFTOVERS if leftovers else StatusReason.UNKNOWN, totals)
    drain = view.task(StepKind.DRAIN)
    drained = done(drain, d.since_round) and drain.outcome is Outcome.CLEAR
    if drained or d.project_gone_at:
        return (Move(Status.VERIFYING, StatusReason.INVENTORY_EMPTY, ""),)
    if view.below and view.children_under_way:
        return await_children(view, plan)
    if view.below:
        return plan.end(Status.LEFTOVERS, Reason.PROJECT_HAS_CHILDREN, view.below)
    text = "the inventory before the lock was empty"
    return (Move(Status.DRAINING, StatusReason.EMPTY_BEFORE_DRAIN, text),)


def _wait_before_deleting(view: Snapshot) -> Actions:
    """Delay the first delete while an approval is missing or the window is open."""
    d, rules = view.deletion, view.rules
    until = d.point_of_no_return_at
    opening: Actions = ()
    if rules.recovery_window and until is None:
        until = view.now + rules.recovery_window
        opening = (MarkRecoverable(until),)
    needs = approvals.for_resources(d, view.steps, rules.approval_resources)
    waits = until is not None and view.now < until
    if not needs and not waits:
        return ()
    why = [f"nothing is deleted before {utc(until)}"] if until and waits else []
    why += [needs.message] if needs else []
    reason = needs.reason if needs else StatusReason.RECOVERY_WINDOW
    return (*opening, Move(Status.RECOVERABLE, reason, "; ".join(why)))


def _hold_before_deleting(round_: Round, plan: ActionPlan) -> Actions | None:
    """Wait while on hold, if types raise liens; ``None``: the deletes may begin.

    So the first delete follows an inventory that found no lien, and not an inventory of some days ago. A type whose own
    lien is in force is listed from time to time meanwhile, because the lien ends with its reason.
    """
    view, rules = round_.view, round_.view.rules
    if not rules.lien_types or (view.hold is None and not view.was_on_hold):
        return None
    if view.hold is None:
        return (conditions.fine(ConditionType.ON_HOLD), OpenRound(RoundPurpose.INVENTORY))
    plan.delete_is_next = True
    for step in plugin_liens.raised(view.deletion, round_.subjects):
        assert step.finished_at is not None
        plan.dispatch_at(step, step.finished_at + rules.heartbeat)
    return ()


def _recoverable(view: Snapshot, plan: ActionPlan) -> Actions:
    plan.needs = approvals.for_resources(view.deletion, view.steps, view.rules.approval_resources)
    until = view.deletion.point_of_no_return_at
    halts = _halts(view)
    if until and view.now < until:
        # No heartbeat for days: an approval or a restore causes a decision at once.
        plan.wake_only(until)
        _halt(view, plan, halts)
        return ()
    busy = next((s for s in halts if view.under_way(s)), None)
    if not plan.needs and busy is not None:
        plan.follow(busy)
    if plan.needs or busy is not None:
        return ()
    # It may have waited for weeks: only what is there now is deleted, and no more than was approved.
    text = "another inventory follows, right before the first delete"
    return (Move(Status.INVENTORY, StatusReason.INVENTORY_AGAIN, text),)


def _halts(view: Snapshot) -> list[Step]:
    """Return the steps that stop what runs, while the project can be restored."""
    if view.deletion.project_gone_at or not view.deletion.profile.requested:  # it cannot be restored
        return []
    return [s for s in view.steps if s.kind is StepKind.HALT]


def _halt(view: Snapshot, plan: ActionPlan, halts: Sequence[Step]) -> None:
    """Stop what runs, once in an attempt.

    A stop that fails is tried again until the window is over.
    """
    since, plan.halts = view.deletion.since_round, halts
    for step in halts:
        if step.round < since:
            plan.dispatch(step)
        elif view.under_way(step):
            plan.follow(step)
        elif step.outcome is not Outcome.CLEAR:
            plan.retry(step)
    if not all(done(s, since) and s.outcome is Outcome.CLEAR for s in halts):
        plan.wake(view.now + view.rules.heartbeat)


# ---------------------------------------------------------------------------------------------------------- deleting
def _deleting(view: Snapshot, plan: ActionPlan) -> Actions:
    d, rules, round_ = view.deletion, view.rules, Round(view)
    if force.pending(d):
        return (OpenRound(RoundPurpose.DELETE),)
    if d.purpose is RoundPurpose.NONE:
        if d.reason == StatusReason.FOUND_AGAIN:  # what is found each time must not cause a fast endless loop
            at = d.status_at + backoff.delay((d.round - d.since_round) // 3, rules.retry_base, rules.retry_cap)
            if view.now < at and not (d.retry_now_at and d.retry_now_at >= d.status_at):
                plan.wake(at)
                return ()
        return (OpenRound(RoundPurpose.DELETE, found_empty(view)),)
    progress = drive(round_, plan)
    if failed := view.survey_refused or view.survey_failed or round_.protected:
        # Leave the round first, so that nothing more is deleted. The next survey decides.
        return (Move(Status.VERIFYING, failed.reason, failed.message),)
    if needs := approvals.for_resources(d, view.steps, rules.approval_resources):
        return (Move(Status.VERIFYING, needs.reason, f"nothing more is deleted for now: {needs.message}"),)
    if progress.over:
        return (Move(Status.VERIFYING, StatusReason.ALL_DELETED, force.summary(d, view.steps).removeprefix("; ")),)
    return _use_force(round_, plan, progress.moving)


def _use_force(round_: Round, plan: ActionPlan, moving: bool) -> Actions:
    """Under force, once nothing moves, use the force of the types, then abandon.

    No step is forced while another one may still change: that change may free what blocks this step. For the same
    reason a step whose resources the leftovers of another stuck step need comes after that one. It is tried again in
    the ordinary way first: what the leftovers needed was not tried.
    """
    view = round_.view
    if not round_.force_applies:
        return ()
    if not round_.force_due:
        plan.wake(view.deletion.progress_at + view.rules.force_patience)
        return ()
    if moving:
        return ()
    unrecoverable = [s for s in round_.subjects if round_.unrecoverable(s)]
    later = [s for s in unrecoverable if dependencies.may_need(s, unrecoverable, view.deletion.round)]
    first = [s for s in unrecoverable if s not in later]
    if usable := [s for s in first if force.usable(view.deletion, s)]:
        return tuple(UseForce(s.id) for s in usable)
    return (*(Abandon(s.id) for s in first), *(Dispatch(s.id) for s in later))


#: What is said of a cancel and of a restore once they have ended, by the reason of the status before.
_STOPPED = {"cancelling": "cancelled", "restoring": "restored"}


def _cancelling(view: Snapshot, plan: ActionPlan) -> Actions:
    d = view.deletion
    said = _STOPPED.get(d.reason, "")
    text = said + d.message.removeprefix(d.reason) if said and d.message.startswith(d.reason) else d.message
    if d.project_gone_at and not d.profile.adopted:
        text += "; Keystone no longer knows the project"
    return plan.end(Status.CANCELLED, StatusReason.CANCELLED, text)


_HANDLERS: dict[Status, Callable[[Snapshot, ActionPlan], Actions]] = {
    Status.ACCEPTED: _accepted,
    Status.DRAINING: _draining,
    Status.INVENTORY: _inventory,
    Status.RECOVERABLE: _recoverable,
    Status.DELETING: _deleting,
    Status.VERIFYING: verifying,
    Status.CANCELLING: _cancelling,
}
