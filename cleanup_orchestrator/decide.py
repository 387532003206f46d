"""What happens next. Pure: no I/O, no clock, no configuration read.

``decide`` looks at one deletion and its steps as they are in the store and returns actions; ``actions.apply`` makes new
values and journal lines of them. The engine and the workers are shells that load, call these, and save with
compare-and-swap. Everything is level-triggered: deciding twice on the same facts gives the same answer, so a lost,
doubled or late message changes nothing but time.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Sequence

from cleanup_orchestrator import backoff, ordering
from cleanup_orchestrator.actions import (
    Action,
    Actions,
    CountEmpty,
    Dispatch,
    MarkClosed,
    MarkDrained,
    Move,
    OpenRound,
    SetCondition,
    Wake,
)
from cleanup_orchestrator.errors import remedy
from cleanup_orchestrator.model import (
    Blocker,
    Deletion,
    Kind,
    Mode,
    Origin,
    Outcome,
    Purpose,
    Reason,
    State,
    Status,
    Step,
    Token,
)
from cleanup_orchestrator.transitions import LIVE

#: Survey results with which a deletion cannot even begin.
FATAL = frozenset(
    {
        Reason.PROJECT_IS_DOMAIN,
        Reason.PROJECT_HAS_CHILDREN,
        Reason.PROJECT_PROTECTED,
        Reason.PROJECT_IMMUTABLE,
    }
)
#: Answers to the removal that time does not mend: the project is given back, and a person decides.
KEPT = frozenset({Reason.PROJECT_HAS_CHILDREN, Reason.PROJECT_IMMUTABLE})


#: Why a deletion goes back: something is there that was confirmed gone.
FOUND_AGAIN = "found_while_verifying"


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The operator's settings that decisions depend on, read once by the engine."""

    settle: datetime.timedelta = datetime.timedelta(seconds=300)  #: the longest ``token_cache_time`` of the cloud
    stall_after: datetime.timedelta = datetime.timedelta(seconds=600)  #: without progress
    claim_timeout: datetime.timedelta = datetime.timedelta(seconds=30)  #: a cast that nobody claimed is repeated
    heartbeat: datetime.timedelta = datetime.timedelta(seconds=60)  #: looked at again at least this often
    attempts: int = 3  #: tries at a step before "unknown" is reported, where waiting for ever would lock a user out
    retry_base: float = 1.0  #: seconds
    retry_cap: float = 60.0  #: seconds
    steps_at_once: int = 8  #: sweeps of one deletion that may be dispatched or run at the same time
    empty_inventories: int = 2  #: complete and empty, in a row, before the project goes


# ---------------------------------------------------------------------------------------------------- reading facts
def in_scope(deletion: Deletion, step: Step) -> bool:
    """Whether a step belongs to the rounds of ``deletion.purpose``.

    Once the project is disabled nobody gets a token for it, so what needs one rests on its last scoped look.
    """
    if step.kind not in (Kind.SWEEP, Kind.UNCOVERED):
        return False
    if deletion.closed_at is not None and step.token is Token.PROJECT:
        return False
    return step.residue is (deletion.purpose is Purpose.RESIDUE)


def settle_until(deletion: Deletion, rules: Rules) -> datetime.datetime | None:
    """Return when the last token validated before the drain has left every cache, ``None`` without a drain.

    A project that is gone is drained: nobody gets a token for it.
    """
    since = deletion.drained_at or deletion.project_gone_at
    return since + rules.settle if since else None


def retry_at(step: Step, rules: Rules) -> datetime.datetime:
    """Return when a finished step that is not clear may be tried again."""
    assert step.finished_at is not None
    return step.finished_at + backoff.delay(step.attempt, rules.retry_base, rules.retry_cap)


def done(step: Step, since: int) -> bool:
    """Whether the step has a result that is not older than round ``since``."""
    return step.round >= since and step.state is State.DONE


class _View:
    """One deletion as a decision sees it. Collects dispatches and wake-up times on the way."""

    def __init__(self, deletion: Deletion, steps: Sequence[Step], now: datetime.datetime, rules: Rules) -> None:
        self.deletion, self.steps, self.now, self.rules = deletion, steps, now, rules
        self.dispatches: list[Dispatch] = []
        self.wakes: list[datetime.datetime] = [now + rules.heartbeat]

    # -- single steps
    def task(self, kind: Kind, since: int | None = None) -> Step | None:
        """Return a deletion-wide step once it has a result; until then see that it gets one."""
        step = next(s for s in self.steps if s.kind is kind)
        since = self.deletion.since_round if since is None else since
        if step.round < since:
            self.dispatches.append(Dispatch(step.id))
            return None
        if self.in_flight(step):
            return None
        if step.outcome is not Outcome.CLEAR:
            self.again(step)
        return step

    def in_flight(self, step: Step) -> bool:
        """Whether the step is under way; a cast that nobody took, or a lease that ran out, is cast again."""
        until = self._under_way_until(step)
        if until is not None:
            self._by(step, until)
        return until is not None

    def _under_way_until(self, step: Step) -> datetime.datetime | None:
        """Return when a step that is under way counts as lost, or did; ``None`` if it is not under way."""
        if step.state is State.DISPATCHED:
            assert step.dispatched_at is not None
            return step.dispatched_at + self.rules.claim_timeout
        if step.state is State.RUNNING:
            assert step.lease_until is not None
            return step.lease_until
        return None

    def again(self, step: Step, at: datetime.datetime | None = None) -> None:
        """Try a finished step once more when its back-off is over."""
        self._by(step, at or retry_at(step, self.rules))

    def _by(self, step: Step, at: datetime.datetime) -> None:
        if self.now >= at:
            self.dispatches.append(Dispatch(step.id))
        else:
            self.wakes.append(at)

    def in_turn(self) -> list[Dispatch]:
        """Return the dispatches that may go out now: so many sweeps at once that no deletion takes every worker.

        Those under way first (their cast or their worker was lost), then those that have not run for the longest time:
        each gets its turn. Whatever ends brings the engine here again, and what was lost is not counted any more.
        """
        by_id = {step.id: step for step in self.steps}
        sweeps = [a for a in self.dispatches if by_id[a.step_id].kind is Kind.SWEEP]
        lost = {a.step_id for a in sweeps}
        others = (self._under_way_until(s) for s in self.steps if s.kind is Kind.SWEEP and s.id not in lost)
        busy = [until for until in others if until is not None and until > self.now]
        free = max(0, self.rules.steps_at_once - len(busy))
        if len(sweeps) <= free:
            return self.dispatches

        def order(dispatch: Dispatch) -> tuple[bool, bool, datetime.datetime]:
            step = by_id[dispatch.step_id]
            again = step.round == self.deletion.round and step.finished_at is not None
            under_way = step.state in (State.DISPATCHED, State.RUNNING) and step.round == self.deletion.round
            return not under_way, again, step.finished_at if again and step.finished_at else self.now

        chosen = {a.step_id for a in sorted(sweeps, key=order)[:free]}
        self.wakes += busy
        return [a for a in self.dispatches if a.step_id in chosen or by_id[a.step_id].kind is not Kind.SWEEP]

    # -- rounds
    @property
    def patient(self) -> bool:
        """Whether an unknown is waited for, for ever. Not where that would lock out, or keep waiting, a user."""
        d = self.deletion
        return d.mode is Mode.CASCADE and d.status in (Status.DELETING, Status.VERIFYING) and not d.dry_run

    def unfinished(self, step: Step) -> bool:
        """Whether another try may change the step's result: a look's leftovers are its result."""
        looking = self.deletion.purpose is Purpose.LOOK
        return step.outcome is Outcome.UNKNOWN or (step.outcome is Outcome.LEFTOVERS and not looking)

    def patient_with(self, step: Step) -> bool:
        """Whether the round waits for this step for ever.

        Residue never keeps a project that is empty, and nobody gets a token for a project that is gone.
        """
        return self.patient and not step.residue and not self.out_of_reach(step)

    def out_of_reach(self, step: Step) -> bool:
        """Whether a step will never be answered: it needs a project that somebody else deleted, or a token for it."""
        needs_it = step.token is Token.PROJECT or step.reason == Reason.PROJECT_GONE
        return self.deletion.project_gone_at is not None and needs_it

    def subjects(self) -> list[Step]:
        """Return the steps of the present round."""
        return [s for s in self.steps if in_scope(self.deletion, s)]

    def surveyed(self) -> Step | None:
        """Return the survey once this round's inventory may rely on it: what the catalog has *now*."""
        if self.deletion.purpose is not Purpose.LOOK:
            return self.task(Kind.SURVEY)
        return self.task(Kind.SURVEY, self.deletion.round)

    def round_over(self) -> bool:
        """Drive the present round; ``True`` once every step of it has its final result."""
        d = self.deletion
        survey = self.surveyed()
        if survey is None or survey.outcome is not Outcome.CLEAR:
            return False
        over = True
        self.regain_access()
        for step in self.subjects():
            if step.kind is Kind.UNCOVERED:
                if self.patient:
                    over = False
                    self.again(survey, survey.finished_at and survey.finished_at + self.rules.heartbeat)
            elif step.round < d.round:
                if d.purpose is Purpose.LOOK or not ordering.waits_for(step, self.steps, d.round):
                    over = False
                    self.dispatches.append(Dispatch(step.id))
                elif not step.residue:  # residue may wait for residue that was given up: then it stays, too
                    over = False
            elif self.in_flight(step):
                over = False
            elif self.unfinished(step) and step.reason == Reason.QUEUED:
                over = False
                self.again(step, step.finished_at)  # at once, behind whoever waits in the queue
            elif self.unfinished(step) and (self.patient_with(step) or step.attempt < self.rules.attempts):
                over = False
                self.again(step)
        return over

    def regain_access(self) -> None:
        """See to the project-scoped token again where sweeps miss it: the project was enabled, or our role taken."""
        missing = any(done(s, self.deletion.round) and s.reason == Reason.NO_PROJECT_TOKEN for s in self.subjects())
        if self.patient and missing and self.deletion.project_gone_at is None:
            access = next(s for s in self.steps if s.kind is Kind.ACCESS)
            if not self.in_flight(access) and access.finished_at is not None:
                self.again(access, access.finished_at + self.rules.heartbeat)

    def results(self, outcome: Outcome) -> list[Step]:
        """Return the steps of the present round that ended so."""
        return [s for s in self.subjects() if s.outcome is outcome]

    # -- ends
    def rest(self, to: Status, reason: str, message: str = "") -> Actions:
        """Move to a status that is not live, after every running step has ended and all that we changed is undone."""
        running = [s for s in self.steps if s.state is State.RUNNING and s.kind is not Kind.RELEASE]
        waiting = [s.lease_until for s in running if s.lease_until and s.lease_until > self.now]
        if waiting:  # what is being changed right now would be left behind
            self.wakes.append(min(waiting))
            return ()
        if not self.deletion.holding:
            return (Move(to, reason, message),)
        release = self.task(Kind.RELEASE)
        if release is not None and release.outcome is Outcome.CLEAR:
            self.again(release)  # it undid what it found, and still something is recorded: undo again
        return ()

    # -- project trees
    @property
    def survey(self) -> Step:
        """The latest survey."""
        return next(s for s in self.steps if s.kind is Kind.SURVEY)

    @property
    def below(self) -> str:
        """What the latest survey says of projects below this one; empty: there are none."""
        return self.survey.message if self.survey.reason == Reason.PROJECT_HAS_CHILDREN else ""

    @property
    def news_from_below(self) -> bool:
        """Whether a project below went after the latest survey began."""
        since = self.survey.started_at
        gone = [c for c in self.deletion.children if c.status is Status.DELETED]
        return any(since is None or c.status_at >= since for c in gone)

    @property
    def children_under_way(self) -> bool:
        """Whether what is below may still go without anybody's doing."""
        return self.news_from_below or any(c.status in LIVE for c in self.deletion.children)

    def await_children(self) -> Actions:
        """Ask Keystone again for the projects below: as soon as one is announced as gone, and now and then."""
        if not self.in_flight(self.survey):
            assert self.survey.finished_at is not None
            at = self.now if self.news_from_below else self.survey.finished_at + self.rules.heartbeat
            self.again(self.survey, at)
        return (SetCondition("waiting", True, "children", self.below),)

    def survey_failed(self) -> Step | None:
        """Return the survey if it says that the deletion cannot go on at all."""
        fresh = done(self.survey, self.deletion.since_round) and self.survey.outcome is Outcome.UNKNOWN
        return self.survey if fresh and self.survey.reason in FATAL else None


# --------------------------------------------------------------------------------------------------------- decisions
def decide(deletion: Deletion, steps: Sequence[Step], now: datetime.datetime, rules: Rules | None = None) -> Actions:
    """Return what to do next with a deletion.

    :param steps: all of them, as stored
    :param now: the database's time, UTC
    :returns: actions in the order in which they apply; empty when only a person can move it on
    """
    if deletion.status not in LIVE:
        return ()
    view = _View(deletion, steps, now, rules or Rules())
    actions = _HANDLERS[deletion.status](view)
    if any(isinstance(a, Move | OpenRound | CountEmpty | MarkDrained | MarkClosed) for a in actions):
        return actions  # the world has changed: decided anew at once, in the new round or status
    dispatches = view.in_turn()
    if dispatches:  # should the cast be lost, it is cast again then
        view.wakes.append(now + view.rules.claim_timeout)
    return (*actions, *_conditions(view), *dispatches, Wake(min(view.wakes)))


def _accepted(view: _View) -> Actions:
    survey = view.task(Kind.SURVEY)
    if survey is None:
        return ()
    if view.survey_failed():
        view.dispatches.clear()
        return view.rest(Status.FAILED, survey.reason, survey.message)
    if survey.outcome is not Outcome.CLEAR:
        return ()
    if view.deletion.dry_run:
        return (Move(Status.INVENTORY, "dry_run", "looking without any write"),)
    if view.deletion.mode is Mode.REPORT:
        return (Move(Status.INVENTORY, "look_first", "a project that is plainly not empty is never locked"),)
    if view.deletion.project_gone_at:
        return (Move(Status.INVENTORY, "project_gone", survey.message),)
    if view.below:
        return view.await_children()
    return (Move(Status.DRAINING, "cascade", ""),)


def _access(view: _View) -> bool:
    """Whether the question of a project-scoped token is answered, one way or the other."""
    access = view.task(Kind.ACCESS)
    if access is None:
        return False
    if access.outcome is Outcome.CLEAR:
        return True
    if access.reason == Reason.NO_PROJECT_TOKEN or access.attempt >= view.rules.attempts:
        # What needs such a token reports "unknown" by itself; everything else goes on.
        view.dispatches[:] = [a for a in view.dispatches if a.step_id != access.id]
        return True
    return False


def _draining(view: _View) -> Actions:
    d = view.deletion
    if d.project_gone_at:
        return (Move(Status.INVENTORY, "project_gone", "somebody else deleted the project: nothing is left to lock"),)
    if not _access(view):
        return ()
    drain = view.task(Kind.DRAIN)
    if drain is None:
        return ()
    if drain.outcome is Outcome.CLEAR:
        assert drain.finished_at is not None
        if drain.reason:
            condition = SetCondition("drained", False, drain.reason, drain.message)
            return (condition, Move(Status.INVENTORY, "drained_in_part", drain.message))
        condition = SetCondition("drained", True, "drained", drain.message)
        return (MarkDrained(drain.finished_at), condition, Move(Status.INVENTORY, "drained", drain.message))
    if d.mode is Mode.REPORT and drain.attempt >= view.rules.attempts:
        view.dispatches.clear()
        return view.rest(Status.LEFTOVERS, "drain_failed", drain.message)
    return ()


def _inventory(view: _View) -> Actions:
    d = view.deletion
    if d.purpose is Purpose.NONE:
        if not d.dry_run and not d.project_gone_at and not _access(view):
            return ()
        return (OpenRound(Purpose.LOOK),)
    over = view.round_over()
    if failed := view.survey_failed():
        view.dispatches.clear()
        return view.rest(Status.FAILED, failed.reason, failed.message)
    if not over:
        return ()
    leftovers, unknown = view.results(Outcome.LEFTOVERS), view.results(Outcome.UNKNOWN)
    summary = _summary(leftovers, unknown)
    if d.dry_run:
        return (Move(Status.PLANNED, "dry_run_over", summary),)
    if d.mode is Mode.CASCADE:
        return (Move(Status.DELETING, "cascade", summary),)
    if leftovers or unknown:
        return view.rest(Status.LEFTOVERS, "leftovers" if leftovers else "unknown", summary)
    drained = any(s.kind is Kind.DRAIN and done(s, d.since_round) and s.outcome is Outcome.CLEAR for s in view.steps)
    if not drained and not d.project_gone_at:
        if view.below and view.children_under_way:
            return view.await_children()
        if view.below:
            return view.rest(Status.LEFTOVERS, Reason.PROJECT_HAS_CHILDREN, view.below)
        return (Move(Status.DRAINING, "look_found_nothing", "going back to drain: the look without a drain was empty"),)
    return (Move(Status.VERIFYING, "inventory_empty", ""),)


def _deleting(view: _View) -> Actions:
    d, rules = view.deletion, view.rules
    if d.purpose is Purpose.NONE:
        if d.reason == FOUND_AGAIN:  # what comes back each time must not make us go round and round at full speed
            at = d.status_at + backoff.delay((d.round - d.since_round) // 3, rules.retry_base, rules.retry_cap)
            if view.now < at:
                view.wakes.append(at)
                return ()
        return (OpenRound(Purpose.DELETE),)
    over = view.round_over()
    if failed := view.survey_failed():
        # Out of the round first, so that nothing is deleted any more; the next survey has the last word.
        return (Move(Status.VERIFYING, failed.reason, failed.message),)
    if over:
        return (Move(Status.VERIFYING, "all_deleted", ""),)
    return ()


def _verifying(view: _View) -> Actions:
    d, rules = view.deletion, view.rules
    if d.purpose is Purpose.RESIDUE:
        return _removing(view)
    if d.purpose is Purpose.LOOK:
        over = view.round_over()
        if failed := view.survey_failed():
            view.dispatches.clear()
            return view.rest(Status.FAILED, failed.reason, failed.message)
        if not over:
            return ()
        leftovers, unknown = view.results(Outcome.LEFTOVERS), view.results(Outcome.UNKNOWN)
        if not leftovers and not unknown:
            return (CountEmpty(),)
        summary = _summary(leftovers, unknown)
        if d.project_gone_at and not leftovers and all(view.out_of_reach(s) for s in unknown):
            text = "somebody else deleted the project, and nobody gets a token for it any more: "
            return view.rest(Status.LEFTOVERS, "project_gone", text + summary)
        if d.mode is Mode.REPORT:
            return view.rest(Status.LEFTOVERS, FOUND_AGAIN, summary)
        return (Move(Status.DELETING, FOUND_AGAIN, f"going back: verification found {summary}"),)
    if _lost(view):
        return _drain_again(view)
    if d.empty_inventories >= _needed(d, rules):
        if d.origin is Origin.NOTICED:
            text = "somebody else deleted the project, and nothing of it is left that its members had made"
            return (Move(Status.DELETED, "project_gone", text),)
        return (OpenRound(Purpose.RESIDUE),) if d.closed_at or d.project_gone_at else _close(view)
    until = settle_until(d, rules)
    if until and view.now < until:
        view.wakes.append(until)
        return ()
    return (OpenRound(Purpose.LOOK),)


def _lost(view: _View) -> bool:
    """Whether the project has to be drained once more: it was, and somebody was let in again since."""
    d = view.deletion
    if d.drained_at or d.closed_at or d.project_gone_at or d.origin is Origin.NOTICED:
        return False
    drain = next(s for s in view.steps if s.kind is Kind.DRAIN)
    if not done(drain, d.since_round):
        return True
    return drain.outcome is Outcome.UNKNOWN or not drain.reason  # with a reason, it never held as a whole


def _drain_again(view: _View) -> Actions:
    """Lock the project anew before anything counts: of what needs a token of the project this is the last chance."""
    drain = view.task(Kind.DRAIN, view.deletion.round)
    if drain is None:
        return ()
    if drain.outcome is Outcome.CLEAR:
        assert drain.finished_at is not None
        return (MarkDrained(drain.finished_at), SetCondition("drained", True, "drained", drain.message))
    if view.deletion.mode is Mode.REPORT and drain.attempt >= view.rules.attempts:
        view.dispatches.clear()
        return view.rest(Status.LEFTOVERS, "drain_failed", drain.message)
    return ()


def _needed(d: Deletion, rules: Rules) -> int:
    """How many empty inventories the verification needs before its next turn.

    Two before the project is disabled. One more afterwards if the drain had taken hold by then; if it had not
    (inherited grants, no drain), disabling was the drain, and only what came after it proves anything: two again.
    """
    if d.closed_at and d.drained_at and d.drained_at < d.closed_at:
        return 1
    return rules.empty_inventories


def _close(view: _View) -> Actions:
    close = view.task(Kind.CLOSE, view.deletion.round)  # an earlier one does not count: somebody enabled it again
    if close is None:
        return ()
    if close.outcome is Outcome.CLEAR:
        assert close.finished_at is not None
        condition = SetCondition("drained", True, "project_disabled", close.message + _rests_on(view))
        return (MarkClosed(close.finished_at), condition)
    if view.deletion.mode is Mode.REPORT and close.attempt >= view.rules.attempts:
        view.dispatches.clear()
        return view.rest(Status.FAILED, close.reason, close.message)
    return ()


def _rests_on(view: _View) -> str:
    """Say what the closing proves nothing about: nobody sees it any more."""
    scoped = sorted({s.name for s in view.steps if s.kind is Kind.SWEEP and s.token is Token.PROJECT})
    if not scoped:
        return ""
    when = "behind the drain" if view.deletion.drained_at else "while others still got tokens"
    return f"; empty at the last look with a token of the project, {when}: {', '.join(scoped)}"


def _removing(view: _View) -> Actions:
    if not view.round_over():
        return ()
    remove = view.task(Kind.REMOVE, view.deletion.round)
    if remove is None:
        return ()
    if remove.outcome is Outcome.CLEAR:
        return (Move(Status.DELETED, "deleted", remove.message),)
    tired = view.deletion.mode is Mode.REPORT and remove.attempt >= view.rules.attempts
    if tired or remove.reason in KEPT:  # nobody can cancel any more, so nobody else would give the project back
        view.dispatches.clear()
        return view.rest(Status.FAILED, remove.reason, remove.message)
    return ()


def _cancelling(view: _View) -> Actions:
    return view.rest(Status.CANCELLED, "cancelled", view.deletion.message)


_HANDLERS = {
    Status.ACCEPTED: _accepted,
    Status.DRAINING: _draining,
    Status.INVENTORY: _inventory,
    Status.DELETING: _deleting,
    Status.VERIFYING: _verifying,
    Status.CANCELLING: _cancelling,
}


def _summary(leftovers: Iterable[Step], unknown: Iterable[Step]) -> str:
    left, lost = list(leftovers), list(unknown)
    parts = [f"{sum(s.remaining for s in left)} left in {', '.join(sorted({s.name for s in left}))}"] if left else []
    if lost:
        parts.append(f"unknown: {', '.join(sorted({s.name if s.type else s.service for s in lost}))}")
    return "; ".join(parts) or "nothing left"


def _conditions(view: _View) -> Iterator[Action]:
    d, now = view.deletion, view.now
    until = settle_until(d, view.rules)
    settling = until is not None and now < until and d.status is Status.VERIFYING
    if until is None and any(c.type == "drained" and c.status for c in d.conditions):
        text = "somebody enabled the project again, or gave a role on it: it is closed and proven empty anew"
        yield SetCondition("drained", False, "reopened", text)
        yield SetCondition("settled", False, "reopened", text)
    if d.project_gone_at:
        since = d.project_gone_at.isoformat(timespec="seconds")
        text = f"Keystone did not know the project any more at {since}Z: somebody else deleted it"
        yield SetCondition("project_gone", True, "deleted_elsewhere", text)
    elif any(c.type == "project_gone" and c.status for c in d.conditions):
        yield SetCondition("project_gone", False, "back", "Keystone knows the project again")
    if not view.below and any(c.type == "waiting" and c.status for c in d.conditions):
        yield SetCondition("waiting", False, "children", "the projects below are gone")
    if until is not None:
        yield SetCondition(
            "settled",
            now >= until,
            "settled" if now >= until else "token_caches",
            f"tokens validated before the drain may be cached by services until {until.isoformat(timespec='seconds')}Z",
        )
    waiting = bool(view.below) and view.children_under_way
    stalled = not settling and not waiting and now - d.progress_at >= view.rules.stall_after
    if stalled:
        names = sorted({f"{b.service}.{b.type}@{b.region}: {b.reason}" for b in blockers(d, view.steps)})
        yield SetCondition(
            "stalled", True, "no_progress", "blocked by " + ("; ".join(names) or "no answer of a worker")
        )
    else:
        yield SetCondition("stalled", False, "progress", "")
        if not settling and not waiting:
            view.wakes.append(d.progress_at + view.rules.stall_after)


def blockers(deletion: Deletion, steps: Iterable[Step]) -> tuple[Blocker, ...]:
    """Return everything that keeps a deletion from going on, all of it and not the first only.

    A sweep that has not run in the present round blocks nothing: it waits, for what is named or for its turn. Nor does
    what is merely there: that is a leftover, which a cascade would delete.
    """
    found = []
    for step in steps:
        if step.state is not State.DONE or step.round < deletion.since_round:
            continue
        if step.kind in (Kind.SWEEP, Kind.UNCOVERED):
            current = step.round == deletion.round or step.kind is Kind.UNCOVERED
            left = step.outcome is Outcome.LEFTOVERS and step.reason not in (Reason.PRESENT, Reason.QUEUED)
            blocks = current and in_scope(deletion, step) and (left or step.outcome is Outcome.UNKNOWN)
        else:
            blocks = step.outcome is Outcome.UNKNOWN or step.reason == Reason.PROJECT_HAS_CHILDREN
        if blocks:
            found.append(
                Blocker(
                    step.region,
                    step.service,
                    step.type or str(step.kind),
                    step.reason,
                    step.message,
                    remedy(step.reason),
                )
            )
    return tuple(sorted(found, key=lambda b: (b.region, b.service, b.type)))
