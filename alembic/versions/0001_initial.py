"""Creates the schema of release 1.0.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None

_ID = sa.String(64)
_EXACT = sa.String(128).with_variant(mysql.VARCHAR(128, collation="utf8mb4_bin"), "mysql", "mariadb")
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_INNODB = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


# There is no downgrade: restore a backup.
def upgrade() -> None:
    op.create_table(
        "deletions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("project_id", _ID, nullable=False),
        sa.Column("live_project_id", _ID, nullable=True),
        sa.Column("project_name", sa.String(255), nullable=False),
        sa.Column("domain_id", _ID, nullable=False),
        sa.Column("mode", _ID, nullable=False),
        sa.Column("dry_run", sa.Boolean, nullable=False),
        sa.Column("status", _ID, nullable=False),
        sa.Column("reason", _ID, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("request_id", _ID, nullable=False),
        sa.Column("user_id", _ID, nullable=False),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("since_round", sa.Integer, nullable=False),
        sa.Column("purpose", _ID, nullable=False),
        sa.Column("round_opened_at", _TIME, nullable=True),
        sa.Column("empty_inventories", sa.Integer, nullable=False),
        sa.Column("drained_at", _TIME, nullable=True),
        sa.Column("closed_at", _TIME, nullable=True),
        sa.Column("member_ids", sa.JSON, nullable=False),
        sa.Column("conditions", sa.JSON, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME, nullable=False),
        sa.Column("status_at", _TIME, nullable=False),
        sa.Column("progress_at", _TIME, nullable=False),
        sa.Column("wake_at", _TIME, nullable=False),
        sa.Column("finished_at", _TIME, nullable=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("origin", _ID, nullable=False),
        sa.Column("include_subtree", sa.Boolean, nullable=False),
        sa.Column("parent_deletion_id", _ID, nullable=False),
        sa.Column("project_gone_at", _TIME, nullable=True),
        sa.Column("waivers", sa.JSON, nullable=False),
        sa.Column("forced", sa.JSON, nullable=True),
        sa.Column("plan_id", _ID, nullable=False),
        sa.Column("plan_hash", _ID, nullable=False),
        sa.Column("point_of_no_return_at", _TIME, nullable=True),
        sa.Column("approvals", sa.JSON, nullable=False),
        sa.Column("attention", _ID, nullable=False),
        sa.Column("tally", sa.JSON, nullable=False),
        sa.Column("retry_now_at", _TIME, nullable=True),
        sa.Column("selection", sa.JSON, nullable=True),
        sa.Column("lock_evidence", sa.String(255), nullable=False),
        sa.Column("queue_state", _ID, nullable=False),
        sa.Column("turn_at", _TIME, nullable=True),
        sa.Column("request_reason", sa.Text, nullable=False),
        sa.Column("ticket", _EXACT, nullable=False),
        sa.Column("not_before", _TIME, nullable=True),
        sa.Column("begins_at", _TIME, nullable=False),
        sa.Column("journal_length", sa.Integer, nullable=False),
        sa.Column("journal_digest", _ID, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_deletions"),
        sa.UniqueConstraint("live_project_id", name="uq_deletions_live_project_id"),
        **_INNODB,
    )
    op.create_index("ix_deletions_project_id_created_at_id", "deletions", ["project_id", "created_at", "id"])
    op.create_index("ix_deletions_live_project_id_wake_at", "deletions", ["live_project_id", "wake_at"])
    op.create_index("ix_deletions_project_name_created_at_id", "deletions", ["project_name", "created_at", "id"])
    op.create_index("ix_deletions_domain_id_created_at_id", "deletions", ["domain_id", "created_at", "id"])
    op.create_index("ix_deletions_mode_created_at_id", "deletions", ["mode", "created_at", "id"])
    op.create_index("ix_deletions_status_created_at_id", "deletions", ["status", "created_at", "id"])
    op.create_index("ix_deletions_user_id_created_at_id", "deletions", ["user_id", "created_at", "id"])
    op.create_index("ix_deletions_user_name_created_at_id", "deletions", ["user_name", "created_at", "id"])
    op.create_index("ix_deletions_ticket_created_at_id", "deletions", ["ticket", "created_at", "id"])
    op.create_index("ix_deletions_begins_at_created_at_id", "deletions", ["begins_at", "created_at", "id"])
    op.create_index("ix_deletions_created_at_id", "deletions", ["created_at", "id"])
    op.create_index("ix_deletions_updated_at_created_at_id", "deletions", ["updated_at", "created_at", "id"])
    op.create_index("ix_deletions_status_at_created_at_id", "deletions", ["status_at", "created_at", "id"])
    op.create_index("ix_deletions_progress_at_created_at_id", "deletions", ["progress_at", "created_at", "id"])
    op.create_index("ix_deletions_origin_created_at_id", "deletions", ["origin", "created_at", "id"])
    op.create_index(
        "ix_deletions_parent_deletion_id_created_at_id", "deletions", ["parent_deletion_id", "created_at", "id"]
    )
    op.create_index(
        "ix_deletions_queue", "deletions", ["queue_state", "status", "domain_id", "user_id", "created_at", "id"]
    )
    op.create_index("ix_deletions_turn_at_domain_id_user_id", "deletions", ["turn_at", "domain_id", "user_id"])
    op.create_table(
        "steps",
        sa.Column("id", _ID, nullable=False),
        sa.Column("owner_id", _ID, nullable=False),
        sa.Column("kind", _ID, nullable=False),
        sa.Column("region", sa.String(128), nullable=False),
        sa.Column("service", sa.String(128), nullable=False),
        sa.Column("type", sa.String(128), nullable=False),
        sa.Column("after", sa.JSON, nullable=False),
        sa.Column("project_setting", sa.Boolean, nullable=False),
        sa.Column("token", _ID, nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("state", _ID, nullable=False),
        sa.Column("outcome", _ID, nullable=False),
        sa.Column("reason", _ID, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("found", sa.Integer, nullable=False),
        sa.Column("remaining", sa.Integer, nullable=False),
        sa.Column("kept", sa.Integer, nullable=False),
        sa.Column("deleted", sa.Integer, nullable=False),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("fencing_token", sa.Integer, nullable=False),
        sa.Column("worker", sa.String(255), nullable=False),
        sa.Column("dispatched_at", _TIME, nullable=True),
        sa.Column("started_at", _TIME, nullable=True),
        sa.Column("finished_at", _TIME, nullable=True),
        sa.Column("lease_until", _TIME, nullable=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("waived", _ID, nullable=False),
        sa.Column("forcing", sa.Boolean, nullable=False),
        sa.Column("abandoned", sa.Integer, nullable=False),
        sa.Column("unseen", sa.Boolean, nullable=False),
        sa.Column("unplanned", sa.Integer, nullable=False),
        sa.Column("digest", _ID, nullable=False),
        sa.Column("informational", sa.Boolean, nullable=False),
        sa.Column("needed_by", sa.JSON, nullable=False),
        sa.Column("unselected", sa.Integer, nullable=False),
        sa.Column("same", sa.Integer, nullable=False),
        sa.Column("absent", sa.Boolean, nullable=False),
        sa.Column("remedy", sa.Text, nullable=False),
        sa.Column("counts", sa.JSON, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_steps"),
        sa.UniqueConstraint(
            "owner_id", "kind", "region", "service", "type", name="uq_steps_owner_id_kind_region_service_type"
        ),
        **_INNODB,
    )
    op.create_table(
        "leftovers",
        sa.Column("id", _BIGINT, autoincrement=True, nullable=False),
        sa.Column("deletion_id", _ID, nullable=False),
        sa.Column("step_id", _ID, nullable=False),
        sa.Column("region", sa.String(128), nullable=False),
        sa.Column("service", sa.String(128), nullable=False),
        sa.Column("type", sa.String(128), nullable=False),
        sa.Column("resource_id", sa.String(512), nullable=False),
        sa.Column("name", sa.String(512), nullable=False),
        sa.Column("reason", _ID, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("blocked_by", sa.JSON, nullable=False),
        sa.Column("abandoned", sa.Boolean, nullable=False),
        sa.Column("owner", _ID, nullable=False),
        sa.Column("remedy", sa.Text, nullable=False),
        sa.Column("announced", sa.Boolean, nullable=False),
        sa.Column("size", _BIGINT, nullable=True),
        sa.Column("objects", _BIGINT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_leftovers"),
        sa.ForeignKeyConstraint(["deletion_id"], ["deletions.id"], name="fk_leftovers_deletion_id"),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name="fk_leftovers_step_id", ondelete="CASCADE"),
        **_INNODB,
    )
    op.create_index("ix_leftovers_deletion_id_id", "leftovers", ["deletion_id", "id"])
    op.create_index(
        "ix_leftovers_deletion_id_region_service_type_reason",
        "leftovers",
        ["deletion_id", "region", "service", "type", "reason"],
    )
    op.create_index("ix_leftovers_step_id", "leftovers", ["step_id"])
    op.create_index("ix_leftovers_service_id", "leftovers", ["service", "id"])
    op.create_index("ix_leftovers_type_id", "leftovers", ["type", "id"])
    op.create_index("ix_leftovers_reason_id", "leftovers", ["reason", "id"])
    op.create_table(
        "deletes",
        sa.Column("id", _BIGINT, autoincrement=True, nullable=False),
        sa.Column("step_id", _ID, nullable=False),
        sa.Column("resource_id", sa.String(512), nullable=False),
        sa.Column("deletion_id", _ID, nullable=False),
        sa.Column("accepted", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("fault", sa.Text, nullable=False),
        sa.Column("seen_at", _TIME, nullable=True),
        sa.Column("accepted_at", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_deletes"),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name="fk_deletes_step_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["deletion_id"], ["deletions.id"], name="fk_deletes_deletion_id"),
        **_INNODB,
    )
    op.create_index("ix_deletes_deletion_id", "deletes", ["deletion_id"])
    op.create_index("ix_deletes_step_id", "deletes", ["step_id"])
    op.create_table(
        "events",
        sa.Column("id", _BIGINT, autoincrement=True, nullable=False),
        sa.Column("deletion_id", _ID, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("type", _ID, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("request_id", _ID, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("digest", _ID, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sa.ForeignKeyConstraint(["deletion_id"], ["deletions.id"], name="fk_events_deletion_id"),
        **_INNODB,
    )
    op.create_index("ix_events_deletion_id_id", "events", ["deletion_id", "id"])
    op.create_table(
        "purged_journals",
        sa.Column("deletion_id", _ID, nullable=False),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("digest", _ID, nullable=False),
        sa.Column("purged_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("deletion_id", name="pk_purged_journals"),
        **_INNODB,
    )
    op.create_table(
        "event_resources",
        sa.Column("id", _BIGINT, autoincrement=True, nullable=False),
        sa.Column("event_id", _BIGINT, nullable=False),
        sa.Column("deletion_id", _ID, nullable=False),
        sa.Column("resource_id", sa.String(512), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_event_resources"),
        sa.ForeignKeyConstraint(["deletion_id"], ["deletions.id"], name="fk_event_resources_deletion_id"),
        **_INNODB,
    )
    op.create_index("ix_event_resources_deletion_id", "event_resources", ["deletion_id"])
    op.create_index("ix_event_resources_resource_id_event_id", "event_resources", ["resource_id", "event_id"])
    op.create_table(
        "changes",
        sa.Column("id", _ID, nullable=False),
        sa.Column("deletion_id", _ID, nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("type", _ID, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("undone", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_changes"),
        sa.ForeignKeyConstraint(["deletion_id"], ["deletions.id"], name="fk_changes_deletion_id"),
        sa.UniqueConstraint("deletion_id", "sequence", name="uq_changes_deletion_id_sequence"),
        **_INNODB,
    )
    op.create_table(
        "brakes",
        sa.Column("id", _ID, nullable=False),
        sa.Column("on", sa.Boolean, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("user_id", _ID, nullable=False),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("request_id", _ID, nullable=False),
        sa.Column("since", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_brakes"),
        **_INNODB,
    )
    op.create_table(
        "liens",
        sa.Column("id", _ID, nullable=False),
        sa.Column("project_id", _ID, nullable=False),
        sa.Column("origin", sa.String(128), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("user_id", _ID, nullable=False),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("request_id", _ID, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("expires_at", _TIME, nullable=True),
        sa.Column("deleted_at", _TIME, nullable=True),
        sa.Column("deleted_by", _ID, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_liens"),
        **_INNODB,
    )
    op.create_index("ix_liens_project_id_created_at_id", "liens", ["project_id", "created_at", "id"])
    op.create_index("ix_liens_project_id_deleted_at", "liens", ["project_id", "deleted_at"])
    op.create_index("ix_liens_origin_created_at_id", "liens", ["origin", "created_at", "id"])
    op.create_index("ix_liens_created_at_id", "liens", ["created_at", "id"])
    op.create_index("ix_liens_deleted_at_created_at_id", "liens", ["deleted_at", "created_at", "id"])
    op.create_table(
        "waivers",
        sa.Column("id", _ID, nullable=False),
        sa.Column("service_type", sa.String(128), nullable=False),
        sa.Column("region", sa.String(255), nullable=False),
        sa.Column("project_id", _ID, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("user_id", _ID, nullable=False),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("request_id", _ID, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("expires_at", _TIME, nullable=False),
        sa.Column("deleted_at", _TIME, nullable=True),
        sa.Column("deleted_by", _ID, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_waivers"),
        **_INNODB,
    )
    op.create_index("ix_waivers_service_type_created_at_id", "waivers", ["service_type", "created_at", "id"])
    op.create_index("ix_waivers_region_created_at_id", "waivers", ["region", "created_at", "id"])
    op.create_index("ix_waivers_project_id_created_at_id", "waivers", ["project_id", "created_at", "id"])
    op.create_index("ix_waivers_created_at_id", "waivers", ["created_at", "id"])
    op.create_index("ix_waivers_expires_at_created_at_id", "waivers", ["expires_at", "created_at", "id"])
    op.create_index("ix_waivers_deleted_at_created_at_id", "waivers", ["deleted_at", "created_at", "id"])
    op.create_table(
        "rate_limits",
        sa.Column("service", sa.String(128), nullable=False),
        sa.Column("region", sa.String(128), nullable=False),
        sa.Column("calls_at", _TIME, nullable=True),
        sa.Column("deletes_at", _TIME, nullable=True),
        sa.Column("paused_until", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("service", "region", name="pk_rate_limits"),
        **_INNODB,
    )
    op.create_table(
        "rate_limit_leases",
        sa.Column("service", sa.String(128), nullable=False),
        sa.Column("region", sa.String(128), nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("wanted", sa.Integer, nullable=False),
        sa.Column("since", _TIME, nullable=False),
        sa.Column("until", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("service", "region", "holder", name="pk_rate_limit_leases"),
        **_INNODB,
    )
    op.create_table(
        "protocol_services",
        sa.Column("region", sa.String(128), nullable=False),
        sa.Column("service_type", sa.String(128), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("spoken", _ID, nullable=False),
        sa.Column("asked_at", _TIME, nullable=False),
        sa.Column("document", sa.JSON, nullable=True),
        sa.Column("digest", _ID, nullable=False),
        sa.Column("read_at", _TIME, nullable=True),
        sa.Column("error", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("region", "service_type", name="pk_protocol_services"),
        **_INNODB,
    )
    op.create_table(
        "orphan_scans",
        sa.Column("id", _ID, nullable=False),
        sa.Column("live", _ID, nullable=True),
        sa.Column("status", _ID, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("scheduled", sa.Boolean, nullable=False),
        sa.Column("read", sa.Integer, nullable=False),
        sa.Column("min_age", sa.Integer, nullable=False),
        sa.Column("reread_after", sa.Integer, nullable=False),
        sa.Column("user_id", _ID, nullable=False),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("request_id", _ID, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("status_at", _TIME, nullable=False),
        sa.Column("wake_at", _TIME, nullable=False),
        sa.Column("reread_at", _TIME, nullable=True),
        sa.Column("finished_at", _TIME, nullable=True),
        sa.Column("not_covered", sa.JSON, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_orphan_scans"),
        sa.UniqueConstraint("live", name="uq_orphan_scans_live"),
        **_INNODB,
    )
    op.create_index("ix_orphan_scans_status_created_at_id", "orphan_scans", ["status", "created_at", "id"])
    op.create_index("ix_orphan_scans_created_at_id", "orphan_scans", ["created_at", "id"])
    op.create_index("ix_orphan_scans_status_at_created_at_id", "orphan_scans", ["status_at", "created_at", "id"])
    op.create_table(
        "orphans",
        sa.Column("id", _BIGINT, autoincrement=True, nullable=False),
        sa.Column("scan_id", _ID, nullable=False),
        sa.Column("step_id", _ID, nullable=False),
        sa.Column("project_id", _ID, nullable=False),
        sa.Column("region", sa.String(128), nullable=False),
        sa.Column("service", sa.String(128), nullable=False),
        sa.Column("type", sa.String(128), nullable=False),
        sa.Column("resource_id", sa.String(512), nullable=False),
        sa.Column("name", sa.String(512), nullable=False),
        sa.Column("project_setting", sa.Boolean, nullable=False),
        sa.Column("created_at", _TIME, nullable=True),
        sa.Column("first_seen_at", _TIME, nullable=False),
        sa.Column("last_seen_at", _TIME, nullable=False),
        sa.Column("seen_fence", sa.Integer, nullable=False),
        sa.Column("confirmed", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_orphans"),
        sa.ForeignKeyConstraint(["scan_id"], ["orphan_scans.id"], name="fk_orphans_scan_id"),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name="fk_orphans_step_id", ondelete="CASCADE"),
        **_INNODB,
    )
    op.create_index("ix_orphans_scan_id_id", "orphans", ["scan_id", "id"])
    op.create_index(
        "ix_orphans_counts", "orphans", ["scan_id", "confirmed", "project_id", "service", "type", "project_setting"]
    )
    op.create_index("ix_orphans_step_id_resource_id", "orphans", ["step_id", "resource_id"])
