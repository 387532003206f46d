"""Waivers: who waived what, for what time and why."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import Base, Page, database_time, transient
from cleanup_orchestrator.store.expiring import Expiring

WAIVERS = Expiring("waiver", t.waivers, records.waiver)


class Waivers(Base):
    """The waivers, ended ones too."""

    @transient
    def add_waiver(self, waiver: Waiver) -> Waiver:
        """Record a waiver; see :meth:`Timed.add`."""
        with self._begin() as c:
            return WAIVERS.add(c, waiver)

    @transient
    def waiver(self, waiver_id: str) -> tuple[Waiver, datetime.datetime]:
        """Return one waiver, in force or not, and the time.

        :raises NotFound: when there is none
        """
        with self._begin() as c:
            return WAIVERS.get(c, waiver_id), database_time(c)

    @transient
    def waivers(
        self, page: Page, in_force: bool | None = None, **filters: str
    ) -> tuple[Sequence[Waiver], datetime.datetime]:
        """Return one page of waivers, and the time; see :meth:`Timed.page`."""
        with self._begin() as c:
            return WAIVERS.page(c, page, in_force, filters)

    @transient
    def waivers_in_force(self, project_id: str = "") -> tuple[Waiver, ...]:
        """Return the waivers that hold now for a project, or, with none given, for every project."""
        with self._begin() as c:
            return WAIVERS.in_force(c, database_time(c), t.waivers.c.project_id.in_({"", project_id}))

    @transient
    def withdraw_waiver(self, waiver_id: str, user_id: str) -> Waiver:
        """End a waiver now; see :meth:`Timed.end`."""
        with self._begin() as c:
            return WAIVERS.end(c, waiver_id, user_id)
