"""Waiting for a turn: in simulated processes, on virtual time, over a ledger in memory."""

import dataclasses
import itertools

import pytest
import requests
from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1 import noauth
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.cloud import rate_limit_options, rate_limiter
from cleanup_orchestrator.cloud import session as cloud_session
from cleanup_orchestrator.cloud.rate_limit_options import BadLimit
from cleanup_orchestrator.cloud.rate_limiter import RateLimiter
from cleanup_orchestrator.cloud.session import AGAIN, GuardedSession
from cleanup_orchestrator.core import rate_limits
from cleanup_orchestrator.core.rate_limits import Limits
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.errors import RateLimited, Stopped, classify
from tests.support.rate_budget import MemoryLedger, Service, Story, Wire, configuration, too_many
from tests.support.scheduler import Active, Process
from tests.support.virtual_time import virtual_time

WAY = 0.05  #: seconds that a visit to the ledger takes at most, with what is called after it


@pytest.fixture
def play():
    with virtual_time(rate_limiter, cloud_session) as made:
        yield made


@pytest.fixture
def ledger(play):
    return Wire(play, MemoryLedger(play))


def make(ledger, holder="one", **values):
    spending = RateLimiter(configuration(**values), ledger)
    spending.holder = holder
    return spending


# ----------------------------------------------------------------------------------------------------------- options
@pytest.mark.parametrize(
    ("service", "region", "expected"),
    [
        ("network", "R1", 7),
        ("network", "R2", 5),
        ("image", "R1", 3),
        ("block-storage", "R1", 9),
        ("object-store", "R1", 0),
    ],
)
def test_the_most_specific_key_applies(ledger, service, region, expected):
    values = {"default": "3", "network": "5", "network@R1": "7", "volumev3": "9", "object-store": "0"}
    assert make(ledger, calls_per_second=values).limits(service, region).calls == expected


def test_without_a_default_there_still_is_one(ledger):
    assert make(ledger, calls_at_once={"network": "2"}).limits("image", "R1").at_once == 16


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("calls_per_second", {"network": "many"}),
        ("calls_per_second", {"network": "-1"}),
        ("calls_per_second", {"network": "nan"}),
        ("deletes_per_second", {"network": "0.01"}),
        ("calls_at_once", {"network": "1.5"}),
        ("calls_at_once", {"network@": "1"}),
        ("calls_at_once", {"@R1": "1"}),
        ("calls_at_once", {"": "1"}),
        ("calls_at_once", {"default@R1": "1"}),
        ("calls_at_once", {"identity@R1": "1"}),
    ],
)
def test_a_limit_that_cannot_be_read_is_named(ledger, name, value):
    with pytest.raises(BadLimit, match=rf"\[limits\] {name}: \(?{next(iter(value))}"):
        make(ledger, **{name: value})


def test_an_invalid_new_limit_keeps_the_old_one(ledger, monkeypatch):
    monkeypatch.setattr(rate_limiter, "_RELOAD", 0.0)
    spending = make(ledger, calls_at_once={"default": "3"})
    spending._conf.set_override("calls_at_once", {"default": "oops"}, rate_limit_options.GROUP)
    assert spending.limits("image", "R1").at_once == 3
    spending._conf.set_override("calls_at_once", {"default": "4"}, rate_limit_options.GROUP)
    assert spending.limits("image", "R1").at_once == 4


def test_keystone_has_one_rate_limit_for_all_regions(play, ledger):
    spending = make(ledger)

    def calls():
        for region in ("", "R1", "R2"):
            with spending.permit("identity", region):
                pass

    play.run(calls)
    assert set(ledger.ledger.accounts) == {("identity", "")}


# ----------------------------------------------------------------------------------------------------------- waiting
def spend(play, spending, count, threads, service="network", seconds=0.001, delete=False):
    """Make so many calls in so many threads; return the service that they went to."""
    called, todo = Service(play), [count]

    def work():
        while todo[0]:
            todo[0] -= 1
            with spending.permit(service, "R1", delete=delete):
                called.call(seconds, delete)

    play.run(*[work] * threads)
    return called


def call(spending, seconds=0.0, service="network", **values):
    """Return a function that makes one call and returns when it began."""

    def one():
        with spending.permit(service, "R1", **values):
            began = Active.simulation.now
            Active.simulation.sleep(seconds)
        return began

    return one


def test_calls_keep_the_rate_and_the_number_at_once(play, ledger):
    spending = make(ledger, calls_per_second={"default": "40"}, calls_at_once={"default": "3"})
    called = spend(play, spending, 120, 12, seconds=0.01)
    times = called.times()
    assert too_many(times, 40, ledger.slowest) == ""
    assert called.most == 3
    assert 120 / 40 - 2 * rate_limits.HORIZON <= times[-1] - times[0] <= 120 / 40 + rate_limits.HORIZON


def test_deletes_keep_a_separate_rate_and_do_not_delay_reads(play, ledger):
    spending = make(ledger, calls_per_second={"default": "0"}, deletes_per_second={"default": "10"})
    deletes, reads = Service(play), Service(play)
    todo = {True: 25, False: 200}

    def work(called, delete):
        while todo[delete]:
            todo[delete] -= 1
            with spending.permit("network", "R1", delete=delete):
                called.call(0.001, delete)

    jobs = [play.start(lambda: work(deletes, True)) for _ in range(8)]
    play.sleep(0.3)
    jobs += [play.start(lambda: work(reads, False)) for _ in range(4)]
    play.finish(*jobs)
    assert too_many(deletes.times(), 10, ledger.slowest) == ""
    assert deletes.times()[-1] > reads.times()[-1]
    assert reads.times()[-1] - reads.times()[0] < 1.0


def test_many_calls_need_few_acquires(play, ledger):
    spending = make(ledger, calls_per_second={"default": "500"}, calls_at_once={"default": "50"})
    spend(play, spending, 1000, 20)
    assert len(ledger.visits) < 1000 / 10


def test_services_do_not_wait_for_each_other(play, ledger):
    spending = make(ledger, calls_per_second={"default": "0", "network": "0.1"}, longest_wait=1.0)
    play.run(call(spending))
    stuck = play.start(call(spending))
    times = spend(play, spending, 100, 4, service="image").times()
    assert times[-1] - times[0] < 0.5
    with pytest.raises(RateLimited, match="network@R1 within 1 seconds"):
        play.finish(stuck)


def test_a_wait_is_limited_and_ends_as_rate_limited(play, ledger):
    spending = make(ledger, calls_at_once={"default": "1"}, longest_wait=1.0)
    play.start(call(spending, seconds=5.0))
    play.sleep(0.5)
    waits = play.start(call(spending))
    with pytest.raises(RateLimited) as caught:
        play.finish(waits)
    assert classify(caught.value).reason is Reason.RATE_LIMITED
    assert waits.ended - waits.began == pytest.approx(1.0, abs=2 * WAY)


def test_without_the_store_there_is_no_call(play, ledger):
    ledger.away = True
    spending = make(ledger, longest_wait=1.0, calls_per_second={"default": "0"}, calls_at_once={"default": "0"})
    with pytest.raises(RateLimited, match="no route to the database"):
        play.run(call(spending))


def test_calls_go_on_when_the_store_is_back(play, ledger):
    ledger.away = True
    spending = make(ledger, longest_wait=10.0)

    def back():
        play.simulation.sleep(0.7)
        ledger.away = False

    play.start(back)
    times = spend(play, spending, 20, 4).times()
    assert len(times) == 20
    assert 0.7 < times[0] < 0.7 + 2 * rate_limiter._ASK_AGAIN + 2 * WAY


def test_a_wait_ends_when_the_call_is_not_wanted_any_more(play, ledger):
    spending = make(ledger, calls_at_once={"default": "1"})
    cancelled = []

    def still():
        if cancelled:
            raise Stopped("cancelled")

    holds = play.start(call(spending, seconds=30.0))
    play.sleep(0.5)
    waits = play.start(call(spending, check_wanted=still))
    play.sleep(7.0)
    cancelled.append(True)
    with pytest.raises(Stopped):
        play.finish(waits)
    # It asks every five seconds.
    assert waits.ended - waits.began == pytest.approx(2 * rate_limiter._CHECK, abs=0.5)
    play.finish(holds)
    (began,) = play.run(call(spending))  # the cancelled call has left nothing behind
    assert began == pytest.approx(holds.ended, abs=2 * WAY)


def test_a_cancelled_call_that_is_not_the_next_one_leaves_the_others_waiting(play, ledger):
    spending = make(ledger, calls_at_once={"default": "1"})

    def still():
        raise Stopped("cancelled")

    holds = play.start(call(spending, seconds=20.0))
    play.sleep(0.5)
    first = play.start(call(spending, seconds=1.0))
    play.sleep(0.1)
    second = play.start(call(spending, check_wanted=still))
    play.sleep(0.1)
    third = play.start(call(spending))
    with pytest.raises(Stopped):
        play.finish(second)
    assert not holds.over
    began, last = play.finish(first, third)
    assert began == pytest.approx(holds.ended, abs=2 * WAY)
    assert last == pytest.approx(first.ended, abs=2 * WAY)


@pytest.mark.parametrize("still", [None, lambda: None])
def test_a_long_wait_costs_no_processor_time(play, ledger, monkeypatch, still):
    spending = make(ledger, calls_at_once={"default": "1"})
    play.start(call(spending, seconds=50.0))
    play.sleep(0.5)
    goes, tried = rate_limiter._RateLimit._goes, []
    monkeypatch.setattr(rate_limiter._RateLimit, "_goes", lambda *args: tried.append(1) or goes(*args))
    play.run(call(spending, check_wanted=still))
    assert len(tried) < 50 * 10  # at most each half second a visit, with the looks before and after it


def test_a_slot_that_is_free_again_is_used_at_once_and_in_the_order_of_the_calls(play, ledger):
    free = {name: {"default": "0"} for name in ("calls_per_second", "deletes_per_second")}
    spending = make(ledger, calls_at_once={"default": "1"}, **free)
    jobs = []
    for number in range(5):
        jobs.append(play.start(call(spending, seconds=0.2, delete=number % 2 == 1)))
        play.sleep(0.05)
    times = play.finish(*jobs)
    # Not later than the visit that one of them begins meanwhile.
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(0.2 - 1e-9 <= gap <= 0.2 + 2 * WAY for gap in gaps), gaps


def test_a_permit_that_is_not_used_within_the_horizon_is_lost(play, ledger):
    turns = rate_limiter._Permits()
    turns.add((-0.2, -0.1, 0.0, 0.1), 100.0)  # at 100.0, 100.0, 100.0 and 100.1
    assert turns.ready(100.0)
    turns.use()
    assert turns.ready(100.0 + rate_limits.HORIZON - 0.01)
    turns.use()
    assert turns.ready(100.1 + rate_limits.HORIZON - 0.01)  # the last one
    turns.use()
    assert not turns.ready(100.1 + rate_limits.HORIZON - 0.01)


def test_a_permit_is_not_used_before_its_time():
    turns = rate_limiter._Permits()
    turns.add((0.3,), 100.0)
    assert not turns.ready(100.29)
    assert turns.ready(100.31)
    assert not turns.ready(100.3 + rate_limits.HORIZON)


def test_unused_slots_are_released(play, ledger):
    spending = make(ledger)
    spend(play, spending, 10, 5, seconds=0.05)
    assert ledger.ledger.held() > 0
    play.sleep(3 * rate_limiter._RENEW)
    assert ledger.ledger.held() == 0
    assert spending._keeper is None
    spend(play, spending, 10, 5)
    assert ledger.ledger.held() > 0
    play.run(spending.close)
    assert ledger.ledger.held() == 0


def test_a_process_keeps_its_slots_during_a_call_that_is_longer_than_a_lease(play, ledger):
    values = {"calls_at_once": {"default": "2"}, "longest_wait": 100.0}
    one, two = make(ledger, "one", **values), make(ledger, "two", **values)
    long = [play.start(call(one, seconds=3 * rate_limits.LEASE)) for _ in range(2)]
    play.sleep(1.0)
    (began,) = play.run(call(two))
    play.finish(*long)
    assert began >= min(job.ended for job in long)


@pytest.mark.parametrize(("rate", "at_once"), [(60, 4), (0, 4), (60, 0), (20, 1)])
def test_two_processes_get_the_same_when_both_want_all(play, ledger, rate, at_once):
    values = {"calls_per_second": {"default": str(rate)}, "calls_at_once": {"default": str(at_once)}}
    one, two = make(ledger, "one", **values), make(ledger, "two", **values)
    counts, end = {one: 0, two: 0}, play.now + 30.0

    def work(spending):
        while play.now < end:
            with spending.permit("network", "R1"):
                counts[spending] += 1
                play.simulation.sleep(0.05)

    play.run(*[lambda: work(one)] * 12, *[lambda: work(two)] * 4)
    few, many = sorted(counts.values())
    # Without a limit at once, each thread is as fast as another: three quarters are of the first process.
    assert few * (1.5 if at_once else 4) >= many


def keep_busy(play, spending, process, end):
    """Make calls in eight threads until a time; return when each began."""
    began = []

    def work():
        while play.now < end:
            with spending.permit("network", "R1"):
                began.append(play.now)
                play.simulation.sleep(0.05)

    for _ in range(8):
        play.start(work, process)
    return began


def test_a_process_gets_nearly_the_whole_rate_while_others_make_few_calls(play, ledger):
    began = keep_busy(play, make(ledger, "busy"), Process("busy"), 20.0)
    waits = []

    def call_now_and_then(spending):
        while play.now < 20.0:
            asked = play.now
            with spending.permit("network", "R1"):
                waits.append(play.now - asked)
            play.simulation.sleep(3.0)

    for number in range(3):
        one = make(ledger, f"idle {number}")
        play.start(lambda one=one: call_now_and_then(one), Process(f"idle {number}"))
    play.sleep(21.0)
    assert len(began) > 0.9 * 20 * 50
    assert max(waits) < 2 * rate_limits.HORIZON


def test_the_rate_of_a_process_that_died_is_not_lost_until_its_lease_is_over(play, ledger):
    victim = Process("victim")
    keep_busy(play, make(ledger, "victim"), victim, 60.0)
    play.sleep(5.0)
    play.simulation.kill(victim)
    died = play.now
    began = keep_busy(play, make(ledger, "heir"), Process("heir"), died + 5.0)
    play.sleep(6.0)
    assert min(began) < died + 2 * rate_limits.HORIZON
    assert len([at for at in began if died + 1.0 <= at < died + 3.0]) > 0.8 * 2 * 50


# -------------------------------------------------------------------------------------------- any schedule, any trouble
def story(seed, breaks=lambda _: None):
    """Run a story, after ``breaks`` has broken something; return what must not happen and did."""
    with pytest.MonkeyPatch.context() as patch, virtual_time(rate_limiter, seed=seed) as play:
        breaks(patch)
        return Story(play, MemoryLedger(play), seed).run()


@pytest.mark.parametrize("seed", range(32))
def test_processes_keep_the_limits_despite_crashes_and_pauses(seed):
    """The rate, the slots and the pauses, and all calls come to an end; see ``Story`` for what happens."""
    assert story(seed) == ""


def _ledger_with(ask=lambda ask: ask, account=lambda account: account, leases=lambda leases, ask: leases):
    visit = rate_limits.acquire
    return lambda a, l, k, now: visit(account(a), leases(l, k), ask(k), now)  # noqa: E741


def _one_slot_too_many(patch):
    slots = rate_limits._slots
    patch.setattr(rate_limits, "_slots", lambda ask, *others: slots(ask, *others) + bool(ask.wanted))


def _forgotten_leases(patch):
    mine = lambda leases, ask: [lease for lease in leases if lease.holder == ask.holder]  # noqa: E731
    patch.setattr(rate_limits, "acquire", _ledger_with(leases=mine))


def _calls_under_way_forgotten(patch):
    patch.setattr(rate_limits, "acquire", _ledger_with(ask=lambda ask: dataclasses.replace(ask, in_use=0)))


def _pause_not_in_the_ledger(patch):
    patch.setattr(rate_limits, "acquire", _ledger_with(account=lambda a: dataclasses.replace(a, paused_until=None)))


def _turns_given_twice(patch):
    take = rate_limits.take
    patch.setattr(rate_limits, "take", lambda at, *others: (take(at, *others)[0], at))


def _unused_turns_kept(patch):
    patch.setattr(
        rate_limiter._Permits,
        "ready",
        lambda turns, now: not turns.limited or bool(turns.times and turns.times[0] <= now),
    )


def _turns_used_early(patch):
    patch.setattr(rate_limiter._Permits, "ready", lambda turns, now: not turns.limited or bool(turns.times))


def _turns_used_twice(patch):
    patch.setattr(rate_limiter._Permits, "use", lambda turns: None)


def _deletes_not_counted(patch):
    enter = rate_limiter._RateLimit.enter
    patch.setattr(rate_limiter._RateLimit, "enter", lambda account, delete, *others: enter(account, False, *others))


def _slots_counted_free_twice(patch):
    leave = rate_limiter._RateLimit.leave

    def twice(account):
        account._in_use -= 1
        leave(account)

    patch.setattr(rate_limiter._RateLimit, "leave", twice)


def _more_calls_than_slots(patch):
    patch.setattr(
        rate_limiter._RateLimit, "_has_slot", lambda account, now: account._slots is None or account._slots > 0
    )


#: What breaks something, and the first seed whose story shows it.
BREAKAGES = {
    "one slot too many": (_one_slot_too_many, 0),
    "forgotten leases": (_forgotten_leases, 0),
    "calls under way forgotten": (_calls_under_way_forgotten, 2),
    "a lease shorter than a process relies on": (lambda patch: patch.setattr(rate_limits, "LEASE", 1.0), 0),
    "no signs of life": (lambda patch: patch.setattr(rate_limiter.RateLimiter, "start_renewing", lambda _: None), 10),
    "slots counted free twice": (_slots_counted_free_twice, 0),
    "more calls than slots": (_more_calls_than_slots, 0),
    "a pause not in the ledger": (_pause_not_in_the_ledger, 1),
    "a pause that the process itself forgets": (
        lambda patch: patch.setattr(rate_limiter._RateLimit, "pause", lambda *_: None),
        1,
    ),
    "a pause that other processes do not ask for": (lambda patch: patch.setattr(rate_limiter, "_FRESH", 1e9), 22),
    "turns given twice": (_turns_given_twice, 1),
    "unused turns kept": (_unused_turns_kept, 0),
    "turns used early": (_turns_used_early, 1),
    "turns used twice": (_turns_used_twice, 0),
    "deletes not counted": (_deletes_not_counted, 0),
    "turns for too long ahead": (lambda patch: patch.setattr(rate_limits, "HORIZON", 2.0), 1),
}


@pytest.mark.parametrize("what", BREAKAGES)
def test_what_is_broken_is_noticed(what):
    """If the story has changed, another of the first seeds shows it."""
    breaks, first = BREAKAGES[what]
    assert any(story(seed, breaks) for seed in (first, *range(32)))


# --------------------------------------------------------------------------------------------------------- on the wire
class Server(requests.adapters.BaseAdapter):
    """Answers what the test says, in order, then 200; records when it received which request. No socket is involved."""

    url = "http://service"

    def __init__(self, *answers):
        super().__init__()
        self.answers, self.seen = list(answers), []

    def send(self, request, **_):
        Active.simulation.sleep(0.005)
        self.seen.append((Active.simulation.now, request.method, request.path_url))
        status, headers = self.answers.pop(0) if self.answers else (200, {})
        response = requests.Response()
        response.status_code, response.request, response.url = status, request, request.url
        response.headers.update(headers)
        response._content = b""
        return response

    def close(self):
        pass

    def methods(self):
        return [method for _, method, _ in self.seen]

    def times(self):
        return [at for at, *_ in self.seen]


def session(server, spending=None, guard=lambda *_: None):
    http = requests.Session()
    http.mount("http://", server)
    return GuardedSession(guard, spending, auth=noauth.NoAuth(endpoint=server.url), session=http)


def adapter(server, spending, guard=lambda *_: None, service="network"):
    return Adapter(session(server, spending, guard), service_type=service, region_name="R1")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("status", [429, 498])
def test_a_call_that_was_one_too_many_is_made_again_after_the_pause(play, ledger, method, status):
    server = Server((status, {"Retry-After": "1"}))
    (answer,) = play.run(lambda: adapter(server, make(ledger)).request("/x", method))
    assert answer.status_code == 200
    assert server.methods() == [method, method]
    first, second = server.times()
    # Up to a tenth is added, so that not all come back at the same moment.
    assert 1.0 <= second - first <= 1.1 + 3 * WAY


def test_a_retry_after_as_a_date_is_kept(play, ledger):
    server = Server((429, {"Date": "Thu, 01 Jan 2026 10:00:00 GMT", "Retry-After": "Thu, 01 Jan 2026 10:00:01 GMT"}))
    play.run(lambda: adapter(server, make(ledger)).get("/x"))
    first, second = server.times()
    assert 1.0 <= second - first <= 1.1 + 3 * WAY


def test_a_write_that_may_have_been_done_is_not_made_again(play, ledger):
    server = Server((503, {"Retry-After": "1"}))
    with pytest.raises(ka_exceptions.ServiceUnavailable):
        play.run(lambda: adapter(server, make(ledger)).post("/x"))
    assert server.methods() == ["POST"]


def test_a_read_waits_for_a_service_that_says_when_it_is_back(play, ledger):
    server = Server((503, {"Retry-After": "1"}))
    play.run(lambda: adapter(server, make(ledger)).get("/x"))
    first, second = server.times()
    assert 1.0 <= second - first <= 1.1 + 3 * WAY


def test_a_service_that_always_asks_for_a_retry_gets_few_requests(play, ledger):
    server = Server(*[(429, {"Retry-After": "0"})] * 20)
    with pytest.raises(ka_exceptions.HttpError) as caught:
        play.run(lambda: adapter(server, make(ledger)).delete("/x"))
    assert classify(caught.value).reason is Reason.RATE_LIMITED
    assert len(server.seen) == len(AGAIN) + 1


def test_a_pause_longer_than_calls_wait_is_left_to_the_step(play, ledger):
    server = Server((429, {"Retry-After": "100"}))
    network = adapter(server, make(ledger, longest_wait=2.0))
    with pytest.raises(ka_exceptions.HttpError):
        play.run(lambda: network.get("/x"))
    with pytest.raises(RateLimited, match="asked for a pause"):
        play.run(lambda: network.get("/x"))
    assert play.now < 2.0  # neither of them waited
    assert len(server.seen) == 1


def test_a_pause_is_no_longer_than_the_operator_allows(play, ledger):
    server = Server((429, {"Retry-After": "86400"}))
    play.run(lambda: adapter(server, make(ledger, longest_pause=1.0)).get("/x"))
    first, second = server.times()
    assert second - first <= 1.1 + 3 * WAY


def test_a_pause_that_one_process_received_applies_to_another(play, ledger):
    server = Server((429, {"Retry-After": "2"}))
    one, two = adapter(server, make(ledger, "one")), adapter(server, make(ledger, "two"))
    told = play.start(lambda: one.get("/one"))
    play.sleep(0.2)
    assert len(server.seen) == 1
    play.finish(play.start(lambda: two.get("/two")), told)
    first, *later = server.times()
    assert server.seen[0][2] == "/one"
    assert len(later) == 2
    assert all(at >= first + 2.0 for at in later)


def test_a_process_hears_of_a_pause_within_a_second(play, ledger):
    one, two = make(ledger, "one"), make(ledger, "two", calls_per_second={"default": "0"})
    called = Service(play)

    def work():
        while play.now < 10.0:
            with two.permit("network", "R1"):
                called.call(0.01)

    job = play.start(work)
    play.sleep(3.0)
    play.run(lambda: one.pause("network", "R1", 4.0))
    told = play.now
    play.finish(job)
    heard = told + rate_limiter._FRESH + WAY
    assert [at for at in called.times() if told < at < told + 0.5]
    assert [at for at in called.times() if heard < at < told + 4.0 - WAY] == []
    assert [at for at in called.times() if at > told + 4.0]


def test_other_services_are_not_paused_with_it(play, ledger):
    spending = make(ledger)
    slow, quick = Server((429, {"Retry-After": "4"})), Server()
    told = play.start(lambda: adapter(slow, spending).get("/x"))
    play.sleep(0.1)
    assert len(slow.seen) == 1
    began = play.now
    play.run(lambda: adapter(quick, spending, service="image").get("/x"))
    assert play.now - began < 3 * WAY
    play.finish(told)


def test_a_cancel_during_the_wait_stops_the_write(play, ledger):
    server = Server()
    spending = make(ledger, calls_at_once={"default": "1"})
    cancelled = []

    def guard(*_):
        if cancelled:
            raise Stopped("cancelled")

    play.start(call(spending, seconds=1.0))
    play.sleep(0.2)
    write = play.start(lambda: adapter(server, spending, guard).delete("/x"))
    play.sleep(0.2)
    cancelled.append(True)
    with pytest.raises(Stopped):
        play.finish(write)
    assert server.seen == []


def test_a_write_that_waits_for_its_permit_does_not_count_as_under_way(play, ledger):
    spending = make(ledger, calls_at_once={"default": "1"})
    network = adapter(Server(), spending)
    play.start(call(spending, seconds=1.0))
    play.sleep(0.2)
    write = play.start(lambda: network.delete("/x"))
    play.sleep(0.2)
    assert not write.over
    assert network.session.writing == 0
    play.finish(write)
    assert (network.session.writing, network.session.calls) == (0, 1)


def test_each_call_of_a_redirect_takes_a_permit(play, ledger):
    server = Server((302, {"Location": Server.url + "/there"}))
    spending = make(ledger, calls_per_second={"default": "0.1"})
    network = adapter(server, spending)
    play.run(lambda: network.get("/here"))
    assert [path for *_, path in server.seen] == ["/here", "/there"]
    assert network.session.calls == 2
    first, second = server.times()
    assert second - first == pytest.approx(10 - rate_limits.HORIZON, abs=rate_limits.HORIZON)


def test_a_call_for_a_token_counts_for_keystone(play, ledger):
    server = Server()
    asks = session(server, make(ledger))
    play.run(lambda: asks.post(server.url + "/v3/auth/tokens", json={}, authenticated=False))
    assert set(ledger.ledger.accounts) == {("identity", "")}


def test_without_a_budget_nothing_waits(play):
    server = Server()
    play.run(lambda: session(server).get(server.url))
    assert Limits() == Limits(0, 0, 0)
    assert len(server.seen) == 1
