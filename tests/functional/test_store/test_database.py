"""The connection to each kind of database: lost replies, frozen processes, hosts that are cut off."""

import concurrent.futures
import contextlib
import dataclasses
import datetime
import time
import types
import uuid

import pytest
import sqlalchemy
import sqlalchemy.exc

from cleanup_orchestrator import store as storage
from cleanup_orchestrator.core.condition_types import Condition
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.holds import Lien, Waiver
from cleanup_orchestrator.core.proposals import AbandonLeftovers, Approve, Requester, Retry, Stop
from cleanup_orchestrator.core.request_limits import RequestLimits
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.store import AlreadyUnderWay, Store, TooManyDeletions, database, tables
from tests.support.databases import SERVERS, filled
from tests.support.stores import ACCEPTED, create, dispatched, save
from tests.unit.world import T0, deletion


class Forgetful(database.Database):
    """Its connection breaks after a commit as often as a test defines: the commit is done, and its reply is lost."""

    broken = 0

    @contextlib.contextmanager
    def begin(self):
        with super().begin() as connection:
            yield connection
        if self.broken:
            self.broken -= 1
            raise sqlalchemy.exc.OperationalError("COMMIT", {}, Exception("server closed the connection"))


@pytest.fixture
def forgetful(store):
    return Store(Forgetful(store.database.engine))


def test_a_committed_claim_holds_when_the_reply_to_the_commit_is_lost(forgetful):
    """Else no worker would work on the step until the end of a lease that no worker knows of."""
    step = dispatched(forgetful, create(forgetful))
    forgetful.database.broken = 1
    _, claimed = forgetful.claim(step.id, "w", 60)
    assert claimed.fencing_token == 1
    assert forgetful.renew(claimed, 60)
    assert forgetful.claim(step.id, "w", 60) is None, "another thread of the same worker has not taken it"


def test_a_missing_table_is_an_error_at_once(empty_database_url):
    """Only an error that a second attempt can repair is retried; a schema that is not there is not one of them."""
    store, asked = Store.from_url(empty_database_url), []

    @sqlalchemy.event.listens_for(store.database.engine, "before_cursor_execute")
    def note(_connection, _cursor, statement, *_):
        if "FROM deletions" in statement:
            asked.append(statement)

    try:
        with pytest.raises(sqlalchemy.exc.DBAPIError) as caught:
            store.get("d")
    finally:
        store.close()
    assert len(asked) == 1
    assert not storage.unavailable(caught.value), "the API does not answer: try again later"


def test_the_end_of_a_lien_is_announced_when_the_reply_to_the_commit_is_lost(forgetful):
    heard = []
    forgetful.add_lien(Lien("one", "p", "ops", "x", forgetful.now()))
    forgetful.on_commit(types.SimpleNamespace(lien_changed=heard.append))
    forgetful.database.broken = 1
    assert heard == [forgetful.remove_lien("one", "admin")]


@pytest.mark.parametrize("noun", ["waiver", "lien"])
def test_a_record_of_an_admin_is_written_once_when_the_reply_to_the_commit_is_lost(forgetful, noun):
    now, end = forgetful.now(), datetime.datetime(2099, 1, 1)
    wanted = {"waiver": Waiver("one", "dns", "x", now, end), "lien": Lien("one", "p", "ops", "x", now)}[noun]
    forgetful.database.broken = 1
    made = getattr(forgetful, f"add_{noun}")(wanted)
    assert getattr(forgetful, noun)("one")[0] == made


def test_a_committed_request_is_accepted_when_the_reply_to_the_commit_is_lost(forgetful):
    forgetful.database.broken = 1
    record = create(forgetful)
    assert forgetful.get(record.id) == record
    with pytest.raises(AlreadyUnderWay):
        create(forgetful)
    assert len(forgetful.events(record.id, 10)) == 1


def test_a_committed_request_is_accepted_when_it_has_reached_a_limit_and_the_reply_is_lost(forgetful):
    """The record of the first attempt counts for the limit."""
    record = deletion(id=str(uuid.uuid4()), user_id="u")
    forgetful.database.broken = 1
    (made,) = forgetful.create_all([(record, ACCEPTED)], TASKS, RequestLimits(live_per_requester=1))
    assert forgetful.get(record.id) == made
    other = deletion(id=str(uuid.uuid4()), project_id="other", user_id="u")
    with pytest.raises(TooManyDeletions):
        forgetful.create_all([(other, ACCEPTED)], TASKS, RequestLimits(live_per_requester=1))


ASKS = (Condition("approval", True, "too_many_deletions", "", T0),)
#: A proposal to each of these deletions, and the type of its journal line.
PROPOSALS = {
    "approve": ({"conditions": ASKS}, lambda **who: Approve(reason="x", **who), "deletion.approved"),
    "retry": ({"status": Status.FAILED}, Retry, "deletion.retried"),
    "retry of a live deletion": ({}, Retry, "deletion.retried_now"),
    "cancel": ({}, Stop, "deletion.cancelling"),
    "force": (
        {"status": Status.DELETING},
        lambda **who: AbandonLeftovers(reason="x", wanted=None, types=(), **who),
        "deletion.forced",
    ),
}


@pytest.mark.parametrize("asked", PROPOSALS)
@pytest.mark.parametrize("broken", [0, 1, 2])
def test_a_proposal_is_applied_once_when_the_reply_to_the_commit_is_lost(forgetful, asked, broken):
    """There were two approvals, and a cancel was refused because the deletion was being cancelled by itself."""
    values, proposal, line = PROPOSALS[asked]
    record, heard = create(forgetful, **values), []
    forgetful.on_commit(types.SimpleNamespace(deletion_saved=lambda *saved: heard.append(saved)))
    forgetful.database.broken = broken
    decided = forgetful.propose(proposal(by=Requester("u"), seen=record))
    assert [event.type for event in decided.applied.events] == [line]
    assert [row.event.type for row in forgetful.events(record.id, 10)] == ["deletion.accepted", line]
    saved = forgetful.get(record.id)
    assert saved.version == record.version + 1 and len(saved.approvals) <= 1
    assert [(before.version, after.version) for before, after in heard] == [(record.version, saved.version)]


def test_a_proposal_is_applied_when_its_transaction_is_rolled_back(forgetful, monkeypatch):
    record, undone = create(forgetful), []

    def undo(_connection):
        if not undone:
            undone.append(1)
            raise sqlalchemy.exc.OperationalError("COMMIT", {}, Exception("deadlock"))

    sqlalchemy.event.listen(forgetful.database.engine, "commit", undo)
    try:
        assert forgetful.propose(Stop(by=Requester("u"), seen=record))
    finally:
        sqlalchemy.event.remove(forgetful.database.engine, "commit", undo)
    assert undone and forgetful.get(record.id).status is Status.CANCELLING
    assert len(forgetful.events(record.id, 10)) == 2


@pytest.mark.real
@pytest.mark.parametrize("kind", sorted(SERVERS))
def test_a_process_that_freezes_in_a_transaction_loses_its_locks(kind, monkeypatch):
    """As a stopped process or a host that is cut off: the database does not notice it."""
    monkeypatch.setattr(database, "_IDLE", 1)
    with filled(kind) as url, contextlib.ExitStack() as stack:
        frozen, other = Store.from_url(url), Store.from_url(url)
        for each in (frozen, other):
            stack.callback(each.close)
        record = create(other)
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(1))
        with pytest.raises(sqlalchemy.exc.DBAPIError) as broken, frozen.database.begin() as connection:
            connection.execute(tables.deletions.update().values(message="frozen"))
            saved = pool.submit(save, other, record, dataclasses.replace(record, message="alive"))
            assert saved.result(timeout=60).message == "alive"
            connection.execute(tables.deletions.update().values(message="thawed"))
        assert storage.unavailable(broken.value), "it is tried again"
        assert other.get(record.id).message == "alive"
        assert frozen.get(record.id).message == "alive", "with another connection"


class Slow(dict):
    """A value that is not sent before an event, or the end of a minute."""

    def __init__(self, until):
        super().__init__(slow=True)
        self._until = until

    def items(self):
        deadline = time.monotonic() + 60
        while not self._until() and time.monotonic() < deadline:
            time.sleep(0.02)
        return super().items()


@pytest.mark.parametrize("what", ["insert", "update"])
@pytest.mark.real
@pytest.mark.parametrize("kind", sorted(SERVERS))
def test_a_process_that_freezes_between_two_rows_loses_its_locks(kind, what, monkeypatch):
    """A driver that sends them all before it asks for an answer keeps the database waiting, not idle: for ever."""
    monkeypatch.setattr(database, "_IDLE", 1)
    with filled(kind) as url, contextlib.ExitStack() as stack:
        frozen, other = Store.from_url(url), Store.from_url(url)
        for each in (frozen, other):
            stack.callback(each.close)
        record = create(other)
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(1))
        row = {"deletion_id": record.id, "at": T0, "type": "x", "message": "", "actor": "", "request_id": ""}
        statement = tables.events.insert()
        if what == "update":
            row = {"known": record.id}
            statement = tables.events.update().where(tables.events.c.deletion_id == sqlalchemy.bindparam("known"))
        with pytest.raises(sqlalchemy.exc.DBAPIError) as broken, frozen.database.begin() as connection:
            connection.execute(tables.deletions.update().values(message="frozen"))
            saved = pool.submit(save, other, record, dataclasses.replace(record, message="alive"))
            values = [*[{}] * 200, Slow(saved.done), {}]
            connection.execute(statement, [row | {"data": data} for data in values])
            assert saved.done(), "it had to wait for who is frozen"
        assert saved.result(timeout=60).message == "alive"
        assert storage.unavailable(broken.value), "it is tried again"
        assert other.get(record.id).message == "alive"


@pytest.mark.parametrize(
    ("url", "named", "wanted"),
    [
        (
            "postgresql+psycopg://u@h/d?connect_timeout=3&keepalives_idle=60",
            {"connect_timeout": "3", "keepalives_idle": "60"},
            {"keepalives": 1, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30000},
        ),
        (
            "mysql+pymysql://u@h/d?read_timeout=600",
            {"read_timeout": 600},
            {"connect_timeout": 10, "write_timeout": 120},
        ),
    ],
)
def test_the_wait_for_a_database_whose_host_is_cut_off_ends(url, named, wanted):
    """What the URL says is taken."""
    store = Store.from_url(url)
    asked = {}

    def connecting(_dialect, _record, _args, parameters):
        asked.update(parameters)
        raise ConnectionRefusedError

    sqlalchemy.event.listen(store.database.engine, "do_connect", connecting)
    with pytest.raises(ConnectionRefusedError):
        store.ping()
    wanted = wanted | named
    assert {name: asked[name] for name in wanted if name in asked} == wanted


def test_the_drivers_take_the_timeouts(store):
    """All of them, as they are by default."""
    store.ping()
    if store.database.engine.dialect.name == "mysql":
        with store.database.begin() as connection:
            assert connection.connection.driver_connection._read_timeout == 120
    if store.database.engine.dialect.name == "postgresql":
        with store.database.begin() as connection:
            taken = connection.connection.driver_connection.info.get_parameters()
            assert (taken["tcp_user_timeout"], taken["keepalives_idle"]) == ("30000", "10")
