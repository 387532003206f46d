"""Deletions: created, listed, loaded for a decision, and saved with it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc as sa_exc
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import approvals
from cleanup_orchestrator.core.deletion import Child, Deletion, Status
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import Step, StepKind
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.store import guard, queries, records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import Repository, database_time, new_id
from cleanup_orchestrator.store.errors import AlreadyUnderWay, Conflict
from cleanup_orchestrator.store.journal import write_journal
from cleanup_orchestrator.store.leftovers import abandon_leftovers
from cleanup_orchestrator.store.paging import Page, paged
from cleanup_orchestrator.store.plans import cascades_before, in_order
from cleanup_orchestrator.store.plugin_liens import end_liens_of
from cleanup_orchestrator.store.queue import ahead_of, next_ones
from cleanup_orchestrator.store.transient import retry_duplicate, retry_transient


class Deletions(Repository):
    """Reads and writes deletions.

    A deletion is saved only if its ``version`` is the one that was read.
    """

    def create(self, deletion: Deletion, kinds: Iterable[StepKind], event: Event) -> Deletion:
        """Record a new deletion with its deletion-wide steps; see :meth:`create_all`."""
        return self.create_all([(deletion, event)], kinds)[0]

    def create_all(self, wanted: Sequence[tuple[Deletion, Event]], kinds: Iterable[StepKind]) -> tuple[Deletion, ...]:
        """Record new deletions, all or none.

        Each is recorded with its deletion-wide steps and its first journal line. The database's time replaces their
        times.

        :raises AlreadyUnderWay: when one of the projects has a live deletion
        """
        made = self._create_all(wanted, tuple(kinds))
        for deletion in made:
            self._database.listeners.deletion_saved(None, deletion)
        return made

    @retry_transient
    @retry_duplicate  # the deletion that was in the way may have ended before it is read
    def _create_all(
        self, wanted: Sequence[tuple[Deletion, Event]], kinds: tuple[StepKind, ...]
    ) -> tuple[Deletion, ...]:
        made = []
        try:
            with self._database.begin() as c:
                if any(approvals.counts(deletion) for deletion, _event in wanted):
                    in_order(c)
                now = database_time(c)
                for deletion, event in wanted:
                    deletion = dataclasses.replace(
                        deletion, created_at=now, updated_at=now, status_at=now, progress_at=now, wake_at=now
                    )
                    c.execute(t.deletions.insert(), [records.deletion_values(deletion)])
                    rows = [
                        records.step_values(Step(id=new_id(), deletion_id=deletion.id, kind=kind)) for kind in kinds
                    ]
                    c.execute(t.steps.insert(), rows)
                    write_journal(c, deletion.id, now, [event])
                    made.append(deletion)
        except sa_exc.IntegrityError:
            for deletion, _event in wanted:
                if existing := self.live(deletion.project_id):
                    if existing.id == deletion.id:  # an earlier attempt was committed, and its answer was lost
                        return tuple(self.get(each.id) for each, _event in wanted)
                    raise AlreadyUnderWay(existing) from None
            raise
        return tuple(made)

    @retry_transient
    def get(self, deletion_id: str) -> Deletion:
        """Return one deletion.

        :raises NotFound: when it does not exist
        """
        with self._database.begin() as c:
            return queries.get_deletion(c, deletion_id)

    @retry_transient
    def live(self, project_id: str) -> Deletion | None:
        """Return the live deletion of a project, if there is one."""
        with self._database.begin() as c:
            row = c.execute(records.select_deletions().where(t.deletions.c.live_project_id == project_id)).first()
            return records.deletion(row) if row else None

    @retry_transient
    def page(self, page: Page, attention: bool | None = None, **filters: Any) -> list[Deletion]:
        """Return one page of deletions.

        :param attention: only those that need an operator, or only the others; ``None``: all
        :param filters: column=value; a list or tuple means "any of"
        :raises NotFound: when the marker does not exist
        """
        table = t.deletions
        query = records.select_deletions()
        for name, value in filters.items():
            column = table.c[name]
            query = query.where(column.in_(value) if isinstance(value, list | tuple) else column == value)
        if attention is not None:
            asking = records.needs_attention()
            query = query.where(asking if attention else sa.not_(asking))
        with self._database.begin() as c:
            return [records.deletion(row) for row in c.execute(paged(c, table, query, page, "deletion")).all()]

    @retry_transient
    def due(self, limit: int = 100) -> list[str]:
        """Return the ids of live deletions that are due, the most overdue first."""
        table = t.deletions
        with self._database.begin() as c:
            query = (
                sa.select(table.c.id)
                .where(table.c.live_project_id.is_not(None), table.c.wake_at <= database_time(c))
                .order_by(table.c.wake_at)
                .limit(limit)
            )
            return [row.id for row in c.execute(query)]

    @retry_transient
    def next_ones(self, limit: int) -> list[str]:
        """Return the ids of the oldest deletions that have not begun, or are just beginning."""
        with self._database.begin() as c:
            return next_ones(c, limit)

    @retry_transient
    def load(self, deletion_id: str) -> tuple[Deletion, tuple[Step, ...], datetime.datetime]:
        """Return a deletion, all its steps, and the time, as of one transaction.

        The deletion has its children, and the liens and the brake in force.

        :raises NotFound: when it does not exist
        """
        with self._database.begin() as c:
            deletion, now = queries.get_deletion_now(c, deletion_id)
            if deletion.include_subtree:
                deletion = dataclasses.replace(deletion, children=_children(c, deletion_id))
            if deletion.status is Status.ACCEPTED and approvals.counts(deletion):
                deletion = dataclasses.replace(deletion, cascades_before=cascades_before(c, deletion))
            steps = queries.steps_of(c, deletion_id)
            if deletion.status is Status.ACCEPTED:
                deletion = dataclasses.replace(deletion, ahead=ahead_of(c, deletion, now))
            return guard.with_holds(c, deletion, now), steps, now

    def save(
        self,
        before: Deletion,
        after: Deletion,
        steps: Iterable[Step] = (),
        events: Sequence[Event] = (),
        abandoned: Iterable[str] = (),
    ) -> Deletion:
        """Save a decision: the deletion, its changed steps and its journal lines.

        All of it is saved, or nothing.

        :param abandoned: ids of the steps whose leftovers are abandoned by force: each leftover is marked, and named
            in the journal
        :raises Conflict: when the deletion or a step has changed since it was read
        :raises AlreadyUnderWay: when it would become live, and the project has another live deletion
        """
        saved, liens = self._save(before, after, tuple(steps), events, tuple(abandoned))
        for lien in liens:
            self._database.listeners.lien_changed(lien)
        self._database.listeners.deletion_saved(before, saved)
        return saved

    @retry_transient
    def _save(
        self,
        before: Deletion,
        after: Deletion,
        steps: Sequence[Step],
        events: Sequence[Event],
        abandoned: Sequence[str],
    ) -> tuple[Deletion, list[Lien]]:
        """Save a decision; return the deletion, and the liens that ended with it."""
        try:
            with self._database.begin() as c:
                return _write_decision(c, before, after, steps, events, abandoned)
        except sa_exc.IntegrityError:
            existing = self.live(after.project_id)
            if existing is None and after.status in LIVE and before.status not in LIVE:
                raise Conflict(f"another deletion of project {after.project_id} ended at this moment") from None
            if existing is None or existing.id == before.id:
                raise
            raise AlreadyUnderWay(existing) from None


def _write_decision(
    c: Connection,
    before: Deletion,
    after: Deletion,
    steps: Sequence[Step],
    events: Sequence[Event],
    abandoned: Sequence[str],
) -> tuple[Deletion, list[Lien]]:
    now = database_time(c)
    after = dataclasses.replace(after, version=before.version + 1)
    key = {"known_id": before.id, "known_version": before.version}
    result = c.execute(queries.UPDATE_DELETION, records.deletion_values(after) | key)
    if result.rowcount != 1:
        raise Conflict(f"deletion {before.id} changed meanwhile")
    for step in steps:
        values = records.step_values(dataclasses.replace(step, version=step.version + 1))
        result = c.execute(queries.UPDATE_STEP, values | {"known_id": step.id, "known_version": step.version})
        if result.rowcount != 1:
            raise Conflict(f"step {step.id} changed meanwhile")
    write_journal(c, before.id, now, events)
    for step_id in abandoned:
        write_journal(c, before.id, now, abandon_leftovers(c, step_id))
    # A plugin's lien belongs to one deletion: the next deletion, or a retry, checks the resources again.
    ends = before.has_holds and before.status in LIVE and after.status not in LIVE
    return after, end_liens_of(c, before, queries.steps_of(c, before.id), now) if ends else []


def _children(c: Connection, deletion_id: str) -> tuple[Child, ...]:
    table = t.deletions
    query = sa.select(table.c.id, table.c.project_id, table.c.status, table.c.status_at)
    rows = c.execute(query.where(table.c.parent_deletion_id == deletion_id).order_by(table.c.project_id))
    return tuple(records.child(row) for row in rows)
