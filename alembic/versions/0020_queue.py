"""Adds which deletions have or wait for a place for work, and when each last got one.

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0020"
down_revision = "0019"

_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


# There is no downgrade: restore a backup. The next decision on a deletion under way records whether it has a place.
def upgrade() -> None:
    op.add_column("deletions", sa.Column("queue_state", sa.String(64), nullable=False, server_default=""))
    op.add_column("deletions", sa.Column("turn_at", _TIME, nullable=True))
    columns = ["queue_state", "status", "domain_id", "user_id", "created_at", "id"]
    op.create_index("ix_deletions_queue", "deletions", columns)
    op.create_index("ix_deletions_turn_at_domain_id_user_id", "deletions", ["turn_at", "domain_id", "user_id"])
