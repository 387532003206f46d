"""Orphan scans: their parts, what they found, and what is known of the projects that it belonged to.

A part is written to by who holds it: its fencing token is the one that the claim gave, it is running, and its scan has
not ended. What a claim writes, the next claim of the same read begins anew: nothing is counted twice, whoever died.
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
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import (
    Base,
    Conflict,
    NotFound,
    Page,
    database_time,
    first_of_two,
    new_id,
    paged,
    transient,
)

OPTS = {
    "orphans": [
        cfg.IntOpt(
            "min_age",
            default=3600,
            min=0,
            mutable=True,
            help="Seconds of age below which a resource is never reported as an orphan, by what its service says of "
            "its creation. Where a service does not say, the time between the two reads is all that is known.",
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
            help="Hours from the beginning of the latest scan until the engines begin one by themselves. 0: never.",
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
            help="Resources of one type that a service may list in one region. What lists more is not believed: a list "
            "without an end would keep a worker busy for ever.",
        ),
    ]
}

_SCANS, _PARTS, _ORPHANS = t.orphan_scans, t.orphan_scan_parts, t.orphans


class ScanUnderWay(CleanupError):
    """Another scan has not ended."""

    code = "orphan_scan_under_way"

    def __init__(self, scan_id: str) -> None:
        super().__init__(f"orphan scan {scan_id} is under way")
        self.scan_id = scan_id


@dataclasses.dataclass(frozen=True, slots=True)
class OrphanRow:
    """A stored orphan."""

    row: int
    orphan: Orphan


@dataclasses.dataclass(frozen=True, slots=True)
class OrphanProject:
    """What is known of a dead project, and what it left behind."""

    project_id: str
    name: str  #: as our latest record has it; empty: there is none
    domain_id: str
    deletion_id: str  #: of that record
    counts: Mapping[str, int]  #: ``service.type`` to number, project settings aside
    project_setting: Mapping[str, int]


def new_scan(conf: cfg.ConfigOpts, **values: Any) -> OrphanScan:
    """Return a scan by the configuration as it is now, not recorded yet: the store replaces its times.

    :param values: further fields of the scan
    """
    never = datetime.datetime(1970, 1, 1)
    ages = conf.orphans.min_age, conf.orphans.reread_after
    return OrphanScan(new_id(), ScanStatus.ACCEPTED, never, never, never, *ages, **values)


class OrphanScans(Base):
    """The scans, also those that have ended."""

    # ------------------------------------------------------------------------------------------------------- scans
    @transient
    @first_of_two  # whoever was in the way may have ended before we see who it was
    def create_orphan_scan(self, scan: OrphanScan, not_before: datetime.timedelta | None = None) -> OrphanScan | None:
        """Record a scan with its first part, the look at the catalog. Its times become the database's.

        :param not_before: record none if the latest one was recorded no longer ago than this
        :returns: ``None``: it is too early for another one
        :raises ScanUnderWay: when one has not ended
        """
        with self._begin() as c:
            if c.execute(sa.select(_SCANS.c.id).where(_SCANS.c.id == scan.id)).first():  # it was saved, unheard
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

    @transient
    def orphan_scan(self, scan_id: str) -> tuple[OrphanScan, tuple[ScanPart, ...], datetime.datetime]:
        """Return a scan, its parts and the time, as of one transaction.

        :raises NotFound: when there is none
        """
        with self._begin() as c:
            scan = _scan(c, scan_id)
            query = sa.select(_PARTS).where(_PARTS.c.scan_id == scan_id)
            rows = c.execute(query.order_by(_PARTS.c.region, _PARTS.c.service, _PARTS.c.type))
            return scan, tuple(records.part(row) for row in rows), database_time(c)

    @transient
    def orphan_scans(self, page: Page, **filters: str) -> list[OrphanScan]:
        """Return one page of scans.

        :param filters: column=value
        :raises NotFound: when the marker does not exist
        """
        query = sa.select(_SCANS).where(*(_SCANS.c[name] == value for name, value in filters.items()))
        with self._begin() as c:
            return [records.scan(row) for row in c.execute(paged(c, _SCANS, query, page, "orphan scan"))]

    @transient
    def orphan_scan_due(self) -> str | None:
        """Return the id of the scan that is to be looked at now, if there is one."""
        with self._begin() as c:
            query = sa.select(_SCANS.c.id).where(_SCANS.c.live.is_not(None), _SCANS.c.wake_at <= database_time(c))
            return c.execute(query).scalar()

    @transient
    def save_orphan_scan(self, before: OrphanScan, after: OrphanScan, parts: Iterable[ScanPart] = ()) -> OrphanScan:
        """Save a decision. What was not seen twice goes when the scan ends.

        :param parts: the changed ones, each with the version that was read
        :raises Conflict: when the scan or a part was written by somebody else since it was read
        """
        with self._begin() as c:
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

    @transient
    def cancel_orphan_scan(self, scan_id: str, message: str) -> OrphanScan:
        """End a scan now; one that has ended is returned as it is. What its parts still write is refused.

        :raises NotFound: when there is none
        """
        with self._begin() as c:
            now = database_time(c)
            values = {"status": str(ScanStatus.CANCELLED), "message": records.text(message), "live": None}
            live = sa.and_(_SCANS.c.id == scan_id, _SCANS.c.live.is_not(None))
            times = {"status_at": now, "finished_at": now}
            if c.execute(_SCANS.update().where(live).values(**values, **times, version=_SCANS.c.version + 1)).rowcount:
                _forget_unconfirmed(c, scan_id)
            return _scan(c, scan_id)

    # ------------------------------------------------------------------------------------------------------- parts
    def claim_scan_part(self, part_id: str, worker: str, lease: float) -> tuple[OrphanScan, ScanPart] | None:
        """Take a dispatched part under a lease of so many seconds. What an earlier claim of the first read noted goes.

        :returns: ``None`` when there is nothing to do: taken, finished, or the scan has ended
        """
        return self._claim_scan_part(part_id, worker, lease, [])

    @transient
    def _claim_scan_part(
        self, part_id: str, worker: str, lease: float, tried: list[ScanPart]
    ) -> tuple[OrphanScan, ScanPart] | None:
        with self._begin() as c:
            row = c.execute(sa.select(_PARTS).where(_PARTS.c.id == part_id)).first()
            if row is None:
                return None
            part = records.part(row)
            scan = _scan(c, part.scan_id)
            if part in tried:  # it was saved, and the connection broke before we heard so
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

    @transient
    def renew_scan_part(self, part: ScanPart, lease: float) -> bool:
        """Extend the lease of a part that we hold. ``False``: it is not ours any more, or the scan has ended."""
        with self._begin() as c:
            until = database_time(c) + datetime.timedelta(seconds=lease)
            return _write_part(c, part, lease_until=until)

    def release_scan_part(self, part: ScanPart) -> bool:
        """Give a part that we hold back to the queue, as if it had just been dispatched. ``False``: it is not ours."""
        with self._begin() as c:
            now = database_time(c)
            return _write_part(c, part, state=str(StepState.DISPATCHED), dispatched_at=now, lease_until=None)

    @transient
    def put_scan_parts(
        self, holder: ScanPart, wanted: Iterable[ScanPart], not_covered: Sequence[Mapping[str, str]]
    ) -> bool:
        """Record what there is to scan, and what cannot be, on behalf of the look at the catalog.

        Once: the same look repeated changes nothing. ``False``: it is not its holder's any more.
        """
        with self._begin() as c:
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

    @transient
    def finish_scan_part(self, part: ScanPart) -> bool:
        """Save what a part found out. After the second read, what that has seen again is confirmed.

        :param part: as its holder has it, with outcome and numbers
        :returns: ``False``: it was not its holder's any more, nothing saved
        """
        names = ("outcome", "reason", "message", "listed", "owner_unknown", "too_young", "undecided", "calls")
        values = {name: records.part_values(part)[name] for name in names}
        with self._begin() as c:
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
            # Whoever decides on older parts has to look again.
            due = {"wake_at": database_time(c), "version": _SCANS.c.version + 1}
            c.execute(_SCANS.update().where(_SCANS.c.id == part.scan_id).values(due))
            return True

    # ------------------------------------------------------------------------------------------------------ orphans
    @transient
    def note_orphans(self, part: ScanPart, found: Sequence[Orphan]) -> bool:
        """Note what the first read saw; what is noted already is not noted twice. ``False``: the part is not ours."""
        with self._begin() as c:
            if not _write_part(c, part):
                return False
            now = database_time(c)
            ids = {_resource_id(orphan) for orphan in found}
            mine = sa.and_(_ORPHANS.c.part_id == part.id, _ORPHANS.c.resource_id.in_(ids))
            noted = set(c.execute(sa.select(_ORPHANS.c.resource_id).where(mine)).scalars())
            rows = {}
            for orphan in found:
                id_ = _resource_id(orphan)
                if id_ not in noted:
                    rows[id_] = {
                        **dataclasses.asdict(orphan),
                        "resource_id": id_,
                        "name": records.text(orphan.name)[:512],
                        "scan_id": part.scan_id,
                        "part_id": part.id,
                        "first_seen_at": now,
                        "last_seen_at": now,
                        "seen_fence": 0,
                        "confirmed": False,
                    }
            if rows:
                c.execute(_ORPHANS.insert(), list(rows.values()))
            return True

    @transient
    def candidate_projects(self, part: ScanPart) -> tuple[str, ...]:
        """Return the projects of what the first read noted."""
        query = sa.select(_ORPHANS.c.project_id).where(_ORPHANS.c.part_id == part.id).distinct()
        with self._begin() as c:
            return tuple(sorted(c.execute(query).scalars()))

    @transient
    def see_orphans_again(self, part: ScanPart, seen: Sequence[Orphan]) -> bool:
        """Note that the second read has seen these, with the same owner. ``False``: the part is not ours any more."""
        with self._begin() as c:
            if not _write_part(c, part):
                return False
            owners = {_resource_id(orphan): orphan.project_id for orphan in seen}
            mine = sa.and_(_ORPHANS.c.part_id == part.id, _ORPHANS.c.resource_id.in_(owners))
            query = sa.select(_ORPHANS.c.id, _ORPHANS.c.resource_id, _ORPHANS.c.project_id).where(mine)
            # Compared here: to some databases "A" and "a" are the same.
            same = [row.id for row in c.execute(query) if owners.get(row.resource_id) == row.project_id]
            if same:
                values = {"seen_fence": part.fencing_token, "last_seen_at": database_time(c)}
                c.execute(_ORPHANS.update().where(_ORPHANS.c.id.in_(same)).values(values))
            return True

    @transient
    def orphans(self, scan_id: str, limit: int, marker: int | None = None, **filters: str) -> list[OrphanRow]:
        """Return one page of what was found twice, in the order in which it was found.

        :param filters: column=value
        """
        query = sa.select(_ORPHANS).where(_ORPHANS.c.scan_id == scan_id, _ORPHANS.c.confirmed.is_(True))
        query = query.where(*(_ORPHANS.c[name] == value for name, value in filters.items()))
        if marker is not None:
            query = query.where(_ORPHANS.c.id > marker)
        with self._begin() as c:
            return [
                OrphanRow(row.id, records.orphan(row)) for row in c.execute(query.order_by(_ORPHANS.c.id).limit(limit))
            ]

    @transient
    def orphan_projects(self, scan_id: str, limit: int, marker: str = "", project_id: str = "") -> list[OrphanProject]:
        """Return one page of the projects that the orphans belonged to, by id, with what our own records say of them.

        :param marker: the project that the page begins after
        :param project_id: only this one
        """
        there = sa.and_(_ORPHANS.c.scan_id == scan_id, _ORPHANS.c.confirmed.is_(True), _ORPHANS.c.project_id > marker)
        if project_id:
            there = sa.and_(there, _ORPHANS.c.project_id == project_id)
        with self._begin() as c:
            column = _ORPHANS.c.project_id
            ids = list(c.execute(sa.select(column).where(there).distinct().order_by(column).limit(limit)).scalars())
            by = (column, _ORPHANS.c.service, _ORPHANS.c.type, _ORPHANS.c.project_setting)
            counted = c.execute(sa.select(*by, sa.func.count()).where(there, column.in_(ids)).group_by(*by)).all()
            d = t.deletions
            known = c.execute(
                sa.select(d.c.id, d.c.project_id, d.c.project_name, d.c.domain_id)
                .where(d.c.project_id.in_(ids), d.c.project_name != "")
                .order_by(d.c.created_at)
            )
            records_ = {row.project_id: row for row in known}  # the latest stands
        counts: dict[tuple[str, bool], dict[str, int]] = {}
        for owner, service, type_, project_setting, number in counted:
            counts.setdefault((owner, bool(project_setting)), {})[f"{service}.{type_}"] = number
        return [
            OrphanProject(
                id_,
                records_[id_].project_name if id_ in records_ else "",
                records_[id_].domain_id if id_ in records_ else "",
                records_[id_].id if id_ in records_ else "",
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
    """Write to a part, if it is still its holder's and its scan has not ended; its row is locked from then on."""
    live = sa.exists().where(_SCANS.c.id == part.scan_id, _SCANS.c.live.is_not(None))
    held = sa.and_(
        _PARTS.c.id == part.id,
        _PARTS.c.fencing_token == part.fencing_token,
        _PARTS.c.state == str(StepState.RUNNING),
        live,
    )
    return c.execute(_PARTS.update().where(held).values(**values, version=_PARTS.c.version + 1)).rowcount == 1


def _forget_unconfirmed(c: Connection, scan_id: str) -> None:
    c.execute(_ORPHANS.delete().where(_ORPHANS.c.scan_id == scan_id, _ORPHANS.c.confirmed.is_(False)))


def _resource_id(orphan: Orphan) -> str:
    return records.text(orphan.resource_id)[:512]
