"""The fixture ``database_url``: an empty database of its own for each test, on all three kinds.

The servers are those of CLEANUP_TEST_POSTGRESQL_URL and CLEANUP_TEST_MARIADB_URL, by default the ones on loopback. A
server that is not there skips the test with the reason; where CI is set it fails it: in CI nothing is silently skipped.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

KINDS = ("sqlite", "postgresql", "mariadb")

SERVERS = {
    "postgresql": ("CLEANUP_TEST_POSTGRESQL_URL", "postgresql+psycopg://postgres@127.0.0.1/postgres"),
    "mariadb": ("CLEANUP_TEST_MARIADB_URL", "mysql+pymysql://root@127.0.0.1/test"),
}

#: Why a server cannot be used; asked once.
_unreachable: dict[str, str] = {}


def _administer(kind: str, statement: str) -> None:
    variable, default = SERVERS[kind]
    url = sa.make_url(os.environ.get(variable) or default)
    timeout = {"connect_timeout": 5}
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT", connect_args=timeout)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
    finally:
        engine.dispose()


@contextlib.contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """Give the URL of an empty database of its own, and drop it at the end."""
    name = f"cleanup_test_{uuid.uuid4().hex}"
    if kind == "sqlite":
        yield f"sqlite:///{folder / name}.sqlite"
        return
    if kind not in _unreachable:
        try:
            _administer(kind, "SELECT 1")
            _unreachable[kind] = ""
        except (exc.SQLAlchemyError, ImportError) as error:
            line = " ".join(str(getattr(error, "orig", error)).split())
            _unreachable[kind] = f"no {kind} server to test with (set {SERVERS[kind][0]}): {line}"
    if why := _unreachable[kind]:
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    variable, default = SERVERS[kind]
    url = sa.make_url(os.environ.get(variable) or default).set(database=name)
    _administer(kind, f"CREATE DATABASE {name}" + (" CHARACTER SET utf8mb4" if kind == "mariadb" else ""))
    try:
        yield url.render_as_string(hide_password=False)
    finally:
        _administer(kind, f"DROP DATABASE {name}" + (" WITH (FORCE)" if kind == "postgresql" else ""))


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database, once on each kind."""
    with database(request.param, tmp_path) as url:
        yield url
