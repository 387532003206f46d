"""Liens: who protects which project from deletion, until when and why."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import Repository, database_time
from cleanup_orchestrator.store.expiring import Expiring
from cleanup_orchestrator.store.paging import Page
from cleanup_orchestrator.store.transient import retry_transient

LIENS = Expiring("lien", t.liens, records.lien)


class Liens(Repository):
    """Reads and writes liens, also those that were removed or have expired."""

    def add(self, lien: Lien) -> Lien:
        """Record a lien; see :meth:`Expiring.add`."""
        made = self._add(lien)
        self._database.listeners.lien_changed(made)
        return made

    @retry_transient
    def _add(self, lien: Lien) -> Lien:
        with self._database.begin() as c:
            return LIENS.add(c, lien)

    @retry_transient
    def get(self, lien_id: str) -> tuple[Lien, datetime.datetime]:
        """Return one lien, in force or not, and the time.

        :raises NotFound: when it does not exist
        """
        with self._database.read() as c:
            return LIENS.get(c, lien_id), database_time(c)

    @retry_transient
    def page(
        self, page: Page, in_force: bool | None = None, **filters: str
    ) -> tuple[Sequence[Lien], datetime.datetime]:
        """Return one page of liens, and the time; see :meth:`Expiring.page`."""
        with self._database.read() as c:
            return LIENS.page(c, page, in_force, filters)

    @retry_transient
    def in_force(self, project_ids: Collection[str]) -> tuple[Lien, ...]:
        """Return the liens in force on any of these projects, the oldest first."""
        with self._database.read() as c:
            return current_liens(c, project_ids, database_time(c))

    def remove(self, lien_id: str, user_id: str) -> Lien:
        """End a lien now; see :meth:`Expiring.end`."""
        attempts: list[Lien] = []
        removed = self._remove(lien_id, user_id, attempts)
        if attempts[0].deleted_at is None:
            self._database.listeners.lien_changed(removed)
        return removed

    @retry_transient
    def _remove(self, lien_id: str, user_id: str, attempts: list[Lien]) -> Lien:
        """End a lien.

        :param attempts: receives the lien as each attempt read it; only the first attempt precedes a lost commit
        """
        with self._database.begin() as c:
            attempts.append(LIENS.get(c, lien_id))
            return LIENS.end(c, lien_id, user_id)


def current_liens(c: Connection, project_ids: Collection[str], now: datetime.datetime) -> tuple[Lien, ...]:
    """Return the liens in force on any of these projects, the oldest first."""
    return LIENS.in_force(c, now, t.liens.c.project_id.in_(project_ids))


def count_liens(c: Connection, now: datetime.datetime) -> int:
    """Return the number of liens in force."""
    query = sa.select(sa.func.count()).select_from(t.liens).where(LIENS.holds(now))
    return int(c.execute(query).scalar_one())
