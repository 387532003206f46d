"""One run: the processes of the orchestrator, its users and its cloud, from a plan to its end."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable
from typing import Any

from cleanup_orchestrator.cloud.catalog import ServiceCatalog
from cleanup_orchestrator.core.deletion import Status, accepted
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Step, StepKind
from cleanup_orchestrator.engine.deletions import Engine
from cleanup_orchestrator.engine.keystone_listener import Listener
from cleanup_orchestrator.store import records, tables
from cleanup_orchestrator.worker.context import WorkerContext
from cleanup_orchestrator.worker.worker import Worker
from tests.simulation.bus import Bus
from tests.simulation.cloud import TYPES, Cloud
from tests.simulation.database import SimulatedStore, database
from tests.simulation.ending import Ending
from tests.simulation.keystone import PROJECT, Hole
from tests.simulation.others import Others
from tests.simulation.plan import FAULTS, Fault, Plan
from tests.simulation.promises import Promises
from tests.simulation.setting import LEASE, Patch, conf, probing, simulated
from tests.simulation.users import ASKED, PLAN, Users, selection
from tests.simulation.wire import SimulatedClouds, registry
from tests.support import scheduler
from tests.support.scheduler import Active, Process, Simulation

#: Which effect each kind of fault can happen at.
_STRIKES = {
    "crash": ("store", "read", "write", "cast"),
    "freeze": ("store", "read", "write", "cast"),
    "refuse": ("read", "write"),
    "cut": ("read", "write"),
    "hang": ("read", "write"),
    "lost": ("write",),
    "slow": ("write",),
    "outage": ("read", "write"),
    "store_fails": ("store",),
    "store_lost": ("store",),
    "store_down": ("store",),
    "drop": ("cast",),
    "twice": ("cast",),
    "late": ("cast",),
}
assert set(_STRIKES) == set(FAULTS)
#: Faults that also happen to requests of users, whose process is never killed.
_ANYBODYS = frozenset({"store_fails", "store_lost", "drop", "twice", "late"})


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """The result of a run."""

    broken: str  #: the first promise that did not hold; empty: all held
    status: str  #: in which the deletion of the top project ended
    effects: int
    seconds: float  #: of simulated time
    passed: frozenset[Status]
    late: int  #: writes that were the allowed overlap
    faults: int  #: that happened
    trace: tuple[str, ...] = ()


class World:
    """Everything in one run."""

    def __init__(self, plan: Plan, tracing: bool = False) -> None:
        self.plan = plan
        self.simulation = Simulation(plan.seed, plan.stick, tracing)
        Active.simulation = self.simulation
        self.simulation.strike = self._strike
        self.database = database()
        self.cloud = Cloud(plan, self.simulation)
        self.others = Others(self.cloud, self.simulation)
        self.promises = Promises(plan, self.simulation, self.cloud, self.database)
        self.database.clear(lambda *_: None)
        if plan.bound:
            self.promises.planned = self._plan()
        self.database.watch = self.promises.watched
        self.store = SimulatedStore(self.database)
        self.store.on_asked = self.promises.asked
        self.bus = Bus(self.simulation)
        self.conf = conf(plan)
        self.registry = registry(plan.services, plan.janitor)
        self.catalog = ServiceCatalog(self.conf, {s: TYPES[s] for s in plan.services})
        self._faults, self.deeds = list(plan.faults), list(plan.deeds)
        self.struck = 0
        self._told: list[Hole | None] = []  #: what each notification of Keystone tells of
        if plan.listening:
            self.cloud.keystone.notify = self._notify
        self.busy = 0  #: threads that work on a message
        self._started = 0
        self._workers: list[Process] = []
        self.users = Users(self)

    def _plan(self) -> frozenset[str]:
        """Record a dry run from a time at which not all resources existed; return its ids."""
        things = sorted((t for t in self.cloud.left(PROJECT) if t.owner == PROJECT), key=lambda t: t.id)
        things = [t for n, t in enumerate(things) if (n + self.plan.seed) % 4 and self.cloud.selects(t)]
        record = accepted(
            id=PLAN, project_id=PROJECT, project_name="P", domain_id="dom", mode=self.plan.mode, dry_run=True
        )
        record = dataclasses.replace(record, status=Status.PLANNED, selection=selection(self.plan))
        step = Step("step of the plan", PLAN, StepKind.SWEEP)
        with self.database.transaction() as connection:
            execute = connection.execute
            execute(tables.deletions.insert(), [records.deletion_values(record)])
            execute(tables.steps.insert(), [records.step_values(step)])
            for thing in things:
                service, type_ = thing.type.split(".")
                row = {"resource_id": thing.id, "name": "", "reason": Reason.PRESENT, "message": "", "blocked_by": []}
                row |= {"abandoned": False, "owner": "", "remedy": "", "announced": False}
                row |= {"deletion_id": PLAN, "step_id": step.id, "region": thing.region}
                row |= {"service": service, "type": type_}
                execute(tables.leftovers.insert(), [row])
        return frozenset(t.id for t in things)

    # -- faults, and acts of others
    def _strike(self, kind: str, label: str) -> Fault | None:
        simulation = self.simulation
        while self.deeds and self.deeds[0].at <= simulation.effects:
            self.do(self.deeds.pop(0))
        for fault in self._faults:
            if fault.at > simulation.effects:
                break
            users = simulation.current.process is self.users.process
            if kind in _STRIKES[fault.kind] and (not users or fault.kind in _ANYBODYS):
                self._faults.remove(fault)
                self.struck += 1
                return self._happen(fault, f"{kind} {label}")
        return None

    def _happen(self, fault: Fault, where: str) -> Fault | None:
        simulation = self.simulation
        process = simulation.current.process
        if fault.kind == "crash":
            simulation.note(f"CRASH before {where}")
            self._restart_later(process, 90.0 * fault.size)
            simulation.kill(process)
        if fault.kind == "freeze":
            simulation.note(f"FREEZE before {where}")
            process.frozen_until = simulation.now + 4 * LEASE * fault.size
            return None
        return fault

    def do(self, deed: Any) -> None:
        """Carry out a deed of others."""
        simulation = self.simulation
        if deed.what in ASKED:
            self.users.ask(deed.what, deed.size)
        elif deed.what == "stop":
            alive = [p for p in self._workers if p.alive]
            if alive:
                self._stop(alive[int(deed.size * len(alive))])
        else:
            current, simulation.current = simulation.current, None
            done = self.others.deed(deed.what, deed.size)
            simulation.current = current
            simulation.note(f"deed: {deed.what}" + ("" if done else " (not possible)"))

    # -- processes
    def start(self) -> None:
        for _ in range(self.plan.engines):
            self._start("engine")
        for _ in range(self.plan.workers):
            self._start("worker")

    def _start(self, part: str) -> None:
        self._started += 1
        rng = self.simulation.rng
        process = Process(f"{part}{self._started}", 1000.0 * rng.random(), 0.9 + 0.2 * rng.random())
        spawn = self.simulation.spawn
        if part == "engine":
            engine = Engine(self.conf, process.name, self.store, self.bus)
            listener = Listener(self.store, SimulatedClouds(self.cloud), self.bus)  # type: ignore[arg-type]
            heard = functools.partial(self._heard, listener)
            handle = {"decide": engine.handle, "notification": heard}
            spawn(process, "casts", lambda: self._consume(process, part, handle))
            spawn(process, "tick", lambda: engine.run_ticks(scheduler.Event()))
            return
        clouds = SimulatedClouds(self.cloud)
        context = WorkerContext(self.conf, process.name, self.store, clouds, self.registry, self.catalog, self.bus)
        worker = Worker(context)
        process.worker = worker  # type: ignore[attr-defined]
        self.bus.worker = worker
        self._workers = [p for p in self._workers if p.alive] + [process]
        handle = {"steps": worker.handle}
        for n in range(self.plan.threads):
            spawn(process, f"t{n + 1}", lambda: self._consume(process, part, handle))

    def _consume(self, process: Process, part: str, handle: dict[str, Callable[..., None]]) -> None:
        while not getattr(process, "leaving", False):
            method, ids = self.bus.take(part)
            self.busy += 1
            try:
                handle[method](*ids)
            except Exception as error:  # as the dispatcher does: it logs, and takes the next
                self.simulation.note(f"{part} failed: {type(error).__name__}: {error}")
            finally:
                self.busy -= 1

    def _heard(self, listener: Listener, event: str, text: str, number: str) -> None:
        """Handle a notification of Keystone; it comes again if that is not possible now."""
        hole = self._told[int(number)]
        if listener.info({}, "identity.host", event, json.loads(text), {}) is not None:
            self.bus.notification(event, text, number)
        elif hole is not None and Status.DRAINING not in self.promises.status.values():
            hole.heard()  # before the lock is on record, an engine makes nothing of it

    def _notify(self, event: str, payload: dict[str, Any], hole: Hole | None) -> None:
        self._told.append(hole)
        if hole is not None:
            hole.told += 1
        self.bus.notification(event, json.dumps(payload), str(len(self._told) - 1))

    def _restart_later(self, process: Process, seconds: float) -> None:
        part = process.name.rstrip("0123456789")
        begin = self.simulation.now + seconds

        def start() -> None:
            while self.simulation.now < begin:
                self.simulation.sleep(begin - self.simulation.now)
            self._start(part)

        self.simulation.spawn(Process("init"), "start", start)

    def _stop(self, process: Process) -> None:
        """Do what the process of a worker does when its time after SIGTERM is over."""
        if getattr(process, "leaving", False):
            return
        process.leaving = True  # type: ignore[attr-defined]

        def stop() -> None:
            process.worker.refuse()  # type: ignore[attr-defined]
            process.worker.release_claims(5.0)  # type: ignore[attr-defined]
            self._restart_later(process, 1.0)
            self.simulation.kill(process)

        self.simulation.note(f"SIGTERM for {process.name}")
        self.simulation.spawn(process, "stop", stop)

    # -- the run
    def run(self) -> Result:
        simulation = self.simulation
        try:
            self.start()
            self.users.ask("request")
            ending = Ending(self)
            ended = ending.chaos()
            simulation.note("calm")
            self._faults.clear()
            self.deeds.clear()
            self.store.simulated.down_for = 0
            self.cloud.calm()
            self.others.calm()
            ended = ended and ending.reached()
            if not ended and not simulation.broken:
                simulation.fail(f"it does not come to its end: {ending.why()}")
            if not simulation.broken:
                self.promises.at_the_end()
                ending.check()
        finally:
            simulation.close()
        top = self.promises.latest()
        return Result(
            simulation.broken,
            str(self.promises.status[top]) if top else "",
            simulation.effects,
            simulation.now,
            frozenset(self.promises.passed),
            len(self.promises.late),
            self.struck,
            tuple(simulation.trace or ()),
        )


def run(plan: Plan, tracing: bool = False, also: Iterable[Patch] = ()) -> Result:
    """Run a plan; see :func:`tests.simulation.setting.simulated`."""
    with simulated((*probing(plan), *also)):
        return World(plan, tracing).run()
