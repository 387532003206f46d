"""Complete deletions in one process that is killed at a chosen effect. Engine and worker alternate in one thread.

Time does not pass by itself: when engine and worker have nothing to do, all times on record are set back.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import functools
import pathlib
import sqlite3
import sys
import types
from collections.abc import Callable

from cleanup_orchestrator.core.deletion import Deletion, RoundPurpose
from cleanup_orchestrator.core.orphan_scan import SCANNING
from cleanup_orchestrator.core.step import StepState
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.plugins.base import EVERYTHING, Service
from cleanup_orchestrator.plugins.registry import Registry
from cleanup_orchestrator.store import Store
from tests.support import mortal

#: A few types of each sort: with dependencies, over a token of the project, project settings, Keystone's own.
TYPES = frozenset(
    {
        "network.network",
        "network.port",
        "network.quota",
        "image.image",
        "compute.server",
        "key-manager.secret",
        "identity.application_credential",
    }
)

#: Seconds: so long that none is renewed on the way, however slow the machine.
LEASE = 600
#: Seconds that pass beyond the time at which something is due. What became due some seconds later, because it ended
#: later, is then due as well: whether it would be due by itself depends on how fast the machine is.
MARGIN = 20

_TIMES = {
    "deletions": "created_at updated_at status_at progress_at wake_at round_opened_at drained_at closed_at "
    "project_gone_at finished_at",
    "steps": "dispatched_at started_at finished_at lease_until",
    "orphan_scans": "created_at status_at wake_at reread_at finished_at",
}


def few(registry: Registry, wanted: frozenset[str] = TYPES) -> Registry:
    """The same plugins with these types alone; a service with none of them has no type."""

    def part(service: Service) -> Service:
        def full(name: str) -> str:
            return name if "." in name or name == EVERYTHING else f"{service.service_type}.{name}"

        known = wanted | {EVERYTHING}
        types_ = [
            dataclasses.replace(
                type_,
                after=tuple(name for name in type_.after if full(name) in known),
                needed_by=tuple(each for each in type_.needed_by if full(each[0]) in known),
                serves=tuple(each for each in type_.serves if full(each[0]) in known),
            )
            for type_ in service.types
            if full(type_.name) in wanted
        ]
        after = tuple(name for name in service.after if name in known)
        return dataclasses.replace(service, types=tuple(types_), after=after)

    return Registry([part(service) for service in registry.services.values()])


def age(path: str, seconds: float) -> None:
    """Set all times on record back by this number of seconds."""
    with sqlite3.connect(path, timeout=30) as connection:
        for table, columns in _TIMES.items():
            values = ", ".join(
                f"{name} = strftime('%Y-%m-%d %H:%M:%f', {name}, '-{seconds:.3f} seconds') || '000'"
                for name in columns.split()
            )
            connection.execute(f"UPDATE {table} SET {values}")
    connection.close()


#: How far a deletion has to be before the test lets something else happen.
UNTIL: dict[str, Callable[[Store, Deletion], bool]] = {
    "": lambda store, record: False,
    "closed": lambda store, record: record.closed_at is not None,
    "proven": lambda store, record: record.empty_inventories >= 2,
    "halted": lambda store, record: any(c.type == "halted" and c.status for c in record.conditions),
    "on_hold": lambda store, record: (
        any(c.type == "on_hold" and c.status for c in record.conditions) and _at_rest(store, record)
    ),
    "stuck": lambda store, record: (
        record.purpose is RoundPurpose.DELETE and _at_rest(store, record) and _tried(store, record)
    ),
}


def _at_rest(store: Store, record: Deletion) -> bool:
    """Return whether no step of the current round is under way."""
    return not any(step.state in (StepState.DISPATCHED, StepState.RUNNING) for step in store.steps(record.id))


def _tried(store: Store, record: Deletion) -> bool:
    """Return whether a resource was tried more than once and still exists."""
    steps = store.steps(record.id)
    return any(step.round == record.round and step.attempt > 1 and step.remaining for step in steps)


class _Turns:
    """Engine and worker, which alternate in one thread."""

    def __init__(self, config: pathlib.Path, fuse: mortal.Fuse, wanted: frozenset[str]) -> None:
        self.messages: collections.deque[tuple[str, tuple[str, ...]]] = collections.deque()
        bus = types.SimpleNamespace(decide=functools.partial(self._send, "decide"))
        bus.steps = lambda step_ids: self._send("steps", *step_ids)
        parts = mortal.parts(config, fuse, bus, answers=True)
        _ = parts.catalog  # made of all plugins: a service without a wanted type counts as covered
        parts.registry = few(parts.registry, wanted)
        self.store, self.worker = parts.store, parts.worker()
        self._path = str(self.store.database.engine.url.database)
        self._handlers: dict[str, Callable[..., None]] = {
            "steps": self.worker.handle,
            "decide": parts.engine().handle,
        }
        # After the death of an earlier process: its leases expire, and its casts count as lost.
        self.age(LEASE + 1)

    def _send(self, to: str, *ids: str) -> None:
        self.messages.append((to, ids))

    def age(self, seconds: float) -> None:
        age(self._path, seconds)

    def turn(self, wake_at: datetime.datetime) -> None:
        """Handle one message; without a message, let the time pass until a deletion is due, and handle that.

        Each call handles one deletion: whether another is due at the same moment depends on how fast the machine is.
        """
        if self.messages:
            to, ids = self.messages.popleft()
            self._handlers[to](*ids)
            return
        wait = (wake_at - self.store.now()).total_seconds()
        if wait > 0:
            self.age(wait + MARGIN)
        for due in (*self.store.due(limit=1), *filter(None, [self.store.orphan_scan_due()])):
            self._handlers["decide"](due)


def go(
    config: pathlib.Path, fuse: mortal.Fuse, wanted: frozenset[str], deletion_ids: tuple[str, ...], until: str = ""
) -> None:
    """Run deletions to their end, or until the first of them is as far as `UNTIL` says."""
    turns = _Turns(config, fuse, wanted)
    for _ in range(800):
        records = [turns.store.get(id_) for id_ in deletion_ids]
        live = [record for record in records if record.status in LIVE]
        if not live or UNTIL[until](turns.store, records[0]):
            turns.worker.context.budget.close()
            return
        turns.turn(min(record.wake_at for record in live))
    print(f"it comes to no end: {records}", file=sys.stderr)
    sys.exit(3)


def scan(config: pathlib.Path, fuse: mortal.Fuse, wanted: frozenset[str], scan_id: str) -> None:
    """Run an orphan scan to its end."""
    turns = _Turns(config, fuse, wanted)
    for _ in range(300):
        found, _steps = turns.store.orphan_scan(scan_id)
        if found.status not in SCANNING:
            turns.worker.context.budget.close()
            return
        turns.turn(found.wake_at)
    print(f"it comes to no end: {found}", file=sys.stderr)
    sys.exit(3)
