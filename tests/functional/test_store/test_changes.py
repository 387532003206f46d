"""The recorded changes of a deletion, on every kind of database."""

from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import StepKind
from tests.support.stores import create, dispatched


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
