"""Which worker gets a step and saves its result, as the store answers on SQLite."""

import dataclasses

import pytest

from cleanup_orchestrator.core.deletion import Force, RoundPurpose, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.store import Conflict, guard, queries, tables
from tests.support.stores import dispatched, save
from tests.unit.store.test_guard import WRITES, claimed, create, draining, moved, taken_over
from tests.unit.world import CLEAR, T0


def test_each_claim_makes_the_fencing_token_grow(store):
    record, step = draining(store)
    assert step.fencing_token == 1
    assert taken_over(store, record, step).fencing_token == 2


def test_a_worker_that_is_told_twice_of_a_step_claims_it_once(store):
    _, step = draining(store)
    assert store.claim(step.id, step.worker, 3600) is None


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


def test_a_result_is_computed_anew_if_its_step_is_written_meanwhile(store, monkeypatch):
    """The survey may have ended its waiver, or an admin asked for force."""
    _, step = draining(store)
    real, reads = guard.claimed, []

    def read(connection, asked):
        reads.append(real(connection, asked))
        if len(reads) == 1:
            mine = tables.steps.c.id == step.id
            connection.execute(tables.steps.update().where(mine).values(version=tables.steps.c.version + 1))
        return reads[-1]

    monkeypatch.setattr(guard, "claimed", read)
    assert store.finish(step, CLEAR)
    assert len(reads) > 1


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


@pytest.mark.parametrize("write", ["intend", "finish"])
def test_a_write_of_a_worker_causes_a_conflict_for_a_decision_on_the_old_version(store, write):
    record, step = draining(store)
    before = store.get(record.id)
    assert WRITES[write](store, step)
    with pytest.raises(Conflict):
        save(store, before, dataclasses.replace(before, message="decided on older facts"))
    assert store.get(record.id).message == ""


def test_a_decision_on_an_old_version_of_a_step_conflicts(store):
    record, step = draining(store)
    before = store.get(record.id)
    old = next(s for s in store.steps(record.id) if s.id == step.id)
    assert store.renew(step, 3600)
    with pytest.raises(Conflict):
        save(store, before, before, [dataclasses.replace(old, message="x")])


PORTS = Step("", "", StepKind.SWEEP, "R1", "network", "port")


def test_a_service_that_has_left_the_catalog_is_still_called(store):
    record = create(store, status=Status.DELETING, purpose=RoundPurpose.DELETE)
    known = [PORTS, dataclasses.replace(PORTS, type="network"), dataclasses.replace(PORTS, service="image")]
    assert store.put_steps(claimed(store, record, StepKind.SURVEY), known)
    survey = claimed(store, record, StepKind.SURVEY)
    assert store.put_steps(survey, [PORTS], {("R1", "network")})
    names = {step.name for step in store.steps(record.id) if step.kind is StepKind.SWEEP}
    assert names == {"network.port", "image.port"}, "what its service has no more goes, what is out of sight stays"


def test_a_region_that_has_left_the_catalog_is_still_called_though_another_has_the_service(store):
    record = create(store, status=Status.DELETING, purpose=RoundPurpose.DELETE)
    known = [PORTS, dataclasses.replace(PORTS, region="R2")]
    assert store.put_steps(claimed(store, record, StepKind.SURVEY), known)
    survey = claimed(store, record, StepKind.SURVEY)
    assert store.put_steps(survey, [PORTS], {("R1", "network")})
    assert {step.region for step in store.steps(record.id) if step.kind is StepKind.SWEEP} == {"R1", "R2"}


def is_abandoned(store):
    forced = Force("why", (), T0, attempt=1, round=0)
    record = create(store, status=Status.DELETING, purpose=RoundPurpose.DELETE, forced=forced)
    assert store.put_steps(claimed(store, record, StepKind.SURVEY), [PORTS])
    step = claimed(store, record, StepKind.SWEEP)
    left = Leftover("1", "one", Reason.IN_USE)
    assert store.finish(step, StepResult(Outcome.LEFTOVERS, "in_use", found=1, leftovers=(left,)))
    record, steps, _ = store.load(record.id)
    step = next(s for s in steps if s.kind is StepKind.SWEEP)
    save(store, record, record, [dataclasses.replace(step, abandoned=1)], abandoned=[step.id])
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
