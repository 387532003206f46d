"""Notifications through oslo.messaging: one for each change of a deletion's status, and when it stalls.

They are sent after the commit, by whoever committed, from a thread of their own: a broker that is down delays and fails
no decision. So one may get lost (a process that dies right after its commit sends none): the journal is the truth, a
notification is for who cannot wait for it.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from oslo_log import log

from cleanup_orchestrator import metrics
from cleanup_orchestrator.model import Deletion, Event, Kind, Outcome, Status, Step
from cleanup_orchestrator.redact import redact
from cleanup_orchestrator.store import Store

LOG = log.getLogger(__name__)

PREFIX = "project_cleanup.deletion"

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


def news(before: Deletion | None, after: Deletion) -> tuple[str, ...]:
    """Return what a commit changed that is worth a notification: the last words of the event types.

    :param before: ``None``: the record was made
    """
    found = []
    moved = before is None or before.status is not after.status
    if moved:
        found.append(str(after.status))
    was = before is not None and stalled(before)
    if stalled(after) and not was:
        found.append("stalled")
    elif was and not stalled(after) and not moved:  # a new status says so by itself
        found.append("resumed")
    return tuple(found)


def payload(before: Deletion | None, after: Deletion, steps: Iterable[Step]) -> dict[str, Any]:
    """Return what a notification says; the manual (``admin/monitoring``) has every field, and a test compares."""
    every = [s for s in steps if s.round >= after.since_round]
    sweeps = [s for s in every if s.kind in (Kind.SWEEP, Kind.UNCOVERED)]
    blocked = next((c for c in after.conditions if c.type == "stalled" and c.status), None)
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
        "attempt": after.attempt,
        "status": str(after.status),
        "status_before": str(before.status) if before else "",
        "reason": after.reason,
        "message": redact(after.message),
        "stalled": blocked is not None,
        "stalled_message": redact(blocked.message) if blocked else "",
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
            "unknown": sum(s.outcome is Outcome.UNKNOWN for s in sweeps),
            "calls": sum(s.calls for s in every),
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
        self._waiting: queue.Queue[tuple[Deletion | None, Deletion] | None] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._lock = threading.Lock()

    def committed(self, before: Deletion | None, after: Deletion) -> None:
        """Take note of a commit. Never raises, never waits."""
        if not news(before, after):
            return
        try:
            self._start()
            self._waiting.put_nowait((before, after))
        except queue.Full:
            metrics.NOTIFICATIONS.labels("dropped").inc()
            LOG.warning("a notification is dropped, too many are waiting: %s is %s", after.id, after.status)
        except Exception as error:
            metrics.NOTIFICATIONS.labels("failed").inc()
            LOG.warning("no notification that %s is %s: %s", after.id, after.status, error)

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
        while (commit := self._waiting.get()) is not None:
            before, after = commit
            for what in news(before, after):
                try:
                    said = payload(before, after, self._steps(after.id))
                    send = self._sender.error if what in _ERRORS else self._sender.info
                    send({}, f"{PREFIX}.{what}", said)
                    metrics.NOTIFICATIONS.labels("sent").inc()
                except Exception as error:
                    metrics.NOTIFICATIONS.labels("failed").inc()
                    LOG.warning("no notification that %s is %s: %s", after.id, what, error)


class AnnouncingStore(Store):
    """The store, whose commits are announced: the one place that every new status passes, whoever made it."""

    announcer: Announcer | None = None

    def create_all(self, wanted: Sequence[tuple[Deletion, Event]], kinds: Iterable[Kind]) -> tuple[Deletion, ...]:
        """See ``Store.create_all``."""
        made = super().create_all(wanted, kinds)
        for one in made:
            self._announce(None, one)
        return made

    def save(
        self, before: Deletion, after: Deletion, steps: Iterable[Step] = (), events: Sequence[Event] = ()
    ) -> Deletion:
        """See ``Store.save``."""
        saved = super().save(before, after, steps, events)
        self._announce(before, saved)
        return saved

    def _announce(self, before: Deletion | None, after: Deletion) -> None:
        if self.announcer is not None:
            self.announcer.committed(before, after)


def publisher_id() -> str:
    """Return who says it: the service and the host."""
    return f"project_cleanup.{socket.gethostname()}"


def event_types() -> tuple[str, ...]:
    """Return every event type there is."""
    return tuple(f"{PREFIX}.{what}" for what in (*map(str, Status), "stalled", "resumed"))
