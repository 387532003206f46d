"""Waivers: who waived which service, until when and why."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import Repository, database_time
from cleanup_orchestrator.store.expiring import Expiring
from cleanup_orchestrator.store.paging import Page
from cleanup_orchestrator.store.transient import retry_transient

WAIVERS = Expiring("waiver", t.waivers, records.waiver)


class Waivers(Repository):
    """Reads and writes waivers, also those that were withdrawn or have expired."""

    @retry_transient
    def add(self, waiver: Waiver) -> Waiver:
        """Record a waiver; see :meth:`Expiring.add`."""
        with self._database.begin() as c:
            return WAIVERS.add(c, waiver)

    @retry_transient
    def get(self, waiver_id: str) -> tuple[Waiver, datetime.datetime]:
        """Return one waiver, in force or not, and the time.

        :raises NotFound: when it does not exist
        """
        with self._database.read() as c:
            return WAIVERS.get(c, waiver_id), database_time(c)

    @retry_transient
    def page(
        self, page: Page, in_force: bool | None = None, **filters: str
    ) -> tuple[Sequence[Waiver], datetime.datetime]:
        """Return one page of waivers, and the time; see :meth:`Expiring.page`."""
        with self._database.read() as c:
            return WAIVERS.page(c, page, in_force, filters)

    @retry_transient
    def in_force(self, project_id: str = "") -> tuple[Waiver, ...]:
        """Return the waivers in force for a project.

        Without a project, only those that cover every project.
        """
        with self._database.read() as c:
            return WAIVERS.in_force(c, database_time(c), t.waivers.c.project_id.in_({"", project_id}))

    @retry_transient
    def withdraw(self, waiver_id: str, user_id: str) -> Waiver:
        """End a waiver now; see :meth:`Expiring.end`."""
        with self._database.begin() as c:
            return WAIVERS.end(c, waiver_id, user_id)
