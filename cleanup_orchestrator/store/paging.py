"""Pages of listings: a limit, a marker and an order.

A page is read in two statements. The first one finds the ids. If an index has the order, it reads no more rows than the
page has. Otherwise the database sorts ids, and not whole rows. The second one reads the rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
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

    @property
    def order(self) -> tuple[tuple[str, str], ...]:
        """The order of all rows: ``created_at`` and the id decide between rows that sort alike.

        They have the direction of the last column: no database reads an index forwards for one column and backwards for
        another.
        """
        named, way = dict(self.sort), self.sort[-1][1]
        further = () if "id" in named else ("created_at", "id")
        return (*self.sort, *((name, way) for name in further if name not in named))


def paged(
    c: Connection, rows: sa.Select[Any], table: sa.Table, where: Iterable[sa.ColumnElement[bool]], page: Page, noun: str
) -> list[Row[Any]]:
    """Return the rows of one page.

    :param rows: the query for all rows, whose first column is the id
    :param where: which rows the listing has
    :param noun: what a row is, for the error message
    :raises NotFound: when the marker does not exist
    """
    query = sa.select(table.c.id).where(*where)
    if page.marker is not None:
        marker = c.execute(sa.select(table).where(table.c.id == page.marker)).first()
        if marker is None:
            raise NotFound(f"no {noun} has the id of the marker: {page.marker}")
        query = query.where(_after(c.dialect.name, table, page.order, marker))
    ids = c.scalars(
        query.order_by(*(getattr(table.c[name], way)() for name, way in page.order)).limit(page.limit)
    ).all()
    by_id = {row[0]: row for row in c.execute(rows.where(table.c.id.in_(ids))).all()} if ids else {}
    return [by_id[id_] for id_ in ids if id_ in by_id]


def _after(dialect: str, table: sa.Table, order: Sequence[tuple[str, str]], marker: Row[Any]) -> sa.ColumnElement[bool]:
    """Return the condition that a row sorts after the marker.

    In one direction, SQLite and PostgreSQL find the first row of the page in the index if whole rows are compared.
    """
    ways = {way for _name, way in order}
    if len(ways) == 1 and dialect in ("sqlite", "postgresql"):
        here = sa.tuple_(*(table.c[name] for name, _way in order))
        there = sa.tuple_(*(getattr(marker, name) for name, _way in order))
        return here > there if ways == {"asc"} else here < there
    clauses = []
    for index, (name, way) in enumerate(order):
        same = [table.c[n] == getattr(marker, n) for n, _ in order[:index]]
        value = getattr(marker, name)
        clauses.append(sa.and_(*same, table.c[name] > value if way == "asc" else table.c[name] < value))
    first, way = order[0]
    value = getattr(marker, first)
    # The other databases find the first value of the page in the index.
    return sa.and_(table.c[first] >= value if way == "asc" else table.c[first] <= value, sa.or_(*clauses))
