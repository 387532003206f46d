"""A step says which types need only some of its resources.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


# There is no downgrade: restore a backup. A step without the value waits for every type in "after" to be gone.
def upgrade() -> None:
    op.add_column("steps", sa.Column("needed_by", sa.JSON(none_as_null=True), nullable=True))
