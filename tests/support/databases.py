"""Databases of tests: at head without rows (``database_url``, ``filled``), or without any table (``database``).

The servers are those of CLEANUP_TEST_POSTGRESQL_URL and CLEANUP_TEST_MARIADB_URL, by default the ones on loopback. A
test without its server is skipped with the reason; where CI is set it fails, so that no test is skipped silently.

A schema is made once per process. On SQLite each test gets a copy of the migrated file. On a server the process keeps
the migrated databases that its tests have returned, without their rows: with other load on two cores it takes 10 ms to
delete the rows, and more than a second to create a database from a template and to drop it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import tempfile
import time
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import tenacity
from sqlalchemy import exc

from cleanup_orchestrator.store import tables

KINDS = ("sqlite", "postgresql", "mariadb")
#: For ``parametrize`` and ``params``: what needs a server has the marker ``real``.
EACH_KIND = [pytest.param(kind, marks=() if kind == "sqlite" else pytest.mark.real) for kind in KINDS]

SERVERS = {
    "postgresql": ("CLEANUP_TEST_POSTGRESQL_URL", "postgresql+psycopg://postgres@127.0.0.1/postgres"),
    "mariadb": ("CLEANUP_TEST_MARIADB_URL", "mysql+pymysql://root@127.0.0.1/test"),
}

#: Seconds to wait for a free connection of a server that has reached its limit.
PATIENCE = 120

#: A process id is unique on one host only.
_PREFIX = f"cleanup_test_{zlib.crc32(socket.gethostname().encode()):08x}_"
_NAME = re.compile(rf"{_PREFIX}(\d+)_\w+")
_LIMIT = re.compile("too many (clients|connections)|remaining connection slots|max_user_connections", re.IGNORECASE)
_LIST = {"postgresql": "SELECT datname FROM pg_database", "mariadb": "SHOW DATABASES"}
#: How many others are connected to the database.
_OTHERS = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "mariadb": "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
}


def _migrate(url: str) -> None:
    """Create the tables. Few tests need a database, and to import the migrations takes more than a second."""
    from cleanup_orchestrator.cmd import manage

    manage.upgrade(url)


def _at_limit(error: BaseException) -> bool:
    return _LIMIT.search(str(error)) is not None


_patient = tenacity.retry(
    retry=tenacity.retry_if_exception(_at_limit),
    wait=tenacity.wait_random(0.1, 1),
    stop=tenacity.stop_after_delay(PATIENCE),
    reraise=True,
)


@sa.event.listens_for(sa.Engine, "do_connect")
def _connect(dialect: Any, _record: Any, arguments: Any, parameters: dict[str, Any]) -> Any:
    """Connect to a test's database; wait while the server has no free connection."""
    name = parameters.get("dbname") or parameters.get("database") or parameters.get("db")
    return _patient(dialect.connect)(*arguments, **parameters) if str(name).startswith(_PREFIX) else None


def _new_name() -> str:
    return f"{_PREFIX}{os.getpid()}_{uuid.uuid4().hex[:12]}"


def _left_behind(name: str) -> bool:
    """Whether the process that made this database is dead."""
    found = _NAME.fullmatch(name)
    return found is not None and not Path(f"/proc/{found[1]}").exists()


def _url(kind: str, name: str | None = None) -> sa.URL:
    variable, default = SERVERS[kind]
    url = sa.make_url(os.environ.get(variable) or default)
    return url.set(database=name) if name else url


@_patient
def _administer(kind: str, statement: str) -> list[Any]:
    timeout = {"connect_timeout": 5}
    engine = sa.create_engine(_url(kind), poolclass=sa.NullPool, isolation_level="AUTOCOMMIT", connect_args=timeout)
    try:
        with engine.connect() as connection:
            result = connection.exec_driver_sql(statement)
            return list(result.scalars()) if result.returns_rows else []
    finally:
        engine.dispose()


def _create(kind: str) -> str:
    name = _new_name()
    _administer(kind, f"CREATE DATABASE {name}" + (" CHARACTER SET utf8mb4" if kind == "mariadb" else ""))
    return name


def _drop(kind: str, name: str) -> None:
    _administer(kind, f"DROP DATABASE IF EXISTS {name}" + (" WITH (FORCE)" if kind == "postgresql" else ""))


#: Why a server cannot be used, or ""; asked once.
_unusable: dict[str, str] = {}


def need_server(kind: str) -> None:
    """Skip or fail the test without such a server; at its first use drop what killed runs have left on it."""
    if kind not in _unusable:
        try:
            names = _administer(kind, _LIST[kind])
            _unusable[kind] = ""
        except (exc.SQLAlchemyError, ImportError) as error:
            line = " ".join(str(getattr(error, "orig", error)).split())
            _unusable[kind] = f"no {kind} server to test with (set {SERVERS[kind][0]}): {line}"
        else:
            for name in filter(_left_behind, names):
                with contextlib.suppress(exc.SQLAlchemyError):  # another process drops it at the same time
                    _drop(kind, name)
    if why := _unusable[kind]:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(why)


class _Migrated:
    """A migrated database on a server, which one test after the other uses."""

    def __init__(self, kind: str) -> None:
        self.kind, self.name = kind, _create(kind)
        self.url = _url(kind, self.name).render_as_string(hide_password=False)
        _migrate(self.url)
        if kind == "postgresql":  # no test kills this server: a commit need not wait for the disk
            _administer(kind, f"ALTER DATABASE {self.name} SET synchronous_commit = off")
        self._engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        self._connection = self._engine.connect()

    def clear(self) -> bool:
        """Delete all rows; False if a connection of its last user stays open: that one could still write."""
        deadline = time.monotonic() + 5
        while True:
            with self._connection.begin():
                if not self._connection.exec_driver_sql(_OTHERS[self.kind]).scalar_one():
                    for table in reversed(tables.metadata.sorted_tables):
                        self._connection.exec_driver_sql(f"DELETE FROM {table.name}")
                    return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)

    def drop(self) -> None:
        self._connection.close()
        _drop(self.kind, self.name)


class _Schemas:
    """The migrated databases of this process."""

    def __init__(self) -> None:
        self._free: dict[str, list[_Migrated]] = {kind: [] for kind in SERVERS}
        self._folder: Path | None = None

    def folder(self) -> Path:
        """Return the folder for SQLite files: in memory where there is room, so that no commit waits for a disk."""
        if self._folder is None:
            memory = Path("/dev/shm")
            roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**25
            if roomy:
                for old in filter(lambda path: _left_behind(path.name), memory.iterdir()):
                    shutil.rmtree(old, ignore_errors=True)
            self._folder = (memory if roomy else Path(tempfile.gettempdir())) / _new_name()
            self._folder.mkdir()
        return self._folder

    def copy(self, path: Path) -> None:
        """Copy the migrated file."""
        template = self.folder() / "template.sqlite"
        if not template.exists():
            _migrate(f"sqlite:///{template}")
        shutil.copyfile(template, path)

    @contextlib.contextmanager
    def lend(self, kind: str) -> Iterator[str]:
        free = self._free[kind]
        lent = free.pop() if free else _Migrated(kind)
        try:
            yield lent.url
        finally:
            cleared = False
            with contextlib.suppress(exc.SQLAlchemyError):
                cleared = lent.clear()
            if cleared:
                free.append(lent)
            else:
                lent.drop()

    def close(self) -> None:
        for free in self._free.values():
            while free:
                with contextlib.suppress(exc.SQLAlchemyError):
                    free.pop().drop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


_schemas = _Schemas()


def copy_schema(path: Path) -> str:
    """Make a SQLite file at head; return its URL."""
    _schemas.copy(path)
    return f"sqlite:///{path}"


@contextlib.contextmanager
def filled(kind: str) -> Iterator[str]:
    """Yield the URL of a migrated database without rows that no other test uses at the same time."""
    if kind != "sqlite":
        need_server(kind)
        with _schemas.lend(kind) as url:
            yield url
        return
    path = _schemas.folder() / f"{_new_name()}.sqlite"
    try:
        yield copy_schema(path)
    finally:
        for end in ("", "-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)


@contextlib.contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a new database without tables; drop the database at the end."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / _new_name()}.sqlite"
        return
    need_server(kind)
    name = _create(kind)
    try:
        yield _url(kind, name).render_as_string(hide_password=False)
    finally:
        _drop(kind, name)


@pytest.fixture(params=EACH_KIND)
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database at head without rows, once on each kind."""
    with filled(request.param) as url:
        yield url


@pytest.fixture(params=EACH_KIND)
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without any table, once on each kind."""
    with database(request.param, tmp_path) as url:
        yield url


@pytest.fixture(autouse=True, scope="session")
def drop_databases() -> Iterator[None]:
    """At the end drop the databases that this process has kept."""
    yield
    _schemas.close()
