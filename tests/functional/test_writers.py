"""Engines and workers that write to one deletion at the same time, on every kind of database."""

import concurrent.futures
import dataclasses
import threading

import pytest

from cleanup_orchestrator.core import actions
from cleanup_orchestrator.core.deletion import RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.store import Store
from tests.support.statements import Statements
from tests.support.stores import create, dispatched
from tests.unit.world import CLEAR

KINDS, TURNS = 4, 6
NOTE = Event("note", "x")


@pytest.fixture
def stores(database_url):
    """As many stores as there are processes in this test: an engine, another engine, and a worker."""
    made = [Store.from_url(database_url) for _ in range(3)]
    yield made
    for each in made:
        each.close()


def prepared(store):
    """Return a deletion in a delete round, with sweeps that have not run."""
    record = create(store, status=Status.DELETING, purpose=RoundPurpose.DELETE)
    survey = store.claim(dispatched(store, record).id, "w", 60)[1]
    names = [f"type{n}" for n in range(KINDS)]
    assert store.put_steps(survey, [Step("", "", StepKind.SWEEP, "R1", "network", name) for name in names])
    assert store.finish(survey, CLEAR)
    return record


def test_they_neither_conflict_nor_deadlock_and_no_write_is_lost(stores):
    """Each result is saved while engines decide, other workers save, and leases are renewed."""
    *engines, worker = stores
    counted = [Statements(store.database.engine) for store in stores]
    record = prepared(worker)
    names = [step.id for step in worker.steps(record.id) if step.kind is StepKind.SWEEP]
    over = threading.Event()
    decisions = 0

    def dispatching(wanted):
        def decision(deletion, steps, now):
            found = [actions.Dispatch(step.id) for step in steps if step.id == wanted]
            return actions.apply(deletion, steps, (*found, actions.Wake(now)), now)

        return decision

    def sweep(name):
        left = StepResult(Outcome.LEFTOVERS, "in_use", found=2, leftovers=(Leftover("1", "one", Reason.IN_USE),))
        for turn in range(TURNS):
            engines[turn % 2].decide(record.id, dispatching(name))
            step = worker.claim(name, "w", 60)[1]
            assert worker.append_events(step, NOTE)
            assert worker.renew(step, 60)
            result = dataclasses.replace(left, deleted=((f"{name}{turn}", "gone"),))
            assert worker.finish(step, result, [NOTE])

    def decide(engine):
        nonlocal decisions
        while not over.is_set():
            assert engine.decide(record.id, dispatching("none")) is not None
            decisions += 1

    def drain():
        for number in range(TURNS * 2):
            change = worker.record_intent(draining, "grant_removed", {"number": number})
            assert change is not None
            assert worker.undone(draining, change, NOTE)

    draining = worker.claim(dispatched(worker, record, StepKind.CLOSE).id, "w", 60)[1]
    with concurrent.futures.ThreadPoolExecutor(KINDS + 3) as pool:
        deciding = [pool.submit(decide, engine) for engine in engines]
        working = [*(pool.submit(sweep, name) for name in names), pool.submit(drain)]
        try:
            for each in working:
                each.result(120)  # a conflict would be raised here
        finally:
            over.set()
        for each in deciding:
            each.result(60)
    assert sum(each.deadlocks for each in counted) == 0
    found = [step for step in worker.steps(record.id) if step.kind is StepKind.SWEEP]
    assert [(step.state, step.deleted, step.fencing_token) for step in found] == [
        (StepState.DONE, TURNS, TURNS)
    ] * KINDS
    assert len(worker.leftovers(record.id, 100)) == KINDS
    assert worker.get(record.id).version >= decisions + 2 * KINDS * TURNS
