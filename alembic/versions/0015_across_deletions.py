"""Adds what lists across deletions select by: requesters and resources.

Lists find deletions by the user who requested them, the leftovers of all deletions, and the events of a resource.

Revision ID: 0015
Revises: 0014
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_INNODB = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}
_LINES = 1000  #: journal lines to read at a time


# There is no downgrade: restore a backup. Journal lines that a process of an earlier release writes after this revision
# are not found by their resources.
def upgrade() -> None:
    for column in ("user_id", "user_name"):
        op.create_index(f"ix_deletions_{column}_created_at_id", "deletions", [column, "created_at", "id"])
    for column in ("service", "type", "reason"):
        op.create_index(f"ix_leftovers_{column}_id", "leftovers", [column, "id"])
    resources = op.create_table(
        "event_resources",
        sa.Column("id", _BIGINT, autoincrement=True),
        sa.Column("event_id", _BIGINT, nullable=False),
        sa.Column("deletion_id", sa.String(64), nullable=False),
        sa.Column("resource_id", sa.String(512), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_event_resources"),
        sa.ForeignKeyConstraint(["deletion_id"], ["deletions.id"], name="fk_event_resources_deletion_id"),
        **_INNODB,
    )
    _fill(op.get_bind(), resources)
    op.create_index("ix_event_resources_resource_id_event_id", "event_resources", ["resource_id", "event_id"])
    op.create_index("ix_event_resources_deletion_id", "event_resources", ["deletion_id"])


def _fill(connection: sa.Connection, resources: sa.Table) -> None:
    """Write the resources of the journal lines that are on record."""
    names = ("id", "deletion_id", "type")
    events = sa.table("events", *(sa.column(name) for name in names), sa.column("data", sa.JSON))
    lines = sa.select(events).where(events.c.type.like("resource.%")).order_by(events.c.id).limit(_LINES)
    last = 0
    while found := connection.execute(lines.where(events.c.id > last)).all():
        last = found[-1].id
        rows = []
        for line in found:
            data = json.loads(line.data) if isinstance(line.data, str) else line.data
            named = data.get("resources")
            ids = [str(each["id"])[:512] for each in named if each.get("id")] if isinstance(named, list) else []
            rows += [
                {"event_id": line.id, "deletion_id": line.deletion_id, "resource_id": id_} for id_ in dict.fromkeys(ids)
            ]
        if rows:
            connection.execute(resources.insert(), rows)
