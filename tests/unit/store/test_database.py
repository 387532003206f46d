"""What a connection to the database is opened with, when it is checked, and which transactions take the lock."""

import time
import types

import pytest
import sqlalchemy as sa
from sqlalchemy import event as sa_event
from sqlalchemy import exc as sa_exc

from cleanup_orchestrator.store import database
from cleanup_orchestrator.store.database import Database

POSTGRESQL, MARIADB = "postgresql+psycopg://u@h/d", "mysql+pymysql://u@h/d"


class Opened:
    """A database server that no test reaches: what it would be opened with, and what is done for a connection."""

    def __init__(self, monkeypatch, url):
        self.listeners, self.done = {}, []
        create, listen = sa.create_engine, sa_event.listen

        def creating(url, **options):
            self.options = options
            return create(url, **options)

        def listening(target, name, function, **more):
            if function.__module__ == database.__name__:  # the dialect listens, too
                self.listeners[name] = function
            listen(target, name, function, **more)

        with monkeypatch.context() as patch:
            patch.setattr(sa, "create_engine", creating)
            patch.setattr(database.sa_event, "listen", listening)
            self.database = Database.from_url(url)
        monkeypatch.setattr(
            self.database.engine.dialect, "do_rollback", lambda _: self.done.append("rolled back"), raising=False
        )
        monkeypatch.setattr(self.database.engine.dialect, "do_ping", self._ping)
        self.error = None

    def _ping(self, _connection):
        self.done.append("checked")
        if self.error:
            raise self.error
        return True


def executed(listener):
    """Return the statements that a new connection executes."""
    said = []
    cursor = types.SimpleNamespace(execute=said.append, close=lambda: None)
    listener(types.SimpleNamespace(cursor=lambda: cursor, commit=lambda: said.append("COMMIT")), None)
    return said


@pytest.mark.parametrize(
    ("url", "name", "seconds"),
    [(POSTGRESQL, "connect_timeout", 10), (MARIADB, "read_timeout", 120), (f"{MARIADB}?read_timeout=5", None, None)],
)
def test_a_host_that_is_gone_is_not_waited_for_longer_than_the_operator_says(monkeypatch, url, name, seconds):
    found = Opened(monkeypatch, url).options["connect_args"]
    assert found.get(name or "read_timeout") == seconds


@pytest.mark.parametrize(
    ("url", "statement"),
    [
        (POSTGRESQL, "SET SESSION idle_in_transaction_session_timeout = 10000"),
        (MARIADB, "/*M! SET SESSION idle_transaction_timeout = 10 */"),
    ],
)
def test_the_database_ends_the_transaction_of_a_host_that_stops_in_it(monkeypatch, url, statement):
    assert executed(Opened(monkeypatch, url).listeners["connect"]) == [statement, "COMMIT"]


@pytest.mark.parametrize(
    ("info", "terminates", "done"),
    [({}, False, ["rolled back"]), ({database._ENDED: True}, False, []), ({}, True, [])],
    ids=["after an error", "after a commit", "it is closed"],
)
def test_a_connection_returns_to_the_pool_without_a_transaction(monkeypatch, info, terminates, done):
    opened = Opened(monkeypatch, POSTGRESQL)
    state = types.SimpleNamespace(terminate_only=terminates)
    opened.listeners["reset"](None, types.SimpleNamespace(info=dict(info)), state)
    assert opened.done == done


@pytest.mark.parametrize("error", [None, OSError("connection reset")])
@pytest.mark.parametrize(("seconds", "checked"), [(0.0, False), (100.0, True), (None, False)])
def test_a_connection_that_was_idle_is_checked_before_it_is_used(monkeypatch, seconds, checked, error):
    opened = Opened(monkeypatch, POSTGRESQL)
    opened.error = error
    record = types.SimpleNamespace(info={})
    if seconds is not None:
        record.info[database._RETURNED_AT] = time.monotonic() + 60 * (not checked) - seconds
    taken = opened.listeners["checkout"]
    if checked and error:
        with pytest.raises(sa_exc.InvalidatePoolError):
            taken(None, record, None)
    else:
        taken(None, record, None)
    assert opened.done == (["checked"] if checked else [])


@pytest.mark.parametrize(("reads", "statement"), [(False, "BEGIN IMMEDIATE"), (True, "BEGIN")])
def test_on_sqlite_only_a_transaction_that_writes_takes_the_lock(reads, statement):
    said = []
    options = {database._READS: True} if reads else {}
    database.sqlite_begin(types.SimpleNamespace(get_execution_options=lambda: options, exec_driver_sql=said.append))
    assert said == [statement]


def test_a_health_check_asks_a_database_that_is_away_once(monkeypatch):
    asked = []

    def away(_self):
        asked.append(1)
        raise sa_exc.OperationalError("SELECT", {}, Exception("connection refused"))

    monkeypatch.setattr(Database, "read", away)
    with pytest.raises(sa_exc.OperationalError):
        Database(sa.create_engine("sqlite://")).ping()
    assert len(asked) == 1
