"""Decides which calls fail: by the seed, the request, and how often it was made before.

Runs with the same seed fail in the same places as long as the threads make the same requests in the same order.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: All kinds of failures. Up to `hang` the request has no effect; with the last two it has its full effect.
KINDS = ("error", "unavailable", "throttled", "reset", "hang", "lost", "truncated")
EVENLY = {kind: 1.0 for kind in KINDS if kind != "hang"}  #: a hang lasts as long as the timeout of the client


@dataclass(frozen=True)
class Rule:
    """A part of the calls, and their faults. `None` matches any value."""

    rate: float
    mix: Mapping[str, float]
    service: str | None = None
    region: str | None = None
    project: str | None = None
    method: str | None = None

    def applies(self, service: str, region: str, method: str, projects: Iterable[str]) -> bool:
        return (
            self.service in (None, service)
            and self.region in (None, region)
            and self.method in (None, method)
            and (self.project is None or self.project in projects)
        )


@dataclass(frozen=True)
class Fate:
    """The fate of one call: its latency, and one of `KINDS` or nothing."""

    delay: float = 0.0
    kind: str = ""


class Faults:
    """The switches. Safe to use while requests are under way."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._rules: dict[str, Rule] = {}
        self._latency: dict[str | None, tuple[float, float]] = {}
        self._asked: Counter[int] = Counter()
        self._lock = threading.Lock()
        self.hang = 5.0  #: seconds
        self.retry_after = 1  #: seconds
        self.seen: Counter[tuple[str, str]] = Counter()  #: (service, kind) of what was made to fail

    def errors(
        self,
        rate: float,
        mix: Mapping[str, float] | None = None,
        *,
        service: str | None = None,
        region: str | None = None,
        project: str | None = None,
        method: str | None = None,
    ) -> None:
        """Let a part of the calls fail, split by the weights of `mix`; the rate 0 takes that back."""
        unknown = set(mix or ()) - set(KINDS)
        if unknown:
            raise ValueError(f"no such faults: {sorted(unknown)}")
        self._set(Rule(rate, dict(mix or EVENLY), service, region, project, method))

    def down(
        self, service: str, *, region: str | None = None, project: str | None = None, how: str = "unavailable"
    ) -> None:
        """Let every call of a service fail: in one region, for one project, or at all."""
        self.errors(1.0, {how: 1.0}, service=service, region=region, project=project)

    def up(self, service: str, *, region: str | None = None, project: str | None = None) -> None:
        """Undo `down` with the same arguments."""
        self.errors(0.0, service=service, region=region, project=project)

    def latency(self, milliseconds: float, jitter: float = 0.0, service: str | None = None) -> None:
        """Let every call take that long, and up to `jitter` milliseconds longer."""
        with self._lock:
            self._latency[service] = (milliseconds / 1000, jitter / 1000)

    def clear(self) -> None:
        """No faults and no latency any more."""
        with self._lock:
            self._rules.clear()
            self._latency.clear()

    def _set(self, rule: Rule) -> None:
        key = f"{rule.service}/{rule.region}/{rule.project}/{rule.method}"
        with self._lock:
            rules = {k: r for k, r in self._rules.items() if k != key}
            if rule.rate > 0:
                rules[key] = rule
            self._rules = rules

    @property
    def by_project(self) -> bool:
        """Return whether a rule depends on the project of the call."""
        return any(rule.project for rule in self._rules.values())

    def fate(self, service: str, region: str, method: str, target: str, projects: Iterable[str] = ()) -> Fate:
        """Decide about one call."""
        rules = [r for r in list(self._rules.values()) if r.applies(service, region, method, projects)]
        base, jitter = self._latency.get(service) or self._latency.get(None) or (0.0, 0.0)
        if not rules and not jitter:
            return Fate(base)
        draws = self._draws(method, target)
        delay = base + jitter * draws[0]
        # Only the most specific rule applies: a service may be up for one project while it is down for all others.
        rule = max(
            rules, key=lambda r: (r.project is not None, r.region is not None, r.service is not None), default=None
        )
        if rule is None or draws[1] >= rule.rate:
            return Fate(delay)
        kinds, weights = list(rule.mix), list(itertools.accumulate(rule.mix.values()))
        kind = kinds[bisect.bisect_right(weights, draws[2] * weights[-1])]
        with self._lock:
            self.seen[service, kind] += 1
        return Fate(delay, kind)

    def _draws(self, method: str, target: str) -> tuple[float, float, float]:
        """Three numbers between 0 and 1: of the seed, the call, and how often it was made."""
        text = f"{self._seed} {method} {target}".encode()
        key = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())
        with self._lock:
            self._asked[key] += 1
            count = self._asked[key]
        digest = hashlib.blake2b(b"%d %d" % (key, count), digest_size=12).digest()
        return tuple(int.from_bytes(digest[at : at + 4]) / 2**32 for at in (0, 4, 8))  # type: ignore[return-value]
