"""Classifies errors of the database: transient, an outage, or permanent.

SQLAlchemy's ``OperationalError`` and ``InterfaceError`` mean that the database cannot serve now, with two exceptions,
which the code of the database or of the driver tells: the statement is wrong, such as one on a missing table, or the
database refuses the login. An unknown code is transient: a transaction that is given up too early loses a result.

oslo.db's ``exc_filters`` are not used: they compare message texts, which depend on the language of the server, and
replace the exception classes that callers catch.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from enum import StrEnum
from typing import ParamSpec, TypeVar

import tenacity
from sqlalchemy import exc as sa_exc
from sqlalchemy.engine import ExceptionContext

P = ParamSpec("P")
R = TypeVar("R")

#: Seconds for which a transaction is tried again.
_PATIENCE = 20

#: The statement is wrong. https://sqlite.org/rescode.html
_SQLITE_WRONG = frozenset(
    {
        0,  # an error of Python's module: it has no code
        sqlite3.SQLITE_ERROR,  # no such table or column, a syntax error
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_MISUSE,
        sqlite3.SQLITE_RANGE,
    }
)

#: The statement is wrong, in what PyMySQL raises as an OperationalError. https://mariadb.com/kb/en/mariadb-error-codes/
_MYSQL_WRONG = frozenset(
    {
        *(1050, 1051, 1109, 1146),  # the table exists, or does not
        *(1052, 1054, 1060, 1072, 1091, 1136, 1364),  # the column exists, does not, or has no value
        *(1061, 1176),  # the index exists, or does not
        *(1064, 1149, 1305),  # a syntax error, an unknown function
    }
)
_MYSQL_REFUSED = frozenset({1044, 1045, 1049, 1142, 1143})  #: no such user, database or privilege

#: Prefixes of SQLSTATE. https://www.postgresql.org/docs/current/errcodes-appendix.html
_POSTGRESQL_WRONG = ("22", "23", "42")  #: data, constraint, and syntax or missing table
_POSTGRESQL_REFUSED = ("28", "3D")  #: no such user or password, no such database

#: Errors after which a connection is of no use, although its ping succeeds. The server takes no writes, or serves
#: nothing: a failover may have made it a replica, or a node outside of its cluster, and leave connections to it open.
#: Or an upgrade changed a column of a statement that the connection has prepared.
_USELESS_CONNECTION = frozenset(
    {
        "25006",  # PostgreSQL: read_only_sql_transaction
        "0A000",  # PostgreSQL: feature_not_supported, of the prepared statement
        *(1290, 1792, 1836),  # MariaDB, MySQL: an option prevents it, a read-only transaction, read-only mode
        1047,  # Galera: not ready
    }
)


class _Kind(StrEnum):
    OUTAGE = "outage"
    REFUSED = "refused"
    WRONG = "wrong"


def is_transient(error: BaseException) -> bool:
    """Return whether a new transaction may succeed where this error ended one.

    True for a lost connection, a failover, a deadlock, a lock timeout and a serialization failure. False for what stays
    as it is, such as a missing table or a wrong password.
    """
    return _kind(error) is _Kind.OUTAGE


def unavailable(error: BaseException) -> bool:
    """Return whether an error means that the database cannot serve now.

    The statement itself is correct.
    """
    if isinstance(error, sa_exc.TimeoutError):  # no connection of the pool is free
        return True
    return _kind(error) in (_Kind.OUTAGE, _Kind.REFUSED)


def replace_connection(context: ExceptionContext) -> None:
    """Have a connection and all others of its pool replaced if they are of no use since a failover or an upgrade.

    The ping of such a connection succeeds, so that the pool would keep it. A new one may be to another server.
    """
    if _code(context.original_exception) in _USELESS_CONNECTION:
        context.is_disconnect = True


def _kind(error: BaseException) -> _Kind:
    if not isinstance(error, sa_exc.DBAPIError):
        return _Kind.WRONG
    if error.connection_invalidated or isinstance(error, sa_exc.InterfaceError):
        return _Kind.OUTAGE
    if not isinstance(error, sa_exc.OperationalError):
        return _Kind.WRONG
    if isinstance(error.orig, sqlite3.Error):
        # Extended result codes have the primary code in the low byte.
        wrong = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _SQLITE_WRONG
        return _Kind.WRONG if wrong else _Kind.OUTAGE
    match _code(error.orig):
        case int(number) if number in _MYSQL_WRONG:
            return _Kind.WRONG
        case int(number) if number in _MYSQL_REFUSED:
            return _Kind.REFUSED
        case str(state) if state.startswith(_POSTGRESQL_WRONG):
            return _Kind.WRONG
        case str(state) if state.startswith(_POSTGRESQL_REFUSED):
            return _Kind.REFUSED
    return _Kind.OUTAGE


def _code(error: BaseException | None) -> int | str | None:
    """Return the number of PyMySQL or MySQLdb, or the SQLSTATE of psycopg or psycopg2.

    The number comes first: PyMySQL gives an SQLSTATE, too, and that of a lock wait timeout is HY000, "general error".
    ``None``: there is neither.
    """
    first = error.args[0] if error is not None and error.args else None
    if isinstance(first, int):
        return first
    state: str | None = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state


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
