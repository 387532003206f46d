"""Rate limits: how much all processes together may call a service.

See :mod:`..core.rate_limits`.
"""

from __future__ import annotations

import dataclasses
import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import rate_limits
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import CLOCK, Repository, database_time
from cleanup_orchestrator.store.transient import retry_duplicate

#: The leases of a rate limit with the time; one row without a holder if there is none.
_LEASES = (
    sa.select(
        t.rate_limit_leases.c.holder,
        t.rate_limit_leases.c.slots,
        t.rate_limit_leases.c.wanted,
        t.rate_limit_leases.c.since,
        t.rate_limit_leases.c.until,
        CLOCK,
    )
    .select_from(
        t.rate_limits.outerjoin(
            t.rate_limit_leases,
            sa.and_(
                t.rate_limit_leases.c.service == t.rate_limits.c.service,
                t.rate_limit_leases.c.region == t.rate_limits.c.region,
            ),
        )
    )
    .where(t.rate_limits.c.service == sa.bindparam("service"), t.rate_limits.c.region == sa.bindparam("region"))
)


class RateLimits(Repository):
    """Gives permits and slots to the processes.

    Each call is one attempt: the caller asks again after an error.
    """

    @retry_duplicate
    def acquire(self, service: str, region: str, request: rate_limits.Request) -> rate_limits.Grant:
        """Acquire permits and slots; see ``core.rate_limits.acquire``."""
        with self._database.begin() as c:
            limit = lock_rate_limit(c, service, region)
            # The time after the lock: a process that waited for it must not go back in time.
            rows = c.execute(_LEASES, {"service": service, "region": region}).all()
            now = database_time(rows[0])
            leases = [rate_limits.Lease(*row[:5]) for row in rows if row.holder is not None]
            table = t.rate_limit_leases
            here = sa.and_(table.c.service == service, table.c.region == region)
            after, lease, grant = rate_limits.acquire(limit, leases, request, now)
            if after != limit:
                save_rate_limit(c, service, region, after)
            valid = {one.holder for one in leases if one.until > now}
            known = request.holder in valid
            mine = sa.and_(here, table.c.holder == request.holder)
            if len(valid) < len(leases):
                c.execute(table.delete().where(here, table.c.until <= now))
            if lease is None and known:
                c.execute(table.delete().where(mine))
            elif lease is not None:
                values = dataclasses.asdict(lease)
                key = {"service": service, "region": region}
                c.execute(table.update().where(mine).values(values) if known else table.insert().values(key | values))
            return grant

    @retry_duplicate
    def pause(self, service: str, region: str, seconds: float) -> None:
        """Pause all calls to a service for so many seconds. A longer pause in force stays."""
        with self._database.begin() as c:
            limit = lock_rate_limit(c, service, region)
            until = database_time(c) + datetime.timedelta(seconds=seconds)
            if limit.paused_until is None or limit.paused_until < until:
                save_rate_limit(c, service, region, dataclasses.replace(limit, paused_until=until))


def lock_rate_limit(c: Connection, service: str, region: str) -> rate_limits.RateLimit:
    """Return a rate limit, and lock its row until the transaction ends.

    No call to a service is made during the transaction. A row that is missing is inserted. Of two transactions that
    insert it, the second one fails and is tried again.
    """
    table = t.rate_limits
    query = sa.select(table.c.calls_at, table.c.deletes_at, table.c.paused_until)
    query = query.where(table.c.service == service, table.c.region == region).with_for_update()
    row = c.execute(query).first()
    if row is None:
        c.execute(table.insert().values(service=service, region=region))
        return rate_limits.RateLimit()
    return rate_limits.RateLimit(*row)


def save_rate_limit(c: Connection, service: str, region: str, limit: rate_limits.RateLimit) -> None:
    """Save a rate limit whose row the transaction has locked."""
    table = t.rate_limits
    mine = sa.and_(table.c.service == service, table.c.region == region)
    c.execute(table.update().where(mine).values(dataclasses.asdict(limit)))
