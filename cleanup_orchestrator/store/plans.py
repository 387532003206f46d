"""Plans, which are the results of dry runs, and the count of recent cascades."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

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
    size: int | None  #: the sum of the known sizes, in bytes; ``None``: none is known


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
    def askers(self, deletion: Deletion) -> frozenset[str]:
        """Return the ids of the users who requested a deletion or one above it.

        They may not approve it. The caller reads the deletion first. A later request changes its version, so that no
        approval is saved.
        """
        with self._database.read() as c:
            return askers(c, deletion)

    @retry_transient
    def of_admin(self, deletion: Deletion) -> bool:
        """Return whether an admin requested a deletion or one above it; see :func:`approvals.of_admin`."""
        with self._database.read() as c:
            return of_admin(c, deletion)

    @retry_transient
    def counts(self, plan_id: str) -> Mapping[Place, Mapping[Reason, Counted]]:
        """Return how many resources a plan has of each type in each region, and their size, by reason."""
        table = t.leftovers.c
        place = (table.region, table.service, table.type)
        query = sa.select(*place, table.reason, sa.func.count(), sa.func.sum(table.size))
        query = query.where(table.deletion_id == plan_id).group_by(*place, table.reason)
        found: dict[Place, dict[Reason, Counted]] = {}
        with self._database.read() as c:
            for region, service, type_, reason, number, size in c.execute(query):
                counted = Counted(number, None if size is None else int(size))
                found.setdefault((region, service, type_), {})[Reason(reason)] = counted
        return found


def askers(c: Connection, deletion: Deletion) -> frozenset[str]:
    """Return the ids of the users who requested a deletion or one above it.

    See :func:`approvals.askers`.
    """
    return frozenset().union(*(approvals.askers(one, lines) for one, lines in _requests(c, deletion)))


def of_admin(c: Connection, deletion: Deletion) -> bool:
    """Return whether an admin requested a deletion or one above it.

    See :func:`approvals.of_admin`.
    """
    return any(approvals.of_admin(lines) for _one, lines in _requests(c, deletion))


def _requests(c: Connection, deletion: Deletion) -> Iterator[tuple[Deletion, list[Event]]]:
    """Yield a deletion and those above it, each with the journal lines of the requests for it."""
    seen: set[str] = set()
    above: Deletion | None = deletion
    while above is not None and above.id not in seen:
        seen.add(above.id)
        table = t.events.c
        query = sa.select(t.events).where(table.deletion_id == above.id, table.type.in_(approvals.ASKED))
        yield above, [Event(row.type, row.message, row.actor, row.data) for row in c.execute(query)]
        row = c.execute(records.select_deletions().where(t.deletions.c.id == above.parent_deletion_id)).first()
        above = records.deletion(row) if row else None


def in_order(c: Connection) -> None:
    """Lock the recording of cascades, so that a later record has a later time.

    Without the lock, a cascade could be counted and continue while one with an earlier time is not committed yet;
    neither would count the other. The lock also writes: the nodes of a database cluster do not see a lock alone.
    """
    limit = lock_rate_limit(c, _RECORDING, "")
    save_rate_limit(c, _RECORDING, "", dataclasses.replace(limit, calls_at=database_time(c)))


def cascades_before(c: Connection, deletion: Deletion) -> int:
    """Return how many cascades count against the daily limit of a deletion.

    These are the cascades of its domain or its user that were recorded in the 24 hours before it. All of them count,
    whatever their result, in the order in which they were recorded (see :func:`in_order`): so it is clear which of many
    simultaneous cascades exceed a limit. The domain counts too, so that the manager of a domain does not get more
    cascades by creating more users.
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
        table.mode.in_(sorted(map(str, DELETING_MODES))),
        table.dry_run.is_(False),
    )
    return int(c.execute(query).scalar_one())
