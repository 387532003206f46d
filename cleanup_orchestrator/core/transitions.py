"""The one table of legal moves between statuses. Everything about "may", "live" and "final" is derived from it."""

from __future__ import annotations

import dataclasses
import datetime
from enum import StrEnum

from cleanup_orchestrator.core.deletion import ConditionType, Deletion, Mode, Origin, RoundPurpose, Status


class By(StrEnum):
    """Who makes a move."""

    ENGINE = "engine"
    USER = "user"


S = Status

#: (from, to) -> who may make the move. What is not here is illegal.
MOVES: dict[tuple[Status, Status], By] = {
    (S.ACCEPTED, S.DRAINING): By.ENGINE,  # cascade
    (S.ACCEPTED, S.INVENTORY): By.ENGINE,  # report and dry run look first, without any drain
    (S.ACCEPTED, S.FAILED): By.ENGINE,
    (S.ACCEPTED, S.CANCELLING): By.USER,
    (S.DRAINING, S.INVENTORY): By.ENGINE,
    (S.DRAINING, S.FAILED): By.ENGINE,
    (S.DRAINING, S.LEFTOVERS): By.ENGINE,  # report: whatever goes wrong, the user is not locked out
    (S.DRAINING, S.CANCELLING): By.USER,
    (S.INVENTORY, S.DRAINING): By.ENGINE,  # backwards: the first look of report mode found nothing
    (S.INVENTORY, S.RECOVERABLE): By.ENGINE,
    (S.INVENTORY, S.DELETING): By.ENGINE,
    (S.INVENTORY, S.VERIFYING): By.ENGINE,
    (S.INVENTORY, S.LEFTOVERS): By.ENGINE,
    (S.INVENTORY, S.PLANNED): By.ENGINE,
    (S.INVENTORY, S.FAILED): By.ENGINE,
    (S.INVENTORY, S.CANCELLING): By.USER,
    (S.RECOVERABLE, S.INVENTORY): By.ENGINE,  # backwards: it looks once more, right before the first delete
    (S.RECOVERABLE, S.CANCELLING): By.USER,
    (S.DELETING, S.VERIFYING): By.ENGINE,
    (S.DELETING, S.FAILED): By.ENGINE,
    (S.DELETING, S.CANCELLING): By.USER,
    (S.VERIFYING, S.DELETING): By.ENGINE,  # backwards: verification found something
    (S.VERIFYING, S.LEFTOVERS): By.ENGINE,
    (S.VERIFYING, S.DELETED): By.ENGINE,
    (S.VERIFYING, S.FAILED): By.ENGINE,
    (S.VERIFYING, S.CANCELLING): By.USER,
    (S.CANCELLING, S.CANCELLED): By.ENGINE,
    (S.LEFTOVERS, S.ACCEPTED): By.USER,  # backwards: retry
    (S.FAILED, S.ACCEPTED): By.USER,  # backwards: retry
}

#: Statuses in the order of the way; a move to an earlier one is backwards and needs an event that says why.
ORDER = (S.ACCEPTED, S.DRAINING, S.INVENTORY, S.RECOVERABLE, S.DELETING, S.VERIFYING, S.DELETED)

#: Nothing of the present attempt is deleted in these: the point of no return is still to come.
RESTORABLE = frozenset(ORDER[: ORDER.index(S.DELETING)])

#: No move leads out.
FINAL = frozenset(s for s in Status if not any(a is s for a, _ in MOVES))
#: The engine has something to do.
LIVE = frozenset(a for (a, _), by in MOVES.items() if by is By.ENGINE)
#: Only a person can move it on.
RESTING = frozenset(Status) - LIVE - FINAL


#: Conditions that only what is under way has.
_OF_LIVE = frozenset({ConditionType.STALLED, ConditionType.ON_HOLD, ConditionType.HALTED})


class IllegalMove(Exception):
    """A move that the table does not have: a defect, or a user's action that came too late."""

    def __init__(self, before: Status, after: Status, why: str = "") -> None:
        super().__init__(f"a deletion that is {before} cannot become {after}" + (f": {why}" if why else ""))
        self.before, self.after = before, after


def cancellable(deletion: Deletion) -> bool:
    """Whether a cancel would still be taken. Not once the project settings round is open: then the project is going."""
    return (deletion.status, S.CANCELLING) in MOVES and deletion.purpose is not RoundPurpose.PROJECT_SETTINGS


def restorable(deletion: Deletion) -> bool:
    """Whether a restore would be taken: a cancel before anything is deleted."""
    return deletion.status in RESTORABLE and cancellable(deletion)


def retryable(deletion: Deletion) -> bool:
    """Whether a retry would be taken."""
    return (deletion.status, S.ACCEPTED) in MOVES


def forcible(deletion: Deletion) -> bool:
    """Whether force would be taken: only where deletes are under way, and not once the project is being removed."""
    if deletion.mode is not Mode.CASCADE or deletion.dry_run or deletion.origin is not Origin.REQUEST:
        return False
    return deletion.status in (S.DELETING, S.VERIFYING) and deletion.purpose is not RoundPurpose.PROJECT_SETTINGS


def move(deletion: Deletion, to: Status, by: By, now: datetime.datetime, reason: str, message: str = "") -> Deletion:
    """Return the deletion in its new status, with everything reset that belongs to the old one.

    :raises IllegalMove: when the table has no such move for ``by``, or the point of no return is passed
    """
    if MOVES.get((deletion.status, to)) is not by:
        raise IllegalMove(deletion.status, to)
    if to is S.CANCELLING and not cancellable(deletion):
        raise IllegalMove(deletion.status, to, "the project is being removed")
    ended = {ConditionType.STALLED} if to in LIVE else _OF_LIVE
    after = dataclasses.replace(
        deletion,
        status=to,
        reason=reason,
        message=message,
        status_at=now,
        updated_at=now,
        progress_at=now,
        wake_at=now,
        purpose=RoundPurpose.NONE,
        round_opened_at=None,
        empty_inventories=0,
        finished_at=None if to in LIVE else now,
        conditions=tuple(c for c in deletion.conditions if c.type not in ended),
    )
    if to in (S.CANCELLING, S.ACCEPTED):
        kept = tuple(c for c in after.conditions if c.type not in (ConditionType.FORCED, ConditionType.HALTED))
        after = dataclasses.replace(after, forced=None, conditions=kept)
    if to is S.DELETING and deletion.status is S.INVENTORY:
        after = dataclasses.replace(after, point_of_no_return_at=now)
    if to is S.ACCEPTED:
        after = dataclasses.replace(
            after,
            attempt=deletion.attempt + 1,
            round=deletion.round + 1,
            since_round=deletion.round + 1,
            drained_at=None,
            closed_at=None,
            project_gone_at=None,
            point_of_no_return_at=None,
            conditions=(),
            waivers=(),
            approvals=(),  # each was given for what the earlier attempt was about
        )
    return after
