"""A cascade of 2,000 resources against the emulated cloud, 50 ms a call, with the default limits.

    python -m tests.benchmarks.cascade [--json]

The bound is set by the limits that protect a cloud: no service gets its calls and deletes faster than `[limits]` allow,
and the services do not wait for each other longer than they must. An empty project, deleted in the same run, shows the
time of all that no number of resources makes longer: the drain, the inventories and the removal.
"""

from __future__ import annotations

import collections
import pathlib
import tempfile
from collections.abc import Iterator

from cleanup_orchestrator.cloud.rate_limit_options import DEFAULTS
from tests.benchmarks.deletion import MILLISECONDS, Measured
from tests.benchmarks.figures import Figure, main
from tests.emulated.orchestrator import Orchestrator
from tests.emulated.server import Process

RESOURCES = 2000
WITHIN = 1.3
OPTIONS = {
    "drain": {"driver": "fence", "token_cache_time": 0},
    "engine": {"tick": 5, "retry_base": 1, "retry_cap": 60},
}


def bound(measured: Measured) -> tuple[float, str]:
    """Return the seconds that the default limits require for the calls that were made, and the service they bind."""
    calls: collections.Counter[str] = collections.Counter()
    deletes: collections.Counter[str] = collections.Counter()
    for _begin, _end, method, path in measured.calls:
        first, service = path.lstrip("/").partition("?")[0].split("/")[:2]
        service = "identity" if first == "identity" else service
        calls[service] += 1
        deletes[service] += method == "DELETE"

    def seconds(service: str) -> float:
        limits = {option: float(keys.get(service, keys["default"])) for option, keys in DEFAULTS.items()}
        return max(
            calls[service] / limits["calls_per_second"],
            deletes[service] / limits["deletes_per_second"],
            calls[service] * MILLISECONDS / 1000 / limits["calls_at_once"],
        )

    return max((seconds(service), service) for service in calls)


def measure() -> Iterator[Figure]:
    """Measure an empty project and the cascade."""
    with Process("--bystanders", "0", "--resources", str(RESOURCES), "--small", "--fences") as cloud:
        (filled,) = cloud.call("projects")
        empty = [cloud.call("add_empty", name=f"empty-{number}") for number in range(2)]
        cloud.call("faults.latency", milliseconds=MILLISECONDS)
        with tempfile.TemporaryDirectory() as folder, Orchestrator(cloud, pathlib.Path(folder), **OPTIONS) as running:  # type: ignore[arg-type]
            _first, second = (Measured(cloud, running, project) for project in empty)
            full = Measured(cloud, running, filled)
    least, service = bound(full)
    yield Figure("an empty project, default limits: seconds", second.seconds)
    yield Figure(f"{RESOURCES} resources, default limits: seconds", full.seconds)
    yield Figure(f"{RESOURCES} resources: calls", len(full.calls))
    yield Figure(f"{RESOURCES} resources: seconds that the limits require", least, note=f"for {service}")
    yield Figure(f"{RESOURCES} resources: times that bound", full.seconds / least, WITHIN)
    yield Figure("the same, without the seconds of the empty project", (full.seconds - second.seconds) / least)


if __name__ == "__main__":
    main(__doc__, measure)
