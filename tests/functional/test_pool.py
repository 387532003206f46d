"""Pooled connections to database servers: which are checked and which are reset before they are used again."""

import contextlib
import time

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.store import Store, database, tables
from tests.support.databases import SERVERS, filled
from tests.support.statements import Statements

pytestmark = pytest.mark.real


@pytest.fixture(params=sorted(SERVERS))
def url(request):
    with filled(request.param) as made:
        yield made


@pytest.fixture
def store(url):
    """A store whose pool has one connection, which is in use already."""
    with contextlib.closing(Store.from_url(url, pool_size=1)) as made:
        made.ping()
        yield made


#: Ends every other connection to the same database, from the server's side.
ENDING = {
    "postgresql": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
}


def end_connections(url):
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as c:
        found = c.exec_driver_sql(ENDING["mysql" if "mysql" in url else "postgresql"]).scalars().all()
        for number in found if "mysql" in url else ():
            c.exec_driver_sql(f"KILL {number}")


def test_a_connection_in_use_is_neither_checked_nor_reset_after_a_commit(store):
    statements = Statements(store.database.engine)
    for _ in range(3):
        store.ping()
    assert statements.kinds == {"SELECT time": 3, "COMMIT": 3}


def test_a_connection_that_has_rested_is_checked(store, monkeypatch):
    monkeypatch.setattr(database, "_CHECK_AFTER", 0)
    statements = Statements(store.database.engine)
    store.ping()
    assert statements.kinds == {"PING": 1, "SELECT time": 1, "COMMIT": 1}


def test_a_connection_that_the_server_has_ended_is_replaced(store, url, monkeypatch):
    monkeypatch.setattr(database, "_CHECK_AFTER", 0)
    end_connections(url)
    store.ping()  # has one attempt


def test_a_connection_that_breaks_while_it_is_not_checked_fails_no_operation(store, url):
    end_connections(url)
    assert store.now()


def test_what_a_failed_transaction_wrote_is_gone_and_locks_nothing(store, url):
    row = {"service": "s", "region": "r"}
    with pytest.raises(ZeroDivisionError), store.database.begin() as c:
        c.execute(tables.rate_limits.insert(), [row])
        raise ZeroDivisionError
    with contextlib.closing(Store.from_url(url)) as other, other.database.begin() as c:
        c.execute(tables.rate_limits.insert(), [row])


def test_a_connection_that_is_returned_with_an_open_transaction_is_reset(store, url):
    row = {"service": "s", "region": "r"}
    connection = store.database.engine.connect()
    connection.execute(tables.rate_limits.insert(), [row])
    connection.close()
    with contextlib.closing(Store.from_url(url)) as other, other.database.begin() as c:
        c.execute(tables.rate_limits.insert(), [row])


#: Has the server refuse the writes of this session from now on, as a server does that a failover made a replica.
DEMOTING = {
    "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
}


def test_a_connection_to_a_server_that_a_failover_made_a_replica_is_replaced(store, url):
    with store.database.read() as c:
        c.exec_driver_sql(DEMOTING["mysql" if "mysql" in url else "postgresql"])
    began = time.monotonic()
    assert store.set_brake(Brake(True, "a failover")).on
    assert time.monotonic() - began < 10  # with the connection of the replica it gives up after 20 seconds


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_column_that_an_upgrade_widens_fails_no_statement_that_a_process_has_prepared(store, url):
    for _ in range(10):
        store.brake()  # psycopg prepares a statement that it has sent some times
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as c:
        c.exec_driver_sql("ALTER TABLE brakes ALTER COLUMN reason TYPE varchar(5000)")
    assert not store.brake().on
