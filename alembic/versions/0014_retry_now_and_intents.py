"""Adds the time of a retry to deletions, and the recorded intent to leftovers.

A deletion has the time at which a user had its steps tried again. A leftover says whether the journal has the intent to
delete it.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0014"
down_revision = "0013"


# There is no downgrade: restore a backup. An engine of an older release waits as long as it would without the request.
# A worker of an older release writes another line about an intent.
def upgrade() -> None:
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    op.add_column("deletions", sa.Column("retry_now_at", time, nullable=True))
    announced = sa.Column("announced", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("leftovers", announced)
