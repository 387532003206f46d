"""An orphan scan over many resources: ``python -m tests.benchmarks.orphan_scan [--resources 100000] [--latency 20]``.

An emulated cloud in a separate process has one project with the given number of ports and images, and a few resources
of each other type. Engine and worker run in this process, over SQLite. In the first case Keystone knows the project. In
the second case it does not, so that all its resources are orphans. For each case the benchmark prints the listed and
found resources, the seconds of the scan without the wait between the reads, the calls to the cloud, and the peak memory
of this process before and after.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import requests

from cleanup_orchestrator.core.orphan_scan import SCANNING
from cleanup_orchestrator.store.orphans import new_scan
from tests.emulated.cloud import OWN_PROJECT, USER
from tests.emulated.orchestrator import Orchestrator
from tests.emulated.server import Process

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


def measure(resources: int, latency: float, dead: bool) -> None:
    """Run a scan and print its figures."""
    arguments = ("--resources", str(int(resources / LISTED)), "--bystanders", "0", "--small")
    with Process(*arguments) as cloud, tempfile.TemporaryDirectory() as folder:
        (project,) = cloud.call("projects")
        if dead:
            forget(cloud, project)
        cloud.call("faults.latency", milliseconds=latency)

        class _Cloud:
            auth_url = cloud.auth_url

        options = {"orphans": {"min_age": 0, "reread_after": 1}}
        with Orchestrator(_Cloud, pathlib.Path(folder), **options) as running:  # type: ignore[arg-type]
            store, before = running.store, memory()
            scan = new_scan(running.parts.conf)
            begun = time.monotonic()
            store.create_orphan_scan(scan)
            running.parts.bus.orphan_scan(scan.id)
            while (found := store.orphan_scan(scan.id))[0].status in SCANNING:
                time.sleep(0.1)
            took, parts = time.monotonic() - begun - scan.reread_after * dead, found[1]
        print(
            json.dumps(
                {
                    "keystone_knows_it": not dead,
                    "status": found[0].status,
                    "listed": sum(part.listed for part in parts),
                    "orphans": sum(part.orphans for part in parts),
                    "seconds": round(took, 1),
                    "calls": sum(part.calls for part in parts),
                    "mb_before": round(before),
                    "mb_most": round(memory()),
                }
            ),
            flush=True,
        )


def main() -> None:
    """Measure each case in a separate process: the peak memory of a process never decreases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resources", type=int, default=100_000, help="that can be listed over all projects")
    parser.add_argument("--latency", type=float, default=20.0, help="milliseconds of each call")
    parser.add_argument("--case", choices=("alive", "dead"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        measure(options.resources, options.latency, options.case == "dead")
        return
    for case in ("alive", "dead"):
        numbers = ["--resources", str(options.resources), "--latency", str(options.latency)]
        command = [sys.executable, "-m", "tests.benchmarks.orphan_scan", "--case", case, *numbers]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
