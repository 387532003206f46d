"""Decides what happens next in an orphan scan, and what is an orphan. Pure.

A resource is reported only if Keystone did not know its project at two times: when it was first listed, and when it was
listed again with the same owner ``reread_after`` seconds later. An error, a doubt or a failed list makes the scan
incomplete, and no resource an orphan.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence

from cleanup_orchestrator.core import dispatch
from cleanup_orchestrator.core.ids import is_project_id
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.core.words import SCANNING as SCANNING
from cleanup_orchestrator.core.words import ScanStatus as ScanStatus


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


#: A step that has counted nothing.
_NONE = Step("", "", StepKind.SCAN)


@dataclasses.dataclass(frozen=True, slots=True)
class Advance:
    """What a decision saves in one transaction, and the casts to send after it."""

    scan: OrphanScan
    steps: tuple[Step, ...] = ()  #: only those that changed
    casts: tuple[str, ...] = ()  #: step ids
    again: bool = False  #: whether another decision should follow at once


def owner_of(project_id: str | None) -> str | None:
    """Return an owner's id for Keystone; ``None`` if it cannot be a project's."""
    return project_id if project_id and is_project_id(project_id) else None


def record(step: Step, result: StepResult, now: datetime.datetime) -> Step:
    """Return a step with its result; the counts of a read that failed are those of the read before it."""
    after = dispatch.finished(step, result, now)
    return after if result.outcome is Outcome.UNKNOWN else dataclasses.replace(after, counts=result.counts)


def counts(step: Step) -> dict[str, int]:
    """Return what a step counted, with its API calls."""
    return {**dataclasses.asdict(step.counts), "calls": step.calls}


def counted(steps: Iterable[Step]) -> dict[str, int]:
    """Return the sums over the lists of a scan."""
    every = [counts(step) for step in steps if step.kind is StepKind.SCAN]
    return {name: sum(each[name] for each in every) for name in counts(_NONE)}


def advance(scan: OrphanScan, steps: Sequence[Step], now: datetime.datetime, rules: Rules) -> Advance:
    """Return what to do next with a scan. The same facts give the same decision."""
    if scan.status not in SCANNING:
        return Advance(scan)
    catalog = next(step for step in steps if step.kind is StepKind.CATALOG)
    if scan.status is ScanStatus.ACCEPTED:
        driven = _drive(scan, [catalog], 1, now, rules)
        if driven is not None:
            return driven
        if catalog.outcome is not Outcome.CLEAR:
            return Advance(_moved(scan, ScanStatus.FAILED, now, f"the catalog could not be read: {catalog.message}"))
        return Advance(_moved(scan, ScanStatus.RUNNING, now, "the first read"), again=True)
    lists = [step for step in steps if step.kind is StepKind.SCAN]
    if scan.status is ScanStatus.WAITING:
        assert scan.reread_at is not None
        if now < scan.reread_at:
            return _rest(scan, scan.reread_at, now, rules)
        scan = dataclasses.replace(scan, read=2)
        return Advance(_moved(scan, ScanStatus.RUNNING, now, "the second read"), again=True)
    subjects = lists if scan.read == 1 else [step for step in lists if step.round == 2 or _again(step)]
    driven = _drive(scan, subjects, scan.read, now, rules)
    if driven is not None:
        return driven
    if scan.read == 1 and any(map(_again, lists)):
        scan = dataclasses.replace(scan, reread_at=now + datetime.timedelta(seconds=scan.reread_after))
        candidates = sum(step.counts.candidates for step in lists if _again(step))
        waiting = _moved(scan, ScanStatus.WAITING, now, f"{candidates} candidates are listed again")
        return Advance(dataclasses.replace(waiting, wake_at=waiting.reread_at or now))
    return Advance(_ended(scan, lists, now))


def _again(step: Step) -> bool:
    """Whether the step has to be read a second time."""
    return step.round == 1 and step.outcome is Outcome.CLEAR and step.counts.candidates > 0


def _drive(scan: OrphanScan, steps: Iterable[Step], read: int, now: datetime.datetime, rules: Rules) -> Advance | None:
    """Dispatch the steps that are due; ``None``: this read of each step is final."""
    changed: list[Step] = []
    wakes: list[datetime.datetime] = []
    ready: list[Step] = []
    busy, over = 0, True
    for step in steps:
        here = step.round == read
        until = dispatch.under_way_until(step, rules) if here else None
        exhausted = here and step.attempt >= rules.attempts
        if here and until is None and (step.outcome is Outcome.CLEAR or exhausted):
            continue
        over = False
        if until is not None and now < until:
            busy += 1
            wakes.append(until)
        elif here and until is None and now < (at := dispatch.retry_at(step, rules)):
            wakes.append(at)
        elif step.state is StepState.RUNNING and exhausted:
            text = f"its workers were lost {step.attempt} times"
            changed.append(record(step, StepResult(Outcome.UNKNOWN, str(Reason.TIMED_OUT), text), now))
        else:
            ready.append(step)
    if over:
        return None
    chosen = ready[: max(0, rules.scan_steps_at_once - busy)]
    changed += (dispatch.dispatched(step, read, _attempt(step, read), now) for step in chosen)
    wakes += [now + rules.claim_timeout] * len(chosen)
    rested = _rest(scan, min(wakes, default=now), now, rules)
    return dataclasses.replace(rested, steps=tuple(changed), casts=tuple(step.id for step in chosen))


def _attempt(step: Step, read: int) -> int:
    """Return the number of the attempt that begins. A cast that was lost before a claim was no attempt."""
    if step.round != read:
        return 1
    return step.attempt + (step.state is not StepState.DISPATCHED)


def _rest(scan: OrphanScan, wake: datetime.datetime, now: datetime.datetime, rules: Rules) -> Advance:
    return Advance(dataclasses.replace(scan, wake_at=min(wake, now + rules.heartbeat)))


def _moved(scan: OrphanScan, status: ScanStatus, now: datetime.datetime, message: str) -> OrphanScan:
    finished = None if status in SCANNING else now
    return dataclasses.replace(scan, status=status, status_at=now, wake_at=now, finished_at=finished, message=message)


def _ended(scan: OrphanScan, lists: Sequence[Step], now: datetime.datetime) -> OrphanScan:
    unknown = sorted(step.place for step in lists if step.outcome is not Outcome.CLEAR)
    undecided = sum(step.counts.undecided for step in lists)
    orphans = sum(step.counts.orphans for step in lists if step.outcome is Outcome.CLEAR)
    said = [f"{orphans} orphan{'' if orphans == 1 else 's'}", *_skipped(scan, lists)]
    if unknown:
        said.append(f"unknown: {', '.join(unknown)}")
    if undecided:
        said.append("Keystone did not say of some projects whether it knows them")
    status = ScanStatus.INCOMPLETE if unknown or undecided else ScanStatus.COMPLETED
    return _moved(scan, status, now, "; ".join(said))


def _skipped(scan: OrphanScan, lists: Sequence[Step]) -> list[str]:
    """Return what the scan saw and does not report, or does not list."""
    seen = counted(lists)
    numbers = [
        (seen["too_young"], f"too young (less than {scan.min_age} seconds)"),
        (seen["owner_unknown"], "without an owner that can be a project"),
        (len(scan.not_covered), "of the types cannot be listed"),
    ]
    return [f"{number} {what}" for number, what in numbers if number]
