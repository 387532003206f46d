"""The leftovers of a step are replaced by those of its new result, and rows that stay the same are not written."""

import dataclasses

import pytest
import sqlalchemy
import sqlalchemy as sa
import sqlalchemy.exc

from cleanup_orchestrator.core import actions
from cleanup_orchestrator.core.deletion import Force, RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.store import Conflict, leftovers, tables
from tests.support import stores
from tests.support.stores import create, dispatched, save
from tests.unit.world import T0

NUMBER = 1200


@pytest.fixture
def few_are_many(monkeypatch):
    """Compare also a list of two leftovers with its rows."""
    monkeypatch.setattr(leftovers, "ROWS", 1)


@pytest.fixture
def deletion(store):
    return stores.create(store)


def queued(id_, **values):
    return Leftover(id_, f"name of {id_}", Reason.QUEUED, "it is queued", **values)


def finish(store, deletion, left):
    """Save a result with these leftovers; return how many rows were inserted and deleted."""
    step = stores.claimed(store, store.get(deletion.id), StepKind.ACCESS)
    rows = {"INSERT": 0, "DELETE": 0}

    def count(_connection, cursor, statement, *_):
        for kind in rows:
            if statement.startswith(kind) and "leftovers" in statement:
                rows[kind] += cursor.rowcount

    engine = store.database.engine
    sa.event.listen(engine, "after_cursor_execute", count)
    try:
        assert store.finish(step, StepResult(Outcome.LEFTOVERS, leftovers=tuple(left)))
    finally:
        sa.event.remove(engine, "after_cursor_execute", count)
    return rows["INSERT"], rows["DELETE"]


def stored(store, deletion):
    return [row.leftover for row in store.leftovers(deletion.id, 10 * NUMBER)]


def test_of_a_long_list_only_what_changed_is_written(store, deletion):
    before = [queued(f"{each:05}") for each in range(NUMBER)]
    assert finish(store, deletion, before) == (NUMBER, 0)
    assert finish(store, deletion, reversed(before)) == (0, 0)
    refused = dataclasses.replace(before[-1], reason=Reason.IN_USE, message="used", blocked_by=({"id": "x"},))
    after = [*before[10:-1], refused, queued("new")]
    assert finish(store, deletion, after) == (2, 11)
    assert sorted(stored(store, deletion), key=lambda one: one.id) == after
    assert finish(store, deletion, after) == (0, 0)
    assert finish(store, deletion, ()) == (0, len(after))


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize(
    "values",
    [
        {"name": "another"},
        {"reason": Reason.PROTECTED},
        {"message": "another"},
        {"blocked_by": ({"type": "network.router", "id": "r", "owner": "p"},)},
        {"abandoned": True},
        {"owner": "p"},
        {"remedy": "by hand"},
        {"size": 2**63 - 1},
    ],
    ids=lambda values: next(iter(values)),
)
def test_a_leftover_of_which_anything_changed_is_written(store, deletion, values):
    one = queued("one")
    finish(store, deletion, [one, queued("two")])
    changed = dataclasses.replace(one, **values)
    assert finish(store, deletion, [changed, queued("two")]) == (1, 1)
    assert stored(store, deletion) == [queued("two"), changed]


@pytest.mark.usefixtures("few_are_many")
def test_ids_that_are_stored_alike_or_differ_in_case_only_are_all_kept(store, deletion):
    long = "x" * 600
    several = [queued("a"), queued("A"), queued(long + "1"), queued(long + "2")]
    for _ in range(2):
        finish(store, deletion, several)
        assert sorted(one.name for one in stored(store, deletion)) == sorted(one.name[:512] for one in several)


def test_the_leftovers_of_another_step_stay(store, deletion):
    finish(store, deletion, [queued("one")])
    other = stores.claimed(store, store.get(deletion.id), StepKind.DRAIN)
    assert store.finish(other, StepResult(Outcome.LEFTOVERS, leftovers=(queued("one"), queued("two"))))
    assert finish(store, deletion, ()) == (0, 1)
    with store.database.begin() as c:
        assert set(c.execute(sa.select(tables.leftovers.c.step_id)).scalars()) == {other.id}


def test_pages_of_any_size_have_each_leftover_once_and_in_order(store, deletion):
    finish(store, deletion, [queued(f"{each:02}") for each in range(7)])
    for size in (1, 3, 7):
        pages, marker = [], None
        while page := store.leftovers(deletion.id, size, marker):
            pages += [row.leftover.id for row in page]
            marker = page[-1].row
            assert len(pages) <= 7, pages
        assert pages == [f"{each:02}" for each in range(7)]


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


def surveying(store, record, *steps, catalog=()):
    """Run a survey that finds these steps and this catalog."""
    held = store.claim(dispatched(store, record).id, "w", 60)[1]
    assert store.put_steps(held, steps, catalog)
    store.finish(held, StepResult(Outcome.CLEAR))


def sweeping(store, record, result, **where):
    """Dispatch the one sweep step and finish it with this result."""
    _, held = store.claim(dispatched(store, record, StepKind.SWEEP).id, "w", 60)
    assert store.finish(held, result)


ASKED = Force("burnt down", ("block-storage.volume",), T0, 1, 1, "u", "alice", "req-1")
VOLUME = Step("", "", StepKind.SWEEP, "R1", "block-storage", "volume")
LEFT = (
    Leftover("a", "A", Reason.ERROR, "error_deleting", owner="p", remedy="by hand"),
    Leftover("b", "B", Reason.IN_USE, "in use", ({"type": "compute.server", "id": "s", "owner": "p"},), owner="p"),
)


def forced(store, left=LEFT):
    """Return a forced deletion whose one step has just abandoned what it left: two volumes."""
    record = create(store)
    surveying(store, record, VOLUME)
    before = store.get(record.id)
    after = dataclasses.replace(before, status=Status.DELETING, purpose=RoundPurpose.DELETE, round=2, forced=ASKED)
    save(store, before, after)
    sweeping(store, record, StepResult(Outcome.LEFTOVERS, "error", leftovers=left))
    is_abandoned(store, record)
    return record


def is_abandoned(store, record):
    before, steps, now = store.load(record.id)
    [step] = [s for s in steps if s.kind is StepKind.SWEEP]
    made = actions.apply(before, steps, (actions.Abandon(step.id),), now)
    save(store, before, made.deletion, made.steps, made.events, made.abandoned)


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


def test_the_longest_remedies_fit_into_one_line_of_the_journal(store):
    """MariaDB takes 16 MiB; see `test_the_longest_names_fit_into_one_line_of_the_journal`."""
    remedy = "é" * 30_000  # each is two bytes in a column of text, and six in one of JSON
    record = forced(store, tuple(dataclasses.replace(LEFT[0], id=f"{n}", remedy=remedy) for n in range(100)))
    [event] = [row.event for row in store.events(record.id, 50, type="resource.abandoned")]
    assert [len(each["remedy"]) for each in event.data["resources"]] == [4000] * 100
    assert store.leftovers(record.id, 1, abandoned=True)[0].leftover.remedy == remedy


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
        save(store, before, made.deletion, made.steps, made.events, made.abandoned)
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
    save(store, before, dataclasses.replace(before, forced=None))
    sweeping(store, record, StepResult(Outcome.LEFTOVERS, "error", leftovers=LEFT))
    assert volume_step(store, record).abandoned == 0


def test_abandoned_leftovers_stay_when_no_plugin_declares_their_type_any_more(store):
    record = forced(store)
    surveying(store, record, catalog={("R1", "block-storage")})
    assert len(store.leftovers(record.id, 10, abandoned=True)) == 2
