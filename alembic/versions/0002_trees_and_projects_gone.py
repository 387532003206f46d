"""Project trees, and projects that somebody else deleted.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"

ID = sa.String(64)
TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


# There is no downgrade: restore a backup.
def upgrade() -> None:
    # The defaults are for the rows that are there, and for a process of the release before while both run.
    op.add_column("deletions", sa.Column("origin", ID, nullable=False, server_default="request"))
    op.add_column("deletions", sa.Column("include_subtree", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("deletions", sa.Column("parent_deletion_id", ID, nullable=False, server_default=""))
    op.add_column("deletions", sa.Column("project_gone_at", TIME, nullable=True))
    op.create_index("ix_deletions_parent_deletion_id", "deletions", ["parent_deletion_id"])
