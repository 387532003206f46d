"""The queue for the places for work; see ``core.queue``."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections import Counter

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.queue import Line, LineKey, Queue, QueueState, turns
from cleanup_orchestrator.core.transitions import WORKING
from cleanup_orchestrator.store import tables as t

#: A deletion that has its place and its status for longer does not count, so that large projects do not keep small ones
#: waiting.
_LONG = datetime.timedelta(minutes=5)

#: The latest turns that count for the order. A requester without one among them counts as one who had none.
_TURNS = 300

_D = t.deletions.c
#: The status counts, too: the cancel of a user changes it, and only the next decision changes the state of the queue.
_LIVE = _D.status.in_(sorted(map(str, WORKING)))
_WAITS = sa.and_(_D.queue_state == str(QueueState.WAITING), _LIVE)
_WORKS = sa.and_(
    _D.queue_state == str(QueueState.WORKING),
    _LIVE,
    sa.or_(_D.status_at > sa.bindparam("since"), _D.turn_at > sa.bindparam("since")),
)
#: One statement, so that a deletion that gets its place at this moment is in one of the two counts.
_LINES = sa.union_all(
    *(
        sa.select(
            _D.domain_id, _D.user_id, sa.literal_column(f"'{state}'"), sa.func.count(), sa.func.min(_D.created_at)
        )
        .where(condition)
        .group_by(_D.domain_id, _D.user_id)
        for state, condition in ((QueueState.WAITING, _WAITS), (QueueState.WORKING, _WORKS))
    )
)
_WORKING = sa.select(sa.func.count()).where(_WORKS)
_TURNS_AT = (
    sa.select(_D.domain_id, _D.user_id, _D.turn_at)
    .where(_D.turn_at.is_not(None))
    .order_by(_D.turn_at.desc())
    .limit(_TURNS)
)
_IN_LINE = sa.and_(_WAITS, _D.domain_id == sa.bindparam("domain"), _D.user_id == sa.bindparam("user"))
_BEFORE = sa.select(sa.func.count()).where(
    _IN_LINE,
    sa.or_(
        _D.created_at < sa.bindparam("created"),
        sa.and_(_D.created_at == sa.bindparam("created"), _D.id < sa.bindparam("deletion")),
    ),
)
_OLDEST = sa.select(_D.id).where(_IN_LINE).order_by(_D.created_at, _D.id).limit(sa.bindparam("number"))


def queue_before(c: Connection, deletion: Deletion, now: datetime.datetime, places: int | None) -> Queue:
    """Return the queue as a deletion without a place sees it.

    :param places: how many there are. If none of them is free, the lines are not read, and one stands for all of them.
        Thousands of deletions that wait are decided on in vain, and then each costs two short statements
    """
    key = {"domain": deletion.domain_id, "user": deletion.user_id}
    before = c.execute(_BEFORE, {**key, "created": deletion.created_at, "deletion": deletion.id}).scalar_one()
    working = c.execute(_WORKING, {"since": now - _LONG}).scalar_one()
    if places is not None and working >= places:
        return Queue({("", ""): Line(working=working)}, int(before))
    return Queue(_lines(c, now), int(before))


def next_ones(c: Connection, places: int, limit: int, now: datetime.datetime) -> list[str]:
    """Return the ids of the deletions that get the next free places.

    :param places: how many there are, free or not
    :param limit: the most ids
    """
    given = Counter(itertools.islice(turns(_lines(c, now), places), limit))
    keys = [{"domain": domain, "user": user, "number": number} for (domain, user), number in given.items()]
    return [row.id for key in keys for row in c.execute(_OLDEST, key)]


def _lines(c: Connection, now: datetime.datetime) -> dict[LineKey, Line]:
    """Return the lines in which a deletion waits or works, or which had one of the latest turns."""
    lines: dict[LineKey, Line] = {}
    rows = c.execute(_LINES, {"since": now - _LONG}).all()
    for domain, user, state, number, oldest in rows:
        waits = state == str(QueueState.WAITING)
        change = {"waiting": number, "oldest": oldest} if waits else {"working": number}
        lines[domain, user] = dataclasses.replace(lines.get((domain, user), Line()), **change)
    for domain, user, at in c.execute(_TURNS_AT):
        line = lines.get((domain, user), Line())
        if at > line.turn_at:
            lines[domain, user] = dataclasses.replace(line, turn_at=at)
    return lines
