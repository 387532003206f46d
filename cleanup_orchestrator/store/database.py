"""The database: its engine, transactions, time and commit listeners."""

from __future__ import annotations

import contextlib
import datetime
import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy import event as sa_event
from sqlalchemy import exc as sa_exc
from sqlalchemy.engine import Connection, Engine, Row
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from cleanup_orchestrator import compat
from cleanup_orchestrator.store.commits import CommitListeners
from cleanup_orchestrator.store.transient import replace_connection, retry_transient

OPTS = {
    "database": [
        cfg.StrOpt(
            "connection",
            default="sqlite:////var/lib/cleanup-orchestrator/cleanup-orchestrator.sqlite",
            secret=True,
            help="SQLAlchemy URL of the database. SQLite serves the all-in-one process; PostgreSQL "
            "(postgresql+psycopg://) or MariaDB (mysql+pymysql://) serve several processes and hosts.",
        ),
        cfg.IntOpt("max_pool_size", default=10, min=1, help="Connections kept open by each process."),
        cfg.IntOpt("max_overflow", default=20, min=0, help="Connections opened beyond the pool under load."),
        cfg.IntOpt(
            "connection_recycle_time", default=3600, min=1, help="Seconds after which a pooled connection is replaced."
        ),
    ]
}

#: Seconds after which the database ends an idle transaction. A transaction of the store takes milliseconds, and waits
#: for nothing but the database.
_IDLE = 10

#: Seconds since its last use after which a pooled connection is checked before it is used again. A connection that
#: breaks earlier fails its next transaction, which is tried again.
_CHECK_AFTER = 1.0

#: Marks, in ``info`` of a pooled connection: when it was returned, monotonic, and that no transaction is open.
_RETURNED_AT, _ENDED = "returned_at", "transaction_ended"

#: Rows of one statement. All rows of a result at once would take three times the memory of the result.
ROWS = 500

#: The execution option of transactions that only read.
_READS = "cleanup_orchestrator_reads"

_LIBPQ = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
#: Timeouts for a database host that no longer answers, by driver. Without them the kernel waits two hours.
_TIMEOUTS: dict[str, dict[str, int]] = {
    "psycopg": _LIBPQ,
    "psycopg2": _LIBPQ,
    "pymysql": {"connect_timeout": 10, "read_timeout": 120, "write_timeout": 120},
}


_DECODER = json.JSONDecoder()


def _decoded(text: str | bytes) -> Any:
    """Return the value of a JSON document.

    Like ``json.loads``, which takes twice as long for the small documents that a page of a list has by thousands.
    """
    if isinstance(text, bytes):  # psycopg
        text = text.decode()
    if text == "[]":
        return []
    if text[:1] not in ("[", "{"):
        return json.loads(text)
    value, end = _DECODER.raw_decode(text)
    return value if end == len(text) else json.loads(text)


class Database:
    """One database: opens connections and transactions."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._reader = engine.execution_options(**{_READS: True})
        self.listeners = CommitListeners()

    @classmethod
    def from_url(cls, url: str, **pool: Any) -> Self:
        """Open a database whose schema exists.

        ``cleanup-orchestrator-manage db upgrade`` creates it.

        :param pool: options of SQLAlchemy's connection pool
        """
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite":
            engine = sa.create_engine(
                url, connect_args={"timeout": 30, "check_same_thread": False}, json_deserializer=_decoded
            )
            sa_event.listen(engine, "connect", sqlite_connect)
            sa_event.listen(engine, "begin", sqlite_begin)
        else:
            # connect_args override the URL, so they have only what the URL does not name.
            timeouts = _TIMEOUTS.get(parsed.get_driver_name(), {})
            unnamed = {name: value for name, value in timeouts.items() if name not in parsed.query}
            options: dict[str, Any] = {"pool_recycle": 3600, "connect_args": unnamed, **pool}
            options |= {"isolation_level": "READ COMMITTED", "pool_reset_on_return": None}
            options["json_deserializer"] = _decoded
            engine = sa.create_engine(url, **options)
            _watch_pool(engine)
            sa_event.listen(engine, "handle_error", replace_connection)
            sa_event.listen(engine, "connect", _idle_timeout(parsed.get_backend_name()))
            if parsed.get_backend_name() == "postgresql":
                # An INSERT sends many rows in one statement. Other statements with many rows send one at a time.
                compat.insert_many_rows(engine)
                sa_event.listen(engine, "do_executemany", _one_by_one)
        return cls(engine)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Open the database that ``[database]`` names."""
        c = conf.database
        if c.connection.startswith("sqlite"):
            return cls.from_url(c.connection)
        return cls.from_url(
            c.connection,
            pool_size=c.max_pool_size,
            max_overflow=c.max_overflow,
            pool_recycle=c.connection_recycle_time,
        )

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    @contextlib.contextmanager
    def begin(self) -> Iterator[Connection]:
        """Return a connection with a transaction: committed, or rolled back on error."""
        with self.engine.connect() as connection:
            with connection.begin():
                yield connection
            connection.info[_ENDED] = True

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Return a connection with a transaction that only reads.

        On SQLite it takes no lock: it sees the database as of its first statement, does not wait for a writer, and no
        writer waits for it. On the other databases it is like :meth:`begin`.
        """
        with self._reader.connect() as connection:
            with connection.begin():
                yield connection
            connection.info[_ENDED] = True

    @retry_transient
    def now(self) -> datetime.datetime:
        """Return the database's time, UTC, naive."""
        with self.read() as c:
            return database_time(c)

    def ping(self) -> None:
        """Ask the database for its time, in one attempt.

        A health check reports an outage at once.
        """
        with self.read() as c:
            database_time(c)


class Repository:
    """Base of the repositories: each reads and writes some tables of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database


def new_id() -> str:
    """Return an id for a new row."""
    return str(uuid.uuid4())


def sqlite_connect(connection: Any, _record: Any) -> None:
    """Configure a new connection to SQLite for several threads and processes."""
    connection.isolation_level = None  # The engine sends BEGIN IMMEDIATE: two writers wait for each other.
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def sqlite_begin(connection: Connection) -> None:
    """Begin a transaction on SQLite: one that writes takes the lock at once.

    A transaction that has read before its first write would fail if another one has written in between.
    """
    reads = connection.get_execution_options().get(_READS, False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _idle_timeout(name: str) -> Callable[[Any, Any], None]:
    """Return the listener that makes the database end idle transactions.

    The host of a client may stop in the middle of a transaction, while others wait for its locks.
    """
    if name == "postgresql":
        statement = f"SET SESSION idle_in_transaction_session_timeout = {_IDLE * 1000}"
    else:  # MariaDB only. MySQL has no such variable and reads the statement as a comment.
        statement = f"/*M! SET SESSION idle_transaction_timeout = {_IDLE} */"

    def connected(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.close()
        connection.commit()

    return connected


def _watch_pool(engine: Engine) -> None:
    """Check and reset pooled connections only where that is needed: each costs a round trip.

    A connection is checked if it was not in use for ``_CHECK_AFTER`` seconds. It is reset unless its transaction was
    committed.
    """

    def returned(_connection: Any, record: Any) -> None:
        record.info[_RETURNED_AT] = time.monotonic()

    def reset(connection: Any, record: Any, state: Any) -> None:
        if not record.info.pop(_ENDED, False) and not state.terminate_only:
            engine.dialect.do_rollback(connection)

    def taken(connection: Any, record: Any, _proxy: Any) -> None:
        returned_at = record.info.get(_RETURNED_AT)
        if returned_at is None or time.monotonic() - returned_at < _CHECK_AFTER:
            return
        try:
            engine.dialect.do_ping(connection)
        except Exception as error:  # the others of the pool are of the same age: all are replaced
            raise sa_exc.InvalidatePoolError("the connection is lost") from error

    sa_event.listen(engine, "checkin", returned)
    sa_event.listen(engine, "reset", reset)
    sa_event.listen(engine, "checkout", taken)


def _one_by_one(cursor: Any, statement: str, parameters: Sequence[Any], _context: Any) -> bool:
    """Send each row after the answer to the one before, instead of psycopg's pipeline.

    PostgreSQL does not count a session as idle during a pipeline. Its idle timeout would not end the transaction of a
    process that stops in one.
    """
    for each in parameters:
        cursor.execute(statement, each)
    return True


class _DatabaseClock(FunctionElement[datetime.datetime]):  # type: ignore[misc]
    """The time of the database's clock, UTC, naive, as a column of a query."""

    type = sa.DateTime()
    inherit_cache = True


def _clock(_element: Any, compiler: Any, **_: Any) -> str:
    """Return the SQL of :class:`_DatabaseClock`."""
    return _CLOCKS.get(compiler.dialect.name, "utc_timestamp(6)")


compiles(_DatabaseClock)(_clock)
_CLOCKS = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    "postgresql": "clock_timestamp() AT TIME ZONE 'UTC'",
}

#: A column with the time of the database, for :func:`database_time`. A query that waits for a lock may have the time
#: from before the wait.
CLOCK = _DatabaseClock().label("database_time")
_CLOCK = sa.select(CLOCK)


def database_time(source: Connection | Row[Any]) -> datetime.datetime:
    """Return the time of the database's clock, UTC, naive.

    :param source: a row of a query with the column ``CLOCK``; a connection is asked
    """
    row = source.execute(_CLOCK).one() if isinstance(source, Connection) else source
    value: datetime.datetime = row.database_time
    return value
