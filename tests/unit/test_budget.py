"""Waiting for a turn: in one process, over a ledger in memory, with real time."""

import concurrent.futures
import datetime
import http.server
import threading
import time

import pytest
from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1 import noauth
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from cleanup_orchestrator import budget, limits
from cleanup_orchestrator.budget import BadLimit, Budget
from cleanup_orchestrator.clouds import AGAIN, GuardedSession
from cleanup_orchestrator.errors import RateLimited, Stopped, classify
from cleanup_orchestrator.limits import Account, Limits
from cleanup_orchestrator.model import Reason
from tests.timing import measures_time


class Ledger:
    """Accounts in memory, with a switch to be away."""

    def __init__(self):
        self.lock, self.accounts, self.leases = threading.Lock(), {}, {}
        self.away, self.visits = False, 0

    def now(self):
        return datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=time.monotonic())

    def visit_account(self, service, region, ask):
        with self.lock:
            if self.away:
                raise OSError("no route to the database")
            self.visits += 1
            key = (service, region)
            leases = self.leases.setdefault(key, {})
            account, lease, grant = limits.visit(
                self.accounts.get(key, Account()), list(leases.values()), ask, self.now()
            )
            self.accounts[key] = account
            leases.pop(ask.holder, None)
            if lease:
                leases[ask.holder] = lease
            return grant

    def pause_account(self, service, region, seconds):
        with self.lock:
            if self.away:
                raise OSError("no route to the database")
            until = self.now() + datetime.timedelta(seconds=seconds)
            self.accounts[service, region] = Account(paused_until=until)

    def held(self):
        with self.lock:
            return sum(lease.slots for leases in self.leases.values() for lease in leases.values())


def configuration(**values):
    conf = cfg.ConfigOpts()
    for group, options in budget.OPTS.items():
        conf.register_opts(options, group)
    conf([])
    for name, value in values.items():
        conf.set_override(name, value, budget.GROUP)
    return conf


@pytest.fixture
def ledger():
    return Ledger()


def make(ledger, **values):
    return Budget(configuration(**values), ledger)


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
def test_the_most_specific_key_holds(ledger, service, region, expected):
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


def test_a_bad_limit_while_running_leaves_what_held(ledger, monkeypatch):
    monkeypatch.setattr(budget, "_RELOAD", 0.0)
    spending = make(ledger, calls_at_once={"default": "3"})
    spending._conf.set_override("calls_at_once", {"default": "oops"}, budget.GROUP)
    assert spending.limits("image", "R1").at_once == 3
    spending._conf.set_override("calls_at_once", {"default": "4"}, budget.GROUP)
    assert spending.limits("image", "R1").at_once == 4


def test_keystone_is_one_whatever_the_region(ledger):
    spending = make(ledger)
    for region in ("", "R1", "R2"):
        with spending.turn("identity", region):
            pass
    assert set(ledger.accounts) == {("identity", "")}


# ----------------------------------------------------------------------------------------------------------- waiting
def spend(spending, count, threads, service="network", seconds=0.0, delete=False):
    """Make so many calls; return when each began, and how many were under way at most."""
    begun, lock, under_way, most = [], threading.Lock(), 0, 0

    def one(_):
        nonlocal under_way, most
        with spending.turn(service, "R1", delete=delete):
            with lock:
                begun.append(time.monotonic())
                under_way += 1
                most = max(most, under_way)
            time.sleep(seconds)
            with lock:
                under_way -= 1

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, range(count)))
    return sorted(begun), most


def check_rate(times, rate):
    """In no span of time more than allowed. A turn is timed before the call: what lies between may lie closer."""
    for i, first in enumerate(times):
        for j in range(i + 1, len(times)):
            assert j - i + 1 <= rate * (times[j] - first + 2 * limits.HORIZON + 0.25) + 1


def test_calls_keep_the_rate_and_the_number_at_once(ledger):
    spending = make(ledger, calls_per_second={"default": "40"}, calls_at_once={"default": "3"})
    begun, most = spend(spending, 120, 12, seconds=0.01)
    check_rate(begun, 40)
    assert most == 3
    assert begun[-1] - begun[0] >= 120 / 40 - 2 * limits.HORIZON


@measures_time
def test_deletes_keep_their_own_rate_and_do_not_hold_up_who_reads(ledger):
    spending = make(ledger, calls_per_second={"default": "0"}, deletes_per_second={"default": "10"})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        deletes = pool.submit(spend, spending, 25, 8, delete=True)
        time.sleep(0.3)
        reads, _ = spend(spending, 200, 4)
        assert not deletes.done()
        check_rate(deletes.result()[0], 10)
    assert reads[-1] - reads[0] < 1.5


@measures_time
def test_many_calls_cost_few_visits(ledger):
    spending = make(ledger, calls_per_second={"default": "500"}, calls_at_once={"default": "50"})
    spend(spending, 1000, 20)
    assert ledger.visits < 1000 / 10


@measures_time
def test_services_do_not_wait_for_each_other(ledger):
    spending = make(ledger, calls_per_second={"default": "0", "network": "0.1"}, longest_wait=1.0)
    with spending.turn("network", "R1"):
        pass
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        stuck = pool.submit(spend, spending, 1, 1)
        begun, _ = spend(spending, 100, 4, service="image")
        assert begun[-1] - begun[0] < 1.0
        with pytest.raises(RateLimited, match="network@R1 within 1 seconds"):
            stuck.result()


def test_a_wait_is_bounded_and_says_so_as_rate_limited(ledger):
    spending = make(ledger, calls_at_once={"default": "1"}, longest_wait=1.0)
    with spending.turn("network", "R1"), pytest.raises(RateLimited) as caught, spending.turn("network", "R1"):
        pass
    assert classify(caught.value).reason is Reason.RATE_LIMITED


def test_without_the_store_there_is_no_call(ledger):
    ledger.away = True
    spending = make(ledger, longest_wait=1.0, calls_per_second={"default": "0"}, calls_at_once={"default": "0"})
    with pytest.raises(RateLimited, match="no route to the database"), spending.turn("network", "R1"):
        raise AssertionError("called")


def test_calls_go_on_when_the_store_is_back(ledger):
    ledger.away = True
    spending = make(ledger, longest_wait=10.0)
    threading.Timer(0.7, lambda: setattr(ledger, "away", False)).start()
    assert len(spend(spending, 20, 4)[0]) == 20


@measures_time
def test_a_wait_ends_when_the_call_is_not_wanted_any_more(ledger, monkeypatch):
    monkeypatch.setattr(budget, "_CHECK", 0.1)
    spending = make(ledger, calls_at_once={"default": "1"})

    def still():
        raise Stopped("cancelled")

    begun = time.monotonic()
    with spending.turn("network", "R1"), pytest.raises(Stopped), spending.turn("network", "R1", still=still):
        pass
    assert time.monotonic() - begun < 5
    with spending.turn("network", "R1"):  # and it left nothing behind
        pass


def test_what_is_held_is_given_back_when_it_is_not_used_any_more(ledger, monkeypatch):
    monkeypatch.setattr(budget, "_RENEW", 0.2)
    spending = make(ledger)
    spend(spending, 10, 5, seconds=0.05)
    assert ledger.held() > 0
    for _ in range(100):
        if not ledger.held() and spending._keeper is None:
            break
        time.sleep(0.05)
    assert ledger.held() == 0
    assert spending._keeper is None
    spend(spending, 10, 5)
    spending.close()
    assert ledger.held() == 0


@measures_time
def test_two_processes_get_the_same_when_both_want_all(ledger):
    values = {"calls_per_second": {"default": "60"}, "calls_at_once": {"default": "4"}}
    one, two = make(ledger, **values), make(ledger, **values)
    counts, stop = {one.holder: 0, two.holder: 0}, threading.Event()

    def work(spending):
        while not stop.is_set():
            with spending.turn("network", "R1"):
                counts[spending.holder] += 1  # a lost one does not matter here
                time.sleep(0.005)

    threads = [threading.Thread(target=work, args=(s,)) for s in (one,) * 12 + (two,) * 4]
    for thread in threads:
        thread.start()
    time.sleep(5)
    stop.set()
    for thread in threads:
        thread.join()
    few, many = sorted(counts.values())
    assert few * 2.5 >= many


# --------------------------------------------------------------------------------------------------------- on the wire
class Service(http.server.ThreadingHTTPServer):
    """Answers what the test says, in order, then 200; remembers when it was asked what."""

    def __init__(self, *answers):
        self.answers, self.seen, self.lock = list(answers), [], threading.Lock()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with server.lock:
                    server.seen.append((time.monotonic(), self.command, self.path))
                    status, headers = server.answers.pop(0) if server.answers else (200, {})
                self.send_response_only(status)
                for name, value in {"Content-Length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def methods(self):
        return [method for _, method, _ in self.seen]


@pytest.fixture
def serve():
    servers = []

    def make_(*answers):
        servers.append(Service(*answers))
        return servers[-1]

    yield make_
    for server in servers:
        server.shutdown()
        server.server_close()


def adapter(server, spending, guard=lambda *_: None):
    session = GuardedSession(guard, spending, auth=noauth.NoAuth(endpoint=server.url))
    return Adapter(session, service_type="network", region_name="R1")


@measures_time
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("status", [429, 498])
def test_a_call_that_was_one_too_many_is_made_again_after_the_pause(serve, ledger, method, status):
    server = serve((status, {"Retry-After": "1"}))
    assert adapter(server, make(ledger)).request("/x", method).status_code == 200
    (first, *_), (second, *_) = server.seen
    assert server.methods() == [method, method]
    assert 1.0 <= second - first < 3.0


def test_a_retry_after_as_a_date_is_kept(serve, ledger):
    server = serve((429, {"Date": "Thu, 01 Jan 2026 10:00:00 GMT", "Retry-After": "Thu, 01 Jan 2026 10:00:01 GMT"}))
    adapter(server, make(ledger)).get("/x")
    assert server.seen[1][0] - server.seen[0][0] >= 1.0


def test_a_write_that_may_have_been_done_is_not_made_again(serve, ledger):
    server = serve((503, {"Retry-After": "1"}))
    with pytest.raises(ka_exceptions.ServiceUnavailable):
        adapter(server, make(ledger)).post("/x")
    assert server.methods() == ["POST"]


def test_a_read_waits_for_a_service_that_says_when_it_is_back(serve, ledger):
    server = serve((503, {"Retry-After": "1"}))
    adapter(server, make(ledger)).get("/x")
    assert server.seen[1][0] - server.seen[0][0] >= 1.0


def test_a_service_that_never_stops_asking_is_asked_no_more_than_a_few_times(serve, ledger):
    server = serve(*[(429, {"Retry-After": "0"})] * 20)
    with pytest.raises(ka_exceptions.HttpError) as caught:
        adapter(server, make(ledger)).delete("/x")
    assert classify(caught.value).reason is Reason.RATE_LIMITED
    assert len(server.seen) == len(AGAIN) + 1


def test_a_pause_longer_than_calls_wait_is_left_to_the_step(serve, ledger):
    server = serve((429, {"Retry-After": "100"}))
    network = adapter(server, make(ledger, longest_wait=2.0))
    begun = time.monotonic()
    with pytest.raises(ka_exceptions.HttpError):
        network.get("/x")
    with pytest.raises(RateLimited, match="asked us to wait"):
        network.get("/x")
    assert time.monotonic() - begun < 10
    assert len(server.seen) == 1


def test_no_service_can_pause_us_for_longer_than_the_operator_allows(serve, ledger):
    server = serve((429, {"Retry-After": "86400"}))
    adapter(server, make(ledger, longest_pause=1.0)).get("/x")
    assert len(server.seen) == 2


def test_a_pause_that_one_process_was_told_is_kept_by_another(serve, ledger):
    server = serve((429, {"Retry-After": "2"}))
    one, two = adapter(server, make(ledger)), adapter(server, make(ledger))
    told = threading.Thread(target=one.get, args=("/one",))
    told.start()
    while not server.seen:
        time.sleep(0.01)
    time.sleep(0.2)
    two.get("/two")
    told.join()
    paths = [(path, at - server.seen[0][0]) for at, _, path in server.seen]
    assert paths[0][0] == "/one"
    assert all(at >= 1.9 for _, at in paths[1:])


@measures_time
def test_other_services_are_not_paused_with_it(serve, ledger):
    spending = make(ledger)
    slow, quick = serve((429, {"Retry-After": "4"})), serve()
    told = threading.Thread(target=adapter(slow, spending).get, args=("/x",))
    told.start()
    session = GuardedSession(lambda *_: None, spending, auth=noauth.NoAuth(endpoint=quick.url))
    begun = time.monotonic()
    Adapter(session, service_type="image", region_name="R1").get("/x")
    assert time.monotonic() - begun < 3
    told.join()


def test_a_cancel_during_the_wait_stops_the_write(serve, ledger):
    server = serve()
    spending = make(ledger, calls_at_once={"default": "1"})
    cancelled = threading.Event()

    def guard(*_):
        if cancelled.is_set():
            raise Stopped("cancelled")

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with spending.turn("network", "R1"):
            write = pool.submit(adapter(server, spending, guard).delete, "/x")
            time.sleep(0.2)
            cancelled.set()
        with pytest.raises(Stopped):
            write.result()
    assert server.seen == []


def test_while_a_write_waits_for_its_turn_it_is_not_under_way(serve, ledger):
    spending = make(ledger, calls_at_once={"default": "1"})
    network = adapter(serve(), spending)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with spending.turn("network", "R1"):
            write = pool.submit(network.delete, "/x")
            time.sleep(0.2)
            assert network.session.writing == 0
        write.result()
    assert (network.session.writing, network.session.writes, network.session.calls) == (0, 1, 1)


def test_each_call_of_a_redirect_takes_a_turn_of_its_own(serve, ledger):
    server = serve()
    server.answers.append((302, {"Location": server.url + "/there"}))
    network = adapter(server, make(ledger))
    network.get("/here")
    assert [path for *_, path in server.seen] == ["/here", "/there"]
    assert network.session.calls == 2


def test_getting_a_token_counts_for_keystone_and_holds_up_nobody_else(serve, ledger):
    server = serve()
    session = GuardedSession(lambda *_: None, make(ledger), auth=noauth.NoAuth(endpoint=server.url))
    session.post(server.url + "/v3/auth/tokens", json={}, authenticated=False)
    assert set(ledger.accounts) == {("identity", "")}


def test_without_a_budget_nothing_waits(serve):
    server = serve()
    session = GuardedSession(lambda *_: None, auth=noauth.NoAuth(endpoint=server.url))
    session.get(server.url)
    assert Limits() == Limits(0, 0, 0)
    assert len(server.seen) == 1
