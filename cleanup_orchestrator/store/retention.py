"""Purges old records of deletions and orphan scans."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.transitions import FINAL, RESTING
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import database_time

#: Tables with rows of a deletion or a scan. Their rows are deleted first, because of the foreign keys.
_OF_DELETION = (t.leftovers, t.deletes, t.event_resources, t.events, t.changes, t.steps)
_OF_SCAN = (t.orphans, t.steps)


def purgeable(now: datetime.datetime, age: datetime.timedelta, named: bool) -> sa.ColumnElement[bool]:
    """Return the condition that the record of a deletion may be purged.

    Three kinds of records stay. A record with changes that are not undone is the only source for undoing them. A plan
    is read by the cascade that is bound to it. A deletion within a tree stays as long as the deletion above it.

    :param age: minimum time since the deletion ended
    :param named: also records that name resources which may still exist: those that can be retried, and those with
        resources that were abandoned by force
    """
    d, above = t.deletions, t.deletions.alias("above")
    tops = sa.select(d.c.id).where(_done(d, now - age, named), ~sa.exists().where(above.c.id == d.c.parent_deletion_id))
    going = tops.cte("going", recursive=True)
    part = t.deletions.alias("part")
    below = sa.select(part.c.id).join(going, part.c.parent_deletion_id == going.c.id)
    going = going.union_all(below.where(_done(part, now - age, named)))
    return d.c.id.in_(sa.select(going.c.id))


def _done(d: sa.FromClause, before: datetime.datetime, named: bool) -> sa.ColumnElement[bool]:
    """Return the condition that a deletion ended before a time and is not needed."""
    bound = t.deletions.alias("bound")
    over = sa.and_(d.c.live_project_id.is_(None), d.c.finished_at.is_not(None), d.c.finished_at < before)
    locked = sa.exists().where(t.changes.c.deletion_id == d.c.id, t.changes.c.undone.is_(False))
    abandoned = sa.exists().where(t.leftovers.c.deletion_id == d.c.id, t.leftovers.c.abandoned.is_(True))
    planning = sa.exists().where(bound.c.plan_id == d.c.id, bound.c.live_project_id.is_not(None))
    final, resting = (d.c.status.in_(map(str, statuses)) for statuses in (FINAL, RESTING))
    ended = sa.or_(final, sa.and_(resting, ~locked)) if named else sa.and_(final, ~abandoned)
    return sa.and_(over, ended, ~planning)


def _scans(now: datetime.datetime, age: datetime.timedelta) -> sa.ColumnElement[bool]:
    """Return the condition that the record of an orphan scan may be purged."""
    s = t.orphan_scans
    return sa.and_(s.c.live.is_(None), s.c.finished_at.is_not(None), s.c.finished_at < now - age)


def count(c: Connection, age: datetime.timedelta, named: bool) -> Mapping[str, int]:
    """Return how many rows of each table :func:`purge` would delete."""
    now = database_time(c)
    counts: dict[str, int] = {}
    for table, parts, over in (
        (t.deletions, _OF_DELETION, purgeable(now, age, named)),
        (t.orphan_scans, _OF_SCAN, _scans(now, age)),
    ):
        ids = sa.select(table.c.id).where(over)
        for part in parts:
            counts[part.name] = counts.get(part.name, 0) + _number(c, part, _key(part, table).in_(ids))
        counts[table.name] = _number(c, table, over)
    return counts


def purge(c: Connection, age: datetime.timedelta, named: bool, most: int = 100) -> Mapping[str, int]:
    """Delete some records with all their rows; return how many rows of each table.

    The head of the journal of each deletion stays: a report that was kept can be checked against it.

    Empty: no record is left to purge.

    :param age: minimum time since the end
    :param named: see :func:`purgeable`
    :param most: maximum number of deletions, and of scans. A request to retry one of them waits for the transaction
    """
    now = database_time(c)
    removed: dict[str, int] = {}
    for table, parts, over in (
        (t.deletions, _OF_DELETION, purgeable(now, age, named)),
        (t.orphan_scans, _OF_SCAN, _scans(now, age)),
    ):
        # The oldest first. The lock makes a request to retry one of them wait until the record is gone or kept.
        query = sa.select(table.c.id).where(over).order_by(table.c.finished_at, table.c.id).limit(most)
        locked = c.scalars(query.with_for_update()).all()
        # PostgreSQL reads subqueries before it waits for a lock: a retry may have been saved meanwhile.
        ids = c.scalars(sa.select(table.c.id).where(over, table.c.id.in_(locked))).all() if locked else ()
        if not ids:
            continue
        if table is t.deletions:
            _keep_heads(c, ids, now)
        for part in parts:
            gone = c.execute(part.delete().where(_key(part, table).in_(ids))).rowcount
            removed[part.name] = removed.get(part.name, 0) + gone
        removed[table.name] = c.execute(table.delete().where(table.c.id.in_(ids))).rowcount
    return removed


def _keep_heads(c: Connection, ids: Sequence[str], now: datetime.datetime) -> None:
    """Keep the heads of the journals of deletions that are about to be purged."""
    d, at = t.deletions.c, sa.literal(now, t.purged_journals.c.purged_at.type)
    heads = sa.select(d.id, d.journal_length, d.journal_digest, at).where(d.id.in_(ids))
    columns = ("deletion_id", "length", "digest", "purged_at")
    c.execute(t.purged_journals.insert().from_select(columns, heads))


def _key(part: sa.Table, table: sa.Table) -> sa.ColumnElement[str]:
    """Return the column of a table that refers to another table. That of a step has no foreign key."""
    if part is t.steps:
        return part.c.owner_id
    return next(key.parent for key in part.foreign_keys if key.column.table is table)


def _number(c: Connection, table: sa.Table, where: sa.ColumnElement[bool]) -> int:
    return int(c.execute(sa.select(sa.func.count()).select_from(table).where(where)).scalar_one())
