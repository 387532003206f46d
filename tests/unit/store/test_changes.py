"""The recorded changes of a deletion: each is on record once, and undone also on hold."""

from cleanup_orchestrator.core.deletion import RoundPurpose, Status
from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import StepKind
from tests.unit.store.test_guard import claimed, create, draining, protect

NOTE = Event("note", "x")
GRANT = {"actor": "users", "actor_id": "u", "role_id": "r"}


def test_the_same_change_is_on_record_once_until_it_is_undone(store):
    record, step = draining(store)
    first = store.record_intent(step, "grant_removed", GRANT)
    assert store.record_intent(step, "grant_removed", GRANT) == first
    assert store.record_intent(step, "grant_removed", {**GRANT, "actor_id": "v"}).id != first.id
    assert store.undone(step, first, NOTE)
    again = store.record_intent(step, "grant_removed", GRANT)
    assert again.id != first.id
    assert [change.data["actor_id"] for change in store.changes(record.id)] == ["v", "u"]


def test_changes_that_ended_with_the_project_are_marked_as_undone_also_on_hold(store):
    """The project is gone: a lien or the brake that came right before changes nothing about that."""
    record = create(store, status=Status.VERIFYING, purpose=RoundPurpose.PROJECT_SETTINGS)
    remove = claimed(store, record, StepKind.REMOVE)
    change = store.record_intent(remove, "project_disabled", {})
    protect(store)
    store.set_brake(Brake(True, "x"))
    assert store.withheld(remove)
    assert store.undone(remove, change, NOTE)
    assert store.changes(record.id) == ()
