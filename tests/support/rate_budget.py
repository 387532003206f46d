"""The rate budget of several simulated processes over one ledger, on virtual time, and what must hold of it.

The ledger is in memory (``MemoryLedger``) or the store on a database; ``Wire`` is the way to it. A ``Service`` receives
the calls. ``Story`` runs random processes that crash, stand still, and are told to pause.
"""

from __future__ import annotations

import bisect
import dataclasses
import datetime
import heapq
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

from oslo_config import cfg

from cleanup_orchestrator.cloud import rate_limit_options
from cleanup_orchestrator.cloud.rate_limiter import Ledger, RateLimiter
from cleanup_orchestrator.core import rate_limits
from cleanup_orchestrator.core.rate_limits import HORIZON, LEASE, Grant, Lease, RateLimit, Request
from tests.support.scheduler import Process
from tests.support.virtual_time import T0, Job, VirtualTime


def configuration(**values: Any) -> cfg.ConfigOpts:
    """Return a configuration with these values in ``[limits]``."""
    conf = cfg.ConfigOpts()
    for group, options in rate_limit_options.OPTS.items():
        conf.register_opts(options, group)
    conf([])
    for name, value in values.items():
        conf.set_override(name, value, rate_limit_options.GROUP)
    return conf


class MemoryLedger:
    """Rate limits in memory, with the time of the simulation."""

    def __init__(self, play: VirtualTime) -> None:
        self._play = play
        self.accounts: dict[tuple[str, str], RateLimit] = {}
        self.leases: dict[tuple[str, str], dict[str, Lease]] = {}

    def now(self) -> datetime.datetime:
        """Return the time of the ledger's clock."""
        return T0 + datetime.timedelta(seconds=self._play.now)

    def acquire_permits(self, service: str, region: str, ask: Request) -> Grant:
        """See ``Ledger``."""
        key = (service, region)
        leases = self.leases.setdefault(key, {})
        account, lease, grant = rate_limits.acquire(
            self.accounts.get(key, RateLimit()), list(leases.values()), ask, self.now()
        )
        self.accounts[key] = account
        leases.pop(ask.holder, None)
        if lease:
            leases[ask.holder] = lease
        return grant

    def pause_calls(self, service: str, region: str, seconds: float) -> None:
        """See ``Ledger``."""
        key = (service, region)
        account, until = self.accounts.get(key, RateLimit()), self.now() + datetime.timedelta(seconds=seconds)
        if account.paused_until is None or account.paused_until < until:
            self.accounts[key] = dataclasses.replace(account, paused_until=until)

    def held(self) -> int:
        """Return how many slots are leased."""
        return sum(lease.slots for leases in self.leases.values() for lease in leases.values())


@dataclasses.dataclass(slots=True)
class Visit:
    """One acquire that the ledger has carried out."""

    at: float  #: virtual seconds
    received: float  #: when the answer arrived; infinite: it got lost
    service: str
    region: str
    ask: Request
    grant: Grant


class Wire:
    """The way to a ledger: a request and its answer take a few milliseconds each, and may get lost."""

    def __init__(self, play: VirtualTime, ledger: Ledger) -> None:
        self._simulation, self.ledger = play.simulation, ledger
        self.away = False  #: whether nothing gets through
        self.lost = 0.0  #: how likely an answer does not arrive
        self.slowest = 0.0  #: the longest time that an answer took, in seconds
        self.visits: list[Visit] = []
        self.waiting: list[Process] = []  #: those that wait for an answer

    def acquire_permits(self, service: str, region: str, ask: Request) -> Grant:
        """See ``Ledger``."""

        def visit() -> Visit:
            grant, now = self.ledger.acquire_permits(service, region, ask), self._simulation.now
            self.visits.append(Visit(now, math.inf, service, region, ask, grant))
            return self.visits[-1]

        made: Visit = self._send(f"visit {ask.holder}", visit)
        made.received = self._simulation.now
        return made.grant

    def pause_calls(self, service: str, region: str, seconds: float) -> None:
        """See ``Ledger``."""
        self._send("pause", lambda: self.ledger.pause_calls(service, region, seconds))

    def _send(self, what: str, effect: Callable[[], Any]) -> Any:
        simulation = self._simulation
        process = simulation.current.process if simulation.current else Process("none")
        self.waiting.append(process)
        try:
            simulation.point("store", what)
            if self.away:
                raise OSError("no route to the database")
            answer, at = effect(), simulation.now
            simulation.point("store", f"answer to {what}")
            if simulation.rng.random() < self.lost:
                raise OSError("the answer was lost")
            self.slowest = max(self.slowest, simulation.now - at)
            return answer
        finally:
            self.waiting.remove(process)


# --------------------------------------------------------------------------------------------------------- what holds
@dataclasses.dataclass(slots=True)
class Call:
    """One call, as the service sees it."""

    process: Process
    delete: bool
    began: float  #: virtual seconds
    ends: float


class Service:
    """What is called: it records each call, and how many are under way at once."""

    def __init__(self, play: VirtualTime) -> None:
        self._simulation = play.simulation
        self.calls: list[Call] = []
        self.most = 0  #: calls under way at once, at most

    def call(self, seconds: float, delete: bool = False) -> None:
        """Take so many seconds to answer."""
        current, now = self._simulation.current, self._simulation.now
        assert current is not None
        call = Call(current.process, delete, now, now + seconds)
        self.calls.append(call)
        self.most = max(self.most, sum(1 for call in self.calls[-200:] if call.ends > now))
        self._simulation.sleep(seconds * current.process.rate)
        call.ends = min(call.ends, self._simulation.now)  # a process that stood still does not make its calls longer

    def lose(self, process: Process, patience: float) -> None:
        """Remove the calls of a process that has ended."""
        until = self._simulation.now + patience
        for call in self.calls:
            if call.process is process:
                call.ends = min(call.ends, until)

    def times(self, delete: bool | None = None, process: Process | None = None) -> list[float]:
        """Return when each call began; only deletes or others, only those of a process."""
        return sorted(
            call.began for call in self.calls if delete in (None, call.delete) and process in (None, call.process)
        )


def too_many(times: list[float], rate: float, slack: float) -> str:
    """Return the span of time that has more calls than the rate allows; empty: there is none.

    :param times: when each call began, sorted
    :param slack: seconds that an answer of the ledger takes: a permit may be used later by this time
    """
    # A span is full when "number of its calls" exceeds "rate * (length + allowed) + 1". With d(n) = n / rate - time(n)
    # that is: d(last) - d(first) is more than ``allowed``.
    allowed = 2 * HORIZON + slack
    least, first = float("inf"), 0.0
    for number, at in enumerate(times):
        if number / rate - at < least:
            least, first = number / rate - at, at
        if number / rate - at - least > allowed + 1e-6:
            count = number - bisect.bisect_left(times, first) + 1
            return f"{count} calls in the {at - first:.3f} seconds from {first:.3f}, at a rate of {rate}"
    return ""


def without_turn(times: list[float], visits: list[Visit], delete: bool, slack: float) -> str:
    """Return the call for which the ledger gave no permit, or whose permit was over; empty: there is none.

    :param times: when each call of one process began, sorted
    :param visits: those of that process
    :param slack: seconds by which the clocks may differ
    """
    turns = []
    for visit in visits:
        given = visit.grant.deletes if delete else visit.grant.calls
        if given is None or visit.received == math.inf:
            continue
        for begins in given:
            later = max(0.0, begins)
            turns.append((visit.at + later - slack, visit.received + later + HORIZON + slack))
    turns.sort(reverse=True)
    usable: list[float] = []  # until when, of those that have begun
    for at in times:
        while turns and turns[-1][0] <= at:
            heapq.heappush(usable, turns.pop()[1])
        while usable and usable[0] < at:
            heapq.heappop(usable)
        if not usable:
            return f"the call at {at:.3f} has no turn of its own"
        heapq.heappop(usable)
    return ""


# --------------------------------------------------------------------------------------------------- random schedules
@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The limits of a story."""

    calls: float
    deletes: float
    at_once: int
    brief: bool = False  #: calls take milliseconds and there are no breaks, so that the rate is what limits

    def options(self) -> dict[str, Any]:
        """Return them as options."""
        return {
            "calls_per_second": {"default": str(self.calls)},
            "deletes_per_second": {"default": str(self.deletes)},
            "calls_at_once": {"default": str(self.at_once)},
            "longest_wait": 600.0,
        }


RULES = (
    Rules(20, 5, 3),
    Rules(15, 0, 0, brief=True),
    Rules(0, 0, 2),  # only the slots limit
    Rules(0, 6, 0, brief=True),
    Rules(10, 3, 1),
    Rules(25, 8, 6, brief=True),
    Rules(0, 0, 0),  # no limit: only the pauses
    Rules(60, 8, 5),
)
#: Seconds for which a service goes on with a call whose process is gone: less than what is left of any lease.
_PATIENCE = 3.0
#: Seconds after which every process has received a pause.
_HEARD = 1.0


class Story:
    """Processes with threads that call one service; some crash, stand still, or are told to pause.

    Everything follows from the seed. ``broken`` has the first thing that must not happen.
    """

    def __init__(self, play: VirtualTime, ledger: Ledger, seed: int, processes: int = 3, calls: int = 60) -> None:
        self.play, self.wire, self.service = play, Wire(play, ledger), Service(play)
        self.rules = RULES[seed % len(RULES)]
        self._rng = random.Random(f"story {seed}")
        self._calls = calls  #: for each process
        self._conf = configuration(**self.rules.options())
        self._number = processes
        self.processes: list[Process] = []
        self.budgets: list[RateLimiter] = []
        self.pauses: list[tuple[Process, float, float, float]] = []  #: whose, from, written at, until
        self._jobs: list[Job] = []  #: one for each process
        self.wire.lost = self._rng.choice([0.0, 0.0, 0.05])
        self.crashed = 0

    def run(self) -> str:
        """Run to the end; return what must not happen and did, or an empty string."""
        for _ in range(self._number):
            self._start()
        self.play.start(self._trouble, Process("trouble"))
        self.play.advance(lambda: self._done or self.play.now > 500)
        for job in self._jobs:
            if job.over:
                job.result()
        return self.play.simulation.broken or next(self._broken(), "")

    @property
    def _done(self) -> bool:
        return all(job.over for job in self._jobs)

    def _start(self) -> None:
        """Start a process: its clock, its budget, and its threads."""
        rng, number = self._rng, len(self.processes)
        process = Process(f"p{number}", offset=rng.uniform(-1e5, 1e5), rate=rng.uniform(0.999, 1.001))
        self.processes.append(process)
        threads = rng.choice([1, 2, 6])
        todo = [self._calls if number < self._number else 10]  # one that replaces a dead process has less to do

        def main() -> None:
            spending = RateLimiter(self._conf, self.wire)
            spending.holder = process.name
            self.budgets.append(spending)
            jobs = [self.play.start(lambda: work(spending), process) for _ in range(threads)]
            while not all(job.over for job in jobs):
                self.play.simulation.sleep(0.5)
            for job in jobs:
                job.result()
            spending.close()

        def work(spending: RateLimiter) -> None:
            while todo[0] > 0:
                todo[0] -= 1
                self._call(spending, process)

        self._jobs.append(self.play.start(main, process))

    def _call(self, spending: RateLimiter, process: Process) -> None:
        rng = self._rng
        delete = rng.random() < 0.3
        if self.rules.brief:
            seconds = rng.uniform(0.001, 0.03)
        else:
            seconds = rng.choice([0.05, 0.05, 0.4, 0.4, 1.5, 2 * LEASE if rng.random() < 0.15 else 0.1])
            if rng.random() < 0.1:
                self.play.simulation.sleep(rng.uniform(0.0, 6.0))
        with spending.permit("network", "R1", delete=delete):
            self.service.call(seconds, delete)
        if rng.random() < 0.02:  # the service answers that there are too many requests
            pause, now = rng.uniform(2.0, 5.0), self.play.now
            spending.pause("network", "R1", pause)
            if not self.wire.lost:
                self.pauses.append((process, now, self.play.now, now + pause * 0.998))

    def _trouble(self) -> None:
        """Let processes crash and stand still. One that waits for the ledger's answer does not stand still."""
        rng, simulation = self._rng, self.play.simulation
        while not self._done:
            simulation.sleep(rng.uniform(1.0, 15.0))
            process, job = rng.choice(list(zip(self.processes, self._jobs, strict=True)))
            if job.over:
                continue
            if rng.random() < 0.3 and self.crashed < 2:
                self.crashed += 1
                self.service.lose(process, _PATIENCE)
                simulation.kill(process)
                self._start()
            elif process not in self.wire.waiting:
                process.frozen_until = simulation.now + rng.uniform(0.1, 2 * LEASE)
                self.service.lose(process, _PATIENCE)

    # -- what must hold
    def _broken(self) -> Iterator[str]:
        rules, slack = self.rules, self.wire.slowest + 0.003  # and what the clocks differ by
        if not self._done:
            yield "not all calls came to an end"
        if rules.calls and (what := too_many(self.service.times(), rules.calls, slack)):
            yield what
        if rules.deletes and (what := too_many(self.service.times(delete=True), rules.deletes, slack)):
            yield f"deletes: {what}"
        if rules.at_once and (most := self._most_at_once()) > rules.at_once:
            yield f"{most} calls at once, {rules.at_once} allowed"
        for process in self.processes:
            visits = [visit for visit in self.wire.visits if visit.ask.holder == process.name]
            for limited, delete in ((rules.calls, None), (rules.deletes, True)):
                times = self.service.times(delete, process)
                if limited and (what := without_turn(times, visits, bool(delete), 0.003)):
                    yield f"{process.name}: {what}"
        for process, told, written, until in self.pauses:
            for call in self.service.calls:
                # Each other process acquires from the ledger at least once a second, and then receives the pause.
                since = told if call.process is process else written + self.wire.slowest + _HEARD * 1.002
                if since < call.began < until:
                    at = f"{call.began:.3f}"
                    yield f"{call.process.name} calls at {at}, {process.name} was told to pause at {told:.3f}"

    def _most_at_once(self) -> int:
        edges = sorted(
            [(call.began, 1) for call in self.service.calls] + [(call.ends, -1) for call in self.service.calls]
        )
        count = most = 0
        for _, change in edges:
            count += change
            most = max(most, count)
        return most
