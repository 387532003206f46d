"""Classifies errors of the database: transient, an outage, or permanent.

The kind is the code that the database or the driver gives, as in oslo.db's ``exc_filters``. oslo.db itself is not used:
it compares message texts, which depend on the language of the server; it does not know SQLite's "database is locked"
or PostgreSQL's serialization failures; and it replaces the exception classes that callers catch.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import tenacity
from sqlalchemy import exc as sa_exc

P = ParamSpec("P")
R = TypeVar("R")

#: Seconds for which a transaction is tried again.
_PATIENCE = 20

#: Primary result codes of SQLite. https://sqlite.org/rescode.html
_SQLITE_TRANSIENT = frozenset(
    {
        sqlite3.SQLITE_BUSY,  # "database is locked": another process writes
        sqlite3.SQLITE_LOCKED,  # the same within one process
        sqlite3.SQLITE_PROTOCOL,  # a race between two processes that open the write-ahead log
    }
)
_SQLITE_UNAVAILABLE = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN}
)

#: SQLSTATE of PostgreSQL, each whole or as a prefix. https://www.postgresql.org/docs/current/errcodes-appendix.html
_POSTGRESQL_TRANSIENT = (
    "08",  # the connection is lost or cannot be made
    "25P03",  # idle_in_transaction_session_timeout ended the session
    "40001",  # serialization failure
    "40P01",  # deadlock
    "53300",  # too many connections
    "55P03",  # lock_timeout
    "57P",  # the server shuts down, crashed, or starts
)
_POSTGRESQL_UNAVAILABLE = (
    "25006",  # read-only transaction: the server is a standby
    "28",  # the password or pg_hba.conf refuses the connection
    "3D000",  # the database does not exist
    "53",  # disk full, out of memory
    "57",  # canceled, for example by statement_timeout
    "58",  # input or output error
)

#: Error numbers of MariaDB and MySQL, and from 2000 on of the client. https://mariadb.com/kb/en/mariadb-error-codes/
_MYSQL_TRANSIENT = frozenset(
    {
        1020,  # the record has changed since it was read: a serialization failure
        1040,  # too many connections
        1047,  # a node of Galera is not synchronized yet
        1053,  # the server shuts down
        1152,  # the connection was aborted
        *range(1158, 1162),  # a packet could not be read or written
        *(1180, 1184),  # the commit failed, the connection was aborted
        1205,  # lock wait timeout
        1213,  # deadlock, and in Galera a certification failure
        1317,  # the query was interrupted
        1927,  # the connection was killed
        *range(2002, 2004),  # no connection to the server
        2006,  # the server has gone away
        2013,  # the connection was lost during a query
        2014,  # the connection is out of step
        2055,  # the connection was lost
        4031,  # the server closed an idle connection
    }
)
_MYSQL_UNAVAILABLE = frozenset(
    {
        1021,  # disk full
        *range(1042, 1046),  # the host, the password or the database is refused
        1049,  # the database does not exist
        1114,  # the table is full
        *(1290, 1792, 1836),  # the server is read-only
    }
)


def is_transient(error: BaseException) -> bool:
    """Return whether a new transaction may succeed where this error ended one.

    True for a lost connection, a deadlock, a lock timeout and a serialization failure. False for what stays as it is,
    such as a missing table.
    """
    return _is(error, _SQLITE_TRANSIENT, _POSTGRESQL_TRANSIENT, _MYSQL_TRANSIENT)


def unavailable(error: BaseException) -> bool:
    """Return whether an error means that the database cannot serve now.

    The statement itself is correct.
    """
    if isinstance(error, sa_exc.TimeoutError):  # no connection of the pool is free
        return True
    return is_transient(error) or _is(error, _SQLITE_UNAVAILABLE, _POSTGRESQL_UNAVAILABLE, _MYSQL_UNAVAILABLE)


def _is(error: BaseException, sqlite: frozenset[int], postgresql: tuple[str, ...], mysql: frozenset[int]) -> bool:
    if not isinstance(error, sa_exc.DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    if isinstance(error.orig, sqlite3.Error):
        # Extended result codes have the primary code in the low byte. Errors of the Python module have no code.
        return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in sqlite
    if isinstance(error, sa_exc.InterfaceError):
        return True
    match _code(error.orig):
        case int(number):
            return number in mysql
        case str(state):
            return state.startswith(postgresql)
    # A client library that has no code has no answer of the server either.
    return isinstance(error, sa_exc.OperationalError)


def _code(error: BaseException | None) -> int | str | None:
    """Return the SQLSTATE of psycopg or psycopg2, the number of PyMySQL or MySQLdb.

    ``None``: there is none.
    """
    state: str | None = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if state is not None:
        return state
    first = error.args[0] if error is not None and error.args else None
    return first if isinstance(first, int) else None


def retry_transient(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a transaction: retry transient errors for at most 20 seconds."""
    wrapped: Callable[P, R] = tenacity.retry(
        retry=tenacity.retry_if_exception(is_transient),
        wait=tenacity.wait_random_exponential(multiplier=0.05, max=2),
        stop=tenacity.stop_after_delay(_PATIENCE),
        reraise=True,
    )(call)
    return wrapped


def retry_duplicate(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a transaction that reads a row and inserts it if it is missing.

    Of two such transactions at the same moment, the second one fails. It finds the row when it is tried again.
    """
    wrapped: Callable[P, R] = tenacity.retry(
        retry=tenacity.retry_if_exception_type(sa_exc.IntegrityError), stop=tenacity.stop_after_attempt(3), reraise=True
    )(call)
    return wrapped
