"""Plans: what a dry run found, as its record has it; and how many cascades there were on a day."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import approvals
from cleanup_orchestrator.core.deletion import Deletion, Mode
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import Base, database_time, transient
from cleanup_orchestrator.store.rate_limits import hold_account, put_account

#: (region, service, type).
Place = tuple[str, str, str]

#: The account whose row is held while a cascade is recorded: that of our own service, which no worker calls.
_RECORDING = "project-cleanup"


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
    def askers(self, deletion: Deletion) -> frozenset[str]:
        """Return the ids of the users who may not approve a deletion: they asked for it, or for one above it.

        Asked for after the deletion was read: whoever asks later changes its version, so that no approval is saved.
        """
        with self._begin() as c:
            return askers(c, deletion)

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


def askers(c: Connection, deletion: Deletion) -> frozenset[str]:
    """Return the ids of the users who asked for a deletion or for one above it; see :func:`approval.askers`."""
    found: frozenset[str] = frozenset()
    seen: set[str] = set()
    above: Deletion | None = deletion
    while above is not None and above.id not in seen:
        seen.add(above.id)
        table = t.events.c
        query = sa.select(t.events).where(table.deletion_id == above.id, table.type.in_(approvals.ASKED))
        lines = [Event(row.type, row.message, row.actor, row.data) for row in c.execute(query)]
        found |= approvals.askers(above, lines)
        row = c.execute(records.select_deletions().where(t.deletions.c.id == above.parent_deletion_id)).first()
        above = records.deletion(row) if row else None
    return found


def in_order(c: Connection) -> None:
    """Hold what records a cascade until its transaction ends, so that those recorded later have a later time.

    Without it a cascade could be counted, and go on, while one with an earlier time is not committed yet: neither would
    count the other. It also writes: on a cluster of databases a lock alone is not seen by the other nodes.
    """
    account = hold_account(c, _RECORDING, "")
    put_account(c, _RECORDING, "", dataclasses.replace(account, calls_at=database_time(c)))


def cascades_before(c: Connection, deletion: Deletion) -> int:
    """Return how many cascades of its domain, or of its user, were recorded in the 24 hours before a deletion.

    Whatever became of them; in the order in which they were recorded, so that of many at once it is clear which are
    beyond a limit: see :func:`in_order`. A manager of a domain who makes more users of it gets no more cascades by it.
    """
    table = t.deletions.c
    counted_with = table.domain_id == deletion.domain_id
    if deletion.user_id:
        counted_with = sa.or_(counted_with, table.user_id == deletion.user_id)
    earlier = sa.or_(
        table.created_at < deletion.created_at,
        sa.and_(table.created_at == deletion.created_at, table.id < deletion.id),
    )
    query = sa.select(sa.func.count()).where(
        table.created_at >= deletion.created_at - approvals.DAY,
        earlier,
        counted_with,
        table.mode == str(Mode.CASCADE),
        table.dry_run.is_(False),
    )
    return int(c.execute(query).scalar_one())
