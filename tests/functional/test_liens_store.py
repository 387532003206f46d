"""Liens and the brake on every kind of database: they hold from the commit on, and do not hold undo steps."""

import concurrent.futures
import dataclasses
import datetime
import types
import uuid

import pytest

from cleanup_orchestrator.core.deletion import Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.guard import HoldOptions
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.maintenance_windows import Windows
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.store import Conflict, NotFound, Page
from tests.support.stores import claimed, create

SECOND = datetime.timedelta(seconds=1)


def protect(store, project_id="p", seconds=None, **values):
    until = None if seconds is None else store.now() + seconds * SECOND
    return store.add_lien(Lien(str(uuid.uuid4()), project_id, "billing", "ünïcødé 🗑", store.now(), until, **values))


def test_what_is_written_is_read(store):
    made = protect(store, seconds=3600, user_id="u", user_name="alice", request_id="req-1")
    read, now = store.lien(made.id)
    assert read == made and read.in_force(now)
    with pytest.raises(NotFound):
        store.lien("11111111-2222-3333-4444-555555555555")
    pulled = store.set_brake(Brake(True, "ünïcødé 🗑", None, "u", "alice", "req-1"))
    assert store.brake() == pulled and pulled.since is not None


def test_only_unexpired_liens_are_in_force(store):
    holds, ended = protect(store), protect(store, seconds=-1)
    removed, other = protect(store), protect(store, "q", seconds=3600)
    store.remove_lien(removed.id, "u")
    assert [one.id for one in store.liens_in_force(["p"])] == [holds.id]
    assert {one.id for one in store.liens_in_force(["p", "q", "r"])} == {holds.id, other.id}
    assert store.liens_in_force([]) == ()
    found = lambda **how: {one.id for one in store.liens(Page(10), **how)[0]}  # noqa: E731
    assert found(in_force=True) == {holds.id, other.id}
    assert found(in_force=False) == {ended.id, removed.id}
    assert found(in_force=True, project_id="q") == {other.id}
    assert len(found()) == 4


@pytest.mark.parametrize(
    ("kind", "values", "held"),
    [
        (StepKind.DRAIN, {"status": Status.DRAINING}, True),
        (StepKind.CLOSE, {"status": Status.VERIFYING}, True),
        (StepKind.REMOVE, {"status": Status.VERIFYING, "purpose": RoundPurpose.PROJECT_SETTINGS}, True),
        (StepKind.ACCESS, {"status": Status.INVENTORY}, False),
        (StepKind.RELEASE, {"status": Status.CANCELLING}, False),
    ],
)
@pytest.mark.parametrize("hold", ["lien", "brake", "window"])
def test_from_the_commit_on_nothing_is_locked_or_deleted(store, kind, values, held, hold):
    step = claimed(store, create(store), kind, **values)
    begin, end = (store.now() + datetime.timedelta(hours=hours) for hours in (2, 3))
    shut = HoldOptions(Windows.of([f"{begin:%H:%M}-{end:%H:%M}"], "UTC"))
    assert store.may_write(step)
    options = (shut,) if hold == "window" else ()
    if hold == "lien":
        protect(store, "another")
        assert store.may_write(step), "a lien is about one project"
        made = protect(store)
    elif hold == "brake":
        store.set_brake(Brake(True, "x"))
    assert store.may_write(step, *options) is not held
    if hold == "lien":
        store.remove_lien(made.id, "u")
    elif hold == "brake":
        store.set_brake(Brake(False))
    assert store.may_write(step)


def test_an_expired_lien_puts_nothing_on_hold(store):
    step = claimed(store, create(store))
    protect(store, seconds=-1)
    assert store.may_write(step)
    record, _steps, _now = store.load(step.deletion_id)
    assert (record.has_holds, record.liens, record.brake) == (True, (), None)


def test_an_undone_change_is_marked_also_on_hold(store):
    """After the removal of a project its changes are marked as undone, which is no write to the cloud."""
    step = claimed(store, create(store))
    change = store.record_intent(step, "project_disabled", {})
    protect(store)
    assert store.record_intent(step, "project_fenced", {}) is None
    assert store.undone(step, change, Event("drain.undone", "x"))
    assert store.changes(step.deletion_id) == ()


def test_a_loaded_deletion_has_its_liens_and_the_brake(store):
    record = create(store)
    lien = protect(store)
    protect(store, "another")
    store.set_brake(Brake(True, "x"))
    loaded, _steps, _now = store.load(record.id)
    assert loaded.liens == (lien,) and loaded.brake == store.brake()
    saved = store.save(loaded, dataclasses.replace(loaded, message="m"))
    assert store.get(record.id).message == saved.message, "and what is derived is not written"


def test_the_brake_makes_every_live_deletion_due(store):
    records = [create(store, project_id=f"p{n}") for n in range(3)]
    for record in records:
        read = store.get(record.id)
        store.save(read, dataclasses.replace(read, wake_at=store.now() + 3600 * SECOND))
    assert store.due() == []
    for on in (True, False):
        store.set_brake(Brake(on, "x"))
        assert set(store.due()) == {record.id for record in records}


def test_simultaneous_changes_of_the_brake_make_one_change(store):
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        for on in (True, False, True):
            found = set(threads.map(lambda n, on=on: store.set_brake(Brake(on, str(n))), range(6)))
            assert len(found) == 1 and found == {store.brake()}


# --------------------------------------------------------------------------------------------- liens of plugins
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
    store.save(current, dataclasses.replace(current, status=Status.CANCELLED))
    listed(store, create(store), USED)
    [(_, another)] = raised_on(store)
    assert another != lien_id


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.FAILED, Status.LEFTOVERS])
def test_a_plugin_lien_ends_with_its_deletion_and_a_retry_records_it_again(store, status):
    record = create(store)
    others = protect(store)
    listed(store, record, USED)
    current = store.load(record.id)[0]
    store.save(current, dataclasses.replace(current, status=status))
    assert store.liens_in_force(["p"]) == (others,) and told(store, record) == ["lien.raised", "lien.ended"]
    current = store.load(record.id)[0]
    store.save(current, dataclasses.replace(current, status=Status.ACCEPTED))
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
    """An engine that decided on what it read before the lien cannot save its decision any more."""
    record = create(store)
    listed(store, record, UNUSED)
    step = claimed(store, record, StepKind.SWEEP, status=Status.INVENTORY, purpose=RoundPurpose.INVENTORY)
    read = store.load(record.id)[0]
    store.finish(step, USED)
    with pytest.raises(Conflict):
        store.save(read, dataclasses.replace(read, status=Status.DELETING))
    assert len(store.load(record.id)[0].liens) == 1
