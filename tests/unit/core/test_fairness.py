"""A big project does not keep small ones waiting: sweeps end after a while, and no deletion takes every worker."""

import collections
import dataclasses
import datetime
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.core import dependencies
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.queue import Line, Queue
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Outcome, StepKind, StepState
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.errors import RateLimited, Stopped
from cleanup_orchestrator.plugins.base import ProjectDefinition, ResourceType
from cleanup_orchestrator.worker.sweep import deleting as sweep_deleting
from cleanup_orchestrator.worker.sweep.listing import CHUNK
from tests.support import sweeps
from tests.unit.world import CLEAR, UNKNOWN, World, deletion, left, sweep_step

US = ProjectDefinition("us", "Us", "default", "R1")


# ------------------------------------------------------------------------------------------------- a sweep's slice
class Shelf:
    """A service with many things; the test says how long a delete takes, on a clock of its own, and what refuses."""

    def __init__(self, count, monkeypatch, takes=1.0):
        self.rows = {str(n): {"id": str(n), "name": f"n{n}", "project_id": "us"} for n in range(count)}
        self.takes, self.now, self.deletes = takes, 0.0, []
        self.refuse = {}
        monkeypatch.setattr(sweep_deleting, "time", types.SimpleNamespace(monotonic=lambda: self.now))

    def list(self, *_):
        self.now += 30.0  # a long list takes its time
        yield from [dict(row) for row in self.rows.values()]

    def delete(self, _connection, _project, resource):
        self.now += self.takes
        self.deletes.append(resource.id)
        if resource.id in self.refuse:
            raise self.refuse[resource.id]
        del self.rows[resource.id]

    def sweep(self, **values):
        type_ = ResourceType("thing", list=self.list, delete=self.delete, show=None, why_no_show="in memory")
        return sweeps.delete(type_, None, US, parallel=1, **{"seconds": 10.0, **values})


class HttpError(Exception):
    def __init__(self, status_code):
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code


def test_a_sweep_stops_after_its_slice_and_says_what_is_gone_and_that_there_is_more(monkeypatch):
    shelf = Shelf(50, monkeypatch)
    result = shelf.sweep()
    assert (result.outcome, result.reason) == (Outcome.LEFTOVERS, Reason.QUEUED)
    assert (len(result.deleted), len(result.leftovers), result.found) == (10, 40, 50)
    assert {leftover.reason for leftover in result.leftovers} == {Reason.QUEUED}


def test_slice_after_slice_everything_goes(monkeypatch):
    shelf = Shelf(50, monkeypatch)
    results = [shelf.sweep() for _ in range(5)]
    assert [r.outcome for r in results] == [Outcome.LEFTOVERS] * 4 + [Outcome.CLEAR]
    assert sum(len(r.deleted) for r in results) == len(shelf.deletes) == 50


def test_a_slice_that_moved_nothing_is_a_failed_attempt(monkeypatch):
    shelf = Shelf(50, monkeypatch)
    shelf.refuse = {str(n): HttpError(409) for n in range(30)}
    result = shelf.sweep()
    assert (result.reason, result.deleted) == (Reason.IN_USE, ())


def test_what_refuses_does_not_stand_before_the_rest_for_ever(monkeypatch):
    shelf = Shelf(100, monkeypatch)
    shelf.refuse = {str(n): HttpError(409) for n in range(30)}
    attempt = 1
    for _ in range(100):
        result = shelf.sweep(attempt=attempt)
        attempt += result.reason != Reason.QUEUED
        if len(shelf.rows) == 30:
            break
    assert set(shelf.rows) == set(shelf.refuse)


def test_more_than_fit_into_memory_are_deleted_in_parts(monkeypatch):
    monkeypatch.setattr(sweep_deleting, "MAX_DELETED", 10)
    shelf = Shelf(25, monkeypatch, takes=0.0)
    results = [shelf.sweep() for _ in range(3)]
    assert [len(r.deleted) for r in results] == [10, 10, 5]
    assert [r.reason for r in results] == [Reason.QUEUED, Reason.QUEUED, ""]


def test_of_more_than_fit_a_later_attempt_takes_others(monkeypatch):
    monkeypatch.setattr(sweep_deleting, "MAX_DELETED", 10)
    shelf = Shelf(100, monkeypatch, takes=0.0)
    shelf.refuse = {str(n): HttpError(409) for n in range(10)}
    assert shelf.sweep().deleted == ()
    assert shelf.sweep(attempt=2).deleted


def test_only_what_is_about_to_be_deleted_is_written_down(monkeypatch):
    shelf = Shelf(1000, monkeypatch)
    told = []
    shelf.sweep(record_intent=lambda resources: told.append((len(shelf.deletes), len(resources))), seconds=150.0)
    assert told == [(0, 100), (100, 100)]


def test_when_there_is_no_permit_for_a_call_the_rest_is_not_tried(monkeypatch):
    shelf = Shelf(50, monkeypatch)
    shelf.refuse["3"] = RateLimited("no permit to call network@R1")
    result = shelf.sweep()
    assert shelf.deletes == ["0", "1", "2", "3"]
    assert (result.outcome, result.reason) == (Outcome.LEFTOVERS, Reason.RATE_LIMITED)
    assert len(result.deleted) == 3


def test_a_cancel_is_heard_within_a_slice(monkeypatch):
    shelf = Shelf(50, monkeypatch)
    shelf.refuse["3"] = Stopped("cancelled")
    assert shelf.sweep().reason == Reason.STOPPED
    assert len(shelf.deletes) == 4


def test_a_long_list_is_not_kept_in_memory_row_by_row(monkeypatch):
    """What is kept of each listed row is its id and its name."""
    alive = set()

    class Row(dict):
        def __init__(self, number):
            super().__init__(id=str(number), name="x", project_id="us")
            alive.add(id(self))

        def __del__(self):
            alive.discard(id(self))

    most = []

    def rows(*_):
        for number in range(1000):
            yield Row(number)
            most.append(len(alive))

    monkeypatch.setattr(sweep_deleting, "MAX_DELETED", 50)
    type_ = ResourceType("thing", list=rows, delete=lambda *_: None, show=None, why_no_show="in memory")
    sweeps.delete(type_, None, US, parallel=1)
    sweeps.inventory(type_, None, US)
    assert max(most) <= 50 + CHUNK + 5


# ------------------------------------------------------------------------------------------------------ the decision
PORT = sweep_step("network.port")
QUEUED = dataclasses.replace(left("a", "b", reason=Reason.QUEUED), deleted=(("c", "c"),))


def deleting(*steps, **rules):
    """Return a world whose deletion deletes, with its sweeps dispatched."""
    world = World(deletion(), *steps, rules=Rules(**rules)).finds(steps[0].id)
    world.run(until=Status.DELETING)
    world.settle_engine()
    return world


@pytest.mark.parametrize(
    ("result", "wait", "attempt"),
    [
        (QUEUED, 0, 1),  # at once, and no failure
        (left("a", reason=Reason.IN_USE), 1, 2),
        (left("a", reason=Reason.RATE_LIMITED), 1, 2),
        (UNKNOWN, 1, 2),
    ],
)
def test_a_slice_is_followed_by_the_next_one_at_once_and_everything_else_waits(result, wait, attempt):
    world = deleting(PORT)
    world.claim("network.port")
    world.finish("network.port", result)
    ended = world.now
    world.settle_engine()
    while world.step("network.port").state is not StepState.DISPATCHED:
        world.now = world.deletion.wake_at
        world.settle_engine()
    assert (world.now - ended).total_seconds() == wait
    assert world.step("network.port").attempt == attempt


def test_a_slice_blocks_nothing_and_is_no_leftover_to_worry_about():
    world = deleting(PORT)
    world.claim("network.port")
    world.finish("network.port", QUEUED)
    assert blockers(world.deletion, world.steps.values()) == ()


def test_a_thousand_slices_are_no_thousand_failures():
    world = deleting(PORT)
    todo = [1000]

    def answer(_):
        todo[0] -= 1
        return QUEUED if todo[0] > 0 else CLEAR

    world.answers = {"network.port": answer}
    world.run(limit=1200, until=Status.VERIFYING)
    assert world.step("network.port").attempt == 1
    assert not [e for e in world.events if e.type == "condition.stalled"]
    assert world.run() is Status.DELETED


# --------------------------------------------------------------------------------------------------- steps at once
MANY = [sweep_step(f"s{n}.t") for n in range(20)]


def in_flight(world):
    return [
        s
        for s in world.steps.values()
        if s.kind is StepKind.SWEEP and s.state in (StepState.DISPATCHED, StepState.RUNNING)
    ]


def at_once(world, steps):
    """How many of these steps workers can do at the same time: one of each cast."""
    cast = {step_id: number for number, ids in enumerate(world.casts) for step_id in ids}
    return len({cast[step.id] for step in steps})


@pytest.mark.parametrize("most", [1, 3, 8, 50])
def test_no_more_sweeps_of_one_deletion_are_out_at_once_than_the_operator_allows(most):
    world = World(deletion(), *MANY, rules=Rules(steps_at_once=most))
    seen = set()
    for _ in range(400):
        world.run(limit=1)
        world.settle_engine()
        seen.add(at_once(world, in_flight(world)))
        if world.deletion.status not in LIVE:
            break
    assert world.deletion.status is Status.DELETED
    assert max(seen) == min(most, len(MANY))


def test_those_that_have_not_run_go_before_those_that_did():
    world = World(deletion(), *MANY, rules=Rules(steps_at_once=2))
    world.answers = {
        step.id: lambda _: left("r1") if world.deletion.purpose is RoundPurpose.INVENTORY else QUEUED for step in MANY
    }
    world.run(until=Status.DELETING)
    world.dispatched.clear()
    world.run(limit=60)
    swept = [s for s in world.dispatched if s.endswith(".t")]
    assert collections.Counter(swept[:20]) == dict.fromkeys([s.id for s in MANY], 1)
    for end in range(20, len(swept)):  # no type is ahead of another by more than what is out at once
        counts = collections.Counter(swept[:end]).values()
        assert max(counts) - min(counts) <= 2


def test_sweeps_of_failed_workers_free_their_places_for_others():
    world = World(deletion(), *MANY, rules=Rules(steps_at_once=2)).finds(MANY[0].id)
    world.run(until=Status.DELETING)
    world.settle_engine()
    for step in in_flight(world):
        world.claim(step.id)  # and nothing is ever heard of them
    world.answers = {}
    assert world.run() is Status.DELETED


@st.composite
def projects(draw):
    """A few types with an order among them, and what becomes of each sweep before it is clear."""
    count = draw(st.integers(1, 12))
    steps = []
    for n in range(count):
        after = draw(st.lists(st.integers(0, n - 1), max_size=2)) if n else []
        project_setting = draw(st.integers(0, 9)) == 0
        steps.append(
            sweep_step(f"s{n}.t", after=tuple(f"s{m}.t" for m in sorted(set(after))), project_setting=project_setting)
        )
    results = st.sampled_from([UNKNOWN, QUEUED, left("a", reason=Reason.IN_USE), "died", "lost"])
    troubles = {step.id: draw(st.lists(results, max_size=4)) for step in steps}
    return steps, troubles


@settings(max_examples=80, deadline=None)
@given(projects(), st.integers(1, 4), st.sampled_from(Mode), st.randoms(use_true_random=False))
def test_every_sweep_is_dispatched_in_order_for_every_sequence_of_failures(project, most, mode, chance):
    steps, troubles = project
    world = World(deletion(mode=mode), *steps, rules=Rules(steps_at_once=most))
    left_over = {name: list(some) for name, some in troubles.items()}
    for _ in range(3000):
        world.settle_engine()
        assert at_once(world, [s for s in in_flight(world) if live(s, world)]) <= most
        if world.deletion.status not in LIVE:
            break
        ready = [s for s in world.steps.values() if s.state is StepState.DISPATCHED]
        if not ready:
            world.now = max(world.deletion.wake_at, world.now + datetime.timedelta(milliseconds=1))
            continue
        step = chance.choice(ready)
        if step.kind is StepKind.SWEEP and world.deletion.purpose is RoundPurpose.DELETE:
            for name in step.after:  # the order holds
                assert dependencies.confirmed_gone(world.steps[name], world.deletion.round) or (
                    world.steps[name].project_setting
                )
        trouble = left_over[step.id].pop() if left_over.get(step.id) else None
        if trouble == "lost":  # the cast went astray
            world.now += world.rules.claim_timeout
            continue
        world.claim(step.id)
        if trouble == "died":
            world.now = world.step(step.id).lease_until
            continue
        looking = world.deletion.purpose is RoundPurpose.INVENTORY
        world.finish(step.id, CLEAR if trouble is None or (looking and trouble is QUEUED) else trouble)
        world.now += datetime.timedelta(milliseconds=100)
    if mode is Mode.CASCADE:
        assert world.deletion.status is Status.DELETED
    assert world.deletion.status not in LIVE


def live(step, world):
    until = step.dispatched_at + world.rules.claim_timeout if step.state is StepState.DISPATCHED else step.lease_until
    return until > world.now


# ------------------------------------------------------------------------------------------- big and small together
SLICE, THREADS = 60.0, 8
SMALL = 30  #: small projects beside a big one


class Big(World):
    """A project of 50,000 ports that go at twenty a second, in slices or all in one sweep."""

    def __init__(self, name, count, slices, types_=1):
        steps = [sweep_step(f"s{n}.t") for n in range(types_)]
        super().__init__(deletion(project_id=name), *steps)
        self.name, self.todo, self.slices = name, {s.id: count for s in steps}, slices
        self.ended = None

    def work(self, step_id):
        """Do a step; return its result, and the seconds that it takes."""
        if step_id not in self.todo:
            return CLEAR, 0.5
        there = self.todo[step_id]
        if self.deletion.purpose is not RoundPurpose.DELETE:
            return (left("x") if there else CLEAR), 1.0
        part = min(there, int(SLICE * 20)) if self.slices else there
        self.todo[step_id] -= part
        gone = tuple((str(n), "") for n in range(min(part, 1)))
        if self.todo[step_id]:
            return dataclasses.replace(QUEUED, deleted=gone), part / 20
        return dataclasses.replace(CLEAR, deleted=gone), part / 20


def play(worlds, limit=30 * 3600.0):
    """Run engines and eight worker threads that take casts in order; return when each deletion ended, in seconds."""
    start = worlds[0].now
    queue = collections.deque()
    busy = []  # (until, world, step id, result, the steps that the same thread does next)

    def cast(world):
        before = len(world.casts)
        world.settle_engine()
        queue.extend((world, step_ids) for step_ids in world.casts[before:])
        if world.deletion.status not in LIVE and world.ended is None:
            world.ended = (world.now - start).total_seconds()

    for world in worlds:
        cast(world)
    now = start
    while any(world.ended is None for world in worlds) and (now - start).total_seconds() < limit:
        while queue and len(busy) < THREADS:
            world, (step_id, *more) = queue.popleft()
            if world.steps[step_id].state is not StepState.DISPATCHED:  # cast twice
                if more:
                    queue.appendleft((world, more))
                continue
            world.now = now
            world.claim(step_id)
            result, seconds = world.work(step_id)
            until = now + datetime.timedelta(seconds=seconds)
            lease = until + datetime.timedelta(seconds=60)  # renewed
            world.steps[step_id] = dataclasses.replace(world.steps[step_id], lease_until=lease)
            busy.append((until, world, step_id, result, more))
        wakes = [world.deletion.wake_at for world in worlds if world.ended is None]
        soon = [until for until, *_ in busy]
        now = max(now, min([*soon, *wakes]))
        for done in sorted((b for b in busy if b[0] <= now), key=lambda b: b[0]):
            busy.remove(done)
            _, world, step_id, result, more = done
            world.now = now
            world.finish(step_id, result)
            if more:
                queue.appendleft((world, more))
            else:
                cast(world)
        for world in worlds:
            if world.ended is None and world.deletion.wake_at <= now:
                world.now = now
                cast(world)
    return {world.name: world.ended for world in worlds}


def test_one_project_of_fifty_thousand_does_not_starve_small_ones():
    small = [Big(f"small-{n}", 3, True) for n in range(SMALL)]
    alone = play(small)
    small = [Big(f"small-{n}", 3, True) for n in range(SMALL)]
    # Twelve types of 50,000 each: enough to take every worker thread for most of an hour.
    together = play([Big("big", 50_000, True, types_=12), *small])
    slowest_alone, slowest = max(alone.values()), max(v for k, v in together.items() if k != "big")
    assert together["big"] >= 12 * 50_000 / 20 / THREADS
    # Each step of a small one waits behind a slice at most, and a deletion is about ten steps one after the other.
    assert slowest <= slowest_alone + 10 * SLICE


def test_without_slices_they_would_starve():
    """The simulation itself: it shows what slices are for."""
    small = [Big(f"small-{n}", 3, False) for n in range(SMALL)]
    together = play([Big("big", 50_000, False, types_=12), *small])
    assert max(v for k, v in together.items() if k != "big") > 2000


# ------------------------------------------------------------------------------------------------------ who begins
def queued(working, **values):
    queue = Queue({("other", "u"): Line(working=working)})
    return World(deletion(queue=queue, **values), PORT, rules=Rules(deletions_at_once=3))


def test_a_deletion_does_not_begin_while_enough_older_ones_are_worked_on():
    world = queued(3)
    for _ in range(20):
        world.settle_engine()
        world.now += datetime.timedelta(seconds=120)
    assert world.dispatched == []
    found = next(c for c in world.deletion.conditions if c.type == "waiting")
    assert (found.status, found.reason) == (True, "queue")
    assert not [e for e in world.events if e.type == "condition.stalled"]


def test_it_begins_when_its_turn_has_come_and_is_not_overtaken_any_more():
    world = queued(3)
    world.settle_engine()
    world.deletion = dataclasses.replace(world.deletion, queue=Queue({("other", "u"): Line(working=2)}))
    world.settle_engine()
    assert world.dispatched == ["survey"]
    world.deletion = dataclasses.replace(world.deletion, queue=Queue({("other", "u"): Line(working=100)}))
    assert world.run() is Status.DELETED
    assert not next(c for c in world.deletion.conditions if c.type == "waiting").status


def test_a_queued_deletion_can_be_cancelled():
    world = queued(3)
    world.settle_engine()
    world.user(Status.CANCELLING)
    assert world.run() is Status.CANCELLED
    assert world.writes == []
