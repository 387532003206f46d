"""The auditor: every write that reached a service, with its caller and the owner of its target."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.emulated.state import Touch


@dataclass(frozen=True, slots=True)
class Write:
    """One request that was to change something, or that changed something."""

    at: float  #: seconds since the cloud began
    user: str  #: the token's
    project: str  #: the token's
    method: str
    target: str  #: the URL
    status: int
    answered: bool  #: whether the client got the answer
    touched: tuple[Touch, ...]  #: what it created, changed or deleted; the target of the request comes first

    @property
    def owner(self) -> str:
        """The owner of the target of the request."""
        return self.touched[0].owner if self.touched else ""


@dataclass
class Audit:
    """Records the calls and writes in the cloud."""

    under_deletion: set[str] = field(default_factory=set)  #: set by the test
    writes: list[Write] = field(default_factory=list)
    not_empty: list[tuple[str, dict[str, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._busy: Counter[str] = Counter()
        self._peak: Counter[str] = Counter()
        self._calls: dict[str, Counter[int]] = defaultdict(Counter)
        self._deletes: dict[str, Counter[int]] = defaultdict(Counter)
        self._trace: list[tuple[float, float, str, str]] | None = None

    @contextlib.contextmanager
    def call(self, service: str, method: str, target: str = "") -> Iterator[None]:
        """Count a call while it is under way."""
        began = time.monotonic() - self._began
        second = int(began)
        with self._lock:
            self._busy[service] += 1
            self._peak[service] = max(self._peak[service], self._busy[service])
            self._calls[service][second] += 1
            self._deletes[service][second] += method == "DELETE"
        try:
            yield
        finally:
            with self._lock:
                self._busy[service] -= 1
                if self._trace is not None:
                    self._trace.append((began, time.monotonic() - self._began, method, target))

    def trace(self) -> list[tuple[float, float, str, str]]:
        """Return the calls since the method was last called, in the order of their ends; the first time, none.

        Each has begin and end (seconds since the start), method and target.
        """
        with self._lock:
            traced, self._trace = self._trace or [], []
        return traced

    def write(
        self, user: str, project: str, method: str, target: str, status: int, answered: bool, touched: list[Touch]
    ) -> None:
        at = time.monotonic() - self._began
        with self._lock:
            self.writes.append(Write(at, user, project, method, target, status, answered, tuple(touched)))

    def last_writes(self, since: float = 0.0) -> list[tuple[float, str, str, str]]:
        """Return each write since then: time of the answer (seconds since the start), method, target and owner."""
        return [(w.at, w.method, w.target, w.owner) for w in list(self.writes) if w.at >= since]

    def clock(self) -> float:
        """Seconds since the cloud began."""
        return time.monotonic() - self._began

    def foreign_writes(self) -> list[Write]:
        """Return the writes that changed or deleted resources of a project that is not under deletion.

        A resource that a service deletes together with another one counts if a project owns it. Tokens have no owner.
        Creations in the project of the token do not count: Neutron creates a default security group at the first list.
        """

        def foreign(write: Write) -> bool:
            return any(
                touch.owner not in self.under_deletion
                and (touch.owner or number == 0)
                and touch.kind != "identity.token"
                and (touch.what, touch.owner) != ("made", write.project)
                for number, touch in enumerate(write.touched)
            )

        return [write for write in self.writes if foreign(write)]

    def deleted_while_not_empty(self) -> list[tuple[str, dict[str, int]]]:
        """Return the projects that Keystone deleted while they owned resources, and these resources."""
        return list(self.not_empty)

    def before_children(self, parents: Mapping[str, Iterable[str]]) -> list[str]:
        """Return the parents among these projects that were written to before all projects below were deleted.

        Any write counts: the lock and the first grant as well as a delete.
        """
        gone: set[str] = set()
        early: set[str] = set()
        for write in list(self.writes):
            for touch in write.touched:
                if touch.kind == "identity.token":
                    continue
                if touch.owner in parents and not gone.issuperset(parents[touch.owner]):
                    early.add(touch.owner)
                if (touch.what, touch.kind) == ("deleted", "identity.project"):
                    gone.add(touch.id)
        return sorted(early)

    def written(self, project: str) -> list[tuple[str, str, str]]:
        """Return what was made, changed or deleted of a project outside Keystone: (what, kind, id)."""
        touched = [touch for write in list(self.writes) for touch in write.touched if touch.owner == project]
        return [(t.what, t.kind, t.id) for t in touched if not t.kind.startswith("identity.")]

    def concurrency(self) -> dict[str, int]:
        """The most calls at once, by service."""
        return dict(self._peak)

    def rates(self) -> dict[str, dict[str, int]]:
        """The most calls and deletes within one second of the clock, and all of them, by service."""
        return {
            service: {
                "calls": calls.total(),
                "calls_a_second": max(calls.values(), default=0),
                "deletes": self._deletes[service].total(),
                "deletes_a_second": max(self._deletes[service].values(), default=0),
            }
            for service, calls in list(self._calls.items())
        }
