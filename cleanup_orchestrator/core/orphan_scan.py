"""What happens next in an orphan scan, and what counts as an orphan. Pure: no I/O, no clock.

A resource is reported only if Keystone did not know its project when it was first listed, nor ``reread_after`` seconds
later, when it was listed again with the same owner. All else (an error, a doubt, a list that failed) makes the scan
incomplete, and nothing an orphan.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from cleanup_orchestrator.core import backoff
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepState


class ScanStatus(StrEnum):
    """Where an orphan scan stands."""

    ACCEPTED = "accepted"  #: recorded; the catalog is being read
    RUNNING = "running"  #: a read is under way: the first, or after ``waiting`` the second
    WAITING = "waiting"  #: between the two reads
    COMPLETED = "completed"  #: every list that there is was read twice, where the first read gave reason to
    INCOMPLETE = "incomplete"  #: it ended without some of the answers; what it reports holds all the same
    FAILED = "failed"  #: not even the catalog could be read
    CANCELLED = "cancelled"


#: Of an orphan scan that has not ended.
SCANNING = frozenset({ScanStatus.ACCEPTED, ScanStatus.RUNNING, ScanStatus.WAITING})


@dataclasses.dataclass(frozen=True, slots=True)
class OrphanScan:
    """A search through every service for resources whose project Keystone does not know. Times as in a deletion."""

    id: str
    status: ScanStatus
    created_at: datetime.datetime
    status_at: datetime.datetime
    wake_at: datetime.datetime  #: when the engines' tick has to look at it again
    min_age: int  #: seconds; a resource that says it is younger is not looked at
    reread_after: int  #: seconds between the end of the first read and the beginning of the second
    scheduled: bool = False  #: nobody asked for it: its time had come
    read: int = 1  #: which of the two reads it is at
    message: str = ""  #: of the latest status
    user_id: str = ""
    user_name: str = ""
    request_id: str = ""
    reread_at: datetime.datetime | None = None  #: when the second read may begin
    finished_at: datetime.datetime | None = None
    not_covered: tuple[Mapping[str, str], ...] = ()  #: ``{"region", "service", "type", "reason"}``: never looked at
    version: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class ScanPart:
    """One resource type in one region within an orphan scan; without a service: the look at the catalog."""

    id: str
    scan_id: str
    region: str = ""
    service: str = ""
    type: str = ""
    project_setting: bool = False
    read: int = 0  #: which read it was last dispatched for; 0: for none
    attempt: int = 0  #: at that read
    state: StepState = StepState.IDLE
    outcome: Outcome = Outcome.NONE  #: of the latest attempt
    reason: str = ""
    message: str = ""
    listed: int = 0  #: rows of the first read, whosever
    owner_unknown: int = 0  #: of these, without an owner, or with one that cannot be a project's id
    too_young: int = 0  #: of these, of a project that Keystone does not know, and younger than the minimum age
    undecided: int = 0  #: projects of which Keystone did not tell whether it knows them
    candidates: int = 0  #: resources of projects that Keystone did not know at the first read
    orphans: int = 0  #: of these, still there at the second read, when Keystone still did not know their project
    calls: int = 0
    fencing_token: int = 0  #: one more with each claim
    worker: str = ""
    dispatched_at: datetime.datetime | None = None
    lease_until: datetime.datetime | None = None
    finished_at: datetime.datetime | None = None
    version: int = 0

    @property
    def name(self) -> str:
        """``service.type@region``, for people."""
        return f"{self.service}.{self.type}@{self.region or '-'}" if self.service else "catalog"


@dataclasses.dataclass(frozen=True, slots=True)
class Orphan:
    """A resource whose project Keystone does not know."""

    project_id: str
    region: str
    service: str
    type: str
    resource_id: str
    name: str
    project_setting: bool = False  #: quota rows, default groups and the like: nothing that anybody made
    created_at: datetime.datetime | None = None  #: as its service says; none: it does not say
    first_seen_at: datetime.datetime | None = None
    last_seen_at: datetime.datetime | None = None


#: What can be a project's id. Zeros alone stand for nobody: Designate's managed zones have such an owner.
_PROJECT_ID = re.compile(r"(?=.*[^0-])[0-9A-Za-z_-]{1,64}")

#: Where services say when a resource was made; the first that is there counts.
_CREATED = ("created_at", "created", "creation_time")


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The operator's settings that decisions depend on."""

    claim_timeout: datetime.timedelta = datetime.timedelta(seconds=30)  #: a cast that nobody claimed is repeated
    heartbeat: datetime.timedelta = datetime.timedelta(seconds=60)  #: looked at again at least this often
    attempts: int = 3  #: at each read of a part, before it counts as unknown
    retry_base: float = 1.0  #: seconds
    retry_cap: float = 60.0  #: seconds
    parts_at_once: int = 2  #: parts that may be dispatched or run at the same time


@dataclasses.dataclass(frozen=True, slots=True)
class Advance:
    """What a decision made of a scan: to be saved in one transaction, and the casts to send after it."""

    scan: OrphanScan
    parts: tuple[ScanPart, ...] = ()  #: the changed ones
    casts: tuple[str, ...] = ()  #: part ids
    again: bool = False  #: whether another decision should follow at once


def owner_of(project_id: str | None) -> str | None:
    """Return the id of a project that Keystone can be asked about, ``None`` if an owner is none."""
    return project_id if project_id and _PROJECT_ID.fullmatch(project_id) else None


def created_at(row: Mapping[str, Any]) -> datetime.datetime | None:
    """Return when a listed resource was made, UTC, naive; ``None``: its service does not say so."""
    text = next((row[name] for name in _CREATED if row.get(name)), None)
    try:
        when = datetime.datetime.fromisoformat(str(text))
        return when.astimezone(datetime.UTC).replace(tzinfo=None) if when.tzinfo else when
    except (ValueError, OverflowError):
        return None


def advance(scan: OrphanScan, parts: Sequence[ScanPart], now: datetime.datetime, rules: Rules) -> Advance:
    """Return what is to be done next with a scan; deciding twice on the same facts gives the same answer."""
    if scan.status not in SCANNING:
        return Advance(scan)
    catalog = next(part for part in parts if not part.service)
    if scan.status is ScanStatus.ACCEPTED:
        driven = _drive(scan, [catalog], 1, now, rules)
        if driven is not None:
            return driven
        if catalog.outcome is not Outcome.CLEAR:
            return Advance(_moved(scan, ScanStatus.FAILED, now, f"the catalog could not be read: {catalog.message}"))
        return Advance(_moved(scan, ScanStatus.RUNNING, now, "the first read"), again=True)
    work = [part for part in parts if part.service]
    if scan.status is ScanStatus.WAITING:
        assert scan.reread_at is not None
        if now < scan.reread_at:
            return _rest(scan, scan.reread_at, now, rules)
        scan = dataclasses.replace(scan, read=2)
        return Advance(_moved(scan, ScanStatus.RUNNING, now, "the second read"), again=True)
    subjects = work if scan.read == 1 else [part for part in work if part.read == 2 or _again(part)]
    driven = _drive(scan, subjects, scan.read, now, rules)
    if driven is not None:
        return driven
    if scan.read == 1 and any(map(_again, work)):
        scan = dataclasses.replace(scan, reread_at=now + datetime.timedelta(seconds=scan.reread_after))
        found = sum(part.candidates for part in work if _again(part))
        waiting = _moved(scan, ScanStatus.WAITING, now, f"{found} to be looked at again")
        return Advance(dataclasses.replace(waiting, wake_at=waiting.reread_at or now))
    return Advance(_ended(scan, work, now))


def _again(part: ScanPart) -> bool:
    """Whether there is reason to read it a second time."""
    return part.read == 1 and part.outcome is Outcome.CLEAR and part.candidates > 0


def _drive(
    scan: OrphanScan, parts: Iterable[ScanPart], read: int, now: datetime.datetime, rules: Rules
) -> Advance | None:
    """Hand out what is due of these parts; ``None``: each has its final result of this read."""
    changed: list[ScanPart] = []
    casts: list[str] = []
    wakes: list[datetime.datetime] = []
    ready: list[ScanPart] = []
    busy, over = 0, True
    for part in parts:
        attempt = part.attempt if part.read == read else 0
        until = _until(part, read, rules)
        if until is None and part.read == read and (part.outcome is Outcome.CLEAR or attempt >= rules.attempts):
            continue
        over = False
        if until is not None and now < until:
            busy += 1
            wakes.append(until)
        elif until is None and part.read == read and now < (at := _retry_at(part, rules)):
            wakes.append(at)
        elif part.state is StepState.RUNNING and attempt >= rules.attempts:
            text = f"its workers were lost {attempt} times"
            lost: dict[str, Any] = {"outcome": Outcome.UNKNOWN, "reason": str(Reason.TIMED_OUT), "message": text}
            changed.append(dataclasses.replace(part, state=StepState.DONE, finished_at=now, lease_until=None, **lost))
        else:
            ready.append(part)
    if over:
        return None
    for part in ready[: max(0, rules.parts_at_once - busy)]:
        attempt = part.attempt if part.read == read else 0
        taken_up = attempt if part.state is StepState.DISPATCHED and attempt else attempt + 1
        changed.append(
            dataclasses.replace(
                part, read=read, attempt=taken_up, state=StepState.DISPATCHED, dispatched_at=now, lease_until=None
            )
        )
        casts.append(part.id)
        wakes.append(now + rules.claim_timeout)
    rested = _rest(scan, min(wakes, default=now), now, rules)
    return dataclasses.replace(rested, parts=tuple(changed), casts=tuple(casts))


def _until(part: ScanPart, read: int, rules: Rules) -> datetime.datetime | None:
    """Return when a part that is under way counts as lost; ``None``: it is not under way."""
    if part.read != read or part.state not in (StepState.DISPATCHED, StepState.RUNNING):
        return None
    if part.state is StepState.RUNNING:
        assert part.lease_until is not None
        return part.lease_until
    assert part.dispatched_at is not None
    return part.dispatched_at + rules.claim_timeout


def _retry_at(part: ScanPart, rules: Rules) -> datetime.datetime:
    assert part.finished_at is not None
    return part.finished_at + backoff.delay(part.attempt, rules.retry_base, rules.retry_cap)


def _rest(scan: OrphanScan, wake: datetime.datetime, now: datetime.datetime, rules: Rules) -> Advance:
    return Advance(dataclasses.replace(scan, wake_at=min(wake, now + rules.heartbeat)))


def _moved(scan: OrphanScan, status: ScanStatus, now: datetime.datetime, message: str) -> OrphanScan:
    finished = None if status in SCANNING else now
    return dataclasses.replace(scan, status=status, status_at=now, wake_at=now, finished_at=finished, message=message)


def _ended(scan: OrphanScan, work: Sequence[ScanPart], now: datetime.datetime) -> OrphanScan:
    unknown = sorted(part.name for part in work if part.outcome is not Outcome.CLEAR)
    undecided = sum(part.undecided for part in work)
    found = sum(part.orphans for part in work if part.outcome is Outcome.CLEAR)
    said = [f"{found} orphans"]
    if unknown:
        said.append(f"unknown: {', '.join(unknown)}")
    if undecided:
        said.append("Keystone did not tell of some projects whether it knows them")
    status = ScanStatus.INCOMPLETE if unknown or undecided else ScanStatus.COMPLETED
    return _moved(scan, status, now, "; ".join(said))
