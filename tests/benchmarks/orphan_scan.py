"""An orphan scan over 100,000 resources, 20 ms a call: ``python -m tests.benchmarks.orphan_scan [--json]``.

An emulated cloud in a separate process has one project with ports and images, and a few resources of each other type.
Engine and worker run in this process, over SQLite. In the first case Keystone knows the project. In the second case it
does not, so that all its resources are orphans. The seconds are those of the scan without the wait between the reads.
The memory is the largest resident set of the process, minus that before the scan.
"""

from __future__ import annotations

import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import requests

from cleanup_orchestrator.core.orphan_scan import SCANNING, ScanStatus, counted
from cleanup_orchestrator.store.orphans import new_scan
from tests.benchmarks.figures import Figure, main
from tests.emulated.cloud import OWN_PROJECT, USER
from tests.emulated.orchestrator import Orchestrator
from tests.emulated.server import Process

RESOURCES, MILLISECONDS = 100_000, 20
#: Of ten bulk resources, six are ports and images, which can be listed over all projects. Secrets and objects cannot.
LISTED = 0.6


def memory() -> float:
    """Return the peak memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def forget(cloud: Process, project: str) -> None:
    """Delete the project in Keystone without the orchestrator."""
    scope = {"project": {"name": OWN_PROJECT, "domain": {"id": "default"}}}
    who = {"user": {"name": USER, "domain": {"id": "default"}, "password": USER}}
    body = {"auth": {"identity": {"methods": ["password"], "password": who}, "scope": scope}}
    token = requests.post(f"{cloud.auth_url}/auth/tokens", json=body, timeout=60).headers["X-Subject-Token"]
    answer = requests.delete(f"{cloud.auth_url}/projects/{project}", headers={"X-Auth-Token": token}, timeout=60)
    answer.raise_for_status()


def scan(dead: bool) -> None:
    """Run a scan and print its numbers as JSON."""
    arguments = ("--resources", str(int(RESOURCES / LISTED)), "--bystanders", "0", "--small")
    with Process(*arguments) as cloud, tempfile.TemporaryDirectory() as folder:
        (project,) = cloud.call("projects")
        if dead:
            forget(cloud, project)
        cloud.call("faults.latency", milliseconds=MILLISECONDS)

        class _Cloud:
            auth_url = cloud.auth_url

        options = {"orphans": {"min_age": 0, "reread_after": 1}}
        with Orchestrator(_Cloud, pathlib.Path(folder), **options) as running:  # type: ignore[arg-type]
            store, before = running.store, memory()
            record = new_scan(running.parts.conf)
            begun, spent = time.monotonic(), time.process_time()
            store.create_orphan_scan(record)
            running.parts.bus.decide(record.id)
            while (found := store.orphan_scan(record.id))[0].status in SCANNING:
                time.sleep(0.1)
            took = time.monotonic() - begun - record.reread_after * dead
            counts = counted(found[1])
        print(
            json.dumps(
                {
                    "status": found[0].status,
                    "listed": counts["listed"],
                    "orphans": counts["orphans"],
                    "seconds": took,
                    "processor": time.process_time() - spent,
                    "calls": counts["calls"],
                    "megabytes": memory() - before,
                }
            ),
            flush=True,
        )


def measure() -> Iterator[Figure]:
    """Measure each case in a separate process: the peak memory of a process never decreases."""
    for case, name in (("alive", "resources of a known project"), ("dead", "orphans")):
        command = [sys.executable, "-m", "tests.benchmarks.orphan_scan", "--case", case]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found = next(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
        if found["status"] != ScanStatus.COMPLETED or (case == "dead" and found["orphans"] < RESOURCES * 0.99):
            raise SystemExit(f"the scan ended otherwise: {found}")
        what = f"a scan of {RESOURCES} {name}"
        yield Figure(f"{what}: seconds", found["seconds"], 60)
        yield Figure(f"{what}: seconds of processor time", found["processor"])
        yield Figure(f"{what}: MB more than before", found["megabytes"])
        yield Figure(f"{what}: calls", found["calls"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        scan(sys.argv[2] == "dead")
    else:
        main(__doc__, measure)
