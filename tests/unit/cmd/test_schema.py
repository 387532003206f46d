"""What a process reads of the schema without alembic is what alembic reads."""

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from cleanup_orchestrator.cmd import manage, schema


def test_the_revisions_are_those_of_alembic_in_its_order():
    found = [script.revision for script in ScriptDirectory.from_config(manage._alembic()).walk_revisions()]
    assert schema.revisions() == [*found, None]
    assert found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with migrations, each as (name, revision, the one before)."""
    monkeypatch.setattr(schema, "migrations", lambda: tmp_path)
    (tmp_path / "versions").mkdir()

    def write(*found):
        for name, *assigned in found:
            names = ("revision", "down_revision")[: len(assigned)]
            lines = [f"{what} = {value!r}" for what, value in zip(names, assigned, strict=True)]
            (tmp_path / "versions" / f"{name}.py").write_text("\n".join(["raise SystemExit", *lines]) + "\n")

    return write


def test_the_order_is_that_of_the_assignments_and_not_of_the_names(folder):
    folder(("a", "3", "2"), ("b", "1", None), ("c", "2", "1"))
    assert schema.revisions() == ["3", "2", "1", None]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([], "no migrations in"),
        ([("a", "1", None), ("b", "3", "2")], "not one sequence"),
        ([("a", "1", None), ("b", "2", "1"), ("c", "3", "1")], "not one sequence"),
        ([("a", "2", "2")], "not one sequence"),
        ([("a", "1")], "has no 'down_revision'"),
    ],
)
def test_an_incomplete_folder_is_named(folder, found, text):
    folder(*found)
    with pytest.raises(schema.ManageError, match=text):
        schema.revisions()


@pytest.mark.parametrize(
    ("rows", "text"), [(["9999"], "revision 9999, of a newer"), (["0001", "0002"], "0001 and 0002")]
)
def test_a_revision_that_this_release_does_not_have_is_refused(tmp_path, rows, text):
    url = f"sqlite:///{tmp_path}/a.sqlite"
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        for row in rows:
            connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (row,))
    engine.dispose()
    with pytest.raises(schema.ManageError, match=text):
        schema.state(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM alembic_version")
    engine.dispose()
    assert schema.state(url) == (None, schema.head())
