"""Decides for a deletion in status ``verifying``. Pure.

The order is: drain, prove empty, close, prove empty again, remove.
"""

from __future__ import annotations

import datetime

from cleanup_orchestrator.core import approvals, conditions, dependencies, dispatch, force, lock
from cleanup_orchestrator.core.action_plan import ActionPlan
from cleanup_orchestrator.core.actions import (
    Actions,
    CountEmpty,
    MarkClosed,
    Move,
    OpenRound,
    Reprove,
    waived_text,
)
from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import Deletion, RoundPurpose, Status
from cleanup_orchestrator.core.reasons import Reason, StatusReason
from cleanup_orchestrator.core.rounds import Progress, Round, drive, summary
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.selection import unmatched
from cleanup_orchestrator.core.snapshot import Snapshot, done, scoped_lists
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepState

#: Results of the removal that do not change with time: the project is given back, and a person decides.
REMOVAL_REFUSED = frozenset({Reason.PROJECT_HAS_CHILDREN, Reason.PROJECT_IMMUTABLE})


def verifying(view: Snapshot, plan: ActionPlan) -> Actions:
    """Return what to do next with a deletion that is being verified."""
    d = view.deletion
    if d.purpose is RoundPurpose.PROJECT_SETTINGS:
        return _remove(view, plan) or _leave_settings_round(view)
    if force.pending(d):
        return (Move(Status.DELETING, StatusReason.FORCED, str(force.asked(d))),)
    if d.purpose is RoundPurpose.INVENTORY:
        return _inventory(Round(view), plan)
    return _between_inventories(view, plan)


# -------------------------------------------------------------------------------------------------- during an inventory
def _inventory(round_: Round, plan: ActionPlan) -> Actions:
    """Drive the inventory, and count it if it is complete and empty.

    Once the project is being given back, its inventory is over: nothing is listed without the lock, and nothing counts.
    """
    view = round_.view
    progress = Progress(over=True) if view.giving_back else drive(round_, plan)
    if failed := view.survey_failed:
        return plan.fail(failed)
    if not progress.over:
        return ()
    return _empty(view, plan) if round_.found_nothing and not view.giving_back else _not_empty(round_, plan)


def _empty(view: Snapshot, plan: ActionPlan) -> Actions:
    """Count an empty inventory, unless it began before the settling time was over."""
    d, until = view.deletion, view.settle_until
    if until and d.round_opened_at and d.round_opened_at < until:  # the project was deleted during the inventory
        plan.wake(until)
        return (OpenRound(RoundPurpose.INVENTORY),) if view.now >= until else ()
    return (CountEmpty(),)


def _not_empty(round_: Round, plan: ActionPlan) -> Actions:
    """Return what follows an inventory that is not empty: deletes, approval, report."""
    view, d = round_.view, round_.view.deletion
    leftovers, unknown = round_.results(Outcome.LEFTOVERS), round_.results(Outcome.UNKNOWN)
    totals = summary(leftovers, unknown)
    never = round_.behind_out_of_reach if d.profile.insists else ()
    stays = all(round_.out_of_reach(s) or s.id in never for s in leftovers)
    if d.project_gone_at and stays and all(round_.out_of_reach(s) for s in unknown):
        text = "another client deleted the project, and a token for it can no longer be had: "
        return plan.end(Status.LEFTOVERS, StatusReason.PROJECT_GONE, text + totals)
    if d.profile.only_reports:
        return plan.end(Status.LEFTOVERS, StatusReason.FOUND_AGAIN, totals)
    if view.unplanned:
        text = f"{view.unplanned} are not in plan {d.plan_id}, and are not deleted: "
        return plan.end(Status.LEFTOVERS, StatusReason.UNPLANNED, text + totals + _needed_by_others(round_))
    if d.profile.keeps_project:  # its users wait for the project: they clear what is left, and retry
        reason = StatusReason.LEFTOVERS if leftovers else StatusReason.UNKNOWN
        needs = approvals.for_resources(d, view.steps, view.rules.approval_resources)
        refused = f"; nothing more was deleted: {needs.message}, and a retry waits for that" if needs else ""
        return plan.end(Status.LEFTOVERS, reason, totals + refused + _needed_by_others(round_))
    plan.needs = approvals.for_resources(d, view.steps, view.rules.approval_resources)
    if plan.needs:
        return ()
    if view.has(ConditionType.APPROVAL):
        # It may have waited for days: only what is there now is deleted, and no more than was approved.
        return (conditions.fine(ConditionType.APPROVAL), OpenRound(RoundPurpose.INVENTORY))
    return (Move(Status.DELETING, StatusReason.FOUND_AGAIN, f"verification found {totals}"),)


def _needed_by_others(round_: Round) -> str:
    """Name the selected types that were not deleted because types of which resources stay may need them.

    A type outside of the selection that could not be listed may have such resources, too.
    """
    if not round_.view.deletion.profile.keeps_project:
        return ""
    unknown = {s.id for s in round_.subjects if s.outcome is Outcome.UNKNOWN and not round_.selected(s)}
    others = [s for s in round_.subjects if s.unselected or s.unplanned or s.id in unknown]
    behind: dict[str, set[str]] = {}
    for step in round_.results(Outcome.LEFTOVERS):  # of each region
        behind.setdefault(step.name, set()).update(dependencies.staying(step, others))
    said = [f"{name} may be needed by {', '.join(sorted(names))}" for name, names in sorted(behind.items()) if names]
    return f"; not deleted, because other resources may need them: {'; '.join(said)}" if said else ""


# ------------------------------------------------------------------------------------------------- between inventories
def _between_inventories(view: Snapshot, plan: ActionPlan) -> Actions:
    """Return what precedes the next inventory, or follows the last one."""
    d = view.deletion
    if _drain_lost(view):
        return _drain_again(view, plan)
    if d.empty_inventories >= _needed(d, view.rules):
        if d.profile.keeps_project:
            return _give_back(view, plan)
        if d.profile.noticed:
            text = "another client deleted the project, and none of its members' resources is left"
            return (Move(Status.DELETED, StatusReason.PROJECT_GONE, text + waived_text(d)),)
        if not d.closed_at and not d.project_gone_at:
            return _close(view, plan)
        return (OpenRound(RoundPurpose.PROJECT_SETTINGS),) if view.hold is None else ()
    until = view.settle_until
    if until and view.now < until and not _hopeless(view):
        plan.wake(until)
        return ()
    return (OpenRound(RoundPurpose.INVENTORY),)


def _hopeless(view: Snapshot) -> bool:
    """Whether the project cannot become empty in this attempt, so that it is not locked any longer than necessary."""
    return bool(view.unplanned) or (view.deletion.profile.keeps_project and not Round(view).found_nothing)


def _give_back(view: Snapshot, plan: ActionPlan) -> Actions:
    """End a deletion that keeps its project, once a survey after the last inventory found the lock in effect."""
    d = view.deletion
    if failed := view.survey_failed:
        return plan.fail(failed)
    if d.drained_at and not view.giving_back and not _surveyed_last(view, plan):
        return ()
    if lost := unmatched(d.selection, view.steps):
        text = f"the catalog no longer has {', '.join(lost)}, which the selection names: unknown"
        return plan.end(Status.LEFTOVERS, StatusReason.NOT_IN_CATALOG, text)
    return plan.end(Status.PURGED, StatusReason.PURGED, _purged(view))


def _surveyed_last(view: Snapshot, plan: ActionPlan) -> bool:
    """Whether a survey began after the last list of the last inventory, and is clear; schedule it.

    If it finds that the lock was lost, it voids the inventories: a user may have created resources behind them.
    """
    survey = plan.run(StepKind.SURVEY)
    if survey is None or survey.outcome is not Outcome.CLEAR:
        return False
    assert survey.started_at is not None
    lists = (s.finished_at for s in view.steps if s.kind is StepKind.SWEEP and s.round == view.deletion.round)
    if any(ended and ended > survey.started_at for ended in lists):
        plan.dispatch(survey)
        return False
    return True


def _purged(view: Snapshot) -> str:
    """Return what a purged project still has, and what the proof rests on."""
    d = view.deletion
    stays = f"; {view.unselected} resources that are not selected stay" if view.unselected else ""
    unlocked = "" if d.drained_at else "; the project was not locked completely, so that users may have created more"
    return f"what was selected is gone, and the project is given back{stays}{unlocked}{waived_text(d)}{lock.unseen(d)}"


def _drain_lost(view: Snapshot) -> bool:
    """Whether another client undid or changed the lock, so that the drain has to be repeated."""
    d = view.deletion
    if d.drained_at or d.closed_at or d.project_gone_at or d.profile.noticed:
        return False
    drain, close = view.task(StepKind.DRAIN), view.task(StepKind.CLOSE)
    if not done(drain, d.since_round):
        return True
    if drain.outcome is Outcome.UNKNOWN or not drain.reason:  # with a reason, the drain never held completely
        return True
    # Closed in an earlier round, after the drain, which enables the project again, so that every type can be listed.
    closed = done(close, d.since_round) and close.round < d.round and close.outcome is Outcome.CLEAR
    return closed and _ended(close) > _ended(drain)


def _ended(step: Step) -> datetime.datetime:
    assert step.finished_at is not None
    return step.finished_at


def _drain_again(view: Snapshot, plan: ActionPlan) -> Actions:
    """Lock the project again before an inventory counts.

    Types that need a token of the project are listed for the last time in it.
    """
    closing = dispatch.under_way_until(view.task(StepKind.CLOSE), view.rules)
    if closing is not None and view.now < closing:  # it may disable the project that the drain enables
        plan.wake(closing)
        return ()
    if view.under_way(view.survey):
        # A survey drops the record of what a user gave back. It may have read that before the drain takes it again.
        plan.follow(view.survey)
        return ()
    drain = plan.run(StepKind.DRAIN, view.deletion.round)
    if drain is None:
        return ()
    if drain.outcome is Outcome.CLEAR:
        return conditions.drained(drain)
    if view.retries_exhausted(drain):
        plan.drop()
        return plan.end(Status.LEFTOVERS, StatusReason.DRAIN_FAILED, drain.message)
    return ()


def _needed(d: Deletion, rules: Rules) -> int:
    """Return how many empty inventories the verification needs before its next stage.

    Before the project is disabled, ``empty_inventories`` (two) are needed. If the drain had taken hold by then, one
    more is needed afterwards, unless the drain is known to have held at each moment until the project was disabled:
    then the two still count. If the drain had not taken hold (inherited grants, or no drain), disabling the project was
    the drain. Then only later inventories prove anything, and all of them are needed again.
    """
    if d.closed_at and d.drained_at and d.drained_at < d.closed_at:
        return 1
    return rules.empty_inventories


def _close(view: Snapshot, plan: ActionPlan) -> Actions:
    """Disable the project."""
    close = plan.run(StepKind.CLOSE, view.deletion.round)  # not an earlier one: the project was enabled again since
    if close is None:
        return ()
    if close.outcome is Outcome.CLEAR:
        assert close.finished_at is not None
        text = close.message + _last_scoped_lists(view)
        # Without this knowledge, a user may have had access between the last inventory and this moment. Then one more
        # inventory follows. With it, such an inventory would prove nothing new: the two complete ones already began
        # after the drain and the settling time, and no user had access since.
        held = view.deletion.drained_at is not None and close.reason == Reason.DRAIN_HELD
        return (MarkClosed(close.finished_at, held), conditions.closed(text))
    if view.retries_exhausted(close):
        return plan.fail(close)
    return ()


def _last_scoped_lists(view: Snapshot) -> str:
    """Name the types that can no longer be listed once the project is disabled."""
    listed = scoped_lists(view.deletion, view.steps)
    if not listed:
        return ""
    when = "while the project was locked" if view.deletion.drained_at else "while others still got tokens"
    at, names = min(listed.values()).isoformat(), ", ".join(sorted({step.name for step in listed}))
    return f"; empty at the last list with a token of the project, not before {at}Z, {when}: {names}"


# ----------------------------------------------------------------------------------------------- the last round
def _remove(view: Snapshot, plan: ActionPlan) -> Actions:
    """Drive the round of project settings, and then remove the project."""
    d = view.deletion
    if not drive(Round(view), plan).over:
        return ()
    if d.profile.adopted:
        text = f"the project was gone already, and nothing of it is left{_settings_left(view)}" + waived_text(d)
        return (Move(Status.DELETED, StatusReason.PROJECT_GONE, text),)
    remove = plan.run(StepKind.REMOVE, d.round)
    if remove is None:
        return ()
    if remove.outcome is Outcome.CLEAR:
        empty = "; nothing that was listed is left" if d.waivers else "; nothing is left"
        empty = "" if force.asked(d) is not None else empty + _settings_left(view)
        text = f"removed{empty}" + waived_text(d) + lock.unseen(d)
        if force.asked(d) is not None:
            return (Move(Status.DELETED, StatusReason.DELETED_BY_FORCE, text + force.summary(d, view.steps)),)
        return (Move(Status.DELETED, StatusReason.DELETED, text),)
    if view.waits_out(remove.reason):
        # The survey of the next proof waits until the cause is gone. If the survey does not see the cause, proof and
        # removal follow each other for ever. A proof and a removal take about three rounds. So before the n-th repeated
        # proof the removal is tried n times, with backoff, and the loop becomes slower.
        tried = remove.attempt >= (d.round - d.since_round) // 3
        return (Reprove(f"the project is not removed now: {remove.message}"),) if tried else ()
    if view.retries_exhausted(remove) or remove.reason in REMOVAL_REFUSED:
        # A cancel is no longer possible, so the deletion itself has to give the project back.
        return plan.fail(remove)
    return ()


def _settings_left(view: Snapshot) -> str:
    """Name the types of project settings that are not proven gone: the project is removed all the same."""
    settings = (s for s in view.steps if s.kind is StepKind.SWEEP and s.project_setting and not s.waived)
    left = sorted({s.name for s in settings if s.outcome is not Outcome.CLEAR})
    return f" but settings of the project: {', '.join(left)}" if left else ""


def _leave_settings_round(view: Snapshot) -> Actions:
    """Leave the round of project settings while the project must not be removed, so that a cancel is possible.

    The round is not left once the removal may have begun. After the round the project is proven empty again.
    """
    remove = view.task(StepKind.REMOVE)
    withheld = remove.state is StepState.DONE and remove.reason == Reason.ON_HOLD
    why = view.hold or (view.survey_refused and view.survey_refused.message)
    if not why or (remove.round == view.deletion.round and not withheld):
        return ()
    return (Reprove(f"the project is not removed now: {why}"),)
