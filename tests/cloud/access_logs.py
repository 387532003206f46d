"""The access logs of a cloud: each request at the API of a service, from any client (`serve.access_log`)."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import re
from collections.abc import Iterator, Mapping

from tests.cloud.launcher import Cloud

LINE = re.compile(r"^(.*?) ?\b(GET|HEAD|PUT|POST|PATCH|DELETE) (\S.*) -> (\d{3})\b[^(]*\([^)]*\) (.*)$")


@dataclasses.dataclass(frozen=True)
class Request:
    """One request that was answered."""

    service: str  #: the process: `nova`, `swift-proxy`
    at: float | None  #: seconds since the epoch, when the answer began; `None`: the log does not say it
    method: str
    path: str
    status: int
    agent: str  #: the header User-Agent


Position = Mapping[pathlib.Path, int]  #: the size of each log in bytes


def position(cloud: Cloud) -> Position:
    """Return the present end of each log."""
    return {path: path.stat().st_size for path in (cloud.directory / "log").glob("*.log")}


def since(cloud: Cloud, begin: Position) -> Iterator[Request]:
    """Yield the requests that were answered after a position, those of one service in their order."""
    for path in position(cloud):
        with path.open("rb") as file:
            file.seek(begin.get(path, 0))
            for line in file.read().decode(errors="replace").splitlines():
                if found := LINE.match(line):
                    stamp, method, target, status, agent = found.groups()
                    yield Request(path.stem, _seconds(stamp), method, target, int(status), agent)


def _seconds(stamp: str) -> float | None:
    try:
        return datetime.datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return None
