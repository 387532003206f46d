"""Pages of a list: each row is on one page, in both directions, also where rows sort alike."""

import datetime

import pytest

from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.store import NotFound, Page, tables
from cleanup_orchestrator.store.paging import _after
from tests.support import sqlite_stores
from tests.unit import world

#: By id: when it was requested, in hours. Two have the same time.
HOURS = {"a": 0, "b": 1, "c": 1, "d": 2}


@pytest.fixture
def store():
    made = sqlite_stores.in_memory()
    for id_ in HOURS:
        made.create(world.deletion(id=id_, project_id=f"p-{id_}"), TASKS, Event("deletion.accepted", ""))
    with made.database.begin() as c:
        for id_, hours in HOURS.items():
            at = world.T0 + datetime.timedelta(hours=hours)
            c.execute(tables.deletions.update().where(tables.deletions.c.id == id_).values(created_at=at))
    return made


def listed(store, *page):
    return [each.id for each in store.list(Page(*page))]


UP, DOWN = (("created_at", "asc"),), (("created_at", "desc"),)


@pytest.mark.parametrize(
    ("sort", "ids"), [(UP, "abcd"), (DOWN, "dcba"), ((("id", "desc"),), "dcba"), ((*UP, ("id", "desc")), "acbd")]
)
def test_a_page_begins_after_its_marker(store, sort, ids):
    assert listed(store, 9, None, sort) == list(ids)
    for number, marker in enumerate(ids, 1):
        assert listed(store, 2, marker, sort) == list(ids[number : number + 2])


def test_a_marker_of_no_record_is_no_beginning(store):
    with pytest.raises(NotFound, match="no deletion has the id of the marker: x"):
        listed(store, 2, "x")


@pytest.mark.parametrize("sort", [UP, DOWN])
def test_databases_that_compare_no_rows_find_the_same_page(store, sort):
    table = tables.deletions
    order = Page(9, None, sort).order
    with store.database.read() as c:
        marker = c.execute(table.select().where(table.c.id == "b")).one()
        found = {
            dialect: set(
                c.scalars(table.select().with_only_columns(table.c.id).where(_after(dialect, table, order, marker)))
            )
            for dialect in ("sqlite", "mysql")
        }
    assert found["sqlite"] == found["mysql"] == ({"c", "d"} if sort == UP else {"a"})
