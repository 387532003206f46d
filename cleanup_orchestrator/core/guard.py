"""Answers "may this be written now?" from one list of holds. Pure.

``HOLDS`` has one entry for each reason that keeps a step from running or from writing. The engine asks it before it
dispatches a step, the store in the transaction of each claim and each write, and the worker before each write call. A
new hold is one entry here, and the field of ``Deletion`` or ``Facts`` that it reads.

There are two kinds of holds. A ``WaitingHold`` ends without a change of the deletion: the deletion waits, shows the
condition ``on_hold``, and continues afterwards. Every other hold is final for the step.
"""

from __future__ import annotations

import abc
import dataclasses
import datetime
from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar

from cleanup_orchestrator.core.deletion import Deletion, Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.maintenance_windows import ALWAYS, Windows
from cleanup_orchestrator.core.step import Step, StepKind, StepState
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
class Facts:
    """What the holds read besides the step."""

    deletion: Deletion  #: with ``liens`` and ``brake`` as they are in force now
    now: datetime.datetime = _ANY_TIME  #: the database's time, UTC; needed with windows or a fencing token
    options: HoldOptions = NO_OPTIONS
    fencing_token: int | None = None  #: the caller's; none: the caller holds no claim, and none is checked
    never_delete: str = ""  #: why the project is on the never-delete list; empty: it is not, or the list was not read


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
    names: tuple[str, ...]  #: the name of each hold that applies

    def __str__(self) -> str:
        """Return the names of the holds, for all users who see the deletion."""
        return f"the deletion is on hold ({', '.join(self.names)}); the condition 'on_hold' says why"


# ------------------------------------------------------------------------------------------------ what a step does
def destructive(deletion: Deletion, step: Step) -> bool:
    """Whether a step locks the project, deletes, or stops what runs.

    These are the steps that a ``WaitingHold`` withholds. Lists, the orchestrator's own access and every undo go on.
    ``CLOSE`` is a lock, and ``REMOVE`` is a delete.
    """
    if step.kind is StepKind.SWEEP:
        return deletion.purpose in (RoundPurpose.DELETE, RoundPurpose.PROJECT_SETTINGS)
    return step.kind in (StepKind.DRAIN, StepKind.HALT, StepKind.CLOSE, StepKind.REMOVE)


def early(deletion: Deletion, step: Step) -> bool:
    """Whether a step of project settings is swept in the delete rounds already.

    A type of a project that is gone may stay unknown for ever, and then the last round never opens. So an informational
    step, whose resources any user may have created, does not wait for the last round.
    """
    return step.informational and deletion.purpose is RoundPurpose.DELETE and deletion.project_gone_at is not None


# ------------------------------------------------------------------------------------------------------- the holds
class Hold(abc.ABC):
    """One reason that keeps a step from running or from writing."""

    name: ClassVar[HoldName]
    stops_running: ClassVar[bool] = False  #: whether the step must not even be claimed
    stops_release: ClassVar[bool] = False  #: whether it also stops the undo of recorded changes

    @abc.abstractmethod
    def causes(self, facts: Facts, step: Step) -> Iterator[Cause]:
        """Yield every cause that keeps the step from running or writing now."""

    def holds(self, facts: Facts, step: Step) -> bool:
        """Whether there is such a cause."""
        return next(iter(self.causes(facts, step)), None) is not None


class WaitingHold(Hold):
    """A hold that ends by itself. It withholds destructive steps only."""

    @abc.abstractmethod
    def causes_for_deletion(self, facts: Facts) -> Iterator[Cause]:
        """Yield every cause that is in force on the deletion now."""

    def causes(self, facts: Facts, step: Step) -> Iterator[Cause]:
        """Yield the deletion's causes if the step is destructive."""
        if destructive(facts.deletion, step):
            yield from self.causes_for_deletion(facts)


class Ended(Hold):
    """The deletion has ended, or the step belongs to an earlier attempt."""

    name, stops_running, stops_release = HoldName.ENDED, True, True

    def causes(self, facts: Facts, step: Step) -> Iterator[Cause]:
        """Yield a cause if the deletion does not wait for the step."""
        if facts.deletion.status not in LIVE or step.round < facts.deletion.since_round:
            yield Cause(self.name, f"the deletion is {facts.deletion.status} and does not wait for this step")


class ClaimLost(Hold):
    """The caller's claim was taken by another worker, or its lease has run out."""

    name, stops_release = HoldName.CLAIM_LOST, True

    def causes(self, facts: Facts, step: Step) -> Iterator[Cause]:
        """Yield a cause if the caller named a claim and does not hold it any more."""
        if facts.fencing_token is None:
            return
        claimed = step.state is StepState.RUNNING and step.fencing_token == facts.fencing_token
        if not claimed or step.lease_until is None or step.lease_until <= facts.now:
            yield Cause(self.name, "the worker does not hold the lease of this step any more")


class EarlierRound(Hold):
    """The sweep, or the closing, belongs to a round that is over."""

    name, stops_running = HoldName.EARLIER_ROUND, True

    def causes(self, facts: Facts, step: Step) -> Iterator[Cause]:
        """Yield a cause if the step was dispatched in another round."""
        if step.kind in (StepKind.SWEEP, StepKind.CLOSE) and step.round != facts.deletion.round:
            yield Cause(self.name, f"the round of this {step.kind} is over")


class Cancelled(Hold):
    """The deletion is being cancelled: only the undo of recorded changes goes on."""

    name, stops_running = HoldName.CANCELLED, True

    def causes(self, facts: Facts, step: Step) -> Iterator[Cause]:
        """Yield a cause while the deletion is being cancelled."""
        if facts.deletion.status is Status.CANCELLING:
            yield Cause(self.name, "the deletion was cancelled")


class RecoveryOver(Hold):
    """The recovery window is over: nothing is stopped any more."""

    name, stops_running = HoldName.RECOVERY_OVER, True

    def causes(self, facts: Facts, step: Step) -> Iterator[Cause]:
        """Yield a cause for a halt outside of the recovery window."""
        if step.kind is StepKind.HALT and facts.deletion.status is not Status.RECOVERABLE:
            yield Cause(self.name, "the recovery window is over")


class DryRun(Hold):
    """The deletion is a dry run: it never writes."""

    name = HoldName.DRY_RUN

    def causes(self, facts: Facts, step: Step) -> Iterator[Cause]:
        """Yield a cause for a dry run."""
        if facts.deletion.dry_run:
            yield Cause(self.name, "the deletion is a dry run")


class Noticed(Hold):
    """Another client deleted the project: the deletion only lists resources."""

    name = HoldName.NOTICED

    def causes(self, facts: Facts, step: Step) -> Iterator[Cause]:
        """Yield a cause for a deletion that was only noticed."""
        if facts.deletion.origin is Origin.NOTICED:
            yield Cause(self.name, "the deletion of the project was only noticed")


class NoProject(Hold):
    """An adopted deletion has no project: it deletes resources and nothing else."""

    name = HoldName.NO_PROJECT

    def causes(self, facts: Facts, step: Step) -> Iterator[Cause]:
        """Yield a cause for a step of an adopted deletion that is not a sweep."""
        if facts.deletion.origin is Origin.ADOPTED and step.kind is not StepKind.SWEEP:
            yield Cause(self.name, "the project does not exist")


class KeptProject(Hold):
    """The deletion keeps the project: it neither disables nor removes it, nor deletes its settings."""

    name, stops_running = HoldName.KEPT_PROJECT, True

    def causes(self, facts: Facts, step: Step) -> Iterator[Cause]:
        """Yield a cause for a step that belongs to the removal of the project."""
        last = step.kind in (StepKind.CLOSE, StepKind.REMOVE)
        settings = step.project_setting and facts.deletion.purpose is not RoundPurpose.INVENTORY
        if facts.deletion.mode is Mode.EMPTY and (last or settings):
            yield Cause(self.name, "the deletion keeps the project")


class NeverDelete(Hold):
    """The project is on the operator's never-delete list."""

    name = HoldName.NEVER_DELETE

    def causes(self, facts: Facts, step: Step) -> Iterator[Cause]:
        """Yield a cause for a destructive step on a project that is on the list."""
        if facts.never_delete and destructive(facts.deletion, step):
            yield Cause(self.name, facts.never_delete)


class LienInForce(WaitingHold):
    """A lien is in force on the project."""

    name = HoldName.LIEN

    def causes_for_deletion(self, facts: Facts) -> Iterator[Cause]:
        """Yield each of the first liens, and the number of all others."""
        liens = facts.deletion.liens
        for lien in liens[:NAMED_LIENS]:
            clear = f"an admin clears it with 'openstack project deletion lien delete {lien.id}'"
            yield Cause(self.name, f"{lien.explained} ({clear})", lien.expires_at)
        if more := liens[NAMED_LIENS:]:
            yield Cause(self.name, f"{len(more)} more liens")


class BrakeOn(WaitingHold):
    """The brake is on."""

    name = HoldName.BRAKE

    def causes_for_deletion(self, facts: Facts) -> Iterator[Cause]:
        """Yield the brake if it is on."""
        if facts.deletion.brake is not None:
            text = f"{facts.deletion.brake.explained} ('openstack project deletion brake unset' lifts it)"
            yield Cause(self.name, text)


class OutsideWindows(WaitingHold):
    """The time is outside of ``[deletion] delete_windows``."""

    name = HoldName.WINDOW

    def causes_for_deletion(self, facts: Facts) -> Iterator[Cause]:
        """Yield when the windows open next, while they are closed."""
        if not facts.options.windows.open(facts.now):
            opens = facts.options.windows.opens(facts.now)
            text = f"outside of [deletion] delete_windows: they open next at {opens.isoformat(timespec='seconds')}Z"
            yield Cause(self.name, text, opens)


class WrongRound(Hold):
    """The step does not write in a round of this purpose, or does not write at all."""

    name = HoldName.WRONG_ROUND

    def causes(self, facts: Facts, step: Step) -> Iterator[Cause]:
        """Yield a cause unless a step of this kind writes in the present round."""
        if not self._writes(facts.deletion, step):
            yield Cause(self.name, f"a step of kind {step.kind} does not write in a round of this purpose")

    @staticmethod
    def _writes(deletion: Deletion, step: Step) -> bool:
        if step.kind is StepKind.SWEEP:
            own = RoundPurpose.PROJECT_SETTINGS if step.project_setting else RoundPurpose.DELETE
            return deletion.purpose is own or early(deletion, step)
        if step.kind is StepKind.REMOVE:
            return deletion.purpose is RoundPurpose.PROJECT_SETTINGS
        return step.kind in (StepKind.ACCESS, StepKind.DRAIN, StepKind.HALT, StepKind.CLOSE)


#: Every hold. The order of the waiting ones is the order in which a message names them. The first one gives the reason
#: of the condition, and the API hides the message by that reason: holds with a text that needs a permission come first.
HOLDS: tuple[Hold, ...] = (
    Ended(),
    EarlierRound(),
    Cancelled(),
    RecoveryOver(),
    ClaimLost(),
    DryRun(),
    Noticed(),
    NoProject(),
    KeptProject(),
    NeverDelete(),
    LienInForce(),
    BrakeOn(),
    OutsideWindows(),
    WrongRound(),
)


# ---------------------------------------------------------------------------------------------------- the questions
def causes(facts: Facts, step: Step, writing: bool = True) -> Iterator[Cause]:
    """Yield what keeps a step from running, or (``writing``) from writing, now."""
    for one in HOLDS:
        if (writing or one.stops_running) and (step.kind is not StepKind.RELEASE or one.stops_release):
            yield from one.causes(facts, step)


def allowed(deletion: Deletion, step: Step, writing: bool = False) -> bool:
    """Whether a step may run, or (``writing``) write, whatever the time and the claim."""
    return next(causes(Facts(deletion), step, writing), None) is None


def may_write(facts: Facts, step: Step) -> bool:
    """Whether a step may make a write call now."""
    return next(causes(facts, step), None) is None


def hold(deletion: Deletion, now: datetime.datetime, options: HoldOptions) -> Withheld | None:
    """Return what keeps a deletion from locking and deleting now.

    ``None``: nothing does, or the deletion never writes. A cancel is never held: it gives the project back.
    """
    if deletion.dry_run or deletion.origin is Origin.NOTICED or deletion.status is Status.CANCELLING:
        return None
    facts = Facts(deletion, now, options)
    found = [cause for one in HOLDS if isinstance(one, WaitingHold) for cause in one.causes_for_deletion(facts)]
    if not found:
        return None
    ends = [cause.until for cause in found if cause.until is not None]
    text = "held by " + "; ".join(cause.message for cause in found)
    names = tuple(dict.fromkeys(str(cause.hold) for cause in found))
    return Withheld(names[0], text, min(ends, default=None), names)
