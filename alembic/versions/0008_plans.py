"""Plans, approvals and the recovery window.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0008"
down_revision = "0007"

ID = sa.String(64)
TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


# There is no downgrade: restore a backup. A process of the release before neither knows plans nor asks for an approval
# nor waits for a recovery window: use them when every process is of this release.
def upgrade() -> None:
    op.add_column("deletions", sa.Column("plan_id", ID, nullable=False, server_default=""))
    op.add_column("deletions", sa.Column("plan_hash", ID, nullable=False, server_default=""))
    op.add_column("deletions", sa.Column("point_of_no_return_at", TIME, nullable=True))
    op.add_column("deletions", sa.Column("approvals", sa.JSON, nullable=True))
    op.add_column("steps", sa.Column("newcomers", sa.Integer, nullable=False, server_default="0"))
    op.add_column("steps", sa.Column("digest", ID, nullable=False, server_default=""))
