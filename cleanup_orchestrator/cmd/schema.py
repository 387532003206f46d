"""Compares the revision of the database with the newest one of this release.

Each process calls :func:`require` when it starts, and ``cleanup-orchestrator-status`` calls :func:`state`. This module
does without alembic, which takes a fifth of a second to import: it reads the revision from alembic's table, and the
order of the revisions from the sources of the migrations. The migrations are the folder ``alembic/`` of a checkout. A
wheel contains the same folder as ``cleanup_orchestrator/migrations``.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy import exc

from cleanup_orchestrator.errors import CleanupError

PROJECT = "cleanup-orchestrator"
PROG = "cleanup-orchestrator-manage"

#: Driver: the extra of this package that installs it.
_EXTRAS = {"psycopg": "postgresql", "psycopg2": "postgresql", "pymysql": "mysql", "MySQLdb": "mysql"}

#: Seconds that an upgrade waits for another one to end, as when a playbook upgrades several controllers at once.
_LOCK_WAIT = 600
#: The key of PostgreSQL's advisory lock.
_LOCK_KEY = 0x636C6E75


class ManageError(CleanupError):
    """A command failed; the text is one line for the operator."""

    code = "manage_error"


def migrations() -> Path:
    """Return the folder of the migrations.

    It is in the installed package, or else in the checkout.
    """
    package = Path(str(resources.files("cleanup_orchestrator")))
    installed, checkout = package / "migrations", package.parent / "alembic"
    for folder in (installed, checkout):
        if (folder / "env.py").is_file():
            return folder
    raise ManageError(f"no migrations at {installed} or {checkout}: the installation is not complete")


@contextlib.contextmanager
def connect(url: str, *, exclusive: bool = False) -> Iterator[sa.Connection]:
    """Return a connection with a transaction, which is committed at the end.

    :param url: as in ``[database] connection``
    :param exclusive: hold a lock, for which other processes with ``exclusive`` wait
    :raises ManageError: when the database reports an error; the text does not contain the password
    """
    try:
        parsed = sa.make_url(url)
        sqlite = parsed.get_backend_name() == "sqlite"
        if sqlite and not exclusive and _file_is_missing(parsed.database):
            # SQLite would create an empty file, owned by the user who ran this command.
            raise ManageError(f"database {parsed} does not exist yet; run: {PROG} db upgrade")
        engine = sa.create_engine(
            parsed, poolclass=sa.NullPool, connect_args={"timeout": _LOCK_WAIT if exclusive else 30} if sqlite else {}
        )
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(error.name or "")
        hint = f": pip install '{PROJECT}[{extra}]'" if extra else ""
        raise ManageError(f"the database driver {error.name!r} is not installed{hint}") from error
    except exc.SQLAlchemyError as error:
        raise ManageError(f"[database] connection is no usable URL: {line(error)}") from error
    try:
        with engine.begin() as connection:
            if exclusive:
                _lock(connection)
            yield connection
    except exc.DBAPIError as error:
        shown = parsed.render_as_string(hide_password=True)
        raise ManageError(f"database {shown}: {line(error.orig or error)}") from error
    except exc.SQLAlchemyError as error:
        raise ManageError(f"database {parsed.render_as_string(hide_password=True)}: {line(error)}") from error
    finally:
        engine.dispose()


def _file_is_missing(path: str | None) -> bool:
    if not path or path == ":memory:" or path.startswith("file:"):
        return False
    return not Path(path).exists()


def line(error: BaseException) -> str:
    """Return the message of an error as one line.

    Some drivers put an error number first, which is left out.
    """
    text = error.args[1] if len(error.args) == 2 and isinstance(error.args[0], int) else str(error)
    return " ".join(str(text).split()) or type(error).__name__


def _lock(connection: sa.Connection) -> None:
    """Wait for the lock of upgrades; the transaction or the session holds it."""
    match connection.dialect.name:
        case "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        case "mysql" | "mariadb":
            # DDL commits implicitly, so the lock belongs to the session. The server has one namespace for such locks,
            # so its name contains that of the database.
            got = connection.scalar(
                sa.text("SELECT GET_LOCK(SHA1(CONCAT(:key, DATABASE())), :wait)"), {"key": PROJECT, "wait": _LOCK_WAIT}
            )
            if got != 1:
                raise ManageError("another upgrade is running on this database and does not end")
        case "sqlite":
            # Python's driver begins no transaction before DDL: an interrupted migration would stay half done.
            connection.exec_driver_sql("BEGIN IMMEDIATE")


def revisions() -> list[str | None]:
    """Return the revisions that this release has, newest first.

    ``None``, no schema, is the oldest.

    :raises ManageError: when the migrations are missing, or are not one sequence
    """
    folder = migrations()
    before = dict(_revision(path) for path in sorted((folder / "versions").glob("*.py")))
    if not before:
        raise ManageError(f"no migrations in {folder}: the installation is not complete")
    order: list[str | None] = [None]
    after = {down: revision for revision, down in before.items()}
    while (following := after.get(order[-1])) is not None:
        order.append(following)
    if len(order) != len(before) + 1:
        raise ManageError(f"the migrations in {folder} are not one sequence: the installation is not correct")
    return order[::-1]


def _revision(path: Path) -> tuple[str, str | None]:
    """Return the revision of a migration and the one before it, as its source assigns them."""
    values: dict[str, Any] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            values |= {target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)}
    try:
        return values["revision"], values["down_revision"]
    except KeyError as error:
        raise ManageError(f"migration {path} has no {error}") from None


def current_revision(connection: sa.Connection) -> str | None:
    """Return the revision of the database; ``None``: it has no schema.

    :raises ManageError: when this release does not have that revision
    """
    recorded: list[str | None] = [None]
    if sa.inspect(connection).has_table("alembic_version"):
        recorded = list(connection.scalars(sa.text("SELECT version_num FROM alembic_version"))) or recorded
    if len(recorded) > 1 or recorded[0] not in revisions():
        named = " and ".join(sorted(map(str, recorded)))
        raise ManageError(f"the database is at revision {named}, of a newer release than this one")
    return recorded[0]


def head() -> str:
    """Return the newest revision that this release has."""
    newest = revisions()[0]
    assert newest is not None
    return newest


def state(url: str) -> tuple[str | None, str]:
    """Return the revision of the database and the newest one of this release.

    ``None`` as the first one: the database has no schema.

    :raises ManageError: when the database does not answer, or is of a newer release
    """
    with connect(url) as connection:
        return current_revision(connection), head()


def require(conf: cfg.ConfigOpts) -> None:
    """Check that the database is at the newest revision.

    :raises ManageError: when it is not, or does not answer
    """
    current, newest = state(conf.database.connection)
    if current != newest:
        raise ManageError(f"the database is at {current or 'nothing'}, head is {newest}; run: {PROG} db upgrade")
