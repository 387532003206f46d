"""Liens on projects, and the brake.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0005"
down_revision = "0004"

ID = sa.String(64)
TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
OPTIONS = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


# There is no downgrade: restore a backup. A process of the release before knows neither: its workers go on deleting
# whatever is protected, until the last of them is replaced.
def upgrade() -> None:
    op.create_table(
        "liens",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("origin", sa.String(128), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("request_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=True),
        sa.Column("deleted_at", TIME, nullable=True),
        sa.Column("deleted_by", ID, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_liens"),
        **OPTIONS,
    )
    op.create_index("ix_liens_project_id_deleted_at", "liens", ["project_id", "deleted_at"])
    op.create_index("ix_liens_created_at_id", "liens", ["created_at", "id"])
    op.create_table(
        "brakes",
        sa.Column("id", ID, nullable=False),
        sa.Column("on", sa.Boolean, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("request_id", ID, nullable=False),
        sa.Column("since", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_brakes"),
        **OPTIONS,
    )
