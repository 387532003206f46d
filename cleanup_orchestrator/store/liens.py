"""Liens: who protects which project from its deletion, for what time and why."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import plugin_liens
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import Base, Page, database_time, transient
from cleanup_orchestrator.store.expiring import Expiring

LIENS = Expiring("lien", t.liens, records.lien)


class Liens(Base):
    """The liens, ended ones too."""

    @transient
    def add_lien(self, lien: Lien) -> Lien:
        """Record a lien; see :meth:`Timed.add`."""
        with self._begin() as c:
            return LIENS.add(c, lien)

    @transient
    def lien(self, lien_id: str) -> tuple[Lien, datetime.datetime]:
        """Return one lien, in force or not, and the time.

        :raises NotFound: when there is none
        """
        with self._begin() as c:
            return LIENS.get(c, lien_id), database_time(c)

    @transient
    def liens(
        self, page: Page, in_force: bool | None = None, **filters: str
    ) -> tuple[Sequence[Lien], datetime.datetime]:
        """Return one page of liens, and the time; see :meth:`Timed.page`."""
        with self._begin() as c:
            return LIENS.page(c, page, in_force, filters)

    @transient
    def liens_in_force(self, project_ids: Collection[str]) -> tuple[Lien, ...]:
        """Return the liens that hold now on any of these projects, the oldest first."""
        with self._begin() as c:
            return current_liens(c, project_ids, database_time(c))

    @transient
    def remove_lien(self, lien_id: str, user_id: str) -> Lien:
        """End a lien now; see :meth:`Timed.end`."""
        with self._begin() as c:
            return LIENS.end(c, lien_id, user_id)


def current_liens(c: Connection, project_ids: Collection[str], now: datetime.datetime) -> tuple[Lien, ...]:
    """Return the liens on any of these projects that are in force, the oldest first."""
    return LIENS.in_force(c, now, t.liens.c.project_id.in_(project_ids))


def raise_lien(c: Connection, wanted: Lien, now: datetime.datetime) -> Lien | None:
    """Record a plugin's lien; ``None``: it is in force already, or somebody removed it, which is for good.

    One that had ended by itself is in force again: what it is about came back.
    """
    table = t.liens
    lien = dataclasses.replace(wanted, reason=records.text(wanted.reason), created_at=now)
    row = c.execute(sa.select(table).where(table.c.id == wanted.id)).first()
    if row is None:
        c.execute(table.insert(), [dataclasses.asdict(lien)])
        return lien
    if row.deleted_at is None or row.deleted_by != plugin_liens.PLUGIN:
        return None
    again = {"created_at": now, "reason": lien.reason, "deleted_at": None, "deleted_by": ""}
    c.execute(table.update().where(table.c.id == wanted.id).values(**again))
    return lien


def end_lien(c: Connection, lien_id: str, now: datetime.datetime) -> Lien | None:
    """End a plugin's lien whose reason is gone; ``None``: none of this id is on."""
    mine = sa.and_(t.liens.c.id == lien_id, t.liens.c.deleted_at.is_(None))
    ended = c.execute(t.liens.update().where(mine).values(deleted_at=now, deleted_by=plugin_liens.PLUGIN))
    return LIENS.get(c, lien_id) if ended.rowcount else None


def count_liens(c: Connection, now: datetime.datetime) -> int:
    """Return how many liens are in force."""
    query = sa.select(sa.func.count()).select_from(t.liens).where(LIENS.holds(now))
    return int(c.execute(query).scalar_one())
