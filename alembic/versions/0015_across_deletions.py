"""Lists find deletions by the user who requested them, and the leftovers of all deletions.

Revision ID: 0015
Revises: 0014
"""

from alembic import op

revision = "0015"
down_revision = "0014"


# There is no downgrade: restore a backup.
def upgrade() -> None:
    for column in ("user_id", "user_name"):
        op.create_index(f"ix_deletions_{column}_created_at_id", "deletions", [column, "created_at", "id"])
    for column in ("service", "type", "reason"):
        op.create_index(f"ix_leftovers_{column}_id", "leftovers", [column, "id"])
