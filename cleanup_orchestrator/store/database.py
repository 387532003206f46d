"""What every part of the store is made of: connections, the database's time, pages, the journal, errors."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import sqlalchemy as sa
import tenacity
from oslo_config import cfg
from sqlalchemy import event as sa_event
from sqlalchemy import exc as sa_exc
from sqlalchemy.engine import Connection, Engine, Row

from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t

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


class Conflict(CleanupError):
    """Somebody else wrote first: read again."""

    code = "conflict"


class AlreadyUnderWay(CleanupError):
    """A live deletion of the project exists."""

    code = "deletion_under_way"

    def __init__(self, existing: Deletion) -> None:
        super().__init__(f"a deletion of project {existing.project_id} is under way: {existing.id}")
        self.existing = existing


class NotFound(CleanupError):
    """No such record."""

    code = "not_found"


def unavailable(error: BaseException) -> bool:
    """Whether an error means that the database does not answer, and not that we asked it something wrong."""
    if isinstance(error, sa_exc.DBAPIError) and error.connection_invalidated:
        return True
    return isinstance(error, sa_exc.OperationalError | sa_exc.InterfaceError | sa_exc.TimeoutError)


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """What part of a listing is wanted. ``marker`` is the id of the last item of the page before."""

    limit: int
    marker: str | None = None
    sort: tuple[tuple[str, str], ...] = (("created_at", "desc"),)  #: (column, ``asc`` or ``desc``)


#: Seconds for which a transaction may do nothing before the database ends it. Ours take milliseconds, and wait for
#: nothing but the database.
_IDLE = 10

_LIBPQ = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
#: By driver: when to give up a database whose host does not answer any more. By itself the kernel waits two hours.
_TIMEOUTS = {
    "psycopg": _LIBPQ,
    "psycopg2": _LIBPQ,
    "pymysql": {"connect_timeout": 10, "read_timeout": 120, "write_timeout": 120},
}

transient = tenacity.retry(
    retry=tenacity.retry_if_exception(
        lambda e: (
            isinstance(e, sa_exc.OperationalError) or (isinstance(e, sa_exc.DBAPIError) and e.connection_invalidated)
        )
    ),
    wait=tenacity.wait_random_exponential(multiplier=0.05, max=2),
    stop=tenacity.stop_after_delay(20),
    reraise=True,
)

#: Two that make the same row at the same moment: the second one finds it when it looks again.
first_of_two = tenacity.retry(
    retry=tenacity.retry_if_exception_type(sa_exc.IntegrityError), stop=tenacity.stop_after_attempt(3), reraise=True
)


class Base:
    """A database, and how to be in a transaction of it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def from_url(cls, url: str, **pool: Any) -> Self:
        """Open a store. The schema has to be there: ``cleanup-orchestrator-manage db upgrade``."""
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite":
            engine = sa.create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})
            sa_event.listen(engine, "connect", sqlite_connect)
            sa_event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        else:
            # connect_args win over the URL: only what it does not name.
            timeouts = _TIMEOUTS.get(parsed.get_driver_name(), {})
            unnamed = {name: value for name, value in timeouts.items() if name not in parsed.query}
            options: dict[str, Any] = {"pool_pre_ping": True, "pool_recycle": 3600, "connect_args": unnamed, **pool}
            options["isolation_level"] = "READ COMMITTED"
            engine = sa.create_engine(url, **options)
            sa_event.listen(engine, "connect", _let_go_when_idle(parsed.get_backend_name()))
            if parsed.get_backend_name() == "postgresql":
                # Many rows of an INSERT in one statement; what else is executed with many goes one by one.
                engine.dialect.use_insertmanyvalues_wo_returning = True
                sa_event.listen(engine, "do_executemany", _one_by_one)
        return cls(engine)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Open the store that ``[database]`` names."""
        c = conf.database
        return cls.from_url(
            c.connection,
            **(
                {}
                if c.connection.startswith("sqlite")
                else {
                    "pool_size": c.max_pool_size,
                    "max_overflow": c.max_overflow,
                    "pool_recycle": c.connection_recycle_time,
                }
            ),
        )

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextlib.contextmanager
    def _begin(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            yield connection

    # ------------------------------------------------------------------------------------------------------- time
    @transient
    def now(self) -> datetime.datetime:
        """Return the database's time, UTC, naive. Also the cheapest proof that the store answers."""
        with self._begin() as c:
            return database_time(c)

    def ping(self) -> None:
        """Ask the database for a sign of life, once: a health check does not wait for better times."""
        with self._begin() as c:
            database_time(c)


def new_id() -> str:
    """Return an id for a new row."""
    return str(uuid.uuid4())


def sqlite_connect(connection: Any, _record: Any) -> None:
    """Make a new connection to SQLite one that several threads and processes can work with."""
    connection.isolation_level = None  # we say BEGIN IMMEDIATE ourselves: two writers queue instead of failing
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _let_go_when_idle(name: str) -> Callable[[Any, Any], None]:
    """Return what has the database end a transaction in which its host stands still: it has locked what others need."""
    if name == "postgresql":
        statement = f"SET SESSION idle_in_transaction_session_timeout = {_IDLE * 1000}"
    else:  # MariaDB's; MySQL has no such thing, and takes this for what it is: a comment
        statement = f"/*M! SET SESSION idle_transaction_timeout = {_IDLE} */"

    def connected(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.close()
        connection.commit()

    return connected


def _one_by_one(cursor: Any, statement: str, parameters: Sequence[Any], _context: Any) -> bool:
    """Have each row answered before the next one is sent, in place of psycopg's pipeline.

    In a pipeline PostgreSQL is busy until its end, and not idle: it would wait for ever, with all that is locked, for a
    process that stands still in one.
    """
    for each in parameters:
        cursor.execute(statement, each)
    return True


def database_time(c: Connection) -> datetime.datetime:
    """Return the time of the database's clock, UTC, naive."""
    name = c.dialect.name
    if name == "sqlite":
        text = c.exec_driver_sql("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')").scalar_one()
        return datetime.datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f")
    sql = "SELECT utc_timestamp(6)" if name in ("mysql", "mariadb") else "SELECT clock_timestamp() AT TIME ZONE 'UTC'"
    value: datetime.datetime = c.exec_driver_sql(sql).scalar_one()
    return value


def paged(c: Connection, table: sa.Table, query: sa.Select[Any], page: Page, noun: str) -> sa.Select[Any]:
    """Return the query for one page; ties are broken by id."""
    sort = [*page.sort] + ([("id", "asc")] if "id" not in dict(page.sort) else [])
    if page.marker is not None:
        marker = c.execute(sa.select(table).where(table.c.id == page.marker)).first()
        if marker is None:
            raise NotFound(f"no {noun} has the id of the marker: {page.marker}")
        query = query.where(_after(table, sort, marker))
    return query.order_by(*(getattr(table.c[name], way)() for name, way in sort)).limit(page.limit)


def _after(table: sa.Table, sort: Sequence[tuple[str, str]], marker: Row[Any]) -> sa.ColumnElement[bool]:
    """Return the condition for "sorts after the marker", column by column."""
    clauses = []
    for index, (name, way) in enumerate(sort):
        same = [table.c[n] == getattr(marker, n) for n, _ in sort[:index]]
        value = getattr(marker, name)
        clauses.append(sa.and_(*same, table.c[name] > value if way == "asc" else table.c[name] < value))
    return sa.or_(*clauses)


def write_journal(c: Connection, deletion_id: str, now: datetime.datetime, events: Sequence[Event]) -> None:
    """Append lines to a deletion's journal."""
    if events:
        c.execute(
            t.events.insert(),
            [
                {
                    "deletion_id": deletion_id,
                    "at": now,
                    "type": e.type,
                    "message": records.text(e.message),
                    "actor": e.actor,
                    "request_id": e.request_id,
                    "data": records.plain(e.data),
                }
                for e in events
            ],
        )
