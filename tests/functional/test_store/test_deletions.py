"""The store on every kind of database: what each writer writes, and what is refused."""

import concurrent.futures
import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core.actions import Move, apply
from cleanup_orchestrator.core.condition_types import Condition
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.proposals import Requester, Retry, Stop
from cleanup_orchestrator.core.queue import EMPTY_QUEUE
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.selection import EVERYTHING, Selection
from cleanup_orchestrator.core.step import TASKS, Leftover, Outcome, StepKind, StepResult
from cleanup_orchestrator.core.transitions import By, move
from cleanup_orchestrator.store import AlreadyUnderWay, Conflict, NotFound, Page, deletions, queries, tables
from cleanup_orchestrator.store.leftovers import replace_leftovers
from tests.support.stores import create, dispatched, save
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
    save(store, first, ended)
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
    save(store, record, dataclasses.replace(record, message="first"))
    with pytest.raises(Conflict):
        save(store, record, dataclasses.replace(record, message="second"), events=[Event("x", "y")])
    assert store.get(record.id).message == "first"
    assert [e.event.type for e in store.events(record.id, 10)] == ["deletion.accepted"]


@pytest.mark.parametrize("conflicts", [2, 10])
def test_a_proposal_is_applied_anew_when_a_worker_got_in_between(store, monkeypatch, conflicts):
    record, tries = create(store), []
    real = queries.write_steps

    def overtaken(*arguments):
        tries.append(1)
        if len(tries) <= conflicts:
            raise Conflict("a worker has renewed its lease")
        real(*arguments)

    monkeypatch.setattr(queries, "write_steps", overtaken)
    stop = Stop(by=Requester("u"), seen=record)
    if conflicts == 10:
        with pytest.raises(Conflict):
            store.propose(stop)
    else:
        assert store.propose(stop)
    assert store.get(record.id).status is (Status.ACCEPTED if conflicts == 10 else Status.CANCELLING)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_retry_that_meets_a_deletion_which_begins_at_this_moment(store, monkeypatch, dry_run):
    record = create(store, status=Status.FAILED)
    real, met = deletions._end_dry_runs, []

    def just_before(c, wanted):
        if not met:  # the other one does not exist yet when this looks for it, and is there when this is written
            met.append(1)
            return []
        return real(c, wanted)

    monkeypatch.setattr(deletions, "_end_dry_runs", just_before)
    other = create(store, dry_run=dry_run)
    met.clear()
    retry = Retry(by=Requester("u"), seen=record)
    if dry_run:
        assert store.propose(retry).applied.deletion.status is Status.ACCEPTED
        assert (store.get(other.id).status, store.live("p").id) == (Status.CANCELLED, record.id)
    else:
        with pytest.raises(AlreadyUnderWay) as caught:
            store.propose(retry)
        assert caught.value.existing.id == other.id


def test_a_dry_run_that_ends_at_this_moment_does_not_end_twice(store, monkeypatch):
    dry, real = create(store, dry_run=True), queries.load_locked

    def ended(c, deletion_id):
        if deletion_id == dry.id:
            mine = tables.deletions.c.id == dry.id
            c.execute(tables.deletions.update().where(mine).values(status=str(Status.PLANNED), live_project_id=None))
        return real(c, deletion_id)

    monkeypatch.setattr(queries, "load_locked", ended)
    made = create(store)
    assert (store.get(dry.id).status, store.live("p").id) == (Status.PLANNED, made.id)
    assert [e.event.type for e in store.events(dry.id, 10)] == ["deletion.accepted"]


@pytest.mark.parametrize("name", ["nul \0 here", "lone \ud800 surrogate", "\x1b[2J", "🗑", "'; --", "x" * 9000])
def test_a_name_of_any_kind_is_kept_somehow(store, name):
    record = create(store)
    _, held = store.claim(dispatched(store, record, StepKind.DRAIN).id, "w", 60)
    assert store.append_events(held, Event("resource.deleting", name, "w", {"resources": [{"id": name, "name": name}]}))
    left = Leftover(name, name, Reason.IN_USE, name, ({"id": name},))
    assert store.finish(held, StepResult(Outcome.LEFTOVERS, "in_use", name, leftovers=(left,), deleted=((name, name),)))
    (row,) = store.leftovers(record.id, 10)
    assert len(row.leftover.name) == min(len(name), 512)
    assert store.events(record.id, 10)[-1].event.data["resources"] == [
        {"id": row.leftover.id, "name": row.leftover.name}
    ]


def test_the_longest_names_fit_into_one_line_of_the_journal(store):
    """MariaDB takes 16 MiB, and says of more that the connection is lost, as in an outage."""
    _, held = store.claim(dispatched(store, create(store), StepKind.DRAIN).id, "w", 60)
    resources = [{"id": f"{n}" + "🗑" * 32767, "name": "🗑" * 32767} for n in range(100)]
    assert store.append_events(held, Event("resource.deleting", "x", "w", {"resources": resources}))


@pytest.mark.parametrize("name", ["nul \0 here", "lone \ud800 surrogate", "n" * 300])
def test_a_project_of_any_name_can_be_deleted(store, name):
    """Managers of its domain choose the name. Keystone's database may take what the orchestrator's does not."""
    record = create(store, project_name=name)
    assert len(store.get(record.id).project_name) == min(len(name), 255)


def test_what_is_due_is_found_and_what_rests_is_not(store):
    live = create(store, project_id="live")
    resting = create(store, project_id="resting")
    save(store, resting, move(resting, Status.FAILED, By.ENGINE, resting.created_at, "x"))
    later = create(store, project_id="later")
    save(store, later, dataclasses.replace(later, wake_at=store.now() + datetime.timedelta(hours=1)))
    assert store.due() == [live.id]
    assert store.due(without={live.id, "unknown"}) == []


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
    assert found == {id_: (why,) for why, id_ in asking.items()}
    others = {d.id for d in store.list(Page(100), attention=False)}
    assert others == {d.id for d in store.list(Page(100))} - found.keys()
    assert {d.id for d in store.list(Page(100)) if d.attention} == found.keys(), "the field and the filter agree"
    assert {id_ for id_ in others | found.keys() if store.get(id_).attention} == found.keys()


def test_a_retry_makes_a_deletion_the_latest_of_its_project_again(store):
    """Two deletions fail, and the earlier one is retried and fails again: it is the one that a person sees to."""
    first = create(store, status=Status.FAILED)
    with store.database.begin() as c:
        replace_leftovers(c, store.steps(first.id)[0], [Leftover("r1", "r1", Reason.IN_USE)], False)

    def shown():
        left = {row.deletion_id for row in store.leftovers_of_all_projects(10)}
        return {d.id for d in store.list(Page(10), attention=True)}, left

    while store.now() == first.created_at:  # SQLite's clock counts milliseconds
        pass
    second = create(store, status=Status.FAILED)
    assert shown() == ({second.id}, set())
    while store.now() == second.created_at:
        pass
    store.propose(Retry(by=Requester("u1"), seen=first))
    assert shown() == (set(), {first.id})
    store.decide(first.id, lambda d, steps, now: apply(d, steps, (Move(Status.FAILED, "it fails again"),), now))
    assert shown() == ({first.id}, {first.id})


def test_a_child_asks_for_a_person_until_its_project_has_a_later_deletion(store):
    parent = create(store, include_subtree=True)
    blocked = Condition("blocked", True, "person_needed", "…", datetime.datetime(2026, 11, 21))
    below = {"parent_deletion_id": parent.id}
    create(store, project_id="c1", status=Status.DELETING, conditions=(blocked,), **below)
    failed = create(store, project_id="c2", status=Status.FAILED, **below)
    create(store, project_id="c3", status=Status.CANCELLED, **below)
    asking = {"c1": ("blocked",), "c2": ("failed",), "c3": ()}
    assert {c.project_id: c.attention for c in store.load(parent.id)[0].children} == asking
    while store.now() == failed.created_at:  # SQLite's clock counts milliseconds
        pass
    create(store, project_id="c2", status=Status.DELETING)
    assert {c.project_id: c.attention for c in store.load(parent.id)[0].children} == asking | {"c2": ()}


# ------------------------------------------------------------------------------------------------------------- force


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
    record = create(store, mode=Mode.PURGE, selection=selection)
    assert record.selection == selection
    assert store.get(record.id).selection == selection
    assert store.load(record.id)[0].selection == selection
    assert store.list(Page(10))[0].selection == selection
    ended = save(store, record, dataclasses.replace(record, status=Status.LEFTOVERS))
    assert store.get(record.id).selection == ended.selection == selection
    again = save(store, ended, move(ended, Status.ACCEPTED, By.USER, T0, "retry"))
    assert (again.attempt, store.get(record.id).selection) == (2, selection)


def test_an_emptied_project_counts_as_a_cascade_of_the_day_and_frees_its_project(store):
    first = create(store, mode=Mode.PURGE, user_id="u")
    save(store, first, dataclasses.replace(first, status=Status.PURGED))
    second = create(store, user_id="u")
    assert store.load(second.id)[0].cascades_before == 1
    assert store.live(first.project_id).id == second.id
