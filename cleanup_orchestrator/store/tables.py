"""The tables, as SQLAlchemy describes them.

Times are naive UTC with microseconds, from the clock of the database. JSON columns contain small documents, which are
read and written as a whole.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

#: Explicit names of constraints, so that migrations are the same on every database.
metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_ID = sa.String(64)
_CODE = sa.String(64)
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
#: MariaDB compares other texts without case and accents: a filter by a ticket would select those of another one.
_EXACT = sa.String(128).with_variant(mysql.VARCHAR(128, collation="utf8mb4_bin"), "mysql", "mariadb")
_BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_OPTIONS = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


def _listed_by(*columns: str) -> tuple[sa.Index, ...]:
    """Return the indexes in which lists that are sorted or filtered by a column find a page.

    ``created_at`` and the id decide between rows that sort alike; see ``Page.order``.
    """
    return tuple(sa.Index(None, *dict.fromkeys((column, "created_at", "id"))) for column in columns)


deletions = sa.Table(
    "deletions",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("project_id", _ID, nullable=False),
    # The project's id while the deletion is live, else NULL: of two simultaneous requests, one creates the record.
    sa.Column("live_project_id", _ID, nullable=True),
    sa.Column("project_name", sa.String(255), nullable=False),
    sa.Column("domain_id", _ID, nullable=False),
    sa.Column("mode", _CODE, nullable=False),
    sa.Column("dry_run", sa.Boolean, nullable=False),
    sa.Column("status", _CODE, nullable=False),
    sa.Column("reason", _CODE, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("request_id", _ID, nullable=False),
    sa.Column("user_id", _ID, nullable=False),
    sa.Column("user_name", sa.String(255), nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("since_round", sa.Integer, nullable=False),
    sa.Column("purpose", _CODE, nullable=False),
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
    sa.Column("origin", _CODE, nullable=False),
    sa.Column("include_subtree", sa.Boolean, nullable=False),
    sa.Column("parent_deletion_id", _ID, nullable=False),
    sa.Column("project_gone_at", _TIME, nullable=True),
    sa.Column("waivers", sa.JSON, nullable=False),
    sa.Column("forced", sa.JSON(none_as_null=True), nullable=True),
    sa.Column("plan_id", _ID, nullable=False),
    sa.Column("plan_hash", _ID, nullable=False),
    sa.Column("point_of_no_return_at", _TIME, nullable=True),
    sa.Column("approvals", sa.JSON, nullable=False),
    # Why a live deletion needs an operator: a copy of its conditions, for queries.
    sa.Column("attention", _CODE, nullable=False),
    # Counts of the steps; they hold if the version in them is that of the row.
    sa.Column("tally", sa.JSON, nullable=False),
    sa.Column("retry_now_at", _TIME, nullable=True),
    sa.Column("selection", sa.JSON(none_as_null=True), nullable=True),  # NULL: everything
    sa.Column("lock_evidence", sa.String(255), nullable=False),
    sa.Column("queue_state", _CODE, nullable=False),
    sa.Column("turn_at", _TIME, nullable=True),
    sa.Column("request_reason", sa.Text, nullable=False),
    sa.Column("ticket", _EXACT, nullable=False),
    sa.Column("not_before", _TIME, nullable=True),
    sa.Column("begins_at", _TIME, nullable=False),  # the later of created_at and not_before, for queries
    # The head of the journal's hash chain. Each writer of the journal locks this row; see ``journal.write_journal``.
    sa.Column("journal_length", sa.Integer, nullable=False, default=0),
    sa.Column("journal_digest", _ID, nullable=False, default=""),
    sa.UniqueConstraint("live_project_id"),
    sa.Index(None, "live_project_id", "wake_at"),
    # For the queue: with a name of its own, as that of the convention is longer than PostgreSQL's 63 characters.
    sa.Index("ix_deletions_queue", "queue_state", "status", "domain_id", "user_id", "created_at", "id"),
    sa.Index(None, "turn_at", "domain_id", "user_id"),
    *_listed_by(
        *("created_at", "updated_at", "status_at", "progress_at"),
        *("status", "mode", "origin", "project_id", "project_name", "domain_id", "parent_deletion_id"),
        *("user_id", "user_name", "ticket", "begins_at"),
    ),
    **_OPTIONS,
)

steps = sa.Table(
    "steps",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    # A deletion or an orphan scan, by ``kind``.
    sa.Column("owner_id", _ID, nullable=False),
    sa.Column("kind", _CODE, nullable=False),
    sa.Column("region", sa.String(128), nullable=False),
    sa.Column("service", sa.String(128), nullable=False),
    sa.Column("type", sa.String(128), nullable=False),
    sa.Column("after", sa.JSON, nullable=False),
    sa.Column("project_setting", sa.Boolean, nullable=False),
    sa.Column("token", _CODE, nullable=False),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("state", _CODE, nullable=False),
    sa.Column("outcome", _CODE, nullable=False),
    sa.Column("reason", _CODE, nullable=False),
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
    sa.Column("counts", sa.JSON(none_as_null=True), nullable=True),  # of an orphan scan
    sa.UniqueConstraint("owner_id", "kind", "region", "service", "type"),
    **_OPTIONS,
)

leftovers = sa.Table(
    "leftovers",
    metadata,
    sa.Column("id", _BIGINT, primary_key=True, autoincrement=True),
    sa.Column("deletion_id", _ID, sa.ForeignKey("deletions.id"), nullable=False),
    sa.Column("step_id", _ID, sa.ForeignKey("steps.id", ondelete="CASCADE"), nullable=False),
    sa.Column("region", sa.String(128), nullable=False),
    sa.Column("service", sa.String(128), nullable=False),
    sa.Column("type", sa.String(128), nullable=False),
    sa.Column("resource_id", sa.String(512), nullable=False),
    sa.Column("name", sa.String(512), nullable=False),
    sa.Column("reason", _CODE, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("blocked_by", sa.JSON, nullable=False),
    sa.Column("abandoned", sa.Boolean, nullable=False),
    sa.Column("owner", _ID, nullable=False),
    sa.Column("remedy", sa.Text, nullable=False),
    sa.Column("announced", sa.Boolean, nullable=False),
    sa.Column("size", _BIGINT, nullable=True),
    sa.Column("objects", _BIGINT, nullable=True),
    sa.Index(None, "deletion_id", "id"),
    sa.Index(None, "deletion_id", "region", "service", "type", "reason"),
    sa.Index(None, "step_id"),
    # These serve the lists of leftovers of all deletions with one filter.
    *(sa.Index(None, column, "id") for column in ("service", "type", "reason")),
    **_OPTIONS,
)

#: What is known of accepted deletes of resources that are still there; see ``core.step.DeleteRecord``.
deletes = sa.Table(
    "deletes",
    metadata,
    # No key has the resource's id, because MariaDB would compare it without case, accents and trailing blanks.
    sa.Column("id", _BIGINT, primary_key=True, autoincrement=True),
    sa.Column("step_id", _ID, sa.ForeignKey("steps.id", ondelete="CASCADE"), nullable=False),
    sa.Column("resource_id", sa.String(512), nullable=False),
    sa.Column("deletion_id", _ID, sa.ForeignKey("deletions.id"), nullable=False),
    sa.Column("accepted", sa.Integer, nullable=False),
    sa.Column("failed", sa.Integer, nullable=False),
    sa.Column("fault", sa.Text, nullable=False),
    sa.Column("seen_at", _TIME, nullable=True),
    sa.Column("accepted_at", _TIME, nullable=True),
    sa.Index(None, "deletion_id"),
    sa.Index(None, "step_id"),
    **_OPTIONS,
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", _BIGINT, primary_key=True, autoincrement=True),
    sa.Column("deletion_id", _ID, sa.ForeignKey("deletions.id"), nullable=False),
    sa.Column("at", _TIME, nullable=False),
    sa.Column("type", _CODE, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("actor", sa.String(255), nullable=False),
    sa.Column("request_id", _ID, nullable=False),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Column("sequence", sa.Integer, nullable=False),
    sa.Column("digest", _ID, nullable=False),
    sa.Index(None, "deletion_id", "id"),
    **_OPTIONS,
)

#: The head of the journal of each purged deletion, against which a kept report is checked. Rows are never deleted.
purged_journals = sa.Table(
    "purged_journals",
    metadata,
    sa.Column("deletion_id", _ID, primary_key=True),
    sa.Column("length", sa.Integer, nullable=False),
    sa.Column("digest", _ID, nullable=False),
    sa.Column("purged_at", _TIME, nullable=False),
    **_OPTIONS,
)

#: The resources that journal lines name: which line is about which resource.
event_resources = sa.Table(
    "event_resources",
    metadata,
    sa.Column("id", _BIGINT, primary_key=True, autoincrement=True),
    # Without a foreign key, which would need one more index.
    sa.Column("event_id", _BIGINT, nullable=False),
    sa.Column("deletion_id", _ID, sa.ForeignKey("deletions.id"), nullable=False),
    sa.Column("resource_id", sa.String(512), nullable=False),
    sa.Index(None, "resource_id", "event_id"),
    sa.Index(None, "deletion_id"),
    **_OPTIONS,
)

changes = sa.Table(
    "changes",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("deletion_id", _ID, sa.ForeignKey("deletions.id"), nullable=False),
    sa.Column("sequence", sa.Integer, nullable=False),
    sa.Column("type", _CODE, nullable=False),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Column("undone", sa.Boolean, nullable=False),
    sa.UniqueConstraint("deletion_id", "sequence"),
    **_OPTIONS,
)

#: At most one row: whether the brake is on, who set or lifted it last, and why.
brakes = sa.Table(
    "brakes",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("on", sa.Boolean, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("user_id", _ID, nullable=False),
    sa.Column("user_name", sa.String(255), nullable=False),
    sa.Column("request_id", _ID, nullable=False),
    sa.Column("since", _TIME, nullable=False),
    **_OPTIONS,
)

#: Rows are never deleted: who protected what is also asked after the lien has ended.
liens = sa.Table(
    "liens",
    metadata,
    sa.Column("id", _ID, primary_key=True),
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
    sa.Index(None, "project_id", "deleted_at"),
    *_listed_by("created_at", "project_id", "origin", "deleted_at"),
    **_OPTIONS,
)

#: Rows are never deleted: who waived what is also asked after the waiver has ended.
waivers = sa.Table(
    "waivers",
    metadata,
    sa.Column("id", _ID, primary_key=True),
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
    *_listed_by("created_at", "expires_at", "service_type", "region", "project_id", "deleted_at"),
    **_OPTIONS,
)

#: How much all processes together may call one service in one region; see ``core.rate_limits``.
rate_limits = sa.Table(
    "rate_limits",
    metadata,
    sa.Column("service", sa.String(128), primary_key=True),
    sa.Column("region", sa.String(128), primary_key=True),
    sa.Column("calls_at", _TIME, nullable=True),
    sa.Column("deletes_at", _TIME, nullable=True),
    sa.Column("paused_until", _TIME, nullable=True),
    **_OPTIONS,
)

#: The slots of each process: its share of the calls that may be under way at once.
rate_limit_leases = sa.Table(
    "rate_limit_leases",
    metadata,
    sa.Column("service", sa.String(128), primary_key=True),
    sa.Column("region", sa.String(128), primary_key=True),
    sa.Column("holder", sa.String(255), primary_key=True),
    sa.Column("slots", sa.Integer, nullable=False),
    sa.Column("wanted", sa.Integer, nullable=False),
    sa.Column("since", _TIME, nullable=False),
    sa.Column("until", _TIME, nullable=False),
    **_OPTIONS,
)

#: Services that were asked whether they speak the project resources protocol, and what they answered.
protocol_services = sa.Table(
    "protocol_services",
    metadata,
    sa.Column("region", sa.String(128), primary_key=True),
    sa.Column("service_type", sa.String(128), primary_key=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("spoken", _CODE, nullable=False),
    sa.Column("asked_at", _TIME, nullable=False),
    sa.Column("document", sa.JSON(none_as_null=True), nullable=True),
    sa.Column("digest", _ID, nullable=False),
    sa.Column("read_at", _TIME, nullable=True),
    sa.Column("error", sa.Text, nullable=False),
    **_OPTIONS,
)

#: Searches for resources of deleted projects. ``live`` is the same value for all, and NULL after the end: so only one
#: scan is live at a time.
orphan_scans = sa.Table(
    "orphan_scans",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("live", _CODE, nullable=True),
    sa.Column("status", _CODE, nullable=False),
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
    sa.UniqueConstraint("live"),
    *_listed_by("created_at", "status_at", "status"),
    **_OPTIONS,
)

#: Resources that the first read found. Those that the second read found again are ``confirmed``; only they are shown.
orphans = sa.Table(
    "orphans",
    metadata,
    sa.Column("id", _BIGINT, primary_key=True, autoincrement=True),
    sa.Column("scan_id", _ID, sa.ForeignKey("orphan_scans.id"), nullable=False),
    sa.Column("step_id", _ID, sa.ForeignKey("steps.id", ondelete="CASCADE"), nullable=False),
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
    # The fencing token of the claim whose second read saw the resource again.
    sa.Column("seen_fence", sa.Integer, nullable=False),
    sa.Column("confirmed", sa.Boolean, nullable=False),
    sa.Index(None, "scan_id", "id"),
    # With a name of its own: that of the convention is longer than PostgreSQL's 63 characters.
    sa.Index("ix_orphans_counts", *("scan_id", "confirmed", "project_id", "service", "type", "project_setting")),
    sa.Index(None, "step_id", "resource_id"),
    **_OPTIONS,
)
