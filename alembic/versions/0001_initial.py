"""The first schema.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None

ID = sa.String(64)
TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
OPTIONS = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


# There is no downgrade: restore a backup.
def upgrade() -> None:
    op.create_table(
        "deletions",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("live_project_id", ID, nullable=True),
        sa.Column("project_name", sa.String(255), nullable=False),
        sa.Column("domain_id", ID, nullable=False),
        sa.Column("mode", ID, nullable=False),
        sa.Column("dry_run", sa.Boolean, nullable=False),
        sa.Column("status", ID, nullable=False),
        sa.Column("reason", ID, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("request_id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("since_round", sa.Integer, nullable=False),
        sa.Column("purpose", ID, nullable=False),
        sa.Column("round_opened_at", TIME, nullable=True),
        sa.Column("empty_inventories", sa.Integer, nullable=False),
        sa.Column("drained_at", TIME, nullable=True),
        sa.Column("closed_at", TIME, nullable=True),
        sa.Column("member_ids", sa.JSON, nullable=False),
        sa.Column("conditions", sa.JSON, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.Column("status_at", TIME, nullable=False),
        sa.Column("progress_at", TIME, nullable=False),
        sa.Column("wake_at", TIME, nullable=False),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_deletions"),
        sa.UniqueConstraint("live_project_id", name="uq_deletions_live_project_id"),
        **OPTIONS,
    )
    op.create_index("ix_deletions_created_at_id", "deletions", ["created_at", "id"])
    op.create_index("ix_deletions_domain_id_created_at", "deletions", ["domain_id", "created_at"])
    op.create_index("ix_deletions_live_project_id_wake_at", "deletions", ["live_project_id", "wake_at"])
    op.create_index("ix_deletions_project_id", "deletions", ["project_id"])
    op.create_index("ix_deletions_status_created_at", "deletions", ["status", "created_at"])
    op.create_table(
        "changes",
        sa.Column("id", ID, nullable=False),
        sa.Column("deletion_id", ID, nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("type", ID, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("undone", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_changes"),
        sa.ForeignKeyConstraint(["deletion_id"], ["deletions.id"], name="fk_changes_deletion_id"),
        sa.UniqueConstraint("deletion_id", "sequence", name="uq_changes_deletion_id_sequence"),
        **OPTIONS,
    )
    op.create_table(
        "events",
        sa.Column("id", BIGINT, autoincrement=True, nullable=False),
        sa.Column("deletion_id", ID, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("type", ID, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("request_id", ID, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sa.ForeignKeyConstraint(["deletion_id"], ["deletions.id"], name="fk_events_deletion_id"),
        **OPTIONS,
    )
    op.create_index("ix_events_deletion_id_id", "events", ["deletion_id", "id"])
    op.create_table(
        "steps",
        sa.Column("id", ID, nullable=False),
        sa.Column("deletion_id", ID, nullable=False),
        sa.Column("kind", ID, nullable=False),
        sa.Column("region", sa.String(128), nullable=False),
        sa.Column("service", sa.String(128), nullable=False),
        sa.Column("type", sa.String(128), nullable=False),
        sa.Column("after", sa.JSON, nullable=False),
        sa.Column("residue", sa.Boolean, nullable=False),
        sa.Column("token", ID, nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("state", ID, nullable=False),
        sa.Column("outcome", ID, nullable=False),
        sa.Column("reason", ID, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("found", sa.Integer, nullable=False),
        sa.Column("remaining", sa.Integer, nullable=False),
        sa.Column("kept", sa.Integer, nullable=False),
        sa.Column("deleted", sa.Integer, nullable=False),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("worker", sa.String(255), nullable=False),
        sa.Column("dispatched_at", TIME, nullable=True),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.Column("lease_until", TIME, nullable=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_steps"),
        sa.ForeignKeyConstraint(["deletion_id"], ["deletions.id"], name="fk_steps_deletion_id"),
        sa.UniqueConstraint(
            "deletion_id", "kind", "region", "service", "type", name="uq_steps_deletion_id_kind_region_service_type"
        ),
        **OPTIONS,
    )
    op.create_table(
        "leftovers",
        sa.Column("id", BIGINT, autoincrement=True, nullable=False),
        sa.Column("deletion_id", ID, nullable=False),
        sa.Column("step_id", ID, nullable=False),
        sa.Column("region", sa.String(128), nullable=False),
        sa.Column("service", sa.String(128), nullable=False),
        sa.Column("type", sa.String(128), nullable=False),
        sa.Column("resource_id", sa.String(512), nullable=False),
        sa.Column("name", sa.String(512), nullable=False),
        sa.Column("reason", ID, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("blocked_by", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_leftovers"),
        sa.ForeignKeyConstraint(["deletion_id"], ["deletions.id"], name="fk_leftovers_deletion_id"),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name="fk_leftovers_step_id", ondelete="CASCADE"),
        **OPTIONS,
    )
    op.create_index("ix_leftovers_deletion_id_id", "leftovers", ["deletion_id", "id"])
    op.create_index("ix_leftovers_step_id", "leftovers", ["step_id"])
