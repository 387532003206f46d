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

from cleanup_orchestrator.core import approvals, backoff, dependencies, force, plugin_liens
from cleanup_orchestrator.core.actions import (
    Abandon,
    Action,
    Actions,
    CountEmpty,
    Dispatch,
    MarkClosed,
    MarkDrained,
    MarkRecoverable,
    Move,
    OpenRound,
    Reprove,
    SetCondition,
    UseForce,
    Wake,
    not_looked_at,
)
from cleanup_orchestrator.core.blockers import Blocker
from cleanup_orchestrator.core.deletion import Deletion, Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.maintenance_windows import ALWAYS, Windows
from cleanup_orchestrator.core.reasons import Reason, remedy
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepState, Token
from cleanup_orchestrator.core.transitions import LIVE, destructive, early

#: Survey results with which a deletion cannot even begin.
FATAL = frozenset(
    {
        Reason.PROJECT_IS_DOMAIN,
        Reason.PROJECT_KNOWN,
        Reason.PROJECT_HAS_CHILDREN,
        Reason.PROJECT_PROTECTED,
        Reason.PROJECT_IMMUTABLE,
    }
)
#: Answers to the removal that time does not mend: the project is given back, and a person decides.
KEPT = frozenset({Reason.PROJECT_HAS_CHILDREN, Reason.PROJECT_IMMUTABLE})


#: Of very many liens a sentence names the first, which is what a column takes; the API has all of them.
_NAMED = 10

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
    approval_resources: int = 0  #: one deletion may be about so many without a second person's approval; 0: no limit
    approval_deletions: int = 0  #: so many cascades in 24 hours need no approval; 0: no limit
    recovery_window: datetime.timedelta = datetime.timedelta(0)  #: between the inventory and the first delete; 0: none
    force_attempts: int = 3  #: tries at a step before force takes its next turn with what it left
    force_patience: datetime.timedelta = datetime.timedelta(seconds=300)  #: without any progress, before it does
    windows: Windows = ALWAYS  #: the hours in which projects are locked and deleted
    lien_types: frozenset[str] = frozenset()  #: of what others use of these, a cascade's inventory raises liens


# ---------------------------------------------------------------------------------------------------- reading facts
def in_scope(deletion: Deletion, step: Step) -> bool:
    """Whether a step belongs to the rounds of ``deletion.purpose``.

    Once the project is disabled nobody gets a token for it, so what needs one rests on its last scoped look; what had
    none (it was waived until now, or not in the catalog) stays in, and is unknown. What is waived is not looked at.
    What is informational is in each look, for the report.
    """
    if step.kind not in (StepKind.SWEEP, StepKind.UNSUPPORTED) or step.waived or rests(deletion, step):
        return False
    if early(deletion, step) or (step.informational and deletion.purpose is RoundPurpose.INVENTORY):
        return True
    return step.project_setting is (deletion.purpose is RoundPurpose.PROJECT_SETTINGS)


def rests(deletion: Deletion, step: Step) -> bool:
    """Whether a step rests on its last scoped look: it is not in any round any more, and so nothing can wait for it."""
    if deletion.closed_at is None or step.token is not Token.PROJECT:
        return False
    proven = step.outcome is Outcome.CLEAR or force.is_abandoned(deletion, step)
    return step.project_setting or (done(step, deletion.since_round) and proven)


def settle_until(deletion: Deletion, rules: Rules) -> datetime.datetime | None:
    """Return when the last token validated before the drain has left every cache, ``None`` without a drain.

    A project that is gone is drained: nobody gets a token for it. But nobody can tell any more whether an earlier drain
    held until then.
    """
    since = [at for at in (deletion.drained_at, deletion.project_gone_at) if at is not None]
    return max(since) + rules.settle if since else None


@dataclasses.dataclass(frozen=True, slots=True)
class Hold:
    """What keeps a deletion from locking and deleting. Nothing is wrong with it: it goes on by itself afterwards."""

    reason: str  #: ``lien``, ``brake`` or ``window``: the first of these that there is
    message: str  #: every one that there is, and what clears it
    until: datetime.datetime | None  #: when one of them ends by itself, as far as that is known


def hold(deletion: Deletion, now: datetime.datetime, windows: Windows) -> Hold | None:
    """Return what holds a deletion; ``None`` where nothing does, or where it writes nothing anyway.

    A cancel is not held: it gives the project back.
    """
    if deletion.dry_run or deletion.origin is Origin.NOTICED or deletion.status is Status.CANCELLING:
        return None
    causes: list[tuple[str, str, datetime.datetime | None]] = [
        ("lien", f"{lien.explained} (an admin clears it with 'openstack project deletion lien delete {lien.id}')", end)
        for lien, end in ((lien, lien.expires_at) for lien in deletion.liens[:_NAMED])
    ]
    if more := deletion.liens[_NAMED:]:
        causes.append(("lien", f"{len(more)} more liens", None))
    if deletion.brake is not None:
        causes.append(
            ("brake", f"{deletion.brake.explained} ('openstack project deletion brake unset' lifts it)", None)
        )
    if not windows.open(now):
        opens = windows.opens(now)
        text = f"outside of [deletion] delete_windows: they open next at {opens.isoformat(timespec='seconds')}Z"
        causes.append(("window", text, opens))
    if not causes:
        return None
    ends = [end for _, _, end in causes if end is not None]
    return Hold(causes[0][0], "held by " + "; ".join(text for _, text, _ in causes), min(ends, default=None))


def retry_at(step: Step, rules: Rules) -> datetime.datetime:
    """Return when a finished step that is not clear may be tried again."""
    assert step.finished_at is not None
    return step.finished_at + backoff.delay(step.attempt, rules.retry_base, rules.retry_cap)


def done(step: Step, since: int) -> bool:
    """Whether the step has a result that is not older than round ``since``."""
    return step.round >= since and step.state is StepState.DONE


class _View:
    """One deletion as a decision sees it. Collects dispatches and wake-up times on the way."""

    def __init__(self, deletion: Deletion, steps: Sequence[Step], now: datetime.datetime, rules: Rules) -> None:
        self.deletion, self.steps, self.now, self.rules = deletion, steps, now, rules
        self.dispatches: list[Dispatch] = []
        self.wakes: list[datetime.datetime] = [now + rules.heartbeat]
        self.asks: approvals.Needed | None = None  #: an approval that it waits for
        self.hold = hold(deletion, now, rules.windows)
        self.was_on_hold = any(c.type == "on_hold" and c.status for c in deletion.conditions)
        self.resting = False  #: whether what is to be done next is a delete, which something holds
        self.moving = True  #: whether the present round may still change something by itself; see ``round_over``

    # -- single steps
    def task(self, kind: StepKind, since: int | None = None) -> Step | None:
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
        if step.state is StepState.DISPATCHED:
            assert step.dispatched_at is not None
            return step.dispatched_at + self.rules.claim_timeout
        if step.state is StepState.RUNNING:
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

    def retries_exhausted_of(self, step: Step) -> bool:
        """Whether a task is not tried again: of a report after some tries, for it must not lock its user out for ever.

        And what the never-delete list withholds at once: nothing else would end the deletion.
        """
        tries = self.deletion.mode is Mode.REPORT and step.attempt >= self.rules.attempts
        return (tries and step.reason != Reason.ON_HOLD) or step.reason == Reason.PROJECT_PROTECTED

    def hold_back(self) -> None:
        """Withhold every dispatch of what must not happen now, and look again when that may be over."""
        if self.hold is None:
            return
        by_id = {step.id: step for step in self.steps}
        self.dispatches[:] = [a for a in self.dispatches if not destructive(self.deletion, by_id[a.step_id])]
        if self.hold.until is not None:
            self.wakes.append(self.hold.until)

    @property
    def held(self) -> bool:
        """Whether what is to be done next is held: then it is not stuck, but waits."""
        d = self.deletion
        looking = (
            d.status in (Status.ACCEPTED, Status.INVENTORY, Status.RECOVERABLE) or d.purpose is RoundPurpose.INVENTORY
        )
        return self.hold is not None and (self.resting or not looking)

    def in_turn(self) -> list[Dispatch]:
        """Return the dispatches that may go out now: so many sweeps at once that no deletion takes every worker.

        Those under way first (their cast or their worker was lost), then those that have not run for the longest time:
        each gets its turn. Whatever ends brings the engine here again, and what was lost is not counted any more.
        """
        by_id = {step.id: step for step in self.steps}
        sweeps = [a for a in self.dispatches if by_id[a.step_id].kind is StepKind.SWEEP]
        lost = {a.step_id for a in sweeps}
        others = (self._under_way_until(s) for s in self.steps if s.kind is StepKind.SWEEP and s.id not in lost)
        busy = [until for until in others if until is not None and until > self.now]
        free = max(0, self.rules.steps_at_once - len(busy))
        if len(sweeps) <= free:
            return self.dispatches

        def order(dispatch: Dispatch) -> tuple[bool, bool, datetime.datetime]:
            step = by_id[dispatch.step_id]
            again = step.round == self.deletion.round and step.finished_at is not None
            under_way = step.state in (StepState.DISPATCHED, StepState.RUNNING) and step.round == self.deletion.round
            return not under_way, again, step.finished_at if again and step.finished_at else self.now

        chosen = {a.step_id for a in sorted(sweeps, key=order)[:free]}
        self.wakes += busy
        return [a for a in self.dispatches if a.step_id in chosen or by_id[a.step_id].kind is not StepKind.SWEEP]

    # -- rounds
    @property
    def waits_indefinitely(self) -> bool:
        """Whether an unknown is waited for, for ever. Not where that would lock out, or keep waiting, a user.

        Nor in an inventory under force: what is unknown there goes back to where it may be let go of.
        """
        d = self.deletion
        if d.purpose is RoundPurpose.INVENTORY and force.works(d):
            return False
        deleting = d.mode is Mode.CASCADE and d.status in (Status.DELETING, Status.VERIFYING) and not d.dry_run
        return deleting and not self.unplanned

    @property
    def unplanned(self) -> int:
        """How many resources there are that are not in the deletion's plan, as far as is known in this attempt.

        They stay, so that it cannot come to its end by itself: then nothing is waited for for ever, and the project is
        given back with a report.
        """
        return sum(s.unplanned for s in self.steps if s.round >= self.deletion.since_round and not s.waived)

    def uncounted(self, step: Step) -> bool:
        """Whether nobody knows how many a step would delete, where more than so many need an approval.

        It is left out of the round: the look that follows waits for its answer, and then it is counted. Under force no
        look waits: what is left out is let go of, unseen, like all that gives no answer.
        """
        limited = self.deletion.purpose is RoundPurpose.DELETE and self.rules.approval_resources > 0
        return limited and step.round < self.deletion.round and step.outcome in (Outcome.UNKNOWN, Outcome.NONE)

    def unfinished(self, step: Step) -> bool:
        """Whether another try may change the step's result: a look's leftovers are its result.

        A look does not wait for a second answer about what blocks nothing.
        """
        looking = self.deletion.purpose is RoundPurpose.INVENTORY
        if looking and step.informational:
            return False
        final = looking or dependencies.only_unplanned(step, self.deletion.round)
        return step.outcome is Outcome.UNKNOWN or (step.outcome is Outcome.LEFTOVERS and not final)

    def patient_with(self, step: Step) -> bool:
        """Whether the round waits for this step for ever.

        Residue never keeps a project that is empty, and nobody gets a token for a project that is gone.
        """
        waits_indefinitely = self.waits_indefinitely or self.to_be_known(step)
        return (
            waits_indefinitely
            and not step.project_setting
            and not self.out_of_reach(step)
            and not self.is_abandoned(step)
        )

    def to_be_known(self, step: Step) -> bool:
        """Whether nothing is deleted before this type was looked at: it might raise a lien."""
        d = self.deletion
        return d.status is Status.INVENTORY and plugin_liens.binding(d) and step.name in self.rules.lien_types

    def is_abandoned(self, step: Step) -> bool:
        """Whether all that this round knows of a step was let go of by force."""
        here = step.kind is StepKind.UNSUPPORTED or done(step, self.deletion.round) or self.uncounted(step)
        return here and force.is_abandoned(self.deletion, step)

    @property
    def forcing(self) -> bool:
        """Whether force may take its turn in this round, once nothing moves any more. Not while something holds it."""
        return self.hold is None and self.deletion.purpose is RoundPurpose.DELETE and force.works(self.deletion)

    @property
    def retries_exhausted(self) -> bool:
        """Whether nothing has moved for so long that it does."""
        return self.forcing and self.now - self.deletion.progress_at >= self.rules.force_patience

    def unrecoverable(self, step: Step) -> bool:
        """Whether enough has been tried, in a round in which force works, and something is left or not known."""
        if not self.forcing or step.project_setting or self.is_abandoned(step):
            return False
        if step.unplanned:  # what is not in the plan is not let go of either: it is reported, and the project stays
            return False
        if step.kind is StepKind.UNSUPPORTED or (self.uncounted(step) and step.outcome is Outcome.UNKNOWN):
            return True
        tried = done(step, self.deletion.round) and step.attempt >= self.rules.force_attempts
        return tried and self.unfinished(step) and step.reason != Reason.QUEUED

    def out_of_reach(self, step: Step) -> bool:
        """Whether a step will never be answered: it needs a project that somebody else deleted, or a token for it."""
        needs_it = step.token is Token.PROJECT or step.reason == Reason.PROJECT_GONE
        return self.deletion.project_gone_at is not None and needs_it

    def held_back(self) -> frozenset[str]:
        """Return the ids of steps whose turn never comes: they wait for what will never be answered."""
        lost = {s.id for s in self.subjects() if self.out_of_reach(s) and s.outcome is not Outcome.CLEAR}
        return dependencies.behind(self.steps, lost) if lost else frozenset()

    def subjects(self) -> list[Step]:
        """Return the steps of the present round."""
        return [s for s in self.steps if in_scope(self.deletion, s)]

    def surveyed(self) -> Step | None:
        """Return the survey once this round's inventory may rely on it: what the catalog has *now*."""
        if self.deletion.purpose is not RoundPurpose.INVENTORY:
            return self.task(StepKind.SURVEY)
        return self.task(StepKind.SURVEY, self.deletion.round)

    def round_over(self) -> bool:
        """Drive the present round; ``True`` once every step of it has its final result."""
        d = self.deletion
        survey = self.surveyed()
        if survey is None or survey.outcome is not Outcome.CLEAR:
            return False
        over, stuck, moving = True, False, False
        awaited = [s for s in self.steps if not rests(d, s) and not self.is_abandoned(s)]
        # What waits for something that this round does not settle is for another one.
        unsettled, held_back = bool(self.unplanned) or any(self.uncounted(s) for s in self.subjects()), self.held_back()
        self.regain_access()
        for step in self.subjects():
            if step.kind is StepKind.UNSUPPORTED:
                if self.waits_indefinitely and not self.is_abandoned(step):
                    over, stuck = False, True
            elif self.uncounted(step):
                over = over and not self.unrecoverable(step)
            elif step.round < d.round:
                if d.purpose is RoundPurpose.INVENTORY or not dependencies.waits_for(step, awaited, d.round):
                    over, moving = False, True
                    self.dispatches.append(Dispatch(step.id))
                elif not step.project_setting and not unsettled and step.id not in held_back:
                    # Residue may wait for project settings that was given up: then it stays, too.
                    over = False
            elif self.in_flight(step):
                over, moving = False, True
            elif self.unfinished(step) and step.reason == Reason.QUEUED:
                over, moving = False, True
                self.again(step, step.finished_at)  # at once, behind whoever waits in the queue
            elif self.retries_exhausted and self.unrecoverable(step):
                over = False  # it waits for the others to end, and for force to take its turn
            elif self.unfinished(step) and (
                self.patient_with(step) or step.attempt < self.rules.attempts or step.reason == Reason.ON_HOLD
            ):
                over = False
                moving = moving or not self.unrecoverable(step)
                stuck = stuck or step.attempt >= self.rules.attempts
                self.again(step)
        self.moving = moving
        if stuck:
            self.reconsider(survey)
        return over

    def reconsider(self, survey: Step) -> None:
        """Read catalog and waivers again, now and then, while something in this round cannot be settled by waiting."""
        assert survey.finished_at is not None
        self.again(survey, survey.finished_at + self.rules.heartbeat)

    def regain_access(self) -> None:
        """See to the project-scoped token again where sweeps miss it: the project was enabled, or our role taken."""
        missing = any(done(s, self.deletion.round) and s.reason == Reason.NO_PROJECT_TOKEN for s in self.subjects())
        if self.waits_indefinitely and missing and self.deletion.project_gone_at is None:
            access = next(s for s in self.steps if s.kind is StepKind.ACCESS)
            if not self.in_flight(access) and access.finished_at is not None:
                self.again(access, access.finished_at + self.rules.heartbeat)

    def results(self, outcome: Outcome) -> list[Step]:
        """Return the steps of the present round that ended so, as far as that matters for going on."""
        ended = (s for s in self.subjects() if s.outcome is outcome and not s.informational)
        return [s for s in ended if not self.is_abandoned(s)]

    # -- ends
    def rest(self, to: Status, reason: str, message: str = "") -> Actions:
        """Move to a status that is not live, after every running step has ended and all that we changed is undone."""
        running = [s for s in self.steps if s.state is StepState.RUNNING and s.kind is not StepKind.RELEASE]
        waiting = [s.lease_until for s in running if s.lease_until and s.lease_until > self.now]
        if waiting:  # what is being changed right now would be left behind
            self.wakes.append(min(waiting))
            return ()
        if not self.deletion.holding:
            return (Move(to, reason, message),)
        release = self.task(StepKind.RELEASE)
        if release is not None and release.outcome is Outcome.CLEAR:
            self.again(release)  # it undid what it found, and still something is recorded: undo again
        return ()

    def known(self) -> Step | None:
        """Return a step that found out in this attempt that Keystone knows the project."""
        since = self.deletion.since_round
        return next((s for s in self.steps if done(s, since) and s.reason == Reason.PROJECT_KNOWN), None)

    # -- project trees
    @property
    def survey(self) -> Step:
        """The latest survey."""
        return next(s for s in self.steps if s.kind is StepKind.SURVEY)

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

    def protected(self) -> Step | None:
        """Return a step of this round whose write was withheld: the project has come upon the never-delete list."""
        refused = (s for s in self.subjects() if s.reason == Reason.PROJECT_PROTECTED)
        return next((s for s in refused if done(s, self.deletion.round)), None)


# --------------------------------------------------------------------------------------------------------- decisions
#: What changes the world of a decision: the rest is decided anew, at once.
_TURNS = Move | OpenRound | UseForce | Abandon | CountEmpty | MarkDrained | MarkClosed | Reprove


def decide(deletion: Deletion, steps: Sequence[Step], now: datetime.datetime, rules: Rules | None = None) -> Actions:
    """Return what to do next with a deletion.

    :param steps: all of them, as stored
    :param now: the database's time, UTC
    :returns: actions in the order in which they apply; empty when only a person can move it on
    """
    if deletion.status not in LIVE:
        return ()
    view = _View(deletion, steps, now, rules or Rules())
    known = view.known() if deletion.origin is Origin.ADOPTED and deletion.status is not Status.CANCELLING else None
    if not known and (was_on_hold := _after_a_hold(view)):
        return was_on_hold
    actions = view.rest(Status.FAILED, known.reason, known.message) if known else _HANDLERS[deletion.status](view)
    if any(isinstance(a, _TURNS) for a in actions):
        return actions  # the world has changed: decided anew at once, in the new round or status
    view.hold_back()
    dispatches = view.in_turn()
    if dispatches:  # should the cast be lost, it is cast again then
        view.wakes.append(now + view.rules.claim_timeout)
    return (*actions, *_conditions(view), *dispatches, Wake(min(view.wakes)))


def _after_a_hold(view: _View) -> Actions:
    """Say that nothing holds it any more, and look again before it goes on: it may have been held for days.

    So the never-delete list, the waivers and the catalog are read again before anything is deleted, and the project is
    proven empty again before it goes. But where its closing has begun, that comes first: the project may be disabled by
    now, and nobody who looks then gets a token for it. An inventory follows it in any case.
    """
    d = view.deletion
    if view.hold is not None or not view.was_on_hold:
        return ()
    over = SetCondition("on_hold", False, "over", "nothing holds it any more")
    survey = Dispatch(view.survey.id), Wake(view.now + view.rules.claim_timeout)
    if d.status is Status.DRAINING:
        return (over, *survey)
    if d.status is Status.DELETING:
        return (over, OpenRound(RoundPurpose.DELETE), *survey)
    close = next(s for s in view.steps if s.kind is StepKind.CLOSE)
    if close.round == d.round and not d.closed_at:
        return (over,)
    if d.status is Status.VERIFYING and d.empty_inventories and d.purpose is not RoundPurpose.PROJECT_SETTINGS:
        return (over, Reprove("it was held: the project is proven empty anew"))
    return ()


def _accepted(view: _View) -> Actions:
    survey = view.task(StepKind.SURVEY)
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
    if view.below:
        return view.await_children()
    view.asks = approvals.for_deletion(view.deletion, view.rules.approval_deletions)
    if view.asks:  # nothing is locked for a deletion that may never be approved
        return ()
    if view.deletion.project_gone_at:
        return (Move(Status.INVENTORY, "project_gone", survey.message),)
    return (Move(Status.DRAINING, "cascade", ""),)


def _access(view: _View) -> bool:
    """Whether the question of a project-scoped token is answered, one way or the other."""
    access = view.task(StepKind.ACCESS)
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
    survey = view.task(StepKind.SURVEY)  # again, if it was held
    if failed := view.survey_failed():
        view.dispatches.clear()
        return view.rest(Status.FAILED, failed.reason, failed.message)
    if survey is None or survey.outcome is not Outcome.CLEAR or not _access(view):
        return ()
    drain = view.task(StepKind.DRAIN)
    if drain is None:
        return ()
    if drain.outcome is Outcome.CLEAR:
        assert drain.finished_at is not None
        if drain.reason:
            condition = SetCondition("drained", False, drain.reason, drain.message)
            return (condition, Move(Status.INVENTORY, "drained_in_part", drain.message))
        condition = SetCondition("drained", True, "drained", drain.message)
        return (MarkDrained(drain.finished_at), condition, Move(Status.INVENTORY, "drained", drain.message))
    if view.retries_exhausted_of(drain):
        view.dispatches.clear()
        return view.rest(Status.LEFTOVERS, "drain_failed", drain.message)
    return ()


def _inventory(view: _View) -> Actions:
    d = view.deletion
    if d.purpose is RoundPurpose.NONE:
        if not d.dry_run and not d.project_gone_at and not _access(view):
            return ()
        return (OpenRound(RoundPurpose.INVENTORY),)
    over = view.round_over()
    if failed := view.survey_failed():
        view.dispatches.clear()
        return view.rest(Status.FAILED, failed.reason, failed.message)
    if not over:
        return ()
    leftovers, unknown = view.results(Outcome.LEFTOVERS), view.results(Outcome.UNKNOWN)
    summary = _summary(leftovers, unknown)
    if d.dry_run:
        protected = "".join(f"; a deletion would be refused: {lien}" for lien in d.liens[:_NAMED])
        return (Move(Status.PLANNED, "dry_run_over", summary + protected),)
    if d.mode is Mode.CASCADE:
        if resting := _rest_before_deleting(view):
            return resting
        held = _held_before_deleting(view)
        return (Move(Status.DELETING, "cascade", summary),) if held is None else held
    if leftovers or unknown:
        return view.rest(Status.LEFTOVERS, "leftovers" if leftovers else "unknown", summary)
    drained = any(
        s.kind is StepKind.DRAIN and done(s, d.since_round) and s.outcome is Outcome.CLEAR for s in view.steps
    )
    if not drained and not d.project_gone_at:
        if view.below and view.children_under_way:
            return view.await_children()
        if view.below:
            return view.rest(Status.LEFTOVERS, Reason.PROJECT_HAS_CHILDREN, view.below)
        return (Move(Status.DRAINING, "look_found_nothing", "going back to drain: the look without a drain was empty"),)
    return (Move(Status.VERIFYING, "inventory_empty", ""),)


def _rest_before_deleting(view: _View) -> Actions:
    """Put off the first delete where an approval is missing, or the recovery window has not passed."""
    d, rules = view.deletion, view.rules
    until = d.point_of_no_return_at
    opening: Actions = ()
    if rules.recovery_window and until is None:
        until = view.now + rules.recovery_window
        opening = (MarkRecoverable(until),)
    asks = approvals.for_resources(d, view.steps, rules.approval_resources)
    waits = until is not None and view.now < until
    if not asks and not waits:
        return ()
    why = [f"nothing is deleted before {until.isoformat(timespec='seconds')}Z"] if until and waits else []
    why += [asks.message] if asks else []
    return (*opening, Move(Status.RECOVERABLE, asks.reason if asks else "recovery_window", "; ".join(why)))


def _held_before_deleting(view: _View) -> Actions | None:
    """Where types raise liens: have what is held wait here, with nothing deleted; ``None``: nothing holds it.

    The first delete follows a look without a lien, then, and not one of days ago. A type whose lien is in force is
    looked at now and then meanwhile: the lien ends with its reason.
    """
    d, rules = view.deletion, view.rules
    if not rules.lien_types or (view.hold is None and not view.was_on_hold):
        return None
    if view.hold is None:
        over = SetCondition("on_hold", False, "over", "nothing holds it any more: it looks once more")
        return (over, OpenRound(RoundPurpose.INVENTORY))
    view.resting = True
    for step in plugin_liens.raised(d, view.subjects()):
        assert step.finished_at is not None
        view.again(step, step.finished_at + rules.heartbeat)
    return ()


def _recoverable(view: _View) -> Actions:
    d = view.deletion
    view.asks = approvals.for_resources(d, view.steps, view.rules.approval_resources)
    until = d.point_of_no_return_at
    halts = _halts(view)
    if until and view.now < until:
        # Days without a heartbeat: whoever approves or restores has it looked at at once.
        view.wakes[:] = [until]
        return _halt(view, halts)
    if view.asks or any(view.in_flight(s) for s in halts):
        return ()
    # It may have rested for weeks: what is deleted is what is there now, and no more than was approved.
    return (Move(Status.INVENTORY, "look_again", "going back to look once more, right before the first delete"),)


def _halts(view: _View) -> list[Step]:
    """Return the steps that stop what runs while the project can be had back."""
    d = view.deletion
    if d.project_gone_at or d.origin is not Origin.REQUEST:  # nobody gets it back
        return []
    return [s for s in view.steps if s.kind is StepKind.HALT]


def _halt(view: _View, halts: Sequence[Step]) -> Actions:
    """See that what runs is stopped, once in an attempt; what could not be is tried until the window is over."""
    if not halts:
        return ()
    since = view.deletion.since_round
    for step in halts:
        if step.round < since:
            view.dispatches.append(Dispatch(step.id))
        elif not view.in_flight(step) and step.outcome is not Outcome.CLEAR:
            view.again(step)
    ended = [s for s in halts if done(s, since)]
    if over := len(ended) == len(halts) and all(s.outcome is Outcome.CLEAR for s in ended):
        reason = "halted"
    else:
        view.wakes.append(view.now + view.rules.heartbeat)
        reason = next((s.reason for s in ended if s.outcome is not Outcome.CLEAR), "under_way")
    text = "; ".join(s.message for s in ended) or "what runs is being stopped"
    return (SetCondition("halted", over, reason, text),)


def _deleting(view: _View) -> Actions:
    d, rules = view.deletion, view.rules
    if force.pending(d):
        return (OpenRound(RoundPurpose.DELETE),)
    if d.purpose is RoundPurpose.NONE:
        if d.reason == FOUND_AGAIN:  # what comes back each time must not make us go round and round at full speed
            at = d.status_at + backoff.delay((d.round - d.since_round) // 3, rules.retry_base, rules.retry_cap)
            if view.now < at:
                view.wakes.append(at)
                return ()
        return (OpenRound(RoundPurpose.DELETE),)
    over = view.round_over()
    if failed := view.survey_failed() or view.protected():
        # Out of the round first, so that nothing is deleted any more; the next survey has the last word.
        return (Move(Status.VERIFYING, failed.reason, failed.message),)
    if asks := approvals.for_resources(d, view.steps, rules.approval_resources):
        return (Move(Status.VERIFYING, asks.reason, f"nothing more is deleted for now: {asks.message}"),)
    if over:
        return (Move(Status.VERIFYING, "all_deleted", force.summary(d, view.steps).removeprefix("; ")),)
    return _by_force(view)


def _by_force(view: _View) -> Actions:
    """Under force, once nothing moves any more: what the types declare first, and of what is left then, let go.

    Never of one step while another may still change something: what goes there may be what kept this one.
    """
    if not view.forcing:
        return ()
    if not view.retries_exhausted:
        view.wakes.append(view.deletion.progress_at + view.rules.force_patience)
        return ()
    if view.moving:
        return ()
    unrecoverable = [s for s in view.subjects() if view.unrecoverable(s)]
    if usable := [s for s in unrecoverable if force.usable(view.deletion, s)]:
        return tuple(UseForce(s.id) for s in usable)
    return tuple(Abandon(s.id) for s in unrecoverable)


def _verifying(view: _View) -> Actions:
    d, rules = view.deletion, view.rules
    if d.purpose is RoundPurpose.PROJECT_SETTINGS:
        return _removing(view) or _leave(view)
    if force.pending(d):
        return (Move(Status.DELETING, "forced", f"going back: {force.asked(d)}"),)
    if d.purpose is RoundPurpose.INVENTORY:
        over = view.round_over()
        if failed := view.survey_failed():
            view.dispatches.clear()
            return view.rest(Status.FAILED, failed.reason, failed.message)
        if not over:
            return ()
        leftovers, unknown = view.results(Outcome.LEFTOVERS), view.results(Outcome.UNKNOWN)
        if not leftovers and not unknown and not view.unplanned:
            until = settle_until(d, rules)
            if until and d.round_opened_at and d.round_opened_at < until:  # the project vanished while we looked
                view.wakes.append(until)
                return (OpenRound(RoundPurpose.INVENTORY),) if view.now >= until else ()
            return (CountEmpty(),)
        summary = _summary(leftovers, unknown)
        held_back = view.held_back() if d.mode is Mode.CASCADE else ()
        stays = all(view.out_of_reach(s) or s.id in held_back for s in leftovers)
        if d.project_gone_at and stays and all(view.out_of_reach(s) for s in unknown):
            text = "somebody else deleted the project, and nobody gets a token for it any more: "
            return view.rest(Status.LEFTOVERS, "project_gone", text + summary)
        if d.mode is Mode.REPORT:
            return view.rest(Status.LEFTOVERS, FOUND_AGAIN, summary)
        if view.unplanned:
            text = f"{view.unplanned} are not in plan {d.plan_id}, and are not deleted: "
            return view.rest(Status.LEFTOVERS, "unplanned", text + summary)
        view.asks = approvals.for_resources(d, view.steps, rules.approval_resources)
        if view.asks:
            return ()
        if any(c.type == "approval" and c.status for c in d.conditions):
            # It may have waited for days: what is deleted is what is there now, and no more than was approved.
            return (SetCondition("approval", False, "ended", "it was given"), OpenRound(RoundPurpose.INVENTORY))
        return (Move(Status.DELETING, FOUND_AGAIN, f"going back: verification found {summary}"),)
    if _lost(view):
        return _drain_again(view)
    if d.empty_inventories >= _needed(d, rules):
        if d.origin is Origin.NOTICED:
            text = "somebody else deleted the project, and nothing of it is left that its members had made"
            return (Move(Status.DELETED, "project_gone", text + not_looked_at(d)),)
        if not d.closed_at and not d.project_gone_at:
            return _close(view)
        return (OpenRound(RoundPurpose.PROJECT_SETTINGS),) if view.hold is None else ()
    until = settle_until(d, rules)
    if until and view.now < until and not view.unplanned:  # with some of them there is nothing to prove
        view.wakes.append(until)
        return ()
    return (OpenRound(RoundPurpose.INVENTORY),)


def _lost(view: _View) -> bool:
    """Whether the project has to be drained once more: it was, and somebody was let in again since."""
    d = view.deletion
    if d.drained_at or d.closed_at or d.project_gone_at or d.origin is Origin.NOTICED:
        return False
    drain = next(s for s in view.steps if s.kind is StepKind.DRAIN)
    if not done(drain, d.since_round):
        return True
    return drain.outcome is Outcome.UNKNOWN or not drain.reason  # with a reason, it never held as a whole


def _drain_again(view: _View) -> Actions:
    """Lock the project anew before anything counts: of what needs a token of the project this is the last chance."""
    drain = view.task(StepKind.DRAIN, view.deletion.round)
    if drain is None:
        return ()
    if drain.outcome is Outcome.CLEAR:
        assert drain.finished_at is not None
        return (MarkDrained(drain.finished_at), SetCondition("drained", True, "drained", drain.message))
    if view.retries_exhausted_of(drain):
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
    close = view.task(StepKind.CLOSE, view.deletion.round)  # an earlier one does not count: somebody enabled it again
    if close is None:
        return ()
    if close.outcome is Outcome.CLEAR:
        assert close.finished_at is not None
        condition = SetCondition("drained", True, "project_disabled", close.message + _rests_on(view))
        return (MarkClosed(close.finished_at), condition)
    if view.retries_exhausted_of(close):
        view.dispatches.clear()
        return view.rest(Status.FAILED, close.reason, close.message)
    return ()


def _rests_on(view: _View) -> str:
    """Say what the closing proves nothing about: nobody sees it any more."""
    d = view.deletion
    looked = [s for s in view.steps if s.kind is StepKind.SWEEP and not s.waived and not force.is_abandoned(d, s)]
    scoped = sorted({s.name for s in looked if s.token is Token.PROJECT})
    if not scoped:
        return ""
    when = "behind the drain" if d.drained_at else "while others still got tokens"
    return f"; empty at the last look with a token of the project, {when}: {', '.join(scoped)}"


def _removing(view: _View) -> Actions:
    if not view.round_over():
        return ()
    if view.deletion.origin is Origin.ADOPTED:
        text = "the project was gone already, and nothing of it is left" + not_looked_at(view.deletion)
        return (Move(Status.DELETED, "project_gone", text),)
    remove = view.task(StepKind.REMOVE, view.deletion.round)
    if remove is None:
        return ()
    if remove.outcome is Outcome.CLEAR:
        d, said = view.deletion, remove.message + not_looked_at(view.deletion)
        if force.asked(d) is not None:
            return (Move(Status.DELETED, "deleted_by_force", said + force.summary(d, view.steps)),)
        return (Move(Status.DELETED, "deleted", said),)
    retries_exhausted = view.retries_exhausted_of(remove)
    if (
        retries_exhausted or remove.reason in KEPT
    ):  # nobody can cancel any more, so nobody else would give the project back
        view.dispatches.clear()
        return view.rest(Status.FAILED, remove.reason, remove.message)
    return ()


def _leave(view: _View) -> Actions:
    """Leave the project settings round of what is held, so that it can be cancelled; not once the project may be going.

    Afterwards the project is proven empty anew.
    """
    remove = next(s for s in view.steps if s.kind is StepKind.REMOVE)
    withheld = remove.state is StepState.DONE and remove.reason == Reason.ON_HOLD
    if view.hold is None or (remove.round == view.deletion.round and not withheld):
        return ()
    return (Reprove(f"the project is not removed now: {view.hold.message}"),)


def _cancelling(view: _View) -> Actions:
    return view.rest(Status.CANCELLED, "cancelled", view.deletion.message)


_HANDLERS = {
    Status.ACCEPTED: _accepted,
    Status.DRAINING: _draining,
    Status.INVENTORY: _inventory,
    Status.RECOVERABLE: _recoverable,
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
    if view.asks:
        yield SetCondition("approval", True, view.asks.reason, view.asks.message)
    elif any(c.type == "approval" and c.status for c in d.conditions):
        yield SetCondition("approval", False, "ended", "it waits for nobody's approval any more")
    if d.waivers:
        text = "; ".join(waiver.explained for waiver in d.waivers)
        yield SetCondition("waived", True, "waivers", f"it goes on without a look at {text}")
    elif any(c.type == "waived" and c.status for c in d.conditions):
        yield SetCondition("waived", False, "ended", "no waiver is relied upon any more")
    if force.asked(d) is not None:
        yield SetCondition("forced", True, "forced", force.summary(d, view.steps).removeprefix("; "))
    if until is not None:
        yield SetCondition(
            "settled",
            now >= until,
            "settled" if now >= until else "token_caches",
            f"tokens validated before the drain may be cached by services until {until.isoformat(timespec='seconds')}Z",
        )
    if view.hold is not None:
        yield SetCondition("on_hold", True, view.hold.reason, view.hold.message)
    elif view.was_on_hold:
        yield SetCondition("on_hold", False, "over", "nothing holds it any more")
    waiting = bool(view.below) and view.children_under_way
    waiting = waiting or d.status is Status.RECOVERABLE or view.asks is not None  # for a date, or for a person
    held = view.held or (view.was_on_hold and view.hold is None)  # its time without progress begins now
    stalled = not settling and not waiting and not held and now - d.progress_at >= view.rules.stall_after
    if stalled:
        names = sorted({f"{b.service}.{b.type}@{b.region}: {b.reason}" for b in blockers(d, view.steps)})
        yield SetCondition(
            "stalled", True, "no_progress", "blocked by " + ("; ".join(names) or "no answer of a worker")
        )
    else:
        yield SetCondition("stalled", False, "progress", "")
        if not settling and not waiting and not held:
            view.wakes.append(d.progress_at + view.rules.stall_after)


def blockers(deletion: Deletion, steps: Iterable[Step]) -> tuple[Blocker, ...]:
    """Return everything that keeps a deletion from going on, all of it and not the first only.

    A sweep that has not run in the present round blocks nothing: it waits, for what is named or for its turn. Nor does
    what is merely there: that is a leftover, which a cascade would delete; nor what is held: its condition names why;
    nor what is informational.
    While it is tried again its last result stands.
    """
    found = []
    for step in steps:
        again = step.state in (StepState.DISPATCHED, StepState.RUNNING) and step.attempt > 1
        known = (step.state is StepState.DONE or again) and step.round >= deletion.since_round
        if not known or step.reason == Reason.ON_HOLD or step.informational:
            continue
        if step.kind is StepKind.HALT and deletion.status is not Status.RECOVERABLE:
            continue  # its time is over
        if step.kind in (StepKind.SWEEP, StepKind.UNSUPPORTED):
            current = step.round == deletion.round or step.kind is StepKind.UNSUPPORTED
            left = step.outcome is Outcome.LEFTOVERS and step.reason not in (Reason.PRESENT, Reason.QUEUED)
            blocks = current and in_scope(deletion, step) and (left or step.outcome is Outcome.UNKNOWN)
            blocks = blocks and not force.is_abandoned(deletion, step)
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
