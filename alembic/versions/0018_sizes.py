"""Adds the sizes of leftovers and of the resources of plans.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

_BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


# There is no downgrade: restore a backup. Leftovers that are on record, or that a process of an earlier release writes,
# have no size.
def upgrade() -> None:
    op.add_column("leftovers", sa.Column("size", _BIGINT, nullable=True))
