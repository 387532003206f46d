"""Leftovers: resources that a step could not delete, or that a dry run noted."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import storable
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import ROWS, Repository
from cleanup_orchestrator.store.transient import retry_transient


@dataclasses.dataclass(frozen=True, slots=True)
class LeftoverRow:
    """A stored leftover with its place."""

    row: int
    region: str
    service: str
    type: str
    leftover: Leftover


@dataclasses.dataclass(frozen=True, slots=True)
class BlockedResources:
    """Leftovers of one type with one reason: their number, and the first of them."""

    number: int
    first: Sequence[Leftover]


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectLeftover:
    """A stored leftover with its place, its deletion and its project."""

    row: LeftoverRow
    deletion_id: str
    project_id: str
    project_name: str
    domain_id: str


class Leftovers(Repository):
    """Reads leftovers; steps write them with their results."""

    @retry_transient
    def page(
        self,
        deletion_id: str,
        limit: int,
        marker: int | None = None,
        reasons: Collection[Reason] = frozenset(Reason) - {Reason.KEPT},
        **filters: str | bool,
    ) -> Sequence[LeftoverRow]:
        """Return one page of leftovers in the order in which they were found.

        :param marker: the row after which the page begins
        :param reasons: only leftovers with one of these. By default not ``KEPT``: a dry run notes what would be kept
        :param filters: column=value
        """
        query = sa.select(t.leftovers).where(t.leftovers.c.deletion_id == deletion_id)
        query = query.where(t.leftovers.c.reason.in_(sorted(map(str, reasons))))
        for name, value in filters.items():
            query = query.where(t.leftovers.c[name] == value)
        if marker is not None:
            query = query.where(t.leftovers.c.id > marker)
        with self._database.read() as c:
            rows = c.execute(query.order_by(t.leftovers.c.id).limit(limit)).all()
        return [_with_place(row) for row in rows]

    @retry_transient
    def of_all_projects(
        self, limit: int, marker: int | None = None, domain_id: str | None = None, **filters: str | bool
    ) -> Sequence[ProjectLeftover]:
        """Return one page of what the latest deletion of each project left, in the order in which it was found.

        What a dry run found, or what was left when a deletion was cancelled, is left out: the project still uses it.
        Resources that are deleted with their project are not left after its deletion has ended.

        :param marker: the row after which the page begins
        :param domain_id: only of projects of this domain
        :param filters: column=value
        """
        table, d = t.leftovers.c, t.deletions.c
        query = sa.select(t.leftovers, d.project_id, d.project_name, d.domain_id).join(
            t.deletions, d.id == table.deletion_id
        )
        with self._database.read() as c:
            # Only ids are read first: the filter decides which rows the database reads, and in which index.
            ids = _ids_of_all_projects(c.dialect.name, domain_id)
            ids = ids.where(*(table[name] == value for name, value in filters.items()))
            if marker is not None:
                ids = ids.where(table.id > marker)
            page_ids = c.scalars(ids.order_by(table.id).limit(limit)).all()
            rows = c.execute(query.where(table.id.in_(page_ids)).order_by(table.id)).all() if page_ids else []
        return [
            ProjectLeftover(_with_place(row), row.deletion_id, row.project_id, row.project_name, row.domain_id)
            for row in rows
        ]

    @retry_transient
    def blocked(
        self, deletion_id: str, places: Collection[tuple[str, str, str, str]], limit: int
    ) -> dict[tuple[str, str, str], BlockedResources]:
        """Return the leftovers of each type that are left for a reason, and how many there are.

        :param places: region, service, type, and the reason of the leftovers that are read
        :param limit: of the leftovers that are returned for each type
        """
        blocked: dict[tuple[str, str, str], BlockedResources] = {}
        columns, number = t.leftovers.c, sa.func.count().over().label("number")
        with self._database.read() as c:
            for *place, reason in places:
                where = sa.tuple_(columns.region, columns.service, columns.type) == tuple(place)
                query = sa.select(t.leftovers, number).where(columns.deletion_id == deletion_id, where)
                rows = c.execute(query.where(columns.reason == reason).order_by(columns.id).limit(limit)).all()
                if rows:
                    found = BlockedResources(rows[0].number, tuple(map(records.leftover, rows)))
                    blocked[place[0], place[1], place[2]] = found
        return blocked


def _ids_of_all_projects(dialect: str, domain_id: str | None) -> sa.Select[Any]:
    """Return the query for the ids of what :meth:`Leftovers.of_all_projects` lists."""
    table, d = t.leftovers.c, t.deletions.c
    # With the project go the resources that were only named. The others are still there.
    stays = sa.or_(d.status != str(Status.DELETED), table.reason != str(Reason.INFORMATIONAL))
    listed = sa.select(sa.literal_column("1")).where(
        *(d.id == table.deletion_id, d.dry_run.is_(False), d.status != str(Status.CANCELLED), stays),
        *(sa.not_(records.superseded()), *([] if domain_id is None else [d.domain_id == domain_id])),
    )
    if dialect != "postgresql":
        return sa.select(table.id).where(listed.exists())
    # With OFFSET, PostgreSQL keeps the answer for a deletion, and passes fast over the rows of a large dry run.
    each = listed.correlate(t.leftovers).offset(0).lateral("listed")
    return sa.select(table.id).select_from(t.leftovers.join(each, sa.true()))


def _with_place(row: sa.Row[Any]) -> LeftoverRow:
    return LeftoverRow(row.id, row.region, row.service, row.type, records.leftover(row))


def abandoned_leftovers(c: Connection, step: Step) -> dict[str, Leftover]:
    """Return the leftovers of a step that were abandoned by force, by resource id."""
    if not step.abandoned:
        return {}
    query = sa.select(t.leftovers).where(t.leftovers.c.step_id == step.id, t.leftovers.c.abandoned)
    return {row.resource_id: records.leftover(row) for row in c.execute(query)}


def abandon_leftovers(c: Connection, step_id: str) -> list[Event]:
    """Mark the leftovers of a step as abandoned; return the journal lines.

    Each line names up to 100 of them.
    """
    mine = t.leftovers.c.step_id == step_id
    c.execute(t.leftovers.update().where(mine).values(abandoned=True))
    rows = c.execute(sa.select(t.leftovers).where(mine).order_by(t.leftovers.c.id)).all()
    events = []
    for start in range(0, len(rows), 100):
        chunk = rows[start : start + 100]
        where = {"region": chunk[0].region, "service": chunk[0].service, "type": chunk[0].type}
        named = [
            {"id": r.resource_id, "name": r.name, "owner": r.owner, "reason": r.reason, "remedy": r.remedy}
            for r in chunk
        ]
        text = f"{chunk[0].service}.{chunk[0].type}: {len(chunk)} abandoned by force"
        events.append(Event(EventType.RESOURCE_ABANDONED, text, data={**where, "resources": named}))
    return events


def replace_leftovers(c: Connection, step: Step, leftovers: Sequence[Leftover], has_leftovers: bool) -> None:
    """Replace the leftovers of a step by those of its new result.

    A result of unknown outcome leaves the abandoned ones on record: the step could not see whether they still exist.

    :param has_leftovers: whether leftovers of the step are on record
    """
    stale = t.leftovers.c.step_id == step.id
    if step.outcome is Outcome.UNKNOWN and step.abandoned:
        stale &= t.leftovers.c.abandoned.is_(False)
    if has_leftovers and len(leftovers) > ROWS:
        leftovers = _without_unchanged(c, stale, leftovers)
    elif has_leftovers:
        c.execute(t.leftovers.delete().where(stale))
    for start in range(0, len(leftovers), ROWS):
        rows = [_row(step, leftover) for leftover in leftovers[start : start + ROWS]]
        c.execute(t.leftovers.insert(), rows)


def _without_unchanged(
    c: Connection, before: sa.ColumnElement[bool], leftovers: Sequence[Leftover]
) -> Sequence[Leftover]:
    """Delete the rows that do not say what one of the leftovers says; return the leftovers without a row.

    Of a long list, a sweep changes a small part.

    :param before: the condition for the rows
    """
    new: dict[str, Leftover] = {}
    twice = []
    for leftover in leftovers:
        if new.setdefault(storable.resource_id(leftover.id), leftover) is not leftover:
            twice.append(leftover)
    stale = []
    for row in c.execute(sa.select(t.leftovers).where(before).execution_options(yield_per=ROWS)):
        same = new.get(row.resource_id)
        if same is not None and _says(row, same):
            del new[row.resource_id]
        else:
            stale.append(row.id)
    for start in range(0, len(stale), ROWS):
        c.execute(t.leftovers.delete().where(t.leftovers.c.id.in_(stale[start : start + ROWS])))
    return [*new.values(), *twice]


def _says(row: sa.Row[Any], leftover: Leftover) -> bool:
    """Whether a row says what a leftover says."""
    stored = row._mapping
    return all(stored[name] == value for name, value in _own(leftover).items())


def _row(step: Step, leftover: Leftover) -> dict[str, Any]:
    return {
        "deletion_id": step.owner_id,
        "step_id": step.id,
        "region": step.region,
        "service": step.service,
        "type": step.type,
        "resource_id": storable.resource_id(leftover.id),
        **_own(leftover),
    }


def _own(leftover: Leftover) -> dict[str, Any]:
    """Return the columns of a leftover apart from its place and id."""
    return {
        "name": storable.resource_name(leftover.name),
        "reason": str(leftover.reason),
        "message": storable.text(leftover.message),
        "blocked_by": [records.plain(dict(b)) for b in leftover.blocked_by],
        "abandoned": leftover.abandoned,
        "owner": storable.text(leftover.owner)[:64],
        "remedy": storable.text(leftover.remedy),
        "announced": leftover.announced,
        "size": leftover.size,
        "objects": leftover.objects,
    }
