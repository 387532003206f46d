"""Fills a database with many records, without the code that would write them one by one."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import json
import random
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from cleanup_orchestrator.core.condition_types import Condition
from cleanup_orchestrator.core.deletion import Deletion, Mode, Origin, Status, Tally
from cleanup_orchestrator.core.holds import Lien, Waiver
from cleanup_orchestrator.core.orphan_scan import OrphanScan, ScanStatus
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import TASKS, Outcome, Step, StepKind, StepState
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.store import records, tables

_BEGIN = datetime.datetime(2026, 1, 1)
_ROWS = 2000  #: rows of one statement
_LIVE = 1000  #: deletions under way
_DOMAINS = 200
#: Of a hundred ended deletions.
_ENDED = {Status.DELETED: 80, Status.LEFTOVERS: 8, Status.FAILED: 3, Status.PLANNED: 5, Status.CANCELLED: 4}
_REASONS = (Reason.PRESENT, Reason.IN_USE, Reason.KEPT, Reason.PROTECTED)


@dataclasses.dataclass(frozen=True, slots=True)
class Records:
    """The ids of records that a benchmark asks for."""

    deletion: str  #: a live deletion that has all leftovers and all journal entries
    plan: str  #: a dry run that noted as many resources
    parent: str  #: a deletion with children
    project: str  #: the project of many liens and deletions
    domain: str
    user: str
    resource: str  #: a resource that many journal lines name
    times: tuple[str, str]  #: early and late in the time of the deletions
    scan: str  #: the orphan scan that found all orphans
    live: tuple[str, ...]


def fill(engine: Engine, size: int, types: int) -> Records:
    """Insert this number of rows of each kind.

    :param types: sweep steps of each deletion
    """
    source = random.Random(1)
    # The database may compare ids in any order, and so do random ids.
    ids = [str(uuid.UUID(int=source.getrandbits(128), version=4)) for _ in range(size)]
    made = list(_deletions(source, ids, types))
    busiest, plan = made[-1].id, next(d.id for d in made if d.status is Status.PLANNED)
    scans = [str(uuid.UUID(int=source.getrandbits(128), version=4)) for _ in range(1000)]
    with engine.begin() as c:
        _insert(c, tables.deletions, map(records.deletion_values, made))
        _steps(c, types)
        for deletion_id in (busiest, plan):
            step = f"{deletion_id}-6"
            _insert(c, tables.leftovers, (_leftover(n, deletion_id, step) for n in range(size)))
        _insert(c, tables.events, (_event(n, busiest) for n in range(size)))
        _insert(c, tables.event_resources, (_named(n, busiest) for n in range(size)))
        _insert(c, tables.liens, (_lien(source, n) for n in range(size)))
        _insert(c, tables.waivers, (_waiver(source, n) for n in range(size)))
        _insert(c, tables.orphan_scans, (_scan(n, id_, scans[-1]) for n, id_ in enumerate(scans)))
        _insert(c, tables.steps, (_scan_step(n, scans[-1]) for n in range(60)))
        _insert(c, tables.orphans, (_orphan(n, scans[-1]) for n in range(size)))
    live = tuple(d.id for d in made if d.status in LIVE)
    times = (made[size // 100].created_at, made[-size // 100].created_at)
    early, late = (f"{at.isoformat(timespec='seconds')}Z" for at in times)
    return Records(
        *(busiest, plan, ids[0], _project(0), _domain(0), _domain(7), _resource(0), (early, late), scans[-1], live)
    )


def _insert(c: Connection, table: sa.Table, rows: Iterable[dict[str, Any]]) -> None:
    if c.dialect.name == "postgresql":
        _copy(c, table, rows)
        return
    while chunk := list(itertools.islice(rows := iter(rows), _ROWS)):
        c.execute(table.insert(), chunk)


def _copy(c: Connection, table: sa.Table, rows: Iterable[dict[str, Any]]) -> None:
    """Insert by ``COPY``, in a tenth of the time."""
    cursor: Any = c.connection.cursor()
    names: tuple[str, ...] = ()
    documents = {column.name for column in table.c if isinstance(column.type, sa.JSON)}
    with contextlib.ExitStack() as stack:
        for row in rows:
            if not names:
                names = tuple(row)
                columns = ", ".join(f'"{name}"' for name in names)
                copy: Any = stack.enter_context(cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN"))
            values = (json.dumps(v) if n in documents and v is not None else v for n, v in row.items())
            copy.write_row(tuple(values))


def _project(n: int) -> str:
    return uuid.UUID(int=(n + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128).hex


def _domain(n: int) -> str:
    return uuid.UUID(int=(n + 1) * 0xC2B2AE3D27D4EB4F165667B19E3779F9 % 2**128).hex


def _deletions(source: random.Random, ids: list[str], types: int) -> Iterator[Deletion]:
    """Yield deletions, the oldest first. The last ones are live."""
    statuses = [status for status, share in _ENDED.items() for _ in range(share)]
    for n, id_ in enumerate(ids):
        live = n >= len(ids) - _LIVE
        at = _BEGIN + datetime.timedelta(seconds=n * 60)
        took = datetime.timedelta(seconds=source.randrange(60, 86400))
        status = sorted(LIVE)[n % len(LIVE)] if live else source.choice(statuses)
        dry_run = status is Status.PLANNED
        # Every tenth deletion is the first or a later one of the same projects.
        number = n if live or n % 10 else n % 1000 // 10
        condition = Condition("drained", True, "fence", "the project is locked", at)
        stalled = Condition("stalled", live and n % 20 == 0, "no_progress", "no progress for 60 minutes", at)
        yield Deletion(
            id=id_,
            project_id=_project(number),
            project_name=f"project-{number % 50_000}",
            domain_id=_domain(source.randrange(_DOMAINS)),
            mode=Mode.CASCADE if source.random() < 0.7 or dry_run else Mode.REPORT,
            dry_run=dry_run,
            status=status,
            created_at=at,
            updated_at=at + took,
            status_at=at + took,
            progress_at=at + took,
            wake_at=at + took,
            request_id=f"req-{id_}",
            user_id=_domain(n % 500),
            user_name=f"user-{n % 500}",
            origin=Origin.NOTICED if n % 50 == 0 else Origin.ADOPTED if n % 500 == 1 else Origin.REQUEST,
            parent_deletion_id=ids[n % 100] if n % 20 == 5 else "",
            reason="done",
            message="every service was listed twice, and nothing is left",
            round=4,
            purpose="delete" if live else "",  # type: ignore[arg-type]
            drained_at=at + took / 2,
            closed_at=at + took,
            member_ids=tuple(_domain(m) for m in range(3)),
            conditions=(condition, stalled),
            finished_at=None if live else at + took,
            version=40,
            tally=Tally(types, types, 10 * types, 9 * types, types, calls=7 * types),
        )


def _steps(c: Connection, types: int) -> None:
    """Insert the steps of all deletions in one statement."""
    names = [str(kind) for kind in TASKS] + [str(StepKind.SWEEP)] * types
    kinds = sa.Table(
        "benchmark_kinds",
        sa.MetaData(),
        sa.Column("n", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(64)),
        sa.Column("service", sa.String(128)),
        sa.Column("type", sa.String(128)),
        prefixes=["TEMPORARY"],
    )
    kinds.create(c)
    rows = []
    for n, kind in enumerate(names):
        sweep = kind == str(StepKind.SWEEP)
        rows.append(
            {
                "n": n,
                "kind": kind,
                "service": f"service-{n // 5}" if sweep else "",
                "type": f"type_{n}" if sweep else "",
            }
        )
    c.execute(kinds.insert(), rows)
    d, k, step = tables.deletions.c, kinds.c, tables.steps.c
    sweep = k.kind == str(StepKind.SWEEP)
    number = sa.cast(k.n, sa.String(8))
    given = {
        step.id: d.id + "-" + number,
        step.owner_id: d.id,
        step.kind: k.kind,
        step.region: sa.case((sweep, "RegionOne"), else_=""),
        step.service: k.service,
        step.type: k.type,
        step.after: sa.cast(sa.literal('["network.port", "compute.server"]'), tables.steps.c.after.type),
        step.needed_by: sa.cast(sa.literal("[]"), tables.steps.c.needed_by.type),
        step.round: sa.literal(4),
        step.attempt: sa.literal(1),
        step.state: sa.literal(str(StepState.DONE)),
        step.outcome: sa.case((k.n % 10 == 0, str(Outcome.LEFTOVERS)), else_=str(Outcome.CLEAR)),
        step.reason: sa.case((k.n % 10 == 0, str(Reason.IN_USE)), else_=""),
        step.message: sa.case((k.n % 10 == 0, "2 resources are used by others"), else_=""),
        step.found: sa.case((sweep, k.n), else_=0),
        step.remaining: sa.case((k.n % 10 == 0, 2), else_=0),
        step.deleted: sa.case((sweep, k.n), else_=0),
        step.calls: sa.literal(7),
        step.fencing_token: sa.literal(4),
        step.worker: sa.literal("worker-1:4711"),
        step.finished_at: d.updated_at,
        step.started_at: d.created_at,
        step.dispatched_at: d.created_at,
        step.version: sa.literal(12),
    }
    if c.dialect.name == "sqlite":
        given[step.after] = sa.literal_column('\'["network.port", "compute.server"]\'')
        given[step.needed_by] = sa.literal_column("'[]'")
    for name, value in records.step_values(Step("", "", StepKind.SWEEP)).items():
        if value is not None:
            given.setdefault(step[name], sa.literal(value))
    found = sa.select(*given.values()).select_from(tables.deletions.join(kinds, sa.true())).order_by(d.created_at, k.n)
    c.execute(tables.steps.insert().from_select([column.name for column in given], found))
    kinds.drop(c)


def _leftover(n: int, deletion_id: str, step_id: str) -> dict[str, Any]:
    return {
        "deletion_id": deletion_id,
        "step_id": step_id,
        "region": "RegionOne" if n % 10 else "RegionTwo",
        "service": f"service-{n % 10}",
        "type": f"type_{n % 60}",
        "resource_id": str(uuid.UUID(int=n)),
        "name": f"resource {n}",
        "reason": str(_REASONS[n % 4]),
        "message": "another resource uses it",
        "blocked_by": [{"type": "network.port", "id": str(uuid.UUID(int=n + 1)), "owner": _project(n % 10)}],
        "abandoned": n % 1000 == 999,
        "owner": "",
        "remedy": "",
        "announced": False,
    }


def _event(n: int, deletion_id: str) -> dict[str, Any]:
    return {
        "deletion_id": deletion_id,
        "at": _BEGIN + datetime.timedelta(seconds=n),
        "type": "resource.deleted" if n % 1000 else "deletion.status",
        "message": f"service-1.type_1: 100 deleted, call {n}",
        "actor": "worker-1:4711",
        "request_id": "",
        "data": {"region": "RegionOne", "service": "service-1", "type": "type_1", "count": n},
    }


def _resource(n: int) -> str:
    """Return a resource; journal lines name each of them 1000 times."""
    return str(uuid.UUID(int=n))


def _named(n: int, deletion_id: str) -> dict[str, Any]:
    return {"event_id": n + 1, "deletion_id": deletion_id, "resource_id": _resource(n // 1000)}


def _lien(source: random.Random, n: int) -> dict[str, Any]:
    at = _BEGIN + datetime.timedelta(seconds=n * 60)
    ended = at + datetime.timedelta(days=1) if n % 10 else None
    lien = Lien(
        id=str(uuid.UUID(int=source.getrandbits(128), version=4)),
        project_id=_project(n if n % 100 else 0),
        origin=f"billing-{n % 20}",
        reason="unpaid",
        created_at=at,
        user_id=_domain(1),
        user_name="user-1",
        request_id="req-1",
        expires_at=None if n % 3 else at + datetime.timedelta(days=10_000 if n % 2 else 2),
        deleted_at=ended,
        deleted_by=_domain(1) if ended else "",
    )
    return dataclasses.asdict(lien)


def _waiver(source: random.Random, n: int) -> dict[str, Any]:
    at = _BEGIN + datetime.timedelta(seconds=n * 60)
    ended = at + datetime.timedelta(days=1) if n % 10 else None
    waiver = Waiver(
        id=str(uuid.UUID(int=source.getrandbits(128), version=4)),
        service_type=f"service-{n % 30}",
        region="RegionOne" if n % 5 else "",
        project_id=_project(n) if n % 3 else "",
        reason="the service is down",
        created_at=at,
        user_id=_domain(1),
        user_name="user-1",
        request_id="req-1",
        expires_at=at + datetime.timedelta(days=10_000 if n % 2 else 2),
        deleted_at=ended,
        deleted_by=_domain(1) if ended else "",
    )
    return dataclasses.asdict(waiver)


def _scan(n: int, id_: str, last: str) -> dict[str, Any]:
    at = _BEGIN + datetime.timedelta(days=n)
    status = ScanStatus.COMPLETED if id_ == last or n % 3 else ScanStatus.CANCELLED
    return records.scan_values(OrphanScan(id_, status, at, at, at, 3600, 600, finished_at=at))


def _scan_step(n: int, scan_id: str) -> dict[str, Any]:
    where = "RegionOne", f"service-{n % 10}", f"type_{n}"
    return records.step_values(Step(f"{scan_id}-{n}", scan_id, StepKind.SCAN, *where, state=StepState.DONE))


def _orphan(n: int, scan_id: str) -> dict[str, Any]:
    return {
        "scan_id": scan_id,
        "step_id": f"{scan_id}-{n % 60}",
        "project_id": _project(n // 50),
        "region": "RegionOne",
        "service": f"service-{n // 10 % 10}",
        "type": f"type_{n // 10 % 60}",
        "resource_id": str(uuid.UUID(int=n)),
        "name": f"resource {n}",
        "project_setting": n % 25 == 0,
        "created_at": _BEGIN,
        "first_seen_at": _BEGIN,
        "last_seen_at": _BEGIN,
        "seen_fence": 2,
        "confirmed": True,
    }
