"""${message}.

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
"""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


# There is no downgrade: restore a backup. Write it so that it runs on SQLite, PostgreSQL and MariaDB.
def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
