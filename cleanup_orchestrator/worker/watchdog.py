"""What became of threads that hang: a thread cannot be ended, so it is given up, and remembered until it ends.

A plugin that hangs must cost the others little, also when it hangs again and again. So in one process a step whose
thread still hangs is not begun once more; and as long as a thread hangs in a type of a region, the type's other steps
there are tried one at a time. What is put off is unknown, and tried again like any other unknown.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oslo_log import log

from cleanup_orchestrator.core.step import Step
from cleanup_orchestrator.monitoring import metrics

if TYPE_CHECKING:
    from cleanup_orchestrator.cloud.session import GuardedSession

LOG = log.getLogger(__name__)


class WatchedTask:
    """What is done in a thread of its own that can be given up: its sessions are the signs of life that it gives."""

    def __init__(self) -> None:
        self.sessions: list[GuardedSession] = []  #: every one that is made for it
        self.began = time.monotonic()
        self.over = threading.Event()  #: its thread is done
        self._given_up = ""

    def main(self) -> None:
        """Be the thread; ends with ``over``, whatever happens."""
        raise NotImplementedError

    def see_through(self, name: str, options: Any, renew: Callable[[], bool]) -> tuple[threading.Thread, str]:
        """Have it done; return its thread, and why it has to be given up; empty: it is over.

        :param name: of the thread
        :param options: ``[worker]``
        :param renew: extends its lease; ``False``: it is lost
        """
        thread = threading.Thread(target=self.main, name=name, daemon=True)
        thread.start()
        limits = (lambda: options.step_timeout), (lambda: options.step_limit)
        return thread, watch(self.over, self.life, *limits, renew, float(options.lease) / 3)

    def seen(self, session: GuardedSession) -> None:
        """Take note of a session that is made for it."""
        self.sessions.append(session)
        if self._given_up:
            session.end(self._given_up)

    def life(self) -> float:
        """Return when it last gave a sign of life, monotonic."""
        return max((session.life for session in tuple(self.sessions)), default=self.began)

    @property
    def calls(self) -> int:
        """How many API calls it has made."""
        return sum(session.calls for session in tuple(self.sessions))

    @property
    def writing(self) -> bool:
        """Whether a write call is under way: it may still take effect."""
        return any(session.writing for session in tuple(self.sessions))

    def give_up(self, why: str) -> None:
        """Let it call nobody any more: its thread hangs."""
        self._given_up = f"given up: {why}"
        for session in tuple(self.sessions):
            session.end(self._given_up)


class Hung:
    """The threads of one worker that were given up and have not ended."""

    def __init__(self) -> None:
        self._threads: dict[threading.Thread, tuple[Step, float]] = {}
        self._tried: dict[str, str] = {}  #: the step that is being tried, by what it is
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._threads)

    def add(self, thread: threading.Thread, step: Step, over: threading.Event) -> None:
        """Remember a thread that was given up, unless it is ``over`` by now, which it says before :meth:`forget`."""
        with self._lock:
            if not over.is_set():
                self._threads[thread] = (step, time.monotonic())
                metrics.HUNG.inc()

    def forget(self) -> float | None:
        """The present thread ends; return for how many seconds it was given up, ``None``: it was not."""
        with self._lock:
            _, since = self._threads.pop(threading.current_thread(), (None, None))
            if since is None:
                return None
            metrics.HUNG.dec()
            return time.monotonic() - since

    def enter(self, step: Step) -> str:
        """Return why a step must not be begun now; empty: begin it, and call :meth:`leave` when it is over."""
        with self._lock:
            hanging = [(other, since) for other, since in self._threads.values() if where(other) == where(step)]
            for other, since in hanging:
                if other.id == step.id:
                    return f"{where(step)} hangs since {time.monotonic() - since:.0f} seconds in this very worker"
            if hanging and self._tried.setdefault(where(step), step.id) != step.id:
                return f"{where(step)} hangs for {len(hanging)} others: its steps are tried one at a time"
            return ""

    def leave(self, step: Step) -> None:
        """Let the next one be tried."""
        with self._lock:
            if self._tried.get(where(step)) == step.id:
                del self._tried[where(step)]


def where(step: Step) -> str:
    """Return what a step is, and in which region."""
    return f"{step.name}@{step.region or '-'}"


def watch(
    over: threading.Event,
    life: Callable[[], float],
    silence: Callable[[], float],
    longest: Callable[[], float],
    renew: Callable[[], bool],
    every: float,
) -> str:
    """Wait until a thread is over, and renew its lease meanwhile; return why it has to be given up; empty: it is over.

    :param life: when it last gave a sign of life, monotonic
    :param silence: seconds without a sign of life after which it hangs, as the configuration has it now
    :param longest: seconds after which it has to end in any case, the same
    :param renew: extends the lease; ``False``: it is lost
    :param every: seconds between two renewals
    """
    began = time.monotonic()
    renewed: float | None = began  #: none: there is nothing to renew any more
    while True:
        now = time.monotonic()
        quiet, whole = life() + silence(), began + longest()
        if now >= quiet:
            return f"no sign of life for {now - life():.0f} seconds"
        if now >= whole:
            return f"not over after {now - began:.0f} seconds"
        # Options may change meanwhile, so a look every now and then.
        until = min(quiet, whole, now + every, *([renewed + every] if renewed is not None else []))
        if over.wait(max(0.0, until - now)):
            return ""
        if renewed is not None and time.monotonic() >= renewed + every:
            renewed = time.monotonic() if renew() else None


def place(thread: threading.Thread) -> str:
    """Return where in the code a thread is."""
    frame = sys._current_frames().get(thread.ident or 0)
    return f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})" if frame else "nowhere any more"
