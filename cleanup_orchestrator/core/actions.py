"""The actions that a decision consists of, and their effect on a deletion. Pure.

``apply`` turns actions into new values and journal lines. ``record`` does the same with the result of a step.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

from cleanup_orchestrator.core import force
from cleanup_orchestrator.core.deletion import Condition, ConditionType, Deletion, RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.core.transitions import LIVE, ORDER, By, move


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """Change the status. The reason is written to the journal."""

    to: Status
    reason: str
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class OpenRound:
    """Open a new round. Results of earlier rounds do not count any more."""

    purpose: RoundPurpose


@dataclasses.dataclass(frozen=True, slots=True)
class Dispatch:
    """Hand a step to the workers."""

    step_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class UseForce:
    """Use the force of the step's type on its leftovers, from the next try on."""

    step_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Abandon:
    """Abandon, by force, the leftovers of a step, or what it could not list."""

    step_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class CountEmpty:
    """Close the round and count it: it was a complete inventory that found nothing but abandoned resources."""


@dataclasses.dataclass(frozen=True, slots=True)
class MarkDrained:
    """Record when the drain took hold."""

    at: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class MarkClosed:
    """Record since when the project is disabled. No user gets a token for it since then."""

    at: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class MarkRecoverable:
    """Record the end of the recovery window. Nothing is deleted before it."""

    until: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Reprove:
    """Discard the empty inventories and leave the round of project settings. The project is proven empty again."""

    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class SetCondition:
    """Set a condition: an observed property of the deletion."""

    type: ConditionType
    status: bool
    reason: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Wake:
    """Decide again at this time, also without a message."""

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
    | SetCondition
    | Wake
)
Actions = tuple[Action, ...]


#: Kinds whose tries are counted from one in each round.
_EACH_ROUND = frozenset({StepKind.SWEEP, StepKind.SURVEY, StepKind.DRAIN, StepKind.CLOSE, StepKind.REMOVE})


@dataclasses.dataclass(frozen=True, slots=True)
class Applied:
    """The effect of actions on a deletion: what to save in one transaction, and the casts to send afterwards."""

    deletion: Deletion
    steps: tuple[Step, ...]  #: only those that changed
    events: tuple[Event, ...]
    casts: tuple[str, ...]  #: step ids
    changed: bool  #: whether another decision should follow at once
    abandoned: tuple[str, ...] = ()  #: ids of the steps whose leftovers are abandoned


def not_looked_at(deletion: Deletion) -> str:
    """Name the waivers that a result relies on; empty: it relies on none."""
    return "; not looked at: " + "; ".join(map(str, deletion.waivers)) if deletion.waivers else ""


def apply(deletion: Deletion, steps: Sequence[Step], actions: Actions, now: datetime.datetime) -> Applied:
    """Turn actions into new values and journal lines."""
    after = deletion
    by_id = {s.id: s for s in steps}
    changed: dict[str, Step] = {}
    events: list[Event] = []
    casts: list[str] = []
    abandoned: list[str] = []
    again = False
    for action in actions:
        match action:
            case Move(to, reason, message):
                backwards = to in ORDER and after.status in ORDER and ORDER.index(to) < ORDER.index(after.status)
                data = {"from": str(after.status), "to": str(to), "reason": reason, "backwards": backwards}
                after = move(after, to, By.ENGINE, now, reason, message)
                events.append(Event(f"deletion.{to}", message or f"{data['from']} → {to}", data=data))
                again = to in LIVE
            case OpenRound(purpose):
                after = dataclasses.replace(
                    after, round=after.round + 1, purpose=purpose, round_opened_at=now, progress_at=now
                )
                data = {"round": after.round, "purpose": str(purpose)}
                events.append(Event(EventType.ROUND_OPENED, f"round {after.round}: {purpose}", data=data))
                again = True
            case CountEmpty():
                after = dataclasses.replace(
                    after, empty_inventories=after.empty_inventories + 1, purpose=RoundPurpose.NONE, progress_at=now
                )
                rest = " but for what was abandoned" if any(force.is_abandoned(after, s) for s in steps) else ""
                text = f"inventory {after.round} is complete and empty{rest} ({after.empty_inventories} in a row)"
                text += not_looked_at(after) + force.summary(after, steps)
                events.append(Event(EventType.INVENTORY_EMPTY, text, data={"round": after.round}))
                again = True
            case MarkDrained(at):
                after = dataclasses.replace(after, drained_at=at, empty_inventories=0, progress_at=now)
                events.append(Event(EventType.DRAIN_HELD, f"the drain took hold at {at.isoformat()}Z"))
                again = True
            case MarkClosed(at):
                after = dataclasses.replace(
                    after, closed_at=at, drained_at=after.drained_at or at, empty_inventories=0, progress_at=now
                )
                events.append(Event(EventType.PROJECT_CLOSED, f"the project is disabled since {at.isoformat()}Z"))
                again = True
            case Reprove(why):
                purpose = RoundPurpose.NONE if after.purpose is RoundPurpose.PROJECT_SETTINGS else after.purpose
                after = dataclasses.replace(after, empty_inventories=0, purpose=purpose)
                events.append(Event(EventType.INVENTORY_VOID, why))
                again = True
            case MarkRecoverable(until):
                after = dataclasses.replace(after, point_of_no_return_at=until)
                text = (
                    f"nothing is deleted before {until.isoformat(timespec='seconds')}Z: until then it can be restored"
                )
                events.append(
                    Event(EventType.RECOVERY_OPENED, text, data={"until": until.isoformat(timespec="seconds") + "Z"})
                )
            case SetCondition():
                after, event = _set_condition(after, action, now)
                events += [event] if event else []
            case Dispatch(step_id):
                step = by_id[step_id]
                fresh = step.round < (after.round if step.kind in _EACH_ROUND else after.since_round)
                failed = step.state is StepState.DONE and step.reason not in (Reason.QUEUED, Reason.ON_HOLD)
                attempt = 1 if fresh else step.attempt + failed
                changed[step_id] = dataclasses.replace(
                    step,
                    round=after.round,
                    attempt=attempt,
                    forcing=step.forcing and not fresh,
                    state=StepState.DISPATCHED,
                    dispatched_at=now,
                    lease_until=None,
                )
                casts.append(step_id)
            case UseForce(step_id):
                step = by_id[step_id]
                changed[step_id] = dataclasses.replace(step, forcing=True, attempt=0)
                after = dataclasses.replace(after, progress_at=now)
                text = f"{step.name}: nothing moves any more, force is used on {step.remaining} left"
                events.append(Event(EventType.FORCE_USED, text, data=_place(step)))
                again = True
            case Abandon(step_id):
                step = by_id[step_id]
                lost = step.outcome is Outcome.UNKNOWN
                count = step.abandoned if lost else step.remaining
                changed[step_id] = dataclasses.replace(step, abandoned=count, unseen=lost)
                after = dataclasses.replace(after, progress_at=now)
                what = "unknown, abandoned unseen" if lost else f"{step.remaining} abandoned"
                name = step.name if step.type else step.service
                text = f"{name}: {what} by force ({step.reason}: {step.message})"
                data = {**_place(step), "abandoned": count, "unseen": lost, "reason": step.reason}
                events.append(Event(EventType.FORCE_ABANDONED, text, data=data))
                abandoned.append(step_id)
                again = True
            case Wake(at):
                after = dataclasses.replace(after, wake_at=at)
    if after != deletion:
        after = dataclasses.replace(after, updated_at=now)
    return Applied(after, tuple(changed.values()), tuple(events), tuple(casts), again, tuple(abandoned))


def _place(step: Step) -> dict[str, str]:
    return {"region": step.region, "service": step.service, "type": step.type}


def _set_condition(d: Deletion, action: SetCondition, now: datetime.datetime) -> tuple[Deletion, Event | None]:
    old = next((c for c in d.conditions if c.type == action.type), None)
    if old is None and not action.status and action.type in (ConditionType.STALLED, ConditionType.ON_HOLD):
        return d, None
    if old and (old.status, old.reason, old.message) == (action.status, action.reason, action.message):
        return d, None
    flipped = old is None or old.status is not action.status
    new = Condition(
        action.type,
        action.status,
        action.reason,
        action.message,
        now if flipped or old is None else old.last_transition_at,
    )
    conditions = (*(c for c in d.conditions if c.type != action.type), new)
    event = Event(
        f"condition.{action.type}",
        action.message or action.reason,
        data={"status": action.status, "reason": action.reason},
    )
    # A hold is no lack of progress: after its end, the time without progress begins anew.
    progress = now if action.type == ConditionType.ON_HOLD and flipped else d.progress_at
    # Each change of a hold is written to the journal: one lien may end while another begins.
    told = flipped or (action.type == ConditionType.ON_HOLD and action.status)
    return dataclasses.replace(d, conditions=conditions, progress_at=progress), event if told else None


def record(deletion: Deletion, step: Step, sweep: StepResult, now: datetime.datetime) -> tuple[Deletion, Step]:
    """Return deletion and step with a finished sweep's result in them."""
    after = dataclasses.replace(
        step,
        state=StepState.DONE,
        outcome=Outcome.NONE if step.waived else sweep.outcome,  # it was waived while it ran: its result counts no more
        reason=str(Reason.WAIVED) if step.waived else sweep.reason,
        message=step.message if step.waived else sweep.message,
        found=sweep.found,
        kept=sweep.kept,
        remaining=len(sweep.leftovers),
        abandoned=_abandoned(deletion, step, sweep),
        unseen=step.unseen and sweep.outcome is Outcome.UNKNOWN and force.works(deletion),
        unplanned=sum(leftover.reason is Reason.NOT_PLANNED for leftover in sweep.leftovers),
        digest=sweep.digest or step.digest,
        deleted=step.deleted + len(sweep.deleted),
        calls=step.calls + sweep.calls,
        finished_at=now,
        lease_until=None,
    )
    if deletion.purpose is RoundPurpose.DELETE and sweep.outcome is not Outcome.UNKNOWN:
        # What an earlier listing had and neither listing of this sweep has went along with something else.
        along = max(0, step.remaining - sweep.found)
        after = dataclasses.replace(after, deleted=after.deleted + along)
    progress = (
        bool(sweep.deleted)
        or (sweep.outcome is Outcome.CLEAR and step.outcome is not Outcome.CLEAR)
        or (sweep.outcome is Outcome.LEFTOVERS and len(sweep.leftovers) < step.remaining)
    )
    return dataclasses.replace(deletion, progress_at=now if progress else deletion.progress_at, updated_at=now), after


def _abandoned(deletion: Deletion, step: Step, sweep: StepResult) -> int:
    """Return how many of a step's leftovers count as let go of; what is not seen now was, and stays on record."""
    if not force.works(deletion):
        return 0
    return step.abandoned if sweep.outcome is Outcome.UNKNOWN else sum(one.abandoned for one in sweep.leftovers)
