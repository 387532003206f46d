"""The limits of several real processes, through a real database, as the service that they call sees it."""

import concurrent.futures
import http.server
import json
import subprocess
import sys
import threading
import time

import pytest

from cleanup_orchestrator import limits, tables
from cleanup_orchestrator.limits import HORIZON, LEASE, Ask, Limits
from cleanup_orchestrator.store import Store
from tests.functional.hammer import Hammer
from tests.timing import measures_time


class Service(http.server.ThreadingHTTPServer):
    """Takes its time, and remembers when it was asked and how many were with it at once."""

    request_queue_size = 128

    def __init__(self, seconds=0.02):
        self.seconds, self.lock, self.answers = seconds, threading.Lock(), []
        self.times, self.under_way, self.most = [], 0, 0
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

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
        """Return the number of calls in the busiest span of so many seconds."""
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


@pytest.fixture
def store(database_url):
    store = Store.from_url(database_url)
    tables.metadata.create_all(store._engine)
    yield store
    store.close()


@pytest.fixture
def start(database_url, service):
    """Start processes; what still runs at the end is killed."""
    running = []

    def one(**order):
        order = {"database": database_url, "url": service.url, **order}
        command = [sys.executable, "-m", "tests.functional.hammer", json.dumps(order)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield one
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


def said(process):
    out, _ = process.communicate(timeout=120)
    return json.loads(out.splitlines()[-1])


def each(limit):
    return {"default": str(limit)}


OPEN = {"calls_per_second": each(0), "calls_at_once": each(0), "deletes_per_second": each(0)}


@measures_time
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_processes_together_keep_the_rate(store, service, start, method):
    rate, seconds = 40, 6
    kind = "calls_per_second" if method == "GET" else "deletes_per_second"
    values = OPEN | {kind: each(rate), "calls_at_once": each(100)}
    hammers = [start(limits=values, threads=t, seconds=seconds, method=method) for t in (1, 8, 8)]
    results = [said(hammer) for hammer in hammers]
    assert [r["errors"] for r in results] == [[], [], []]
    # What a busy machine adds between a turn and the call's arrival: a fifth.
    for span in (0.5, 1.0, 3.0):
        assert service.busiest(span) <= (rate * (span + 2 * HORIZON) + 1) * 1.2
    whole = max(service.times) - min(service.times)
    assert rate * whole / 2 <= len(service.times) <= rate * (whole + 2 * HORIZON) + 1 + 0.2 * rate
    assert min(r["calls"] for r in results) >= seconds  # and nobody starves


@measures_time
def test_processes_together_keep_the_number_of_calls_at_once(store, service, start):
    values = OPEN | {"calls_at_once": each(5)}
    hammers = [start(limits=values, threads=t, seconds=5) for t in (1, 6, 6)]
    results = [said(hammer) for hammer in hammers]
    assert [r["errors"] for r in results] == [[], [], []]
    assert service.most == 5
    assert min(r["calls"] for r in results) >= 20


@measures_time
def test_more_processes_than_slots_take_turns(store, service, start):
    values = OPEN | {"calls_at_once": each(1)}
    hammers = [start(limits=values, threads=2, seconds=8) for _ in range(3)]
    results = [said(hammer) for hammer in hammers]
    assert [r["errors"] for r in results] == [[], [], []]
    assert service.most == 1
    assert min(r["calls"] for r in results) > 0


@measures_time
def test_the_slots_of_a_killed_process_come_back_by_themselves(store, service, start):
    service.seconds = 0.2
    values = OPEN | {"calls_at_once": each(3)}
    victim = start(limits=values, threads=6, forever=True)
    assert victim.stdout.readline() == "ready\n"
    time.sleep(1.0)
    victim.kill()
    victim.wait()
    killed = time.monotonic()
    while service.under_way:  # what it had sent
        time.sleep(0.05)
    service.most = 0
    hammer = Hammer(store, service.url, values)
    hammer.run(6, killed + LEASE + 3)
    hammer.budget.close()
    assert service.most == 3  # all of them, and never more
    assert killed + LEASE / 2 < max(service.times) < killed + LEASE + 5
    assert hammer.errors == []


@measures_time
def test_a_process_that_ends_in_order_keeps_nobody_waiting(store, service):
    values = OPEN | {"calls_at_once": each(3)}
    first, second = Hammer(store, service.url, values), Hammer(store, service.url, values)
    first.run(6, time.monotonic() + 1)
    first.budget.close()
    begun = time.monotonic()
    second.run(3, begun + 0.5)
    assert second.longest < LEASE / 4
    assert service.most == 3
    second.budget.close()


@measures_time
def test_what_a_service_asked_of_one_process_is_kept_by_the_others(store, service, start):
    values = OPEN | {"calls_at_once": each(4)}
    hammers = [start(limits=values, threads=2, seconds=6) for _ in range(2)]
    while len(service.times) < 40:
        time.sleep(0.02)
    with service.lock:
        service.answers.append((429, {"Retry-After": "3"}))
        asked = len(service.times)
    for hammer in hammers:
        assert said(hammer)["errors"] == []
    told = service.times[asked]
    # Within a second each process asks the store; then there is silence until the pause is over.
    assert [at - told for at in service.times if told + limits.HORIZON + 1.2 < at < told + 2.9] == []
    assert [at for at in service.times if at > told + 3.0]


def test_threads_that_visit_one_account_at_once_lose_nothing(store):
    """Each visit is one transaction: turns are never given twice, whatever the database does about it."""
    turns, lock = [], threading.Lock()
    begun = store.now()

    def visit(number):
        ask = Ask(f"p{number % 7}", Limits(calls=1000, at_once=100), calls=3, wanted=3)
        for _ in range(20):
            try:
                grant = store.visit_account("network", "R1", ask)
                break
            except Exception as error:  # a caller asks again
                assert "eadlock" in str(error)
        with lock:
            turns.append(grant.calls.count)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(visit, range(100)))
    elapsed = (store.now() - begun).total_seconds()
    with store._begin() as c:
        row = c.execute(tables.accounts.select()).one()
        leases = c.execute(tables.account_leases.select()).all()
    taken = sum(turns)
    assert len(turns) == 100
    # The account's clock has moved on by a thousandth of a second for each turn, or with the time.
    assert (row.calls_at - begun).total_seconds() >= taken / 1000 - HORIZON - 0.01
    assert taken <= 1000 * (elapsed + 2 * HORIZON) + 1000
    assert {lease.holder for lease in leases} == {f"p{n}" for n in range(7)}


@measures_time
def test_a_pause_is_never_made_shorter(store):
    store.pause_account("network", "R1", 60)
    store.pause_account("network", "R1", 1)
    grant = store.visit_account("network", "R1", Ask("p", Limits(calls=10), calls=1, wanted=1))
    assert 55 < grant.paused <= 60
    assert grant.calls.count == 0


def test_without_its_tables_nothing_is_called(database_url, service):
    """A process of the new release before ``db upgrade``: no limits can be kept, so no call is made."""
    store = Store.from_url(database_url)
    hammer = Hammer(store, service.url, {"longest_wait": 1.0})
    hammer.run(2, time.monotonic() + 1)
    assert service.times == []
    assert len(hammer.errors) == 2
    store.close()
