"""How many statements each operation of the store sends, on every kind of database.

The numbers do not depend on the time. A statement is a round trip, and a deletion has some hundred of most operations.
"""

import dataclasses

import pytest

from cleanup_orchestrator.core import actions
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.proposals import Requester, Stop
from cleanup_orchestrator.core.queue import QueueState
from cleanup_orchestrator.core.rate_limits import Limits, Request
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult
from tests.support.statements import Statements
from tests.support.stores import create, dispatched
from tests.unit.world import CLEAR, T0

PORTS = Step("", "", StepKind.SWEEP, "R1", "network", "port")
LEFT = StepResult(Outcome.LEFTOVERS, "in_use", found=1, leftovers=(Leftover("1", "one", Reason.IN_USE),))
NOTE = Event("note", "x")


@pytest.fixture
def statements(store):
    store.ping()  # so that the first operation opens no connection
    return Statements(store.database.engine)


@pytest.fixture
def locking(store):
    """How a statement that locks a row is named: SQLite needs no such lock."""
    return "" if store.database.engine.dialect.name == "sqlite" else " FOR UPDATE"


def in_delete_round(store, kinds=3):
    """Return a deletion in a delete round, with sweeps that have not run."""
    at_work = {"status": Status.DELETING, "queue_state": QueueState.WORKING}
    record = create(store, **at_work, purpose=RoundPurpose.DELETE)
    survey = store.claim(dispatched(store, record).id, "w", 60)[1]
    assert store.put_steps(survey, [dataclasses.replace(PORTS, type=f"type{n}") for n in range(kinds)])
    assert store.finish(survey, CLEAR)
    return record


def claimed(store, record):
    return store.claim(dispatched(store, record, StepKind.SWEEP).id, "w", 60)[1]


def test_claim(store, statements):
    step = dispatched(store, in_delete_round(store), StepKind.SWEEP)
    with statements.of() as sent:
        assert store.claim(step.id, "w", 60)
    assert sent == ["COMMIT", "SELECT steps", "UPDATE steps"]


def test_renew(store, statements):
    step = claimed(store, in_delete_round(store))
    with statements.of() as sent:
        assert store.renew(step, 60)
    assert sent == ["COMMIT", "SELECT steps", "UPDATE steps"]


def test_withheld(store, statements):
    step = claimed(store, in_delete_round(store))
    with statements.of() as sent:
        assert not store.withheld(step)
    assert sent == ["COMMIT", "SELECT steps"]


def test_withheld_with_a_lien_on_record(store, statements):
    """Only then are the liens and the brake read."""
    step = claimed(store, in_delete_round(store))
    store.add_lien(Lien("l", "p", "ops", "x", T0))
    with statements.of() as sent:
        assert store.withheld(step)
    assert sent == ["COMMIT", "SELECT brakes", "SELECT liens", "SELECT steps"]


def chained(locking):
    """Return the two statements by which lines follow from those before."""
    return [f"SELECT deletions{locking}", "UPDATE deletions"]


def test_the_intent_to_delete(store, statements, locking):
    step = claimed(store, in_delete_round(store))
    with statements.of() as sent:
        assert store.append_events(step, NOTE, NOTE)
    assert sent == sorted(["COMMIT", "INSERT events", "SELECT steps", *chained(locking)])


def test_the_resources_of_a_line_are_one_more_statement(store, statements, locking):
    step = claimed(store, in_delete_round(store))
    going = Event("resource.deleting", "x", data={"resources": [{"id": str(n), "name": ""} for n in range(100)]})
    with statements.of() as sent:
        assert store.append_events(step, going)
    wanted = ["COMMIT", "INSERT event_resources", "INSERT events", "SELECT steps"]
    assert sent == sorted([*wanted, *chained(locking)])


def test_the_resources_of_many_lines_are_written_in_portions(store, statements):
    """All at once, 100,000 of them took 60 MB beside the result that names them."""
    step = claimed(store, in_delete_round(store))
    many = [
        Event("resource.abandoned", "x", data={"resources": [{"id": f"{line}-{n}", "name": ""} for n in range(100)]})
        for line in range(12)
    ]
    with statements.of() as sent:
        assert store.append_events(step, *many)
    assert sent.count("INSERT event_resources") == 3  # 500, 500 and 200
    assert (sent.count("INSERT events"), sent.count("SELECT events")) == (1, 1)
    assert [e.row.event.message for e in store.events_of_resource("11-99", 10)] == ["x"]


def test_record_intent(store, statements):
    record = create(store, status=Status.DRAINING)
    step = store.claim(dispatched(store, record, StepKind.DRAIN).id, "w", 60)[1]
    with statements.of() as sent:
        assert store.record_intent(step, "grant_removed", {"actor_id": "u"})
    assert sent == ["COMMIT", "INSERT changes", "SELECT changes", "SELECT steps", "UPDATE deletions"]


def test_finish(store, statements, locking):
    record = in_delete_round(store)
    step = claimed(store, record)
    with statements.of() as sent:
        assert store.finish(step, CLEAR)
    assert sent == ["COMMIT", "SELECT steps", "UPDATE deletions", "UPDATE steps"]
    step = claimed(store, record)
    with statements.of() as sent:
        assert store.finish(step, LEFT, [NOTE, NOTE])
    with_lines = ["COMMIT", "INSERT events", "INSERT leftovers", "SELECT steps", "UPDATE deletions", "UPDATE steps"]
    assert sent == sorted([*with_lines, *chained(locking)])
    step = claimed(store, record)
    with statements.of() as sent:
        assert store.finish(step, LEFT, [NOTE])
    assert sent == sorted([*with_lines, "DELETE leftovers", *chained(locking)])


def test_a_survey_that_finds_the_same_steps_writes_none(store, statements, locking):
    record = create(store)
    wanted = [dataclasses.replace(PORTS, type=f"type{n}") for n in range(50)]
    reads = ["COMMIT", f"SELECT deletions{locking}", "SELECT steps", "SELECT steps"]
    for more in (["INSERT steps"], []):
        survey = store.claim(dispatched(store, record).id, "w", 60)[1]
        with statements.of() as sent:
            assert store.put_steps(survey, wanted, {("R1", "network")})
        assert sent == sorted([*reads, *more])
        assert store.finish(survey, CLEAR)


def test_load(store, statements):
    record = in_delete_round(store)
    with statements.of() as sent:
        store.load(record.id)
    assert sent == ["COMMIT", "SELECT deletions", "SELECT steps"]


def test_propose(store, statements, locking):
    stop = Stop(by=Requester("user"), seen=store.get(in_delete_round(store).id))
    with statements.of() as sent:
        assert store.propose(stop)
    reads = [f"SELECT deletions{locking}", "SELECT events", "SELECT steps"]
    assert sent == sorted(["COMMIT", "INSERT events", *reads, "UPDATE deletions", "UPDATE deletions"])


@pytest.mark.parametrize("number", [0, 1, 5])
def test_a_decision_that_dispatches(store, statements, locking, number):
    """The steps of a round that begins are written at once."""
    record = in_delete_round(store, kinds=5)

    def decision(deletion, steps, now):
        sweeps = [step for step in steps if step.kind is StepKind.SWEEP][:number]
        wanted = [actions.Dispatch(step.id) for step in sweeps]
        return actions.apply(deletion, steps, (*wanted, actions.Wake(now)), now)

    with statements.of() as sent:
        decided = store.decide(record.id, decision)
    writes = ["UPDATE deletions", *["UPDATE steps"] * bool(number)]
    assert sent == ["COMMIT", f"SELECT deletions{locking}", "SELECT steps", *writes]
    assert len(decided.applied.casts) == number


def test_a_decision_to_do_nothing(store, statements, locking):
    record = in_delete_round(store)
    with statements.of() as sent:
        assert store.decide(record.id, lambda *_: None) is None
    assert sent == ["COMMIT", f"SELECT deletions{locking}", "SELECT steps"]


@pytest.mark.parametrize(("places", "more"), [(2, 4), (1, 2)], ids=["one is free", "none is free"])
def test_a_decision_without_a_place_reads_the_queue(store, statements, locking, places, more):
    in_delete_round(store)  # it has a place
    waits = create(store, project_id="waits", mode=Mode.REPORT)
    with statements.of() as sent:
        assert store.decide(waits.id, lambda *_: None, places) is None
    assert sent == sorted(["COMMIT", f"SELECT deletions{locking}", "SELECT steps", *["SELECT deletions"] * more])


def test_acquire_permits(store, statements, locking):
    ask = Request("p", Limits(calls=10), calls=1, wanted=1)
    store.acquire_permits("network", "R1", ask)
    with statements.of() as sent:
        store.acquire_permits("network", "R1", ask)
    read = ["SELECT rate_limits", f"SELECT rate_limits{locking}"]
    assert sent == sorted(["COMMIT", *read, "UPDATE rate_limit_leases", "UPDATE rate_limits"])
