"""A worker: the steps of a batch, and how long it waits for calls that may still take effect."""

import contextlib
import types

import pytest

from cleanup_orchestrator.core.deletion import RoundPurpose
from cleanup_orchestrator.core.step import SCANS, Outcome, StepKind, StepState
from cleanup_orchestrator.plugins.base import ResourceType
from cleanup_orchestrator.worker import worker
from cleanup_orchestrator.worker.worker import Worker
from tests.support.timing import SleepClock
from tests.unit.worker.test_watchdog import Site, site, time


@pytest.fixture
def clock(monkeypatch):
    clock = SleepClock()
    monkeypatch.setattr(worker, "time", clock)
    return clock


class Writing:
    """A step whose write call ends at a time."""

    def __init__(self, clock, ends):
        self.clock, self.ends, self.stopping, self.released_at = clock, ends, False, None
        self.step = types.SimpleNamespace(name="network.port@R1", id="s", kind=StepKind.SWEEP)

    def release_claim(self):
        assert self.stopping, "it is told to stop before its claim is given back"
        now = self.clock.monotonic()
        assert now < 3600, "it waits for ever"
        if now < self.ends:
            return False
        self.released_at = now
        return True


def ending(*tasks):
    made = Worker(types.SimpleNamespace(bus=types.SimpleNamespace()))
    made._tasks.update(tasks)
    return made


def test_a_worker_waits_for_the_writes_of_its_steps_before_it_gives_their_claims_back(clock):
    began = clock.monotonic()
    steps = [Writing(clock, began), Writing(clock, began + 3.0)]
    ending(*steps).release_claims(5.0)
    assert [step.released_at >= step.ends for step in steps] == [True, True]


def test_a_worker_keeps_the_claim_of_a_step_whose_write_does_not_end(clock, caplog):
    began = clock.monotonic()
    hangs, ends = Writing(clock, began + 1e9), Writing(clock, began)
    ending(hangs, ends).release_claims(5.0)
    assert began + 5.0 <= clock.monotonic() < began + 6.0
    assert hangs.released_at is None and ends.released_at is not None
    assert "the claim is kept until the lease ends: network.port@R1 (s)" in caplog.text


__all__ = ["site", "time"]
PORT, ROUTER = "port", "router"


@pytest.fixture
def batch(site: Site):
    """A site, a deletion in an inventory, its dispatched steps, and what happens to them, in order."""
    seen = []

    def listing(name):
        def rows(_connection, _project):
            seen.append((name, list(site.announced)))
            return []

        return rows

    site.with_types(*(ResourceType(name, list=listing(name), delete=lambda *_: None) for name in (PORT, ROUTER)))
    site.worker.context.bus.steps = lambda ids: seen.append(("passed on", *ids))
    made = site.record(RoundPurpose.INVENTORY)
    return site, made, [site.dispatch(made, StepKind.SWEEP, name).id for name in (PORT, ROUTER)], seen


def states(site, made):
    return [(site.step(made, name).state, site.step(made, name).outcome) for name in (PORT, ROUTER)]


DONE = (StepState.DONE, Outcome.CLEAR)


def test_the_engines_are_told_once_after_the_last_step(batch):
    site, made, ids, seen = batch
    site.time.call(site.worker.handle, *ids)
    assert seen == [(PORT, []), (ROUTER, [])]
    assert site.announced == [made.id]
    assert states(site, made) == [DONE, DONE]


def test_a_step_that_another_worker_has_done_is_left_out(batch):
    site, made, ids, seen = batch
    site.time.call(site.worker.handle, ids[0])
    site.time.call(site.worker.handle, *ids)
    assert [name for name, _ in seen] == [PORT, ROUTER]
    assert site.announced == [made.id, made.id]


def test_of_a_batch_that_others_have_done_nothing_is_told(batch):
    site, made, ids, _ = batch
    site.time.call(site.worker.handle, *ids)
    site.time.call(site.worker.handle, *ids)
    assert site.announced == [made.id]


def test_a_step_that_fails_does_not_keep_the_others_from_being_done(batch):
    site, made, ids, _ = batch
    finish = site.store.finish

    def fails_once(*args):
        site.store.finish = finish
        raise RuntimeError("the first result cannot be saved")

    site.store.finish = fails_once
    try:
        site.time.call(site.worker.handle, *ids)
    finally:
        site.store.finish = finish
    assert states(site, made)[1] == DONE
    assert site.announced == [made.id]


def test_a_worker_that_stops_passes_each_step_on_alone(batch):
    site, made, ids, seen = batch
    site.worker.refuse()
    site.time.call(site.worker.handle, *ids)
    assert seen == [("passed on", ids[0]), ("passed on", ids[1])]
    assert site.announced == []
    assert [state for state, _ in states(site, made)] == [StepState.DISPATCHED] * 2


def test_a_worker_that_is_told_to_stop_during_a_batch_passes_the_rest_on(batch):
    site, made, ids, seen = batch
    port = site.worker.context.registry.find("network", PORT)
    rows = port.list

    def stopped(connection, project):
        site.worker.refuse()
        return rows(connection, project)

    object.__setattr__(port, "list", stopped)
    site.time.call(site.worker.handle, *ids)
    assert seen == [(PORT, []), ("passed on", ids[1])]
    assert states(site, made) == [DONE, (StepState.DISPATCHED, Outcome.NONE)]
    assert site.announced == [made.id]


class Stops:
    """A task that only says whether it was told to stop."""

    def __init__(self, kind=StepKind.SWEEP, work=lambda: None):
        self.step, self.stopping, self.carry_out = types.SimpleNamespace(kind=kind), False, work
        self.context, self.announce = contextlib.nullcontext, lambda: None


@pytest.mark.parametrize(("kind", "stopping"), [*((kind, True) for kind in sorted(SCANS)), (StepKind.SWEEP, False)])
def test_a_worker_that_refuses_stops_the_steps_of_scans_under_way(kind, stopping):
    made = ending()
    under_way = Stops(kind, made.refuse)
    made.claim = lambda _id: under_way
    made.handle("s")
    assert under_way.stopping is stopping


def test_only_a_task_under_way_is_told_to_stop(clock):
    made = ending()
    ended, under_way = Stops(), Stops(work=lambda: made.release_claims(0.0))
    under_way.release_claim = lambda: True
    tasks = iter([ended, under_way])
    made.claim = lambda _id: next(tasks)
    made.handle("ended", "under_way")
    assert (ended.stopping, under_way.stopping) == (False, True)


def test_a_task_that_was_claimed_while_the_others_were_told_to_stop_stops_too(clock):
    """The claim begins before the worker refuses, and ends after the tasks under way were told."""
    made, seen = ending(), []
    late = Stops(work=lambda: seen.append(late.stopping))

    def claims(_id):
        made.release_claims(0.0)
        return late

    made.claim = claims
    made.handle("late")
    assert seen == [True]
