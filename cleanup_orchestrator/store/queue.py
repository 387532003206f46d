"""The order in which deletions begin: the oldest first, so many at a time."""

from __future__ import annotations

import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.deletion import Deletion, Status
from cleanup_orchestrator.core.transitions import WORKING
from cleanup_orchestrator.store import tables as t

#: A deletion that is longer in one of these statuses does not count, so that large projects do not keep small ones
#: waiting. One that waits in ``accepted`` counts all the time.
_LONG = datetime.timedelta(minutes=5)

#: The largest number that is counted.
_MOST = 1000


def ahead_of(c: Connection, deletion: Deletion, now: datetime.datetime) -> int:
    """Return the number of older deletions that are being worked on, or that begin before this one.

    Those that wait for a person or for the projects below do not count. A blocked deletion counts while it is working:
    it deletes what is not blocked.
    """
    table = t.deletions
    older = sa.or_(
        table.c.created_at < deletion.created_at,
        sa.and_(table.c.created_at == deletion.created_at, table.c.id < deletion.id),
    )
    query = sa.select(table.c.id).where(table.c.live_project_id.is_not(None), older, _is_working(now)).limit(_MOST)
    return int(c.execute(sa.select(sa.func.count()).select_from(query.subquery())).scalar_one())


def next_ones(c: Connection, limit: int) -> list[str]:
    """Return the ids of the oldest deletions that have not begun, or are just beginning."""
    table = t.deletions
    query = sa.select(table.c.id).where(
        table.c.status == str(Status.ACCEPTED),
        table.c.live_project_id.is_not(None),
        table.c.attention == "",
        table.c.include_subtree.is_(False),
    )
    return [row.id for row in c.execute(query.order_by(table.c.created_at, table.c.id).limit(limit))]


def _is_working(now: datetime.datetime) -> sa.ColumnElement[bool]:
    table = t.deletions
    accepted = sa.and_(table.c.status == str(Status.ACCEPTED), table.c.attention == "")
    others = sa.and_(
        table.c.status.in_([str(status) for status in sorted(WORKING - {Status.ACCEPTED})]),
        table.c.attention.in_(["", "blocked"]),
    )
    waits_for_children = sa.and_(
        table.c.include_subtree.is_(True), table.c.status.in_([str(Status.ACCEPTED), str(Status.INVENTORY)])
    )
    return sa.and_(sa.or_(accepted, sa.and_(others, table.c.status_at > now - _LONG)), sa.not_(waits_for_children))
