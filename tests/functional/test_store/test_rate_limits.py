"""The rows of the rate limits: each visit is one transaction."""

import concurrent.futures
import datetime
import sqlite3

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from cleanup_orchestrator.core.rate_limits import HORIZON, Limits, Request
from cleanup_orchestrator.store import rate_limits, tables
from tests.functional import visitor
from tests.functional.test_rate_limiter import holders, rows, said


def check_ledger(store, grants):
    """Check that each permit was given once, that none was left out, and that no more slots are leased than exist.

    :param grants: the grants of each process, in their order
    """
    turns = sorted((round((first + HORIZON) * visitor.RATE), count) for of in grants.values() for first, count, _ in of)
    expected = 0
    for first, count in turns:
        assert first == expected
        expected += count
    (account,) = rows(store, tables.rate_limits)
    after = expected / visitor.RATE - HORIZON
    assert account.calls_at == visitor.T0 + datetime.timedelta(seconds=after)
    held = holders(store)
    assert held == {holder: of[-1][2] for holder, of in grants.items()}
    assert sum(held.values()) <= visitor.SLOTS


def test_threads_that_acquire_from_one_rate_limit_at_once_lose_no_permit(store, monkeypatch):
    monkeypatch.setattr(rate_limits, "database_time", lambda _: visitor.T0)
    names = [f"p{number}" for number in range(6)]
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        grants = list(pool.map(lambda name: visitor.visit(store, name, 15), names))
    check_ledger(store, dict(zip(names, grants, strict=True)))


def test_processes_that_acquire_from_one_rate_limit_at_once_lose_no_permit(store, start):
    names = ["p0", "p1"]
    processes = [start("visitor", holder=name, visits=50) for name in names]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    check_ledger(store, {name: said(process) for name, process in zip(names, processes, strict=True)})


@pytest.mark.parametrize("what", ["visit", "pause"])
def test_the_time_is_read_when_the_account_is_locked(store, database_url, monkeypatch, what):
    """A process that waited for the lock would otherwise go back in time."""
    ask = Request("p", Limits(calls=10), calls=1, wanted=1)
    store.acquire_permits("network", "R1", ask)
    locked = []

    def time_of(_):
        try:
            if database_url.startswith("sqlite"):
                other = sqlite3.connect(sa.make_url(database_url).database, timeout=0, isolation_level=None)
                other.execute("BEGIN IMMEDIATE")
                other.close()
            else:
                with store.database.engine.connect() as c:
                    c.execute(tables.rate_limits.select().with_for_update(nowait=True))
            locked.append(False)
        except (exc.OperationalError, sqlite3.OperationalError):
            locked.append(True)
        return visitor.T0

    monkeypatch.setattr(rate_limits, "database_time", time_of)
    store.acquire_permits("network", "R1", ask) if what == "visit" else store.pause_calls("network", "R1", 1)
    assert locked == [True]
