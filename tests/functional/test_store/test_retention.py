"""``cleanup-orchestrator-manage db purge``: what it deletes, and what it never deletes, on every kind of database."""

import concurrent.futures
import contextlib
import datetime
import threading
import uuid

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.cmd import manage
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.proposals import Requester, Retry
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.store import Store, deletions, retention
from cleanup_orchestrator.store import tables as t
from tests.support import orphaned
from tests.support.databases import SERVERS, filled
from tests.unit.world import T0, deletion

LEFT, GONE, NAMED = "stays", "goes", "goes with --named"

#: The status, how many days ago, what else is on record, and the result of the purge.
CASES = {
    "deleted long ago": (Status.DELETED, 40, {}, GONE),
    "deleted lately": (Status.DELETED, 20, {}, LEFT),
    "cancelled": (Status.CANCELLED, 40, {}, GONE),
    "a plan": (Status.PLANNED, 40, {}, GONE),
    "a plan that a cascade is bound to now": (Status.PLANNED, 40, {"bound": "live"}, LEFT),
    "a plan that a cascade was bound to": (Status.PLANNED, 40, {"bound": "over"}, GONE),
    "under way for long": (Status.DELETING, None, {}, LEFT),
    "ended with leftovers": (Status.LEFTOVERS, 40, {}, NAMED),
    "failed": (Status.FAILED, 40, {}, NAMED),
    "failed, and the project still locked": (Status.FAILED, 40, {"undone": False}, LEFT),
    "failed, and the project given back": (Status.FAILED, 40, {"undone": True}, NAMED),
    "deleted with its lock": (Status.DELETED, 40, {"undone": False}, GONE),
    "deleted by force, with what was let go": (Status.DELETED, 40, {"abandoned": True}, NAMED),
    "a part of a tree that is under way": (Status.DELETED, 40, {"top": (Status.DELETING, None)}, LEFT),
    "a part of a tree that ended lately": (Status.DELETED, 40, {"top": (Status.DELETED, 20)}, LEFT),
    "a part of a tree that may be retried": (Status.DELETED, 40, {"top": (Status.LEFTOVERS, 40)}, NAMED),
    "a part of a tree that ended": (Status.DELETED, 40, {"top": (Status.DELETED, 40)}, GONE),
}


@pytest.fixture
def purge(database_url, tmp_path, capsys):
    """Run the command; return its output."""
    path = tmp_path / "purge.conf"
    path.write_text(f"[database]\nconnection = {database_url}\n")

    def run(*arguments):
        assert manage.main(["--config-file", str(path), "db", "purge", *arguments]) == 0
        return capsys.readouterr().out

    return run


def recorded(store, status, days, **values):
    """A deletion that ended so many days ago, with a part of each kind."""
    project = {"project_id": uuid.uuid4().hex, **values}
    record = store.create(
        deletion(id=str(uuid.uuid4()), **project), TASKS, Event("deletion.accepted", "asked for", "u")
    )
    now = store.now()
    with store.database.engine.begin() as c:
        ended = {} if days is None else {"finished_at": now - datetime.timedelta(days=days), "live_project_id": None}
        c.execute(t.deletions.update().where(t.deletions.c.id == record.id).values(status=str(status), **ended))
    return record


def parts(store, record, undone=None, abandoned=None):
    """Add what a deletion may have."""
    _, steps, _ = store.load(record.id)
    with store.database.engine.begin() as c:
        if undone is not None:
            change = {"id": record.id, "deletion_id": record.id, "sequence": 1, "type": "project_disabled", "data": {}}
            c.execute(t.changes.insert().values(undone=undone, **change))
        if abandoned is not None:
            words = dict.fromkeys(("region", "service", "type", "resource_id", "name", "reason", "message"), "x")
            row = {"deletion_id": record.id, "step_id": steps[0].id, "blocked_by": [], "abandoned": abandoned}
            row |= {"owner": "", "remedy": "", "announced": False}
            c.execute(t.leftovers.insert().values(**words, **row))


def there(store, table, column="id"):
    with store.database.engine.connect() as c:
        return set(c.scalars(sa.select(table.c[column])))


def test_only_what_is_over_and_what_nothing_rests_on_is_forgotten(store, purge):
    made = {}
    for name, (status, days, more, _) in CASES.items():
        more = dict(more)
        top = recorded(store, *more.pop("top")) if "top" in more else None
        record = made[name] = recorded(store, status, days, parent_deletion_id=top.id if top else "")
        if bound := more.pop("bound", None):
            recorded(store, *((Status.DELETING, None) if bound == "live" else (Status.DELETED, 1)), plan_id=record.id)
        parts(store, record, **more)

    def left(*verdicts):
        kept = there(store, t.deletions)
        names = {name for name, record in made.items() if record.id in kept}
        assert names == {name for name, case in CASES.items() if case[-1] in verdicts}
        for table in (t.events, t.changes, t.leftovers):
            assert there(store, table, "deletion_id") <= kept
        assert there(store, t.steps, "owner_id") == there(store, t.events, "deletion_id") == kept

    gone = sum(case[-1] == GONE for case in CASES.values()) + 1  # the top of the tree that ended
    told = purge("--age", "30", "--dry-run")
    assert told.startswith("would remove ") and f" {gone} deletions" in told
    left(GONE, LEFT, NAMED)
    assert purge("--age", "30") == told.replace("would remove", "removed")
    left(LEFT, NAMED)
    assert purge("--age", "30") == "removed nothing\n"
    purge("--age", "30", "--named")
    left(LEFT)


@pytest.mark.real
@pytest.mark.parametrize("kind", sorted(SERVERS))
def test_a_deletion_that_is_retried_at_this_moment_stays(kind, monkeypatch):
    """PostgreSQL decided which records go before it waited for the retry."""
    retrying, waits, journal = threading.Event(), threading.Event(), deletions.write_journal

    def slow(*arguments):
        retrying.set()
        waits.wait(60)
        journal(*arguments)

    def purge():
        with store.database.begin() as c:
            return retention.purge(c, datetime.timedelta(days=30), named=True)

    with filled(kind) as url, contextlib.closing(Store.from_url(url)) as store:
        record = store.get(recorded(store, Status.FAILED, 40).id)
        monkeypatch.setattr(deletions, "write_journal", slow)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            retry = pool.submit(store.propose, Retry(by=Requester("u"), seen=record))
            assert retrying.wait(60)
            purged = pool.submit(purge)
            with pytest.raises(concurrent.futures.TimeoutError):
                purged.result(1)
            waits.set()
            assert retry.result(60) and purged.result(60) == {}
        assert store.get(record.id).status is Status.ACCEPTED


def test_all_of_many_are_forgotten_and_a_lien_never_is(store, purge):
    for _ in range(110):  # more than one transaction removes
        recorded(store, Status.DELETED, 3)
    store.add_lien(Lien("l", "p", "billing", "an invoice", T0, T0, "u", "user", "req"))
    assert "110 deletions" in purge("--age", "2")
    assert there(store, t.deletions) == set()
    assert there(store, t.liens) == {"l"}


def test_scans_that_ended_long_ago_go_with_what_they_found(store, purge):
    old, new, under_way = orphaned.found(store), orphaned.found(store), orphaned.begin(store)
    now = store.now()
    with store.database.engine.begin() as c:
        for scan, days in ((old, 40), (new, 20)):
            ended = t.orphan_scans.update().where(t.orphan_scans.c.id == scan.id)
            c.execute(ended.values(finished_at=now - datetime.timedelta(days=days)))
    told = purge("--age", "30")
    assert told == f"removed {len(orphaned.FOUND)} orphans, 3 steps, 1 orphan_scans\n"
    assert there(store, t.orphans, "scan_id") == {new.id}
    for table, column in ((t.orphan_scans, "id"), (t.steps, "owner_id")):
        assert there(store, table, column) == {new.id, under_way.id}


@pytest.mark.parametrize("age", ["0", "-1", "x", "1.5", "99999999"])
def test_an_age_that_is_none_is_one_line(store, age, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        manage.main(["db", "purge", "--age", age])
    assert stop.value.code == 2
    assert "is not a number of days above 0" in capsys.readouterr().err
