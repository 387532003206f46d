"""Statements on deletions and steps that several repositories use.

They are built once, with parameters for the values: building a statement takes longer than running it.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.orphan_scan import OrphanScan
from cleanup_orchestrator.core.step import Step, StepView
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import CLOCK, database_time
from cleanup_orchestrator.store.errors import Conflict, NotFound

_DELETION = records.select_deletions().add_columns(CLOCK).where(t.deletions.c.id == sa.bindparam("deletion_id"))
_LOCK = sa.select(t.deletions).where(t.deletions.c.id == sa.bindparam("deletion_id")).with_for_update()
_WORK = (
    records.select_deletions()
    .add_columns(
        *records.step_columns(),
        sa.exists().where(t.leftovers.c.step_id == t.steps.c.id).label("has_leftovers"),
        sa.exists().where(t.deletes.c.step_id == t.steps.c.id).label("has_deletes"),
        CLOCK,
    )
    .select_from(t.steps.join(t.deletions, t.deletions.c.id == t.steps.c.owner_id))
    .where(t.steps.c.id == sa.bindparam("step_id"))
)
_SCAN_WORK = (
    sa.select(t.orphan_scans, *records.step_columns(), CLOCK)
    .select_from(t.steps.join(t.orphan_scans, t.orphan_scans.c.id == t.steps.c.owner_id))
    .where(t.steps.c.id == sa.bindparam("step_id"))
)
_STEPS = (
    sa.select(t.steps)
    .where(t.steps.c.owner_id == sa.bindparam("owner_id"))
    .order_by(t.steps.c.region, t.steps.c.service, t.steps.c.type)
)
#: The steps of a deletion. Each row has what the deletion's own row does not tell, and the time.
_STEPS_NOW = _STEPS.add_columns(*records.derived(sa.bindparam("owner_id"), sa.bindparam("project_id")), CLOCK)
_SHOWN_STEPS = (
    records.select_shown_steps()
    .where(t.steps.c.owner_id == sa.bindparam("owner_id"))
    .order_by(t.steps.c.region, t.steps.c.service, t.steps.c.type)
)

#: Parameters: the values of :mod:`.records`, ``known_id`` and ``known_version``. Without a match no row is updated.
UPDATE_DELETION = t.deletions.update().where(
    t.deletions.c.id == sa.bindparam("known_id"), t.deletions.c.version == sa.bindparam("known_version")
)
UPDATE_STEP = t.steps.update().where(
    t.steps.c.id == sa.bindparam("known_id"), t.steps.c.version == sa.bindparam("known_version")
)


class Work(NamedTuple):
    """A step with its deletion, as of one moment."""

    deletion: Deletion
    step: Step
    has_leftovers: bool  #: whether leftovers of the step are on record
    has_deletes: bool  #: whether accepted deletes of the step are on record
    now: datetime.datetime  #: the database's time


class ScanWork(NamedTuple):
    """A step with its orphan scan, as of one moment."""

    scan: OrphanScan
    step: Step
    now: datetime.datetime  #: the database's time


def lock_deletion(c: Connection, deletion_id: str) -> Row[Any] | None:
    """Lock the row of a deletion until the transaction ends; return its columns, if it exists.

    A transaction that writes to several tables of a deletion locks or updates this row first, then its steps, then
    their leftovers, then the journal: so no two transactions wait for each other. An insert of a row that refers to the
    deletion locks it, too. What the transaction reads in later statements is not older than the lock; a subquery in
    this one might be. A transaction of SQLite is alone anyway. The row has the head of the journal, so every
    transaction that appends to the journal holds it.
    """
    return c.execute(_LOCK, {"deletion_id": deletion_id}).first()


def load_locked(c: Connection, deletion_id: str) -> tuple[Deletion, tuple[Step, ...], datetime.datetime]:
    """Lock a deletion; return it with all its steps and the database's time.

    Every deletion has steps from its creation on.

    :raises NotFound: when it does not exist
    """
    row = lock_deletion(c, deletion_id)
    if row is None:
        raise NotFound(f"no deletion has the id {deletion_id}")
    rows = c.execute(_STEPS_NOW, {"owner_id": deletion_id, "project_id": row.project_id}).all()
    return records.deletion(row, rows[0]), tuple(map(records.step, rows)), database_time(rows[0])


def get_deletion(c: Connection, deletion_id: str) -> Deletion:
    """Return one deletion.

    :raises NotFound: when it does not exist
    """
    return get_deletion_now(c, deletion_id)[0]


def get_deletion_now(c: Connection, deletion_id: str) -> tuple[Deletion, datetime.datetime]:
    """Return one deletion and the database's time.

    :raises NotFound: when it does not exist
    """
    row = c.execute(_DELETION, {"deletion_id": deletion_id}).first()
    if row is None:
        raise NotFound(f"no deletion has the id {deletion_id}")
    return records.deletion(row), database_time(row)


def find_work(c: Connection, step_id: str) -> Work | None:
    """Return a step with its deletion and the database's time in one query, if the step exists."""
    row = c.execute(_WORK, {"step_id": step_id}).first()
    if row is None:
        return None
    deletion, step = records.deletion(row), records.step(row, records.OF_STEP)
    return Work(deletion, step, bool(row.has_leftovers), bool(row.has_deletes), database_time(row))


def find_scan_work(c: Connection, step_id: str) -> ScanWork | None:
    """Return a step with its orphan scan and the database's time in one query, if the step exists."""
    row = c.execute(_SCAN_WORK, {"step_id": step_id}).first()
    if row is None:
        return None
    return ScanWork(records.scan(row), records.step(row, records.OF_STEP), database_time(row))


def steps_of(c: Connection, owner_id: str) -> tuple[Step, ...]:
    """Return all steps of a deletion or of an orphan scan, by region, service and type."""
    return tuple(map(records.step, c.execute(_STEPS, {"owner_id": owner_id}).all()))


def shown_steps_of(c: Connection, deletion_id: str) -> tuple[StepView, ...]:
    """Return what views show of all steps of a deletion, in the same order."""
    return tuple(map(records.shown_step, c.execute(_SHOWN_STEPS, {"owner_id": deletion_id}).all()))


def write_step(c: Connection, step: Step) -> None:
    """Write a step.

    :raises Conflict: when it has changed since it was read
    """
    values = records.step_values(dataclasses.replace(step, version=step.version + 1))
    key = {"known_id": step.id, "known_version": step.version}
    if c.execute(UPDATE_STEP, values | key).rowcount != 1:
        raise Conflict(f"step {step.id} changed meanwhile")


def write_steps(c: Connection, known: Mapping[str, Step], steps: Iterable[Step]) -> None:
    """Write steps in one statement for all those that change in the same way: a round dispatches many at once.

    :param known: the steps as they were read, by id
    :raises Conflict: when one has changed since it was read
    """
    alike: dict[str, tuple[dict[str, Any], list[Step]]] = {}
    for step in steps:
        before, after = records.step_values(known[step.id]), records.step_values(step)
        changes = {name: value for name, value in after.items() if value != before[name] and name != "version"}
        alike.setdefault(repr(sorted(changes.items())), (changes, []))[1].append(step)
    for changes, group in alike.values():
        if len(group) == 1:
            write_step(c, group[0])
            continue
        table = t.steps.c
        ids, keys = [step.id for step in group], [(step.id, step.version) for step in group]
        mine = table.id.in_(ids), sa.tuple_(table.id, table.version).in_(keys)
        result = c.execute(t.steps.update().where(*mine).values(**changes, version=table.version + 1))
        if result.rowcount != len(group):
            raise Conflict(f"one of the steps {', '.join(ids)} changed meanwhile")
