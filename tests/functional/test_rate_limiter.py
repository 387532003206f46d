"""The limits of several processes in a real database.

The time of the database is virtual or fixed. Only the test marked ``long`` measures how fast real processes call.
"""

import datetime
import http.server
import json
import subprocess
import sys
import threading
import time

import pytest

from cleanup_orchestrator.cloud import rate_limiter
from cleanup_orchestrator.cloud.rate_limiter import RateLimiter
from cleanup_orchestrator.core.rate_limits import HORIZON, LEASE, Limits, Request
from cleanup_orchestrator.errors import RateLimited
from cleanup_orchestrator.store import Store, tables
from tests.support.rate_budget import Story, Wire, configuration
from tests.support.scheduler import Process
from tests.support.virtual_time import T0, virtual_time

WAY = 0.05  #: virtual seconds of an acquire and its calls, at most


def rows(store, table):
    with store.database.begin() as c:
        return c.execute(table.select()).all()


# -------------------------------------------------------------------------------------- on the time of the simulation
@pytest.fixture
def play():
    """Virtual time, of the processes and of the database."""
    with virtual_time(rate_limiter) as made:
        yield made


def make(wire, holder, **values):
    spending = RateLimiter(configuration(calls_per_second={"default": "0"}, **values), wire)
    spending.holder = holder
    return spending


def calls(play, spending, count=1, seconds=0.0, process=None):
    """Start threads that make one call each; the result of each is when the call began."""

    def one():
        with spending.permit("network", "R1"):
            began = play.now
            play.simulation.sleep(seconds)
        return began

    return [play.start(one, process) for _ in range(count)]


def holders(store):
    return {lease.holder: lease.slots for lease in rows(store, tables.rate_limit_leases)}


@pytest.mark.parametrize("seed", [0, 5])
def test_processes_keep_the_limits_despite_crashes_and_pauses(store, play, seed):
    story = Story(play, store, seed)
    assert story.run() == ""
    assert len(story.wire.visits) > 50


def test_the_slots_of_a_killed_process_come_back_when_its_lease_is_over(store, play):
    wire, victim = Wire(play, store), Process("victim")
    first, second = (make(wire, holder, calls_at_once={"default": "3"}) for holder in ("first", "second"))
    calls(play, first, 3, seconds=60.0, process=victim)
    play.sleep(5.0)
    play.simulation.kill(victim)
    assert holders(store) == {"first": 3}
    lease_over = max(visit.at for visit in wire.visits) + LEASE
    began = play.finish(*calls(play, second, 3))
    # Until then the second process acquires again every half second.
    assert all(lease_over <= at <= lease_over + rate_limiter._ASK_AGAIN + WAY for at in began)
    assert set(holders(store)) == {"second"}
    assert sum(holders(store).values()) == 3


def test_a_process_that_ends_in_order_gives_its_slots_back_at_once(store, play):
    wire = Wire(play, store)
    first, second = (make(wire, holder, calls_at_once={"default": "3"}) for holder in ("first", "second"))
    play.finish(*calls(play, first, 3, seconds=0.1))
    assert holders(store) == {"first": 3}
    play.run(first.close)
    assert holders(store) == {}
    now = play.now
    # The first of them acquires one slot, before the others have started.
    assert all(began < now + 2 * WAY for began in play.finish(*calls(play, second, 3)))
    assert holders(store) == {"second": 3}


def test_a_pause_that_one_process_received_applies_to_another(store, play):
    wire = Wire(play, store)
    first, second = make(wire, "first"), make(wire, "second")
    play.finish(*calls(play, second))
    play.run(lambda: first.pause("network", "R1", 10.0))
    told = play.now
    (account,) = rows(store, tables.rate_limits)
    assert 10.0 - WAY < (account.paused_until - T0).total_seconds() - told <= 11.0
    play.sleep(rate_limiter._FRESH)
    began = play.finish(*calls(play, second, 3))
    assert all(at >= (account.paused_until - T0).total_seconds() for at in began)


def test_a_pause_is_never_made_shorter(store, play):
    store.pause_calls("network", "R1", 60)
    store.pause_calls("network", "R1", 1)
    (account,) = rows(store, tables.rate_limits)
    assert account.paused_until == T0 + datetime.timedelta(seconds=60)
    grant = store.acquire_permits("network", "R1", Request("p", Limits(calls=10), calls=1, wanted=1))
    assert (grant.paused, grant.calls) == (60, ())
    store.pause_calls("network", "R1", 61)
    (account,) = rows(store, tables.rate_limits)
    assert account.paused_until == T0 + datetime.timedelta(seconds=61)


def test_without_its_tables_nothing_is_called(empty_database_url, play):
    """A process of the new release before ``db upgrade``: no limits can be kept, so no call is made."""
    store = Store.from_url(empty_database_url)
    job, *_ = calls(play, make(Wire(play, store), "early", longest_wait=1.0))
    with pytest.raises(RateLimited, match="the store does not answer"):
        play.finish(job)
    store.close()


# ------------------------------------------------------------------------------------ each visit is one transaction
@pytest.fixture
def start(database_url):
    """Start processes; those that still run at the end are killed."""
    running = []

    def one(module, **order):
        order = {"database": database_url, **order}
        command = [sys.executable, "-m", f"tests.functional.{module}", json.dumps(order)]
        running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield one
    for process in running:
        process.kill()
        process.communicate()


def said(process, send=None):
    out, _ = process.communicate(send, timeout=600)
    return json.loads(out.splitlines()[-1])


# ---------------------------------------------------------------------------------------------------------- real time
class Service(http.server.ThreadingHTTPServer):
    """A slow service that records the time of each call and the number of concurrent calls."""

    request_queue_size = 128

    def __init__(self, seconds=0.02):
        self.seconds, self.lock, self.answers = seconds, threading.Lock(), []
        self.times, self.under_way, self.most = [], 0, 0
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # it delays each body by 40 ms

            def answer(self):
                with server.lock:
                    server.times.append(time.monotonic())
                    server.under_way += 1
                    server.most = max(server.most, server.under_way)
                    status, headers = server.answers.pop(0) if server.answers else (204, {})
                time.sleep(server.seconds)
                with server.lock:  # before the answer: the caller may call again as soon as it has it
                    server.under_way -= 1
                self.send_response(status)
                for name, value in {"Content-Length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            do_GET = do_DELETE = answer

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def busiest(self, seconds):
        """Return the number of calls in the busiest span of this length in seconds."""
        times, most, begin = sorted(self.times), 0, 0
        for end, at in enumerate(times):
            while times[begin] < at - seconds:
                begin += 1
            most = max(most, end - begin + 1)
        return most


@pytest.fixture
def service():
    server = Service()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.long
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_real_processes_keep_the_rate_and_the_number_of_calls_at_once(store, service, start, method):
    rate, slots, seconds = 40, 5, 8
    kind = "calls_per_second" if method == "GET" else "deletes_per_second"
    values = {"calls_per_second": {"default": "0"}, "deletes_per_second": {"default": "0"}}
    values |= {kind: {"default": str(rate)}, "calls_at_once": {"default": str(slots)}}
    order = {"url": service.url, "limits": values, "method": method}
    victim = start("hammer", **order, threads=4, forever=True)
    assert victim.stdout.readline() == "ready\n"
    hammers = [start("hammer", **order, threads=threads, seconds=seconds) for threads in (1, 8, 8)]
    time.sleep(1.0)
    victim.kill()
    results = [said(hammer) for hammer in hammers]
    assert [result["errors"] for result in results] == [[], [], []]
    assert min(result["calls"] for result in results) > 0
    assert service.most <= slots
    # A busy machine delays some calls between permit and service, so that up to half as many more arrive together.
    for span in (1.0, 3.0):
        assert service.busiest(span) <= (rate * (span + 2 * HORIZON) + 1) * 1.5
