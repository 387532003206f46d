"""Orphan scans: what dead projects left behind.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0006"
down_revision = "0005"

ID = sa.String(64)
TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
OPTIONS = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


# There is no downgrade: restore a backup. A process of the release before knows no scans: it drops what is cast about
# them, and the tick of a new one hands it out again.
def upgrade() -> None:
    op.create_table(
        "orphan_scans",
        sa.Column("id", ID, nullable=False),
        sa.Column("live", sa.String(64), nullable=True),
        sa.Column("status", sa.String(64), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("scheduled", sa.Boolean, nullable=False),
        sa.Column("read", sa.Integer, nullable=False),
        sa.Column("min_age", sa.Integer, nullable=False),
        sa.Column("reread_after", sa.Integer, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("request_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("status_at", TIME, nullable=False),
        sa.Column("wake_at", TIME, nullable=False),
        sa.Column("reread_at", TIME, nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("not_covered", sa.JSON, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_orphan_scans"),
        sa.UniqueConstraint("live", name="uq_orphan_scans_live"),
        **OPTIONS,
    )
    op.create_index("ix_orphan_scans_created_at_id", "orphan_scans", ["created_at", "id"])
    op.create_table(
        "orphan_scan_parts",
        sa.Column("id", ID, nullable=False),
        sa.Column("scan_id", ID, nullable=False),
        sa.Column("region", sa.String(128), nullable=False),
        sa.Column("service", sa.String(128), nullable=False),
        sa.Column("type", sa.String(128), nullable=False),
        sa.Column("residue", sa.Boolean, nullable=False),
        sa.Column("read", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("state", sa.String(64), nullable=False),
        sa.Column("outcome", sa.String(64), nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("listed", sa.Integer, nullable=False),
        sa.Column("owner_unknown", sa.Integer, nullable=False),
        sa.Column("too_young", sa.Integer, nullable=False),
        sa.Column("undecided", sa.Integer, nullable=False),
        sa.Column("candidates", sa.Integer, nullable=False),
        sa.Column("orphans", sa.Integer, nullable=False),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("worker", sa.String(255), nullable=False),
        sa.Column("dispatched_at", TIME, nullable=True),
        sa.Column("lease_until", TIME, nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_orphan_scan_parts"),
        sa.ForeignKeyConstraint(["scan_id"], ["orphan_scans.id"], name="fk_orphan_scan_parts_scan_id"),
        sa.UniqueConstraint(
            "scan_id", "region", "service", "type", name="uq_orphan_scan_parts_scan_id_region_service_type"
        ),
        **OPTIONS,
    )
    op.create_table(
        "orphans",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("scan_id", ID, nullable=False),
        sa.Column("part_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("region", sa.String(128), nullable=False),
        sa.Column("service", sa.String(128), nullable=False),
        sa.Column("type", sa.String(128), nullable=False),
        sa.Column("resource_id", sa.String(512), nullable=False),
        sa.Column("name", sa.String(512), nullable=False),
        sa.Column("residue", sa.Boolean, nullable=False),
        sa.Column("created_at", TIME, nullable=True),
        sa.Column("first_seen_at", TIME, nullable=False),
        sa.Column("last_seen_at", TIME, nullable=False),
        sa.Column("seen_fence", sa.Integer, nullable=False),
        sa.Column("confirmed", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_orphans"),
        sa.ForeignKeyConstraint(["scan_id"], ["orphan_scans.id"], name="fk_orphans_scan_id"),
        sa.ForeignKeyConstraint(["part_id"], ["orphan_scan_parts.id"], name="fk_orphans_part_id"),
        **OPTIONS,
    )
    op.create_index("ix_orphans_scan_id_id", "orphans", ["scan_id", "id"])
    op.create_index("ix_orphans_scan_id_project_id", "orphans", ["scan_id", "project_id"])
    op.create_index("ix_orphans_part_id_resource_id", "orphans", ["part_id", "resource_id"])
