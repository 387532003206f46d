"""Lists: what a page costs in statements and rows."""

import dataclasses
import datetime
import sqlite3
import uuid

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.core.deletion import Force, Status
from cleanup_orchestrator.core.holds import Lien, Waiver
from cleanup_orchestrator.shapes import queries
from cleanup_orchestrator.store import Page, Span, records, tables
from cleanup_orchestrator.store.orphans import OrphanScan
from tests.support.stores import create
from tests.unit.world import T0, deletion

HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def statements(store):
    """The statements and parameters since the beginning of the test."""
    sent = []

    def note(_connection, _cursor, statement, parameters, _context, _many):
        if not statement.startswith("BEGIN"):
            sent.append((statement, parameters))

    sa.event.listen(store.database.engine, "before_cursor_execute", note)
    return sent


# --------------------------------------------------------------------------------------------------------- statements
def fill(store, number):
    for each in range(number):
        create(store, project_id=f"p{each}-{number}", forced=Force("lost", (), T0, 1, 1) if each % 3 == 0 else None)
        lien = Lien(str(uuid.uuid4()), f"p{each}", "legal", "why", T0, None)
        store.add_lien(lien)
        store.add_waiver(Waiver(str(uuid.uuid4()), "dns", "why", T0, store.now() + HOUR))


READS = {
    "deletions": lambda store: store.list(Page(1000)),
    "deletions that need attention": lambda store: store.list(Page(1000), attention=True),
    "liens": lambda store: store.liens(Page(1000), True),
    "waivers": lambda store: store.waivers(Page(1000), True),
    "steps": lambda store: store.steps_of([d.id for d in store.list(Page(1000))]),
}


@pytest.mark.parametrize("what", READS)
def test_the_number_of_statements_does_not_depend_on_the_rows(store, statements, what):
    counted = []
    for number in (2, 9):
        fill(store, number)
        statements.clear()
        READS[what](store)
        counted.append(len(statements))
    assert counted[0] == counted[1] <= 4


def test_a_status_poll_reads_a_deletion_and_its_steps(store, statements):
    record = create(store)
    statements.clear()
    shown, steps = store.shown(record.id)
    assert len(statements) == 2
    loaded, complete, _now = store.load(record.id)
    for view, whole in ((shown, loaded), *zip(steps, complete, strict=True)):
        assert isinstance(whole, type(view)) and type(whole) is not type(view)
        assert all(getattr(view, field.name) == getattr(whole, field.name) for field in dataclasses.fields(view))


# -------------------------------------------------------------------------------------------------------------- plans
def scan(number):
    at = T0 + number * HOUR
    return OrphanScan(str(uuid.UUID(int=number)), "completed", at, at, at, 0, 0)


def populate(store):
    """Insert some rows that differ in each column, and some that are alike; return an id of each table."""
    with store.database.begin() as c:
        made = [
            deletion(id=str(uuid.UUID(int=n)), project_id=f"p{n}", status=Status.DELETED, created_at=T0 + n // 3 * HOUR)
            for n in range(30)
        ]
        c.execute(tables.deletions.insert(), [records.deletion_values(record) for record in made])
        liens = [Lien(str(uuid.UUID(int=n)), f"p{n // 3}", "legal", "why", T0, None) for n in range(30)]
        rows = [{**dataclasses.asdict(lien), "deleted_by": ""} for lien in liens]
        c.execute(tables.liens.insert(), rows)
        waivers = [Waiver(str(uuid.UUID(int=n)), f"s{n // 3}", "why", T0, T0 + HOUR) for n in range(30)]
        c.execute(tables.waivers.insert(), [dataclasses.asdict(waiver) for waiver in waivers])
        c.execute(tables.orphan_scans.insert(), [records.scan_values(scan(n)) for n in range(30)])


LISTS = {
    "deletions": (tables.deletions, queries.SORT_KEYS, lambda store, page: store.list(page)),
    "liens": (tables.liens, queries.LIEN_SORT_KEYS, lambda store, page: store.liens(page)),
    "waivers": (tables.waivers, queries.WAIVER_SORT_KEYS, lambda store, page: store.waivers(page)),
    "orphan_scans": (tables.orphan_scans, queries.ORPHAN_SCAN_SORT_KEYS, lambda store, page: store.orphan_scans(page)),
}


def plan(store, statement, parameters):
    """Return the plan of a query, of databases that show it as text."""
    with store.database.engine.connect() as c:
        if c.dialect.name == "postgresql":
            # The tables are small: without these the plan shows what is best, and not what is possible.
            c.exec_driver_sql("SET enable_seqscan = off")
            c.exec_driver_sql("SET enable_sort = off")
            c.exec_driver_sql("SET enable_bitmapscan = off")
            rows = c.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars().all()
            c.exec_driver_sql("RESET ALL")
            return "\n".join(rows)
        rows = c.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
        return "\n".join(row[3] for row in rows)


def from_an_index(store, statement, parameters, marker):
    """Whether a query reads a page from an index: in its order, and from the marker on."""
    found = plan(store, statement, parameters)
    if store.database.engine.dialect.name == "postgresql":
        return "Index" in found and "Sort" not in found and (not marker or "Index Cond" in found), found
    wanted = "SEARCH" if marker else "INDEX"
    return wanted in found and "INDEX" in found and "TEMP B-TREE" not in found, found


@pytest.mark.parametrize("name", LISTS)
def test_each_order_of_a_list_comes_from_an_index(store, statements, name):
    if store.database.engine.dialect.name in ("mysql", "mariadb"):
        pytest.skip("the plan of MariaDB is not text")
    populate(store)
    _table, keys, read = LISTS[name]
    for key in keys:
        for way in ("asc", "desc"):
            for marker in (None, str(uuid.UUID(int=4))):
                statements.clear()
                read(store, Page(3, marker, ((key, way),)))
                [page] = [each for each in statements if "ORDER BY" in each[0]]
                good, found = from_an_index(store, *page, marker)
                assert good, f"{key}:{way} marker={marker}\n{page[0]}\n{found}"


FILTERS = {
    "status": {"status": "failed"},
    "mode": {"mode": "report"},
    "origin": {"origin": "noticed"},
    "project": {"project_id": "p1"},
    "domain": {"domain_id": "dom"},
    "parent": {"parent_deletion_id": "x"},
    "project name": {"project_name": "demo"},
    "user": {"user_id": "u"},
    "user name": {"user_name": "alice"},
    "span": {"span": Span(T0, T0 + 9 * HOUR)},
    "none": {"dry_run": True},
}


@pytest.mark.parametrize("name", FILTERS)
def test_each_filter_of_deletions_comes_from_an_index(store, statements, name):
    if store.database.engine.dialect.name in ("mysql", "mariadb"):
        pytest.skip("the plan of MariaDB is not text")
    populate(store)
    for marker in (None, str(uuid.UUID(int=4))):
        statements.clear()
        store.list(Page(3, marker), **FILTERS[name])
        [page] = [each for each in statements if "ORDER BY" in each[0]]
        good, found = from_an_index(store, *page, marker)
        assert good, f"{page[0]}\n{found}"


def test_deletions_that_changed_come_from_an_index_in_the_order_of_their_changes(store, statements):
    if store.database.engine.dialect.name in ("mysql", "mariadb"):
        pytest.skip("the plan of MariaDB is not text")
    populate(store)
    for marker in (None, str(uuid.UUID(int=4))):
        statements.clear()
        store.list(Page(3, marker, (("updated_at", "desc"),)), span=Span(changed_since=T0))
        [page] = [each for each in statements if "ORDER BY" in each[0]]
        good, found = from_an_index(store, *page, marker)
        assert good, f"{page[0]}\n{found}"


@pytest.mark.parametrize("name", ["service", "type", "reason", "none"])
def test_each_filter_of_the_leftovers_of_all_projects_comes_from_an_index(store, statements, name):
    if store.database.engine.dialect.name in ("mysql", "mariadb"):
        pytest.skip("the plan of MariaDB is not text")
    for marker in (None, 4):
        statements.clear()
        store.leftovers_of_all_projects(3, marker, "dom", **({} if name == "none" else {name: "x"}))
        [(statement, parameters)] = statements
        found = plan(store, statement, parameters)
        assert "Sort" not in found and "TEMP B-TREE" not in found, found
        assert f"ix_leftovers_{name}_id" in found or name == "none", found


def test_the_events_of_a_resource_come_from_an_index(store, statements):
    if store.database.engine.dialect.name in ("mysql", "mariadb"):
        pytest.skip("the plan of MariaDB is not text")
    for marker in (None, 4):
        statements.clear()
        store.events_of_resource("r", 3, marker, "dom", type="resource.deleted")
        [(statement, parameters)] = statements
        found = plan(store, statement, parameters)
        assert "ix_event_resources_resource_id_event_id" in found, found
        assert "Sort" not in found and "TEMP B-TREE" not in found, found


@pytest.mark.parametrize("name", LISTS)
def test_pages_have_each_row_once_in_each_order(store, name):
    populate(store)
    table, keys, read = LISTS[name]
    with store.database.begin() as c:
        every = {row.id: row for row in c.execute(sa.select(table))}
    mixed = ((keys[0], "asc"), (keys[1], "desc"))
    for sort in (*(((key, way),) for key in keys for way in ("asc", "desc")), mixed):
        seen, marker = [], None
        while page := read(store, Page(7, marker, sort)):
            page = page if isinstance(page, list) else page[0]
            if not page:
                break
            seen += [row.id for row in page]
            marker = seen[-1]
        assert len(seen) == len(every) == len(set(seen)), sort
        for name_, way in reversed(Page(1, sort=sort).order):
            wanted = sorted(every.values(), key=lambda row: getattr(row, name_), reverse=way == "desc")
            every = {row.id: row for row in wanted}
        assert seen == list(every), sort


# --------------------------------------------------------------------------------------------------------------- locks
def test_a_list_does_not_wait_for_a_writer_nor_a_writer_for_a_list(store):
    if store.database.engine.dialect.name != "sqlite":
        pytest.skip("the other databases lock rows")
    record = create(store)
    other = sqlite3.connect(store.database.engine.url.database, timeout=0, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE deletions SET message = 'not committed'")
        assert [d.message for d in store.list(Page(1000))] == [record.message]
        other.execute("COMMIT")
        with store.database.read() as c:
            assert c.scalar(sa.select(tables.deletions.c.message)) == "not committed"
            other.execute("BEGIN IMMEDIATE")
            other.execute("UPDATE deletions SET message = 'later'")
            other.execute("COMMIT")
            assert c.scalar(sa.select(tables.deletions.c.message)) == "not committed", "one moment"
    finally:
        other.close()
