"""Decides what happens next in an orphan scan, and what is an orphan. Pure.

A resource is reported only if Keystone did not know its project at two times: when it was first listed, and when it was
listed again with the same owner ``reread_after`` seconds later. An error, a doubt or a failed list makes the scan
incomplete, and no resource an orphan.
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
    """The status of an orphan scan."""

    ACCEPTED = "accepted"  #: recorded; the catalog is being read
    RUNNING = "running"  #: a read is under way: the first, or after ``waiting`` the second
    WAITING = "waiting"  #: between the two reads
    COMPLETED = "completed"  #: every list was read, and read again if the first read found candidates
    INCOMPLETE = "incomplete"  #: it ended without some of the answers; what it reports is valid
    FAILED = "failed"  #: the catalog could not be read
    CANCELLED = "cancelled"


#: The statuses of an orphan scan that has not ended.
SCANNING = frozenset({ScanStatus.ACCEPTED, ScanStatus.RUNNING, ScanStatus.WAITING})


@dataclasses.dataclass(frozen=True, slots=True)
class OrphanScan:
    """A search of every service for resources of projects that Keystone does not know.

    Times are as in a deletion.
    """

    id: str
    status: ScanStatus
    created_at: datetime.datetime
    status_at: datetime.datetime
    wake_at: datetime.datetime  #: when the engine has to decide again
    min_age: int  #: seconds; a younger resource is skipped
    reread_after: int  #: seconds between the end of the first read and the beginning of the second
    scheduled: bool = False  #: whether the schedule started it, and not a user
    read: int = 1  #: the number of the present read, 1 or 2
    message: str = ""  #: why the latest status was entered
    user_id: str = ""
    user_name: str = ""
    request_id: str = ""
    reread_at: datetime.datetime | None = None  #: when the second read may begin
    finished_at: datetime.datetime | None = None
    #: ``{"region", "service", "type", "reason"}`` of each type that is not listed.
    not_covered: tuple[Mapping[str, str], ...] = ()
    version: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class ScanPart:
    """One resource type in one region; without a service: the list of the catalog."""

    id: str
    scan_id: str
    region: str = ""
    service: str = ""
    type: str = ""
    project_setting: bool = False
    read: int = 0  #: the read that it was last dispatched for; 0: none
    attempt: int = 0  #: within that read
    state: StepState = StepState.IDLE
    outcome: Outcome = Outcome.NONE  #: of the latest attempt
    reason: str = ""
    message: str = ""
    listed: int = 0  #: rows of the first read, of all owners
    owner_unknown: int = 0  #: of these, those without an owner, or with one that cannot be a project's id
    too_young: int = 0  #: of these, those of unknown projects that are younger than the minimum age
    undecided: int = 0  #: projects for which Keystone gave no answer
    candidates: int = 0  #: resources of projects that Keystone did not know at the first read
    orphans: int = 0  #: of these, those that are still there, with an unknown project, at the second read
    calls: int = 0
    fencing_token: int = 0  #: incremented by each claim
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
    project_setting: bool = False  #: a quota, a default group or the like, which no user created
    created_at: datetime.datetime | None = None  #: as its service reports it; none: not reported
    first_seen_at: datetime.datetime | None = None
    last_seen_at: datetime.datetime | None = None


#: What can be a project's id. Zeros alone are no project: Designate's managed zones have such an owner.
_PROJECT_ID = re.compile(r"(?=.*[^0-])[0-9A-Za-z_-]{1,64}")

#: The fields in which services report the time of creation. The first one that is set counts.
_CREATED = ("created_at", "created", "creation_time")


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The operator's settings that decisions on orphan scans depend on."""

    claim_timeout: datetime.timedelta = datetime.timedelta(seconds=30)  #: an unclaimed cast is sent again after this
    heartbeat: datetime.timedelta = datetime.timedelta(seconds=60)  #: the longest time between two decisions
    attempts: int = 3  #: at each read of a part, before it counts as unknown
    retry_base: float = 1.0  #: seconds
    retry_cap: float = 60.0  #: seconds
    parts_at_once: int = 2  #: parts that may be dispatched or run at the same time


@dataclasses.dataclass(frozen=True, slots=True)
class Advance:
    """What a decision saves in one transaction, and the casts to send after it."""

    scan: OrphanScan
    parts: tuple[ScanPart, ...] = ()  #: only those that changed
    casts: tuple[str, ...] = ()  #: part ids
    again: bool = False  #: whether another decision should follow at once


def owner_of(project_id: str | None) -> str | None:
    """Return an owner's id for Keystone; ``None`` if it cannot be a project's."""
    return project_id if project_id and _PROJECT_ID.fullmatch(project_id) else None


def created_at(row: Mapping[str, Any]) -> datetime.datetime | None:
    """Return when a resource was created (UTC, naive); ``None``: it is not reported."""
    text = next((row[name] for name in _CREATED if row.get(name)), None)
    try:
        when = datetime.datetime.fromisoformat(str(text))
        return when.astimezone(datetime.UTC).replace(tzinfo=None) if when.tzinfo else when
    except (ValueError, OverflowError):
        return None


def advance(scan: OrphanScan, parts: Sequence[ScanPart], now: datetime.datetime, rules: Rules) -> Advance:
    """Return what to do next with a scan. The same facts give the same decision."""
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
        waiting = _moved(scan, ScanStatus.WAITING, now, f"{found} candidates are listed again")
        return Advance(dataclasses.replace(waiting, wake_at=waiting.reread_at or now))
    return Advance(_ended(scan, work, now))


def _again(part: ScanPart) -> bool:
    """Whether the part has to be read a second time."""
    return part.read == 1 and part.outcome is Outcome.CLEAR and part.candidates > 0


def _drive(
    scan: OrphanScan, parts: Iterable[ScanPart], read: int, now: datetime.datetime, rules: Rules
) -> Advance | None:
    """Dispatch the parts that are due; ``None``: this read of each part is final."""
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
    """Return when a part counts as lost; ``None`` if it is not under way."""
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
        said.append("Keystone did not say of some projects whether it knows them")
    status = ScanStatus.INCOMPLETE if unknown or undecided else ScanStatus.COMPLETED
    return _moved(scan, status, now, "; ".join(said))
