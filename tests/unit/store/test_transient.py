"""Which errors of a database are tried again, and which are reported as an outage."""

import sqlite3

import pytest
from sqlalchemy import exc

from cleanup_orchestrator.store import transient, unavailable
from tests.support.cases import each_case


def of_driver(name, *args, **attributes):
    """Return an error as a driver raises it."""
    return type(name, (Exception,), attributes)(*args)


def of_sqlite(code):
    error = sqlite3.OperationalError("as SQLite says it")
    error.sqlite_errorcode = code
    return error


def wrapped(kind, orig, **values):
    return kind("SELECT 1", {}, orig, **values)


def of_mariadb(number, sqlstate):
    """Return what PyMySQL 1.2 raises: it gives the number and an SQLSTATE."""
    return wrapped(exc.OperationalError, of_driver("Error", number, "as MariaDB says it", sqlstate=sqlstate))


TRANSIENT = {
    "locked": wrapped(exc.OperationalError, of_sqlite(sqlite3.SQLITE_BUSY)),
    "locked snapshot": wrapped(exc.OperationalError, of_sqlite(sqlite3.SQLITE_BUSY_SNAPSHOT)),
    "deadlock (PostgreSQL)": wrapped(exc.OperationalError, of_driver("Error", "x", sqlstate="40P01")),
    "serialization (PostgreSQL)": wrapped(exc.OperationalError, of_driver("Error", "x", sqlstate="40001")),
    "lock timeout (psycopg2)": wrapped(exc.OperationalError, of_driver("Error", "x", pgcode="55P03")),
    "shutdown (PostgreSQL)": wrapped(exc.OperationalError, of_driver("Error", "x", sqlstate="57P01")),
    "no connection (psycopg)": wrapped(exc.OperationalError, of_driver("Error", "connection refused", sqlstate=None)),
    "deadlock (MariaDB)": of_mariadb(1213, "40001"),
    "lock timeout (MariaDB)": of_mariadb(1205, "HY000"),
    "lock timeout (MySQLdb)": wrapped(exc.OperationalError, of_driver("Error", 1205, "Lock wait timeout exceeded")),
    "killed (MariaDB)": of_mariadb(1927, "70100"),
    "failover to a replica (MariaDB)": of_mariadb(1290, "HY000"),
    "Galera is not ready (MariaDB)": of_mariadb(1047, "08S01"),
    "too many connections of the user (MariaDB)": of_mariadb(1203, "42000"),
    "lost (MariaDB)": wrapped(exc.OperationalError, of_driver("Error", 2013, "Lost connection during query")),
    "hostgroup (ProxySQL)": of_mariadb(9001, "HY000"),
    "disk full (PostgreSQL)": wrapped(exc.OperationalError, of_driver("Error", "x", sqlstate="53100")),
    "disk full (SQLite)": wrapped(exc.OperationalError, of_sqlite(sqlite3.SQLITE_FULL)),
    "no file": wrapped(exc.OperationalError, of_sqlite(sqlite3.SQLITE_CANTOPEN)),
    "invalidated, as one to a standby (PostgreSQL)": wrapped(
        exc.InternalError, of_driver("Error", "x", sqlstate="25006"), connection_invalidated=True
    ),
    "closed socket": wrapped(exc.InterfaceError, of_driver("Error", 0, "")),
}
#: An outage that a new transaction at once does not end.
OUTAGE = {
    "password (MariaDB)": of_mariadb(1045, "28000"),
    "no database (MariaDB)": of_mariadb(1049, "42000"),
    "password (PostgreSQL)": wrapped(exc.OperationalError, of_driver("Error", "x", sqlstate="28P01")),
    "no connection of the pool is free": exc.TimeoutError("QueuePool limit"),
}
WRONG = {
    "no table (SQLite)": wrapped(exc.OperationalError, of_sqlite(sqlite3.SQLITE_ERROR)),
    "without a code (SQLite)": wrapped(exc.OperationalError, sqlite3.OperationalError("Could not decode to UTF-8")),
    "no table (PostgreSQL)": wrapped(exc.ProgrammingError, of_driver("Error", "x", sqlstate="42P01")),
    "no table (MariaDB)": wrapped(exc.ProgrammingError, of_driver("Error", 1146, "Table 'x' doesn't exist")),
    "no column (MariaDB)": of_mariadb(1054, "42S22"),
    "duplicate": wrapped(exc.IntegrityError, of_driver("Error", 1062, "Duplicate entry")),
    "no error of a database": ValueError("x"),
}


@each_case("kind", TRANSIENT)
def test_a_new_transaction_may_succeed(kind):
    assert transient.is_transient(TRANSIENT[kind]) and unavailable(TRANSIENT[kind])


@pytest.mark.parametrize("kind", OUTAGE)
def test_an_outage_is_not_tried_again_at_once(kind):
    assert not transient.is_transient(OUTAGE[kind]) and unavailable(OUTAGE[kind])


@pytest.mark.parametrize("kind", WRONG)
def test_an_error_that_stays_is_neither(kind):
    assert not transient.is_transient(WRONG[kind]) and not unavailable(WRONG[kind])


def test_only_a_transient_error_is_tried_again():
    attempts = []

    @transient.retry_transient
    def transaction(errors):
        attempts.append(1)
        if errors:
            raise errors.pop()
        return "saved"

    assert transaction([TRANSIENT["locked"]]) == "saved"
    assert len(attempts) == 2
    attempts.clear()
    with pytest.raises(exc.OperationalError):
        transaction([WRONG["no table (SQLite)"]])
    assert len(attempts) == 1


def test_a_statement_on_a_missing_table_of_a_real_database_is_wrong():
    with pytest.raises(sqlite3.OperationalError) as caught:
        sqlite3.connect(":memory:").execute("SELECT 1 FROM nowhere")
    assert not unavailable(wrapped(exc.OperationalError, caught.value))
