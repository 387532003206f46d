"""Writes the table of releases and services, from the record of the nightly parts.

As a Sphinx extension it writes ``admin/releases.inc`` before Sphinx reads the sources. A cell has the version of the
service in the release, and what the last runs of the tests with that release showed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from api_reference import table
from generated import write_changed

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from tests.cloud import launcher, releases  # noqa: E402

RECORD = ROOT / "tests" / "nightly.json"
Record = Mapping[str, Mapping[str, str | int]]


def verdict(record: Record, release: str, service: str) -> str:
    """Return what the runs with a service of a release showed: the oldest date if all passed, else which did not."""
    if release == releases.NEWEST:
        return "tested with each commit"
    wanted = [name for name, run in releases.RUNS.items() if service in run.services]
    runs = {name: record.get(f"{release}-{name}") for name in wanted}
    found = []
    if passed := [name for name, run in runs.items() if run and run["result"] == "passed"]:
        found.append(f"{', '.join(passed)}: passed {min(str(runs[name]['date']) for name in passed)}")
    for name, run in runs.items():
        if run is None:
            found.append(f"{name}: **not run**")
        elif run["result"] != "passed":
            found.append(f"{name}: **{run['result']}** {run['date']}")
    return "; ".join(found)


def version(release: str, service: str) -> str:
    """Return the version of a service in a release."""
    package = {"placement": "openstack-placement", "heat": "openstack-heat"}.get(service, service)
    lines = releases.requirements(release, launcher.requirements_files(launcher.WHOLE))
    return next(line.partition(">=")[2].partition(",")[0] for line in lines if line.startswith(f"{package}>="))


def text(record: Record) -> str:
    """Return the tables: what each run tests, and what each release has."""
    services = list(dict.fromkeys(service for run in releases.RUNS.values() for service in run.services))
    runs = table(("Run", "What it tests"), (15, 85), [(name, run.what) for name, run in releases.RUNS.items()])
    rows = [
        (service, *(f"{version(name, service)}; {verdict(record, name, service)}" for name in releases.RELEASES))
        for service in services
    ]
    return f"{runs}\n{table(('Service', *releases.RELEASES), (12, *[22] * len(releases.RELEASES)), rows)}"


def setup(app: Any) -> dict[str, Any]:
    """Connect the extension to Sphinx."""

    def write(app: Any) -> None:
        record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        write_changed(Path(app.srcdir) / "admin" / "releases.inc", text(record))

    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
