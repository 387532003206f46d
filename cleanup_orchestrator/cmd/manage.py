"""``cleanup-orchestrator-manage``: create, upgrade and check the schema of the database, and forget old records.

The migrations are the folder ``alembic/`` of a checkout; a wheel carries the same folder as
``cleanup_orchestrator/migrations``. :func:`upgrade` and :func:`state` are also what the all-in-one process and
``cleanup-orchestrator-status`` use.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from oslo_config import cfg
from sqlalchemy import exc

from cleanup_orchestrator import store
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.store import retention, tables

PROJECT = "cleanup-orchestrator"
PROG = "cleanup-orchestrator-manage"

#: Which extra brings which driver.
_EXTRAS = {"psycopg": "postgresql", "psycopg2": "postgresql", "pymysql": "mysql", "MySQLdb": "mysql"}

#: Two upgrades at once (three controllers, one playbook) do the work once; seconds that the second one waits.
_LOCK_WAIT = 600
_LOCK_KEY = 0x636C6E75


class ManageError(CleanupError):
    """Why a command could not be done, in one line for the operator."""

    code = "manage_error"


def migrations() -> Path:
    """Return the folder with the migrations: inside an installed wheel, else beside the package in the checkout."""
    package = Path(str(resources.files("cleanup_orchestrator")))
    installed, checkout = package / "migrations", package.parent / "alembic"
    for folder in (installed, checkout):
        if (folder / "env.py").is_file():
            return folder
    raise ManageError(f"no migrations at {installed} or {checkout}: the installation is not complete")


def _alembic(connection: sa.Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations()).replace("%", "%%"))
    config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    config.attributes["connection"] = connection
    return config


@contextlib.contextmanager
def connect(url: str, *, exclusive: bool = False) -> Iterator[sa.Connection]:
    """Give a connection with a transaction on it; commit it at the end.

    :param url: SQLAlchemy's
    :param exclusive: keep every other process that asks for the same waiting
    :raises ManageError: whatever goes wrong with the database, in one line without the password
    """
    try:
        parsed = sa.make_url(url)
        sqlite = parsed.get_backend_name() == "sqlite"
        if sqlite and not exclusive and _file_is_missing(parsed.database):
            # Only asking must not leave an empty file behind, owned by whoever asked.
            raise ManageError(f"database {parsed} does not exist yet; run: {PROG} db upgrade")
        engine = sa.create_engine(
            parsed, poolclass=sa.NullPool, connect_args={"timeout": _LOCK_WAIT if exclusive else 30} if sqlite else {}
        )
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(error.name or "")
        hint = f": pip install '{PROJECT}[{extra}]'" if extra else ""
        raise ManageError(f"the database driver {error.name!r} is not installed{hint}") from error
    except exc.SQLAlchemyError as error:
        raise ManageError(f"[database] connection is no usable URL: {_line(error)}") from error
    try:
        with engine.begin() as connection:
            if exclusive:
                _lock(connection)
            yield connection
    except exc.DBAPIError as error:
        shown = parsed.render_as_string(hide_password=True)
        raise ManageError(f"database {shown}: {_line(error.orig or error)}") from error
    except exc.SQLAlchemyError as error:
        raise ManageError(f"database {parsed.render_as_string(hide_password=True)}: {_line(error)}") from error
    finally:
        engine.dispose()


def _file_is_missing(path: str | None) -> bool:
    return bool(path) and path != ":memory:" and not path.startswith("file:") and not Path(path).exists()


def _line(error: BaseException) -> str:
    """Return an error's own words as one line; drivers put the errno first, and hints on further lines."""
    text = error.args[1] if len(error.args) == 2 and isinstance(error.args[0], int) else str(error)
    return " ".join(str(text).split()) or type(error).__name__


def _lock(connection: sa.Connection) -> None:
    match connection.dialect.name:
        case "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        case "mysql" | "mariadb":
            # Its DDL commits by itself, so the lock is the session's. The name is the server's: make it the database's.
            got = connection.scalar(
                sa.text("SELECT GET_LOCK(SHA1(CONCAT(:key, DATABASE())), :wait)"), {"key": PROJECT, "wait": _LOCK_WAIT}
            )
            if got != 1:
                raise ManageError("another upgrade is running on this database and does not end")
        case "sqlite":
            # Python's driver begins no transaction before DDL: without this a half-done migration would stay.
            connection.exec_driver_sql("BEGIN IMMEDIATE")


def _revisions() -> list[str | None]:
    """Return the revisions that this release has, newest first; ``None``, no schema, is the oldest."""
    found = [script.revision for script in ScriptDirectory.from_config(_alembic()).walk_revisions()]
    if not found:
        raise ManageError(f"no migrations in {migrations()}: the installation is not complete")
    return [*found, None]


def _current(connection: sa.Connection) -> str | None:
    current = MigrationContext.configure(connection).get_current_revision()
    if current not in _revisions():
        raise ManageError(f"the database is at revision {current}, of a newer release than this one")
    return current


def head() -> str:
    """Return the newest revision that this release has."""
    newest = _revisions()[0]
    assert newest is not None
    return newest


def state(url: str) -> tuple[str | None, str]:
    """Return the revision of the database (``None``: it has no schema) and the newest one that this release has.

    :raises ManageError: when it cannot be read, or is of a newer release
    """
    with connect(url) as connection:
        return _current(connection), head()


def require(conf: cfg.ConfigOpts) -> None:
    """Let nobody go on but with a database at the newest revision.

    :raises ManageError: when the database does not answer, or has another schema
    """
    current, newest = state(conf.database.connection)
    if current != newest:
        raise ManageError(f"the database is at {current or 'nothing'}, head is {newest}; run: {PROG} db upgrade")


def upgrade(url: str, revision: str = "head") -> tuple[str | None, str | None]:
    """Bring the schema to ``revision``, from nothing or from any earlier one; return the revisions before and after.

    :raises ManageError: when the revision is not known, or is earlier than the database's (there is no way back)
    """
    with connect(url, exclusive=True) as connection:
        config = _alembic(connection)
        before = _current(connection)
        try:
            wanted = ScriptDirectory.from_config(config).get_revision(revision)
        except CommandError as error:
            raise ManageError(f"unknown revision {revision!r}; see: {PROG} db history") from error
        after = wanted.revision if wanted else None
        order = _revisions()
        if order.index(after) > order.index(before):
            raise ManageError(f"the database is at revision {before}: there is no downgrade; restore a backup")
        if after is not None:
            command.upgrade(config, after)
        return before, _current(connection)


def drift(url: str) -> list[str]:
    """Return what differs between the database and the tables that this release works with; nothing is best."""
    with connect(url) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return [_difference(entry) for entry in compare_metadata(context, tables.metadata)]


def _difference(entry: object) -> str:
    # alembic gives a tuple for a thing that is missing or too much, and a list of tuples for one that is different.
    if isinstance(entry, list):
        return "; ".join(_difference(part) for part in entry)
    assert isinstance(entry, tuple)
    return " ".join(str(part) for part in entry if part is not None and not isinstance(part, dict))


def _db_upgrade(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    before, after = upgrade(conf.database.connection, args.revision)
    print(
        f"at revision {after}, nothing to do" if before == after else f"upgraded from {before or 'nothing'} to {after}"
    )
    return 0


def _db_current(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    current, newest = state(conf.database.connection)
    if current is None:
        print(f"no schema yet; run: {PROG} db upgrade")
    else:
        print(f"{current} (head)" if current == newest else f"{current}, head is {newest}; run: {PROG} db upgrade")
    return 0


def _db_history(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    newest = head()
    for script in ScriptDirectory.from_config(_alembic()).walk_revisions():
        mark = " (head)" if script.revision == newest else ""
        print(f"{script.revision}{mark}: {script.doc}")
    return 0


def _db_check(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    require(conf)
    differences = drift(conf.database.connection)
    for difference in differences:
        print(difference)
    if differences:
        raise ManageError(f"the database differs from what this release works with, in {len(differences)} places")
    print(f"{head()} (head), no differences")
    return 0


def _db_purge(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    require(conf)
    url, age = conf.database.connection, datetime.timedelta(days=args.age)
    if args.dry_run:
        with connect(url) as connection:
            print(f"would remove {_rows(retention.count(connection, age, args.named))}")
        return 0
    total: collections.Counter[str] = collections.Counter()
    while True:  # a transaction for some of them: nobody waits long, and what is done is done when this is stopped
        with connect(url) as connection:
            removed = retention.purge(connection, age, args.named)
        if not removed:
            break
        total.update(removed)
        print(f"removed {_rows(total)} so far", file=sys.stderr)
    print(f"removed {_rows(total)}")
    return 0


def _rows(numbers: Mapping[str, int]) -> str:
    told = [f"{number} {name}" for name, number in numbers.items() if number]
    return ", ".join(told) or "nothing"


def _days(text: str) -> int:
    if not text.isdecimal() or int(text) < 1 or int(text) > 100 * 366:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days above 0")
    return int(text)


def _db_revision(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    folder = migrations()
    if folder.name != "alembic":
        raise ManageError("a migration is written in a checkout, not in an installed wheel")
    number = f"{len(_revisions()):04}"
    with connect(conf.database.connection, exclusive=True) as connection:
        try:
            script = command.revision(_alembic(connection), args.message, autogenerate=True, rev_id=number)
        except CommandError as error:
            raise ManageError(_line(error)) from error
    print(f"wrote {getattr(script, 'path', folder)}; read it before you trust it")
    return 0


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--config-file",
        action="append",
        metavar="PATH",
        default=argparse.SUPPRESS,
        help="configuration file, may be repeated (default: /etc/cleanup-orchestrator/cleanup-orchestrator.conf)",
    )
    common.add_argument(
        "--config-dir",
        action="append",
        metavar="PATH",
        default=argparse.SUPPRESS,
        help="folder with configuration files, may be repeated",
    )

    def add(parent: argparse._SubParsersAction, name: str, text: str, example: str) -> argparse.ArgumentParser:
        return parent.add_parser(
            name,
            parents=[common],
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=f"example: {PROG} {example}",
        )

    parser = argparse.ArgumentParser(
        prog=PROG,
        parents=[common],
        description="Manage the database of cleanup-orchestrator.",
        epilog=f"example: {PROG} db upgrade",
    )
    nouns = parser.add_subparsers(dest="noun", required=True, metavar="db")
    database = add(nouns, "db", "look after the schema and old records; there is no downgrade", "db upgrade")
    verbs = database.add_subparsers(dest="verb", required=True, metavar="upgrade|current|history|check|purge|revision")

    one = add(verbs, "upgrade", "create the schema, or bring it to a newer revision", "db upgrade")
    one.add_argument("revision", nargs="?", default="head", metavar="REVISION", help="default: the newest (head)")
    one.set_defaults(run=_db_upgrade)
    one = add(verbs, "current", "show the revision that the database is at", "db current")
    one.set_defaults(run=_db_current)
    one = add(verbs, "history", "list the revisions that this release has, newest first", "db history")
    one.set_defaults(run=_db_history)
    one = add(verbs, "check", "compare the database with what this release works with", "db check")
    one.set_defaults(run=_db_check)
    one = add(
        verbs,
        "purge",
        "forget deletions and orphan scans that ended long ago, with their journals; liens and waivers stay",
        "db purge --age 400 --dry-run",
    )
    one.add_argument("--age", type=_days, required=True, metavar="DAYS", help="that long ago at least")
    one.add_argument("--dry-run", action="store_true", help="only say how many rows would go")
    one.add_argument(
        "--named",
        action="store_true",
        help="also records that name something that is left: ended with leftovers, failed, let go by force. Those that "
        "can still be retried cannot be then; what a project was locked with and has not been given back stays",
    )
    one.set_defaults(run=_db_purge)
    one = add(verbs, "revision", "write a new migration (in a checkout)", 'db revision -m "add waivers"')
    one.add_argument("-m", "--message", required=True, help="what it does, in a few words")
    one.set_defaults(run=_db_revision)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    args = _parser().parse_args(argv)
    sources = [f"--config-file={path}" for path in getattr(args, "config_file", ())]
    sources += [f"--config-dir={path}" for path in getattr(args, "config_dir", ())]
    conf = cfg.ConfigOpts()
    for group, options in store.OPTS.items():
        conf.register_opts(options, group=group)
    try:
        conf(sources, project=PROJECT, prog=PROG)
        return args.run(conf, args)
    except (ManageError, cfg.Error) as error:
        print(f"{PROG}: {_line(error)}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
