"""Rows that hold from when they are recorded until somebody ends them, or their time does: liens and waivers."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.holds import Lien, Waiver
from cleanup_orchestrator.store.database import NotFound, Page, database_time, paged

T = TypeVar("T", Lien, Waiver)


@dataclasses.dataclass(frozen=True)
class Expiring(Generic[T]):
    """One table of them. Each method works within the caller's transaction; no row is ever deleted."""

    noun: str  #: for messages
    table: sa.Table
    record: Callable[[Any], T]  #: makes a record of a row

    def holds(self, now: datetime.datetime) -> sa.ColumnElement[bool]:
        """Return the condition that a row is in force."""
        expires_at = self.table.c.expires_at
        return sa.and_(self.table.c.deleted_at.is_(None), sa.or_(expires_at.is_(None), expires_at > now))

    def add(self, c: Connection, new: T) -> T:
        """Record one; ``created_at`` becomes the database's time. From the commit on it is in force."""
        if row := c.execute(sa.select(self.table).where(self.table.c.id == new.id)).first():
            return self.record(row)  # it was saved, and the connection broke before we heard so
        new = dataclasses.replace(new, created_at=database_time(c))
        c.execute(self.table.insert(), [dataclasses.asdict(new)])
        return new

    def get(self, c: Connection, id_: str) -> T:
        """Return one, in force or not.

        :raises NotFound: when there is none
        """
        row = c.execute(sa.select(self.table).where(self.table.c.id == id_)).first()
        if row is None:
            raise NotFound(f"no {self.noun} has the id {id_}")
        return self.record(row)

    def page(
        self, c: Connection, page: Page, in_force: bool | None, filters: dict[str, str]
    ) -> tuple[Sequence[T], datetime.datetime]:
        """Return one page of them, and the time that ``in_force`` was judged by.

        :param in_force: whether they hold now; ``None``: does not matter
        :param filters: column: value
        :raises NotFound: when the marker does not exist
        """
        now = database_time(c)
        query = sa.select(self.table).where(*(self.table.c[name] == value for name, value in filters.items()))
        if in_force is not None:
            query = query.where(self.holds(now) if in_force else sa.not_(self.holds(now)))
        return [self.record(row) for row in c.execute(paged(c, self.table, query, page, self.noun))], now

    def in_force(self, c: Connection, now: datetime.datetime, about: sa.ColumnElement[bool]) -> tuple[T, ...]:
        """Return those of a kind that hold, the oldest first."""
        order = self.table.c.created_at, self.table.c.id
        query = sa.select(self.table).where(about, self.holds(now)).order_by(*order)
        return tuple(self.record(row) for row in c.execute(query))

    def end(self, c: Connection, id_: str, user_id: str) -> T:
        """End one now; one that somebody has ended already is returned as it is.

        :raises NotFound: when there is none
        """
        mine = sa.and_(self.table.c.id == id_, self.table.c.deleted_at.is_(None))
        c.execute(self.table.update().where(mine).values(deleted_at=database_time(c), deleted_by=user_id))
        return self.get(c, id_)
