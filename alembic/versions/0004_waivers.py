"""Waivers: going on without a service, on an admin's recorded word.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"

ID = sa.String(64)
TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
OPTIONS = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


# There is no downgrade: restore a backup. A process of the release before knows no waivers: its surveys leave nothing
# out, and its engines ask for what is waived, too.
def upgrade() -> None:
    op.create_table(
        "waivers",
        sa.Column("id", ID, nullable=False),
        sa.Column("service_type", sa.String(128), nullable=False),
        sa.Column("region", sa.String(255), nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("request_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("deleted_at", TIME, nullable=True),
        sa.Column("deleted_by", ID, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_waivers"),
        **OPTIONS,
    )
    op.create_index("ix_waivers_created_at_id", "waivers", ["created_at", "id"])
    op.create_index("ix_waivers_expires_at", "waivers", ["expires_at"])
    op.add_column("deletions", sa.Column("waivers", sa.JSON, nullable=True))
    # The default is for the rows that are there, and for a process of the release before while both run.
    op.add_column("steps", sa.Column("waived", ID, nullable=False, server_default=""))
