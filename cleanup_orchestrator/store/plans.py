"""Plans, which are the results of dry runs, and the count of recent cascades."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import approvals
from cleanup_orchestrator.core.deletion import DELETING_MODES, Deletion
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.messages import Place
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import Repository, database_time
from cleanup_orchestrator.store.rate_limits import lock_rate_limit, save_rate_limit
from cleanup_orchestrator.store.transient import retry_transient

#: The service whose rate limit row is locked while a cascade is recorded: the orchestrator's type, which is not called.
_RECORDING = "project-cleanup"


@dataclasses.dataclass(frozen=True, slots=True)
class Counted:
    """The resources of a plan of one type in one region, with one reason."""

    number: int
    size: int | None  #: the sum of the sizes, in bytes; ``None``: that of one or more is not known
    objects: int | None  #: the sum of the objects in containers; ``None``: that of one or more is not known


class Plans(Repository):
    """Reads the results of dry runs, which do not change after their end."""

    @retry_transient
    def planned(self, plan_id: str, region: str, service: str, type_: str, parts: bool = False) -> frozenset[str]:
        """Return the ids of a type that a plan says are to be deleted.

        :param parts: also those that are not selected, and so are deleted only together with what they are parts of
        """
        table = t.leftovers.c
        reasons = (Reason.PRESENT, Reason.NOT_SELECTED) if parts else (Reason.PRESENT,)
        query = sa.select(table.resource_id).where(
            table.deletion_id == plan_id,
            table.region == region,
            table.service == service,
            table.type == type_,
            table.reason.in_(map(str, reasons)),
        )
        with self._database.read() as c:
            return frozenset(c.execute(query).scalars())

    @retry_transient
    def counts(self, plan_id: str) -> Mapping[Place, Mapping[Reason, Counted]]:
        """Return how many resources a plan has of each type in each region, and their size, by reason."""
        table = t.leftovers.c
        place = (table.region, table.service, table.type)
        sums = [each for column in (table.size, table.objects) for each in (sa.func.sum(column), sa.func.count(column))]
        query = sa.select(*place, table.reason, sa.func.count(), *sums)
        query = query.where(table.deletion_id == plan_id).group_by(*place, table.reason)
        counts: dict[Place, dict[Reason, Counted]] = {}
        with self._database.read() as c:
            for region, service, type_, reason, number, *summed in c.execute(query):
                size, objects = (
                    int(total) if known == number else None
                    for total, known in zip(summed[::2], summed[1::2], strict=True)
                )
                counts.setdefault((region, service, type_), {})[Reason(reason)] = Counted(number, size, objects)
        return counts


def requests(c: Connection, deletion: Deletion) -> approvals.Requests:
    """Return who requested a deletion or one above it."""
    above = {deletion.id: deletion}
    while deletion.parent_deletion_id and deletion.parent_deletion_id not in above:
        row = c.execute(records.select_deletions().where(t.deletions.c.id == deletion.parent_deletion_id)).first()
        if row is None:
            break
        deletion = records.deletion(row)
        above[deletion.id] = deletion
    e = t.events.c
    query = sa.select(t.events).where(e.deletion_id.in_(above), e.type.in_(approvals.REQUEST_EVENTS))
    events = [Event(row.type, row.message, row.actor, row.data) for row in c.execute(query)]
    return approvals.requests((each.user_id for each in above.values()), events)


def in_order(c: Connection) -> None:
    """Lock the recording of cascades, so that a later record has a later time.

    Without the lock, a cascade could be counted and continue while one with an earlier time is not committed yet;
    neither would count the other. The lock also writes: the nodes of a database cluster do not see a lock alone.
    """
    limit = lock_rate_limit(c, _RECORDING, "")
    save_rate_limit(c, _RECORDING, "", dataclasses.replace(limit, calls_at=database_time(c)))


def cascades_before(c: Connection, deletion: Deletion) -> int:
    """Return how many cascades count against the daily limit of a deletion.

    These are the cascades of its domain or its user that began in the 24 hours before it: at their request, or at their
    date. All of them count, whatever their result, in the order in which they begin (see :func:`in_order`): so it is
    clear which of many simultaneous cascades exceed a limit. The domain counts too, so that the manager of a domain
    does not get more cascades by creating more users.
    """
    table = t.deletions.c
    counted_with = table.domain_id == deletion.domain_id
    if deletion.user_id:
        counted_with = sa.or_(counted_with, table.user_id == deletion.user_id)
    earlier = sa.or_(
        table.begins_at < deletion.begins_at,
        sa.and_(table.begins_at == deletion.begins_at, table.id < deletion.id),
    )
    query = sa.select(sa.func.count()).where(
        table.begins_at >= deletion.begins_at - approvals.DAY,
        earlier,
        counted_with,
        table.mode.in_(sorted(map(str, DELETING_MODES))),
        table.dry_run.is_(False),
    )
    return int(c.execute(query).scalar_one())
