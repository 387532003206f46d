"""Statements on deletions and steps that several repositories use.

They are built once, with parameters for the values: building a statement takes longer than running it.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.step import Step
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.errors import NotFound

_DELETION = records.select_deletions().where(t.deletions.c.id == sa.bindparam("deletion_id"))
_STEP = sa.select(t.steps).where(t.steps.c.id == sa.bindparam("step_id"))
_STEPS = (
    sa.select(t.steps)
    .where(t.steps.c.deletion_id == sa.bindparam("deletion_id"))
    .order_by(t.steps.c.region, t.steps.c.service, t.steps.c.type)
)

#: Parameters: the values of :mod:`.records`, ``known_id`` and ``known_version``. Without a match no row is updated.
UPDATE_DELETION = t.deletions.update().where(
    t.deletions.c.id == sa.bindparam("known_id"), t.deletions.c.version == sa.bindparam("known_version")
)
UPDATE_STEP = t.steps.update().where(
    t.steps.c.id == sa.bindparam("known_id"), t.steps.c.version == sa.bindparam("known_version")
)


def get_deletion(c: Connection, deletion_id: str) -> Deletion:
    """Return one deletion.

    :raises NotFound: when it does not exist
    """
    row = c.execute(_DELETION, {"deletion_id": deletion_id}).first()
    if row is None:
        raise NotFound(f"no deletion has the id {deletion_id}")
    return records.deletion(row)


def find_step(c: Connection, step_id: str) -> Step | None:
    """Return one step, if it exists."""
    row = c.execute(_STEP, {"step_id": step_id}).first()
    return records.step(row) if row else None


def steps_of(c: Connection, deletion_id: str) -> tuple[Step, ...]:
    """Return all steps of a deletion, by region, service and type."""
    return tuple(records.step(row) for row in c.execute(_STEPS, {"deletion_id": deletion_id}))
