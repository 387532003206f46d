"""A deletion, its steps, the time and the settings for one decision. Pure.

Every method of ``Snapshot`` is a question without an effect. What a decision schedules is collected in
``action_plan.ActionPlan``.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Iterable, Sequence

from cleanup_orchestrator.core import backoff, dispatch, force, guard, trees
from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import Deletion, DeletionCase, RoundPurpose, Status
from cleanup_orchestrator.core.queue import QueueState
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepState, StepView
from cleanup_orchestrator.core.transitions import LOCKED

#: Obstacles to the removal of a project that a manager of its domain can set up and remove.
BY_MANAGERS = frozenset({Reason.PROJECT_HAS_CHILDREN, Reason.PROJECT_RENAMED, Reason.PROJECT_IMMUTABLE})
#: Survey results with which a deletion cannot begin at all.
FATAL = BY_MANAGERS | {Reason.PROJECT_IS_DOMAIN, Reason.PROJECT_KNOWN, Reason.PROJECT_PROTECTED}


def done(step: StepView, since: int) -> bool:
    """Whether the step has a result that is not older than round ``since``."""
    return step.round >= since and step.state is StepState.DONE


def in_scope(deletion: Deletion, step: StepView) -> bool:
    """Whether a step belongs to the rounds of ``deletion.purpose``.

    A waived step is not in any round. An informational step is in each inventory, for the report. Once the project is
    disabled no token for it can be had. So a step that needs one keeps its last result, and a step without a result
    (it was waived until now, or was not in the catalog) stays in scope and is unknown.
    """
    if step.kind not in (StepKind.SWEEP, StepKind.UNSUPPORTED) or step.waived or keeps_last_result(deletion, step):
        return False
    if guard.swept_in_delete_round(deletion, step) or (
        step.informational and deletion.purpose is RoundPurpose.INVENTORY
    ):
        return True
    return step.project_setting is (deletion.purpose is RoundPurpose.PROJECT_SETTINGS)


def keeps_last_result(deletion: Deletion, step: StepView) -> bool:
    """Whether a step keeps the result of its last scoped list.

    Such a step is no longer in any round, and no step waits for it.
    """
    if deletion.closed_at is None or not step.token.scoped:
        return False
    proven = step.outcome is Outcome.CLEAR or force.is_abandoned(deletion, step)
    return step.project_setting or (done(step, deletion.since_round) and proven)


def scoped_lists(deletion: Deletion, steps: Iterable[Step]) -> dict[Step, datetime.datetime]:
    """Return the sweeps of the latest inventory that needed a token of the project, and when each ended.

    They cannot be repeated once the project is disabled. What force has abandoned is not among them.
    """
    return {
        step: step.finished_at
        for step in steps
        if step.kind is StepKind.SWEEP and step.token.scoped and done(step, deletion.round)
        if step.finished_at is not None and not step.waived and not force.is_abandoned(deletion, step)
    }


def settle_until(deletion: Deletion, rules: Rules) -> datetime.datetime | None:
    """Return when all caches have dropped old tokens; ``None`` without a drain.

    Old tokens are those that were validated before the drain. A project that is gone counts as drained, because no user
    gets a token for it. It also resets the time: after the project is gone, nothing shows whether an earlier drain held
    until then.
    """
    since = [at for at in (deletion.drained_at, deletion.project_gone_at) if at is not None]
    return max(since) + rules.settle if since else None


def retry_at(step: Step, deletion: Deletion, rules: Rules) -> datetime.datetime:
    """Return when a finished step that is not clear may be tried again.

    A step whose leftovers are all being deleted by their service is polled: see :func:`backoff.poll`. Other leftovers
    may be free at any moment, without an edge in the order of types: a stack whose delete failed because of a foreign
    port. So a sweep waits no longer than ten seconds, or an eighth of the time that the round takes so far.
    """
    assert step.finished_at is not None
    if step.polled:
        return step.finished_at + backoff.poll(step.attempt)
    cap = rules.retry_cap
    if step.kind is StepKind.SWEEP:
        elapsed = step.finished_at - (deletion.round_opened_at or step.finished_at)
        cap = min(cap, max(backoff.POLL_CAP, elapsed.total_seconds() / 8))
    return dispatch.retry_at(step, rules, cap)


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """One deletion as one decision sees it."""

    deletion: DeletionCase
    steps: Sequence[Step]  #: all of the deletion
    now: datetime.datetime  #: the database's time, UTC
    rules: Rules

    # -- holds and conditions
    @functools.cached_property
    def hold(self) -> guard.Withheld | None:
        """What keeps the deletion from locking and deleting now."""
        return guard.hold(self.deletion, self.now, self.rules.hold_options)

    def has(self, type_: ConditionType) -> bool:
        """Whether the deletion has a condition that is true."""
        return self.deletion.condition(type_) is not None

    @property
    def was_on_hold(self) -> bool:
        """Whether the deletion was on hold at the decision before this one."""
        return self.has(ConditionType.ON_HOLD)

    @functools.cached_property
    def settle_until(self) -> datetime.datetime | None:
        """See :func:`settle_until`."""
        return settle_until(self.deletion, self.rules)

    # -- single steps
    @functools.cached_property
    def by_id(self) -> dict[str, Step]:
        """The steps by their ids."""
        return {step.id: step for step in self.steps}

    def task(self, kind: StepKind) -> Step:
        """Return the deletion-wide step of a kind."""
        return next(s for s in self.steps if s.kind is kind)

    def retried_now(self, step: Step) -> bool:
        """Whether a user has asked for another try since the step began, so that it does not wait any longer."""
        at = self.deletion.retry_now_at
        return at is not None and step.state is StepState.DONE and step.started_at is not None and step.started_at < at

    def under_way(self, step: Step) -> bool:
        """Whether the step was dispatched or runs. It may be lost by now."""
        return dispatch.under_way_until(step, self.rules) is not None

    def retries_exhausted(self, step: Step) -> bool:
        """Whether a deletion-wide step is not tried again.

        A deletion that may leave the project gives up after some tries, because it must not lock out its users for
        ever. A step that the never-delete list withholds is given up at once, because nothing else would end the
        deletion.
        """
        tries = not self.deletion.profile.insists and step.attempt >= self.rules.attempts
        return (tries and step.reason != Reason.ON_HOLD) or step.reason == Reason.PROJECT_PROTECTED

    # -- the whole deletion
    @property
    def waits_indefinitely(self) -> bool:
        """Whether an unknown result is waited for without a limit.

        The wait has a limit where it would lock out a user, or keep a user waiting. An inventory under force does not
        wait either: an unknown result there sends the deletion back to a delete round, which may abandon it.
        """
        d = self.deletion
        if d.purpose is RoundPurpose.INVENTORY and force.works(d):
            return False
        deleting = d.profile.insists and d.status in (Status.DELETING, Status.VERIFYING)
        return deleting and not self.unplanned

    @functools.cached_property
    def unplanned(self) -> int:
        """The number of this attempt's resources that are not in the deletion's plan.

        They stay, so the deletion cannot complete. Then no unknown result is waited for without a limit, and the
        project is given back with a report.
        """
        return sum(s.unplanned for s in self.steps if s.round >= self.deletion.since_round and not s.waived)

    @functools.cached_property
    def unselected(self) -> int:
        """The number of this attempt's resources that are not in the deletion's selection. They stay."""
        return sum(s.unselected for s in self.steps if s.round >= self.deletion.since_round and not s.waived)

    @property
    def giving_back(self) -> bool:
        """Whether a deletion that keeps its project has begun to undo what it changed, at the end of its attempt.

        From then on the project is not locked, and no inventory proves anything.
        """
        release = self.task(StepKind.RELEASE)
        return self.deletion.profile.keeps_project and release.round >= self.deletion.since_round

    @property
    def lost(self) -> bool:
        """Whether another client deleted a project that the deletion keeps."""
        d = self.deletion
        return d.profile.keeps_project and d.project_gone_at is not None and d.status is not Status.CANCELLING

    @property
    def known(self) -> Step | None:
        """A step that found in this attempt that Keystone knows the project."""
        since = self.deletion.since_round
        return next((s for s in self.steps if done(s, since) and s.reason == Reason.PROJECT_KNOWN), None)

    @property
    def survey(self) -> Step:
        """The latest survey."""
        return self.task(StepKind.SURVEY)

    @property
    def survey_refused(self) -> Step | None:
        """The survey, if it found that the project must not be deleted now."""
        fresh = done(self.survey, self.deletion.since_round) and self.survey.outcome is Outcome.UNKNOWN
        return self.survey if fresh and self.survey.reason in FATAL else None

    @property
    def survey_failed(self) -> Step | None:
        """The survey, if its result ends the deletion."""
        refused = self.survey_refused
        if refused is not None and not self.waits_out(refused.reason):
            return refused
        return self.survey if self._locked_unseen else None

    @property
    def _locked_unseen(self) -> bool:
        """Whether the survey fails for so long that a deletion which may leave the project gives it back.

        Without the survey the deletion does no other step, and its users stay locked out. After the first dispatch of
        the release the deletion does not go on, also if a later survey succeeds.
        """
        d, survey = self.deletion, self.survey
        failed = done(survey, d.since_round) and survey.outcome is Outcome.UNKNOWN and self.retries_exhausted(survey)
        stalled = d.has_changes and self.now >= d.progress_at + self.rules.stall_after
        return failed and (stalled or self.task(StepKind.RELEASE).round >= d.since_round)

    def waits_out(self, reason: str) -> bool:
        """Whether the deletion waits until an obstacle to the removal of its project is gone.

        Once a cascade has locked the project, an obstacle that a manager of the domain can set up does not end it.
        Otherwise the manager could give the project back without the permission to cancel the deletion. A deletion that
        may leave the project ends, because it must not lock out its users for ever.
        """
        d = self.deletion
        return reason in BY_MANAGERS and d.profile.insists and d.status in LOCKED

    @property
    def begun(self) -> bool:
        """Whether the present attempt has begun."""
        return self.deletion.status is not Status.ACCEPTED or self.survey.round >= self.deletion.since_round

    @property
    def waits_for_date(self) -> bool:
        """Whether the deletion has not begun, because its date has not come."""
        at = self.deletion.not_before
        return at is not None and self.now < at and self.deletion.status is Status.ACCEPTED

    @functools.cached_property
    def may_work(self) -> bool:
        """Whether the deletion has a place for work, or gets one now."""
        d = self.deletion
        if d.queue_state is QueueState.WORKING:
            return True
        return d.queue.gives_place(d.line, d.created_at, self.rules.deletions_at_once)

    # -- project trees
    @property
    def below(self) -> str:
        """What the latest survey says of projects below this one; empty: there are none."""
        return self.survey.message if self.survey.reason == Reason.PROJECT_HAS_CHILDREN else ""

    @property
    def child_gone_since_survey(self) -> bool:
        """Whether a project below was deleted after the latest survey began."""
        return trees.gone_since(self.deletion, self.survey)

    @property
    def children_under_way(self) -> bool:
        """Whether the projects below may still be deleted without a user's action."""
        return trees.under_way(self.deletion, self.survey)
