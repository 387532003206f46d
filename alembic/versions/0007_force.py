"""Force: what an admin let go of, by name.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


# There is no downgrade: restore a backup. A process of the release before knows no force: its engines go on waiting,
# and its workers forget what was let go of. So the manual says to ask for force only when no such process runs any
# more. The defaults are for the rows that are there, and for those processes.
def upgrade() -> None:
    op.add_column("deletions", sa.Column("forced", sa.JSON, nullable=True))
    op.add_column("steps", sa.Column("forcing", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("steps", sa.Column("abandoned", sa.Integer, nullable=False, server_default="0"))
    op.add_column("steps", sa.Column("unseen", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("leftovers", sa.Column("abandoned", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("leftovers", sa.Column("owner", sa.String(64), nullable=False, server_default=""))
    op.add_column("leftovers", sa.Column("remedy", sa.Text, nullable=True))
