"""Rows that are in force until they are ended or expire: liens and waivers."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.holds import Lien, Waiver
from cleanup_orchestrator.store.database import database_time
from cleanup_orchestrator.store.errors import NotFound
from cleanup_orchestrator.store.paging import Page, paged

T = TypeVar("T", Lien, Waiver)


@dataclasses.dataclass(frozen=True)
class Expiring(Generic[T]):
    """A table of such rows.

    Each method works within the caller's transaction. No row is ever deleted.
    """

    noun: str  #: for messages
    table: sa.Table
    record: Callable[[Any], T]  #: makes a record of a row

    def holds(self, now: datetime.datetime) -> sa.ColumnElement[bool]:
        """Return the condition that a row is in force."""
        expires_at = self.table.c.expires_at
        return sa.and_(self.table.c.deleted_at.is_(None), sa.or_(expires_at.is_(None), expires_at > now))

    def add(self, c: Connection, new: T) -> T:
        """Insert a row; ``created_at`` becomes the database's time.

        The row is in force from the commit on. A row with this id is returned as it is: an earlier attempt was
        committed, and its answer was lost.
        """
        if row := c.execute(sa.select(self.table).where(self.table.c.id == new.id)).first():
            return self.record(row)
        new = dataclasses.replace(new, created_at=database_time(c))
        c.execute(self.table.insert(), [dataclasses.asdict(new)])
        return new

    def get(self, c: Connection, id_: str) -> T:
        """Return one record, in force or not.

        :raises NotFound: when it does not exist
        """
        row = c.execute(sa.select(self.table).where(self.table.c.id == id_)).first()
        if row is None:
            raise NotFound(f"no {self.noun} has the id {id_}")
        return self.record(row)

    def page(
        self, c: Connection, page: Page, in_force: bool | None, filters: Mapping[str, str]
    ) -> tuple[Sequence[T], datetime.datetime]:
        """Return one page of records, and the time for which ``in_force`` holds.

        :param in_force: only those in force, or only the others; ``None``: all
        :param filters: column: value
        :raises NotFound: when the marker does not exist
        """
        now = database_time(c)
        where = [self.table.c[name] == value for name, value in filters.items()]
        if in_force is not None:
            where.append(self.holds(now) if in_force else sa.not_(self.holds(now)))
        rows = paged(c, sa.select(self.table), self.table, where, page, self.noun)
        return [self.record(row) for row in rows], now

    def in_force(self, c: Connection, now: datetime.datetime, about: sa.ColumnElement[bool]) -> tuple[T, ...]:
        """Return the records in force that meet a condition, the oldest first."""
        order = self.table.c.created_at, self.table.c.id
        query = sa.select(self.table).where(about, self.holds(now)).order_by(*order)
        return tuple(self.record(row) for row in c.execute(query))

    def end(self, c: Connection, id_: str, user_id: str) -> T:
        """End a record now; one that was ended before is returned as it is.

        :raises NotFound: when it does not exist
        """
        mine = sa.and_(self.table.c.id == id_, self.table.c.deleted_at.is_(None))
        c.execute(self.table.update().where(mine).values(deleted_at=database_time(c), deleted_by=user_id))
        return self.get(c, id_)
