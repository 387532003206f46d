"""The processes of the simulated Keystone, which disagree.

Each process reads the fences at an interval of its own, as ``cleanup_orchestrator.keystone.fence`` does. Each may also
keep an old copy of a project that it read right before a write and cached right after it.
"""

from __future__ import annotations

import math
import random
from typing import Any

from cleanup_orchestrator.keystone import fence

#: Most seconds for which a process shows an old copy of a project.
_COPY = 300.0
#: How often a write of a project leaves an old copy of it in a process.
_RACE = 0.15


class KeystoneProcess:
    """One process."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._interval = 0.05 + (fence.MAX_AGE - 0.05) * rng.random()
        self._first = -self._interval * rng.random()
        self._copies: dict[str, tuple[float, dict[str, Any]]] = {}

    def read_at(self, now: float) -> float:
        """Return when the process read the fences last."""
        return self._first + math.floor((now - self._first) / self._interval) * self._interval

    def written(self, row: dict[str, Any], now: float) -> None:
        """Take note that a project is being written, in this process or in another one.

        :param row: the project as it was before
        """
        self._copies.pop(row["id"], None)
        if self._rng.random() < _RACE:
            self._copies[row["id"]] = (now + _COPY * self._rng.random(), row)

    def forget(self, project_id: str) -> None:
        """Drop the copy of a project: this process has just written it."""
        self._copies.pop(project_id, None)

    def copy(self, project_id: str, now: float) -> dict[str, Any] | None:
        """Return the old copy that the process shows of a project, if it has one."""
        until, row = self._copies.get(project_id, (0.0, None))
        return row if now < until else None
