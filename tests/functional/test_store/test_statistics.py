"""The figures of the store, and the release of claims, on every kind of database."""

import dataclasses
import datetime
import uuid

import sqlalchemy as sa

from cleanup_orchestrator.core.condition_types import Condition
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.step import StepKind, StepState
from cleanup_orchestrator.store import Figures, tables
from tests.support import stores
from tests.support.stores import save
from tests.unit import world


def made(store, **values):
    """Record a deletion of another project."""
    return stores.create(store, project_id=uuid.uuid4().hex, **values)


def step(store, deletion, kind=StepKind.SURVEY):
    return next(s for s in store.steps(deletion.id) if s.kind is kind)


def waiting(store, deletion, kind=StepKind.SURVEY, ago=0):
    at = store.now() - datetime.timedelta(seconds=ago)
    one = step(store, deletion, kind)
    changed = dataclasses.replace(one, state=StepState.DISPATCHED, round=1, dispatched_at=at, attempt=1)
    save(store, store.get(deletion.id), store.get(deletion.id), [changed])
    return one.id


def test_an_empty_store_has_nothing(store):
    assert store.figures() == Figures({}, 0, {}, 0.0, 0.0)


def test_figures_count_deletions_on_hold_liens_and_the_brake(store):
    held = Condition("on_hold", True, "lien", "held by lien l", world.T0)
    made(store, status=Status.DELETING, conditions=(held,))
    made(store, status=Status.DELETING, conditions=(dataclasses.replace(held, status=False),))
    store.add_lien(Lien("l", "p", "ops", "x", store.now()))
    store.add_lien(Lien("gone", "p", "ops", "x", store.now(), expires_at=store.now()))
    store.set_brake(Brake(True, "x"))
    found = store.figures()
    assert (found.on_hold, found.liens, found.brake, found.stalled, found.blocked) == (1, 1, True, 0, 0)


def test_figures(store):
    stalled = Condition("stalled", True, "no_progress", "blocked", world.T0)
    over = dataclasses.replace(stalled, status=False)
    one = made(store, status=Status.DELETING, conditions=(stalled,))
    two = made(store, status=Status.DELETING, conditions=(over,))
    made(store, status=Status.DELETED)
    made(store, status=Status.FAILED, conditions=(stalled,))  # not live: no progress is expected
    made(store, status=Status.DELETING, conditions=(dataclasses.replace(stalled, type="blocked"),))
    waiting(store, one, ago=30)
    waiting(store, one, StepKind.ACCESS, ago=10)
    store.claim(waiting(store, two, ago=3600), "w", 60)
    late = store.now() - datetime.timedelta(seconds=100)
    before = store.get(two.id)
    save(store, before, dataclasses.replace(before, wake_at=late))
    found = store.figures()
    assert found.deletions == {"deleting": 3, "deleted": 1, "failed": 1}
    assert (found.stalled, found.blocked) == (1, 1)
    assert found.steps == {"dispatched": 2, "running": 1}
    assert 30 <= found.unclaimed < 60  # the one that is claimed does not count, however old
    assert 100 <= found.overdue < 130


def test_an_ended_deletion_is_not_overdue_and_its_steps_do_not_wait(store):
    done = made(store, status=Status.DELETING)
    waiting(store, done, ago=1000)
    before = store.get(done.id)
    save(store, before, dataclasses.replace(before, status=Status.CANCELLED))
    found = store.figures()
    assert (found.steps, found.unclaimed, found.overdue) == ({}, 0.0, 0.0)


def test_figures_read_the_past_only_for_the_count_by_status(store):
    """With a hundred thousand ended deletions a scrape must not read their steps."""
    made(store)
    statements = []
    sa.event.listen(store.database.engine, "before_cursor_execute", lambda c, cur, sql, *_: statements.append(sql))
    store.figures()
    asked = [sql for sql in statements if "FROM deletions" in sql or "FROM steps" in sql]
    assert len(asked) == 4
    assert sum("live_project_id IS NOT NULL" in sql for sql in asked) == 3


def test_the_tables_are_as_the_figures_need_them():
    """Live deletions are found by index, and their steps by the id of their owner first."""
    indexes = [[c.name for c in index.columns] for index in tables.deletions.indexes]
    assert ["live_project_id", "wake_at"] in indexes
    unique = [c for c in tables.steps.constraints if isinstance(c, sa.UniqueConstraint)]
    assert [c.columns.keys()[0] for c in unique] == ["owner_id"]
