"""The store, on every kind of database: what is written, by whom, and what is refused."""

import concurrent.futures
import dataclasses
import datetime
import threading
import uuid

import pytest

from cleanup_orchestrator import actions, tables
from cleanup_orchestrator.model import (
    TASKS,
    Event,
    Kind,
    Leftover,
    Outcome,
    Purpose,
    Reason,
    State,
    Status,
    Step,
    Sweep,
)
from cleanup_orchestrator.store import AlreadyUnderWay, Conflict, NotFound, Page, Store
from cleanup_orchestrator.transitions import By, move
from tests.unit.world import deletion

ACCEPTED = Event("deletion.accepted", "asked for", "user")


@pytest.fixture
def store(database_url):
    store = Store.from_url(database_url)
    tables.metadata.create_all(store._engine)
    yield store
    store.close()


def create(store, **values):
    return store.create(deletion(**{"id": str(uuid.uuid4()), "project_id": "p", **values}), TASKS, ACCEPTED)


def dispatched(store, record, kind=Kind.SURVEY, **values):
    """Dispatch one step and return it."""
    record, steps, now = store.load(record.id)
    step = next(s for s in steps if s.kind is kind)
    applied = actions.apply(record, steps, (actions.Dispatch(step.id),), now)
    store.save(record, dataclasses.replace(applied.deletion, **values), applied.steps)
    return applied.steps[0]


def test_what_is_written_is_read(store):
    record = create(store, member_ids=("u1", "u2"), message="ünïcødé 🗑")
    read, steps, now = store.load(record.id)
    assert read == record
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


def test_who_reads_old_facts_writes_nothing(store):
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
    assert claims[0][1].fence == 1
    assert store.claim("no such step", "w", 60) is None


def test_a_zombie_saves_nothing_and_may_not_write(store):
    record = create(store)
    step = dispatched(store, record, Kind.DRAIN)
    _, zombie = store.claim(step.id, "zombie", 0)  # its lease is over at once
    assert not store.may_write(zombie)
    dispatched(store, record, Kind.DRAIN)
    _, owner = store.claim(step.id, "owner", 60)
    assert not store.may_write(zombie)
    assert not store.renew(zombie, 60)
    assert not store.finish(zombie, Sweep(Outcome.CLEAR))
    assert store.intend(zombie, "grant_added", {}) is None
    assert store.may_write(owner)
    assert store.renew(owner, 60)
    assert store.finish(owner, Sweep(Outcome.CLEAR, message="done"))
    assert not store.finish(owner, Sweep(Outcome.CLEAR)), "a result is saved once"


@pytest.mark.parametrize(
    ("kind", "values", "may"),
    [
        (Kind.DRAIN, {}, True),
        (Kind.DRAIN, {"status": Status.CANCELLING}, False),
        (Kind.DRAIN, {"dry_run": True}, False),
        (Kind.RELEASE, {"status": Status.CANCELLING}, True),
        (Kind.REMOVE, {"status": Status.VERIFYING, "purpose": Purpose.LOOK}, False),
        (Kind.REMOVE, {"status": Status.VERIFYING, "purpose": Purpose.RESIDUE}, True),
        (Kind.SURVEY, {}, False),
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
    step = dispatched(store, record, Kind.DRAIN)
    _, held = store.claim(step.id, "w", 60)
    assert store.may_write(held)
    read = store.get(record.id)
    store.save(read, move(read, Status.CANCELLING, By.USER, read.created_at, "cancel"))
    assert not store.may_write(held)
    waiting = dispatched(store, record, Kind.ACCESS)
    assert store.claim(waiting.id, "w", 60) is None


def test_a_result_is_not_lost_to_the_renewal_of_its_own_lease(store):
    record = create(store)
    for _ in range(15):
        _, held = store.claim(dispatched(store, record, Kind.DRAIN).id, "w", 60)
        over = threading.Event()

        def renew(held=held, over=over):
            while not over.is_set():
                store.renew(held, 60)

        thread = threading.Thread(target=renew)
        thread.start()
        try:
            assert store.finish(held, Sweep(Outcome.CLEAR))
        finally:
            over.set()
            thread.join()


def test_a_survey_lays_out_the_steps_and_keeps_their_results(store):
    record = create(store)
    _, survey = store.claim(dispatched(store, record).id, "w", 60)
    port = Step("", "", Kind.SWEEP, "R1", "network", "port", after=("network.trunk",))
    dns = Step("", "", Kind.UNCOVERED, "R1", "dns", reason="no_plugin", message="nobody")
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
    store.put_steps(survey, [Step("", "", Kind.SWEEP, "R1", "network", "port")])
    store.finish(survey, Sweep(Outcome.CLEAR))
    for names in (("a", "b", "c"), ("b",)):
        _, held = store.claim(dispatched(store, record, Kind.SWEEP).id, "w", 60)
        left = tuple(Leftover(n, n, Reason.FOREIGN, "theirs", ({"type": "port", "id": "x"},)) for n in names)
        assert store.finish(held, Sweep(Outcome.LEFTOVERS, "foreign", leftovers=left), [Event("sweep.leftovers", "…")])
    rows = store.leftovers(record.id, 10)
    assert [(r.type, r.leftover.id, r.leftover.blocked_by) for r in rows] == [
        ("port", "b", ({"type": "port", "id": "x"},))
    ]
    assert [e.event.type for e in store.events(record.id, 10)] == [
        "deletion.accepted",
        "sweep.leftovers",
        "sweep.leftovers",
    ]
    step = next(s for s in store.steps(record.id) if s.kind is Kind.SWEEP)
    assert (step.state, step.remaining) == (State.DONE, 1)


def test_a_change_is_written_down_once_and_undone_once(store):
    record = create(store)
    _, held = store.claim(dispatched(store, record, Kind.DRAIN).id, "w", 60)
    grant = {"actor": "users", "actor_id": "u", "role_id": "r"}
    first = store.intend(held, "grant_removed", grant)
    assert store.intend(held, "grant_removed", dict(grant)).id == first.id, "a repeated drain records once"
    second = store.intend(held, "project_disabled", {})
    assert [c.id for c in store.changes(record.id)] == [first.id, second.id]
    assert store.get(record.id).holding
    for change in (second, first):
        store.undone(change, Event("drain.undone", "…"))
    assert store.changes(record.id) == ()
    assert not store.get(record.id).holding
    assert store.intend(held, "grant_removed", grant).sequence == 3


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


def surveying(store, record, *steps, catalog=()):
    """Run a survey that finds these steps and this catalog."""
    held = store.claim(dispatched(store, record).id, "w", 60)[1]
    assert store.put_steps(held, steps, catalog)
    store.finish(held, Sweep(Outcome.CLEAR))


def test_what_vanishes_from_the_catalog_under_way_is_still_asked(store):
    """An admin deletes an endpoint: what the project has there is unknown from then on, and not gone."""
    record = create(store)
    image = Step("", "", Kind.SWEEP, "R1", "image", "image")
    dns = Step("", "", Kind.UNCOVERED, "R1", "dns", reason="no_plugin")
    port = Step("", "", Kind.SWEEP, "R1", "network", "port")
    whole = {("R1", "image"), ("R1", "network"), ("R1", "dns")}
    surveying(store, record, image, dns, port, catalog=whole)
    surveying(store, record, port, catalog={("R1", "network")})  # nothing was looked at yet: the catalog is as it is
    assert {s.service for s in store.steps(record.id) if s.service} == {"network"}

    surveying(store, record, image, dns, port, catalog=whole)
    before = store.get(record.id)
    store.save(before, dataclasses.replace(before, status=Status.VERIFYING))
    surveying(store, record, port, catalog={("R1", "network")})
    assert {s.service for s in store.steps(record.id) if s.service} == {"network", "image"}
    surveying(store, record, port, catalog=whole)  # they are there, and nobody needs to be asked any more
    assert {s.service for s in store.steps(record.id) if s.service} == {"network"}
