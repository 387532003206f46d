"""Columns, kinds, purposes, reasons and conditions take the words of the manual.

Processes of an earlier release do not know these words: stop them all before this revision. No release had the
earlier ones.

Revision ID: 0011
Revises: 0010
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_COLUMNS = (
    ("steps", "residue", "project_setting"),
    ("steps", "newcomers", "unplanned"),
    ("steps", "fence", "fencing_token"),
    ("orphan_scan_parts", "residue", "project_setting"),
    ("orphan_scan_parts", "fence", "fencing_token"),
    ("orphans", "residue", "project_setting"),
)
_VALUES = (
    ("deletions", "purpose", "look", "inventory"),
    ("deletions", "purpose", "residue", "project_settings"),
    ("deletions", "reason", "newcomers", "unplanned"),
    ("deletions", "reason", "look_first", "inventory_first"),
    ("deletions", "reason", "look_again", "inventory_again"),
    ("deletions", "reason", "look_found_nothing", "empty_before_drain"),
    ("steps", "kind", "uncovered", "unsupported"),
    ("steps", "reason", "held", "on_hold"),
    ("leftovers", "reason", "held", "on_hold"),
    ("events", "type", "condition.held", "condition.on_hold"),
    ("events", "type", "force.let_go", "force.abandoned"),
)


# There is no downgrade: restore a backup.
def upgrade() -> None:
    for table, old, new in _COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    for table, column, old, new in _VALUES:
        column_ = sa.column(column)
        op.execute(sa.table(table, column_).update().where(column_ == old).values({column: new}))
    deletions = sa.table("deletions", sa.column("id"), sa.column("conditions", sa.JSON))
    connection = op.get_bind()
    for id_, conditions in connection.execute(sa.select(deletions.c.id, deletions.c.conditions)).all():
        found = json.loads(conditions) if isinstance(conditions, str) else conditions
        if any(condition["type"] == "held" for condition in found or ()):
            renamed = [{**c, "type": "on_hold"} if c["type"] == "held" else c for c in found]
            connection.execute(deletions.update().where(deletions.c.id == id_).values(conditions=renamed))
