"""What a deletion under way does now, what waits, and when it can continue at the earliest."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard.deletions import states

#: Types that the page names; further ones are counted.
_NAMED = 8
#: States of a type that a worker has, or will have at once.
_ACTIVE = ("dispatched", "running")


@dataclasses.dataclass(frozen=True)
class Now:
    """The progress of a deletion under way."""

    #: Names of the types that workers list or delete now.
    active: list[str]
    more_active: int
    #: Types that have not been tried in this round, with what they wait for.
    waiting: list[Any]
    more_waiting: int
    #: When deletes begin; empty: no recovery window is open.
    deletes_at: str
    #: When the proof that nothing is left can begin; empty: no such time is known, or it has passed.
    settled_at: str


def of(deletion: sdk.Deletion, now: datetime.datetime) -> Now | None:
    """Return the progress of a deletion; ``None``: it has ended."""
    if deletion.finished_at:
        return None
    counts = deletion.counts or []
    active = [_name(each) for each in counts if each.state in _ACTIVE]
    waiting = [each for each in counts if each.state not in _ACTIVE and not each.outcome and each.message]
    return Now(
        active[:_NAMED],
        max(0, len(active) - _NAMED),
        waiting[:_NAMED],
        max(0, len(waiting) - _NAMED),
        _later(deletion.point_of_no_return_at, now),
        "" if states.lists_only(deletion) else _later(deletion.settle_until, now),
    )


def _name(count: sdk.Count) -> str:
    region = f" ({count.region})" if count.region else ""
    return f"{count.service}.{count.type}{region}" if count.type else f"{count.service}{region}"


def _later(value: str | None, now: datetime.datetime) -> str:
    """Return a time of the API that has not passed, or an empty text."""
    moment = parse_datetime(value) if value else None
    return value if value and moment and moment > now else ""
