"""Pages of listings: a limit, a marker and an order."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from cleanup_orchestrator.store.errors import NotFound


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """Which part of a listing is wanted.

    ``marker`` is the id of the last item of the page before.
    """

    limit: int
    marker: str | None = None
    sort: tuple[tuple[str, str], ...] = (("created_at", "desc"),)  #: (column, ``asc`` or ``desc``)


def paged(c: Connection, table: sa.Table, query: sa.Select[Any], page: Page, noun: str) -> sa.Select[Any]:
    """Return the query for one page; the id decides between rows that sort alike.

    :param noun: what a row is, for the error message
    :raises NotFound: when the marker does not exist
    """
    sort = [*page.sort] + ([("id", "asc")] if "id" not in dict(page.sort) else [])
    if page.marker is not None:
        marker = c.execute(sa.select(table).where(table.c.id == page.marker)).first()
        if marker is None:
            raise NotFound(f"no {noun} has the id of the marker: {page.marker}")
        query = query.where(_after(table, sort, marker))
    return query.order_by(*(getattr(table.c[name], way)() for name, way in sort)).limit(page.limit)


def _after(table: sa.Table, sort: Sequence[tuple[str, str]], marker: Row[Any]) -> sa.ColumnElement[bool]:
    """Return the condition that a row sorts after the marker, column by column."""
    clauses = []
    for index, (name, way) in enumerate(sort):
        same = [table.c[n] == getattr(marker, n) for n, _ in sort[:index]]
        value = getattr(marker, name)
        clauses.append(sa.and_(*same, table.c[name] > value if way == "asc" else table.c[name] < value))
    return sa.or_(*clauses)
