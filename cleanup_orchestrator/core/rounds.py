"""Rounds of sweeps: their steps, what they wait for, and their end. Pure."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections import Counter
from collections.abc import Iterable

from cleanup_orchestrator.core import dependencies, force, plugin_liens
from cleanup_orchestrator.core.action_plan import ActionPlan
from cleanup_orchestrator.core.deletion import Deletion, RoundPurpose, Status
from cleanup_orchestrator.core.reasons import ONLY_A_PERSON, Reason
from cleanup_orchestrator.core.snapshot import Snapshot, done, in_scope, keeps_last_result
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepState, Token
from cleanup_orchestrator.core.texts import enumerated

#: The oldest survey or list that a round shares, counted to the opening of the round.
SHARED = datetime.timedelta(seconds=30)
#: Types that one message names.
_NAMED = 10


def found_empty(view: Snapshot) -> tuple[str, ...]:
    """Return the ids of the steps that a delete round need not sweep, as the inventory before it found nothing of them.

    Such a sweep would list the type once more, some seconds later, and delete nothing. It would prove nothing new, as
    the two inventories of the verification follow, and go back to deleting if they find something. In the order of
    types the list of the inventory counts, as does the list of a sweep early in a long delete round. If the inventory
    or the wait after it took long, all types are swept.
    """
    d = view.deletion
    if d.round_opened_at is not None or d.project_gone_at is not None:  # the first one means: a delete round was opened
        return ()
    return tuple(step.id for step in view.steps if _just_found_empty(view, step))


def _just_found_empty(view: Snapshot, step: Step) -> bool:
    """Whether the present round has just listed a type and found nothing, not even a resource that is kept."""
    if step.kind is not StepKind.SWEEP or step.project_setting or step.waived:
        return False
    if not done(step, view.deletion.round) or step.outcome is not Outcome.CLEAR:
        return False
    assert step.started_at is not None
    return not step.found and not step.kept and view.now - step.started_at <= SHARED


def only_unselected(step: Step) -> bool:
    """Whether each leftover of the latest result of a step is outside of the deletion's selection."""
    return step.outcome is Outcome.LEFTOVERS and 0 < step.unselected == step.remaining


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far the present round is."""

    over: bool  #: whether every step of it has its final result
    moving: bool = True  #: whether a step may still change without force; ``True`` if that is not known


@dataclasses.dataclass(frozen=True)
class Round:
    """The present round of a deletion. Every method is a question without an effect."""

    view: Snapshot

    @functools.cached_property
    def subjects(self) -> tuple[Step, ...]:
        """The steps of the round."""
        return tuple(s for s in self.view.steps if in_scope(self.view.deletion, s))

    def results(self, outcome: Outcome) -> list[Step]:
        """Return the steps of an outcome, without informational and abandoned ones.

        Steps of which nothing is selected are left out, too: a type outside of the selection, whatever its list said,
        and one whose leftovers are all outside of it.
        """
        ended = (s for s in self.subjects if s.outcome is outcome and not s.informational)
        return [s for s in ended if not self.is_abandoned(s) and self.selected(s)]

    def selected(self, step: Step) -> bool:
        """Whether the deletion is about what the latest result of a step has, or may have, left."""
        selection = self.view.deletion.selection
        return selection.has_type(step.service, step.type) and not only_unselected(step)

    @property
    def found_nothing(self) -> bool:
        """Whether the steps of an inventory that is over listed everything, and found nothing that is selected."""
        return not (self.view.unplanned or self.results(Outcome.LEFTOVERS) or self.results(Outcome.UNKNOWN))

    @property
    def lien_unknown(self) -> bool:
        """Whether a type that may raise a lien, selected or not, could not be listed."""
        return any(s.outcome is Outcome.UNKNOWN and self.may_raise_lien(s) for s in self.subjects)

    @property
    def protected(self) -> Step | None:
        """A step whose write the never-delete list withheld."""
        refused = (s for s in self.subjects if s.reason == Reason.PROJECT_PROTECTED)
        return next((s for s in refused if done(s, self.view.deletion.round)), None)

    # -- what the round waits for
    def count_unknown(self, step: Step) -> bool:
        """Whether a limit for approvals is set, and a step's resources cannot be counted.

        A delete round leaves such a step out. The inventory that follows waits for its answer, and counts it. Under
        force no inventory waits: then the step is abandoned unseen, like every step that gives no answer.
        """
        d = self.view.deletion
        limited = d.purpose is RoundPurpose.DELETE and self.view.rules.approval_resources > 0
        return limited and step.round < d.round and step.outcome in (Outcome.UNKNOWN, Outcome.NONE)

    def unfinished(self, step: Step) -> bool:
        """Whether another try may change the step's result.

        Leftovers are the final result of an inventory. An inventory does not try an informational step again.
        """
        d = self.view.deletion
        listing = d.purpose is RoundPurpose.INVENTORY
        if listing and step.informational:
            return False
        final = listing or dependencies.only_staying(step, d.round)
        return step.outcome is Outcome.UNKNOWN or (step.outcome is Outcome.LEFTOVERS and not final)

    def needed_until_now(self, step: Step) -> bool:
        """Whether what needed leftovers of a step is gone since the step ended: it is tried again at once."""
        gone = step.needed_by and dependencies.cleared_since(step, self.view.steps, self.view.deletion.round)
        return bool(gone) and self.unfinished(step) and step.reason != Reason.NO_PROJECT_TOKEN

    def waits_indefinitely_for(self, step: Step) -> bool:
        """Whether the round waits for this step without a limit.

        Project settings never keep an empty project from its removal. No token can be had for a project that is gone.
        """
        lien = self.may_raise_lien(step) and not self.view.deletion.profile.keeps_project
        waits_indefinitely = self.view.waits_indefinitely or lien
        return (
            waits_indefinitely
            and not step.project_setting
            and not self.out_of_reach(step)
            and not self.is_abandoned(step)
        )

    def may_raise_lien(self, step: Step) -> bool:
        """Whether this type must be listed before any delete, as it may raise a lien."""
        d = self.view.deletion
        return d.status is Status.INVENTORY and plugin_liens.binding(d) and step.name in self.view.rules.lien_types

    def out_of_reach(self, step: Step) -> bool:
        """Whether a step never gets an answer, as the project or its token is gone."""
        needs_it = step.token.scoped or step.reason == Reason.PROJECT_GONE
        return self.view.deletion.project_gone_at is not None and needs_it

    @functools.cached_property
    def behind_out_of_reach(self) -> frozenset[str]:
        """The ids of steps that wait for a step that never gets an answer."""
        lost = {s.id for s in self.subjects if self.out_of_reach(s) and s.outcome is not Outcome.CLEAR}
        return dependencies.behind(self.view.steps, lost) if lost else frozenset()

    @property
    def repeats_access(self) -> bool:
        """Whether the access step is repeated while sweeps get no token of the project."""
        return self.view.waits_indefinitely and self.view.deletion.project_gone_at is None

    def awaits_access(self, step: Step) -> bool:
        """Whether a step is tried again only after the access step: nothing else gets it a token of the project.

        A single refusal is no proof of that, and is tried again. Under force it is tried, so that it can be abandoned.
        """
        refused = step.reason == Reason.NO_PROJECT_TOKEN and step.seen_twice
        return refused and self.repeats_access and not self.force_applies

    # -- force
    def is_abandoned(self, step: Step) -> bool:
        """Whether everything that this round knows of a step was abandoned by force."""
        d = self.view.deletion
        here = step.kind is StepKind.UNSUPPORTED or done(step, d.round) or self.count_unknown(step)
        return here and force.is_abandoned(d, step)

    @property
    def force_applies(self) -> bool:
        """Whether force may be used in this round, once nothing still moves.

        It may not while a hold is in force.
        """
        d = self.view.deletion
        return self.view.hold is None and d.purpose is RoundPurpose.DELETE and force.works(d)

    @property
    def force_due(self) -> bool:
        """Whether nothing has moved for so long that force is used."""
        idle = self.view.now - self.view.deletion.progress_at
        return self.force_applies and idle >= self.view.rules.force_patience

    def unrecoverable(self, step: Step) -> bool:
        """Whether a step was tried often enough for force, and is not clear."""
        if not self.force_applies or step.project_setting or self.is_abandoned(step):
            return False
        if step.unplanned:  # resources that are not in the plan are reported, and the project stays
            return False
        if step.kind is StepKind.UNSUPPORTED or (self.count_unknown(step) and step.outcome is Outcome.UNKNOWN):
            return True
        tried = done(step, self.view.deletion.round) and step.attempt >= self.view.rules.force_attempts
        return tried and self.unfinished(step) and step.reason != Reason.QUEUED


# --------------------------------------------------------------------------------------------- how a round goes on
def drive(round_: Round, plan: ActionPlan) -> Progress:
    """Schedule what the present round needs next, and return how far it is."""
    view = round_.view
    survey = _surveyed(view, plan)
    if survey is None or survey.outcome is not Outcome.CLEAR:
        return Progress(over=False)
    over, stuck, moving = True, False, False
    _restore_access(round_, plan)
    waiting = _waiting(round_)
    for step in round_.subjects:
        if step.kind is StepKind.UNSUPPORTED:
            if view.waits_indefinitely and not round_.is_abandoned(step):
                over, stuck = False, True
        elif round_.count_unknown(step):
            over = over and not round_.unrecoverable(step)
        elif step.round < view.deletion.round:
            if step.id not in waiting:
                over, moving = False, True
                plan.dispatch(step)
            elif waiting[step.id]:
                over = False
        elif view.under_way(step):
            over, moving = False, True
            plan.follow(step)
        elif round_.unfinished(step) and step.reason == Reason.QUEUED:
            over, moving = False, True
            assert step.finished_at is not None
            plan.dispatch_at(step, step.finished_at)  # at once, behind the other steps in the queue
        elif round_.needed_until_now(step):
            over, moving = False, True
            plan.dispatch(step)
        elif round_.force_due and round_.unrecoverable(step):
            over = False  # it waits until no other step moves, and then for force
        elif round_.unfinished(step) and _tries_again(round_, step):
            over = False
            moving = moving or not round_.unrecoverable(step)
            waits = round_.awaits_access(step)
            stuck = stuck or waits or step.attempt >= view.rules.attempts
            if not waits:
                plan.retry(step)
            elif _access_since(view, step):
                plan.dispatch(step)
    if stuck:
        _survey_again(survey, plan)
    return Progress(over, moving)


def _surveyed(view: Snapshot, plan: ActionPlan) -> Step | None:
    """Schedule the survey that this round needs; return it once it has a result.

    An inventory needs a survey of its own round, because it relies on the catalog as it is now, or one that it shares.
    """
    if view.deletion.purpose is not RoundPurpose.INVENTORY or _shares_survey(view):
        return plan.run(StepKind.SURVEY)
    return plan.run(StepKind.SURVEY, view.deletion.round)


def _shares_survey(view: Snapshot) -> bool:
    """Whether an inventory relies on the survey before it, which is not older than ``SHARED``.

    Two inventories share it. The first one of an attempt follows the survey of the request at once, and no inventory
    before the verification counts as a proof. The second one of a verification follows the first at once. A survey of
    its own would prove nothing new: services that joined the catalog since then hold nothing of a project that was
    locked before. If the lock was lost since then, the close step finds it out, and the inventories do not count. In a
    deletion that keeps its project, one more survey after the last inventory does.

    Each verification begins with a survey of its own, because that one checks that the lock is in effect. So does an
    inventory that follows a wait: for a person, for the end of a window, or for a step that took long.
    """
    d, survey = view.deletion, view.survey
    follows = d.empty_inventories > 0 if d.status is Status.VERIFYING else d.round == d.since_round + 1
    if not follows or not done(survey, d.since_round) or survey.outcome is not Outcome.CLEAR or survey.reason:
        return False
    assert survey.started_at is not None
    return d.round_opened_at is not None and d.round_opened_at - survey.started_at <= SHARED


def _waiting(round_: Round) -> dict[str, bool]:
    """Return, by id, the steps that wait, and whether the round waits for each.

    A step that waits for what this round does not settle is left to a later round.
    """
    view, d = round_.view, round_.view.deletion
    if d.purpose is RoundPurpose.INVENTORY:
        return {}
    awaited = [s for s in view.steps if not keeps_last_result(d, s) and not round_.is_abandoned(s)]
    kept = d.profile.keeps_project
    unsettled = bool(view.unplanned) or kept or any(map(round_.count_unknown, round_.subjects))
    late = [s for s in round_.subjects if s.round < d.round and dependencies.waits_for(s, awaited, d.round, kept)]
    # Project settings may wait for other settings that were given up. Then they stay, too.
    return {s.id: not s.project_setting and not unsettled and s.id not in round_.behind_out_of_reach for s in late}


def _tries_again(round_: Round, step: Step) -> bool:
    """Whether an unfinished step is tried once more in this round."""
    view = round_.view
    if step.reason == Reason.NO_PROJECT_TOKEN and not round_.waits_indefinitely_for(step):
        return False
    if round_.waits_indefinitely_for(step) or step.attempt < view.rules.attempts or step.reason == Reason.ON_HOLD:
        return True
    if not view.deletion.profile.keeps_project or step.reason in ONLY_A_PERSON:
        return False
    # It ends although something is left, but not while it makes progress: the next delete may free what is in use.
    patience = view.rules.stall_after if step.polled else datetime.timedelta(seconds=view.rules.retry_cap)
    return view.now < view.deletion.progress_at + patience


def _survey_again(survey: Step, plan: ActionPlan) -> None:
    """Survey again from time to time: a waiver or the catalog may end the wait."""
    assert survey.finished_at is not None
    plan.dispatch_at(survey, survey.finished_at + plan.view.rules.heartbeat)


def _restore_access(round_: Round, plan: ActionPlan) -> None:
    """Run the access step again if sweeps got no token of the project.

    The project may be enabled again by now, or the role was removed. A type that is listed with the janitor's token may
    have joined the catalog since the janitor's role was decided.
    """
    view = round_.view
    missing = any(done(s, view.deletion.round) and _lacks_token(s) for s in round_.subjects)
    if not round_.repeats_access or not missing:
        return
    access = view.task(StepKind.ACCESS)
    if view.under_way(access):
        plan.follow(access)
    elif access.finished_at is not None:
        plan.dispatch_at(access, access.finished_at + view.rules.heartbeat)


def _access_since(view: Snapshot, step: Step) -> bool:
    """Whether the access step has got a token of the project since a sweep got none."""
    access = view.task(StepKind.ACCESS)
    got = done(access, view.deletion.since_round) and access.outcome is Outcome.CLEAR
    assert step.finished_at is not None
    return got and access.finished_at is not None and access.finished_at > step.finished_at


def refused_token(deletion: Deletion, steps: Iterable[Step]) -> str:
    """Return why Keystone issues no token of the project, if a step of this attempt found out; otherwise nothing.

    The reason holds until the next survey or access step begins, so that not every sweep logs in to find it out again.
    """
    mine = [s for s in steps if s.round >= deletion.since_round]
    asked = [s.started_at for s in mine if s.kind in (StepKind.SURVEY, StepKind.ACCESS) and s.started_at is not None]
    denied = (s for s in mine if s.state is StepState.DONE and s.reason == Reason.NO_PROJECT_TOKEN)
    return next((s.message for s in denied if s.finished_at and s.finished_at >= max(asked, default=s.finished_at)), "")


def _lacks_token(step: Step) -> bool:
    """Whether a sweep got no token that the access step may provide."""
    no_list = step.token is Token.MEMBER and step.outcome is Outcome.UNKNOWN
    return step.reason == Reason.NO_PROJECT_TOKEN or (no_list and step.reason == Reason.NO_JANITOR)


def summary(leftovers: list[Step], unknown: list[Step]) -> str:
    """Say how many resources are left in which types, those with the most first, and what is unknown."""
    parts = []
    if leftovers:
        left = Counter[str]()
        for step in leftovers:
            left[step.name] += step.remaining - step.unselected
        names = enumerated(sorted(left, key=lambda name: (-left[name], name)), _NAMED)
        parts.append(f"{left.total()} left in {names}")
    if unknown:
        names = enumerated(sorted({s.name if s.type else s.service for s in unknown}), _NAMED)
        parts.append(f"unknown: {names}")
    return "; ".join(parts) or "nothing left"
