"""Adds the records of accepted deletes, and what a step says about results that repeat.

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0021"
down_revision = "0020"

_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_OPTIONS = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


# There is no downgrade: restore a backup. The defaults serve processes of an older release: a result that one of them
# writes counts as the first of its kind.
def upgrade() -> None:
    op.add_column("steps", sa.Column("same", sa.Integer, nullable=False, server_default="0"))
    op.add_column("steps", sa.Column("absent", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("steps", sa.Column("remedy", sa.Text, nullable=True))
    op.create_table(
        "deletes",
        sa.Column("step_id", sa.String(64), nullable=False),
        sa.Column("resource_id", sa.String(512), nullable=False),
        sa.Column("deletion_id", sa.String(64), nullable=False),
        sa.Column("accepted", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("fault", sa.Text, nullable=False),
        sa.Column("seen_at", _TIME, nullable=True),
        sa.Column("accepted_at", _TIME, nullable=True),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name="fk_deletes_step_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["deletion_id"], ["deletions.id"], name="fk_deletes_deletion_id"),
        sa.PrimaryKeyConstraint("step_id", "resource_id", name="pk_deletes"),
        **_OPTIONS,
    )
    op.create_index("ix_deletes_deletion_id", "deletes", ["deletion_id"])
