"""Lists read the counts of the steps from the deletion, and pages from an index.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


#: For each table: the columns by which a list is sorted or filtered.
_LISTED_BY = {
    "deletions": (
        *("updated_at", "status_at", "progress_at", "status", "mode", "origin"),
        *("project_id", "project_name", "domain_id", "parent_deletion_id"),
    ),
    "liens": ("project_id", "origin", "deleted_at"),
    "waivers": ("expires_at", "service_type", "region", "project_id", "deleted_at"),
    "orphan_scans": ("status_at", "status"),
}
#: Indexes that the new ones begin with.
_REPLACED = {
    "deletions": (("project_id",), ("domain_id", "created_at"), ("status", "created_at"), ("parent_deletion_id",)),
    "waivers": (("expires_at",),),
}


# There is no downgrade: restore a backup. The next decision on a deletion counts its steps. Until then, and for
# deletions that have ended, lists count them in the database.
def upgrade() -> None:
    op.add_column("deletions", sa.Column("tally", sa.JSON(none_as_null=True), nullable=True))
    for table, listed_by in _LISTED_BY.items():
        for column in listed_by:
            _create(table, column, "created_at", "id")
    for table, indexes in _REPLACED.items():
        for columns in indexes:
            op.drop_index(_name(table, *columns), table)
    _create("leftovers", "deletion_id", "region", "service", "type", "reason")
    counts = ["scan_id", "confirmed", "project_id", "service", "type", "project_setting"]
    op.create_index("ix_orphans_counts", "orphans", counts)
    op.drop_index(_name("orphans", "scan_id", "project_id"), "orphans")


def _name(table: str, *columns: str) -> str:
    return f"ix_{table}_{'_'.join(columns)}"


def _create(table: str, *columns: str) -> None:
    op.create_index(_name(table, *columns), table, list(columns))
