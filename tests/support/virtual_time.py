"""Tests on virtual time: modules of the package get their clocks, waits and threads from the scheduler.

A test of minutes takes milliseconds and does the same in each run.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import pkgutil
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from cleanup_orchestrator import store
from tests.support.scheduler import Active, Crash, Process, Simulation, Thread, Threading, Time

#: The time of the database when a test begins.
T0 = datetime.datetime(2026, 1, 1)

#: Turns of threads without any time that passes, after which they count as an endless loop.
TURNS = 10_000

# Import all modules of the store now: one that is imported during a test would keep the time of that test.
_STORE = [store, *(importlib.import_module(f"{store.__name__}.{m.name}") for m in pkgutil.iter_modules(store.__path__))]


class Chance(random.Random):
    """Stands for the module ``random``, with a seed."""

    Random = random.Random


class Job:
    """A function that runs in a simulated thread."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.began = self.ended = 0.0  #: virtual seconds
        self.thread: Thread | None = None
        self.error: BaseException | None = None  #: what the function raised
        self.asked = False  #: whether the test asked for the result
        self._function = function
        self._result: Any = None

    def run(self) -> None:
        """Call the function and keep its result or its error."""
        simulation = Active.simulation
        self.began = simulation.now
        try:
            self._result = self._function()
        except (Crash, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.error = error
        self.ended = simulation.now

    @property
    def alive(self) -> bool:
        """Whether the process of the function lives."""
        assert self.thread is not None
        return self.thread.process.alive

    @property
    def over(self) -> bool:
        """Whether the function has ended, or its process has died."""
        assert self.thread is not None
        return self.thread.over or not self.alive

    def result(self) -> Any:
        """Return what the function returned, or raise what it raised."""
        assert self.over
        self.asked = True
        if self.error is not None:
            raise self.error
        return self._result


class VirtualTime:
    """Starts simulated threads and lets virtual time pass. Threads run only while a test waits here.

    ``patience`` is how many virtual seconds a wait takes at most.
    """

    def __init__(self, seed: int = 0) -> None:
        self.simulation = Simulation(seed, stick=0.0)
        self.process = Process("process")
        self._jobs: list[Job] = []

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self.simulation.now

    def start(self, function: Callable[[], Any], process: Process | None = None) -> Job:
        """Start a function in a thread; it runs when time passes."""
        job = Job(function)
        job.thread = self.simulation.spawn(process or self.process, "job", job.run)
        self._jobs.append(job)
        return job

    def finish(self, *jobs: Job, patience: float = 3600.0) -> list[Any]:
        """Let time pass until these have ended; return their results or raise the first error."""
        self.until(lambda: all(job.over for job in jobs), patience)
        for job in jobs:
            job.asked = True
        return [job.result() for job in jobs]

    def run(self, *functions: Callable[[], Any], process: Process | None = None) -> list[Any]:
        """Run functions, each in a thread, until all have ended; return their results or raise the first error."""
        return self.finish(*(self.start(function, process) for function in functions))

    def call(self, function: Callable[..., Any], *args: Any, patience: float = 3600.0) -> Any:
        """Run one function in a thread until it has ended; return its result or raise its error."""
        (result,) = self.finish(self.start(lambda: function(*args)), patience=patience)
        return result

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.call(self.simulation.sleep, seconds, patience=seconds + 1)

    def until(self, condition: Callable[[], Any], patience: float = 3600.0) -> None:
        """Let time pass until the condition is true.

        :raises AssertionError: it is not true in time, all threads wait for ever, or none of them waits
        """
        deadline = self.now + patience
        self.advance(lambda: condition() or self.now > deadline)
        if self.simulation.broken or not condition():
            self.check()  # such an error is probably the cause
        assert not self.simulation.broken, self.simulation.broken
        assert condition(), f"not within {patience} virtual seconds"

    def advance(self, over: Callable[[], Any]) -> None:
        """Let threads run until ``over`` is true or the simulation is broken.

        :raises AssertionError: the threads run for ever, and no time passes
        """
        assert self.simulation.current is None, "a simulated thread cannot drive the scheduler"
        moment, turns = self.now, 0

        def stop() -> bool:
            nonlocal moment, turns
            moment, turns = (moment, turns + 1) if moment == self.now else (self.now, 0)
            return turns > TURNS or over()

        self.simulation.run(stop, sys.maxsize)
        assert turns <= TURNS, f"threads run for ever at second {self.now}: none of them waits"

    def check(self) -> None:
        """Raise the first error that a job raised and the test did not ask for."""
        for job in self._jobs:
            if job.error is not None and job.alive and not job.asked:
                raise job.error


@contextlib.contextmanager
def virtual_time(*modules: ModuleType, seed: int = 0) -> Iterator[VirtualTime]:
    """Run these modules and the clock of the database on virtual time.

    In each module, ``time``, ``threading`` and ``random`` are replaced where it imports them. At the end, an error of a
    job whose result the test did not ask for is raised.

    :param modules: modules of the package
    :param seed: decides which thread runs where several could, and what ``random`` returns
    """
    made = VirtualTime(seed)
    Active.simulation = made.simulation
    stand_ins = ((time, Time), (threading, Threading), (random, Chance(f"random {seed}")))
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            for real, stand_in in stand_ins:
                if getattr(module, real.__name__, None) is real:
                    patch.setattr(module, real.__name__, stand_in)
        for module in _STORE:
            if hasattr(module, "database_time"):
                patch.setattr(module, "database_time", lambda _: T0 + datetime.timedelta(seconds=made.now))
        try:
            yield made
            made.check()
        finally:
            made.simulation.close()
