"""Implements ``cleanup-orchestrator-manage``.

The command creates, upgrades and checks the database schema, purges old records, makes the orchestrator's users in
Keystone, and checks plugins and services that speak the project resources protocol.

It is the only module that imports alembic. ``cmd.schema`` has what the other processes need of the schema.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import sys
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.command import revision as write_revision
from alembic.command import upgrade as run_migrations
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from oslo_config import cfg

from cleanup_orchestrator import store
from cleanup_orchestrator.cmd import arguments, cloud_setup, plugin_check, protocol_check, report
from cleanup_orchestrator.cmd.schema import (
    PROG,
    PROJECT,
    ManageError,
    connect,
    current_revision,
    head,
    line,
    migrations,
    require,
    revisions,
    state,
)
from cleanup_orchestrator.store import retention, tables


def _alembic(connection: sa.Connection | None = None) -> Config:
    """Return alembic's configuration, on a connection if it runs migrations."""
    config = Config()
    config.set_main_option("script_location", str(migrations()).replace("%", "%%"))
    config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    config.attributes["connection"] = connection
    return config


def upgrade(url: str, revision: str = "head") -> tuple[str | None, str | None]:
    """Upgrade the schema, or create it; return the revisions before and after.

    :raises ManageError: when the revision is not known, or earlier than that of the database: there is no downgrade
    """
    with connect(url, exclusive=True) as connection:
        config = _alembic(connection)
        before = current_revision(connection)
        try:
            wanted = ScriptDirectory.from_config(config).get_revision(revision)
        except CommandError as error:
            raise ManageError(f"unknown revision {revision!r}; see: {PROG} db history") from error
        after = wanted.revision if wanted else None
        order = revisions()
        if order.index(after) > order.index(before):
            raise ManageError(f"the database is at revision {before}: there is no downgrade; restore a backup")
        if after is not None:
            run_migrations(config, after)
        return before, current_revision(connection)


def drift(url: str) -> list[str]:
    """Return the differences between the database's schema and this release's."""
    with connect(url) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return [_difference(entry) for entry in compare_metadata(context, tables.metadata)]


def _difference(entry: object) -> str:
    # alembic returns a tuple for each object to add or remove, and a list of tuples for one to modify.
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
    # Each transaction removes a part: others wait only for that, and an interruption loses nothing that is done.
    while True:
        with connect(url) as connection:
            removed = retention.purge(connection, age, args.named)
        if not removed:
            break
        total.update(removed)
        print(f"removed {_rows(total)} so far", file=sys.stderr)
    print(f"removed {_rows(total)}")
    return 0


def _rows(numbers: Mapping[str, int]) -> str:
    """Return the numbers of rows as text."""
    told = [f"{number} {name}" for name, number in numbers.items() if number]
    return ", ".join(told) or "nothing"


def _days(text: str) -> int:
    """Return the number of days that an argument names; argparse reports the error."""
    if not text.isdecimal() or int(text) < 1 or int(text) > 100 * 366:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days above 0")
    return int(text)


def _db_revision(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    folder = migrations()
    if folder.name != "alembic":
        raise ManageError("a migration is written in a checkout, not in an installed wheel")
    number = f"{len(revisions()):04}"
    with connect(conf.database.connection, exclusive=True) as connection:
        try:
            script = write_revision(_alembic(connection), args.message, autogenerate=True, rev_id=number)
        except CommandError as error:
            raise ManageError(line(error)) from error
    print(f"wrote {getattr(script, 'path', folder)}; check it before you use it")
    return 0


#: What ``add_subparsers`` returns.
_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _parser() -> argparse.ArgumentParser:
    common = arguments.parent()

    def add(parent: _Commands, name: str, text: str, example: str) -> argparse.ArgumentParser:
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
        description="Manage the database and the cloud of cleanup-orchestrator, and check plugins and services.",
        epilog=f"example: {PROG} db upgrade",
    )
    nouns = parser.add_subparsers(dest="noun", required=True, metavar="db|cloud|plugin|protocol|report")
    database = add(nouns, "db", "manage the schema and old records; there is no downgrade", "db upgrade")
    verbs = database.add_subparsers(dest="verb", required=True, metavar="upgrade|current|history|check|purge|revision")

    one = add(verbs, "upgrade", "create the schema, or bring it to a newer revision", "db upgrade")
    one.add_argument("revision", nargs="?", default="head", metavar="REVISION", help="default: the newest (head)")
    one.set_defaults(run=_db_upgrade)
    one = add(verbs, "current", "show the revision that the database is at", "db current")
    one.set_defaults(run=_db_current)
    one = add(verbs, "history", "list the revisions that this release has, newest first", "db history")
    one.set_defaults(run=_db_history)
    one = add(verbs, "check", "compare the schema of the database with that of this release", "db check")
    one.set_defaults(run=_db_check)
    one = add(
        verbs,
        "purge",
        "delete the records of deletions and orphan scans that ended long ago; liens and waivers stay",
        "db purge --age 400 --dry-run",
    )
    one.add_argument("--age", type=_days, required=True, metavar="DAYS", help="minimum days since the end")
    one.add_argument("--dry-run", action="store_true", help="only print how many rows would be deleted")
    one.add_argument(
        "--named",
        action="store_true",
        help="also records that name resources which may still exist: those that ended with leftovers, failed, or "
        "abandoned resources by force. They cannot be retried afterwards. A record stays while its project is locked",
    )
    one.set_defaults(run=_db_purge)
    one = add(verbs, "revision", "write a new migration (in a checkout)", 'db revision -m "add waivers"')
    one.add_argument("-m", "--message", required=True, help="a short description")
    one.set_defaults(run=_db_revision)

    cloud = add(
        nouns, "cloud", "make the orchestrator's users and its entry in the catalog", cloud_setup.BOOTSTRAP_EXAMPLE
    )
    verbs = cloud.add_subparsers(dest="verb", required=True, metavar="bootstrap|remove")
    one = add(
        verbs,
        "bootstrap",
        "make the users, roles, service and endpoints that are missing, and print the configuration. It changes "
        "nothing that it has not made, and can be run again, such as after a domain was made. Exit codes: "
        "0: all is there, 1: something was refused, or an error, 2: a wrong command line",
        cloud_setup.BOOTSTRAP_EXAMPLE,
    )
    cloud_setup.add_bootstrap_arguments(one)
    one.set_defaults(run=cloud_setup.bootstrap)
    one = add(
        verbs,
        "remove",
        "remove what cloud bootstrap made, and nothing else. It is refused while deletions are unfinished",
        cloud_setup.REMOVE_EXAMPLE,
    )
    cloud_setup.add_remove_arguments(one)
    one.set_defaults(run=cloud_setup.remove)

    plugin = add(nouns, "plugin", "check plugins; needs no database", plugin_check.EXAMPLE)
    verbs = plugin.add_subparsers(dest="verb", required=True, metavar="check")
    one = add(
        verbs,
        "check",
        "check a plugin against the contract, and on a cloud without any write call. Exit codes: 0: no rule failed, "
        "1: a rule failed, or an error, 2: a wrong command line",
        plugin_check.EXAMPLE,
    )
    plugin_check.add_arguments(one)
    one.set_defaults(run=plugin_check.run)

    protocol = add(
        nouns, "protocol", "check services that speak the protocol; needs no database", protocol_check.EXAMPLE
    )
    verbs = protocol.add_subparsers(dest="verb", required=True, metavar="check")
    one = add(verbs, "check", "check a service against the rules of the protocol", protocol_check.EXAMPLE)
    protocol_check.add_arguments(one)
    one.set_defaults(run=protocol_check.run)

    reports = add(nouns, "report", "check the reports of deletions, and print what auditors need", report.EXAMPLE)
    verbs = reports.add_subparsers(dest="verb", required=True, metavar="verify|keys|head")
    one = add(
        verbs,
        "verify",
        "check the signature, the journal and the conclusions of a report; needs no database and no configuration. "
        "Exit codes: 0: it proves a deletion and is signed by a given key, 1: something is wrong, or an error, 2: a "
        "wrong command line, 3: all agrees, but no given key has signed it, 4: all agrees, but it proves no deletion",
        report.EXAMPLE,
    )
    report.add_verify_arguments(one)
    one.set_defaults(run=report.run_verify)
    one = add(verbs, "keys", "print the public keys with which auditors check reports, as JWKS", "report keys")
    one.set_defaults(run=report.run_keys)
    one = add(verbs, "head", "print the length and the digest of a journal, also of a purged one", "report head ID")
    one.add_argument("deletion", metavar="ID", help="ID of the deletion")
    one.set_defaults(run=report.run_head)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    conf = cfg.ConfigOpts()
    if args.noun == "plugin":
        plugin_check.expect_valid(args, parser.error)
    for group, options in store.OPTS.items():
        conf.register_opts(options, group=group)
    try:
        # A check needs no configuration, so it reads only what the command line names.
        alone = args.noun in ("plugin", "protocol") or args.run is report.run_verify
        defaults: dict[str, list[str]] = {"default_config_files": [], "default_config_dirs": []} if alone else {}
        conf(arguments.sources(argv), project=PROJECT, prog=PROG, **defaults)
        code: int = args.run(conf, args)
        return code
    except (ManageError, cfg.Error) as error:
        print(f"{PROG}: {line(error)}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
