"""What is known of accepted deletes of resources that are still there; see ``core.step.DeleteRecord``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import storable
from cleanup_orchestrator.core.step import DeleteRecord, Outcome, Step, StepResult
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import ROWS, Repository
from cleanup_orchestrator.store.transient import retry_transient

_OF_STEP = sa.select(t.deletes).where(t.deletes.c.step_id == sa.bindparam("of_step"))


class Deletes(Repository):
    """Reads accepted deletes; steps write them with their results."""

    @retry_transient
    def of_step(self, step_id: str) -> dict[str, DeleteRecord]:
        """Return what is on record for a step, by resource id."""
        with self._database.read() as c:
            rows = c.execute(_OF_STEP, {"of_step": step_id})
            records = (
                DeleteRecord(r.resource_id, r.accepted, r.failed, r.fault, seen_at=r.seen_at, accepted_at=r.accepted_at)
                for r in rows
            )
            return {record.id: record for record in records}


def replace_deletes(c: Connection, step: Step, result: StepResult, has_deletes: bool) -> None:
    """Replace the accepted deletes of a step by those of its new result.

    A result that does not know of them leaves them on record, unless it proves that nothing is left. Only rows that
    changed are written.

    :param has_deletes: whether accepted deletes of the step are on record
    """
    wanted = () if result.outcome is Outcome.CLEAR else result.deletes
    if wanted is None or not (wanted or has_deletes):
        return
    new = {row["resource_id"]: row for row in (_row(step, one) for one in wanted)}
    stale = []
    for row in c.execute(_OF_STEP, {"of_step": step.id}) if has_deletes else ():
        same = new.get(row.resource_id)  # compared here, because some databases compare without case
        if same is not None and all(row._mapping[name] == value for name, value in same.items()):
            del new[row.resource_id]
        else:
            stale.append(row.id)
    for some in _chunks(stale):
        c.execute(t.deletes.delete().where(t.deletes.c.id.in_(some)))
    for some in _chunks(list(new.values())):
        c.execute(t.deletes.insert(), some)


def _chunks(items: list[Any]) -> Iterable[list[Any]]:
    return (items[start : start + ROWS] for start in range(0, len(items), ROWS))


def _row(step: Step, one: DeleteRecord) -> dict[str, Any]:
    return {
        "step_id": step.id,
        "resource_id": storable.resource_id(one.id),
        "deletion_id": step.owner_id,
        "accepted": one.accepted,
        "failed": one.failed,
        "fault": storable.text(one.fault),
        "seen_at": one.seen_at,
        "accepted_at": one.accepted_at,
    }
