"""SQL statements of cascades of about 80 resources: ``python -m tests.benchmarks.statements``.

An emulated cloud in a separate process has the projects. Engine and worker run in this process. The benchmark counts
what they send to the database. Commits, rollbacks and checks of pooled connections count, too. What is sent once in
some seconds, whatever is deleted, does not: there are no rate limits, and ticks are rare. One cascade runs over SQLite,
one over each server of :mod:`tests.support.databases` that answers, and ten small ones at once over the first of them.
The bounds are half of what was measured before there was a bound, on the same projects.
"""

from __future__ import annotations

import contextlib
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator
from unittest import mock

import pytest

from cleanup_orchestrator.cloud import rate_limiter
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.monitoring import metrics
from cleanup_orchestrator.store import Store
from tests.benchmarks.figures import Figure, main
from tests.emulated.orchestrator import Orchestrator
from tests.emulated.server import Process
from tests.support.databases import SERVERS, filled
from tests.support.statements import Statements

#: By kind of database: half of the statements of one cascade before the first bound.
BOUNDS = {"sqlite": 3432, "mariadb": 4400, "postgresql": 3617}
AT_ONCE = 10
OPTIONS = {
    "engine": {"tick": 5},
    "limits": {"calls_per_second": "default:0", "calls_at_once": "default:0", "deletes_per_second": "default:0"},
}


class Cascades:
    """Some cascades at once, and what they sent to the database."""

    def __init__(self, cloud: Process, url: str, number: int) -> None:
        projects = cloud.call("projects")[:number]
        self.resources = sum(sum(cloud.call("left", project=each).values()) for each in projects) / number
        options = {"database": {"connection": url}, **OPTIONS}
        with (
            mock.patch.multiple(rate_limiter, _FRESH=3600.0, _RENEW=3600.0),
            tempfile.TemporaryDirectory() as folder,
            Orchestrator(cloud, pathlib.Path(folder), **options) as running,  # type: ignore[arg-type]
            contextlib.closing(Store.from_url(url)) as other,
        ):
            statements = Statements(running.store.database.engine)
            conflicts = _conflicts()
            ids = [running.request(each) for each in projects]
            while any(other.get(each).status in LIVE for each in ids):
                time.sleep(0.3)
            self.conflicts, self.deadlocks = (_conflicts() - conflicts) / number, statements.deadlocks / number
            self.each, self.kinds = statements.total / number, statements.kinds.copy()


def _conflicts() -> float:
    return float(metrics.CONFLICTS._value.get())


def _usable(kind: str) -> bool:
    """Whether the server of a kind answers."""
    try:
        with filled(kind):
            return True
    except (pytest.skip.Exception, pytest.fail.Exception):
        return False


def _measure(kind: str, number: int, *arguments: str) -> Cascades:
    with Process("--projects", str(number), "--fences", *arguments) as cloud, filled(kind) as url:
        found = Cascades(cloud, url, number)
    for name, count in found.kinds.most_common(40 if "-v" in sys.argv else 0):
        print(f"{count / number:8.1f} {name}", file=sys.stderr)
    return found


def measure() -> Iterator[Figure]:
    """Measure each kind of database."""
    servers = [kind for kind in sorted(SERVERS) if _usable(kind)]
    for kind in ("sqlite", *servers):
        one = _measure(kind, 1)
        name = f"one cascade over {kind}"
        yield Figure(f"{name}: statements", one.each, BOUNDS[kind], note=f"{one.resources:.0f} resources")
        yield Figure(f"{name}: statements a resource", one.each / one.resources)
        yield Figure(f"{name}: conflicts", one.conflicts, 0)
    for kind in servers[:1]:
        name, many = f"{AT_ONCE} cascades at once over {kind}, of each", _measure(kind, AT_ONCE, "--small")
        yield Figure(f"{name}: statements", many.each)
        yield Figure(f"{name}: conflicts", many.conflicts, 0)
        yield Figure(f"{name}: deadlocks", many.deadlocks, 0)


if __name__ == "__main__":
    main(__doc__, measure)
