"""Liens of plugins in the store, on every kind of database."""

import dataclasses
import types

import pytest

from cleanup_orchestrator.core.deletion import Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.store import Conflict
from tests.functional.test_store.test_liens import protect
from tests.support.stores import claimed, create, save

USED = StepResult(
    Outcome.LEFTOVERS, "protected", leftovers=(Leftover("1", "one", Reason.PROTECTED, "shared with q"),), in_use="1"
)
UNUSED = dataclasses.replace(USED, leftovers=(), outcome=Outcome.CLEAR, in_use="")
NOT_ASKED = dataclasses.replace(USED, in_use=None)


def listed(store, record, *results):
    """Save inventories of images, one after the other, each by another worker; return the last result of the store."""
    if not any(step.kind is StepKind.SWEEP for step in store.steps(record.id)):
        survey = claimed(store, record, StepKind.SURVEY)
        assert store.put_steps(survey, [Step("", record.id, StepKind.SWEEP, "R", "image", "image")])
        assert store.finish(survey, StepResult(Outcome.CLEAR))
    said = None
    for result in results:
        values = {"status": Status.INVENTORY, "purpose": RoundPurpose.INVENTORY}
        said = store.finish(claimed(store, record, StepKind.SWEEP, **values), result)
    return said


def raised_on(store, project_id="p"):
    return [(one.origin, one.id) for one in store.liens_in_force([project_id])]


def told(store, record):
    return [e.event.type for e in store.events(record.id, 100) if e.event.type.startswith("lien.")]


@pytest.mark.parametrize(
    ("results", "holds", "journal"),
    [
        ([USED], True, ["lien.raised"]),
        ([USED, USED, USED], True, ["lien.raised"]),
        ([UNUSED], False, []),
        ([NOT_ASKED], False, []),
        ([USED, NOT_ASKED], True, ["lien.raised"]),
        ([USED, StepResult(Outcome.UNKNOWN, "error")], True, ["lien.raised"]),
        ([USED, UNUSED], False, ["lien.raised", "lien.ended"]),
        ([USED, UNUSED, UNUSED], False, ["lien.raised", "lien.ended"]),
        ([USED, UNUSED, USED], True, ["lien.raised", "lien.ended", "lien.raised"]),
    ],
    ids=["one", "again", "none", "not asked", "kept unasked", "kept unknown", "ended", "ended once", "back"],
)
def test_an_inventory_records_one_lien_and_ends_it_when_its_reason_ends(store, results, holds, journal):
    record, heard = create(store), []
    store.on_commit(types.SimpleNamespace(lien_changed=heard.append, deletion_saved=lambda *_: None))
    listed(store, record, *results)
    assert ["lien.ended" if lien.deleted_at else "lien.raised" for lien in heard] == journal
    assert [origin for origin, _ in raised_on(store)] == (["plugin:image.image"] if holds else [])
    assert told(store, record) == journal
    assert len(store.load(record.id)[0].liens) == holds


@pytest.mark.parametrize(
    ("values", "mode"),
    [({"dry_run": True}, Mode.CASCADE), ({}, Mode.REPORT), ({"origin": Origin.NOTICED}, Mode.REPORT)],
)
def test_a_dry_run_or_a_report_records_none(store, values, mode):
    record = create(store, mode=mode, **values)
    listed(store, record, USED)
    assert raised_on(store) == [] and told(store, record) == []


def test_a_removed_plugin_lien_comes_again_only_for_the_next_deletion(store):
    record = create(store)
    listed(store, record, USED)
    [(_, lien_id)] = raised_on(store)
    removed = store.remove_lien(lien_id, "admin")
    listed(store, record, USED, UNUSED, USED)
    assert raised_on(store) == [] and store.lien(lien_id)[0] == removed
    current = store.load(record.id)[0]
    save(store, current, dataclasses.replace(current, status=Status.CANCELLED))
    listed(store, create(store), USED)
    [(_, another)] = raised_on(store)
    assert another != lien_id


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.FAILED, Status.LEFTOVERS])
def test_a_plugin_lien_ends_with_its_deletion_and_a_retry_records_it_again(store, status):
    record = create(store)
    others = protect(store)
    listed(store, record, USED)
    current = store.load(record.id)[0]
    save(store, current, dataclasses.replace(current, status=status))
    assert store.liens_in_force(["p"]) == (others,) and told(store, record) == ["lien.raised", "lien.ended"]
    current = store.load(record.id)[0]
    save(store, current, dataclasses.replace(current, status=Status.ACCEPTED))
    listed(store, record, USED)
    assert len(raised_on(store)) == 2


def test_a_worker_without_its_lease_records_and_ends_no_plugin_lien(store):
    record = create(store)
    listed(store, record, UNUSED)
    late = claimed(store, record, StepKind.SWEEP, status=Status.INVENTORY, purpose=RoundPurpose.INVENTORY)
    assert listed(store, record, USED) is True
    assert store.finish(late, UNUSED) is False and len(raised_on(store)) == 1
    assert store.finish(late, USED) is False and told(store, record) == ["lien.raised"]


def test_the_lien_and_the_result_are_saved_together_or_not_at_all(store, monkeypatch):
    record = create(store)
    listed(store, record, UNUSED)
    step = claimed(store, record, StepKind.SWEEP, status=Status.INVENTORY, purpose=RoundPurpose.INVENTORY)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr("cleanup_orchestrator.store.plugin_liens.raise_lien", _dies)
        store.finish(step, USED)
    assert next(s for s in store.steps(record.id) if s.id == step.id).state is StepState.RUNNING
    assert raised_on(store) == [] and told(store, record) == []
    assert store.finish(step, USED) and len(raised_on(store)) == 1


def _dies(*_):
    raise RuntimeError("the process dies here")


def test_a_plugin_lien_is_stored_before_an_engine_can_decide_to_delete(store):
    """An engine that decided on what it read before the lien can no longer save its decision."""
    record = create(store)
    listed(store, record, UNUSED)
    step = claimed(store, record, StepKind.SWEEP, status=Status.INVENTORY, purpose=RoundPurpose.INVENTORY)
    read = store.load(record.id)[0]
    store.finish(step, USED)
    with pytest.raises(Conflict):
        save(store, read, dataclasses.replace(read, status=Status.DELETING))
    assert len(store.load(record.id)[0].liens) == 1
