"""Orphan scans in a store as engines and workers leave them, without either."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Sequence
from typing import Any

from cleanup_orchestrator.core.orphan_scan import Advance, Orphan, OrphanScan, ScanStatus
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.store import Store

NEVER = datetime.datetime(1970, 1, 1)
DEAD, OTHER = "d" * 32, "e" * 32
MADE = datetime.datetime(2026, 1, 2, 3, 4, 5)
NOT_COVERED = {
    "region": "R1",
    "service": "object-store",
    "type": "container",
    "reason": "Swift has no list of accounts",
}


def port(
    id_: str,
    project_id: str = DEAD,
    name: str = "",
    created_at: datetime.datetime | None = MADE,
    type_: str = "port",
    project_setting: bool = False,
) -> Orphan:
    """Return an orphan."""
    return Orphan(project_id, "R1", "network", type_, id_, name, project_setting, created_at)


#: What a scan found, unless a test says otherwise.
FOUND = (
    port("p1", name="web"),
    port("p2", name='=HYPERLINK("http://evil")', created_at=None),
    port("p3", OTHER, name='-1+1, "quoted"\nand 🗑'),
    port("g1", name="default", type_="default_security_group", project_setting=True),
)


def begin(store: Store, **values: Any) -> OrphanScan:
    """Record a scan with one step for each type, its catalog read, and return it."""
    scan = store.create_orphan_scan(
        OrphanScan(str(uuid.uuid4()), ScanStatus.ACCEPTED, NEVER, NEVER, NEVER, 3600, 600, **values)
    )
    assert scan is not None
    catalog = claim(store, scan.id, "", 1)
    types = [("port", False), ("default_security_group", True)]
    wanted = [
        Step(str(uuid.uuid4()), scan.id, StepKind.SCAN, "R1", "network", name, project_setting=project_setting)
        for name, project_setting in types
    ]
    assert store.put_scan_steps(catalog, wanted, [NOT_COVERED])
    assert store.finish(catalog, clear(catalog))
    return move(store, scan.id, ScanStatus.RUNNING)


def claim(store: Store, scan_id: str, type_: str, read: int, worker: str = "w", lease: int = 60) -> Step:
    """Dispatch a step for a read, and take it."""
    step = next(each for each in store.orphan_scan(scan_id)[1] if each.type == type_)
    dispatch(store, scan_id, step.id, round=read, attempt=1)
    taken = store.claim(step.id, worker, lease)
    assert taken is not None
    return taken[1]


def clear(step: Step, **counts: int) -> StepResult:
    """Return the result of a read that worked."""
    return StepResult(Outcome.CLEAR, counts=dataclasses.replace(step.counts, **counts))


def dispatch(store: Store, scan_id: str, step_id: str, **values: Any) -> None:
    """Have an engine dispatch a step, whatever state it is in."""

    def decision(scan: OrphanScan, steps: Sequence[Step], now: datetime.datetime) -> Advance:
        step = next(each for each in steps if each.id == step_id)
        return Advance(scan, (dataclasses.replace(step, state=StepState.DISPATCHED, dispatched_at=now, **values),))

    store.decide_orphan_scan(scan_id, decision)


def move(store: Store, scan_id: str, status: ScanStatus, **values: Any) -> OrphanScan:
    """Give a scan another status."""
    ended = status not in (ScanStatus.ACCEPTED, ScanStatus.RUNNING, ScanStatus.WAITING)

    def decision(scan: OrphanScan, _steps: Sequence[Step], now: datetime.datetime) -> Advance:
        finished = now if ended else None
        return Advance(dataclasses.replace(scan, status=status, finished_at=finished, **values))

    store.decide_orphan_scan(scan_id, decision)
    return store.orphan_scan(scan_id)[0]


def found(store: Store, orphans: Sequence[Orphan] = FOUND, status: ScanStatus = ScanStatus.COMPLETED) -> OrphanScan:
    """Record a scan that has ended and found these, each of them twice."""
    scan = begin(store, user_id="u", user_name="alice")
    for read in (1, 2):
        for type_ in ("port", "default_security_group"):
            step = claim(store, scan.id, type_, read)
            rows = [orphan for orphan in orphans if orphan.type == type_]
            assert (store.note_orphans if read == 1 else store.see_orphans_again)(step, rows)
            assert store.finish(step, clear(step, listed=10))
    return move(store, scan.id, status, message=f"{len(orphans)} orphans")
