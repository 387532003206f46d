"""The whole way of a deletion in one process that dies at a chosen effect: engine and worker take turns in one thread.

Time does not pass here by itself: when nobody has anything to do, everything on record gets older.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import sqlite3
import sys
import types

from cleanup_orchestrator.plugins.base import EVERYTHING, Service
from cleanup_orchestrator.plugins.registry import Registry
from cleanup_orchestrator.transitions import LIVE
from tests import mortal

#: A few types of each sort: with dependencies, over a token of the project, residue, Keystone's own.
TYPES = frozenset(
    {
        "network.network",
        "network.port",
        "network.quota",
        "image.image",
        "key-manager.secret",
        "identity.application_credential",
    }
)

#: Seconds: so long that none is renewed on the way, however slow the machine.
LEASE = 600

_TIMES = {
    "deletions": "created_at updated_at status_at progress_at wake_at round_opened_at drained_at closed_at "
    "project_gone_at finished_at",
    "steps": "dispatched_at started_at finished_at lease_until",
}


def few(registry: Registry) -> Registry:
    """The same plugins with these types alone."""

    def part(service: Service) -> Service:
        def full(name: str) -> str:
            return name if "." in name or name == EVERYTHING else f"{service.service_type}.{name}"

        known = TYPES | {EVERYTHING}
        types_ = [
            dataclasses.replace(type_, after=tuple(name for name in type_.after if full(name) in known))
            for type_ in service.types
            if full(type_.name) in TYPES
        ]
        after = tuple(name for name in service.after if name in known)
        return dataclasses.replace(service, types=tuple(types_), after=after)

    names = {name.partition(".")[0] for name in TYPES}
    return Registry([part(service) for name, service in registry.services.items() if name in names])


def age(path: str, seconds: float) -> None:
    """Let everything on record be older by so many seconds."""
    with sqlite3.connect(path, timeout=30) as connection:
        for table, columns in _TIMES.items():
            values = ", ".join(
                f"{name} = strftime('%Y-%m-%d %H:%M:%f', {name}, '-{seconds:.3f} seconds') || '000'"
                for name in columns.split()
            )
            connection.execute(f"UPDATE {table} SET {values}")
    connection.close()


def go(config: pathlib.Path, fuse: mortal.Fuse, deletion_id: str, until: str = "") -> None:
    """See a deletion to its end, or until it has this: `closed_at`."""
    messages: collections.deque[tuple[str, str]] = collections.deque()
    bus = types.SimpleNamespace(
        step=lambda id_: messages.append(("step", id_)), deletion=lambda id_: messages.append(("deletion", id_))
    )
    parts = mortal.parts(config, fuse, bus, answers=True)
    parts.registry = few(parts.registry)
    store, engine, worker = parts.store, parts.engine(), parts.worker()
    path = str(store._engine.url.database)
    # Of a process that died before: leases run out, and what it cast is taken for lost.
    age(path, LEASE + 1)
    for _ in range(2000):
        record = store.get(deletion_id)
        if record.status not in LIVE or (until and getattr(record, until)):
            worker.budget.close()
            return
        if messages:
            to, id_ = messages.popleft()
            (worker.handle if to == "step" else engine.handle)(id_)
            continue
        wait = (record.wake_at - store.now()).total_seconds()
        if wait > 0:
            age(path, wait + 0.01)
        for due in store.due():
            engine.handle(due)
    print(f"it comes to no end: {store.get(deletion_id)}", file=sys.stderr)
    sys.exit(3)
