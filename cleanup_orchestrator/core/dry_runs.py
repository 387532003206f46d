"""When a dry run under way ends in favour of a real deletion, and how. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from cleanup_orchestrator.core.actions import Move, apply
from cleanup_orchestrator.core.deletion import Deletion, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.reasons import StatusReason
from cleanup_orchestrator.core.step import Step
from cleanup_orchestrator.core.transitions import LIVE, By, move

#: Key in the data of the journal line of a dry run that ends in favour of a real deletion: the ID of the latter.
REPLACED_BY = "replaced_by"


def gives_way(live: Deletion, wanted: Deletion) -> bool:
    """Whether a live deletion ends at once so that another deletion of its project can be recorded.

    A dry run gives way to each real deletion. Otherwise a user who requests one dry run after the other would keep the
    project from being deleted. A dry run writes to no service, so that nothing has to be undone, and no step
    that still runs has to be waited for.
    """
    return live.dry_run and not wanted.dry_run and live.status in LIVE and not live.has_changes


def ended(
    dry_run: Deletion, steps: Sequence[Step], wanted: Deletion, asked: Event, now: datetime.datetime
) -> Iterator[tuple[Deletion, Event]]:
    """Yield a dry run after each move to its end in favour of another deletion, with the journal line.

    :param steps: all of the dry run
    :param asked: the journal line of the request for the other deletion
    """
    why = f"replaced by deletion {wanted.id} ({wanted.mode})"
    if dry_run.status is not Status.CANCELLING:
        data = {"from": str(dry_run.status), "to": str(Status.CANCELLING), "backwards": False, REPLACED_BY: wanted.id}
        dry_run = move(dry_run, Status.CANCELLING, By.USER, now, "cancelling", why)
        yield dry_run, Event("deletion.cancelling", why, asked.actor, data, asked.request_id)
    applied = apply(dry_run, steps, (Move(Status.CANCELLED, StatusReason.CANCELLED, why),), now)
    for event in applied.events:
        data = {**event.data, REPLACED_BY: wanted.id}
        yield applied.deletion, Event(event.type, event.message, asked.actor, data, asked.request_id)
