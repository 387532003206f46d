"""Orphan scans, and the orphans that they found.

Their steps are claimed and finished as those of deletions are; see :mod:`.steps`. Orphans are written only by the
worker that claimed the step, while the scan has not ended. The next claim of the same read discards what the claim
before has written, so that nothing is counted twice after a worker died.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core import storable
from cleanup_orchestrator.core.orphan_scan import SCANNING, Advance, Orphan, OrphanScan, ScanStatus
from cleanup_orchestrator.core.step import Step, StepKind
from cleanup_orchestrator.store import guard, queries, records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import ROWS, Repository, database_time, new_id
from cleanup_orchestrator.store.errors import NotFound, ScanUnderWay
from cleanup_orchestrator.store.paging import Page, paged
from cleanup_orchestrator.store.transient import retry_duplicate, retry_transient

OPTS = {
    "orphans": [
        cfg.IntOpt(
            "min_age",
            default=3600,
            min=0,
            mutable=True,
            help="Minimum age in seconds of a resource that is reported as an orphan, by the time of creation that "
            "its service shows. If the service shows none, only the time between the two reads is known.",
        ),
        cfg.IntOpt(
            "reread_after",
            default=600,
            min=1,
            mutable=True,
            help="Seconds between the first read of a scan and the second one, in which Keystone is asked again about "
            "each project that it did not know, and each resource is listed again.",
        ),
        cfg.FloatOpt(
            "schedule_interval",
            default=0.0,
            min=0.0,
            mutable=True,
            help="Hours after the beginning of the latest scan at which the engines start another one. 0: never.",
        ),
        cfg.IntOpt(
            "steps_at_once",
            default=2,
            min=1,
            mutable=True,
            help="Steps of a scan (one type of one region each) that all workers together work on at once.",
        ),
        cfg.IntOpt(
            "most_listed",
            default=10000000,
            min=1,
            mutable=True,
            help="Resources of one type that a service may list in one region. The result of a longer list is unknown: "
            "a list without an end would keep a worker busy for ever.",
        ),
    ]
}

_SCANS, _ORPHANS = t.orphan_scans, t.orphans

#: Decides on a scan; see :func:`orphan_scan.advance`. Without effects: it may be called again.
Decision = Callable[[OrphanScan, Sequence[Step], datetime.datetime], Advance]


@dataclasses.dataclass(frozen=True, slots=True)
class OrphanRow:
    """A stored orphan."""

    row: int
    orphan: Orphan


@dataclasses.dataclass(frozen=True, slots=True)
class OrphanProject:
    """A deleted project and the orphans that it left behind."""

    project_id: str
    name: str  #: from the latest deletion of the project; empty: there is none
    domain_id: str
    deletion_id: str  #: the id of that deletion
    counts: Mapping[str, int]  #: ``service.type`` to number, project settings aside
    project_setting: Mapping[str, int]


def new_scan(conf: cfg.ConfigOpts, **values: Any) -> OrphanScan:
    """Return a new scan with the ages of the present configuration, not recorded yet.

    :param values: further fields of the scan; the store replaces its times
    """
    never = datetime.datetime(1970, 1, 1)
    ages = conf.orphans.min_age, conf.orphans.reread_after
    return OrphanScan(new_id(), ScanStatus.ACCEPTED, never, never, never, *ages, **values)


class OrphanScans(Repository):
    """Reads and writes orphan scans and their orphans."""

    # ------------------------------------------------------------------------------------------------------- scans
    def create(self, scan: OrphanScan, not_before: datetime.timedelta | None = None) -> OrphanScan | None:
        """Record a scan with its first step, which reads the catalog.

        The database's time replaces its times.

        :param not_before: minimum time since the latest scan was recorded
        :returns: ``None``: it is too early for another scan, nothing is recorded
        :raises ScanUnderWay: when another scan has not ended
        """
        made = self._create(scan, not_before)
        if made is not None:
            self._database.listeners.scan_moved(made)
        return made

    @retry_transient
    @retry_duplicate  # the scan that was in the way may have ended before it is read
    def _create(self, scan: OrphanScan, not_before: datetime.timedelta | None) -> OrphanScan | None:
        with self._database.begin() as c:
            if c.execute(sa.select(_SCANS.c.id).where(_SCANS.c.id == scan.id)).first():
                # An earlier attempt was committed, and its answer was lost.
                return _scan(c, scan.id)
            now = database_time(c)
            if live := c.execute(sa.select(_SCANS.c.id).where(_SCANS.c.live.is_not(None))).scalar():
                raise ScanUnderWay(live)
            latest = c.execute(sa.select(sa.func.max(_SCANS.c.created_at))).scalar()
            if not_before is not None and latest is not None and latest + not_before > now:
                return None
            scan = dataclasses.replace(scan, created_at=now, status_at=now, wake_at=now)
            c.execute(_SCANS.insert(), [records.scan_values(scan)])
            c.execute(t.steps.insert(), [records.step_values(Step(new_id(), scan.id, StepKind.CATALOG))])
            return scan

    @retry_transient
    def get(self, scan_id: str) -> tuple[OrphanScan, tuple[Step, ...]]:
        """Return a scan and its steps, as of one transaction.

        :raises NotFound: when it does not exist
        """
        with self._database.read() as c:
            return _scan(c, scan_id), queries.steps_of(c, scan_id)

    @retry_transient
    def page(self, page: Page, **filters: str) -> list[OrphanScan]:
        """Return one page of scans.

        :param filters: column=value
        :raises NotFound: when the marker does not exist
        """
        where = [_SCANS.c[name] == value for name, value in filters.items()]
        with self._database.read() as c:
            rows = paged(c, sa.select(_SCANS), _SCANS, where, page, "orphan scan")
        return [records.scan(row) for row in rows]

    @retry_transient
    def due(self) -> str | None:
        """Return the id of the scan that is due for a decision, if there is one."""
        with self._database.read() as c:
            query = sa.select(_SCANS.c.id).where(_SCANS.c.live.is_not(None), _SCANS.c.wake_at <= database_time(c))
            scan_id: str | None = c.execute(query).scalar()
            return scan_id

    def decide(self, scan_id: str, decision: Decision) -> tuple[OrphanScan, Advance]:
        """Load a scan, decide on it, and save the decision in the same transaction.

        The row of the scan is locked meanwhile. When the scan ends, resources that were not seen twice are deleted from
        the record.

        :returns: the scan as it was, and the decision
        :raises NotFound: when the scan does not exist
        :raises Conflict: when a worker has claimed or renewed a changed step since it was read
        """
        before, decided = self._decide(scan_id, decision)
        if decided.scan.status is not before.status:
            self._database.listeners.scan_moved(decided.scan)
        return before, decided

    @retry_transient
    def _decide(self, scan_id: str, decision: Decision) -> tuple[OrphanScan, Advance]:
        with self._database.begin() as c:
            before, steps = _scan(c, scan_id, lock=True), queries.steps_of(c, scan_id)
            decided = decision(before, steps, database_time(c))
            if decided.scan == before and not decided.steps:
                return before, decided
            values = records.scan_values(dataclasses.replace(decided.scan, version=before.version + 1))
            c.execute(_SCANS.update().where(_SCANS.c.id == scan_id).values(values))
            queries.write_steps(c, {step.id: step for step in steps}, decided.steps)
            if decided.scan.status not in SCANNING:
                _forget_unconfirmed(c, scan_id)
            return before, decided

    def cancel(self, scan_id: str, message: str) -> OrphanScan:
        """End a scan now; a scan that has ended is returned as it is.

        Later writes of its steps are refused.

        :raises NotFound: when it does not exist
        """
        scan = self._cancel(scan_id, message)
        if scan.message == message:
            self._database.listeners.scan_moved(scan)
        return scan

    @retry_transient
    def _cancel(self, scan_id: str, message: str) -> OrphanScan:
        with self._database.begin() as c:
            now = database_time(c)
            values = {"status": str(ScanStatus.CANCELLED), "message": storable.text(message), "live": None}
            live = sa.and_(_SCANS.c.id == scan_id, _SCANS.c.live.is_not(None))
            times = {"status_at": now, "finished_at": now}
            if c.execute(_SCANS.update().where(live).values(**values, **times, version=_SCANS.c.version + 1)).rowcount:
                _forget_unconfirmed(c, scan_id)
            return _scan(c, scan_id)

    @retry_transient
    def put_steps(self, holder: Step, wanted: Iterable[Step], not_covered: Sequence[Mapping[str, str]]) -> bool:
        """Record what the step that reads the catalog found.

        The new steps are the lists to scan; what cannot be scanned is recorded with the scan. A repetition changes
        nothing. ``False``: the claim no longer holds, nothing is saved.
        """
        with self._database.begin() as c:
            if not _hold_claim(c, holder):
                return False
            there = {(step.region, step.service, step.type) for step in queries.steps_of(c, holder.owner_id)}
            rows = [records.step_values(s) for s in wanted if (s.region, s.service, s.type) not in there]
            if rows:
                c.execute(t.steps.insert(), rows)
            values = {"not_covered": [records.plain(dict(x)) for x in not_covered], "version": _SCANS.c.version + 1}
            c.execute(_SCANS.update().where(_SCANS.c.id == holder.owner_id).values(values))
            return True

    # ------------------------------------------------------------------------------------------------------ orphans
    @retry_transient
    def note_orphans(self, step: Step, orphans: Sequence[Orphan]) -> bool:
        """Note resources that the first read has seen, each once.

        ``False``: the claim no longer holds.
        """
        with self._database.begin() as c:
            if not _hold_claim(c, step):
                return False
            by_id = {storable.resource_id(orphan.resource_id): orphan for orphan in orphans}
            _expect_new_values(c)
            mine = sa.and_(_ORPHANS.c.step_id == step.id, _ORPHANS.c.resource_id.in_(by_id))
            for noted in c.execute(sa.select(_ORPHANS.c.resource_id).where(mine)).scalars():
                by_id.pop(noted, None)  # compared here, because some databases compare without case
            seen = {"scan_id": step.owner_id, "step_id": step.id, "seen_fence": 0, "confirmed": False}
            seen["first_seen_at"] = seen["last_seen_at"] = database_time(c)
            new = list(by_id.items())
            for start in range(0, len(new), ROWS):
                rows = [records.orphan_values(one, id_) | seen for id_, one in new[start : start + ROWS]]
                c.execute(_ORPHANS.insert(), rows)
            return True

    @retry_transient
    def candidate_projects(self, step: Step) -> tuple[str, ...]:
        """Return the projects of the resources that the first read noted."""
        query = sa.select(_ORPHANS.c.project_id).where(_ORPHANS.c.step_id == step.id).distinct()
        with self._database.read() as c:
            return tuple(sorted(c.execute(query).scalars()))

    @retry_transient
    def see_again(self, step: Step, seen: Sequence[Orphan]) -> bool:
        """Note resources that the second read has seen with the same owner.

        ``False``: the claim is gone.
        """
        with self._database.begin() as c:
            if not _hold_claim(c, step):
                return False
            owners = {storable.resource_id(orphan.resource_id): orphan.project_id for orphan in seen}
            _expect_new_values(c)
            mine = sa.and_(_ORPHANS.c.step_id == step.id, _ORPHANS.c.resource_id.in_(owners))
            query = sa.select(_ORPHANS.c.id, _ORPHANS.c.resource_id, _ORPHANS.c.project_id).where(mine)
            # Python compares the owners, because some databases compare without case.
            same = [row.id for row in c.execute(query) if owners.get(row.resource_id) == row.project_id]
            if same:
                values = {"seen_fence": step.fencing_token, "last_seen_at": database_time(c)}
                c.execute(_ORPHANS.update().where(_ORPHANS.c.id.in_(same)).values(values))
            return True

    @retry_transient
    def orphans(self, scan_id: str, limit: int, marker: int | None = None, **filters: str) -> list[OrphanRow]:
        """Return one page of the confirmed orphans, in the order in which they were found.

        :param filters: column=value
        """
        query = sa.select(_ORPHANS).where(_ORPHANS.c.scan_id == scan_id, _ORPHANS.c.confirmed.is_(True))
        query = query.where(*(_ORPHANS.c[name] == value for name, value in filters.items()))
        if marker is not None:
            query = query.where(_ORPHANS.c.id > marker)
        with self._database.read() as c:
            rows = c.execute(query.order_by(_ORPHANS.c.id).limit(limit)).all()
        return [OrphanRow(row.id, records.orphan(row)) for row in rows]

    @retry_transient
    def projects(self, scan_id: str, limit: int, marker: str = "", project_id: str = "") -> list[OrphanProject]:
        """Return one page of the deleted projects that the orphans belonged to, by id.

        :param marker: the project after which the page begins
        :param project_id: only this project
        """
        there = sa.and_(_ORPHANS.c.scan_id == scan_id, _ORPHANS.c.confirmed.is_(True), _ORPHANS.c.project_id > marker)
        if project_id:
            there = sa.and_(there, _ORPHANS.c.project_id == project_id)
        with self._database.read() as c:
            column = _ORPHANS.c.project_id
            ids = list(c.execute(sa.select(column).where(there).distinct().order_by(column).limit(limit)).scalars())
            by = (column, _ORPHANS.c.service, _ORPHANS.c.type, _ORPHANS.c.project_setting)
            # All projects between the first and the last id are on the page: the database reads one part of an index.
            here = sa.and_(there, column.between(ids[0], ids[-1])) if ids else sa.false()
            counted = c.execute(sa.select(*by, sa.func.count()).where(here).group_by(*by)).all()
            d = t.deletions
            known = c.execute(
                sa.select(d.c.id, d.c.project_id, d.c.project_name, d.c.domain_id)
                .where(d.c.project_id.in_(ids), d.c.project_name != "")
                .order_by(d.c.created_at)
            )
            latest = {row.project_id: row for row in known}
        counts: dict[tuple[str, bool], dict[str, int]] = {}
        for owner, service, type_, project_setting, number in counted:
            counts.setdefault((owner, bool(project_setting)), {})[f"{service}.{type_}"] = number
        return [
            OrphanProject(
                id_,
                latest[id_].project_name if id_ in latest else "",
                latest[id_].domain_id if id_ in latest else "",
                latest[id_].id if id_ in latest else "",
                counts.get((id_, False), {}),
                counts.get((id_, True), {}),
            )
            for id_ in ids
        ]


def _scan(c: Connection, scan_id: str, lock: bool = False) -> OrphanScan:
    query = sa.select(_SCANS).where(_SCANS.c.id == scan_id)
    row = c.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise NotFound(f"no orphan scan has the id {scan_id}")
    return records.scan(row)


def wake_scan(c: Connection, scan_id: str, now: datetime.datetime) -> bool:
    """Make a scan due for a decision; return ``False`` if it has ended."""
    live = sa.and_(_SCANS.c.id == scan_id, _SCANS.c.live.is_not(None))
    return bool(c.execute(_SCANS.update().where(live).values(wake_at=now, version=_SCANS.c.version + 1)).rowcount)


def begin_read(c: Connection, step: Step) -> None:
    """Delete what an earlier claim of the first read has noted."""
    if step.round == 1:
        c.execute(_ORPHANS.delete().where(_ORPHANS.c.step_id == step.id))


def count_orphans(c: Connection, step: Step) -> None:
    """Count what a finished read has noted; after the second read, confirm the orphans that it has seen again.

    :param step: as the result left it, with the fencing token of its claim
    """
    mine = _ORPHANS.c.step_id == step.id
    again = sa.and_(mine, _ORPHANS.c.seen_fence == step.fencing_token)
    if step.round == 2:
        c.execute(_ORPHANS.update().where(again).values(confirmed=True))
    name, which = ("orphans", again) if step.round == 2 else ("candidates", mine)
    number = c.execute(sa.select(sa.func.count()).select_from(_ORPHANS).where(which)).scalar_one()
    counts = dataclasses.replace(step.counts, **{name: number})
    c.execute(t.steps.update().where(t.steps.c.id == step.id).values(counts=dataclasses.asdict(counts)))


#: See :func:`_hold_claim`.
_HOLD_CLAIM = (
    t.steps.update()
    .where(guard.CLAIM_HOLDS, sa.exists().where(_SCANS.c.id == t.steps.c.owner_id, _SCANS.c.live.is_not(None)))
    .values(version=t.steps.c.version + 1)
)


def _hold_claim(c: Connection, step: Step) -> bool:
    """Return whether the claim of a step still holds and its scan has not ended.

    The row of the step is locked until the transaction ends.
    """
    return bool(c.execute(_HOLD_CLAIM, guard.claim(step)).rowcount == 1)


def _forget_unconfirmed(c: Connection, scan_id: str) -> None:
    c.execute(_ORPHANS.delete().where(_ORPHANS.c.scan_id == scan_id, _ORPHANS.c.confirmed.is_(False)))


def _expect_new_values(c: Connection) -> None:
    """Make PostgreSQL plan each statement of the transaction for its own values.

    PostgreSQL does not know how many rows a new part has, and reads all of them to find those of a page. A plan for any
    values, which PostgreSQL makes for a repeated statement, compares each row with each value of the page, one after
    the other. A plan for the given values uses a hash table.
    """
    if c.dialect.name == "postgresql":
        c.exec_driver_sql("SET LOCAL plan_cache_mode = force_custom_plan")
