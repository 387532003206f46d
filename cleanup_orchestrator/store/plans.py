"""Plans: what a dry run found, as its record has it; and how many cascades there were on a day."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator import tables as t
from cleanup_orchestrator.model import Deletion, Mode, Reason
from cleanup_orchestrator.store.base import Base, transient

#: (region, service, type).
Place = tuple[str, str, str]

_DAY = datetime.timedelta(days=1)


class Plans(Base):
    """What dry runs left. It is read only: nobody changes the record of one that has ended."""

    @transient
    def planned(self, plan_id: str, region: str, service: str, type_: str) -> frozenset[str]:
        """Return the ids of a type that a plan says are to be deleted."""
        table = t.leftovers.c
        query = sa.select(table.resource_id).where(
            table.deletion_id == plan_id,
            table.region == region,
            table.service == service,
            table.type == type_,
            table.reason == str(Reason.PRESENT),
        )
        with self._begin() as c:
            return frozenset(c.execute(query).scalars())

    @transient
    def plan_counts(self, plan_id: str) -> Mapping[Place, Mapping[Reason, int]]:
        """Return how many resources a plan has of each type in each region, by reason."""
        table = t.leftovers.c
        place = (table.region, table.service, table.type)
        query = sa.select(*place, table.reason, sa.func.count()).where(table.deletion_id == plan_id)
        found: dict[Place, dict[Reason, int]] = {}
        with self._begin() as c:
            for region, service, type_, reason, count in c.execute(query.group_by(*place, table.reason)):
                found.setdefault((region, service, type_), {})[Reason(reason)] = count
        return found


def cascades_before(c: Connection, deletion: Deletion) -> int:
    """Return how many cascades were recorded in the 24 hours before this one, whatever became of them.

    By the order in which they are recorded, so that of many at once it is clear which are beyond a limit.
    """
    table = t.deletions.c
    earlier = sa.or_(
        table.created_at < deletion.created_at,
        sa.and_(table.created_at == deletion.created_at, table.id < deletion.id),
    )
    query = sa.select(sa.func.count()).where(
        table.created_at >= deletion.created_at - _DAY,
        earlier,
        table.mode == str(Mode.CASCADE),
        table.dry_run.is_(False),
    )
    return int(c.execute(query).scalar_one())
