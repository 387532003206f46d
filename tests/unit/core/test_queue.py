"""The places for work go round by domain and requester, and who only waits has none."""

import collections
import dataclasses
import datetime
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.core.queue import Line, Queue, QueueState, turns
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Outcome, StepKind, StepResult, StepState
from tests.support.examples import examples
from tests.unit.world import T0, UNKNOWN, World, deletion, left, sweep_step

SECOND = datetime.timedelta(seconds=1)
PORT = sweep_step("network.port")


def line(waiting=0, working=0, oldest=0, turn=None):
    """Return a line; times are seconds."""
    turn_at = datetime.datetime.min if turn is None else T0 + turn * SECOND
    return Line(waiting, working, T0 + oldest * SECOND, turn_at)


@pytest.mark.parametrize(
    ("lines", "places", "expected"),
    [
        ({}, 3, ""),
        ({"Aa": line(5)}, 3, "Aa Aa Aa"),
        ({"Aa": line(2)}, 9, "Aa Aa"),
        ({"Aa": line(5, working=2)}, 3, "Aa"),
        ({"Aa": line(5, working=3)}, 3, ""),
        ({"Aa": line(5, working=4)}, 3, ""),
        # by domain, those that have had no turn first, the oldest of them first
        ({"Aa": line(9), "Ba": line(9, oldest=1)}, 3, "Aa Ba Aa"),
        ({"Aa": line(9, turn=2), "Ba": line(9, oldest=9, turn=1)}, 3, "Ba Aa Ba"),
        ({"Aa": line(9, turn=2), "Ba": line(9, oldest=9)}, 3, "Ba Aa Ba"),
        # the fewest places come before the turns
        ({"Aa": line(9, working=2, turn=1), "Ba": line(9, turn=2)}, 6, "Ba Ba Aa Ba"),
        # by requester within a domain; a requester more gives the domain no place more
        ({"Aa": line(9), "Ab": line(9), "Ac": line(9), "Ba": line(9)}, 6, "Aa Ba Ab Ba Ac Ba"),
        ({"Aa": line(9, working=1), "Ab": line(9)}, 3, "Ab Aa"),
        ({"Aa": line(9, turn=3), "Ab": line(9, turn=2)}, 2, "Ab Aa"),
        # the turn and the places of a requester who waits for nothing count for the domain
        ({"Aa": line(9), "Ab": line(turn=5), "Ba": line(9, turn=4)}, 2, "Ba Aa"),
        ({"Aa": line(9), "Ab": line(working=1), "Ba": line(9, turn=4)}, 2, "Ba"),
    ],
)
def test_whose_turn_it_is(lines, places, expected):
    given = turns({(key[0], key[1]): each for key, each in lines.items()}, places)
    assert " ".join(domain + user for domain, user in given) == expected


class Site:
    """Deletions that come, wait for a place, and work for a while, on a clock that the test moves."""

    def __init__(self, places):
        self.places, self.clock = places, itertools.count(1)
        self.waiting, self.working, self.turns = [], {}, {}
        self.started = []  #: (domain, user, number), in order

    def lines(self):
        found = collections.defaultdict(Line)
        for domain, user, number in self.waiting:
            old = found[domain, user]
            at = min(old.oldest, T0 + number * SECOND)
            found[domain, user] = dataclasses.replace(old, waiting=old.waiting + 1, oldest=at)
        for domain, user, _number in self.working:
            old = found[domain, user]
            found[domain, user] = dataclasses.replace(old, working=old.working + 1)
        for key, at in self.turns.items():
            found[key] = dataclasses.replace(found[key], turn_at=T0 + at * SECOND)
        return dict(found)

    def request(self, domain, user, takes):
        number = next(self.clock)
        self.waiting.append((domain, user, number))
        self.takes = {**getattr(self, "takes", {}), (domain, user, number): takes}
        return domain, user, number

    def fill(self):
        """Have every deletion decided on with the same view, as by many engines; those that begin do so in order."""
        while begun := {one for one in self.waiting if self.begins(one)}:
            assert len(begun) == min(self.places - len(self.working), len(self.waiting))
            key = next(turns(self.lines(), self.places))
            one = next(each for each in self.waiting if each[:2] == key)
            assert one in begun
            self.waiting.remove(one)
            self.working[one] = self.takes[one]
            self.turns[one[0], one[1]] = next(self.clock)
            self.started.append(one)

    def begins(self, one):
        before = sum(each[:2] == one[:2] and each[2] < one[2] for each in self.waiting)
        return Queue(self.lines(), before).gives_place(one[:2], T0 + one[2] * SECOND, self.places)

    def tick(self):
        """Let time pass until the next one that works gives its place back."""
        soonest = min(self.working.values(), default=0)
        self.working = {one: left - soonest for one, left in self.working.items() if left > soonest}


requests = st.lists(
    st.tuples(st.sampled_from("ABCD"), st.sampled_from("uvw"), st.integers(1, 5), st.integers(0, 3)), max_size=30
)


@settings(max_examples=examples(20))
@given(requests, st.integers(1, 5), st.integers(1, 6), st.integers(1, 3))
def test_the_flood_of_others_delays_a_deletion_by_one_turn(wanted, places, flooding, users):
    """Property: fairness by domain, no free place while one waits, order within a requester, and nothing starves."""
    site = Site(places)
    for number in range(flooding):
        for each in range(4 * users):
            site.request(f"flood-{number}", f"user-{each % users}", 1 + each % 3)
    arrived = {}  #: of each deletion, how many had started when it was requested
    pending = collections.deque(wanted)
    for _round in range(1000):
        while pending and pending[0][3] <= _round % 4:
            domain, user, takes, _wait = pending.popleft()
            arrived[site.request(domain, user, takes)] = len(site.started)
        site.fill()
        assert len(site.working) == places or not site.waiting, "no place is free while a deletion waits"
        if not site.waiting and not pending:
            break
        site.tick()
    assert not site.waiting, "each deletion gets its turn"
    for (_domain, _user), group in itertools.groupby(sorted(site.started), lambda one: one[:2]):
        numbers = [one[2] for one in group]
        assert [one[2] for one in site.started if one[:2] == (_domain, _user)] == numbers, "the oldest first"
    for domain in {one[0] for one in arrived}:
        first = next(one for one in site.started if one[0] == domain)
        overtaken = collections.Counter(one[0] for one in site.started[arrived[first] : site.started.index(first)])
        assert all(number <= 1 for number in overtaken.values()), f"{domain} waits for one turn: {overtaken}"
    for domain, user in {one[:2] for one in arrived}:
        of_domain = [one for one in site.started if one[0] == domain]
        first = next(one for one in of_domain if one[1] == user)
        since = [one for one in site.started[arrived[first] :] if one[0] == domain]
        overtaken = collections.Counter(one[1] for one in since[: since.index(first)])
        assert all(number <= 1 for number in overtaken.values()), f"{user} waits for one turn of the domain"


def test_one_domain_that_comes_last_begins_with_the_next_free_place():
    """The issue: 40 dry runs of one domain, and one deletion of another that was never their turn."""
    site = Site(16)
    for _ in range(40):
        site.request("A", "manager", 3)
    site.fill()
    mine = site.request("B", "admin", 1)
    site.fill()
    assert len(site.started) == 16
    site.tick()
    site.fill()
    assert site.started[16] == mine


# ------------------------------------------------------------------------------------------- who has a place
def has_place(world):
    return world.deletion.queue_state is QueueState.WORKING


def busy(world):
    """Whether steps are under way that need a place: giving a project back needs none."""
    steps = (s for s in world.steps.values() if s.kind is not StepKind.RELEASE)
    return any(s.state in (StepState.DISPATCHED, StepState.RUNNING) for s in steps)


def wanting(world, places=1):
    """Give all places to another domain."""
    world.rules = dataclasses.replace(world.rules, deletions_at_once=places)
    world.deletion = dataclasses.replace(world.deletion, queue=Queue({("other", "u"): Line(working=places)}))


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_deletion_that_goes_on_has_a_place_and_one_that_has_ended_has_none(mode, dry_run):
    world = World(deletion(mode=mode, dry_run=dry_run), PORT).finds("network.port")
    world.settle_engine()
    while busy(world):
        in_line = world.deletion.status in (Status.ACCEPTED, Status.DRAINING, Status.INVENTORY, Status.DELETING)
        assert has_place(world) is in_line, world.deletion.status
        ready = next(s.id for s in world.steps.values() if s.state is StepState.DISPATCHED)
        world.claim(ready)
        world.finish(ready)
        world.settle_engine()
    world.run()
    assert world.deletion.queue_state is QueueState.OUT


def do(world, step_id):
    """Let time pass until a step is dispatched, and do it."""
    while world.step(step_id).state is not StepState.DISPATCHED:
        world.now = max(world.deletion.wake_at, world.now)
        world.settle_engine()
    world.claim(step_id)
    world.finish(step_id)
    world.settle_engine()


#: What a sweep answers again and again, and how often it is tried before the place is given back.
STUCK = {
    "no token": (StepResult(Outcome.UNKNOWN, str(Reason.NO_PROJECT_TOKEN), "disabled"), 2),
    "protected": (left("a", reason=Reason.PROTECTED), 1),
    "no answer": (UNKNOWN, 3),
    "in use": (left("a", reason=Reason.IN_USE), 3),
}


@pytest.mark.parametrize(("result", "tries"), STUCK.values(), ids=STUCK)
def test_a_deletion_that_only_waits_for_the_next_try_has_no_place(result, tries):
    world = World(deletion(), PORT).finds("network.port", lambda _: result)
    world.run(until=Status.DELETING)
    for number in range(1, tries + 1):
        do(world, "network.port")
        assert has_place(world) is (number < tries), f"after {number} tries"
    assert world.deletion.queue_state is QueueState.OUT


def test_a_deletion_that_polls_the_deletes_of_a_service_keeps_its_place():
    world = World(deletion(), PORT).finds("network.port", lambda _: left("a", reason=Reason.DELETING))
    world.run(until=Status.DELETING)
    for _ in range(10):
        do(world, "network.port")
        assert has_place(world)


def test_the_next_try_needs_a_place_again():
    """So no crowd goes on at once when a service that all of them waited for answers again."""
    world = World(deletion(), PORT).finds("network.port", lambda _: UNKNOWN)
    world.run(until=Status.DELETING)
    for _ in range(3):
        do(world, "network.port")
    wanting(world)
    tried = world.dispatched.count("network.port")
    for _ in range(5):
        world.now = max(world.deletion.wake_at, world.now + 60 * SECOND)
        world.settle_engine()
        assert world.deletion.queue_state is QueueState.WAITING
    assert world.dispatched.count("network.port") == tried
    assert world.deletion.condition(ConditionType.STALLED) is None, "it waits for its turn"
    world.deletion = dataclasses.replace(world.deletion, queue=Queue())
    world.answers = {}
    world.settle_engine()
    assert has_place(world)
    assert world.run() is Status.DELETED


def test_a_deletion_that_waits_for_an_approval_has_no_place():
    world = World(deletion(cascades_before=9), PORT, rules=Rules(approval_deletions=1))
    world.run(limit=20)
    assert world.deletion.condition(ConditionType.APPROVAL)
    assert world.deletion.queue_state is QueueState.OUT


def test_a_deletion_on_hold_has_no_place_and_waits_for_one_when_the_hold_ends():
    world = World(deletion(), PORT)
    world.run(until=Status.DRAINING)
    world.deletion = dataclasses.replace(world.deletion, brake=Brake(True, "fire", T0))
    world.run(limit=20)
    assert world.deletion.queue_state is QueueState.OUT
    wanting(world)
    world.deletion = dataclasses.replace(world.deletion, brake=None)
    world.settle_engine()
    assert world.deletion.queue_state is QueueState.WAITING
    assert not busy(world)


def test_a_parent_that_waits_for_its_children_has_no_place():
    world = World(deletion(include_subtree=True), PORT)
    below = StepResult(Outcome.CLEAR, str(Reason.PROJECT_HAS_CHILDREN), "it has child projects: c")
    world.answers["survey"] = lambda _: below
    world.settle_engine()
    do(world, "survey")
    assert world.deletion.queue_state is QueueState.OUT


def test_the_lock_is_undone_without_a_place():
    """The lock of a project is undone at once, also while other deletions wait for a place."""
    world = World(deletion(mode=Mode.REPORT), PORT)
    world.answers["network.port"] = lambda _: left("a")
    world.run(until=Status.INVENTORY)
    world.deletion = dataclasses.replace(world.deletion, has_changes=True)
    while (
        world.deletion.purpose is not RoundPurpose.INVENTORY or world.step("network.port").state is not StepState.DONE
    ):
        world.run(limit=1)
    world.deletion = dataclasses.replace(world.deletion, queue_state=QueueState.OUT)
    wanting(world)
    assert world.run() is Status.LEFTOVERS


def test_a_cancel_needs_no_place_and_gives_it_back():
    world = World(deletion(), PORT).finds("network.port")
    world.run(until=Status.DELETING)
    assert has_place(world)
    world.user(Status.CANCELLING)
    assert has_place(world), "the engine gives it back, and announces it"
    world.engine()
    assert world.deletion.queue_state is QueueState.OUT


def test_a_retry_waits_for_a_place():
    world = World(deletion(mode=Mode.REPORT), PORT)
    world.answers["network.port"] = lambda _: left("a")
    assert world.run() is Status.LEFTOVERS
    wanting(world)
    world.user(Status.ACCEPTED)
    world.settle_engine()
    assert world.deletion.queue_state is QueueState.WAITING
    assert not busy(world)


def test_the_wait_for_the_first_place_is_no_standstill():
    world = World(deletion(), PORT)
    wanting(world)
    world.settle_engine()
    world.now += 3600 * SECOND
    world.deletion = dataclasses.replace(world.deletion, queue=Queue())
    world.settle_engine()
    assert has_place(world)
    assert world.deletion.condition(ConditionType.STALLED) is None


def test_what_is_said_of_the_queue():
    world = World(deletion(), PORT)
    wanting(world, 16)
    world.settle_engine()
    text = "16 deletions may be worked on at once ([engine] deletions_at_once), and their places go round by domain "
    text += "and requester"
    found = world.deletion.condition(ConditionType.WAITING)
    assert (found.reason, found.message) == ("queue", text)
    world.deletion = dataclasses.replace(world.deletion, queue=dataclasses.replace(world.deletion.queue, before=3))
    world.settle_engine()
    found = world.deletion.condition(ConditionType.WAITING)
    assert found.message == f"{text}: 3 earlier ones of the same requester in this domain wait, too"
