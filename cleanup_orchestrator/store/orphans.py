"""Orphan scans, their parts, and the orphans that they found.

A part is written only by the worker that claimed it: the part runs, its fencing token is that of the claim, and its
scan has not ended. The next claim of the same read discards what the claim before has written, so that nothing is
counted twice after a worker died.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy.engine import Connection

from cleanup_orchestrator.core.orphan_scan import SCANNING, Orphan, OrphanScan, ScanPart, ScanStatus
from cleanup_orchestrator.core.step import Outcome, StepState
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import ROWS, Repository, database_time, new_id
from cleanup_orchestrator.store.errors import Conflict, NotFound, ScanUnderWay
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
            "parts_at_once",
            default=2,
            min=1,
            mutable=True,
            help="Parts of a scan (one type of one region each) that all workers together work on at once.",
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

_SCANS, _PARTS, _ORPHANS = t.orphan_scans, t.orphan_scan_parts, t.orphans


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
    """Reads and writes orphan scans, their parts and their orphans."""

    # ------------------------------------------------------------------------------------------------------- scans
    def create(self, scan: OrphanScan, not_before: datetime.timedelta | None = None) -> OrphanScan | None:
        """Record a scan with its first part, which reads the catalog.

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
            c.execute(_PARTS.insert(), [records.part_values(ScanPart(new_id(), scan.id))])
            return scan

    @retry_transient
    def get(self, scan_id: str) -> tuple[OrphanScan, tuple[ScanPart, ...], datetime.datetime]:
        """Return a scan, its parts and the time, as of one transaction.

        :raises NotFound: when it does not exist
        """
        with self._database.read() as c:
            scan = _scan(c, scan_id)
            query = sa.select(_PARTS).where(_PARTS.c.scan_id == scan_id)
            rows = c.execute(query.order_by(_PARTS.c.region, _PARTS.c.service, _PARTS.c.type))
            return scan, tuple(records.part(row) for row in rows), database_time(c)

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
            found: str | None = c.execute(query).scalar()
            return found

    def save(self, before: OrphanScan, after: OrphanScan, parts: Iterable[ScanPart] = ()) -> OrphanScan:
        """Save a decision.

        When the scan ends, resources that were not seen twice are deleted from the record.

        :param parts: those that the decision changed, each with the version that was read
        :raises Conflict: when the scan or a part has changed since it was read
        """
        saved = self._save(before, after, tuple(parts))
        if saved.status is not before.status:
            self._database.listeners.scan_moved(saved)
        return saved

    @retry_transient
    def _save(self, before: OrphanScan, after: OrphanScan, parts: Sequence[ScanPart]) -> OrphanScan:
        with self._database.begin() as c:
            after = dataclasses.replace(after, version=before.version + 1)
            mine = sa.and_(_SCANS.c.id == before.id, _SCANS.c.version == before.version)
            if c.execute(_SCANS.update().where(mine).values(records.scan_values(after))).rowcount != 1:
                raise Conflict(f"orphan scan {before.id} changed meanwhile")
            for part in parts:
                known = sa.and_(_PARTS.c.id == part.id, _PARTS.c.version == part.version)
                values = records.part_values(dataclasses.replace(part, version=part.version + 1))
                if c.execute(_PARTS.update().where(known).values(values)).rowcount != 1:
                    raise Conflict(f"part {part.id} changed meanwhile")
            if after.status not in SCANNING:
                _forget_unconfirmed(c, after.id)
            return after

    def cancel(self, scan_id: str, message: str) -> OrphanScan:
        """End a scan now; a scan that has ended is returned as it is.

        Later writes of its parts are refused.

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
            values = {"status": str(ScanStatus.CANCELLED), "message": records.text(message), "live": None}
            live = sa.and_(_SCANS.c.id == scan_id, _SCANS.c.live.is_not(None))
            times = {"status_at": now, "finished_at": now}
            if c.execute(_SCANS.update().where(live).values(**values, **times, version=_SCANS.c.version + 1)).rowcount:
                _forget_unconfirmed(c, scan_id)
            return _scan(c, scan_id)

    # ------------------------------------------------------------------------------------------------------- parts
    def claim_part(self, part_id: str, worker: str, lease: float) -> tuple[OrphanScan, ScanPart] | None:
        """Claim a dispatched part under a lease of so many seconds.

        Orphans that an earlier claim of the first read has noted are deleted from the record.

        :returns: ``None``: another worker has claimed the part, it is finished, or the scan has ended
        """
        return self._claim_part(part_id, worker, lease, [])

    @retry_transient
    def _claim_part(
        self, part_id: str, worker: str, lease: float, tried: list[ScanPart]
    ) -> tuple[OrphanScan, ScanPart] | None:
        """Claim a part; see :meth:`Steps._claim` for ``tried``."""
        with self._database.begin() as c:
            row = c.execute(sa.select(_PARTS).where(_PARTS.c.id == part_id)).first()
            if row is None:
                return None
            part = records.part(row)
            scan = _scan(c, part.scan_id)
            if part in tried:
                return scan, part
            if part.state is not StepState.DISPATCHED or scan.status not in SCANNING:
                return None
            until = database_time(c) + datetime.timedelta(seconds=lease)
            token, version = part.fencing_token + 1, part.version + 1
            claimed = dataclasses.replace(
                part, state=StepState.RUNNING, fencing_token=token, worker=worker, lease_until=until, version=version
            )
            tried.append(claimed)
            known = sa.and_(_PARTS.c.id == part_id, _PARTS.c.version == part.version)
            if c.execute(_PARTS.update().where(known).values(records.part_values(claimed))).rowcount != 1:
                return None
            if part.read == 1:
                c.execute(_ORPHANS.delete().where(_ORPHANS.c.part_id == part_id))
            return scan, claimed

    @retry_transient
    def renew_part(self, part: ScanPart, lease: float) -> bool:
        """Extend the lease of a claimed part.

        ``False``: the claim does not hold any more, or the scan has ended.
        """
        with self._database.begin() as c:
            until = database_time(c) + datetime.timedelta(seconds=lease)
            return _write_part(c, part, lease_until=until)

    def release_part(self, part: ScanPart) -> bool:
        """Give a claimed part back to the queue, as if it had just been dispatched.

        ``False``: the claim is gone.
        """
        with self._database.begin() as c:
            now = database_time(c)
            return _write_part(c, part, state=str(StepState.DISPATCHED), dispatched_at=now, lease_until=None)

    @retry_transient
    def put_parts(self, holder: ScanPart, wanted: Iterable[ScanPart], not_covered: Sequence[Mapping[str, str]]) -> bool:
        """Record what the part that reads the catalog found.

        That is the parts to scan, and what cannot be scanned. A repetition changes nothing. ``False``: the claim does
        not hold any more, nothing is saved.
        """
        with self._database.begin() as c:
            if not _write_part(c, holder):
                return False
            here = _PARTS.c.scan_id == holder.scan_id
            known = c.execute(sa.select(_PARTS.c.region, _PARTS.c.service, _PARTS.c.type).where(here))
            there = {tuple(row) for row in known}
            rows = [records.part_values(p) for p in wanted if (p.region, p.service, p.type) not in there]
            if rows:
                c.execute(_PARTS.insert(), rows)
            values = {"not_covered": [records.plain(dict(x)) for x in not_covered], "version": _SCANS.c.version + 1}
            c.execute(_SCANS.update().where(_SCANS.c.id == holder.scan_id).values(values))
            return True

    @retry_transient
    def finish_part(self, part: ScanPart) -> bool:
        """Save the result of a claimed part.

        After the second read, the orphans that it has seen again are confirmed.

        :param part: as its worker has it, with outcome and numbers
        :returns: ``False``: the claim does not hold any more, nothing is saved
        """
        names = ("outcome", "reason", "message", "listed", "owner_unknown", "too_young", "undecided", "calls")
        values = {name: records.part_values(part)[name] for name in names}
        with self._database.begin() as c:
            if not _write_part(
                c, part, state=str(StepState.DONE), finished_at=database_time(c), lease_until=None, **values
            ):
                return False
            if part.outcome is Outcome.CLEAR:
                mine = _ORPHANS.c.part_id == part.id
                again = sa.and_(mine, _ORPHANS.c.seen_fence == part.fencing_token)
                if part.read == 2:
                    c.execute(_ORPHANS.update().where(again).values(confirmed=True))
                column, which = ("orphans", again) if part.read == 2 else ("candidates", mine)
                count = c.execute(sa.select(sa.func.count()).select_from(_ORPHANS).where(which)).scalar_one()
                c.execute(_PARTS.update().where(_PARTS.c.id == part.id).values({column: count}))
            # The new version makes an engine that decided on older parts read again.
            due = {"wake_at": database_time(c), "version": _SCANS.c.version + 1}
            c.execute(_SCANS.update().where(_SCANS.c.id == part.scan_id).values(due))
            return True

    # ------------------------------------------------------------------------------------------------------ orphans
    @retry_transient
    def note_orphans(self, part: ScanPart, found: Sequence[Orphan]) -> bool:
        """Note resources that the first read has seen, each once.

        ``False``: the claim does not hold any more.
        """
        with self._database.begin() as c:
            if not _write_part(c, part):
                return False
            by_id = {_resource_id(orphan): orphan for orphan in found}
            _expect_new_values(c)
            mine = sa.and_(_ORPHANS.c.part_id == part.id, _ORPHANS.c.resource_id.in_(by_id))
            for noted in c.execute(sa.select(_ORPHANS.c.resource_id).where(mine)).scalars():
                by_id.pop(noted, None)  # compared here, because some databases compare without case
            seen = {"scan_id": part.scan_id, "part_id": part.id, "seen_fence": 0, "confirmed": False}
            seen["first_seen_at"] = seen["last_seen_at"] = database_time(c)
            new = list(by_id.items())
            for start in range(0, len(new), ROWS):
                rows = [records.orphan_values(one, id_) | seen for id_, one in new[start : start + ROWS]]
                c.execute(_ORPHANS.insert(), rows)
            return True

    @retry_transient
    def candidate_projects(self, part: ScanPart) -> tuple[str, ...]:
        """Return the projects of the resources that the first read noted."""
        query = sa.select(_ORPHANS.c.project_id).where(_ORPHANS.c.part_id == part.id).distinct()
        with self._database.read() as c:
            return tuple(sorted(c.execute(query).scalars()))

    @retry_transient
    def see_again(self, part: ScanPart, seen: Sequence[Orphan]) -> bool:
        """Note resources that the second read has seen with the same owner.

        ``False``: the claim is gone.
        """
        with self._database.begin() as c:
            if not _write_part(c, part):
                return False
            owners = {_resource_id(orphan): orphan.project_id for orphan in seen}
            _expect_new_values(c)
            mine = sa.and_(_ORPHANS.c.part_id == part.id, _ORPHANS.c.resource_id.in_(owners))
            query = sa.select(_ORPHANS.c.id, _ORPHANS.c.resource_id, _ORPHANS.c.project_id).where(mine)
            # Compared here, because some databases compare without case.
            same = [row.id for row in c.execute(query) if owners.get(row.resource_id) == row.project_id]
            if same:
                values = {"seen_fence": part.fencing_token, "last_seen_at": database_time(c)}
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


def _scan(c: Connection, scan_id: str) -> OrphanScan:
    row = c.execute(sa.select(_SCANS).where(_SCANS.c.id == scan_id)).first()
    if row is None:
        raise NotFound(f"no orphan scan has the id {scan_id}")
    return records.scan(row)


def _write_part(c: Connection, part: ScanPart, **values: Any) -> bool:
    """Update a part if its claim still holds and its scan has not ended.

    Its row is locked from then on.
    """
    live = sa.exists().where(_SCANS.c.id == part.scan_id, _SCANS.c.live.is_not(None))
    claimed = sa.and_(
        _PARTS.c.id == part.id,
        _PARTS.c.fencing_token == part.fencing_token,
        _PARTS.c.state == str(StepState.RUNNING),
        live,
    )
    written = c.execute(_PARTS.update().where(claimed).values(**values, version=_PARTS.c.version + 1))
    return bool(written.rowcount == 1)


def _forget_unconfirmed(c: Connection, scan_id: str) -> None:
    c.execute(_ORPHANS.delete().where(_ORPHANS.c.scan_id == scan_id, _ORPHANS.c.confirmed.is_(False)))


def _expect_new_values(c: Connection) -> None:
    """Make PostgreSQL plan each statement of the transaction for its own values.

    It does not know how many rows a new part has, and reads all of them to find those of a page. A plan for any values,
    which it makes for a repeated statement, compares each row with each value of the page, one after the other. A plan
    for the given values uses a hash table.
    """
    if c.dialect.name == "postgresql":
        c.exec_driver_sql("SET LOCAL plan_cache_mode = force_custom_plan")


def _resource_id(orphan: Orphan) -> str:
    return records.text(orphan.resource_id)[:512]
