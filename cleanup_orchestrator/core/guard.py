"""Answers "may this be written now?" from one list of holds. Pure.

``HOLDS`` has one entry for each reason that keeps a step from running or from writing: a function that returns the
causes. The engine asks it before it dispatches a step, the store in the transaction of each claim and each write, and
the worker, through the store, before each write call. A new hold is one entry here, and the field of ``Deletion`` or
``HoldInputs`` that its function reads.

There are two kinds of holds. One that waits ends without a change of the deletion: the deletion waits, shows the
condition ``on_hold``, and continues afterwards. Every other hold is final for the step.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from cleanup_orchestrator.core.delete_windows import ALWAYS, Windows
from cleanup_orchestrator.core.deletion import Deletion, DeletionView, RoundPurpose, Status
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.step import Step, StepKind, StepState, StepView
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.core.transitions import LIVE

#: Stands for "any time" where no hold reads the time.
_ANY_TIME = datetime.datetime.min

#: The message names this many liens at most, so that it fits into its column. The API returns all of them.
NAMED_LIENS = 10


class HoldName(StrEnum):
    """The names of the holds.

    The first three are reasons of the condition ``on_hold``, which is public.
    """

    LIEN = "lien"
    BRAKE = "brake"
    WINDOW = "window"
    ENDED = "ended"
    EARLIER_ROUND = "earlier_round"
    CANCELLED = "cancelled"
    RECOVERY_OVER = "recovery_over"
    CLAIM_LOST = "claim_lost"
    DRY_RUN = "dry_run"
    NOTICED = "noticed"
    NOT_BEFORE = "not_before"
    NO_PROJECT = "no_project"
    KEPT_PROJECT = "kept_project"
    NEVER_DELETE = "never_delete"
    WRONG_ROUND = "wrong_round"


@dataclasses.dataclass(frozen=True, slots=True)
class HoldOptions:
    """The options that holds read, made by ``cloud.protection.hold_options``."""

    windows: Windows = ALWAYS  #: the hours in which projects are locked and deleted


#: No option holds anything.
NO_OPTIONS = HoldOptions()


@dataclasses.dataclass(frozen=True, slots=True)
class HoldInputs:
    """What the holds read besides the step."""

    deletion: Deletion
    #: The database's time, UTC; needed with windows, a date of the deletion, or a fencing token.
    now: datetime.datetime = _ANY_TIME
    options: HoldOptions = NO_OPTIONS
    fencing_token: int | None = None  #: the caller's; none: the caller holds no claim, and none is checked
    never_delete: str = ""  #: why the project is on the never-delete list; empty: it is not, or the list was not read
    liens: tuple[Lien, ...] = ()  #: those on the project that are in force
    brake: Brake | None = None  #: if it is on


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """One reason why a step must not run or write now."""

    hold: HoldName
    message: str
    until: datetime.datetime | None = None  #: when it ends without a person's action; none: unknown, or never


@dataclasses.dataclass(frozen=True, slots=True)
class Withheld:
    """Everything that keeps a deletion from locking and deleting now.

    The deletion continues without a retry afterwards.
    """

    reason: str  #: ``lien``, ``brake`` or ``window``: the first of these that applies
    message: str  #: every cause, and what clears it: only for users who may read liens and the brake
    until: datetime.datetime | None  #: when the first cause ends without a person's action; none: unknown
    shown: str  #: the names of the holds, for all users who see the deletion

    def __str__(self) -> str:
        """Return the text for all users who see the deletion."""
        return self.shown


# ------------------------------------------------------------------------------------------------ what a step does
def destructive(deletion: Deletion, step: Step) -> bool:
    """Whether a step locks the project, deletes, or stops what runs.

    These are the steps that a hold which waits withholds. Lists, the orchestrator's own access and every undo go on.
    ``CLOSE`` is a lock, and ``REMOVE`` is a delete.
    """
    if step.kind is StepKind.SWEEP:
        return deletion.purpose in (RoundPurpose.DELETE, RoundPurpose.PROJECT_SETTINGS)
    return step.kind in (StepKind.DRAIN, StepKind.HALT, StepKind.CLOSE, StepKind.REMOVE)


def swept_in_delete_round(deletion: Deletion, step: StepView) -> bool:
    """Whether a step of project settings is swept in the delete rounds already.

    A type of a project that is gone may stay unknown for ever, and then the last round never opens. So an informational
    step, whose resources any user may have created, does not wait for the last round.
    """
    return step.informational and deletion.purpose is RoundPurpose.DELETE and deletion.project_gone_at is not None


# ------------------------------------------------------------------------------------------------------- the holds
#: What a hold finds: each cause as its message, and when it ends without a person's action.
Found = Iterable[tuple[str, datetime.datetime | None]]


def _if(condition: bool, message: str) -> Found:
    """Return one cause that does not end by itself, if the condition holds."""
    return ((message, None),) if condition else ()


def _ended(inputs: HoldInputs, step: Step) -> Found:
    """The deletion has ended, or the step belongs to an earlier attempt."""
    over = inputs.deletion.status not in LIVE or step.round < inputs.deletion.since_round
    return _if(over, f"the deletion is {inputs.deletion.status} and does not wait for this step")


def _earlier_round(inputs: HoldInputs, step: Step) -> Found:
    """The sweep, or the closing, belongs to a round that is over."""
    over = step.kind in (StepKind.SWEEP, StepKind.CLOSE) and step.round != inputs.deletion.round
    return _if(over, f"the round of this {step.kind} is over")


def _cancelled(inputs: HoldInputs, step: Step) -> Found:
    """The deletion is being cancelled: only the undo of recorded changes goes on."""
    return _if(inputs.deletion.status is Status.CANCELLING, "the deletion was cancelled")


def _recovery_over(inputs: HoldInputs, step: Step) -> Found:
    """The recovery window is over: nothing more is stopped."""
    over = step.kind is StepKind.HALT and inputs.deletion.status is not Status.RECOVERABLE
    return _if(over, "the recovery window is over")


def _claim_lost(inputs: HoldInputs, step: Step) -> Found:
    """The caller's claim was taken by another worker, or its lease has run out."""
    if inputs.fencing_token is None:
        return ()
    claimed = step.state is StepState.RUNNING and step.fencing_token == inputs.fencing_token
    lost = not claimed or step.lease_until is None or step.lease_until <= inputs.now
    return _if(lost, "the worker no longer holds the lease of this step")


def _dry_run(inputs: HoldInputs, step: Step) -> Found:
    """The deletion is a dry run: it never writes."""
    return _if(inputs.deletion.dry_run, "the deletion is a dry run")


def _noticed(inputs: HoldInputs, step: Step) -> Found:
    """Another client deleted the project: the deletion only lists resources."""
    return _if(inputs.deletion.profile.noticed, "the deletion of the project was only noticed")


def _not_before(inputs: HoldInputs, step: Step) -> Found:
    """The date of the deletion has not come."""
    at = inputs.deletion.not_before
    return _if(at is not None and inputs.now < at, f"the deletion begins at {utc(at)}" if at else "")


def _no_project(inputs: HoldInputs, step: Step) -> Found:
    """An adopted deletion has no project: it deletes resources and nothing else."""
    other = inputs.deletion.profile.adopted and step.kind is not StepKind.SWEEP
    return _if(other, "the project does not exist")


def _kept_project(inputs: HoldInputs, step: Step) -> Found:
    """The deletion keeps the project: it neither disables nor removes it, nor deletes its settings."""
    last = step.kind in (StepKind.CLOSE, StepKind.REMOVE)
    settings = step.project_setting and inputs.deletion.purpose is not RoundPurpose.INVENTORY
    return _if(inputs.deletion.profile.keeps_project and (last or settings), "the deletion keeps the project")


def _never_delete(inputs: HoldInputs, step: Step) -> Found:
    """The project is on the operator's never-delete list."""
    return _if(bool(inputs.never_delete) and destructive(inputs.deletion, step), inputs.never_delete)


def _wrong_round(inputs: HoldInputs, step: Step) -> Found:
    """The step does not write in a round of this purpose, or does not write at all."""
    deletion, writes = inputs.deletion, step.kind in (StepKind.ACCESS, StepKind.DRAIN, StepKind.HALT, StepKind.CLOSE)
    if step.kind is StepKind.SWEEP:
        own = RoundPurpose.PROJECT_SETTINGS if step.project_setting else RoundPurpose.DELETE
        writes = deletion.purpose is own or swept_in_delete_round(deletion, step)
    elif step.kind is StepKind.REMOVE:
        writes = deletion.purpose is RoundPurpose.PROJECT_SETTINGS
    return _if(not writes, f"a step of kind {step.kind} does not write in a round of this purpose")


def _liens(inputs: HoldInputs) -> Found:
    """Liens are in force on the project: each of the first ones, and the number of all others."""
    for lien in inputs.liens[:NAMED_LIENS]:
        clear = f"an admin clears it with 'openstack project deletion lien delete {lien.id}'"
        yield f"{lien.explained} ({clear})", lien.expires_at
    if more := inputs.liens[NAMED_LIENS:]:
        yield f"{len(more)} more liens", None


def _brake(inputs: HoldInputs) -> Found:
    """The brake is on."""
    if inputs.brake is not None:
        yield f"{inputs.brake.explained} ('openstack project deletion brake lift' lifts it)", None


def _outside_windows(inputs: HoldInputs) -> Found:
    """The time is outside of ``[deletion] delete_windows``: until they open next."""
    if not inputs.options.windows.open(inputs.now):
        opens = inputs.options.windows.opens(inputs.now)
        yield f"outside of [deletion] delete_windows: they open next at {utc(opens)}", opens


@dataclasses.dataclass(frozen=True, slots=True)
class Hold:
    """One reason that keeps a step from running or from writing."""

    name: HoldName
    find: Callable[[HoldInputs, Step], Found]
    stops_running: bool = False  #: whether the step must not even be claimed
    stops_release: bool = False  #: whether it also stops the undo of recorded changes

    def causes(self, inputs: HoldInputs, step: Step) -> Iterator[Cause]:
        """Yield every cause that keeps the step from running or writing now."""
        return (Cause(self.name, message, until) for message, until in self.find(inputs, step))


@dataclasses.dataclass(frozen=True, slots=True)
class WaitingHold:
    """A hold that ends by itself. It withholds destructive steps only."""

    name: HoldName
    find: Callable[[HoldInputs], Found]
    stops_running = stops_release = False

    def causes(self, inputs: HoldInputs, step: Step) -> Iterator[Cause]:
        """Yield the deletion's causes if the step is destructive."""
        return self.of_deletion(inputs) if destructive(inputs.deletion, step) else iter(())

    def of_deletion(self, inputs: HoldInputs) -> Iterator[Cause]:
        """Yield every cause that is in force on the deletion now."""
        return (Cause(self.name, message, until) for message, until in self.find(inputs))


#: The holds that end by themselves. The order is the order in which a message names them. The first one gives the
#: reason of the condition, and the API hides the message by that reason: holds with a text that needs a permission come
#: first.
WAITING = (
    WaitingHold(HoldName.LIEN, _liens),
    WaitingHold(HoldName.BRAKE, _brake),
    WaitingHold(HoldName.WINDOW, _outside_windows),
)

#: Every hold. The first cause is the one that a worker names.
HOLDS: tuple[Hold | WaitingHold, ...] = (
    Hold(HoldName.ENDED, _ended, stops_running=True, stops_release=True),
    Hold(HoldName.EARLIER_ROUND, _earlier_round, stops_running=True),
    Hold(HoldName.CANCELLED, _cancelled, stops_running=True),
    Hold(HoldName.RECOVERY_OVER, _recovery_over, stops_running=True),
    Hold(HoldName.CLAIM_LOST, _claim_lost, stops_release=True),
    Hold(HoldName.DRY_RUN, _dry_run),
    Hold(HoldName.NOTICED, _noticed),
    Hold(HoldName.NOT_BEFORE, _not_before),
    Hold(HoldName.NO_PROJECT, _no_project),
    Hold(HoldName.KEPT_PROJECT, _kept_project, stops_running=True),
    Hold(HoldName.NEVER_DELETE, _never_delete),
    *WAITING,
    Hold(HoldName.WRONG_ROUND, _wrong_round),
)


# ---------------------------------------------------------------------------------------------------- the questions
def causes(inputs: HoldInputs, step: Step, writing: bool = True) -> Iterator[Cause]:
    """Yield what keeps a step from running, or (``writing``) from writing, now."""
    for one in HOLDS:
        if (writing or one.stops_running) and (step.kind is not StepKind.RELEASE or one.stops_release):
            yield from one.causes(inputs, step)


def may_run(deletion: Deletion, step: Step) -> bool:
    """Whether a step may run, whatever the time and the claim."""
    return next(causes(HoldInputs(deletion), step, writing=False), None) is None


def shown(held_by: Iterable[Cause]) -> str:
    """Return the first of some causes, for all users who see the deletion.

    Of the holds that end by themselves it has the names only: the reasons need a permission.
    """
    first, *more = held_by
    names = {hold.name for hold in WAITING}
    if first.hold not in names:
        return first.message
    on_hold = dict.fromkeys(str(cause.hold) for cause in (first, *more) if cause.hold in names)
    return f"the deletion is on hold ({', '.join(on_hold)}); the condition 'on_hold' says why"


def hold(deletion: DeletionView, now: datetime.datetime, options: HoldOptions) -> Withheld | None:
    """Return what keeps a deletion from locking and deleting now.

    ``None``: nothing does, or the deletion never writes. A cancel is never held: it gives the project back.
    """
    if not deletion.profile.writes or deletion.status is Status.CANCELLING:
        return None
    inputs = HoldInputs(deletion, now, options, liens=deletion.liens, brake=deletion.brake)
    held_by = [cause for one in WAITING for cause in one.of_deletion(inputs)]
    if not held_by:
        return None
    ends = [cause.until for cause in held_by if cause.until is not None]
    text = "held by " + "; ".join(cause.message for cause in held_by)
    return Withheld(str(held_by[0].hold), text, min(ends, default=None), shown(held_by))
