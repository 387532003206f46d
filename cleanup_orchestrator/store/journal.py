"""The journal: what happened to each deletion, in order.

Lines are only ever appended. They are a hash chain; see :mod:`..core.journal_chain`.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import canonical, journal_chain, storable
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.journal_chain import EMPTY, Head
from cleanup_orchestrator.core.step import Step
from cleanup_orchestrator.store import guard, records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import ROWS, Repository, database_time
from cleanup_orchestrator.store.transient import retry_transient

_LOCK_HEAD = (
    sa.select(t.deletions.c.journal_length, t.deletions.c.journal_digest)
    .where(t.deletions.c.id == sa.bindparam("deletion_id"))
    .with_for_update()
)
_WRITE_HEAD = t.deletions.update().where(t.deletions.c.id == sa.bindparam("written_id"))

_REMEDY = 4000  #: characters of a remedy in a line that may name 100 resources


@dataclasses.dataclass(frozen=True, slots=True)
class EventRow:
    """A stored journal line."""

    row: int
    at: datetime.datetime
    event: Event
    sequence: int  #: from 1, per deletion
    digest: str  #: see ``core.journal_chain``


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectEvent:
    """A stored journal line with its deletion and its project."""

    row: EventRow
    deletion_id: str
    project_id: str
    project_name: str
    domain_id: str


class Journal(Repository):
    """Reads the journal, and appends to it for a step."""

    @retry_transient
    def page(
        self, deletion_id: str, limit: int, marker: int | None = None, resource_id: str | None = None, **filters: str
    ) -> Sequence[EventRow]:
        """Return one page of a deletion's journal, the oldest line first.

        :param marker: the row after which the page begins
        :param resource_id: only lines that name this resource
        :param filters: column=value
        """
        query = sa.select(t.events).where(t.events.c.deletion_id == deletion_id)
        if resource_id is not None:
            r = t.event_resources.c
            named = sa.select(r.event_id).where(r.resource_id == resource_id, r.deletion_id == deletion_id)
            query = query.where(t.events.c.id.in_(named))
        for name, value in filters.items():
            query = query.where(t.events.c[name] == value)
        if marker is not None:
            query = query.where(t.events.c.id > marker)
        with self._database.read() as c:
            rows = c.execute(query.order_by(t.events.c.id).limit(limit)).all()
        return [_event(row) for row in rows]

    @retry_transient
    def of_resource(
        self, resource_id: str, limit: int, marker: int | None = None, domain_id: str | None = None, **filters: str
    ) -> Sequence[ProjectEvent]:
        """Return one page of the lines of all deletions that name a resource, the oldest line first.

        :param marker: the row after which the page begins
        :param domain_id: only of projects of this domain
        :param filters: column=value
        """
        r, d = t.event_resources.c, t.deletions.c
        query = (
            sa.select(t.events, d.project_id, d.project_name, d.domain_id)
            .select_from(t.event_resources)
            .join(t.events, t.events.c.id == r.event_id)
            .join(t.deletions, d.id == r.deletion_id)
            .where(r.resource_id == resource_id, *(t.events.c[name] == value for name, value in filters.items()))
        )
        if domain_id is not None:
            query = query.where(d.domain_id == domain_id)
        if marker is not None:
            query = query.where(r.event_id > marker)
        with self._database.read() as c:
            rows = c.execute(query.order_by(r.event_id).limit(limit)).all()
        return [
            ProjectEvent(_event(row), row.deletion_id, row.project_id, row.project_name, row.domain_id) for row in rows
        ]

    @retry_transient
    def append(self, step: Step, *events: Event) -> bool:
        """Append lines for a step. ``False``: the step may not write, nothing is saved.

        See :func:`guard.may_write`.
        """
        with self._database.begin() as c:
            if (now := guard.may_write(c, step)) is None:
                return False
            write_journal(c, step.owner_id, now, events)
            return True

    @retry_transient
    def note(self, deletion_id: str, event: Event) -> None:
        """Append a line that no step writes and no decision depends on, such as that a notice was sent.

        Without the deletion nothing is written.
        """
        with self._database.begin() as c:
            if c.execute(sa.select(t.deletions.c.id).where(t.deletions.c.id == deletion_id)).first() is not None:
                write_journal(c, deletion_id, database_time(c), [event])


def write_journal(
    c: Connection, deletion_id: str, now: datetime.datetime, events: Sequence[Event], head: Head | None = None
) -> Head:
    """Append lines to a deletion's journal, with the resources that they name; return its new head.

    The row of the deletion has the head. It is locked until the transaction ends, so that no two transactions append
    to the same line. Most callers have locked the row already, as the first one of all; see ``queries.lock_deletion``.

    :param head: as the caller read it since it locked the row; ``None``: the row is locked and read
    """
    if not events:
        return EMPTY if head is None else head
    if head is None:
        head = Head(*c.execute(_LOCK_HEAD, {"deletion_id": deletion_id}).one())
    rows = []
    for event in events:
        head, row = _linked(head, deletion_id, now, event)
        rows.append((row, list(_resources(event))))
    for has_resources, group in itertools.groupby(rows, key=lambda each: bool(each[1])):
        _insert(c, deletion_id, list(group), has_resources)
    c.execute(_WRITE_HEAD, {"written_id": deletion_id, "journal_length": head.length, "journal_digest": head.digest})
    return head


def _insert(c: Connection, deletion_id: str, rows: Sequence[tuple[dict[str, Any], list[str]]], named: bool) -> None:
    """Insert lines that all name resources, or none.

    :param rows: each line with the ids of its resources
    """
    if not named:
        c.execute(t.events.insert(), [row for row, _ids in rows])
        return
    if len(rows) == 1:
        key = c.execute(t.events.insert(), rows[0][0]).inserted_primary_key
        assert key is not None
        ids = [key[0]]
    else:
        c.execute(t.events.insert(), [row for row, _ids in rows])
        # The database has given each line its number, in their order. The lock keeps other lines away.
        e = t.events.c
        latest = sa.select(e.id).where(e.deletion_id == deletion_id).order_by(e.id.desc()).limit(len(rows))
        ids = sorted(c.scalars(latest).all())
    naming = [
        {"event_id": id_, "deletion_id": deletion_id, "resource_id": resource_id}
        for id_, (_row, resource_ids) in zip(ids, rows, strict=True)
        for resource_id in resource_ids
    ]
    for start in range(0, len(naming), ROWS):
        c.execute(t.event_resources.insert(), naming[start : start + ROWS])


def head_of(c: Connection, deletion_id: str) -> tuple[Head, datetime.datetime | None] | None:
    """Return the head of the journal of a deletion, and when its record was purged, if it was.

    ``None``: the database has no such record.
    """
    d, p = t.deletions.c, t.purged_journals.c
    if kept := c.execute(sa.select(d.journal_length, d.journal_digest).where(d.id == deletion_id)).first():
        return Head(*kept), None
    gone = c.execute(sa.select(p.length, p.digest, p.purged_at).where(p.deletion_id == deletion_id)).first()
    return (Head(gone.length, gone.digest), gone.purged_at) if gone else None


def is_written(c: Connection, deletion_id: str, at: datetime.datetime, event: Event) -> bool:
    """Return whether a line is in a deletion's journal, written at this time."""
    e = t.events.c
    query = sa.select(e.id).where(e.deletion_id == deletion_id, e.at == at, e.type == event.type)
    query = query.where(e.actor == event.actor, e.request_id == event.request_id)
    return c.execute(query.limit(1)).first() is not None


def _short_remedy(remedy: str) -> str:
    return remedy[:_REMEDY]


def _linked(head: Head, deletion_id: str, now: datetime.datetime, event: Event) -> tuple[Head, dict[str, Any]]:
    """Return the head of a chain after one more line, and the columns of the line."""
    row = {
        "deletion_id": deletion_id,
        "sequence": head.length + 1,
        "at": now,
        "type": event.type,
        "message": storable.text(event.message),
        "actor": event.actor,
        "request_id": event.request_id,
        "data": canonical.exact(records.plain({**event.data, **_named(event)})),
    }
    head = journal_chain.linked(head, {**row, "type": str(event.type), "at": journal_chain.moment(now)})
    return head, {**row, "digest": head.digest}


def _named(event: Event) -> dict[str, list[dict[str, Any]]]:
    """Return the resources that a line names, under their key.

    With the longest ids, names and remedies of services, a line would be longer than MariaDB takes. The whole remedy is
    in the leftover.
    """
    resources = event.data.get("resources")
    if not isinstance(resources, list):  # an approval has their number
        return {}
    rules = {"id": storable.resource_id, "name": storable.resource_name, "remedy": _short_remedy}
    return {"resources": [each | {key: rules[key](each[key]) for key in rules.keys() & each} for each in resources]}


def _resources(event: Event) -> Iterable[str]:
    """Return the ids of the resources that a line names, each once."""
    return dict.fromkeys(each["id"] for each in _named(event).get("resources", ()) if each.get("id"))


def _event(row: sa.Row[Any]) -> EventRow:
    event = Event(row.type, row.message, row.actor, row.data, row.request_id)
    return EventRow(row.id, row.at, event, row.sequence, row.digest)
