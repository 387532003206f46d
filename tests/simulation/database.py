"""The real store over SQLite in memory. Its transactions are effects, and triggers watch what is written.

A transaction is one effect: SQLite runs one at a time. (Other tests
check concurrent transactions on PostgreSQL and MariaDB.)
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
import tenacity
from sqlalchemy import exc as sa_exc
from sqlalchemy.pool import StaticPool

from cleanup_orchestrator.store import Store, tables
from cleanup_orchestrator.store.database import Database as RealDatabase
from cleanup_orchestrator.store.database import sqlite_connect
from tests.support import stores
from tests.support.scheduler import active

T0 = datetime.datetime(2026, 1, 1)

#: Watches that keep the journal append-only and report each move. ``watched`` is a function in Python.
_TRIGGERS = (
    "CREATE TRIGGER journal_update BEFORE UPDATE ON events BEGIN SELECT watched('journal', OLD.id, 'changed', ''); END",
    "CREATE TRIGGER journal_delete BEFORE DELETE ON events BEGIN SELECT watched('journal', OLD.id, 'deleted', ''); END",
    "CREATE TRIGGER journal_insert AFTER INSERT ON events"
    " BEGIN SELECT watched('event', NEW.deletion_id, NEW.type, NEW.data); END",
    "CREATE TRIGGER moves AFTER UPDATE OF status ON deletions WHEN OLD.status <> NEW.status"
    " BEGIN SELECT watched('move', NEW.id, OLD.status, NEW.status); END",
    "CREATE TRIGGER born AFTER INSERT ON deletions BEGIN"
    " SELECT watched('born', NEW.id, NEW.project_id, NEW.parent_deletion_id);"
    " SELECT watched('move', NEW.id, '', NEW.status); END",
    "CREATE TRIGGER purposes AFTER UPDATE OF purpose ON deletions WHEN OLD.purpose <> NEW.purpose"
    " BEGIN SELECT watched('purpose', NEW.id, NEW.purpose, ''); END",
    "CREATE TRIGGER fences AFTER UPDATE OF fencing_token ON steps WHEN NEW.fencing_token < OLD.fencing_token"
    " BEGIN SELECT watched('fence', NEW.id, OLD.fencing_token, NEW.fencing_token); END",
    "CREATE TRIGGER results AFTER UPDATE OF state ON steps WHEN OLD.state = 'running' AND NEW.state = 'done'"
    " BEGIN SELECT watched('result', NEW.id, NEW.fencing_token, ''); END",
    "CREATE TRIGGER redone AFTER UPDATE OF undone ON changes WHEN NEW.undone < OLD.undone"
    " BEGIN SELECT watched('change', NEW.id, OLD.undone, NEW.undone); END",
    "CREATE TRIGGER scans AFTER UPDATE OF status ON orphan_scans WHEN OLD.status <> NEW.status"
    " BEGIN SELECT watched('scan', NEW.id, OLD.status, NEW.status); END",
    "CREATE TRIGGER confirmed AFTER UPDATE OF confirmed ON orphans WHEN NEW.confirmed AND NOT OLD.confirmed"
    " BEGIN SELECT watched('orphan', NEW.project_id, NEW.resource_id, ''); END",
    "CREATE TRIGGER forgotten BEFORE DELETE ON changes BEGIN SELECT watched('change', OLD.id, 'deleted', ''); END",
)
_EMPTY = (
    "event_resources",
    "brakes",
    "liens",
    "waivers",
    "leftovers",
    "changes",
    "orphans",
    "steps",
    "deletions",
    "orphan_scans",
)


def at(seconds: float) -> datetime.datetime:
    """The database's time."""
    return T0 + datetime.timedelta(seconds=round(seconds, 6))


def _lost(text: str) -> sa_exc.OperationalError:
    return sa_exc.OperationalError(text, {}, Exception(text))


class Database:
    """One SQLite database in memory for all runs of this process, one after the other."""

    def __init__(self) -> None:
        self.engine = sa.create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
        sa.event.listen(self.engine, "connect", sqlite_connect)
        sa.event.listen(self.engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        tables.metadata.create_all(self.engine)
        self.connection = self.engine.connect()
        self.raw = self.connection.connection.driver_connection
        self.watch: Callable[..., None] = lambda *_: None
        self._pending: list[tuple[Any, ...]] = []  #: what the present transaction has written
        self.raw.create_function("watched", 4, lambda *what: self._pending.append(what))  # append returns None: NULL
        for trigger in _TRIGGERS:
            self.raw.execute(trigger)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Run a transaction. Its writes are reported once it is committed; one that fails has written nothing."""
        self._pending.clear()
        with self.connection.begin():
            yield self.connection
        written, self._pending = self._pending, []
        for what in written:
            self.watch(*what)

    def clear(self, watch: Callable[..., None]) -> None:
        """Begin anew."""
        self.watch = lambda *_: None
        self.raw.execute("PRAGMA recursive_triggers=OFF")
        for table in ("events", *_EMPTY):
            self.raw.execute(f"DELETE FROM {table}")
        self.watch = watch


@functools.cache
def database() -> Database:
    return Database()


class SimulatedDatabase(RealDatabase):
    """The real database class. Transactions may fail before they begin or after they are committed."""

    def __init__(self, database: Database) -> None:
        super().__init__(database.engine)
        self._database = database
        self.down_for = 0  #: transactions that fail from now on

    @contextlib.contextmanager
    def begin(self) -> Iterator[Any]:
        label = sys._getframe(2).f_code.co_name
        fault = active().point("store", label)
        if fault is not None and fault.kind == "store_down":
            self.down_for = 3 + int(20 * fault.size)
        if self.down_for:
            self.down_for -= 1
            raise _lost("the database is away")
        if fault is not None and fault.kind == "store_fails":
            raise _lost("the connection is lost")
        with self._database.transaction() as connection:
            yield connection
        if fault is not None and fault.kind == "store_lost":
            raise _lost("committed, and the reply was lost")


class SimulatedStore(Store):
    """The real store. It records for each thread what it has claimed and asked."""

    def __init__(self, database: Database) -> None:
        self.simulated = SimulatedDatabase(database)
        super().__init__(self.simulated)
        self.on_asked: Callable[[Any], None] = lambda _thread: None
        self._claim, self.claim = self.claim, self._noted_claim
        self._withheld, self.withheld = self.withheld, self._noted_withheld

    def _noted_claim(self, step_id: str, worker: str, lease: float) -> Any:
        claimed = self._claim(step_id, worker, lease)
        thread = active().current
        if claimed is not None and thread is not None:
            thread.held, thread.permit, thread.saw = claimed[1], None, {}
        return claimed

    def _noted_withheld(self, step: Any, *inputs: Any) -> Any:
        answer = self._withheld(step, *inputs)
        if active().current is not None:
            self.on_asked(active().current)
        return answer


def patches() -> Iterator[tuple[Any, str, Any]]:
    """What is replaced for simulations, as (object, attribute, value)."""
    numbers = itertools.count()
    for module in [m for name, m in sys.modules.items() if name.startswith("cleanup_orchestrator.store")]:
        if hasattr(module, "database_time"):
            yield module, "database_time", lambda _connection: at(active().now)
        if hasattr(module, "new_id"):
            yield module, "new_id", lambda: f"{next(numbers):08d}"
    for retry in stores.retries():
        yield retry, "sleep", lambda seconds: active().sleep(seconds)
        if isinstance(retry.stop, tenacity.stop_after_delay):
            yield retry, "wait", tenacity.wait_exponential(multiplier=0.05, max=2)
            yield retry, "stop", tenacity.stop_after_attempt(8)
