"""Measures the costs of a permit.

    python -m tests.benchmarks.rate_budget [--seconds 5] [--databases sqlite,postgresql,mariadb]

Worker processes with eight threads each acquire permits for one service as fast as the limits allow, and make no
calls. For each database, limit and number of processes, the benchmark prints: the permits per second of all processes
and of the process that got the fewest, the acquires from the store per permit, the median time of an acquire, the
processor time of a permit with its share of the acquires (without the time of the database server), the longest wait.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from cleanup_orchestrator.cloud.rate_limiter import RateLimiter
from cleanup_orchestrator.core.rate_limits import Grant, Request
from cleanup_orchestrator.store import Store, tables
from tests.support import databases
from tests.support.rate_budget import configuration

THREADS = 8


class MeasuredStore:
    """A store that measures the time of each acquire."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.visits: list[float] = []

    def acquire_permits(self, service: str, region: str, ask: Request) -> Grant:
        """Acquire permits and record the time."""
        begun = time.perf_counter()
        grant = self._store.acquire_permits(service, region, ask)
        self.visits.append(time.perf_counter() - begun)
        return grant

    def pause_calls(self, service: str, region: str, seconds: float) -> None:
        """Not used here."""
        raise NotImplementedError


def work(url: str, seconds: float, limit: float) -> None:
    """Run one process: acquire permits and report their costs."""
    store = Store.from_url(url)
    watched = MeasuredStore(store)
    most = {"calls_per_second": limit, "deletes_per_second": 0, "calls_at_once": 0 if limit == 0 else 1000}
    longest = 0.0

    def waited(_service: str, _region: str, wait: float) -> None:
        nonlocal longest
        longest = max(longest, wait)

    budget = RateLimiter(configuration(**{k: {"default": str(v)} for k, v in most.items()}), watched, waited)
    counts, early = [0] * THREADS, [0] * THREADS  # a thread that waits at the end gets its permit too late to count
    print("ready", flush=True)
    sys.stdin.readline()
    until = time.monotonic() + seconds

    def take(index: int) -> None:
        while time.monotonic() < until:
            with budget.permit("network", "R1"):
                counts[index] += 1
                early[index] += time.monotonic() < until

    used = time.process_time()
    threads = [threading.Thread(target=take, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = time.process_time() - used
    budget.close()
    print(
        json.dumps(
            {"turns": sum(counts), "early": sum(early), "visits": watched.visits, "cpu": used, "longest": longest}
        ),
        flush=True,
    )


def measure(url: str, processes: int, seconds: float, limit: float) -> dict[str, Any]:
    """Run this number of processes at once and combine their reports."""
    command = [sys.executable, "-m", "tests.benchmarks.rate_budget", "--work", url]
    command += ["--seconds", str(seconds), "--limit", str(limit)]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(processes)]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [json.loads(process.communicate(timeout=300)[0]) for process in running]
    turns = sum(one["turns"] for one in said)
    visits = [visit for one in said for visit in one["visits"]]
    return {
        "rate": sum(one["early"] for one in said) / seconds,
        "least": min(one["early"] for one in said) / seconds,
        "visits": len(visits) / turns,
        "visit": statistics.median(visits) * 1000,
        "cpu": sum(one["cpu"] for one in said) / turns * 1e6,
        "longest": max(one["longest"] for one in said),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--databases", default=",".join(databases.KINDS))
    parser.add_argument("--limits", default="50,1000", help="calls a second")
    parser.add_argument("--processes", default="1,20")
    parser.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, default=50, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.seconds, options.limit)
        return
    head = (
        "database",
        "limit",
        "processes",
        "turns/s",
        "least/s",
        "visits/turn",
        "visit ms",
        "CPU µs/turn",
        "longest s",
    )
    print("{:<11}{:>9}{:>11}{:>10}{:>9}{:>13}{:>10}{:>13}{:>11}".format(*head))
    for kind in options.databases.split(","):
        for limit in map(float, options.limits.split(",")):
            for processes in map(int, options.processes.split(",")):
                with (
                    tempfile.TemporaryDirectory() as folder,
                    databases.database(kind, pathlib.Path(folder)) as url,
                ):
                    store = Store.from_url(url)
                    tables.metadata.create_all(store.database.engine)
                    store.close()
                    got = measure(url, processes, options.seconds, limit)
                print(
                    f"{kind:<11}{limit:>9.0f}{processes:>11}{got['rate']:>10.0f}{got['least']:>9.1f}"
                    f"{got['visits']:>13.3f}{got['visit']:>10.1f}{got['cpu']:>13.0f}{got['longest']:>11.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
