"""Turns decisions into new values of a deletion and its steps. Pure.

``apply`` applies the actions of a decision; ``results.record`` applies the result of a step, and ``proposals.apply``
what users ask for. Nothing else changes a deletion.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Sequence
from typing import Any

from cleanup_orchestrator.core import dispatch, force
from cleanup_orchestrator.core.condition_types import CONDITIONS, Condition, ConditionType
from cleanup_orchestrator.core.deletion import Deletion, RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.queue import QueueState
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.results import REOPENED
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepState
from cleanup_orchestrator.core.tally import tally
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.core.transitions import LIVE, ORDER, By, move


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """Change the status; the reason goes into the journal."""

    to: Status
    reason: str
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class OpenRound:
    """Open a new round: results of earlier rounds no longer count, but for those of some steps."""

    purpose: RoundPurpose
    settled: tuple[str, ...] = ()  #: ids of steps whose results count in the new round, too


@dataclasses.dataclass(frozen=True, slots=True)
class Dispatch:
    """Send a step to the workers."""

    step_id: str
    batch: int = 0  #: one worker does the steps with the same number, one after the other; 0: the step is sent alone


@dataclasses.dataclass(frozen=True, slots=True)
class UseForce:
    """From the next try on, use the force of the step's type on what the step left."""

    step_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Abandon:
    """Abandon, by force, what a step left or could not list."""

    step_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class CountEmpty:
    """Count a complete round that found nothing but what is abandoned."""


@dataclasses.dataclass(frozen=True, slots=True)
class MarkDrained:
    """Record since when the drain holds."""

    at: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class MarkClosed:
    """Record since when the project is disabled: no user gets a token for it."""

    at: datetime.datetime
    drain_held: bool = False  #: whether the drain held at each moment until then: earlier inventories still count


@dataclasses.dataclass(frozen=True, slots=True)
class MarkRecoverable:
    """Record until when nothing is deleted."""

    until: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Reprove:
    """Forget the empty inventories and leave the round of project settings."""

    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class VoidLock:
    """Forget the lock and all that rests on it: another user may have had access meanwhile."""

    why: str
    by: str  #: the id of the user who changed the lock; empty: it is not known


@dataclasses.dataclass(frozen=True, slots=True)
class SetCondition:
    """Set an observed property."""

    type: ConditionType
    status: bool
    reason: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class SetQueueState:
    """Take a place for work, give it back, or wait for one."""

    state: QueueState


@dataclasses.dataclass(frozen=True, slots=True)
class Wake:
    """Decide again at this time, even without a message."""

    at: datetime.datetime


Action = (
    Move
    | OpenRound
    | Dispatch
    | UseForce
    | Abandon
    | CountEmpty
    | MarkDrained
    | MarkClosed
    | MarkRecoverable
    | Reprove
    | VoidLock
    | SetCondition
    | SetQueueState
    | Wake
)
Actions = tuple[Action, ...]

#: Actions that change what a decision depends on. They are saved first, and the next decision follows at once.
STATE_CHANGES = Move | OpenRound | UseForce | Abandon | CountEmpty | MarkDrained | MarkClosed | Reprove | VoidLock


#: Kinds whose attempts are counted from 1 in each round.
_EACH_ROUND = frozenset({StepKind.SWEEP, StepKind.SURVEY, StepKind.DRAIN, StepKind.CLOSE, StepKind.REMOVE})


@dataclasses.dataclass(frozen=True, slots=True)
class Applied:
    """What to save in one transaction, and the casts to send after it."""

    deletion: Deletion
    steps: tuple[Step, ...]  #: the changed ones
    events: tuple[Event, ...]
    casts: tuple[tuple[str, ...], ...]  #: step ids; one worker does those of a batch, one after the other
    decide_again: bool  #: whether another decision should follow at once
    abandoned: tuple[str, ...] = ()  #: ids of the steps whose leftovers are abandoned


def waived_text(deletion: Deletion) -> str:
    """Return the waivers that a result rests on, as text; empty: there are none."""
    return "; not listed: " + "; ".join(map(str, deletion.waivers)) if deletion.waivers else ""


def apply(deletion: Deletion, steps: Sequence[Step], actions: Actions, now: datetime.datetime) -> Applied:
    """Turn actions into new values and journal lines; the tally counts ``steps``, which are all of the deletion."""
    draft = _Draft(deletion, steps, now)
    for action in actions:
        draft.apply(action)
    after = draft.deletion
    if after != deletion:
        after = dataclasses.replace(after, updated_at=now)
    latest = {step.id: step for step in steps} | draft.changed
    return Applied(
        dataclasses.replace(after, tally=tally(after, latest.values())),
        tuple(draft.changed.values()),
        tuple(draft.events),
        tuple(map(tuple, draft.casts.values())),
        after.status in LIVE and any(isinstance(action, STATE_CHANGES) for action in actions),
        tuple(draft.abandoned),
    )


class _Draft:
    """A deletion, its steps and its journal, as the actions so far leave them."""

    def __init__(self, deletion: Deletion, steps: Sequence[Step], now: datetime.datetime) -> None:
        self.deletion = deletion
        self.changed: dict[str, Step] = {}
        self.events: list[Event] = []
        self.casts: dict[object, list[str]] = {}
        self.abandoned: list[str] = []
        self._steps, self._by_id, self._now = steps, {s.id: s for s in steps}, now

    def apply(self, action: Action) -> None:
        """Apply one action."""
        match action:
            case Move():
                self._move(action)
            case OpenRound(purpose, ids):
                self._open_round(purpose, ids)
            case Dispatch(step_id, batch):
                self._dispatch(self._by_id[step_id], batch)
            case UseForce(step_id):
                self._use_force(self._by_id[step_id])
            case Abandon(step_id):
                self._abandon(self._by_id[step_id])
            case CountEmpty():
                self._count_empty()
            case MarkDrained(at):
                self._set(drained_at=at, empty_inventories=0, progress_at=self._now)
                self._say(EventType.DRAIN_HELD, f"the lock took hold at {at.isoformat()}Z")
            case MarkClosed(at, drain_held):
                empty = self.deletion.empty_inventories if drain_held else 0
                drained_at = self.deletion.drained_at or at
                self._set(closed_at=at, drained_at=drained_at, empty_inventories=empty, progress_at=self._now)
                self._say(EventType.PROJECT_CLOSED, f"the project is disabled since {at.isoformat()}Z")
            case MarkRecoverable(until):
                self._mark_recoverable(until)
            case Reprove(why):
                self._reprove(why)
            case VoidLock(why, by):
                self._void_lock(why, by)
            case SetCondition():
                self._set_condition(action)
            case SetQueueState(state):
                self._set_queue_state(state)
            case Wake(at):
                self._set(wake_at=at)

    def _set(self, **values: Any) -> None:
        self.deletion = dataclasses.replace(self.deletion, **values)

    def _say(self, type_: str, message: str, data: dict[str, Any] | None = None) -> None:
        self.events.append(Event(type_, message, data=data or {}))

    def _move(self, action: Move) -> None:
        before, to = self.deletion.status, action.to
        backwards = to in ORDER and before in ORDER and ORDER.index(to) < ORDER.index(before)
        data = {"from": str(before), "to": str(to), "reason": action.reason, "backwards": backwards}
        self.deletion = move(self.deletion, to, By.ENGINE, self._now, action.reason, action.message)
        why = f": {action.message}" if action.message else ""
        self._say(f"deletion.{to}", f"from {before} to {to}{why}", data)

    def _open_round(self, purpose: RoundPurpose, ids: Collection[str]) -> None:
        number = self.deletion.round + 1
        for id_ in ids:
            self.changed[id_] = dataclasses.replace(self._by_id[id_], round=number)
        self._set(round=number, purpose=purpose, round_opened_at=self._now, progress_at=self._now)
        self._say(EventType.ROUND_OPENED, f"round {number}: {purpose}", {"round": number, "purpose": str(purpose)})

    def _dispatch(self, step: Step, batch: int) -> None:
        round_ = self.deletion.round
        fresh = step.round < (round_ if step.kind in _EACH_ROUND else self.deletion.since_round)
        failed = step.state is StepState.DONE and step.reason not in (Reason.QUEUED, Reason.ON_HOLD)
        sent = dispatch.dispatched(step, round_, 1 if fresh else step.attempt + failed, self._now)
        self.changed[step.id] = dataclasses.replace(sent, forcing=step.forcing and not fresh)
        self.casts.setdefault(batch or step.id, []).append(step.id)

    def _use_force(self, step: Step) -> None:
        self.changed[step.id] = dataclasses.replace(step, forcing=True, attempt=0)
        self._set(progress_at=self._now)
        text = f"{step.name}: no progress is made, so force is used on {step.remaining} leftovers"
        self._say(EventType.FORCE_USED, text, _place(step))

    def _abandon(self, step: Step) -> None:
        unseen = step.outcome is Outcome.UNKNOWN
        count = step.abandoned if unseen else step.remaining
        self.changed[step.id] = dataclasses.replace(step, abandoned=count, unseen=unseen)
        self._set(progress_at=self._now)
        what = "unknown, abandoned unseen" if unseen else f"{step.remaining} abandoned"
        name = step.name if step.type else step.service
        text = f"{name}: {what} by force ({step.reason}: {step.message})"
        data = {**_place(step), "abandoned": count, "unseen": unseen, "reason": step.reason}
        self._say(EventType.FORCE_ABANDONED, text, data)
        self.abandoned.append(step.id)

    def _count_empty(self) -> None:
        count = self.deletion.empty_inventories + 1
        self._set(empty_inventories=count, purpose=RoundPurpose.NONE, progress_at=self._now)
        after = self.deletion
        rest = " but for what is abandoned" if any(force.is_abandoned(after, s) for s in self._steps) else ""
        text = f"inventory {after.round} is complete and empty{rest} ({count} in a row)"
        text += waived_text(after) + force.summary(after, self._steps)
        self._say(EventType.INVENTORY_EMPTY, text, {"round": after.round})

    def _mark_recoverable(self, until: datetime.datetime) -> None:
        self._set(point_of_no_return_at=until)
        time = utc(until)
        text = f"nothing is deleted before {time}: until then the project can be restored"
        self._say(EventType.RECOVERY_OPENED, text, {"until": time})

    def _reprove(self, why: str) -> None:
        settings = self.deletion.purpose is RoundPurpose.PROJECT_SETTINGS
        self._set(empty_inventories=0, purpose=RoundPurpose.NONE if settings else self.deletion.purpose)
        self._say(EventType.INVENTORY_VOID, why)

    def _void_lock(self, why: str, by: str) -> None:
        self._set(**REOPENED)
        if self.deletion.status is Status.VERIFYING:  # a lock of this round does not count either
            self._set(purpose=RoundPurpose.NONE, round=self.deletion.round + 1)
        self.events.append(Event(EventType.INVENTORY_VOID, why, by, {"lock_changed": True}))

    def _set_queue_state(self, state: QueueState) -> None:
        before = self.deletion
        if state is QueueState.WORKING is not before.queue_state:
            first = before.status is Status.ACCEPTED and (before.turn_at is None or before.turn_at < before.status_at)
            # The wait before the first place is no lack of progress.
            self._set(turn_at=self._now, progress_at=self._now if first else before.progress_at)
        self._set(queue_state=state)

    def _set_condition(self, action: SetCondition) -> None:
        before = self.deletion
        old = next((c for c in before.conditions if c.type == action.type), None)
        rule = CONDITIONS[action.type]
        if old is None and not (action.status or rule.fine):
            return
        if old and (old.status, old.reason, old.message) == (action.status, action.reason, action.message):
            return
        flipped = old is None or old.status is not action.status
        since = self._now if flipped or old is None else old.last_transition_at
        new = Condition(action.type, action.status, action.reason, action.message, since)
        conditions = (*(c for c in before.conditions if c.type != action.type), new)
        # A hold is no lack of progress: when it begins or ends, progress is measured from now on. The same holds when
        # the wait for a person ends, unless the deletion was stalled, too.
        anew = action.type is ConditionType.ON_HOLD or (
            action.type is ConditionType.BLOCKED and not action.status and not before.condition(ConditionType.STALLED)
        )
        progress = self._now if anew and flipped else before.progress_at
        self._set(conditions=conditions, progress_at=progress)
        # Each change of a hold goes into the journal: one lien may go and another one come. So does each blocker.
        if flipped or (rule.each_change and action.status):
            data = {"status": action.status, "reason": action.reason}
            says = "" if action.status else "not "
            self._say(f"condition.{action.type}", f"{says}{action.type}: {action.message or action.reason}", data)


def _place(step: Step) -> dict[str, str]:
    return {"region": step.region, "service": step.service, "type": step.type}
