"""The shell around decisions: who decides when many ask at once, and what one bad record does to the others."""

import dataclasses
import datetime
import threading

import pytest
from oslo_config import cfg

from cleanup_orchestrator import opts
from cleanup_orchestrator.core.deletion import Origin, RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.orphan_scan import OrphanScan, ScanStatus
from cleanup_orchestrator.core.queue import Line, Queue, QueueState
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import TASKS as KINDS
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.engine import deletions
from cleanup_orchestrator.store import Conflict
from cleanup_orchestrator.store.deletions import Decided
from tests.unit import world


class Records:
    """A store whose reads a test can hold up, and which notes who reads what; all in it has ended."""

    def __init__(self):
        self.loaded, self.broken, self.waiting = [], set(), []
        self.reading, self.go = threading.Semaphore(0), threading.Semaphore(0)
        self.slow, self.limit = False, 2

    def due(self, without=()):
        return [id_ for id_ in self.waiting if id_ not in without][: self.limit]

    def load(self, deletion_id):
        self.loaded.append(deletion_id)
        if deletion_id in self.broken:
            raise ValueError("a row that cannot be read")
        if self.slow:
            self.reading.release()
            assert self.go.acquire(timeout=60)
        return world.deletion(status=Status.DELETED), (), world.T0

    def decide(self, deletion_id, decision, places):
        assert decision(*self.load(deletion_id)) is None


@pytest.fixture
def records():
    return Records()


@pytest.fixture
def made(records):
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([])
    conf.set_override("tick", 0.1, "engine")
    return deletions.Engine(conf, "engine", records, Bus())


def thread(made, deletion_id):
    started = threading.Thread(target=made.handle, args=(deletion_id,), daemon=True)
    started.start()
    return started


def test_a_deletion_that_changes_during_its_decision_is_decided_once_more(made, records):
    records.slow = True
    first = thread(made, "d")
    assert records.reading.acquire(timeout=60)
    for _ in range(5):
        made.handle("d")  # returns at once, though the first one is still at it
    assert records.loaded == ["d"]
    records.go.release()
    assert records.reading.acquire(timeout=60)
    records.go.release()
    first.join(60)
    assert not first.is_alive()
    assert records.loaded == ["d", "d"], "all the news at once"


def test_two_deletions_do_not_wait_for_each_other(made, records):
    records.slow = True
    both = [thread(made, name) for name in ("d", "e")]
    assert records.reading.acquire(timeout=60)
    assert records.reading.acquire(timeout=60)
    records.go.release(2)
    for each in both:
        each.join(60)
        assert not each.is_alive()


def test_a_deletion_whose_decision_failed_is_decided_again(made, records):
    records.broken = {"d"}
    with pytest.raises(ValueError, match="cannot be read"):
        made.handle("d")
    records.broken = set()
    made.handle("d")
    assert records.loaded == ["d", "d"]


def tick_until(made, reached, ticks=600):
    """Let the engine tick until something is reached; without a condition, so many times."""
    stop = threading.Event()
    thread = threading.Thread(target=made.run_ticks, args=(stop,), daemon=True)
    thread.start()
    for _ in range(ticks):
        if reached is not None and reached():
            break
        stop.wait(0.1)
    stop.set()
    thread.join(60)
    assert reached is None or reached()


def test_a_deletion_whose_decision_fails_does_not_stop_the_tick(made, records):
    records.broken, records.waiting = {"bad"}, ["bad", "good"]
    tick_until(made, lambda: "good" in records.loaded)


def test_deletions_whose_decisions_fail_do_not_fill_each_tick(made, records):
    records.broken = {"bad-1", "bad-2", "bad-3"}
    records.waiting = [*sorted(records.broken), "good"]  # the most overdue first; a tick gets two
    tick_until(made, lambda: "good" in records.loaded)
    count = len(records.loaded)
    records.broken, records.waiting = set(), []
    tick_until(made, lambda: {"bad-1", "bad-2", "bad-3"} <= set(records.loaded[count:]))
    count = len(records.loaded)
    tick_until(made, None, ticks=3)
    assert records.loaded[count:] == [], "what was decided on is no longer tried in addition"


# ---------------------------------------------------------------------------------------------------- what it passes on
class Bus:
    """Writes down what is cast; casts of deletions reach the engine, as those of a broker would."""

    def __init__(self):
        self.batches, self.deletions, self.engine = [], [], None

    def steps(self, step_ids):
        self.batches.append(tuple(step_ids))

    def decide(self, deletion_id):
        self.deletions.append(deletion_id)
        if self.engine is not None:
            self.engine.handle(deletion_id)


class One:
    """A store with one deletion; the first saves may conflict."""

    def __init__(self, record, steps=(), conflicts=0, queue=()):
        self.record, self.steps, self.conflicts, self.saved, self.queue = record, steps, conflicts, [], queue

    def decide(self, deletion_id, decision, places):
        assert deletion_id == self.record.id
        before, steps = self.record, self.steps
        applied = decision(before, steps, world.T0)
        if applied is None:
            return None
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict("a worker wrote first")
        self.record = applied.deletion
        changed = {step.id: step for step in applied.steps}
        self.steps = tuple(changed.get(step.id, step) for step in self.steps)
        self.saved.append(applied.deletion.status)
        return Decided(before, steps, world.T0, applied)

    def next_ones(self, places, limit):
        return list(self.queue)[:limit]


TASKS = tuple(Step(str(kind), "d", kind) for kind in KINDS)
#: Another domain has every place.
TAKEN = Queue({("other", "u"): Line(working=16)})


def decided(made, store):
    made.store, made.bus = store, Bus()
    made.handle("d")
    return made.bus


def test_the_parent_is_notified_when_a_child_has_ended(made):
    going = world.deletion(status=Status.CANCELLING, parent_deletion_id="above")
    store = One(going, TASKS)
    assert decided(made, store).deletions == ["above"]
    assert store.saved == [Status.CANCELLED]


def test_the_parent_is_not_notified_while_a_child_goes_on(made):
    bus = decided(made, One(world.deletion(parent_deletion_id="above"), TASKS))
    assert (bus.deletions, bus.batches) == ([], [("survey",)])


def test_the_parent_is_notified_when_a_child_needs_a_person(made):
    """It says so itself: otherwise the parent would look fine until its next heartbeat."""
    step = Step("u", "d", StepKind.UNSUPPORTED, "R1", "messaging", reason=str(Reason.NO_PLUGIN), round=1)
    step = dataclasses.replace(step, state=StepState.DONE, outcome=Outcome.UNKNOWN)
    deleting = world.deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE, parent_deletion_id="above")
    store = One(deleting, (*TASKS, step))
    assert decided(made, store).deletions == ["above"]
    assert store.record.attention == ("blocked",)
    assert decided(made, store).deletions == []


def test_a_deletion_without_a_parent_casts_to_no_other(made):
    assert decided(made, One(world.deletion(status=Status.CANCELLING), TASKS)).deletions == []


@pytest.mark.parametrize(
    ("record", "announced"),
    [
        (world.deletion(), []),  # it begins
        (world.deletion(queue=TAKEN), []),  # it waits itself
        (world.deletion(status=Status.CANCELLING, queue_state=QueueState.WORKING), ["next"]),
        (world.deletion(status=Status.CANCELLING, queue_state=QueueState.OUT), []),
        (world.deletion(status=Status.DELETING, project_gone_at=world.T0), []),
        (world.deletion(status=Status.DRAINING, project_gone_at=world.T0), []),  # it goes on with its inventory
    ],
)
def test_the_next_ones_are_announced_when_a_deletion_needs_no_place_any_more(made, record, announced):
    assert decided(made, One(record, TASKS, queue=["next"])).deletions == announced


def test_a_deletion_that_comes_to_its_verification_lets_another_one_begin(made):
    ended = {"round": 2, "state": StepState.DONE, "outcome": Outcome.CLEAR, "finished_at": world.T0}
    done = [dataclasses.replace(step, **ended) for step in TASKS]
    going = {"purpose": RoundPurpose.DELETE, "queue_state": QueueState.WORKING}
    record = world.deletion(status=Status.DELETING, round=2, **going)
    assert decided(made, One(record, tuple(done), queue=["a", "b", "c", "d"])).deletions == ["a", "b", "c"]


def test_a_decision_that_a_worker_overtook_is_made_anew(made):
    store = One(world.deletion(), TASKS, conflicts=3)
    assert decided(made, store).batches == [("survey",)]
    assert store.saved == [Status.ACCEPTED]


def test_a_parent_goes_on_with_the_cast_of_its_child_and_not_with_the_heartbeat(made, store):
    """With a heartbeat of a day: only the cast says that the child has gone."""
    made.store, made.bus = store, Bus()
    made.rules = dataclasses.replace(made.rules, heartbeat=datetime.timedelta(days=1))
    accepted = Event("deletion.accepted", "")
    store.create(world.deletion(id="above", include_subtree=True), KINDS, accepted)
    gone = {"origin": Origin.NOTICED, "status": Status.VERIFYING, "empty_inventories": 2, "project_id": "c"}
    store.create(world.deletion(id="child", parent_deletion_id="above", **gone), KINDS, accepted)
    made.handle("above")
    [(survey,)] = made.bus.batches
    _, step = store.claim(survey, "w", 3600)
    below = StepResult(Outcome.CLEAR, str(Reason.PROJECT_HAS_CHILDREN), "it has child projects: c")
    assert store.finish(step, below)
    made.handle("above")
    assert made.bus.batches == [(survey,)], "it waits, and casts nothing"
    made.bus.engine = made
    made.handle("child")
    assert store.get("child").status is Status.DELETED
    assert made.bus.batches == [(survey,), (survey,)]


def test_an_id_that_is_not_that_of_a_deletion_is_looked_up_among_the_scans(made, store):
    made.store, made.bus = store, Bus()
    scan = store.create_orphan_scan(OrphanScan("s", ScanStatus.ACCEPTED, world.T0, world.T0, world.T0, 0, 1))
    made.handle(scan.id)
    _, (catalog,) = store.orphan_scan(scan.id)
    assert (catalog.state, made.bus.batches) == (StepState.DISPATCHED, [(catalog.id,)])


def test_the_sweeps_of_an_inventory_are_cast_in_batches(made):
    ended = {"round": 2, "state": StepState.DONE, "outcome": Outcome.CLEAR, "started_at": world.T0}
    done = [dataclasses.replace(step, **ended, finished_at=world.T0) for step in TASKS]
    record = world.deletion(
        status=Status.INVENTORY, round=2, since_round=1, purpose=RoundPurpose.INVENTORY, round_opened_at=world.T0
    )
    sweeps = [world.sweep_step(f"network.t{n}") for n in range(5)]
    made.rules = Rules(steps_at_once=4)
    bus = decided(made, One(record, (*done, *sweeps)))
    assert bus.batches == [("network.t0", "network.t1"), ("network.t2",), ("network.t3",), ("network.t4",)]
