"""The journal: what happened to each deletion, in order.

Lines are only ever appended.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import Step
from cleanup_orchestrator.store import guard, records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import Repository
from cleanup_orchestrator.store.transient import retry_transient


@dataclasses.dataclass(frozen=True, slots=True)
class EventRow:
    """A stored journal line."""

    row: int
    at: datetime.datetime
    event: Event


class Journal(Repository):
    """Reads the journal, and appends to it for a step."""

    @retry_transient
    def page(self, deletion_id: str, limit: int, marker: int | None = None, **filters: str) -> Sequence[EventRow]:
        """Return one page of a deletion's journal, the oldest line first.

        :param marker: the row after which the page begins
        :param filters: column=value
        """
        query = sa.select(t.events).where(t.events.c.deletion_id == deletion_id)
        for name, value in filters.items():
            query = query.where(t.events.c[name] == value)
        if marker is not None:
            query = query.where(t.events.c.id > marker)
        with self._database.read() as c:
            rows = c.execute(query.order_by(t.events.c.id).limit(limit)).all()
        return [EventRow(r.id, r.at, Event(r.type, r.message, r.actor, r.data, r.request_id)) for r in rows]

    @retry_transient
    def append(self, step: Step, *events: Event) -> bool:
        """Append lines for a step. ``False``: the step may not write, nothing is saved.

        See :meth:`Steps.may_write`.
        """
        with self._database.begin() as c:
            if (now := guard.may_write(c, step)) is None:
                return False
            write_journal(c, step.deletion_id, now, events)
            return True


def write_journal(c: Connection, deletion_id: str, now: datetime.datetime, events: Sequence[Event]) -> None:
    """Append lines to a deletion's journal."""
    if events:
        c.execute(
            t.events.insert(),
            [
                {
                    "deletion_id": deletion_id,
                    "at": now,
                    "type": e.type,
                    "message": records.text(e.message),
                    "actor": e.actor,
                    "request_id": e.request_id,
                    "data": records.plain(e.data),
                }
                for e in events
            ],
        )
