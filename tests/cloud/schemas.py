"""Caches the schemas of the services beside their venv, so that the migrations run once and not at every start.

The migrations of thirteen services take minutes; their cached result is loaded in seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.servers import MariaDB


class Schemas:
    """Databases as the migrations left them, in files of one folder; `made_from` names what they depend on."""

    def __init__(self, folder: pathlib.Path, made_from: str) -> None:
        self.folder = folder
        self.made_from = made_from

    def path(self, commands: Sequence[Sequence[str]], database: str) -> pathlib.Path:
        """Return the path of the cached schema that these commands made."""
        digest = hashlib.sha256(f"{self.made_from} {commands!r}".encode()).hexdigest()[:16]
        return self.folder / f"{database}-{digest}.json"

    def load(self, server: MariaDB, commands: Sequence[Sequence[str]], databases: Sequence[str]) -> bool:
        """Load these empty databases from the cache; return False if they are not cached."""
        kept = [self.path(commands, database) for database in databases]
        if not all(path.exists() for path in kept):
            return False
        for database, path in zip(databases, kept, strict=True):
            with cursor(server, database) as do:
                do.execute("SET foreign_key_checks = 0, unique_checks = 0, sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
                for statement in json.loads(path.read_text()):
                    do.execute(statement)
        return True

    def keep(self, server: MariaDB, commands: Sequence[Sequence[str]], databases: Sequence[str]) -> None:
        """Cache these databases for later clouds."""
        self.folder.mkdir(exist_ok=True)
        for database in databases:
            path = self.path(commands, database)
            partial = path.with_name(f"{path.name}.{server.port}")
            partial.write_text(json.dumps(statements(server, database)))
            partial.rename(path)  # atomically: another cloud may be reading

    def keep_file(self, file: pathlib.Path, kept: pathlib.Path) -> None:
        """Copy a SQLite database, with what is still in its write-ahead log."""
        self.folder.mkdir(exist_ok=True)
        partial = kept.with_name(f"{kept.name}.{os.getpid()}-{threading.get_ident()}")
        with (
            contextlib.closing(sqlite3.connect(file)) as source,
            contextlib.closing(sqlite3.connect(partial)) as target,
        ):
            source.backup(target)
        partial.rename(kept)


@contextlib.contextmanager
def cursor(server: MariaDB, database: str, kind: type | None = None) -> Iterator[Any]:
    """A cursor on one of its databases; each statement is committed at once."""
    import pymysql  # not in the demo's environment, whose cloud has SQLite files only

    connection = pymysql.connect(
        host="127.0.0.1", port=server.port, user="root", database=database, charset="utf8mb4", autocommit=True
    )
    try:
        with connection.cursor(kind) as made:
            yield made
    finally:
        connection.close()


def statements(server: MariaDB, database: str) -> list[str]:
    """Return the statements that create the tables of a database and their rows."""
    found = []
    with cursor(server, database) as do:
        do.execute("SHOW TRIGGERS")
        assert not do.fetchall(), f"{database} has triggers: they would have to be kept, too"
        do.execute("SHOW FULL TABLES")
        tables = do.fetchall()
        assert all(kind == "BASE TABLE" for _, kind in tables), f"{database} has views: they would have to be kept, too"
        for table, _ in tables:
            do.execute(f"SHOW CREATE TABLE `{table}`")
            found.append(do.fetchone()[1])
        for table, _ in tables:
            do.execute(f"SELECT * FROM `{table}`")
            rows = [do.connection.escape(row) for row in do.fetchall()]
            if rows:
                found.append(f"INSERT INTO `{table}` VALUES {', '.join(rows)}")
    return found
