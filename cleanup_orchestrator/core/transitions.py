"""The legal moves between statuses, and what is derived from them. Pure."""

from __future__ import annotations

import dataclasses
import datetime
from enum import StrEnum

from cleanup_orchestrator.core.condition_types import CONDITIONS, Condition, ConditionRule, ConditionType, Lasts
from cleanup_orchestrator.core.deletion import Deletion, RoundPurpose, Status
from cleanup_orchestrator.core.queue import QueueState


class By(StrEnum):
    """Who makes a move: the engine, or a user through the API."""

    ENGINE = "engine"
    USER = "user"


S = Status

#: (from, to) -> who may make the move. Every other move is illegal.
MOVES: dict[tuple[Status, Status], By] = {
    (S.ACCEPTED, S.DRAINING): By.ENGINE,  # cascade
    (S.ACCEPTED, S.INVENTORY): By.ENGINE,  # report and dry run take an inventory without a drain first
    (S.ACCEPTED, S.FAILED): By.ENGINE,
    (S.ACCEPTED, S.CANCELLING): By.USER,
    (S.DRAINING, S.INVENTORY): By.ENGINE,
    (S.DRAINING, S.FAILED): By.ENGINE,
    (S.DRAINING, S.LEFTOVERS): By.ENGINE,  # report: the user is not locked out, whatever error occurs
    (S.DRAINING, S.CANCELLING): By.USER,
    (S.INVENTORY, S.DRAINING): By.ENGINE,  # backwards: the first inventory of report mode was empty
    (S.INVENTORY, S.RECOVERABLE): By.ENGINE,
    (S.INVENTORY, S.DELETING): By.ENGINE,
    (S.INVENTORY, S.VERIFYING): By.ENGINE,
    (S.INVENTORY, S.LEFTOVERS): By.ENGINE,
    (S.INVENTORY, S.PLANNED): By.ENGINE,
    (S.INVENTORY, S.FAILED): By.ENGINE,
    (S.INVENTORY, S.CANCELLING): By.USER,
    (S.RECOVERABLE, S.INVENTORY): By.ENGINE,  # backwards: another inventory, right before the first delete
    (S.RECOVERABLE, S.FAILED): By.ENGINE,  # empty: another client deleted the project that is kept
    (S.RECOVERABLE, S.CANCELLING): By.USER,
    (S.DELETING, S.VERIFYING): By.ENGINE,
    (S.DELETING, S.FAILED): By.ENGINE,
    (S.DELETING, S.CANCELLING): By.USER,
    (S.VERIFYING, S.DELETING): By.ENGINE,  # backwards: verification found something
    (S.VERIFYING, S.LEFTOVERS): By.ENGINE,
    (S.VERIFYING, S.DELETED): By.ENGINE,
    (S.VERIFYING, S.PURGED): By.ENGINE,
    (S.VERIFYING, S.FAILED): By.ENGINE,
    (S.VERIFYING, S.CANCELLING): By.USER,
    (S.CANCELLING, S.CANCELLED): By.ENGINE,
    (S.LEFTOVERS, S.ACCEPTED): By.USER,  # backwards: retry
    (S.FAILED, S.ACCEPTED): By.USER,  # backwards: retry
}

#: Statuses in their usual order. A move to an earlier one is backwards and needs an event that says why.
ORDER = (S.ACCEPTED, S.DRAINING, S.INVENTORY, S.RECOVERABLE, S.DELETING, S.VERIFYING, S.DELETED)

#: The present attempt has deleted nothing in these statuses: the point of no return is still to come.
RESTORABLE = frozenset(ORDER[: ORDER.index(S.DELETING)])

#: Statuses that no move leaves.
FINAL = frozenset(s for s in Status if not any(a is s for a, _ in MOVES))
#: Statuses in which the engine has work to do.
LIVE = frozenset(a for (a, _), by in MOVES.items() if by is By.ENGINE)
#: Statuses in which a deletion needs a place to be worked on. In ``verifying`` it mostly waits for token caches.
WORKING = frozenset({S.ACCEPTED, S.DRAINING, S.INVENTORY, S.DELETING})
#: Statuses in which a proof may rest on the lock.
LOCKED = frozenset({S.INVENTORY, S.RECOVERABLE, S.DELETING, S.VERIFYING})
#: Statuses that only a person can change.
RESTING = frozenset(Status) - LIVE - FINAL


#: The shortest time between two retries of a live deletion that both end its waiting times.
RETRY_NOW_INTERVAL = datetime.timedelta(seconds=10)


class IllegalMove(Exception):
    """The table has no such move: a defect, or a user's action that came too late."""

    def __init__(self, before: Status, after: Status, why: str = "") -> None:
        super().__init__(f"a deletion that is {before} cannot become {after}" + (f": {why}" if why else ""))
        self.before, self.after = before, after


def cancellable(deletion: Deletion) -> bool:
    """Whether a cancel is accepted, which ends with the round of project settings."""
    return (deletion.status, S.CANCELLING) in MOVES and deletion.purpose is not RoundPurpose.PROJECT_SETTINGS


def restorable(deletion: Deletion) -> bool:
    """Whether a restore is accepted: a cancel before anything is deleted."""
    return deletion.status in RESTORABLE and cancellable(deletion)


def retryable(deletion: Deletion) -> bool:
    """Whether a retry is accepted: it begins a new attempt, or has a live deletion try again at once."""
    if deletion.condition(ConditionType.SCHEDULED):
        return False
    return (deletion.status, S.ACCEPTED) in MOVES or retries_in_place(deletion)


def retries_in_place(deletion: Deletion) -> bool:
    """Whether a retry does not begin a new attempt, and only ends the waiting times of the present one."""
    return deletion.status in LIVE and deletion.status is not S.CANCELLING


def retried_lately(deletion: Deletion, now: datetime.datetime) -> bool:
    """Whether the waiting times ended so lately that a retry of a live deletion has no effect.

    Each such retry writes to the journal and has services called again, so that their number has to have a limit.
    """
    at = deletion.retry_now_at
    return at is not None and at <= now < at + RETRY_NOW_INTERVAL


def forcible(deletion: Deletion) -> bool:
    """Whether force is accepted: during deletes, until the project is being removed."""
    if not deletion.profile.may_be_forced:
        return False
    return deletion.status in (S.DELETING, S.VERIFYING) and deletion.purpose is not RoundPurpose.PROJECT_SETTINGS


def _outlasts(condition: Condition, to: Status) -> bool:
    """Whether a condition stays on record when a deletion gets a status."""
    rule = CONDITIONS.get(condition.type, ConditionRule(fine=False))  # a later version may have recorded another type
    if to is S.ACCEPTED or (to is S.CANCELLING and rule.until_cancel):
        return False
    match rule.lasts:
        case Lasts.STATUS:
            return False
        case Lasts.LIVE:
            return to in LIVE
        case Lasts.WAIT:
            return to in LIVE or not condition.status
        case Lasts.LOCK:
            return to in LIVE or to is S.DELETED
        case Lasts.ATTEMPT:
            return True


def move(deletion: Deletion, to: Status, by: By, now: datetime.datetime, reason: str, message: str = "") -> Deletion:
    """Return the deletion in its new status, with all values of the old status reset.

    :raises IllegalMove: the table has no such move for ``by``, or the project is being removed
    """
    if MOVES.get((deletion.status, to)) is not by:
        raise IllegalMove(deletion.status, to)
    if to is S.CANCELLING and not cancellable(deletion):
        raise IllegalMove(deletion.status, to, "the project is being removed")
    after = dataclasses.replace(
        deletion,
        status=to,
        reason=str(reason),
        message=message,
        status_at=now,
        updated_at=now,
        progress_at=now,
        wake_at=now,
        purpose=RoundPurpose.NONE,
        round_opened_at=None,
        empty_inventories=0,
        finished_at=None if to in LIVE else now,
        conditions=tuple(c for c in deletion.conditions if _outlasts(c, to)),
    )
    if to not in LIVE and to is not S.DELETED:  # what was locked is given back by now
        after = dataclasses.replace(after, drained_at=None, closed_at=None)
    if to in (S.CANCELLING, S.ACCEPTED):
        after = dataclasses.replace(after, forced=None)
    if by is By.ENGINE and to not in WORKING:  # after a user's cancel, the engine announces that a place is free
        after = dataclasses.replace(after, queue_state=QueueState.OUT)
    if to is S.DELETING and (deletion.status is S.INVENTORY or deletion.point_of_no_return_at is None):
        after = dataclasses.replace(after, point_of_no_return_at=now)
    if to is S.ACCEPTED:
        after = dataclasses.replace(
            after,
            attempt=deletion.attempt + 1,
            round=deletion.round + 1,
            since_round=deletion.round + 1,
            queue_state=QueueState.WAITING,
            drained_at=None,
            closed_at=None,
            project_gone_at=None,
            point_of_no_return_at=None,
            waivers=(),
            approvals=(),  # each was given for what the earlier attempt found
        )
    return after
