"""Adds what the drain driver saw of a project's lock when it took hold.

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


# There is no downgrade: restore a backup. A deletion that is on record has no evidence: its project is locked again
# before it is removed.
def upgrade() -> None:
    op.add_column("deletions", sa.Column("lock_evidence", sa.String(255), nullable=False, server_default=""))
