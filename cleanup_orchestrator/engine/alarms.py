"""Announces deletions at the time at which they are due, between two ticks."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable


class Alarms:
    """The times at which deletions are due, as far as this engine decided on them.

    They are in memory only. What is lost with a process, and what another engine decided, the tick takes up.
    """

    def __init__(self, ring: Callable[[str], None]) -> None:
        """Create the alarms of an engine.

        :param ring: called with the id of each deletion that is due
        """
        self._ring = ring
        self._due: dict[str, float] = {}  #: monotonic times
        self._queue: list[tuple[float, str]] = []  #: also has times that a later decision has replaced
        self._changed = threading.Condition()
        self._stopped = False

    def set(self, deletion_id: str, seconds: float) -> None:
        """Announce a deletion in so many seconds, and not at the time that was set before."""
        at = time.monotonic() + seconds
        with self._changed:
            self._due[deletion_id] = at
            heapq.heappush(self._queue, (at, deletion_id))
            if self._queue[0][0] == at:
                self._changed.notify()

    def clear(self, deletion_id: str) -> None:
        """Do not announce a deletion, because it has ended."""
        with self._changed:
            self._due.pop(deletion_id, None)

    def run(self) -> None:
        """Announce what is due, until :meth:`stop`."""
        while not self._stopped:
            for deletion_id in self._next():
                self._ring(deletion_id)

    def stop(self) -> None:
        """End :meth:`run`, at once if it waits."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _next(self) -> list[str]:
        """Wait until a deletion is due, an earlier time is set, or the stop; return what is due."""
        with self._changed:
            wait = threading.TIMEOUT_MAX
            if self._queue:
                wait = min(wait, self._queue[0][0] - time.monotonic())
            if wait > 0 and not self._stopped:
                self._changed.wait(wait)
            now, due = time.monotonic(), []
            while self._queue and self._queue[0][0] <= now:
                at, deletion_id = heapq.heappop(self._queue)
                if self._due.get(deletion_id) == at:
                    del self._due[deletion_id]
                    due.append(deletion_id)
            return due
