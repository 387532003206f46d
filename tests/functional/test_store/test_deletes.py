"""Accepted deletes on record: they end with their resource, survive a failed list, and are written if they change."""

import dataclasses
import datetime

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import DeleteRecord, Leftover, Outcome, StepKind, StepResult
from tests.support import stores

AT = datetime.datetime(2026, 11, 28, 12, 0, 0, 123456)
ONE = DeleteRecord("v1", 2, 1, "the array is full", seen_at=AT, accepted_at=AT)
TWO = DeleteRecord("v2", 1, seen_at=AT)


@pytest.fixture
def deletion(store):
    return stores.create(store)


def finish(store, deletion, outcome, deletes, kind=StepKind.ACCESS):
    """Save a result with these deletes; return its step, and how many statements wrote deletes."""
    step = stores.claimed(store, store.get(deletion.id), kind)
    writes = []

    def note(_connection, _cursor, statement, *_):
        if " deletes " in statement and not statement.startswith("SELECT"):
            writes.append(statement)

    left = (Leftover("v1", "", Reason.DELETING),) if outcome is Outcome.LEFTOVERS else ()
    sa.event.listen(store.database.engine, "after_cursor_execute", note)
    try:
        assert store.finish(step, StepResult(outcome, leftovers=left, deletes=deletes))
    finally:
        sa.event.remove(store.database.engine, "after_cursor_execute", note)
    return step.id, len(writes)


@pytest.mark.parametrize(
    ("outcome", "deletes", "left"),
    [
        (Outcome.LEFTOVERS, (ONE,), (ONE,)),
        (Outcome.LEFTOVERS, (), ()),
        (Outcome.LEFTOVERS, None, (ONE, TWO)),  # an inventory
        (Outcome.UNKNOWN, None, (ONE, TWO)),
        (Outcome.CLEAR, None, ()),
        (Outcome.CLEAR, (ONE,), ()),
    ],
)
def test_which_results_end_a_record(store, deletion, outcome, deletes, left):
    step_id, _ = finish(store, deletion, Outcome.LEFTOVERS, (ONE, TWO))
    assert store.deletes(step_id) == {"v1": ONE, "v2": TWO}
    finish(store, deletion, outcome, deletes)
    assert store.deletes(step_id) == {one.id: one for one in left}


def test_a_step_replaces_its_own_records_only(store, deletion):
    """Two services may give their resources the same id."""
    one, _ = finish(store, deletion, Outcome.LEFTOVERS, (ONE, TWO))
    other, _ = finish(store, deletion, Outcome.LEFTOVERS, (ONE, TWO), StepKind.SURVEY)
    finish(store, deletion, Outcome.CLEAR, None, StepKind.SURVEY)
    assert (store.deletes(one), store.deletes(other)) == ({"v1": ONE, "v2": TWO}, {})


def test_only_what_changed_is_written(store, deletion):
    assert finish(store, deletion, Outcome.LEFTOVERS, ())[1] == 0
    assert finish(store, deletion, Outcome.LEFTOVERS, (ONE, TWO))[1] == 1
    assert finish(store, deletion, Outcome.LEFTOVERS, (TWO, ONE))[1] == 0
    again = dataclasses.replace(ONE, accepted=3)
    step_id, writes = finish(store, deletion, Outcome.LEFTOVERS, (again, TWO))
    assert (writes, store.deletes(step_id)["v1"]) == (2, again)


def test_any_text_can_be_stored(store, deletion):
    odd = dataclasses.replace(ONE, id="\ud800" + "x" * 600, fault="\0" * 100_000)
    step_id, _ = finish(store, deletion, Outcome.LEFTOVERS, (odd,))
    assert len(store.deletes(step_id)) == 1


@pytest.mark.parametrize("ids", [("Data", "data"), ("résumé", "resume"), ("a", "a ")])
def test_ids_that_a_database_compares_alike_have_their_own_records(store, deletion, ids):
    """MariaDB compares without case, accents and trailing blanks."""
    one, other = (dataclasses.replace(ONE, id=id_) for id_ in ids)
    step_id, _ = finish(store, deletion, Outcome.LEFTOVERS, (one, other))
    assert store.deletes(step_id) == {one.id: one, other.id: other}
    again = dataclasses.replace(one, accepted=3)
    finish(store, deletion, Outcome.LEFTOVERS, (again, other))
    assert store.deletes(step_id) == {one.id: again, other.id: other}
    finish(store, deletion, Outcome.LEFTOVERS, (other,))
    assert store.deletes(step_id) == {other.id: other}
