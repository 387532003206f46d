"""Which worker may write, as the store answers on SQLite: fencing token, lease, status, liens, brake, hours."""

import dataclasses
import datetime
import uuid

import pytest

from cleanup_orchestrator.core import actions, plugin_liens
from cleanup_orchestrator.core.deletion import Force, Mode, RoundPurpose, Status
from cleanup_orchestrator.core.guard import HoldOptions
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.maintenance_windows import Windows
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import TASKS, Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.core.transitions import By, move
from cleanup_orchestrator.store import Conflict, guard, queries, tables
from cleanup_orchestrator.store.plans import cascades_before
from cleanup_orchestrator.store.plugin_liens import end_lien, raise_lien
from tests.support.stores import dispatched
from tests.unit.world import CLEAR, T0, deletion

ACCEPTED = Event("deletion.accepted", "")
NOTE = Event("note", "x")
HOUR = datetime.timedelta(hours=1)
CLOSED = HoldOptions(Windows.of(["mon 03:00-03:01"], "UTC"))  #: all but never open
GRANT = {"actor": "users", "actor_id": "u", "role_id": "r"}


def create(store, kinds=TASKS, **values):
    return store.create(deletion(**{"id": str(uuid.uuid4()), **values}), kinds, ACCEPTED)


def claimed(store, record, kind=StepKind.DRAIN, lease=3600):
    step = dispatched(store, record, kind)
    return store.claim(step.id, "w", lease)[1]


def draining(store, **values):
    record = create(store, status=Status.DRAINING, **values)
    return record, claimed(store, record)


def moved(store, record, to, by=By.USER):
    record = store.get(record.id)
    return store.save(record, move(record, to, by, store.now(), "x"))


def taken_over(store, record, step):
    """Another worker claims the step, whose lease is over."""
    assert store.renew(step, -1)
    dispatched(store, record, step.kind)
    return store.claim(step.id, "successor", 3600)[1]


#: Every way in which the holder of a step writes.
WRITES = {
    "renew": lambda store, step: store.renew(step, 3600),
    "finish": lambda store, step: store.finish(step, StepResult(Outcome.CLEAR, message="of a zombie")),
    "give_back": lambda store, step: store.release_claim(step),
    "put_steps": lambda store, step: store.put_steps(step, [Step("", step.deletion_id, StepKind.SWEEP, "R", "x", "y")]),
    "tell": lambda store, step: store.append_events(step, NOTE),
    "intend": lambda store, step: store.record_intent(step, "grant_removed", GRANT) is not None,
    "may_write": lambda store, step: store.may_write(step),
}


# --------------------------------------------------------------------------------------------------------------- claims
def test_each_claim_makes_the_fencing_token_grow(store):
    record, step = draining(store)
    assert step.fencing_token == 1
    assert taken_over(store, record, step).fencing_token == 2


def test_what_is_not_dispatched_is_not_claimed(store):
    record, step = draining(store)
    assert store.claim(step.id, "another", 3600) is None
    assert store.finish(step, CLEAR)
    assert store.claim(step.id, "another", 3600) is None
    assert store.steps(record.id)[0].fencing_token <= 1


def test_what_its_deletion_does_not_want_any_more_is_not_claimed(store):
    record = create(store, status=Status.DRAINING)
    step = dispatched(store, record, StepKind.DRAIN)
    moved(store, record, Status.CANCELLING)
    assert store.claim(step.id, "w", 3600) is None


def meanwhile(monkeypatch, table, row, **values):
    """Have another transaction write to a row right after each check of the holder of a step, as on a busy server."""
    real = guard.claimed

    def held(connection, asked):
        found = real(connection, asked)
        connection.execute(table.update().where(table.c.id == row.id).values(**values))
        return found

    monkeypatch.setattr(guard, "claimed", held)


@pytest.mark.parametrize("method", ["renew", "finish", "give_back"])
@pytest.mark.parametrize("values", [{"fencing_token": 2}, {"state": str(StepState.DONE)}], ids=["fence", "state"])
def test_a_write_compares_the_fencing_token_itself_and_not_only_a_question_before(store, monkeypatch, method, values):
    _, step = draining(store)
    meanwhile(monkeypatch, tables.steps, step, **values)
    assert not WRITES[method](store, step)


@pytest.mark.parametrize("values", [{"status": str(Status.FAILED)}, {"since_round": 9}], ids=["ended", "restarted"])
def test_a_result_is_not_saved_if_the_deletion_ends_right_before(store, monkeypatch, values):
    record, step = draining(store)
    meanwhile(monkeypatch, tables.deletions, record, **values)
    assert not store.finish(step, CLEAR)
    assert [s.state for s in store.steps(record.id) if s.id == step.id] == [StepState.RUNNING]


def test_of_two_that_claim_at_once_one_gets_the_step(store, monkeypatch):
    record = create(store, status=Status.DRAINING)
    step = dispatched(store, record, StepKind.DRAIN)
    real = queries.find_work

    def overtaken(connection, step_id):
        """Another transaction claims it right before this one does, as on a busy server."""
        found = real(connection, step_id)
        mine = tables.steps.c.id == step.id
        connection.execute(tables.steps.update().where(mine).values(version=tables.steps.c.version + 1))
        return found

    monkeypatch.setattr(queries, "find_work", overtaken)
    assert store.claim(step.id, "late", 3600) is None


# ---------------------------------------------------------------------------------------------------------- the holder
@pytest.mark.parametrize("method", WRITES)
def test_the_claimant_writes(store, method):
    _, step = draining(store)
    assert WRITES[method](store, step)


@pytest.mark.parametrize("method", WRITES)
def test_the_previous_claimant_does_not_write(store, method):
    record, step = draining(store)
    taken_over(store, record, step)
    before = store.load(record.id)[:2]
    assert not WRITES[method](store, step)
    steps = {s.id: dataclasses.replace(s, version=0) for s in store.steps(record.id)}
    assert steps == {s.id: dataclasses.replace(s, version=0) for s in before[1]}


@pytest.mark.parametrize("method", WRITES)
def test_a_claimant_that_has_finished_does_not_write(store, method):
    _, step = draining(store)
    assert store.finish(step, CLEAR)
    assert not WRITES[method](store, step)


@pytest.mark.parametrize("method", WRITES)
def test_a_step_of_an_ended_or_restarted_deletion_has_no_claimant(store, method):
    record, step = draining(store)
    moved(store, record, Status.FAILED, By.ENGINE)
    assert not WRITES[method](store, step)
    moved(store, record, Status.ACCEPTED)
    assert not WRITES[method](store, step)


CALLS = ["tell", "intend", "may_write"]


@pytest.mark.parametrize("method", CALLS)
def test_past_the_lease_no_call_is_made(store, method):
    _, step = draining(store)
    assert store.renew(step, -1)
    assert not WRITES[method](store, step)
    assert store.finish(step, CLEAR), "but what was found out is true"


@pytest.mark.parametrize("method", CALLS)
def test_after_a_cancel_no_call_is_made(store, method):
    record, step = draining(store)
    moved(store, record, Status.CANCELLING)
    assert not WRITES[method](store, step)


def protect(store, project_id="p", **values):
    return store.add_lien(Lien(str(uuid.uuid4()), project_id, "ops", "x", T0, **values))


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("hold", ["lien", "brake"])
def test_on_hold_no_call_is_made_and_after_the_hold_calls_are_made_again(store, method, hold):
    _, step = draining(store)
    lien = protect(store) if hold == "lien" else store.set_brake(Brake(True, "x"))
    assert not WRITES[method](store, step)
    if hold == "lien":
        store.remove_lien(lien.id, "u")
    else:
        store.set_brake(Brake(False))
    assert WRITES[method](store, step)


def test_liens_of_others_and_those_that_have_expired_hold_nothing(store):
    _, step = draining(store)
    protect(store, "another")
    protect(store, expires_at=store.now() - HOUR)
    assert store.may_write(step)
    protect(store, expires_at=store.now() + HOUR)
    assert not store.may_write(step)


def test_outside_the_maintenance_window_only_read_steps_run(store):
    record, step = draining(store)
    assert not store.may_write(step, CLOSED)
    assert store.may_write(claimed(store, record, StepKind.ACCESS), CLOSED)


def test_changes_are_undone_also_on_hold_but_not_after_the_lease(store):
    record, step = draining(store)
    change = store.record_intent(step, "grant_removed", GRANT)
    moved(store, record, Status.CANCELLING)
    release = claimed(store, record, StepKind.RELEASE)
    protect(store)
    store.set_brake(Brake(True, "x"))
    assert store.renew(release, -1)
    assert not store.undone(release, change, NOTE)
    assert store.renew(release, 3600)
    assert store.undone(release, change, NOTE)
    assert store.changes(record.id) == ()


# -------------------------------------------------------------------------------------------------------------- changes
def test_the_same_change_is_on_record_once_until_it_is_undone(store):
    record, step = draining(store)
    first = store.record_intent(step, "grant_removed", GRANT)
    assert store.record_intent(step, "grant_removed", GRANT) == first
    assert store.record_intent(step, "grant_removed", {**GRANT, "actor_id": "v"}).id != first.id
    assert store.undone(step, first, NOTE)
    again = store.record_intent(step, "grant_removed", GRANT)
    assert again.id != first.id
    assert [change.data["actor_id"] for change in store.changes(record.id)] == ["v", "u"]


@pytest.mark.parametrize("write", ["intend", "finish"])
def test_a_write_of_a_worker_causes_a_conflict_for_a_decision_on_the_old_version(store, write):
    record, step = draining(store)
    before = store.get(record.id)
    assert WRITES[write](store, step)
    with pytest.raises(Conflict):
        store.save(before, dataclasses.replace(before, message="decided on older facts"))
    assert store.get(record.id).message == ""


def test_a_decision_on_an_old_version_of_a_step_conflicts(store):
    record, step = draining(store)
    before = store.get(record.id)
    old = next(s for s in store.steps(record.id) if s.id == step.id)
    assert store.renew(step, 3600)
    with pytest.raises(Conflict):
        store.save(before, before, [dataclasses.replace(old, message="x")])


def test_the_brake_voids_a_decision_that_was_made_without_it(store):
    record, _ = draining(store)
    before = store.get(record.id)
    store.set_brake(Brake(True, "x"))
    with pytest.raises(Conflict):
        store.save(before, dataclasses.replace(before, message="x"))


# ---------------------------------------------------------------------------------------------------- liens of plugins
PORTS = Step("", "", StepKind.SWEEP, "R1", "network", "port")


def listed(store, in_use, **values):
    """Return a deletion and the lien, if any, that the look at its ports has raised."""
    record = create(store, **{"status": Status.INVENTORY, "purpose": RoundPurpose.INVENTORY, **values})
    survey = claimed(store, record, StepKind.SURVEY)
    assert store.put_steps(survey, [PORTS])
    step = claimed(store, record, StepKind.SWEEP)
    assert store.finish(step, dataclasses.replace(CLEAR, in_use=in_use))
    return record, step


def in_force(store):
    return [lien.origin for lien in store.liens_in_force(["p"])]


def test_an_inventory_records_a_plugin_lien_and_a_later_one_ends_it(store):
    record, _ = listed(store, "1: others use it")
    assert in_force(store) == ["plugin:network.port"]
    assert store.finish(claimed(store, record, StepKind.SWEEP), dataclasses.replace(CLEAR, in_use=None))
    assert in_force(store) == ["plugin:network.port"], "it was not asked"
    assert store.finish(claimed(store, record, StepKind.SWEEP), dataclasses.replace(CLEAR, in_use=""))
    assert in_force(store) == []


@pytest.mark.parametrize("values", [{"dry_run": True}, {"mode": Mode.REPORT}])
def test_a_dry_run_or_a_report_records_no_plugin_lien(store, values):
    listed(store, "1: others use it", **values)
    assert in_force(store) == []


def test_a_lien_of_a_plugin_ends_with_its_deletion_and_not_before(store):
    record, _ = listed(store, "1: others use it")
    protect(store)
    moved(store, record, Status.CANCELLING)
    assert len(in_force(store)) == 2
    moved(store, record, Status.CANCELLED, By.ENGINE)
    assert in_force(store) == ["ops"]


@pytest.mark.parametrize("before", [Status.FAILED, Status.LEFTOVERS])
def test_what_was_not_under_way_ends_no_lien(store, before):
    """A save of a deletion that rests is none that ends it: the lien of a retry beside it would go."""
    record, step = listed(store, "1: others use it")
    after = moved(store, record, Status.FAILED, By.ENGINE)
    assert in_force(store) == []
    now = store.now()
    with store.database.begin() as c:
        assert raise_lien(c, plugin_liens.lien(record, step, "again", now), now)
    resting = store.get(after.id)
    assert resting.has_holds
    store.save(resting, dataclasses.replace(resting, status=before, message="a note"))
    assert in_force(store) == ["plugin:network.port"]


def test_a_plugin_lien_that_an_admin_removed_is_not_recorded_again(store):
    record, step = listed(store, "1: others use it")
    store.remove_lien(plugin_liens.lien_id(record.id, step), "admin")
    assert store.finish(claimed(store, record, StepKind.SWEEP), dataclasses.replace(CLEAR, in_use="1: again"))
    assert in_force(store) == []


def test_the_end_of_one_lien_ends_no_other(store):
    record, step = listed(store, "1: others use it")
    protect(store)
    now = store.now()
    with store.database.begin() as c:
        assert end_lien(c, plugin_liens.lien_id(record.id, step), now) is not None
    assert in_force(store) == ["ops"]


def test_the_user_that_removed_a_lien_first_stays_on_record(store):
    lien = protect(store)
    store.remove_lien(lien.id, "first")
    assert store.remove_lien(lien.id, "second").deleted_by == "first"


# ----------------------------------------------------------------------------------------------------- steps and plans
def test_a_service_that_has_left_the_catalog_is_still_called(store):
    record = create(store, status=Status.DELETING, purpose=RoundPurpose.DELETE)
    known = [PORTS, dataclasses.replace(PORTS, type="network"), dataclasses.replace(PORTS, service="image")]
    assert store.put_steps(claimed(store, record, StepKind.SURVEY), known)
    survey = claimed(store, record, StepKind.SURVEY)
    assert store.put_steps(survey, [PORTS], {("R1", "network")})
    names = {step.name for step in store.steps(record.id) if step.kind is StepKind.SWEEP}
    assert names == {"network.port", "image.port"}, "what its service has no more goes, what is out of sight stays"


def is_abandoned(store):
    forced = Force("why", (), T0, attempt=1, round=0)
    record = create(store, status=Status.DELETING, purpose=RoundPurpose.DELETE, forced=forced)
    assert store.put_steps(claimed(store, record, StepKind.SURVEY), [PORTS])
    step = claimed(store, record, StepKind.SWEEP)
    left = Leftover("1", "one", Reason.IN_USE)
    assert store.finish(step, StepResult(Outcome.LEFTOVERS, "in_use", found=1, leftovers=(left,)))
    record, steps, _ = store.load(record.id)
    step = next(s for s in steps if s.kind is StepKind.SWEEP)
    store.save(record, record, [dataclasses.replace(step, abandoned=1)], abandoned=[step.id])
    return record


def test_what_was_abandoned_stays_on_record_without_its_service(store):
    record = is_abandoned(store)
    assert store.put_steps(claimed(store, record, StepKind.SURVEY), [], {("R1", "network")})
    assert [step.abandoned for step in store.steps(record.id) if step.kind is StepKind.SWEEP] == [1]
    assert [row.leftover.id for row in store.leftovers(record.id, 10)] == ["1"]


def test_what_was_abandoned_stays_on_the_report_while_its_service_does_not_answer(store):
    record = is_abandoned(store)
    assert store.finish(claimed(store, record, StepKind.SWEEP), StepResult(Outcome.UNKNOWN, "unreachable"))
    assert [row.leftover.id for row in store.leftovers(record.id, 10)] == ["1"]
    assert store.finish(claimed(store, record, StepKind.SWEEP), CLEAR)
    assert [row.leftover.id for row in store.leftovers(record.id, 10)] == []


def test_a_plan_has_the_ids_of_one_type_in_one_region_that_are_to_go(store):
    record = create(store, status=Status.INVENTORY, purpose=RoundPurpose.INVENTORY, dry_run=True)
    wanted = [PORTS, dataclasses.replace(PORTS, region="R2"), dataclasses.replace(PORTS, type="network")]
    assert store.put_steps(claimed(store, record, StepKind.SURVEY), wanted)
    for step in [s for s in store.steps(record.id) if s.kind is StepKind.SWEEP]:
        loaded, steps, now = store.load(record.id)
        applied = actions.apply(loaded, steps, (actions.Dispatch(step.id),), now)
        store.save(loaded, applied.deletion, applied.steps)
        held = store.claim(step.id, "w", 3600)[1]
        rows = [Leftover(f"{step.region}-{step.type}", "", Reason.PRESENT), Leftover("kept", "", Reason.KEPT)]
        rows.append(Leftover("aside", "", Reason.NOT_SELECTED))
        assert store.finish(held, StepResult(Outcome.LEFTOVERS, "present", found=2, leftovers=tuple(rows)))
    assert store.planned(record.id, "R1", "network", "port") == {"R1-port"}
    assert store.planned(record.id, "R1", "network", "port", parts=True) == {"R1-port", "aside"}
    assert store.planned("another", "R1", "network", "port") == frozenset()


def test_the_cascades_of_a_day_are_counted_without_dry_runs_and_reports(store):
    # Of those recorded at the same moment the order of the ids decides.
    for number, values in enumerate([{}, {"dry_run": True}, {"mode": Mode.REPORT}, {}]):
        create(store, id=f"{number}", project_id=f"p{number}", **values)
    last = create(store, id="9", project_id="last")
    with store.database.begin() as c:
        assert cascades_before(c, last) == 2


def test_changes_that_ended_with_the_project_are_marked_as_undone_also_on_hold(store):
    """The project is gone: a lien or the brake that came right before changes nothing about that."""
    record = create(store, status=Status.VERIFYING, purpose=RoundPurpose.PROJECT_SETTINGS)
    remove = claimed(store, record, StepKind.REMOVE)
    change = store.record_intent(remove, "project_disabled", {})
    protect(store)
    store.set_brake(Brake(True, "x"))
    assert not store.may_write(remove)
    assert store.undone(remove, change, NOTE)
    assert store.changes(record.id) == ()
