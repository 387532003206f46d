"""Counts the deletions that count for the limits of requests."""

from __future__ import annotations

import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.request_limits import DAY, Exceeded, RequestLimits, exceeded
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import database_time
from cleanup_orchestrator.store.errors import TooManyDeletions

#: When a client may ask again that has too many deletions under way: nothing tells when one of them ends.
_AGAIN = datetime.timedelta(seconds=60)

_D = t.deletions.c


def check_requests(c: Connection, deletion: Deletion, limits: RequestLimits) -> None:
    """Check that the requester of a deletion may request one more.

    :raises TooManyDeletions: when a limit is reached
    """
    now = database_time(c)
    if reached := exceeded(limits, _counts(c, deletion, now, limits)):
        raise TooManyDeletions(reached, _wait(c, deletion, now, reached))


def _counts(c: Connection, deletion: Deletion, now: datetime.datetime, limits: RequestLimits) -> RequestLimits:
    """Return the counts, each at most as high as its limit."""
    mine, domain = _D.user_id == deletion.user_id, _D.domain_id == deletion.domain_id
    live, today = _D.live_project_id.is_not(None), _D.created_at > now - DAY

    def count(limit: int, *where: sa.ColumnElement[bool]) -> int:
        query = sa.select(_D.id).where(*where).limit(limit)
        return int(c.execute(sa.select(sa.func.count()).select_from(query.subquery())).scalar_one())

    return RequestLimits(
        live_per_requester=count(limits.live_per_requester, mine, live),
        live_per_domain=count(limits.live_per_domain, domain, live),
        daily_per_requester=count(limits.daily_per_requester, mine, today),
        daily_per_domain=count(limits.daily_per_domain, domain, today),
    )


def _wait(c: Connection, deletion: Deletion, now: datetime.datetime, reached: Exceeded) -> datetime.timedelta:
    """Return the time until the count is below the limit, as far as that is known."""
    if not reached.daily:
        return _AGAIN
    whose = _D.domain_id == deletion.domain_id if reached.per_domain else _D.user_id == deletion.user_id
    query = sa.select(_D.created_at).where(whose).order_by(_D.created_at.desc()).offset(reached.limit - 1).limit(1)
    ends: datetime.datetime = c.execute(query).scalar_one() + DAY
    return max(_AGAIN, ends - now)
