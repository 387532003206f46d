"""The processes of the simulated Keystone, which disagree.

Each process reads the fences at an interval of its own, as ``cleanup_orchestrator.keystone.fence`` does. Each may also
keep an old copy of a project that it read right before a write and cached right after it. A process with a token cache
of its own accepts each token that it found valid for as long as its cache lasts, whatever another process has changed.
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
    """One process.

    :param keeps: seconds for which its own token cache keeps a token; 0: it shares a cache that each change empties
    """

    def __init__(self, rng: random.Random, keeps: float = 0.0) -> None:
        self._rng, self._keeps = rng, keeps
        self._tokens: dict[str, float] = {}  #: until when it accepts tokens that it found valid
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

    def shows_enabled_until(self, project_id: str) -> float:
        """Return until when an old copy shows a project as enabled."""
        until, row = self._copies.get(project_id, (-math.inf, None))
        return until if row is not None and row["enabled"] else -math.inf

    # -- tokens
    def accepts(self, token: str, valid: bool, now: float) -> bool:
        """Return whether the process accepts a token.

        :param valid: whether it would, without its cache
        """
        cached = now < self.accepts_until(token)
        if valid and not cached:
            self.validated(token, now)
        return valid or cached

    def validated(self, token: str, now: float) -> None:
        """Take note that the process has found a token valid."""
        if self._keeps:
            self._tokens[token] = now + self._keeps

    def accepts_until(self, token: str) -> float:
        """Return until when the process accepts a token that is no longer valid."""
        return self._tokens.get(token, -math.inf)

    def revoked(self, token: str) -> None:
        """Drop a token: this process has just revoked it."""
        self._tokens.pop(token, None)

    def share(self) -> None:
        """Restart the process with the cache that all share."""
        self._keeps = 0.0
        self._tokens.clear()
        self._copies.clear()
