"""The limits that all processes keep together: as tables, and as properties over whatever order they come in."""

import dataclasses
import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.core import rate_limits
from cleanup_orchestrator.core.rate_limits import HORIZON, LEASE, SLOT_TIME, Lease, Limits, RateLimit, Request
from tests.support.rate_budget import too_many

T0 = datetime.datetime(2026, 1, 1)


def after(seconds):
    return T0 + datetime.timedelta(seconds=seconds)


# ------------------------------------------------------------------------------------------------------------- turns
@pytest.mark.parametrize(
    ("at", "rate", "count", "first", "following"),
    [
        (None, 10, 1, -0.5, -0.4),  # no calls for a while: up to half a second is made up for
        (-60, 10, 1, -0.5, -0.4),  # and not more, however long it was
        (-0.2, 10, 1, -0.2, -0.1),
        (0, 10, 5, 0, 0.5),
        (3, 10, 2, 3, 3.2),  # others were faster: behind them
        (3, 0.1, 1, 3, 13),
        (3, 10, 0, None, 3),  # nothing taken, nothing changed
    ],
)
def test_permits_follow_one_another_at_the_rate(at, rate, count, first, following):
    turns, next_at = rate_limits.take(None if at is None else after(at), T0, rate, count)
    assert turns == pytest.approx([first + number / rate for number in range(count)])
    assert next_at == after(following)


class Processes:
    """Several processes on a clock of the test; each uses its turns as late as the test says."""

    def __init__(self, rate):
        self.account, self.leases, self.now = RateLimit(), {}, 0.0
        self.limits = Limits(calls=rate)
        self.uses = []

    def visit(self, name, **values):
        ask = Request(name, self.limits, wanted=1, **values)
        ask = dataclasses.replace(ask, wanted=max(1, ask.calls))
        self.account, lease, grant = rate_limits.acquire(self.account, list(self.leases.values()), ask, after(self.now))
        self.leases[name] = lease
        return grant

    def use(self, turns, late):
        self.uses += [self.now + max(0.0, begins) + late * HORIZON for begins in turns]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([0.1, 1.0, 3.0, 10.0, 50.0, 1000.0]),
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.001, 0.1, 0.7, 5.0]), st.integers(0, 60), st.floats(0, 1)),
        max_size=60,
    ),
)
def test_the_rate_is_kept_in_every_span_of_time_for_every_sequence_of_acquires(rate, visits):
    world = Processes(rate)
    for name, passed, calls, late in visits:
        world.now += passed
        world.use(world.visit(str(name), calls=calls).calls, late)
    assert too_many(sorted(world.uses), rate, 1e-3 / rate) == ""


@pytest.mark.parametrize(
    ("times", "rate", "found"),
    [
        ([0.0, 0.0], 1, False),  # one a second, and what one second allows beyond
        ([0.0, 0.0, 0.0], 1, True),
        ([0.0, 0.5, 1.1], 1, False),
        ([0.0, 50.0, 50.1, 50.2, 90.0], 1, True),
        ([n / 10 for n in range(100)], 10, False),
        ([n / 10 for n in range(100)], 8, True),
        ([], 1, False),
    ],
)
def test_the_check_of_the_rate_finds_one_call_too_many(times, rate, found):
    assert bool(too_many(times, rate, 0.0)) is found


def test_without_a_limit_no_permits_are_counted():
    grant = Processes(0).visit("a", calls=5)
    assert (grant.calls, grant.deletes, grant.slots) == (None, None, None)


def test_deletes_have_separate_permits():
    ask = Request("a", Limits(calls=100, deletes=2), calls=5, deletes=5, wanted=5)
    _, _, grant = rate_limits.acquire(RateLimit(), [], ask, T0)
    assert (len(grant.calls), len(grant.deletes)) == (5, 1)


def test_a_process_that_asks_for_little_gets_it_soon_while_others_take_all_they_can():
    world = Processes(50)
    world.now = 10.0
    waits = []
    for _ in range(20):  # each time, behind twenty that want everything
        for name in range(20):
            world.visit(f"greedy-{name}", calls=1000)
        waits.append(world.visit("modest", calls=1).calls[0])
        world.now += waits[-1]
    assert max(waits[1:]) <= 2 * HORIZON
    assert waits[0] <= 4 * HORIZON  # the first ones did not know yet how many would come


def test_while_a_service_is_paused_no_process_gets_a_permit():
    world = Processes(50)
    world.account = RateLimit(paused_until=after(3))
    grant = world.visit("a", calls=5)
    assert (grant.calls, grant.paused) == ((), 3.0)
    world.now = 3.0
    assert len(world.visit("a", calls=5).calls) == 5


# ------------------------------------------------------------------------------------------------------------- slots
@pytest.mark.parametrize(
    ("limit", "wanted", "given_"),
    [
        (16, [4], [4]),
        (16, [40], [16]),
        (16, [40, 40], [8, 8]),
        (16, [40, 2], [14, 2]),
        (16, [2, 6, 40], [2, 6, 8]),
        (5, [9, 9], [2, 3]),
        (3, [9, 9, 9], [1, 1, 1]),
        (2, [9, 9, 9], [1, 1, 0]),
        (2, [], []),
    ],
)
def test_slots_are_divided_so_that_small_requests_are_met_and_the_rest_is_even(limit, wanted, given_):
    assert rate_limits.shares(limit, wanted) == given_


@given(st.integers(1, 40), st.lists(st.integers(1, 60), max_size=30))
def test_no_process_gets_more_than_it_wants_nor_all_more_than_there_is(limit, wanted):
    got = rate_limits.shares(limit, wanted)
    assert sum(got) <= limit
    assert all(share <= want for share, want in zip(got, wanted, strict=True))
    if sum(wanted) >= limit:
        assert sum(got) == limit
    else:
        assert got == wanted


class Fleet:
    """Processes that lease slots, make calls in them, and die."""

    def __init__(self, limit, names):
        self.limits, self.now = Limits(at_once=limit), 0.0
        self.account, self.leases = RateLimit(), {}
        self.slots = dict.fromkeys(names, 0)
        self.calls = dict.fromkeys(names, 0)
        self.visited = dict.fromkeys(names, 0.0)

    def visit(self, name, wanted):
        ask = Request(name, self.limits, calls=wanted, in_use=self.calls[name], wanted=max(wanted, self.calls[name]))
        self.account, lease, grant = rate_limits.acquire(self.account, list(self.leases.values()), ask, after(self.now))
        self.leases = {n: one for n, one in self.leases.items() if one.until > after(self.now) and n != name}
        if lease is not None:
            self.leases[name] = lease
        self.slots[name], self.visited[name] = grant.slots, self.now

    def call(self, name):
        if self.calls[name] < self.slots[name] and self.now < self.visited[name] + LEASE:
            self.calls[name] += 1

    def sleep(self, seconds):
        while seconds > 0:
            step = min(seconds, LEASE / 5)
            self.now += step
            seconds -= step
            for name, calls in self.calls.items():
                if calls:  # a process with calls under way renews its entry
                    self.visit(name, calls)

    def die(self, name):
        self.calls[name] = self.slots[name] = 0


ACTIONS = st.one_of(
    st.tuples(st.just("visit"), st.sampled_from("abcd"), st.integers(0, 12)),
    st.tuples(st.just("call"), st.sampled_from("abcd")),
    st.tuples(st.just("end"), st.sampled_from("abcd")),
    st.tuples(st.just("die"), st.sampled_from("abcd")),
    st.tuples(st.just("sleep"), st.sampled_from([0.1, 1.0, SLOT_TIME, LEASE])),
)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 6), st.lists(ACTIONS, max_size=80))
def test_the_limit_of_concurrent_calls_is_kept_when_processes_start_and_fail(limit, story):
    fleet = Fleet(limit, "abcd")
    for what, *how in story:
        match what:
            case "end":
                fleet.calls[how[0]] = max(0, fleet.calls[how[0]] - 1)
            case _:
                getattr(fleet, what)(*how)
        assert sum(fleet.calls.values()) <= limit
    for name in "abcd":  # the dead, too: their slots come back by themselves
        fleet.die(name)
    fleet.now += LEASE
    fleet.visit("a", limit)
    assert fleet.slots["a"] == limit


@pytest.mark.parametrize(("limit", "processes"), [(16, 3), (4, 4), (2, 7), (1, 10)])
def test_with_few_slots_every_process_gets_one_in_time(limit, processes):
    fleet = Fleet(limit, [str(n) for n in range(processes)])
    had = dict.fromkeys(fleet.slots, 0)
    while fleet.now < 10 * SLOT_TIME * (processes / limit + 1):
        for name in fleet.slots:
            fleet.calls[name] = 0  # its calls are over, and more are waiting
            fleet.visit(name, 8)
            for _ in range(8):
                fleet.call(name)
            had[name] += fleet.calls[name]
        fleet.now += HORIZON
    assert min(had.values()) > 0
    assert min(had.values()) * 3 >= max(had.values())


def test_the_slots_of_a_failed_process_are_free_at_the_end_of_its_lease_and_not_before():
    fleet = Fleet(4, "ab")
    fleet.visit("a", 4)
    fleet.die("a")
    fleet.now = LEASE - 0.1
    fleet.visit("b", 4)
    assert fleet.slots["b"] == 0
    fleet.now = LEASE
    fleet.visit("b", 4)
    assert fleet.slots["b"] == 4


def test_a_process_that_wants_no_slots_keeps_no_lease():
    fleet = Fleet(4, "a")
    fleet.visit("a", 4)
    fleet.visit("a", 0)
    assert fleet.leases == {}


def test_a_call_that_outlived_its_share_is_still_counted():
    old = Lease("a", 4, 4, after(-SLOT_TIME), after(LEASE))
    other = Lease("b", 0, 4, after(-1), after(LEASE))
    _, lease, grant = rate_limits.acquire(
        RateLimit(), [old, other], Request("a", Limits(at_once=4), in_use=4, wanted=4), T0
    )
    assert (grant.slots, lease.slots) == (2, 4)


# ------------------------------------------------------------------------------------------------------- Retry-After
@pytest.mark.parametrize(
    ("text", "date", "seconds"),
    [
        ("5", None, 5.0),
        (" 0 ", None, 0.0),
        ("99999999999999999999", None, 9999999999.0),
        ("Thu, 01 Jan 2026 00:01:00 GMT", None, 60.0),
        ("Thursday, 01-Jan-26 00:01:00 GMT", None, 60.0),
        ("Wed, 31 Dec 2025 23:00:00 GMT", None, 0.0),
        ("Thu, 01 Jan 2026 10:00:30 GMT", "Thu, 01 Jan 2026 10:00:00 GMT", 30.0),  # its clock is not ours
        (None, None, None),
        ("", None, None),
        ("soon", None, None),
        ("-5", None, None),
        ("1.5", None, None),
        ("٥", None, None),
        ("Thu, 99 Jan 2026 00:01:00 GMT", None, None),
        ("5", "nonsense", 5.0),
    ],
)
def test_both_forms_of_retry_after_are_read_and_garbage_is_not(text, date, seconds):
    assert rate_limits.retry_after(text, date, T0.replace(tzinfo=datetime.UTC)) == seconds
