"""What anybody may put into a project is looked at, and keeps nothing from going.

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


# There is no downgrade: restore a backup. What is under way gets its value with the next survey.
def upgrade() -> None:
    op.add_column("steps", sa.Column("informational", sa.Boolean, nullable=False, server_default=sa.false()))
