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

from tests.cloud import horizon, launcher, releases  # noqa: E402

RECORD = ROOT / "tests" / "nightly.json"
Record = Mapping[str, Mapping[str, str | int]]


def verdict(record: Record, release: str, service: str) -> str:
    """Return what the runs with a service of a release showed: the date of each, or that it was not run."""
    if release == releases.NEWEST:
        return "tested with the commits"
    found: dict[str, list[str]] = {}
    for name, run in releases.RUNS.items():
        if service in run.services:
            last = record.get(f"{release}-{name}")
            said = "**not run**" if last is None else f"{last['result']} {last['date']}"
            found.setdefault(said if last is None or last["result"] == "passed" else f"**{said}**", []).append(name)
    return "; ".join(f"{', '.join(names)}: {said}" for said, names in found.items())


def version(release: str, service: str) -> str:
    """Return the version of a service in a release."""
    package = {"placement": "openstack-placement", "heat": "openstack-heat"}.get(service, service)
    files = (*launcher.requirements_files(launcher.WHOLE), horizon.REQUIREMENTS)
    found = releases.requirement(release, package, files)
    return found.partition(">=")[2].partition(",")[0]


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
