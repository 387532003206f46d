"""Notifications through oslo.messaging: what becomes of deletions, and of what holds them: liens and the brake.

There is one for each change of a deletion's status, and when it stalls or is held. They are sent after the commit, by
whoever committed, from a thread of their own: a broker that is down delays and fails no decision. So one may get lost
(a process that dies right after its commit sends none): the journal is the truth, a notification is for who cannot wait
for it.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import queue
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from oslo_log import log

from cleanup_orchestrator.core import force
from cleanup_orchestrator.core.deletion import Deletion, Status
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.orphan_scan import OrphanScan, ScanPart, ScanStatus
from cleanup_orchestrator.core.redact import redact
from cleanup_orchestrator.core.step import Outcome, Step, StepKind
from cleanup_orchestrator.monitoring import metrics
from cleanup_orchestrator.store import Store

LOG = log.getLogger(__name__)

PREFIX = "project_cleanup.deletion"
LIEN = "project_cleanup.lien"
BRAKE = "project_cleanup.brake"
SCAN_PREFIX = "project_cleanup.orphan_scan"

#: Event type, what makes the payload when it is sent, and whether somebody has to look at it.
_Message = tuple[str, Callable[[], Mapping[str, Any]], bool]

#: Statuses and conditions that somebody has to look at: sent with the priority ``error``.
_ERRORS = frozenset({"failed", "stalled"})

#: So many wait for a broker that is down; further ones are dropped.
_WAITING = 1000


class Sender(Protocol):
    """What sends: ``oslo_messaging.Notifier``."""

    def info(self, ctxt: Any, event_type: str, payload: Any) -> None:
        """Send with the priority ``info``."""

    def error(self, ctxt: Any, event_type: str, payload: Any) -> None:
        """Send with the priority ``error``."""


def stalled(deletion: Deletion) -> bool:
    """Whether a deletion makes no progress."""
    return any(c.type == "stalled" and c.status for c in deletion.conditions)


def held(deletion: Deletion) -> bool:
    """Whether a lien, the brake or the hours keep a deletion from going on."""
    return any(c.type == "on_hold" and c.status for c in deletion.conditions)


def asking(deletion: Deletion) -> str:
    """Return why a deletion waits for a second person's approval; empty: it waits for none."""
    return next((c.message for c in deletion.conditions if c.type == "approval" and c.status), "")


def news(before: Deletion | None, after: Deletion) -> tuple[str, ...]:
    """Return what a commit changed that is worth a notification: the last words of the event types.

    :param before: ``None``: the record was made
    """
    found = []
    moved = before is None or before.status is not after.status
    if moved:
        found.append(str(after.status))
    if after.forced is not None and before is not None and before.forced != after.forced:
        found.append("forced")
    was = before is not None and stalled(before)
    if stalled(after) and not was:
        found.append("stalled")
    elif was and not stalled(after) and not moved:  # a new status says so by itself
        found.append("resumed")
    was = before is not None and held(before)
    if held(after) and not was:
        found.append("on_hold")
    elif was and not held(after) and not moved:
        found.append("continued")
    if asking(after) and not (before is not None and asking(before)):
        found.append("approval_needed")
    return tuple(found)


def payload(before: Deletion | None, after: Deletion, steps: Iterable[Step]) -> dict[str, Any]:
    """Return what a notification says; the manual (``admin/monitoring``) has every field, and a test compares."""
    every = [s for s in steps if s.round >= after.since_round]
    sweeps = [s for s in every if s.kind in (StepKind.SWEEP, StepKind.UNSUPPORTED)]
    blocked = next((c for c in after.conditions if c.type == "stalled" and c.status), None)
    hold = next((c for c in after.conditions if c.type == "on_hold" and c.status), None)
    return {
        "deletion_id": after.id,
        "project_id": after.project_id,
        "project_name": after.project_name,
        "domain_id": after.domain_id,
        "mode": str(after.mode),
        "dry_run": after.dry_run,
        "origin": str(after.origin),
        "include_subtree": after.include_subtree,
        "parent_deletion_id": after.parent_deletion_id,
        "plan_id": after.plan_id,
        "attempt": after.attempt,
        "status": str(after.status),
        "status_before": str(before.status) if before else "",
        "reason": after.reason,
        "message": redact(after.message),
        "forced": force.asked(after) is not None,
        "forced_reason": redact(after.forced.reason) if after.forced else "",
        "forced_by": after.forced.user_id if after.forced else "",
        "stalled": blocked is not None,
        "stalled_message": redact(blocked.message) if blocked else "",
        "on_hold": hold is not None,
        "hold_message": redact(hold.message) if hold else "",
        "approval_message": asking(after),
        "point_of_no_return_at": _time(after.point_of_no_return_at),
        "user_id": after.user_id,
        "user_name": after.user_name,
        "request_id": after.request_id,
        "created_at": _time(after.created_at),
        "status_at": _time(after.status_at),
        "finished_at": _time(after.finished_at),
        "counters": {
            "found": sum(s.found for s in sweeps),
            "deleted": sum(s.deleted for s in sweeps),
            "remaining": sum(s.remaining for s in sweeps),
            "kept": sum(s.kept for s in sweeps),
            "abandoned": force.abandoned(sweeps),
            "unknown": sum(s.outcome is Outcome.UNKNOWN for s in sweeps),
            "calls": sum(s.calls for s in every),
        },
    }


def scan_payload(scan: OrphanScan, parts: Iterable[ScanPart]) -> dict[str, Any]:
    """Return what a notification about an orphan scan says; the manual (``admin/orphans``) has every field."""
    work = [part for part in parts if part.service]
    return {
        "orphan_scan_id": scan.id,
        "status": str(scan.status),
        "message": redact(scan.message),
        "scheduled": scan.scheduled,
        "user_id": scan.user_id,
        "user_name": scan.user_name,
        "request_id": scan.request_id,
        "created_at": _time(scan.created_at),
        "status_at": _time(scan.status_at),
        "finished_at": _time(scan.finished_at),
        "counters": {
            name: sum(getattr(part, name) for part in work)
            for name in ("listed", "owner_unknown", "too_young", "undecided", "candidates", "orphans", "calls")
        },
    }


def _time(value: Any) -> str:
    return value.isoformat(timespec="seconds") + "Z" if value else ""


class Announcer:
    """Sends in the background, in the order of the commits of this process."""

    def __init__(self, sender: Sender, steps: Callable[[str], Sequence[Step]]) -> None:
        """Wire it.

        :param steps: of a deletion, by its id; asked when the notification is sent
        """
        self._sender, self._steps = sender, steps
        self._waiting: queue.Queue[_Message | None] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._lock = threading.Lock()

    def committed(self, before: Deletion | None, after: Deletion) -> None:
        """Take note of a commit. Never raises, never waits."""
        for what in news(before, after):
            self.say(f"{PREFIX}.{what}", lambda: payload(before, after, self._steps(after.id)), what in _ERRORS)

    def lien(self, what: str, lien: Lien) -> None:
        """Take note of a lien that was recorded or removed. Never raises, never waits."""
        times = {name: _time(getattr(lien, name)) for name in ("created_at", "expires_at", "deleted_at")}
        self.say(f"{LIEN}.{what}", lambda: {**lien.to_dict(), "reason": redact(lien.reason), **times})

    def brake(self, brake: Brake) -> None:
        """Take note of a brake that was pulled or lifted. Never raises, never waits."""
        said = {**brake.to_dict(), "reason": redact(brake.reason), "since": _time(brake.since)}
        self.say(f"{BRAKE}.{'pulled' if brake.on else 'lifted'}", lambda: said, brake.on)

    def say(self, event_type: str, said: Callable[[], Mapping[str, Any]], error: bool = False) -> None:
        """Send a notification. Never raises, never waits.

        :param said: its payload, asked for when it is sent
        :param error: whether somebody has to look
        """
        try:
            self._start()
            self._waiting.put_nowait((event_type, said, error))
        except queue.Full:
            metrics.NOTIFICATIONS.labels("dropped").inc()
            LOG.warning("a notification is dropped, too many are waiting: %s", event_type)
        except Exception as failure:
            metrics.NOTIFICATIONS.labels("failed").inc()
            LOG.warning("no notification %s: %s", event_type, failure)

    def close(self, patience: float) -> None:
        """Send what is waiting, as far as it goes in so many seconds."""
        if self._thread is not None and self._pid == os.getpid():
            try:
                self._waiting.put(None, timeout=patience)
            except queue.Full:
                return
            self._thread.join(timeout=patience)

    def _start(self) -> None:
        # With the first commit, and in the process that makes it: a thread does not survive a server's fork.
        with self._lock:
            if self._thread is None or self._pid != os.getpid():
                self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)
                self._pid = os.getpid()
                self._thread.start()

    def _run(self) -> None:
        while (message := self._waiting.get()) is not None:
            event_type, said, error = message
            try:
                send = self._sender.error if error else self._sender.info
                send({}, event_type, said())
                metrics.NOTIFICATIONS.labels("sent").inc()
            except Exception as failure:
                metrics.NOTIFICATIONS.labels("failed").inc()
                LOG.warning("no notification %s: %s", event_type, failure)


class AnnouncingStore(Store):
    """The store, whose commits are announced: the one place that every new status passes, whoever made it."""

    announcer: Announcer | None = None

    def create_all(self, wanted: Sequence[tuple[Deletion, Event]], kinds: Iterable[StepKind]) -> tuple[Deletion, ...]:
        """See ``Store.create_all``."""
        made = super().create_all(wanted, kinds)
        for one in made:
            self._announce(None, one)
        return made

    def save(
        self,
        before: Deletion,
        after: Deletion,
        steps: Iterable[Step] = (),
        events: Sequence[Event] = (),
        abandoned: Iterable[str] = (),
    ) -> Deletion:
        """See ``Store.save``."""
        saved = super().save(before, after, steps, events, abandoned)
        self._announce(before, saved)
        return saved

    def add_lien(self, lien: Lien) -> Lien:
        """See ``Store.add_lien``."""
        made = super().add_lien(lien)
        if self.announcer is not None:
            self.announcer.lien("recorded", made)
        return made

    def remove_lien(self, lien_id: str, user_id: str) -> Lien:
        """See ``Store.remove_lien``."""
        before, _now = self.lien(lien_id)
        removed = super().remove_lien(lien_id, user_id)
        if self.announcer is not None and before.deleted_at is None:
            self.announcer.lien("removed", removed)
        return removed

    def _lien_changed(self, lien: Lien) -> None:
        """See ``Store._lien_changed``."""
        super()._lien_changed(lien)
        if self.announcer is not None:
            self.announcer.lien("removed" if lien.deleted_at else "recorded", lien)

    def set_brake(self, wanted: Brake) -> Brake:
        """See ``Store.set_brake``."""
        made = super().set_brake(wanted)
        if self.announcer is not None and made == dataclasses.replace(wanted, since=made.since):
            self.announcer.brake(made)
        return made

    def create_orphan_scan(self, scan: OrphanScan, not_before: datetime.timedelta | None = None) -> OrphanScan | None:
        """See ``Store.create_orphan_scan``."""
        made = super().create_orphan_scan(scan, not_before)
        self._announce_scan(made)
        return made

    def save_orphan_scan(self, before: OrphanScan, after: OrphanScan, parts: Iterable[ScanPart] = ()) -> OrphanScan:
        """See ``Store.save_orphan_scan``."""
        saved = super().save_orphan_scan(before, after, parts)
        self._announce_scan(saved if saved.status is not before.status else None)
        return saved

    def cancel_orphan_scan(self, scan_id: str, message: str) -> OrphanScan:
        """See ``Store.cancel_orphan_scan``."""
        scan = super().cancel_orphan_scan(scan_id, message)
        self._announce_scan(scan if scan.message == message else None)
        return scan

    def _announce_scan(self, scan: OrphanScan | None) -> None:
        if self.announcer is None or scan is None:
            return
        bad = scan.status in (ScanStatus.FAILED, ScanStatus.INCOMPLETE)
        said = lambda: scan_payload(scan, self.orphan_scan(scan.id)[1])  # noqa: E731
        self.announcer.say(f"{SCAN_PREFIX}.{scan.status}", said, bad)

    def _announce(self, before: Deletion | None, after: Deletion) -> None:
        if self.announcer is not None:
            self.announcer.committed(before, after)


def publisher_id() -> str:
    """Return who says it: the service and the host."""
    return f"project_cleanup.{socket.gethostname()}"


def event_types() -> tuple[str, ...]:
    """Return every event type there is."""
    of_deletions = (*map(str, Status), "forced", "stalled", "resumed", "on_hold", "continued", "approval_needed")
    others = (f"{LIEN}.recorded", f"{LIEN}.removed", f"{BRAKE}.pulled", f"{BRAKE}.lifted")
    return (*(f"{PREFIX}.{what}" for what in of_deletions), *others)
