"""Adds what a deletion that keeps its project deletes, and how many resources of a type it leaves.

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


# There is no downgrade: restore a backup. Processes of an earlier release write the defaults. They refuse to read a
# deletion in mode "empty", so that they cannot take it for one that removes its project.
def upgrade() -> None:
    op.add_column("deletions", sa.Column("selection", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("steps", sa.Column("unselected", sa.Integer, nullable=False, server_default="0"))
