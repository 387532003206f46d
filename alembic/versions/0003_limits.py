"""What all processes together may ask of each service: turns, slots, pauses.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"

TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
OPTIONS = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


# There is no downgrade: restore a backup. A process of the release before does not know these tables, and keeps no
# limits while both run.
def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("service", sa.String(128), nullable=False),
        sa.Column("region", sa.String(128), nullable=False),
        sa.Column("calls_at", TIME, nullable=True),
        sa.Column("deletes_at", TIME, nullable=True),
        sa.Column("paused_until", TIME, nullable=True),
        sa.PrimaryKeyConstraint("service", "region", name="pk_accounts"),
        **OPTIONS,
    )
    op.create_table(
        "account_leases",
        sa.Column("service", sa.String(128), nullable=False),
        sa.Column("region", sa.String(128), nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("wanted", sa.Integer, nullable=False),
        sa.Column("since", TIME, nullable=False),
        sa.Column("until", TIME, nullable=False),
        sa.PrimaryKeyConstraint("service", "region", "holder", name="pk_account_leases"),
        **OPTIONS,
    )
