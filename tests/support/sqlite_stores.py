"""The real store over an empty SQLite database that is copied, and not made table by table, for each test."""

from __future__ import annotations

import functools
import pathlib
import sqlite3
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from cleanup_orchestrator.store import Database, Store, tables
from cleanup_orchestrator.store.database import sqlite_begin, sqlite_connect


@functools.cache
def _template() -> bytes:
    """Return an empty database with all tables."""
    engine = sa.create_engine("sqlite://", poolclass=StaticPool)
    tables.metadata.create_all(engine)
    connection = engine.raw_connection().driver_connection
    assert isinstance(connection, sqlite3.Connection)
    return connection.serialize()


def _fill(connection: sqlite3.Connection, _record: Any) -> None:
    connection.deserialize(_template())


@functools.cache
def _engine() -> sa.Engine:
    engine = sa.create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    sa.event.listen(engine, "connect", _fill)
    sa.event.listen(engine, "connect", sqlite_connect)
    sa.event.listen(engine, "begin", sqlite_begin)
    return engine


def in_memory() -> Store:
    """Return an empty store in memory, for one thread of the operating system.

    All share one engine, for it keeps the statements that it has compiled: the next call empties the store that the
    call before returned.
    """
    _engine().dispose()
    return Store(Database(_engine()))


def in_file(path: pathlib.Path) -> Store:
    """Return an empty store in a new file, for several threads and processes."""
    path.write_bytes(_template())
    return Store.from_url(f"sqlite:///{path}")
