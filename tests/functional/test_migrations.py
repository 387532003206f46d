"""The schema: from nothing to head on all three databases, the same as the tables, and readable errors."""

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.cmd import manage
from cleanup_orchestrator.store import tables
from tests.support import databases


@pytest.fixture
def config(tmp_path):
    """Write a configuration file with this database URL, give its path."""

    def write(url):
        path = tmp_path / "manage.conf"
        path.write_text(f"[database]\nconnection = {url}\n")
        return str(path)

    return write


@pytest.fixture
def run(config, capsys):
    """Run a ``db`` command on a URL; return the exit code, the output and the error output."""

    def command(url, *arguments):
        code = manage.main(["--config-file", config(url), "db", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def test_upgrade_from_nothing_gives_the_tables_and_no_drift(empty_database_url, run):
    head = manage.head()
    assert run(empty_database_url, "upgrade") == (0, f"upgraded from nothing to {head}\n", "")
    assert run(empty_database_url, "current") == (0, f"{head} (head)\n", "")
    assert run(empty_database_url, "check") == (0, f"{head} (head), no differences\n", "")
    assert run(empty_database_url, "upgrade") == (0, f"at revision {head}, nothing to do\n", "")
    engine = sa.create_engine(empty_database_url)
    assert set(sa.inspect(engine).get_table_names()) == {*tables.metadata.tables, "alembic_version"}
    engine.dispose()


def test_migrations_and_tables_give_the_same_schema(empty_database_url, tmp_path):
    """The reflected schemas are compared, because the comparison of alembic ignores some differences."""
    kind = {"mysql": "mariadb"}.get(sa.make_url(empty_database_url).get_backend_name())
    with databases.database(kind or sa.make_url(empty_database_url).get_backend_name(), tmp_path) as other_url:
        manage.upgrade(empty_database_url)
        created = sa.create_engine(other_url)
        tables.metadata.create_all(created)
        assert reflected(empty_database_url) == reflected(other_url)
        created.dispose()


def reflected(url):
    engine = sa.create_engine(url)
    inspector = sa.inspect(engine)
    schema = {}
    for table in tables.metadata.tables:
        schema[table] = {
            "columns": {
                # by name: on SQLite the order inside PRAGMA is the order of creation, which must be the same, too
                column["name"]: (position, str(column["type"]), column["nullable"], str(column["default"]))
                for position, column in enumerate(inspector.get_columns(table))
            },
            "primary key": inspector.get_pk_constraint(table),
            "foreign keys": sorted(inspector.get_foreign_keys(table), key=str),
            "unique": sorted(inspector.get_unique_constraints(table), key=str),
            "indexes": sorted(inspector.get_indexes(table), key=str),
            "options": inspector.get_table_options(table) if engine.dialect.name in ("mysql", "mariadb") else {},
        }
    engine.dispose()
    return schema


def test_check_names_what_drifted(empty_database_url, run):
    manage.upgrade(empty_database_url)
    engine = sa.create_engine(empty_database_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE changes")
        connection.exec_driver_sql("ALTER TABLE events ADD COLUMN mood VARCHAR(10)")
    engine.dispose()
    code, out, err = run(empty_database_url, "check")
    assert code == 1
    assert "add_table changes" in out
    assert "mood" in out
    assert len(err.splitlines()) == 1


def test_check_before_the_upgrade_says_what_to_run(empty_database_url, run):
    code, out, err = run(empty_database_url, "check")
    assert (code, out) == (1, "")
    assert err.endswith("run: cleanup-orchestrator-manage db upgrade\n")


@pytest.mark.slow
def test_two_upgrades_at_once_do_it_once(empty_database_url, config):
    """As when one playbook runs on several controllers."""
    command = [sys.executable, "-m", "cleanup_orchestrator.cmd.manage", "db", "upgrade"]
    command += ["--config-file", config(empty_database_url)]
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: subprocess.run(command, capture_output=True, text=True), range(4)))
    assert [(one.returncode, one.stderr) for one in done] == [(0, "")] * 4
    assert sorted(one.stdout.split()[0] for one in done) == ["at", "at", "at", "upgraded"]


def test_an_unknown_revision_is_one_line(empty_database_url, run):
    code, out, err = run(empty_database_url, "upgrade", "4711")
    assert (code, out) == (1, "")
    assert err == "cleanup-orchestrator-manage: unknown revision '4711'; see: cleanup-orchestrator-manage db history\n"


def test_a_database_of_a_newer_release_is_left_alone(empty_database_url, run):
    manage.upgrade(empty_database_url)
    engine = sa.create_engine(empty_database_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    for command in ("upgrade", "current", "check"):
        code, out, err = run(empty_database_url, command)
        assert (code, out) == (1, "")
        assert "revision 9999, of a newer release" in err


def test_there_is_no_downgrade(tmp_path, capsys, run):
    url = f"sqlite:///{tmp_path}/d.sqlite"
    manage.upgrade(url)
    code, out, err = run(url, "upgrade", "base")
    assert (code, out) == (1, "")
    assert "there is no downgrade; restore a backup" in err
    assert run(url, "check")[0] == 0
    with pytest.raises(SystemExit):
        manage.main(["db", "downgrade", "base"])
    capsys.readouterr()
    with pytest.raises(SystemExit):
        manage.main(["db", "--help"])
    assert "there is no downgrade" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql+psycopg://x:hush@127.0.0.1:1/none", "refused"),
        ("mysql+pymysql://x:hush@127.0.0.1:1/none", "127.0.0.1"),
        ("sqlite:////nonexistent/folder/x.sqlite", "unable to open database file"),
        ("oracle+nothing://x:hush@localhost/none", "no usable URL"),
        ("not a url", "no usable URL"),
    ],
)
def test_an_unusable_database_is_one_line_without_the_password(run, url, reason):
    code, out, err = run(url, "upgrade")
    assert (code, out) == (1, "")
    assert reason in err
    assert len(err.splitlines()) == 1
    assert "hush" not in err


def test_no_permission_is_one_line(tmp_path, run):
    """SQLite opened read-only is what a wrong owner looks like, also for root."""
    url = f"sqlite:///file:{tmp_path}/ro.sqlite?mode=ro&uri=true"
    sqlite3.connect(tmp_path / "ro.sqlite").close()
    code, out, err = run(url, "upgrade")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "readonly" in err


def test_a_missing_configuration_file_is_one_line(capsys):
    assert manage.main(["db", "current", "--config-file", "/nonexistent/cleanup.conf"]) == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "/nonexistent/cleanup.conf" in err


def test_asking_leaves_no_file_behind(tmp_path, run):
    code, out, err = run(f"sqlite:///{tmp_path}/none.sqlite", "current")
    assert (code, out) == (1, "")
    assert "does not exist yet" in err
    assert not os.path.exists(tmp_path / "none.sqlite")


def test_a_migration_that_breaks_half_way_leaves_nothing(tmp_path, monkeypatch, run):
    """SQLite and PostgreSQL roll DDL back; MariaDB cannot (see the manual)."""
    for kind in ("sqlite", "postgresql"):
        with databases.database(kind, tmp_path) as url:
            from alembic import op

            real = op.create_index
            monkeypatch.setattr(op, "create_index", lambda *a, **k: op.execute("SELECT broken FROM nowhere"))
            assert run(url, "upgrade")[0] == 1
            monkeypatch.setattr(op, "create_index", real)
            engine = sa.create_engine(url)
            assert sa.inspect(engine).get_table_names() == []
            engine.dispose()


@pytest.mark.parametrize(
    "command", [(), ("db",), *(("db", v) for v in ("upgrade", "current", "history", "check", "purge", "revision"))]
)
def test_every_command_has_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as stop:
        manage.main([*command, "--help"])
    assert stop.value.code == 0
    assert "example: cleanup-orchestrator-manage" in capsys.readouterr().out
