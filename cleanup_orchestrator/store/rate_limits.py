"""Accounts: what all processes together may ask of a service."""

from __future__ import annotations

import dataclasses
import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import rate_limits
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import Base, database_time, first_of_two


class Accounts(Base):
    """The rate budgets that all processes share."""

    @first_of_two
    def visit_account(self, service: str, region: str, ask: rate_limits.Ask) -> rate_limits.Grant:
        """Take turns and slots; see :func:`cleanup_orchestrator.core.rate_limits.visit`.

        It is tried once: the caller asks again.
        """
        with self._begin() as c:
            account = hold_account(c, service, region)
            now = database_time(c)  # not before the row is ours: who waited for it must not go back in time
            table = t.account_leases
            here = sa.and_(table.c.service == service, table.c.region == region)
            rows = c.execute(
                sa.select(table.c.holder, table.c.slots, table.c.wanted, table.c.since, table.c.until).where(here)
            )
            leases = [rate_limits.Lease(*row) for row in rows]
            after, lease, grant = rate_limits.visit(account, leases, ask, now)
            if after != account:
                put_account(c, service, region, after)
            void = {one.holder for one in leases if one.until <= now}
            known = ask.holder in {one.holder for one in leases} - void
            mine = sa.and_(here, table.c.holder == ask.holder)
            if void:
                c.execute(table.delete().where(here, table.c.until <= now))
            if lease is None and known:
                c.execute(table.delete().where(mine))
            elif lease is not None:
                values = dataclasses.asdict(lease)
                key = {"service": service, "region": region}
                c.execute(table.update().where(mine).values(values) if known else table.insert().values(key | values))
            return grant

    @first_of_two
    def pause_account(self, service: str, region: str, seconds: float) -> None:
        """Let nobody call a service for so many seconds, unless it is to be longer already."""
        with self._begin() as c:
            account = hold_account(c, service, region)
            until = database_time(c) + datetime.timedelta(seconds=seconds)
            if account.paused_until is None or account.paused_until < until:
                put_account(c, service, region, dataclasses.replace(account, paused_until=until))


def hold_account(c: Connection, service: str, region: str) -> rate_limits.Account:
    """Return an account and hold its row, until the transaction ends: for milliseconds, and never during a call."""
    table = t.accounts
    query = sa.select(table.c.calls_at, table.c.deletes_at, table.c.paused_until)
    query = query.where(table.c.service == service, table.c.region == region).with_for_update()
    row = c.execute(query).first()
    if row is None:
        # Two at once: the second one fails, and looks again.
        c.execute(table.insert().values(service=service, region=region))
        return rate_limits.Account()
    return rate_limits.Account(*row)


def put_account(c: Connection, service: str, region: str, account: rate_limits.Account) -> None:
    """Save an account whose row is held."""
    table = t.accounts
    mine = sa.and_(table.c.service == service, table.c.region == region)
    c.execute(table.update().where(mine).values(dataclasses.asdict(account)))
