"""Adds the services that speak the project resources protocol.

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0016"
down_revision = "0015"

_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_INNODB = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


# There is no downgrade: restore a backup. Processes of an earlier release do not read the table.
def upgrade() -> None:
    op.create_table(
        "protocol_services",
        sa.Column("region", sa.String(128), nullable=False),
        sa.Column("service_type", sa.String(128), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("spoken", sa.String(64), nullable=False),
        sa.Column("asked_at", _TIME, nullable=False),
        sa.Column("document", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("read_at", _TIME, nullable=True),
        sa.Column("error", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("region", "service_type", name="pk_protocol_services"),
        **_INNODB,
    )
