"""The leftovers of a step are replaced by those of its new result, and rows that stay the same are not written."""

import dataclasses

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, StepKind, StepResult
from cleanup_orchestrator.store import leftovers, tables
from tests.support import stores

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
