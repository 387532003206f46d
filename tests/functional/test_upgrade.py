"""A rolling upgrade: the schema first, then one process after the other, while those of the release before go on."""

import configparser
import dataclasses
import re
import uuid
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from cleanup_orchestrator import opts
from cleanup_orchestrator.cmd import manage, schema
from cleanup_orchestrator.core.deletion import Condition, RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS, Step
from cleanup_orchestrator.service import OPTS
from cleanup_orchestrator.store import Store, records
from tests.unit import world

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "doc" / "source" / "admin" / "upgrade.rst").read_text()
REVISIONS = [s.revision for s in ScriptDirectory.from_config(manage._alembic()).walk_revisions()][::-1]


#: The migration that renames columns and words: releases before it have to be stopped before it runs.
BREAK = "0011"
WORDS = {
    "unplanned": "newcomers", "project_setting": "residue", "fencing_token": "fence", "inventory": "look",
    "inventory_first": "look_first",
}  # fmt: skip


@pytest.mark.parametrize("before", REVISIONS[:-1])
def test_what_the_release_before_wrote_is_read_after_the_upgrade(empty_database_url, before):
    """The old release inserts rows into the new schema, without the columns that it does not know."""
    manage.upgrade(empty_database_url, before)
    engine = sa.create_engine(empty_database_url)
    old = sa.MetaData()
    old.reflect(engine)  # the tables as the release before knows them
    word = WORDS if before < BREAK else {}
    if before >= BREAK:
        manage.upgrade(empty_database_url)

    held = Condition("on_hold", True, "lien", "a lien", world.T0)
    of_round = {"status": Status.DELETING, "purpose": RoundPurpose.INVENTORY, "conditions": (held,)}
    deletion = world.deletion(id=str(uuid.uuid4()), reason="inventory_first", **of_round)
    values = {
        "deletions": records.deletion_values(deletion),
        "steps": records.step_values(Step(str(uuid.uuid4()), deletion.id, TASKS[0])),
        "events": {
            "deletion_id": deletion.id, "at": world.T0, "type": "t", "message": "", "actor": "", "request_id": "",
            "data": {},
        },
        "changes": {
            "id": "c", "deletion_id": deletion.id, "sequence": 1, "type": "grant_added", "data": {}, "undone": False,
        },
    }  # fmt: skip
    with engine.begin() as connection:
        for name, row in values.items():
            row = {word.get(column, column): value for column, value in row.items()}
            known = {column: value for column, value in row.items() if column in old.tables[name].c}
            if before < BREAK and name == "deletions":
                known |= {column: WORDS[str(known[column])] for column in ("purpose", "reason")}
                known["conditions"] = [c | {"type": "held"} for c in known["conditions"]]
            connection.execute(old.tables[name].insert(), [_plain(old.tables[name], known)])
        for table in old.sorted_tables:
            connection.execute(sa.select(table)).all()
    engine.dispose()
    if before < BREAK:
        manage.upgrade(empty_database_url)

    store = Store.from_url(empty_database_url)
    found, steps, _ = store.load(deletion.id)
    unknown = {f.name for f in dataclasses.fields(deletion)} - set(old.tables["deletions"].c.keys())
    for name in (
        "id",
        "project_id",
        "status",
        "mode",
        "purpose",
        "reason",
        "conditions",
        *(unknown - {"has_changes", "children"}),
    ):
        assert getattr(found, name) == getattr(deletion, name), name
    assert found.has_changes and len(steps) == 1
    store.create(world.deletion(id=str(uuid.uuid4()), project_id="other"), TASKS, Event("deletion.accepted", "new"))
    store.close()


def test_the_journal_on_record_is_found_by_its_resources(empty_database_url):
    manage.upgrade(empty_database_url, "0014")
    engine = sa.create_engine(empty_database_url)
    old = sa.MetaData()
    old.reflect(engine)
    deletion = world.deletion(id=str(uuid.uuid4()))
    deletions, events = old.tables["deletions"], old.tables["events"]
    known = {name: value for name, value in records.deletion_values(deletion).items() if name in deletions.c}
    line = {"deletion_id": deletion.id, "at": world.T0, "message": "", "actor": "", "request_id": ""}
    named = [{"id": "r1", "name": ""}, {"id": "r2", "name": ""}, {"id": "r1", "name": ""}]
    rows = [
        {**line, "type": "resource.deleted", "data": {"resources": named}},
        {**line, "type": "deletion.approved", "data": {"resources": 9}},
        {**line, "type": "resource.stopped", "data": {}},
    ]
    with engine.begin() as connection:
        connection.execute(deletions.insert(), [_plain(deletions, known)])
        connection.execute(events.insert(), [_plain(events, row) for row in rows])
    engine.dispose()
    manage.upgrade(empty_database_url)
    store = Store.from_url(empty_database_url)
    found = {id_: [each.row.event.type for each in store.events_of_resource(id_, 9)] for id_ in ("r1", "r2", "r3")}
    assert found == {"r1": ["resource.deleted"], "r2": ["resource.deleted"], "r3": []}
    store.close()


def _plain(table, row):
    """Return a row as a driver takes it: a reflected JSON column of MariaDB or SQLite may be text."""
    import json

    return {
        name: json.dumps(value)
        if isinstance(value, dict | list) and not isinstance(table.c[name].type, sa.JSON)
        else value
        for name, value in row.items()
    }


def test_a_process_of_the_release_before_that_is_restarted_says_why_it_does_not_start(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/u.sqlite"
    manage.upgrade(url)
    monkeypatch.setattr(schema, "revisions", lambda: [*REVISIONS[-2::-1], None])
    with pytest.raises(manage.ManageError, match="of a newer release"):
        manage.state(url)


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
