"""Notifications about deletions, liens, the brake and orphan scans.

They are sent through oslo.messaging.

A deletion is announced when its status changes, when it stalls, is blocked or is on hold. The process that committed
the change sends the notification after the commit, from a background thread: a broker that is down neither delays nor
fails a decision. A notification may get lost, for example when the process ends right after the commit. The journal is
complete.
"""

from __future__ import annotations

import datetime
import functools
import queue
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from oslo_log import log

from cleanup_orchestrator.core import force
from cleanup_orchestrator.core.condition_types import CONDITIONS, ConditionType
from cleanup_orchestrator.core.conditions import DATE
from cleanup_orchestrator.core.deletion import Deletion, Status
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.orphan_scan import OrphanScan, ScanStatus, counted
from cleanup_orchestrator.core.redact import redact
from cleanup_orchestrator.core.step import Step
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.messaging.background import Background
from cleanup_orchestrator.monitoring import metrics

LOG = log.getLogger(__name__)

PREFIX = "project_cleanup.deletion"
LIEN = "project_cleanup.lien"
BRAKE = "project_cleanup.brake"
SCAN_PREFIX = "project_cleanup.orphan_scan"

#: Statuses and conditions that need an operator: sent with the priority ``error``.
_ERRORS = frozenset({"failed", *(rule.begun for rule in CONDITIONS.values() if rule.error)})

#: The fields of ``Tally`` that a notification has.
_COUNTERS = ("found", "deleted", "remaining", "kept", "abandoned", "unknown", "calls")

#: Users that a notification names at most.
MAX_MEMBERS = 1000

#: The date of a deletion comes near.
REMINDER = "reminder"

#: Statuses before the first delete.
_BEFORE_DELETES = frozenset({Status.ACCEPTED, Status.DRAINING, Status.INVENTORY, Status.RECOVERABLE})


class Sender(Protocol):
    """The part of ``oslo_messaging.Notifier`` that is used here."""

    def info(self, ctxt: Any, event_type: str, payload: Any) -> None:
        """Send with the priority ``info``."""

    def error(self, ctxt: Any, event_type: str, payload: Any) -> None:
        """Send with the priority ``error``."""


def announced(before: Deletion | None, after: Deletion) -> tuple[str, ...]:
    """Return the notifications that a commit causes: the last part of each event type.

    :param before: ``None``: the deletion was created
    """
    types = []
    moved = before is None or before.status is not after.status
    if moved:
        types.append(str(after.status))
    if after.forced is not None and before is not None and before.forced != after.forced:
        types.append("forced")
    if before is not None and _came_near(before, after):
        types.append(REMINDER)
    was = _texts(before) if before else {}
    now = _texts(after)
    for type_, rule in CONDITIONS.items():
        if type_ in now and type_ not in was:
            types.append(rule.begun)
        elif type_ in was and type_ not in now and not moved:  # a new status implies it
            types.append(rule.over)
    return tuple(filter(None, types))


def _came_near(before: Deletion, after: Deletion) -> bool:
    """Return whether the date of a deletion that waits for it has come near."""
    was, now = (each.condition(ConditionType.SCHEDULED) for each in (before, after))
    return was is not None and now is not None and now.reason not in (was.reason, DATE)


def _texts(deletion: Deletion) -> dict[str, str]:
    """Return the messages of the conditions that are true, by type."""
    return {c.type: redact(c.message) for c in deletion.conditions if c.status}


def deletes_not_before(deletion: Deletion, recovery_window: datetime.timedelta) -> datetime.datetime | None:
    """Return the earliest time of the first delete, or when deletes began; ``None``: nothing is deleted.

    Until the inventory has ended, the end of the recovery window is not known. It is not before the present status
    began, so that the time that is returned never decreases.
    """
    if not deletion.profile.deletes:
        return None
    if deletion.point_of_no_return_at is not None or deletion.status not in _BEFORE_DELETES:
        return deletion.point_of_no_return_at
    return max(deletion.status_at, deletion.begins_at) + recovery_window


def payload(
    before: Deletion | None,
    after: Deletion,
    recovery_window: datetime.timedelta = datetime.timedelta(0),
) -> dict[str, Any]:
    """Return the payload of a notification about a deletion.

    The manual (``admin/monitoring``) has its fields.

    :param recovery_window: between the inventory and the first delete
    """
    texts = _texts(after)
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
        "request_reason": redact(after.request_reason),
        "ticket": redact(after.ticket),
        "not_before": _time(after.not_before),
        "attempt": after.attempt,
        "status": str(after.status),
        "status_before": str(before.status) if before else "",
        "reason": after.reason,
        "message": redact(after.message),
        "forced": force.asked(after) is not None,
        "forced_reason": redact(after.forced.reason) if after.forced else "",
        "forced_by": after.forced.user_id if after.forced else "",
        "stalled": ConditionType.STALLED in texts,
        "stalled_message": texts.get(ConditionType.STALLED, ""),
        "blocked": ConditionType.BLOCKED in texts,
        "blocked_message": texts.get(ConditionType.BLOCKED, ""),
        "on_hold": ConditionType.ON_HOLD in texts,
        "hold_message": texts.get(ConditionType.ON_HOLD, ""),
        "approval_message": texts.get(ConditionType.APPROVAL, ""),
        "point_of_no_return_at": _time(after.point_of_no_return_at),
        "deletes_not_before": _time(deletes_not_before(after, recovery_window)),
        "user_id": after.user_id,
        "user_name": after.user_name,
        "request_id": after.request_id,
        "member_ids": list(after.member_ids[:MAX_MEMBERS]),
        "created_at": _time(after.created_at),
        "status_at": _time(after.status_at),
        "finished_at": _time(after.finished_at),
        "counters": {name: getattr(after.tally, name) for name in _COUNTERS},
        "journal_length": after.journal.length,
        "journal_digest": after.journal.digest,
    }


def scan_payload(scan: OrphanScan, steps: Iterable[Step]) -> dict[str, Any]:
    """Return the payload of a notification about an orphan scan.

    The manual (``admin/orphans``) has its fields.
    """
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
        "counters": counted(steps),
    }


def _time(value: datetime.datetime | None) -> str:
    return utc(value) if value else ""


class Announcer:
    """Announces the commits of this process, in order, from a background thread.

    No method raises or waits for the broker.
    """

    def __init__(
        self,
        sender: Sender,
        steps: Callable[[str], Sequence[Step]],
        recovery_window: Callable[[], datetime.timedelta] = lambda: datetime.timedelta(0),
    ) -> None:
        """Use a sender, and these functions when a notification is sent.

        :param steps: returns the steps of an orphan scan, by its id
        :param recovery_window: returns the time between an inventory and the first delete, as configured now
        """
        self._sender, self._steps, self._window = sender, steps, recovery_window
        self._background = Background("notifications")

    def deletion_saved(self, before: Deletion | None, after: Deletion) -> None:
        """Announce what has changed in a deletion; ``before`` is ``None``: it was created."""

        def said() -> Mapping[str, Any]:
            return payload(before, after, self._window())

        for what in announced(before, after):
            self.say(f"{PREFIX}.{what}", said, what in _ERRORS)

    def lien_changed(self, lien: Lien) -> None:
        """Announce a lien that was recorded or removed."""
        what = "removed" if lien.deleted_at else "recorded"
        times = {name: _time(getattr(lien, name)) for name in ("created_at", "expires_at", "deleted_at")}
        self.say(f"{LIEN}.{what}", lambda: {**lien.to_dict(), "reason": redact(lien.reason), **times})

    def scan_moved(self, scan: OrphanScan) -> None:
        """Announce an orphan scan that was created, or whose status changed."""
        bad = scan.status in (ScanStatus.FAILED, ScanStatus.INCOMPLETE)
        self.say(f"{SCAN_PREFIX}.{scan.status}", lambda: scan_payload(scan, self._steps(scan.id)), bad)

    def brake_changed(self, brake: Brake) -> None:
        """Announce the brake after it was set or lifted."""
        said = {**brake.to_dict(), "reason": redact(brake.reason), "since": _time(brake.since)}
        self.say(f"{BRAKE}.{'set' if brake.on else 'lifted'}", lambda: said, brake.on)

    def say(self, event_type: str, said: Callable[[], Mapping[str, Any]], error: bool = False) -> None:
        """Add a notification to the queue.

        :param said: returns the payload; called when the notification is sent
        :param error: send it with the priority ``error``: it needs an operator
        """
        try:
            self._background.put(functools.partial(self._send, event_type, said, error))
        except queue.Full:
            metrics.NOTIFICATIONS.labels("dropped").inc()
            LOG.warning("dropped notification %s: too many are waiting", event_type)
        except Exception as failure:
            metrics.NOTIFICATIONS.labels("failed").inc()
            LOG.warning("could not queue notification %s: %s", event_type, failure)

    def close(self, patience: float) -> None:
        """Send the waiting notifications, and end the thread; see :meth:`Background.close`."""
        self._background.close(patience)

    def _send(self, event_type: str, said: Callable[[], Mapping[str, Any]], error: bool) -> None:
        try:
            send = self._sender.error if error else self._sender.info
            send({}, event_type, said())
            metrics.NOTIFICATIONS.labels("sent").inc()
        except Exception as failure:
            metrics.NOTIFICATIONS.labels("failed").inc()
            LOG.warning("could not send notification %s: %s", event_type, failure)


def publisher_id() -> str:
    """Return the publisher of the notifications: the service and the host."""
    return f"project_cleanup.{socket.gethostname()}"


def event_types() -> tuple[str, ...]:
    """Return every event type about deletions, liens and the brake."""
    conditions = (what for rule in CONDITIONS.values() for what in (rule.begun, rule.over) if what)
    of_deletions = (*map(str, Status), "forced", REMINDER, *conditions)
    others = (f"{LIEN}.recorded", f"{LIEN}.removed", f"{BRAKE}.set", f"{BRAKE}.lifted")
    return (*(f"{PREFIX}.{what}" for what in of_deletions), *others)
