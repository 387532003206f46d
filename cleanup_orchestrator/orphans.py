"""What happens next in an orphan scan, and what counts as an orphan. Pure: no I/O, no clock.

A resource is reported only if Keystone did not know its project when it was first listed, nor ``reread_after`` seconds
later, when it was listed again with the same owner. All else (an error, a doubt, a list that failed) makes the scan
incomplete, and nothing an orphan.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oslo_config import cfg

from cleanup_orchestrator import backoff
from cleanup_orchestrator.model import SCANNING, OrphanScan, Outcome, Reason, ScanPart, ScanStatus, State

GROUP = "orphans"
OPTS = {
    GROUP: [
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


def fresh(conf: cfg.ConfigOpts, **values: Any) -> OrphanScan:
    """Return a scan as it is first recorded; the store puts the database's times in place of its own."""
    never = datetime.datetime(1970, 1, 1)
    group = conf[GROUP]
    return OrphanScan(
        str(uuid.uuid4()), ScanStatus.ACCEPTED, never, never, never, group.min_age, group.reread_after, **values
    )


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
        elif part.state is State.RUNNING and attempt >= rules.attempts:
            text = f"its workers were lost {attempt} times"
            lost: dict[str, Any] = {"outcome": Outcome.UNKNOWN, "reason": str(Reason.TIMED_OUT), "message": text}
            changed.append(dataclasses.replace(part, state=State.DONE, finished_at=now, lease_until=None, **lost))
        else:
            ready.append(part)
    if over:
        return None
    for part in ready[: max(0, rules.parts_at_once - busy)]:
        attempt = part.attempt if part.read == read else 0
        taken_up = attempt if part.state is State.DISPATCHED and attempt else attempt + 1
        changed.append(
            dataclasses.replace(
                part, read=read, attempt=taken_up, state=State.DISPATCHED, dispatched_at=now, lease_until=None
            )
        )
        casts.append(part.id)
        wakes.append(now + rules.claim_timeout)
    rested = _rest(scan, min(wakes, default=now), now, rules)
    return dataclasses.replace(rested, parts=tuple(changed), casts=tuple(casts))


def _until(part: ScanPart, read: int, rules: Rules) -> datetime.datetime | None:
    """Return when a part that is under way counts as lost; ``None``: it is not under way."""
    if part.read != read or part.state not in (State.DISPATCHED, State.RUNNING):
        return None
    if part.state is State.RUNNING:
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
