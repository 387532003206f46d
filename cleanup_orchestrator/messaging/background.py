"""Runs functions one after the other in a background thread, so that no caller waits for a slow receiver."""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections.abc import Callable

#: Maximum number of functions that wait; further ones are refused.
WAITING = 1000


_ALL: weakref.WeakSet[Background] = weakref.WeakSet()


def close_all(patience: float) -> None:
    """Close every queue of this process, one after the other; see :meth:`Background.close`."""
    for each in tuple(_ALL):
        each.close(patience)


class Background:
    """The thread and its queue. The functions must not raise."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: queue.Queue[Callable[[], None] | None] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._lock = threading.Lock()
        _ALL.add(self)

    def put(self, function: Callable[[], None]) -> None:
        """Have a function called, after those that wait.

        :raises queue.Full: if too many wait
        """
        # The thread starts with the first function, in the process that has it: a thread does not survive a fork.
        with self._lock:
            if self._thread is None or not self._thread.is_alive() or self._pid != os.getpid():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._pid = os.getpid()
                self._thread.start()
        self._waiting.put_nowait(function)

    def close(self, patience: float) -> None:
        """Call the functions that wait, and end the thread.

        :param patience: seconds to wait for the queue, and again for the thread
        """
        if self._thread is not None and self._pid == os.getpid():
            try:
                self._waiting.put(None, timeout=patience)
            except queue.Full:
                return
            self._thread.join(timeout=patience)

    def _run(self) -> None:
        while (function := self._waiting.get()) is not None:
            function()
