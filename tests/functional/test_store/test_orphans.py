"""Pages of orphans in the store: how many statements each takes, and that no resource is noted twice."""

import contextlib

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.core.orphan_scan import ScanStatus
from tests.support import orphaned

NUMBER = 1500


@contextlib.contextmanager
def counted(store):
    """Yield the list of the statements that the store executes meanwhile."""
    statements = []

    def note(_connection, _cursor, statement, *_):
        statements.append(statement)

    engine = store.database.engine
    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


def ports(first, number):
    return [orphaned.port(f"{each:05}", name=f"port {each}") for each in range(first, first + number)]


def confirmed(store, scan):
    return sorted(row.orphan.resource_id for row in store.orphans(scan.id, 10_000))


@pytest.fixture
def scan(store):
    return orphaned.begin(store)


def test_the_statements_of_a_page_do_not_grow_with_its_rows(store, scan):
    counts = {}
    for read, write in ((1, store.note_orphans), (2, store.see_orphans_again)):
        step = orphaned.claim(store, scan.id, "port", read)
        for number in (10, NUMBER):
            with counted(store) as statements:
                assert write(step, ports(number, number))
            counts[read, number] = len([each for each in statements if "INSERT" not in each])
            inserts = len(statements) - counts[read, number]
            assert inserts <= 3, "500 rows in each"
        assert store.finish(step, orphaned.clear(step))
    assert counts[1, 10] == counts[1, NUMBER]
    assert counts[2, 10] == counts[2, NUMBER]
    orphaned.move(store, scan.id, ScanStatus.COMPLETED)
    assert confirmed(store, scan) == sorted(one.resource_id for one in (*ports(10, 10), *ports(NUMBER, NUMBER)))


def test_a_resource_of_two_pages_is_noted_once_and_another_case_is_another_resource(store, scan):
    pages = [[*ports(0, 3), *ports(2, 2)], ports(1, 5), [orphaned.port("A"), orphaned.port("a")]]
    for read, write in ((1, store.note_orphans), (2, store.see_orphans_again)):
        step = orphaned.claim(store, scan.id, "port", read)
        for page in (*pages, *pages):
            assert write(step, page)
        assert store.finish(step, orphaned.clear(step))
    orphaned.move(store, scan.id, ScanStatus.COMPLETED)
    assert confirmed(store, scan) == [*(one.resource_id for one in ports(0, 6)), "A", "a"]
    assert [each.counts.orphans for each in store.orphan_scan(scan.id)[1] if each.type == "port"] == [8]


@pytest.mark.real
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_postgresql_plans_the_search_for_a_page_with_its_values(store, scan):
    """A plan for any values compares each row of the step with each row of the page."""
    step = orphaned.claim(store, scan.id, "port", 1)
    for write in (store.note_orphans, store.see_orphans_again):
        with counted(store) as statements:
            assert write(step, ports(0, 2))
        mode = next(i for i, each in enumerate(statements) if "plan_cache_mode = force_custom_plan" in each)
        search = next(i for i, each in enumerate(statements) if "FROM orphans" in each)
        assert mode < search
    with store.database.begin() as c:
        assert c.exec_driver_sql("SHOW plan_cache_mode").scalar() == "auto", "it ends with the transaction"
