"""A rolling upgrade: the schema first, then one process after the other, while those of the release before go on."""

import configparser
import datetime
import re
import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

from cleanup_orchestrator import opts
from cleanup_orchestrator.cmd import manage, schema
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.service import OPTS
from cleanup_orchestrator.store import Store, tables
from tests.support.stores import save
from tests.unit import world

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "doc" / "source" / "admin" / "upgrade.rst").read_text()

#: A value for a column of each type. All ids are the same, so that each row refers to the others.
VALUES = {
    sa.String: "x",
    sa.Text: "é \U0001f5d1",
    sa.JSON: {"a": ["é", 1, None]},
    sa.Boolean: True,
    sa.Integer: 7,
    sa.BigInteger: 2**40,
    sa.DateTime: datetime.datetime(2026, 1, 2, 3, 4, 5, 678901),
}


@pytest.fixture
def run(tmp_path, capsys):
    """Run a ``db`` command on a URL, which must succeed; return its output."""

    def command(url, *arguments):
        path = tmp_path / "manage.conf"
        path.write_text(f"[database]\nconnection = {url}\n")
        code = manage.main(["--config-file", str(path), "db", *arguments])
        said = capsys.readouterr()
        assert (code, said.err) == (0, "")
        return said.out

    return command


@pytest.fixture
def next_release(tmp_path):
    """Let this process be one of the next release, with a column, a table and an index more, and a wider column."""
    folder = tmp_path / "alembic"
    shutil.copytree(ROOT / "alembic", folder, ignore=shutil.ignore_patterns("__pycache__"))
    metadata = sa.MetaData(naming_convention=tables.metadata.naming_convention)
    for table in tables.metadata.sorted_tables:
        table.to_metadata(metadata)
    deletions = metadata.tables["deletions"]
    deletions.append_column(sa.Column("mood", sa.String(64), nullable=False, server_default="calm"))
    deletions.c.reason.type = sa.String(128)
    sa.Index("ix_deletions_mood", deletions.c.mood)
    sa.Table("moods", metadata, sa.Column("id", sa.String(64), sa.ForeignKey("deletions.id"), primary_key=True))

    def install(patch):
        for module in (manage, schema):
            patch.setattr(module, "migrations", lambda: folder)
        patch.setattr(tables, "metadata", metadata)

    return install


def test_the_next_revision_keeps_all_rows_and_the_release_before_works_on(
    empty_database_url, run, next_release, monkeypatch
):
    """The migration is written as the manual says, and applied to a database with rows in each table."""
    url, first = empty_database_url, schema.head()
    manage.upgrade(url)
    store = Store.from_url(url)
    made = store.create(world.deletion(), TASKS, Event("deletion.accepted", "before"))
    fill(store.database.engine)
    before, loaded = rows(store.database.engine), store.load(made.id)
    assert set(before) == set(tables.metadata.tables) and all(before.values())

    with monkeypatch.context() as patch:
        next_release(patch)
        assert "check it before you use it" in run(url, "revision", "-m", "Moods")
        following = schema.head()
        assert following != first
        assert run(url, "upgrade") == f"upgraded from {first} to {following}\n"
        assert run(url, "check") == f"{following} (head), no differences\n"

    assert rows(store.database.engine) == before
    assert store.load(made.id)[:2] == loaded[:2]
    new = store.create(world.deletion(id="new", project_id="other"), TASKS, Event("deletion.accepted", "after"))
    assert save(store, new, new).version > new.version
    with store.database.engine.connect() as connection:
        assert set(connection.scalars(sa.text("SELECT mood FROM deletions"))) == {"calm"}
    store.close()
    with pytest.raises(manage.ManageError, match="of a newer release"):  # it would not start again
        schema.state(url)


def fill(engine):
    """Insert a row into each table."""
    with engine.begin() as connection:
        for table in tables.metadata.sorted_tables:
            given = (column for column in table.c if column is not table.autoincrement_column)
            connection.execute(table.insert(), [{column.name: value(column.type) for column in given}])


def value(type_):
    return next(found for kind in type(type_).__mro__ for of, found in VALUES.items() if of is kind)


def rows(engine):
    """Return what is in each table, as this release reads it."""
    with engine.connect() as connection:
        found = {name: connection.execute(sa.select(table)).all() for name, table in tables.metadata.tables.items()}
    return {name: sorted(map(repr, read)) for name, read in found.items()}


def mutable():
    return {f"[{group}] {one.dest}" for group, options in opts.list_opts() for one in options if one.mutable}


def test_the_manual_names_what_may_change_at_run_time():
    table = PAGE.partition("These options can change without a restart:")[2].partition("Everything else")[0]
    assert set(re.findall(r"\* - ``(\[\S+\] \w+)``", table)) == mutable() | {
        "[DEFAULT] debug"
    }  # that one is oslo.log's


@pytest.mark.parametrize("part", ["api", "engine", "worker"])
def test_the_units_reload_and_wait_longer_than_the_processes_take_to_stop(part):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(ROOT / "etc" / "systemd" / f"cleanup-orchestrator-{part}.service")
    service = unit["Service"]
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["Restart"] == "always"
    (patience,) = (one.default for one in OPTS["DEFAULT"] if one.dest == "graceful_stop_timeout")
    assert int(service["TimeoutStopSec"]) >= patience + 20
