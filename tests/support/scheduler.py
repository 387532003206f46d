"""Simulates processes, threads and time. One thread runs at a time; the seed decides which one is next."""

from __future__ import annotations

import math
import random
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import greenlet

#: The least and the most seconds that an effect of a kind takes.
COSTS = {"store": (0.001, 0.02), "read": (0.02, 0.5), "write": (0.02, 1.0), "cast": (0.0, 0.001), "wait": (0.0, 0.0)}


class Crash(BaseException):
    """Ends a thread of a process that dies: no code of it runs after this, and none has an effect."""


class Process:
    """An operating system process: freezes and dies with all its threads, and has a separate clock."""

    def __init__(self, name: str, offset: float = 0.0, rate: float = 1.0) -> None:
        self.name, self.offset, self.rate = name, offset, rate
        self.alive = True
        self.frozen_until = 0.0


class Thread:
    """A simulated thread. ``wake``: when it may run again; ``event``: the event that lets it run sooner."""

    def __init__(self, process: Process, name: str, function: Callable[[], Any], parent: Thread | None) -> None:
        self.process, self.name = process, name
        self.wake = 0.0
        self.event: Event | None = None
        self.over = False
        self.held: Any = parent.held if parent else None  #: the claimed step that it works on
        self.permit: bool | None = None  #: the guard's answer for the next write; ``None``: it was not asked
        self.saw: dict[Any, Any] = {}  #: what the cloud last showed it; watches compare its next calls with that
        self.stands_for: Any = None  #: the ``threading.Thread`` that its process sees
        self.greenlet = greenlet.greenlet(self._run)
        self._function = function

    def _run(self) -> None:
        try:
            self._function()
        except Crash:
            pass
        finally:
            self.over = True

    def ready_at(self) -> float:
        """The time from which the thread may run, as far as it is known now."""
        wake = self.wake if self.event is None else min(self.wake, self.event.next_at())
        return max(wake, self.process.frozen_until)

    @property
    def label(self) -> str:
        return f"{self.process.name}/{self.name}"


class Simulation:
    """The scheduler."""

    def __init__(self, seed: int, stick: float = 0.5, tracing: bool = False) -> None:
        self.rng = random.Random(f"schedule {seed}")
        self.now = 0.0  #: seconds since the beginning
        self.effects = 0
        self.stick = stick  #: the probability that a thread continues after an effect
        self.threads: list[Thread] = []
        self.current: Thread | None = None
        self.broken = ""  #: the first promise that was broken
        self.trace: list[str] | None = [] if tracing else None
        self.strike: Callable[[str, str], Any] = lambda kind, label: None  #: returns the fault of an effect
        self._hub = greenlet.getcurrent()

    # -- threads
    def spawn(self, process: Process, name: str, function: Callable[[], Any]) -> Thread:
        thread = Thread(process, name, function, self.current)
        thread.wake = self.now
        self.threads.append(thread)
        return thread

    def kill(self, process: Process) -> None:
        """Kill a process. If the running thread belongs to it, this raises ``Crash``."""
        process.alive = False
        mine, self.threads = (
            [t for t in self.threads if t.process is process],
            [t for t in self.threads if t.process is not process],
        )
        current = self.current
        for thread in mine:
            if thread is not current and thread.greenlet:  # begun, and not over
                self.current = thread
                thread.greenlet.parent = greenlet.getcurrent()
                thread.greenlet.throw(Crash)
        self.current = current
        if current is not None and current.process is process:
            raise Crash

    def run(self, over: Callable[[], bool], limit: int) -> bool:
        """Let threads run until ``over`` is true; return ``False`` if it is not after ``limit`` effects.

        Threads that only wait have no effects, so their turns have a limit, too. Of 120 seeds and the found plans,
        one run took 4,221 turns to its end, and all others at most 2,200.
        """
        end, turns = self.effects + limit, 5 * limit
        while not self.broken and not over():
            if self.effects >= end or not turns:
                return False
            self._pick()
            turns -= 1
        return True

    def _pick(self) -> None:
        self.threads = [t for t in self.threads if not t.over]
        times = [(t.ready_at(), t) for t in self.threads]
        ready = [t for at, t in times if at <= self.now]
        if not ready:
            soonest = min((at for at, _ in times), default=math.inf)
            if soonest == math.inf:
                self.fail("all wait, and nothing will ever happen again")
                return
            self.now = soonest
            ready = [t for at, t in times if at <= self.now]
        thread = ready[0] if len(ready) == 1 else ready[int(self.rng.random() * len(ready))]
        thread.event = None
        self.current = thread
        thread.greenlet.parent = self._hub
        try:
            thread.greenlet.switch()
        finally:
            self.current = None

    def close(self) -> None:
        """End all threads."""
        self.current = None
        for process in {id(t.process): t.process for t in self.threads}.values():
            self.kill(process)

    # -- effects
    def note(self, text: str) -> None:
        """Add a line to the trace."""
        if self.trace is not None:
            who = self.current.label if self.current else "-"
            self.trace.append(f"{self.effects:5d} {self.now:9.3f} {who:16} {text}")

    def fail(self, text: str) -> None:
        """Record that a promise is broken."""
        if not self.broken:
            self.broken = text
            self.note(f"BROKEN: {text}")

    def point(self, kind: str, label: str) -> Any:
        """Let other threads run, or the process die, right before an effect.

        Without a current thread (code that sets up or checks the world) nothing happens.

        :returns: a fault that the caller has to carry out
        """
        thread = self.current
        if thread is None:
            return None
        if not thread.process.alive:
            raise Crash
        self.effects += 1
        low, high = COSTS[kind]
        cost = low + (high - low) * self.rng.random()
        fault = self.strike(kind, label)
        if thread.process.frozen_until > self.now or self.broken or self.rng.random() >= self.stick:
            thread.wake = self.now + cost
            self._yield(thread)
        else:
            self.now += cost
        self.note(f"{kind:6}{label}" + (f"   <- {fault.kind}" if fault else ""))
        return fault

    def _yield(self, thread: Thread) -> None:
        self._hub.switch()
        if not thread.process.alive:
            raise Crash

    # -- time and waiting
    def sleep(self, seconds: float) -> None:
        """Let other threads run for so many seconds of the process's clock."""
        thread = self.current
        if thread is None:
            return
        if not thread.process.alive:
            raise Crash
        thread.wake = self.now + max(0.0, seconds) / thread.process.rate
        self._yield(thread)

    def wait(self, event: Event, seconds: float | None) -> bool:
        """Wait for an event, for at most so many seconds; return whether it is set."""
        thread = self.current
        assert thread is not None
        if not thread.process.alive:
            raise Crash
        if not event.is_set():
            thread.event = event
            thread.wake = math.inf if seconds is None else self.now + seconds / thread.process.rate
            self._yield(thread)
        return event.is_set()

    def monotonic(self) -> float:
        """Return the time on the clock of the calling process."""
        process = self.current.process if self.current else None
        return process.offset + self.now * process.rate if process else self.now


# -------------------------------------------------------------------------------- what stands for the library's modules
class Active:
    """Return the simulation that runs in this process."""

    simulation: Simulation


def active() -> Simulation:
    return Active.simulation


class Event:
    """Stands for ``threading.Event``."""

    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True

    def clear(self) -> None:
        self._set = False

    def next_at(self) -> float:
        """The time at which the event will be set, as far as it is known now."""
        return 0.0 if self._set else math.inf

    def wait(self, timeout: float | None = None) -> bool:
        return active().wait(self, timeout)


class SimulatedThread:
    """Stands for ``threading.Thread``: a new thread of the process that creates it."""

    ident = None

    def __init__(self, target: Callable[[], Any], name: str = "", daemon: bool = False) -> None:
        self._target, self._over = target, Event()
        self._started = False

    def _run(self) -> None:
        try:
            self._target()
        except SystemExit:  # ends a thread silently, as in the library
            pass
        finally:
            self._over.set()

    def start(self) -> None:
        simulation = active()
        assert simulation.current is not None
        self._started = True
        if simulation.current.process.alive:
            made = simulation.spawn(simulation.current.process, f"{simulation.current.name}+", self._run)
            made.stands_for = self

    def join(self, timeout: float | None = None) -> None:
        if active().current is not None:
            self._over.wait(timeout)

    def is_alive(self) -> bool:
        return self._started and not self._over.is_set()


class Future:
    """Stands for ``concurrent.futures.Future``."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self._over = call, Event()
        self._value: Any = None
        self._error: Exception | None = None

    def run(self) -> None:
        """Make the call."""
        try:
            self._value = self._call()
        except Exception as error:
            self._error = error
        self._over.set()

    def result(self) -> Any:
        self._over.wait()
        if self._error is not None:
            raise self._error
        return self._value


class Pool:
    """Stands for ``concurrent.futures.ThreadPoolExecutor``."""

    def __init__(self, threads: int, _name: str = "") -> None:
        self._most = threads
        self._todo: list[Future] = []
        self._working: list[SimulatedThread] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for thread in tuple(self._working):
            thread.join()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        future = Future(lambda: function(*arguments))
        self._todo.append(future)
        if len(self._working) < self._most:
            thread = SimulatedThread(lambda: self._work(thread))
            self._working.append(thread)
            thread.start()
        return future

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Call a function with each item; yield what it returns, in the order of the items."""
        futures = [self.submit(function, item) for item in items]
        return (future.result() for future in futures)

    def _work(self, thread: SimulatedThread) -> None:
        while self._todo:
            self._todo.pop(0).run()
        self._working.remove(thread)


class Time:
    """Stands for the module ``time``."""

    @staticmethod
    def monotonic() -> float:
        return active().monotonic()

    @staticmethod
    def clock_gettime(_clock: int) -> float:
        return active().monotonic()

    @staticmethod
    def sleep(seconds: float) -> None:
        active().sleep(seconds)


class Lock:
    """Stands for ``threading.Lock``. A thread yields only if another thread holds the lock."""

    def __init__(self) -> None:
        self._free = Event()
        self._free.set()

    def acquire(self) -> bool:
        while not self._free.is_set():
            self._free.wait()
        self._free.clear()
        return True

    def release(self) -> None:
        self._free.set()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition:
    """Stands for ``threading.Condition``. Without a lock of the caller, its lock does nothing."""

    def __init__(self, lock: Lock | None = None) -> None:
        self._lock = lock
        self._waiting: list[Event] = []

    def __enter__(self) -> Condition:
        if self._lock is not None:
            self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        notified = Event()
        self._waiting.append(notified)
        if self._lock is not None:
            self._lock.release()
        try:
            # A clock moves on between two waits: what is left may be rounded to nothing.
            return notified.wait(None if timeout is None else max(timeout, 1e-9))
        finally:
            if notified in self._waiting:
                self._waiting.remove(notified)
            if self._lock is not None:
                self._lock.acquire()

    def notify(self) -> None:
        if self._waiting:
            self._waiting.pop(0).set()

    def notify_all(self) -> None:
        while self._waiting:
            self.notify()


class Local:
    """Stands for ``threading.local``: each simulated thread has its own attributes."""

    def __init__(self) -> None:
        object.__setattr__(self, "_values", weakref.WeakKeyDictionary())

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[greenlet.getcurrent()][name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._values.setdefault(greenlet.getcurrent(), {})[name] = value


class Threading:
    """Stands for the module ``threading`` where threads are made."""

    Event, Thread, Lock, Condition, local = Event, SimulatedThread, Lock, Condition, Local

    @staticmethod
    def current_thread() -> Any:
        current = active().current
        return (current.stands_for or current) if current else None


class Futures:
    """Stands for ``concurrent.futures``."""

    ThreadPoolExecutor = Pool


class Concurrent:
    """Stands for ``concurrent``."""

    futures = Futures
