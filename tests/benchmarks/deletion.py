"""One deletion against the emulated cloud, 50 ms a call: an empty project, and one with 80 resources.

    python -m tests.benchmarks.deletion [--json]

The settling time is 0. The time of one call is that of the emulated service; the client's own work and the database
come on top. The bound for the resources is the time in which eight calls at once would make the calls of the deletion.
"""

from __future__ import annotations

import pathlib
import tempfile
import time
from collections.abc import Iterator

from cleanup_orchestrator.core.deletion import Status
from tests.benchmarks.figures import Figure, main
from tests.emulated.orchestrator import Orchestrator
from tests.emulated.server import Process

MILLISECONDS = 50
#: The limits of a cloud are not what is measured, and neither is the test's own short tick.
OPTIONS = {
    "drain": {"driver": "fence", "token_cache_time": 0},
    "engine": {"tick": 5, "retry_base": 1, "retry_cap": 60},
    "limits": {"calls_per_second": "default:0", "calls_at_once": "default:0", "deletes_per_second": "default:0"},
}


class Measured:
    """One deletion: its seconds, and the calls that it made."""

    def __init__(self, cloud: Process, running: Orchestrator, project: str) -> None:
        cloud.call("audit.trace")
        began = time.monotonic()
        deletion = running.request(project)
        status = running.wait([deletion])[deletion]
        if status is not Status.DELETED:
            raise SystemExit(f"the deletion ended as {status}: {running.blockers(deletion)}")
        self.seconds = time.monotonic() - began
        self.calls: list[tuple[float, float, str, str]] = cloud.call("audit.trace")

    @property
    def at_once(self) -> float:
        """How many calls were under way on average."""
        return sum(end - begin for begin, end, _, _ in self.calls) / self.seconds


def measure() -> Iterator[Figure]:
    """Measure both."""
    with Process("--bystanders", "0", "--resources", "80", "--small", "--fences") as cloud:
        (filled,) = cloud.call("projects")
        empty = [cloud.call("add_empty", name=f"empty-{number}") for number in range(2)]
        cloud.call("faults.latency", milliseconds=MILLISECONDS)
        with tempfile.TemporaryDirectory() as folder, Orchestrator(cloud, pathlib.Path(folder), **OPTIONS) as running:  # type: ignore[arg-type]
            first, second = (Measured(cloud, running, project) for project in empty)
            yield Figure("an empty project, in a process that just started: seconds", first.seconds)
            yield Figure("an empty project: seconds", second.seconds, 6)
            yield Figure("an empty project: calls", len(second.calls), 200)
            yield Figure("an empty project: calls under way on average", second.at_once)
            full = Measured(cloud, running, filled)
            bound = len(full.calls) * MILLISECONDS / 1000 / 8
            yield Figure("80 resources: seconds", full.seconds)
            yield Figure("80 resources: times the bound of 8 calls at once", full.seconds / bound)
            yield Figure("80 resources: calls", len(full.calls))


if __name__ == "__main__":
    main(__doc__, measure)
