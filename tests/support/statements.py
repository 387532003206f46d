"""Counts what an engine of SQLAlchemy sends to its database."""

from __future__ import annotations

import collections
import contextlib
import re
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+[`\"]?(\w+)", re.IGNORECASE)

#: Drivers that send no rollback when no transaction is open.
_SILENT = ("sqlite", "postgresql")


class Statements:
    """The number of statements of each kind, such as ``UPDATE steps`` or ``COMMIT``.

    A commit, a rollback and the check of a pooled connection count, too, because each is a round trip.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.kinds: collections.Counter[str] = collections.Counter()
        self.deadlocks = 0
        dialect: Any = engine.dialect
        self._name = str(dialect.name)
        sa.event.listen(engine, "before_cursor_execute", self._statement)
        sa.event.listen(engine, "handle_error", self._error)
        for method, kind in (("do_commit", "COMMIT"), ("do_rollback", "ROLLBACK"), ("do_ping", "PING")):
            setattr(dialect, method, self._counting(getattr(dialect, method), kind))

    @property
    def total(self) -> int:
        """The number of all statements."""
        return sum(self.kinds.values())

    @contextlib.contextmanager
    def of(self) -> Iterator[list[str]]:
        """Yield a list that has, at the end of the block, the statements that were sent in it."""
        before, sent = self.kinds.copy(), list[str]()
        yield sent
        sent += sorted((self.kinds - before).elements())

    def _counting(self, real: Any, kind: str) -> Any:
        def counted(connection: Any) -> Any:
            if kind != "ROLLBACK" or self._name not in _SILENT or _open(connection):
                self.kinds[kind] += 1
            return real(connection)

        return counted

    def _statement(self, _connection: Any, _cursor: Any, sql: str, *_: Any) -> None:
        verb, found = sql.split(None, 1)[0].upper(), _TABLE.search(_without_subqueries(sql))
        locking = " FOR UPDATE" if sql.rstrip().endswith("FOR UPDATE") else ""
        if verb != "BEGIN":  # other drivers send it unseen
            self.kinds[f"{verb} {found[1] if found else 'time'}{locking}"] += 1

    def _error(self, context: Any) -> None:
        if "deadlock" in str(context.original_exception).lower():
            self.deadlocks += 1


def _without_subqueries(sql: str) -> str:
    """Return a statement without what is in parentheses."""
    while (shorter := re.sub(r"\([^()]*\)", "", sql)) != sql:
        sql = shorter
    return sql


def _open(connection: Any) -> bool:
    """Whether a transaction is open on a connection of SQLite or psycopg."""
    inside = getattr(connection, "in_transaction", None)
    if inside is not None:
        return bool(inside)
    return bool(connection.pgconn.transaction_status)  # 0: idle
