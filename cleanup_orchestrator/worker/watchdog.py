"""Watches threads and gives up those that hang.

Python cannot end a thread, so that a thread that was given up is remembered until it ends.

A plugin that hangs must not occupy the worker, also when it hangs again and again. A step whose thread still hangs is
not started again in the same process. While a thread hangs in a type of a region, other steps of this type and region
run one at a time. A step that has to wait has the outcome ``unknown`` and is tried again like any other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from oslo_log import log

from cleanup_orchestrator.core.step import Step
from cleanup_orchestrator.monitoring import metrics, stacks

LOG = log.getLogger(__name__)


class HungThreads:
    """The threads of one worker that were given up and have not ended.

    The length counts the threads of each step that make its calls in parallel, too.
    """

    def __init__(self) -> None:
        self._threads: dict[threading.Thread, tuple[Step, float, int]] = {}
        self._tried: dict[str, str] = {}  #: id of the step that runs alone, by its name and region
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return sum(number for _, _, number in self._threads.values())

    def add(self, thread: threading.Thread, step: Step, over: threading.Event, number: int) -> None:
        """Remember the thread of a step that was given up, unless it has ended.

        The thread sets ``over`` before it calls :meth:`forget`.

        :param number: of the threads that end with it, itself included
        """
        with self._lock:
            if not over.is_set():
                self._threads[thread] = (step, time.monotonic(), number)
                metrics.HUNG.inc(number)

    def forget(self) -> float | None:
        """Forget the calling thread; return the seconds since it was given up.

        ``None``: it was not given up.
        """
        with self._lock:
            if (entry := self._threads.pop(threading.current_thread(), None)) is None:
                return None
            _, since, number = entry
            metrics.HUNG.dec(number)
            return time.monotonic() - since

    def enter(self, step: Step) -> str:
        """Return why a step must not start now, or empty.

        If it may start, the caller calls :meth:`leave` at its end.
        """
        with self._lock:
            hanging = [(other, since) for other, since, _ in self._threads.values() if other.place == step.place]
            for other, since in hanging:
                if other.id == step.id:
                    return f"{step.place} hangs since {time.monotonic() - since:.0f} seconds in this worker"
            if hanging and self._tried.setdefault(step.place, step.id) != step.id:
                return f"{step.place} hangs for {len(hanging)} others: its steps are tried one at a time"
            return ""

    def leave(self, step: Step) -> None:
        """Let the next step of the same type and region start."""
        with self._lock:
            if self._tried.get(step.place) == step.id:
                del self._tried[step.place]


def watch(
    over: threading.Event,
    life: Callable[[], float],
    silence: Callable[[], float],
    longest: Callable[[], float],
    renew: Callable[[], bool],
    every: float,
) -> str:
    """Wait for a thread and renew its lease; return why to give it up, or empty.

    :param life: returns the monotonic time of the last sign of life
    :param silence: returns the seconds without a sign of life after which the thread hangs, as configured now
    :param longest: returns the seconds after which it has to end in any case, as configured now
    :param renew: extends the lease; ``False``: the lease is lost
    :param every: seconds between two renewals
    """
    began = time.monotonic()
    renewed: float | None = began  #: none: the lease is lost
    while True:
        now = time.monotonic()
        quiet, whole = life() + silence(), began + longest()
        if now >= quiet:
            return f"no sign of life for {now - life():.0f} seconds"
        if now >= whole:
            return f"not over after {now - began:.0f} seconds"
        # The options may change during the wait: read them again from time to time.
        until = min(quiet, whole, now + every, *([renewed + every] if renewed is not None else []))
        if over.wait(max(0.0, until - now)):
            return ""
        if renewed is not None and time.monotonic() >= renewed + every:
            renewed = time.monotonic() if renew() else None


def place(thread: threading.Thread) -> str:
    """Return the line of code that a thread is at."""
    frame = stacks.frames().get(thread.ident or 0)
    return f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})" if frame else "no line: it has ended"
