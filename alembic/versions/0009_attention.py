"""Deletions that need somebody can be asked for.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


# There is no downgrade: restore a backup. What is under way gets its value with the next decision on it.
def upgrade() -> None:
    op.add_column("deletions", sa.Column("attention", sa.String(64), nullable=False, server_default=""))
