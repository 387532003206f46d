"""The rules of the rate limits, one by one, on a virtual clock; threads are in ``test_budget``."""

import dataclasses
import datetime
import types

import pytest
from oslo_config import cfg

from cleanup_orchestrator.cloud import rate_limit_options, rate_limiter
from cleanup_orchestrator.cloud.rate_limiter import RateLimiter
from cleanup_orchestrator.core import rate_limits
from cleanup_orchestrator.core.rate_limits import HORIZON, LEASE, Lease, Limits, RateLimit, Request
from cleanup_orchestrator.errors import RateLimited
from tests.unit.world import T0


class Clock:
    """Time that passes only while a caller waits."""

    def __init__(self):
        self.now, self.waits = 1000.0, 0

    def monotonic(self):
        return self.now

    def wait(self, seconds):
        assert seconds > 0
        self.now += seconds
        self.waits += 1
        assert self.waits < 10_000, "it waits for ever"

    @property
    def utc(self):
        return T0 + datetime.timedelta(seconds=self.now)


class Ledger:
    """One account in memory, by the rules of ``limits``; it can be away."""

    def __init__(self, clock):
        self.clock, self.account, self.leases, self.away, self.visits = clock, RateLimit(), [], False, []

    def acquire_permits(self, service, region, ask):
        if self.away:
            raise ConnectionError("the database is away")
        self.visits.append(ask)
        self.account, mine, grant = rate_limits.acquire(self.account, self.leases, ask, self.clock.utc)
        self.leases = [lease for lease in self.leases if lease.holder != ask.holder] + ([mine] if mine else [])
        return grant

    def pause_calls(self, service, region, seconds):
        until = self.clock.utc + datetime.timedelta(seconds=seconds)
        self.account = dataclasses.replace(self.account, paused_until=until)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()

    class Waiter:
        def __init__(self, lock, number, delete):
            self.awake = types.SimpleNamespace(wait=clock.wait, notify=lambda: None)
            self.number, self.delete = number, delete

    monkeypatch.setattr(rate_limiter, "_Waiter", Waiter)
    monkeypatch.setattr(rate_limiter, "time", types.SimpleNamespace(monotonic=clock.monotonic))
    monkeypatch.setattr(RateLimiter, "start_renewing", lambda _: None)
    return clock


def made(ledger, **options):
    conf = cfg.ConfigOpts()
    conf.register_opts(rate_limit_options.OPTS[rate_limit_options.GROUP], rate_limit_options.GROUP)
    conf([])
    values = {
        "calls_per_second": {"default": "0"},
        "calls_at_once": {"default": "0"},
        "deletes_per_second": {"default": "0"},
    }
    for name, value in (values | options).items():
        conf.set_override(name, value, rate_limit_options.GROUP)
    return RateLimiter(conf, ledger)


@pytest.fixture
def ledger(clock):
    return Ledger(clock)


def account(of):
    return of._rate_limit("network", "R1")


# --------------------------------------------------------------------------------------------------------------- slots
def test_no_more_calls_are_under_way_than_may_be_at_once(clock, ledger):
    mine = account(made(ledger, calls_at_once={"default": "2"}))
    mine.enter(False, None, 10)
    mine.enter(False, None, 10)
    before = clock.now
    with pytest.raises(RateLimited):
        mine.enter(False, None, 10)
    assert 10 <= clock.now - before < 11
    mine.leave()
    mine.enter(False, None, 10)
    assert clock.now - before < 12


@pytest.mark.parametrize(
    ("slots", "in_use", "left", "has"),
    [
        (2, 1, 5.0, True),
        (2, 2, 5.0, False),
        (2, 3, 5.0, False),
        (2, 1, 0.0, False),
        (0, 0, 5.0, False),
        (None, 9, 0.0, True),
    ],
)
def test_there_is_a_slot_while_one_is_free_and_its_lease_is_not_over(clock, ledger, slots, in_use, left, has):
    mine = account(made(ledger))
    mine._slots, mine._in_use, mine._lease_until = slots, in_use, clock.now + left
    assert mine._has_slot(clock.now) is has


def test_a_lease_ends_for_its_process_before_it_ends_in_a_store_that_answered_late(clock, ledger):
    mine, acquire = account(made(ledger, calls_at_once={"default": "2"})), ledger.acquire_permits

    def late(*asked):
        grant = acquire(*asked)
        clock.now += 3
        return grant

    ledger.acquire_permits = late
    mine.enter(False, None, 10)
    [lease] = ledger.leases
    assert T0 + datetime.timedelta(seconds=mine._lease_until) < lease.until


def test_two_processes_together_keep_the_limit(clock, ledger):
    one, other = (account(made(ledger, calls_at_once={"default": "2"})) for _ in range(2))
    one.enter(False, None, 10)
    one.enter(False, None, 10)
    with pytest.raises(RateLimited):
        other.enter(False, None, 1)


# --------------------------------------------------------------------------------------------------------------- turns
def begun(clock, mine, count, delete=False):
    """Return when so many calls begin, one after the other, in seconds from now."""
    start, times = clock.now, []
    for _ in range(count):
        mine.enter(delete, None, 100)
        mine.leave()
        times.append(clock.now - start)
    return times


def test_calls_keep_the_rate(clock, ledger):
    times = begun(clock, account(made(ledger, calls_per_second={"default": "10"})), 60)
    for first, last in zip(times, times[20:], strict=False):
        assert last - first >= 20 / 10 - HORIZON - 0.11


def test_deletes_keep_a_separate_rate(clock, ledger):
    mine = account(made(ledger, deletes_per_second={"default": "5"}))
    assert begun(clock, mine, 50)[-1] < 1
    times = begun(clock, mine, 30, delete=True)
    for first, last in zip(times, times[10:], strict=False):
        assert last - first >= 10 / 5 - HORIZON - 0.21


def test_a_permit_is_used_at_its_time_and_expires():
    turns = rate_limiter._Permits()
    turns.add((1.0, 2.0), 100.0)
    assert not turns.ready(100.5)
    assert turns.ready(101.0)
    turns.use()
    assert not turns.ready(101.5)
    assert turns.ready(102.0)
    assert not turns.ready(102.0 + HORIZON)


# -------------------------------------------------------------------------------------------------------- pause, store
def test_a_pause_is_kept(clock, ledger):
    mine = account(made(ledger))
    mine.enter(False, None, 100)
    mine.pause(5)
    before = clock.now
    mine.enter(False, None, 100)
    assert clock.now - before >= 5


def test_a_pause_beyond_what_a_call_waits_is_said_at_once(clock, ledger):
    mine = account(made(ledger))
    mine.pause(50)
    before = clock.now
    with pytest.raises(RateLimited, match="asked for a pause"):
        mine.enter(False, None, 10)
    assert clock.now == before


def test_a_pause_is_limited_to_the_maximum_of_the_operator(clock, ledger):
    both = made(ledger, longest_pause=30.0)
    both.pause("network", "R1", 3600)
    assert 30 <= account(both).pause_left() <= 31
    both.pause("image", "R1", 2)
    assert 2 <= both._rate_limit("image", "R1").pause_left() <= 2.2


def test_without_the_store_there_is_no_call_and_the_wait_has_an_end(clock, ledger):
    ledger.away = True
    before = clock.now
    with pytest.raises(RateLimited, match="the database is away"):
        account(made(ledger)).enter(False, None, 20)
    assert 20 <= clock.now - before < 25


@pytest.mark.parametrize("still", [None, lambda: None], ids=["a read", "a write that is asked about"])
def test_a_call_that_waits_for_long_polls_rarely(clock, ledger, still):
    mine = account(made(ledger, calls_at_once={"default": "1"}))
    mine.enter(False, None, 60)
    with pytest.raises(RateLimited):
        mine.enter(False, still, 60)
    assert clock.waits < 60 * 20


@pytest.mark.parametrize(
    ("service", "region", "most"), [("network", "R1", 3), ("network", "R2", 2), ("image", "R1", 1), ("image", "R2", 1)]
)
def test_the_most_specific_key_applies(ledger, service, region, most):
    keys = {"default": "1", "network": "2", "network@R1": "3"}
    assert made(ledger, calls_at_once=keys).limits(service, region).at_once == most


# ------------------------------------------------------------------------------------------- what a visit brings
def seconds(n):
    return datetime.timedelta(seconds=n)


def test_an_unused_permit_can_be_used_later_only_within_the_horizon():
    turns, following = rate_limits.take(T0 - seconds(3600), T0, 10.0, 3)
    assert turns[0] == pytest.approx(-HORIZON)
    assert following == T0 - seconds(HORIZON) + seconds(0.3)
    turns, following = rate_limits.take(T0 + seconds(2), T0, 10.0, 3)
    assert (turns[0], following) == (2.0, T0 + seconds(2.3))


def lease(holder, slots, until=LEASE, wanted=8):
    return Lease(holder, slots, wanted, T0, T0 + seconds(until))


ASK = Request("me", Limits(0.0, 8, 0.0), calls=8, wanted=8)


@pytest.mark.parametrize(
    ("leases", "slots"),
    [([], 8), ([lease("other", 8)], 0), ([lease("other", 5, wanted=5)], 3), ([lease("dead", 8, until=0)], 8)],
    ids=["no other process", "another has all", "another has some", "a dead one had all"],
)
def test_slots_are_those_that_no_living_process_has(leases, slots):
    _, mine, grant = rate_limits.acquire(RateLimit(), leases, ASK, T0)
    assert (mine.slots, grant.slots) == (slots, slots)


def test_a_call_that_is_under_way_keeps_its_slot_for_every_share():
    ask = dataclasses.replace(ASK, in_use=6, wanted=8)
    _, mine, _ = rate_limits.acquire(RateLimit(), [lease("me", 6), lease("other", 2)], ask, T0)
    assert mine.slots >= 6
    _, mine, _ = rate_limits.acquire(RateLimit(), [lease("other", 8)], ask, T0)
    assert mine.slots == 6


def test_while_a_service_is_paused_there_are_no_permits():
    ask = Request("me", Limits(10.0, 0, 10.0), calls=5, deletes=5, wanted=5)
    paused = RateLimit(paused_until=T0 + seconds(4))
    after, _, grant = rate_limits.acquire(paused, [], ask, T0)
    assert (grant.paused, grant.calls, grant.deletes, after.calls_at) == (4.0, (), (), None)
    _, _, grant = rate_limits.acquire(paused, [], ask, T0 + seconds(4))
    assert (grant.paused, len(grant.calls)) == (0.0, 5)
