"""What a purge removes with the record that it belongs to."""

from cleanup_orchestrator.store import retention
from cleanup_orchestrator.store import tables as t


def referring_to(table):
    return {each.name for each in t.metadata.sorted_tables for key in each.foreign_keys if key.column.table is table}


def test_every_table_that_refers_to_a_deletion_is_purged_with_it():
    assert {table.name for table in retention._OF_DELETION} == referring_to(t.deletions) | {"steps"}


def test_every_table_that_refers_to_an_orphan_scan_is_purged_with_it():
    assert {table.name for table in retention._OF_SCAN} == referring_to(t.orphan_scans) | {"steps"}
