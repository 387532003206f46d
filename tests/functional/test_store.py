"""The store on every kind of database: what each writer writes, and what is refused."""

import concurrent.futures
import contextlib
import dataclasses
import datetime
import threading
import time
import uuid

import pytest
import sqlalchemy
import sqlalchemy.exc

from cleanup_orchestrator import store as storage
from cleanup_orchestrator.core import actions
from cleanup_orchestrator.core.deletion import Condition, Force, Mode, RoundPurpose, Status
from cleanup_orchestrator.core.facts import Surveyed
from cleanup_orchestrator.core.holds import Lien, Waiver
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.queue import EMPTY_QUEUE
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.selection import EVERYTHING, Selection
from cleanup_orchestrator.core.step import TASKS, Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.core.transitions import By, move
from cleanup_orchestrator.store import AlreadyUnderWay, Conflict, NotFound, Page, Store, database, tables
from cleanup_orchestrator.store import steps as steps_module
from tests.support.databases import SERVERS, filled
from tests.support.stores import create, dispatched
from tests.unit.world import T0


def test_what_is_written_is_read(store):
    record = create(store, member_ids=("u1", "u2"), message="ünïcødé 🗑")
    read, steps, now = store.load(record.id)
    assert dataclasses.replace(read, queue=EMPTY_QUEUE) == record
    assert sorted(s.kind for s in steps) == sorted(TASKS)
    assert abs(now - datetime.datetime.now(datetime.UTC).replace(tzinfo=None)) < datetime.timedelta(minutes=5)


def test_one_live_deletion_a_project(store):
    first = create(store)
    with pytest.raises(AlreadyUnderWay) as caught:
        create(store)
    assert caught.value.existing.id == first.id
    create(store, project_id="another")
    ended = move(
        move(first, Status.CANCELLING, By.USER, first.created_at, "x"),
        Status.CANCELLED,
        By.ENGINE,
        first.created_at,
        "x",
    )
    store.save(first, ended)
    assert create(store).id != first.id


def test_of_many_simultaneous_requests_one_makes_the_record(store):
    def ask(_):
        try:
            return create(store).id
        except AlreadyUnderWay as error:
            return error.existing.id

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(16)))) == 1
    assert len(store.list(Page(10))) == 1


def test_a_write_based_on_an_old_version_conflicts(store):
    record = create(store)
    store.save(record, dataclasses.replace(record, message="first"))
    with pytest.raises(Conflict):
        store.save(record, dataclasses.replace(record, message="second"), events=[Event("x", "y")])
    assert store.get(record.id).message == "first"
    assert [e.event.type for e in store.events(record.id, 10)] == ["deletion.accepted"]


def test_a_step_is_claimed_once(store):
    step = dispatched(store, create(store))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        claims = [c for c in pool.map(lambda i: store.claim(step.id, f"w{i}", 60), range(8)) if c]
    assert len(claims) == 1
    assert claims[0][1].fencing_token == 1
    assert store.claim("no such step", "w", 60) is None


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


def test_a_worker_that_lost_its_lease_saves_nothing_and_may_not_write(store):
    record = create(store)
    step = dispatched(store, record, StepKind.DRAIN)
    _, zombie = store.claim(step.id, "zombie", 0)  # its lease is over at once
    assert not store.may_write(zombie)
    dispatched(store, record, StepKind.DRAIN)
    _, owner = store.claim(step.id, "owner", 60)
    assert not store.may_write(zombie)
    assert not store.renew(zombie, 60)
    assert not store.finish(zombie, StepResult(Outcome.CLEAR))
    assert store.record_intent(zombie, "grant_added", {}) is None
    assert store.may_write(owner)
    assert store.renew(owner, 60)
    assert store.finish(owner, StepResult(Outcome.CLEAR, message="done"))
    assert not store.finish(owner, StepResult(Outcome.CLEAR)), "a result is saved once"


@pytest.mark.parametrize(
    ("kind", "values", "may"),
    [
        (StepKind.DRAIN, {}, True),
        (StepKind.DRAIN, {"status": Status.CANCELLING}, False),
        (StepKind.DRAIN, {"dry_run": True}, False),
        (StepKind.RELEASE, {"status": Status.CANCELLING}, True),
        (StepKind.REMOVE, {"status": Status.VERIFYING, "purpose": RoundPurpose.INVENTORY}, False),
        (StepKind.REMOVE, {"status": Status.VERIFYING, "purpose": RoundPurpose.PROJECT_SETTINGS}, True),
        (StepKind.SURVEY, {}, False),
    ],
)
def test_a_write_call_is_made_only_where_the_status_wants_it(store, kind, values, may):
    record = create(store)
    step = dispatched(store, record, kind)
    _, held = store.claim(step.id, "w", 60)
    read = store.get(record.id)
    store.save(read, dataclasses.replace(read, **values))
    assert store.may_write(held) is may


def test_a_cancel_stops_the_next_write_and_the_next_claim(store):
    record = create(store)
    step = dispatched(store, record, StepKind.DRAIN)
    _, held = store.claim(step.id, "w", 60)
    assert store.may_write(held)
    read = store.get(record.id)
    store.save(read, move(read, Status.CANCELLING, By.USER, read.created_at, "cancel"))
    assert not store.may_write(held)
    waiting = dispatched(store, record, StepKind.ACCESS)
    assert store.claim(waiting.id, "w", 60) is None


def test_a_result_survives_a_renewal_of_its_lease_at_the_same_time(store):
    record = create(store)
    for _ in range(15):
        _, held = store.claim(dispatched(store, record, StepKind.DRAIN).id, "w", 60)
        over = threading.Event()

        def renew(held=held, over=over):
            while not over.is_set():
                store.renew(held, 60)

        thread = threading.Thread(target=renew)
        thread.start()
        try:
            assert store.finish(held, StepResult(Outcome.CLEAR))
        finally:
            over.set()
            thread.join()


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
            saved = pool.submit(other.save, record, dataclasses.replace(record, message="alive"))
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
            saved = pool.submit(other.save, record, dataclasses.replace(record, message="alive"))
            values = [*[{}] * 200, Slow(saved.done), {}]
            connection.execute(statement, [row | {"data": data} for data in values])
            assert saved.done(), "it had to wait for who is frozen"
        assert saved.result(timeout=60).message == "alive"
        assert storage.unavailable(broken.value), "it is tried again"
        assert other.get(record.id).message == "alive"


@pytest.mark.real
@pytest.mark.parametrize("kind", sorted(SERVERS))
def test_a_result_without_progress_keeps_a_progress_time_that_was_set_meanwhile(kind, monkeypatch):
    """A new round, or a request for force, after the deletion was read for the result and before it is saved."""
    with filled(kind) as url, contextlib.ExitStack() as stack:
        store, other = Store.from_url(url), Store.from_url(url)
        for each in (store, other):
            stack.callback(each.close)
        record = create(other)
        _, held = store.claim(dispatched(other, record).id, "w", 60)
        later = record.progress_at + datetime.timedelta(hours=1)

        def meanwhile(*args):
            known = other.get(record.id)
            other.save(known, dataclasses.replace(known, progress_at=later))
            return actions.record(*args)

        monkeypatch.setattr(steps_module, "record", meanwhile)
        assert store.finish(held, StepResult(Outcome.UNKNOWN, "unavailable"))
        assert other.get(record.id).progress_at == later
        monkeypatch.undo()
        _, held = store.claim(dispatched(other, record).id, "w", 60)
        assert store.finish(held, StepResult(Outcome.CLEAR))
        assert other.get(record.id).progress_at not in (later, record.progress_at), "this one moves it"


def test_many_leftovers_do_not_take_a_round_trip_each(store):
    """The step is locked meanwhile: 100,000 of them would take longer than its lease."""
    record = create(store)
    _, survey = store.claim(dispatched(store, record).id, "w", 60)
    store.put_steps(survey, [Step("", "", StepKind.SWEEP, "R1", "network", "port")])
    store.finish(survey, StepResult(Outcome.CLEAR))
    _, held = store.claim(dispatched(store, record, StepKind.SWEEP).id, "w", 60)
    left = tuple(Leftover(f"{i:04}", f"%s {i}", Reason.FOREIGN, "", ({"id": "x"},)) for i in range(1200))
    sent = []

    def note(_connection, _cursor, statement, parameters, _context, _many):
        if statement.startswith("INSERT INTO leftovers"):
            sent.append(parameters)

    sqlalchemy.event.listen(store.database.engine, "before_cursor_execute", note)
    assert store.finish(held, StepResult(Outcome.LEFTOVERS, "foreign", leftovers=left))
    assert [(r.leftover.id, r.leftover.name) for r in store.leftovers(record.id, 2000)] == [
        (one.id, one.name) for one in left
    ]
    assert len(sent) == 3
    if store.database.engine.dialect.name == "postgresql":
        assert all(isinstance(one, dict) for one in sent), "one statement, and not one for each row"


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


def test_a_survey_lays_out_the_steps_and_keeps_their_results(store):
    record = create(store)
    _, survey = store.claim(dispatched(store, record).id, "w", 60)
    port = Step("", "", StepKind.SWEEP, "R1", "network", "port", after=("network.trunk",))
    dns = Step("", "", StepKind.UNSUPPORTED, "R1", "dns", reason="no_plugin", message="no plugin")
    assert store.put_steps(survey, [port, dns])
    by_name = {s.name: s for s in store.steps(record.id)}
    assert by_name["network.port"].after == ("network.trunk",)
    assert (by_name["dns."].outcome, by_name["dns."].reason) == (Outcome.UNKNOWN, "no_plugin")
    assert by_name["dns."].round == survey.round
    before = by_name["network.port"].id
    assert store.put_steps(survey, [port])
    after = {s.name: s for s in store.steps(record.id)}
    assert after["network.port"].id == before
    assert "dns." not in after


def test_leftovers_are_replaced_and_the_journal_only_grows(store):
    record = create(store)
    _, survey = store.claim(dispatched(store, record).id, "w", 60)
    store.put_steps(survey, [Step("", "", StepKind.SWEEP, "R1", "network", "port")])
    store.finish(survey, StepResult(Outcome.CLEAR))
    for names in (("a", "b", "c"), ("b",)):
        _, held = store.claim(dispatched(store, record, StepKind.SWEEP).id, "w", 60)
        left = tuple(Leftover(n, n, Reason.FOREIGN, "theirs", ({"type": "port", "id": "x"},)) for n in names)
        assert store.finish(
            held, StepResult(Outcome.LEFTOVERS, "foreign", leftovers=left), [Event("sweep.leftovers", "…")]
        )
    rows = store.leftovers(record.id, 10)
    assert [(r.type, r.leftover.id, r.leftover.blocked_by) for r in rows] == [
        ("port", "b", ({"type": "port", "id": "x"},))
    ]
    assert [e.event.type for e in store.events(record.id, 10)] == [
        "deletion.accepted",
        "sweep.leftovers",
        "sweep.leftovers",
    ]
    step = next(s for s in store.steps(record.id) if s.kind is StepKind.SWEEP)
    assert (step.state, step.remaining) == (StepState.DONE, 1)


@pytest.mark.parametrize("name", ["nul \0 here", "lone \ud800 surrogate", "\x1b[2J", "🗑", "'; --", "x" * 9000])
def test_a_name_of_any_kind_is_kept_somehow(store, name):
    record = create(store)
    _, held = store.claim(dispatched(store, record, StepKind.DRAIN).id, "w", 60)
    assert store.append_events(held, Event("resource.deleting", name, "w", {"resources": [{"id": name, "name": name}]}))
    left = Leftover(name, name, Reason.IN_USE, name, ({"id": name},))
    assert store.finish(held, StepResult(Outcome.LEFTOVERS, "in_use", name, leftovers=(left,), deleted=((name, name),)))
    (row,) = store.leftovers(record.id, 10)
    assert len(row.leftover.name) == min(len(name), 512)
    assert store.events(record.id, 10)[-1].event.data["resources"][0]["name"] in (name, row.leftover.message)


def test_a_change_is_written_down_once_and_undone_once(store):
    record = create(store)
    _, held = store.claim(dispatched(store, record, StepKind.DRAIN).id, "w", 60)
    grant = {"actor": "users", "actor_id": "u", "role_id": "r"}
    first = store.record_intent(held, "grant_removed", grant)
    assert store.record_intent(held, "grant_removed", dict(grant)).id == first.id, "a repeated drain records once"
    second = store.record_intent(held, "project_disabled", {})
    assert [c.id for c in store.changes(record.id)] == [first.id, second.id]
    assert store.get(record.id).has_changes
    for change in (second, first):
        assert store.undone(held, change, Event("drain.undone", "…"))
    assert store.changes(record.id) == ()
    assert not store.get(record.id).has_changes
    assert store.record_intent(held, "grant_removed", grant).sequence == 3


def test_what_is_due_is_found_and_what_rests_is_not(store):
    live = create(store, project_id="live")
    resting = create(store, project_id="resting")
    store.save(resting, move(resting, Status.FAILED, By.ENGINE, resting.created_at, "x"))
    later = create(store, project_id="later")
    store.save(later, dataclasses.replace(later, wake_at=store.now() + datetime.timedelta(hours=1)))
    assert store.due() == [live.id]


def test_pages_walk_over_everything_once(store):
    ids = [create(store, project_id=f"p{i}", project_name=f"n{i % 3}").id for i in range(10)]
    for sort in ((("created_at", "desc"),), (("project_name", "asc"), ("created_at", "desc")), (("status", "desc"),)):
        seen, marker = [], None
        while page := store.list(Page(3, marker, sort)):
            seen += [d.id for d in page]
            marker = page[-1].id
        assert sorted(seen) == sorted(ids)
    with pytest.raises(NotFound):
        store.list(Page(3, "nowhere"))


def test_deletions_that_need_attention_are_found(store):
    stalled = Condition("stalled", True, "no_progress", "…", datetime.datetime(2026, 11, 21))
    asking = {
        "stalled": create(store, project_id="stalled", status=Status.DELETING, conditions=(stalled,)).id,
        "failed": create(store, project_id="failed", status=Status.FAILED).id,
        "leftovers": create(store, project_id="leftovers", status=Status.LEFTOVERS).id,
    }
    going = dataclasses.replace(stalled, status=False)
    create(store, project_id="going on", status=Status.DELETING, conditions=(going,))
    create(store, project_id="dry", status=Status.FAILED, dry_run=True)
    before = create(store, project_id="seen to", status=Status.LEFTOVERS)
    while store.now() == before.created_at:  # SQLite's clock counts milliseconds
        pass
    create(store, project_id="seen to", status=Status.DELETED)
    create(store, project_id="failed", status=Status.PLANNED, dry_run=True)
    found = {d.id: d.attention for d in store.list(Page(100), attention=True)}
    assert found == {id_: why for why, id_ in asking.items()}
    others = {d.id for d in store.list(Page(100), attention=False)}
    assert others == {d.id for d in store.list(Page(100))} - found.keys()


def test_a_child_asks_for_a_person_until_its_project_has_a_later_deletion(store):
    parent = create(store, include_subtree=True)
    blocked = Condition("blocked", True, "person_needed", "…", datetime.datetime(2026, 11, 21))
    below = {"parent_deletion_id": parent.id}
    create(store, project_id="c1", status=Status.DELETING, conditions=(blocked,), **below)
    failed = create(store, project_id="c2", status=Status.FAILED, **below)
    create(store, project_id="c3", status=Status.CANCELLED, **below)
    asking = {"c1": "blocked", "c2": "failed", "c3": ""}
    assert {c.project_id: c.attention for c in store.load(parent.id)[0].children} == asking
    while store.now() == failed.created_at:  # SQLite's clock counts milliseconds
        pass
    create(store, project_id="c2", status=Status.DELETING)
    assert {c.project_id: c.attention for c in store.load(parent.id)[0].children} == asking | {"c2": ""}


def surveying(store, record, *steps, catalog=()):
    """Run a survey that finds these steps and this catalog."""
    held = store.claim(dispatched(store, record).id, "w", 60)[1]
    assert store.put_steps(held, steps, catalog)
    store.finish(held, StepResult(Outcome.CLEAR))


def test_a_service_that_leaves_the_catalog_during_a_deletion_is_still_called(store):
    """An admin deletes an endpoint: what the project has there is unknown from then on, and not gone."""
    record = create(store)
    image = Step("", "", StepKind.SWEEP, "R1", "image", "image")
    dns = Step("", "", StepKind.UNSUPPORTED, "R1", "dns", reason="no_plugin")
    port = Step("", "", StepKind.SWEEP, "R1", "network", "port")
    whole = {("R1", "image"), ("R1", "network"), ("R1", "dns")}
    surveying(store, record, image, dns, port, catalog=whole)
    # Nothing was listed yet: the catalog is as it is. The survey reports unsupported services.
    surveying(store, record, port, catalog={("R1", "network")})
    assert {s.service for s in store.steps(record.id) if s.service} == {"network"}

    surveying(store, record, image, dns, port, catalog=whole)
    before = store.get(record.id)
    store.save(before, dataclasses.replace(before, status=Status.VERIFYING))
    surveying(store, record, port, catalog={("R1", "network")})
    assert {s.service for s in store.steps(record.id) if s.service} == {"network", "image"}
    surveying(store, record, port, catalog=whole)  # they are in the catalog, so no record is needed any more
    assert {s.service for s in store.steps(record.id) if s.service} == {"network"}


WAIVED = {"waived": "w", "reason": "waived", "message": "by alice"}


def sweeping(store, record, result, **where):
    """Dispatch the one sweep step and finish it with this result."""
    _, held = store.claim(dispatched(store, record, StepKind.SWEEP).id, "w", 60)
    assert store.finish(held, result)


def test_a_waived_step_has_no_result_and_keeps_what_was_seen(store):
    record = create(store)
    zone = Step("", "", StepKind.SWEEP, "R1", "dns", "zone")
    seen = StepResult(Outcome.LEFTOVERS, "in_use", leftovers=(Leftover("z", "zone", Reason.IN_USE),), found=1)
    surveying(store, record, zone)
    sweeping(store, record, seen)
    surveying(store, record, dataclasses.replace(zone, **WAIVED))
    [step] = [s for s in store.steps(record.id) if s.kind is StepKind.SWEEP]
    assert (step.waived, step.outcome, step.state, step.reason) == ("w", Outcome.NONE, StepState.IDLE, "waived")
    assert [r.leftover.id for r in store.leftovers(record.id, 10)] == ["z"]
    assert (step.found, step.remaining) == (1, 1)


@pytest.mark.parametrize("result", [StepResult(Outcome.CLEAR), StepResult(Outcome.UNKNOWN, "unreachable", "no answer")])
def test_a_step_begins_anew_when_its_waiver_has_ended(store, result):
    """Its old result, with its old round, would look like a result of the current round."""
    record = create(store)
    zone = Step("", "", StepKind.SWEEP, "R1", "dns", "zone")
    surveying(store, record, zone)
    sweeping(store, record, result)
    surveying(store, record, dataclasses.replace(zone, **WAIVED))
    surveying(store, record, zone)
    [step] = [s for s in store.steps(record.id) if s.kind is StepKind.SWEEP]
    assert (step.waived, step.outcome, step.state, step.round) == ("", Outcome.NONE, StepState.IDLE, 0)
    assert (step.reason, step.message) == ("", "")


def test_a_waiver_that_comes_while_a_step_runs_lets_it_end_and_takes_no_result(store):
    record = create(store)
    zone = Step("", "", StepKind.SWEEP, "R1", "dns", "zone")
    surveying(store, record, zone)
    _, held = store.claim(dispatched(store, record, StepKind.SWEEP).id, "w", 60)
    surveying(store, record, dataclasses.replace(zone, **WAIVED))
    assert store.renew(held, 60)
    assert store.finish(held, StepResult(Outcome.CLEAR, deleted=(("1", "one"),)))
    [step] = [s for s in store.steps(record.id) if s.kind is StepKind.SWEEP]
    assert (step.waived, step.outcome, step.reason, step.deleted) == ("w", Outcome.NONE, "waived", 1)
    surveying(store, record, zone)
    [step] = [s for s in store.steps(record.id) if s.kind is StepKind.SWEEP]
    assert (step.waived, step.outcome, step.state, step.round) == ("", Outcome.NONE, StepState.IDLE, 0)


def test_a_waived_service_without_a_plugin_is_no_unknown_until_its_waiver_ends(store):
    record = create(store)
    dns = Step("", "", StepKind.UNSUPPORTED, "R1", "dns", reason="no_plugin", message="no plugin")
    uncovered = lambda: next(s for s in store.steps(record.id) if s.kind is StepKind.UNSUPPORTED)  # noqa: E731
    surveying(store, record, dns)
    assert uncovered().outcome is Outcome.UNKNOWN
    surveying(store, record, dataclasses.replace(dns, **WAIVED))
    assert (uncovered().outcome, uncovered().waived) == (Outcome.NONE, "w")
    surveying(store, record, dns)
    assert (uncovered().outcome, uncovered().waived, uncovered().reason) == (Outcome.UNKNOWN, "", "no_plugin")


def test_a_retry_does_not_forget_what_could_not_be_seen(store):
    """A service fails in one attempt and leaves the catalog; the next attempt still asks for it."""
    record = create(store)
    image = Step("", "", StepKind.SWEEP, "R1", "image", "image")
    port = Step("", "", StepKind.SWEEP, "R1", "network", "port")
    surveying(store, record, image, catalog={("R1", "image")})
    sweeping(store, record, StepResult(Outcome.UNKNOWN, "unreachable", "no answer"))
    assert store.get(record.id).status is Status.ACCEPTED
    surveying(store, record, port, catalog={("R1", "network")})
    assert {s.service for s in store.steps(record.id) if s.service} == {"network", "image"}


def waiver(store, **values):
    now = store.now()
    base = Waiver(str(uuid.uuid4()), "dns", "it is retired", now, now + datetime.timedelta(hours=1), user_id="u")
    return store.add_waiver(dataclasses.replace(base, **values))


def test_a_waiver_is_written_and_read(store):
    made = waiver(store, region="R1", project_id="p", user_name="ünïcødé 🗑", request_id="req-1")
    assert store.waiver(made.id)[0] == made
    with pytest.raises(NotFound):
        store.waiver("nowhere")


def test_only_unexpired_waivers_for_this_project_are_in_force(store):
    past = store.now() - datetime.timedelta(hours=1)
    for_all, for_p = waiver(store), waiver(store, project_id="p")
    waiver(store, project_id="another")
    waiver(store, expires_at=past)
    withdrawn = waiver(store, project_id="p")
    store.withdraw_waiver(withdrawn.id, "admin")
    assert {w.id for w in store.waivers_in_force("p")} == {for_all.id, for_p.id}
    assert {w.id for w in store.waivers_in_force()} == {for_all.id}
    held, now = store.waivers(Page(10), in_force=True)
    ended, _ = store.waivers(Page(10), in_force=False)
    assert len(held) == 3 and len(ended) == 2
    assert all(w.in_force(now) for w in held) and not any(w.in_force(now) for w in ended)
    assert len(store.waivers(Page(10))[0]) == 5


def test_a_waiver_is_withdrawn_once_and_stays_on_record(store):
    made = waiver(store)
    first = store.withdraw_waiver(made.id, "alice")
    assert (first.deleted_by, first.deleted_at is not None) == ("alice", True)
    assert store.withdraw_waiver(made.id, "bob") == first
    assert store.waiver(made.id)[0] == first
    with pytest.raises(NotFound):
        store.withdraw_waiver("nowhere", "alice")


def test_a_deletion_keeps_the_waivers_that_it_relied_upon(store):
    record, made = create(store), waiver(store)
    _, held = store.claim(dispatched(store, record).id, "w", 60)
    assert store.finish(held, StepResult(Outcome.CLEAR, learned=(Surveyed((made,)),)))
    store.withdraw_waiver(made.id, "alice")
    assert store.get(record.id).waivers == (made,)


# ------------------------------------------------------------------------------------------------------------- force
ASKED = Force("burnt down", ("block-storage.volume",), T0, 1, 1, "u", "alice", "req-1")
VOLUME = Step("", "", StepKind.SWEEP, "R1", "block-storage", "volume")
LEFT = (
    Leftover("a", "A", Reason.ERROR, "error_deleting", owner="p", remedy="by hand"),
    Leftover("b", "B", Reason.IN_USE, "in use", ({"type": "compute.server", "id": "s", "owner": "p"},), owner="p"),
)


def forced(store):
    """Return a forced deletion whose one step has just abandoned two volumes."""
    record = create(store)
    surveying(store, record, VOLUME)
    before = store.get(record.id)
    after = dataclasses.replace(before, status=Status.DELETING, purpose=RoundPurpose.DELETE, round=2, forced=ASKED)
    store.save(before, after)
    sweeping(store, record, StepResult(Outcome.LEFTOVERS, "error", leftovers=LEFT))
    is_abandoned(store, record)
    return record


def is_abandoned(store, record):
    before, steps, now = store.load(record.id)
    [step] = [s for s in steps if s.kind is StepKind.SWEEP]
    made = actions.apply(before, steps, (actions.Abandon(step.id),), now)
    store.save(before, made.deletion, made.steps, made.events, made.abandoned)


def volume_step(store, record):
    [step] = [s for s in store.steps(record.id) if s.kind is StepKind.SWEEP]
    return step


def test_what_is_abandoned_is_marked_and_named_in_the_same_transaction(store):
    record = forced(store)
    assert store.get(record.id).forced == ASKED
    assert [row.leftover for row in store.leftovers(record.id, 10, abandoned=True)] == [
        dataclasses.replace(one, abandoned=True) for one in LEFT
    ]
    assert store.leftovers(record.id, 10, abandoned=False) == []
    [event] = [row.event for row in store.events(record.id, 50, type="resource.abandoned")]
    assert (event.data["region"], event.data["service"], event.data["type"]) == ("R1", "block-storage", "volume")
    named = {"id": "a", "name": "A", "owner": "p", "reason": "error", "remedy": "by hand"}
    assert event.data["resources"][0] == named
    assert [r["id"] for r in event.data["resources"]] == ["a", "b"]
    step = volume_step(store, record)
    assert (step.abandoned, step.remaining, step.unseen) == (2, 2, False)


def test_a_decision_on_an_old_version_abandons_nothing(store):
    record = create(store)
    surveying(store, record, VOLUME)
    sweeping(store, record, StepResult(Outcome.LEFTOVERS, "error", leftovers=LEFT))
    before, steps, now = store.load(record.id)
    step = volume_step(store, record)
    made = actions.apply(before, steps, (actions.Abandon(step.id),), now)
    sweeping(
        store, record, StepResult(Outcome.LEFTOVERS, "error", leftovers=(*LEFT, Leftover("new", "", Reason.ERROR)))
    )
    with pytest.raises(Conflict):
        store.save(before, made.deletion, made.steps, made.events, made.abandoned)
    assert store.leftovers(record.id, 10, abandoned=True) == []
    assert store.events(record.id, 50, type="resource.abandoned") == []


def test_a_later_inventory_keeps_abandoned_rows_and_counts_new_ones(store):
    record = forced(store)
    there = tuple(Leftover(id_, id_, Reason.PRESENT, size=7) for id_ in ("a", "b", "new"))
    sweeping(store, record, StepResult(Outcome.LEFTOVERS, "present", leftovers=there))
    step = volume_step(store, record)
    assert (step.abandoned, step.remaining) == (2, 3)
    rows = {row.leftover.id: row.leftover for row in store.leftovers(record.id, 10)}
    assert {id_: one.abandoned for id_, one in rows.items()} == {"a": True, "b": True, "new": False}
    assert (rows["b"].reason, rows["b"].blocked_by, rows["a"].remedy) == (Reason.IN_USE, LEFT[1].blocked_by, "by hand")
    assert {id_: one.size for id_, one in rows.items()} == {"a": 7, "b": 7, "new": 7}


def test_what_is_not_seen_any_more_stays_on_record_and_what_is_gone_does_not(store):
    record = forced(store)
    sweeping(store, record, StepResult(Outcome.UNKNOWN, "unreachable", "no answer"))
    assert [row.leftover.id for row in store.leftovers(record.id, 10, abandoned=True)] == ["a", "b"]
    assert (volume_step(store, record).abandoned, volume_step(store, record).unseen) == (2, False)
    is_abandoned(store, record)
    assert (volume_step(store, record).abandoned, volume_step(store, record).unseen) == (2, True)
    sweeping(store, record, StepResult(Outcome.LEFTOVERS, "error", leftovers=LEFT[:1]))
    step = volume_step(store, record)
    assert (step.abandoned, step.remaining, step.unseen) == (1, 1, False)


def test_without_force_no_leftover_is_marked_as_abandoned(store):
    record = forced(store)
    before = store.get(record.id)
    store.save(before, dataclasses.replace(before, forced=None))
    sweeping(store, record, StepResult(Outcome.LEFTOVERS, "error", leftovers=LEFT))
    assert volume_step(store, record).abandoned == 0


def test_abandoned_leftovers_stay_when_no_plugin_declares_their_type_any_more(store):
    record = forced(store)
    surveying(store, record, catalog={("R1", "block-storage")})
    assert len(store.leftovers(record.id, 10, abandoned=True)) == 2


@pytest.mark.parametrize(
    "selection",
    [
        EVERYTHING,
        Selection(services=("network", "block-storage")),
        Selection(types=("compute.server",), tags=("ünïcødé 🗑", "a,b", "'\"%_\\")),
        Selection(created_before=datetime.datetime(2026, 11, 1, 2, 3, 4, 5)),
    ],
)
def test_a_selection_is_read_as_it_was_written(store, selection):
    record = create(store, mode=Mode.EMPTY, selection=selection)
    assert record.selection == selection
    assert store.get(record.id).selection == selection
    assert store.load(record.id)[0].selection == selection
    assert store.list(Page(10))[0].selection == selection
    ended = store.save(record, dataclasses.replace(record, status=Status.LEFTOVERS))
    assert store.get(record.id).selection == ended.selection == selection
    again = store.save(ended, move(ended, Status.ACCEPTED, By.USER, T0, "retry"))
    assert (again.attempt, store.get(record.id).selection) == (2, selection)


def test_the_unselected_resources_of_a_step_are_counted_and_read(store):
    record = create(store, mode=Mode.EMPTY, status=Status.INVENTORY, purpose=RoundPurpose.INVENTORY)
    step = store.claim(dispatched(store, record).id, "w", 60)[1]
    rows = (Leftover("a", "", Reason.NOT_SELECTED, "its type is not selected"), Leftover("b", "", Reason.PRESENT))
    assert store.finish(step, StepResult(Outcome.LEFTOVERS, "present", found=2, leftovers=rows))
    [read] = [s for s in store.steps(record.id) if s.id == step.id]
    assert (read.remaining, read.unselected) == (2, 1)
    assert {row.leftover.id: row.leftover.reason for row in store.leftovers(record.id, 10)} == {
        "a": Reason.NOT_SELECTED,
        "b": Reason.PRESENT,
    }


def test_an_emptied_project_counts_as_a_cascade_of_the_day_and_frees_its_project(store):
    first = create(store, mode=Mode.EMPTY, user_id="u")
    store.save(first, dataclasses.replace(first, status=Status.EMPTIED))
    second = create(store, user_id="u")
    assert store.load(second.id)[0].cascades_before == 1
    assert store.live(first.project_id).id == second.id
