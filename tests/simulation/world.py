"""One run: the processes of the orchestrator, its users and its cloud, from a plan to its end."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import math
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cleanup_orchestrator import approval, metrics, opts, records, tables, transitions
from cleanup_orchestrator import clouds as clouds_module
from cleanup_orchestrator import engine as engine_module
from cleanup_orchestrator import hung as hung_module
from cleanup_orchestrator import log as log_module
from cleanup_orchestrator import store as storage
from cleanup_orchestrator import sweep as sweep_module
from cleanup_orchestrator import worker as worker_module
from cleanup_orchestrator.coverage import Coverage
from cleanup_orchestrator.drain import base as drain_base
from cleanup_orchestrator.drain import fence as drain_fence
from cleanup_orchestrator.drain.fence import Fence
from cleanup_orchestrator.drain.none import NoDrain
from cleanup_orchestrator.drain.revoke import Revoke
from cleanup_orchestrator.engine import Engine
from cleanup_orchestrator.model import (
    TASKS,
    Approval,
    Brake,
    Deletion,
    Event,
    Force,
    Kind,
    Lien,
    Mode,
    Reason,
    Status,
    Step,
    Waiver,
    accepted,
)
from cleanup_orchestrator.transitions import LIVE, By, IllegalMove
from cleanup_orchestrator.worker import Worker
from tests.simulation import database as database_module
from tests.simulation import scheduler
from tests.simulation.cloud import PROJECT, TYPES, Cloud
from tests.simulation.database import SimulatedStore, database
from tests.simulation.plan import FAULTS, Fault, Plan
from tests.simulation.promises import Promises
from tests.simulation.scheduler import Active, Process, Simulation
from tests.simulation.wire import SimulatedClouds, registry

#: (object, attribute, what is there instead).
Patch = tuple[Any, str, Any]

LEASE = 60
STALL_AFTER = 150
#: Effects after which a run is given up: then something is stuck, or never comes to its end.
LIMIT = 6_000

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
#: What also happens to users' requests: their process is not part of the play.
_ANYBODYS = frozenset({"store_fails", "store_lost", "drop", "twice", "late"})

#: The code by which a blocker of each kind is named.
_SAID = {
    "foreign": "foreign",
    "uncovered": "no_plugin",
    "protected": "protected",
    "ownerless": "owner_unknown",
    "broken": "error",
    "stuck": "in_use",
}
#: What admins do, each a request of its own.
_ASKED = frozenset({"cancel", "retry", "request", "protect", "unprotect", "brake", "unbrake", "force"})
#: The dry run whose plan a bound deletion goes by.
_PLAN = "plan"
_DRIVERS = {"fence": Fence, "revoke": Revoke, "none": NoDrain}


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What came of a run."""

    broken: str  #: the first promise that did not hold; empty: all held
    status: str  #: in which the deletion ended
    effects: int
    seconds: float  #: of simulated time
    passed: frozenset[Status]
    late: int  #: writes that were the allowed overlap
    faults: int  #: that happened
    trace: tuple[str, ...] = ()


class Bus:
    """A bag of messages. Who takes one gets any of those that have arrived."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._bags: dict[str, list[tuple[float, str]]] = {"engine": [], "worker": []}

    def deletion(self, deletion_id: str) -> None:
        self._cast("engine", deletion_id)

    def step(self, step_id: str) -> None:
        self._cast("worker", step_id)

    def _cast(self, part: str, id_: str) -> None:
        simulation = self._simulation
        fault = simulation.point("cast", f"{part} {id_}")
        kind = fault.kind if fault is not None else ""
        if kind == "drop":
            return
        delay = 120.0 * fault.size if kind == "late" else 0.05 * simulation.rng.random()
        self._bags[part].append((simulation.now + delay, id_))
        if kind == "twice":
            self._bags[part].append((simulation.now + 120.0 * fault.size, id_))

    def take(self, part: str) -> str:
        """Wait for a message."""
        simulation = self._simulation
        bag = self._bags[part]
        waiting = _Arrival(bag, simulation)
        while True:
            there = [entry for entry in bag if entry[0] <= simulation.now]
            if there:
                entry = there[int(simulation.rng.random() * len(there))]
                bag.remove(entry)
                return entry[1]
            simulation.wait(waiting, None)

    @property
    def empty(self) -> bool:
        return not any(self._bags.values())


class _Arrival(scheduler.Event):
    """Set when a message is there."""

    def __init__(self, bag: list[tuple[float, str]], simulation: Simulation) -> None:
        super().__init__()
        self._bag, self._simulation = bag, simulation

    def is_set(self) -> bool:
        return any(arrives <= self._simulation.now for arrives, _ in self._bag)

    def next_at(self) -> float:
        return min((arrives for arrives, _ in self._bag), default=math.inf)


class World:
    """Everything in one run."""

    def __init__(self, plan: Plan, tracing: bool = False) -> None:
        self.plan = plan
        self.simulation = Simulation(plan.seed, plan.stick, tracing)
        Active.simulation = self.simulation
        self.simulation.strike = self._strike
        self.database = database()
        self.cloud = Cloud(plan, self.simulation)
        self.promises = Promises(plan, self.simulation, self.cloud, self.database)
        self.database.clear(lambda *_: None)
        if plan.bound:
            self.promises.planned = self._plan()
        self.database.watch = self.promises.watched
        self.store = SimulatedStore(self.database)
        self.store.on_asked = self.promises.asked
        self.bus = Bus(self.simulation)
        self.conf = _conf(plan)
        self.registry = registry(plan.services)
        self.coverage = Coverage(self.conf, {s: TYPES[s] for s in plan.services})
        self._faults, self._deeds = list(plan.faults), list(plan.deeds)
        self.struck = 0
        self._busy = 0  #: threads that work on a message
        self._started = 0
        self._requests = self._liens = 0
        self.users = Process("users")
        self.user_cancelled = False

    def _plan(self) -> frozenset[str]:
        """Put the record of a dry run there, as of a time when not all was there that there is; return its ids."""
        things = sorted((t for t in self.cloud.left() if t.owner == PROJECT), key=lambda t: t.id)
        things = [t for n, t in enumerate(things) if (n + self.plan.seed) % 4]
        record = accepted(
            id=_PLAN, project_id=PROJECT, project_name="P", domain_id="dom", mode=Mode.CASCADE, dry_run=True
        )
        record = dataclasses.replace(record, status=Status.PLANNED)
        step = Step("step of the plan", _PLAN, Kind.SWEEP)
        with self.database.connection.begin():
            execute = self.database.connection.execute
            execute(tables.deletions.insert(), [records.deletion_values(record)])
            execute(tables.steps.insert(), [records.step_values(step)])
            for thing in things:
                service, type_ = thing.type.split(".")
                row = {"resource_id": thing.id, "name": "", "reason": Reason.PRESENT, "message": "", "blocked_by": []}
                row |= {
                    "deletion_id": _PLAN,
                    "step_id": step.id,
                    "region": thing.region,
                    "service": service,
                    "type": type_,
                }
                execute(tables.leftovers.insert(), [row])
        return frozenset(t.id for t in things)

    # -- what goes wrong, and what others do
    def _strike(self, kind: str, label: str) -> Fault | None:
        simulation = self.simulation
        while self._deeds and self._deeds[0].at <= simulation.effects:
            self._do(self._deeds.pop(0))
        for fault in self._faults:
            if fault.at > simulation.effects:
                break
            users = simulation.current.process is self.users
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

    def _do(self, deed: Any) -> None:
        simulation = self.simulation
        if deed.what in ("cancel", "retry", "force") and not self.promises.status:
            return
        if deed.what in _ASKED:
            simulation.spawn(self.users, deed.what, self._patiently(getattr(self, f"_{deed.what}")))
        elif deed.what == "stop":
            mine = [p for p in self._workers if p.alive]
            process = mine[int(deed.size * len(mine))] if mine else None
            if process is not None:
                self._stop(process)
        else:
            current, simulation.current = simulation.current, None
            done = self.cloud.deed(deed.what, deed.size)
            simulation.current = current
            simulation.note(f"deed: {deed.what}" + ("" if done else " (not possible)"))

    # -- users
    def _patiently(self, function: Callable[[], None]) -> Callable[[], None]:
        """Who gets an error asks again."""

        def ask() -> None:
            while True:
                try:
                    return function()
                except storage.sa_exc.OperationalError:
                    self.simulation.sleep(5.0)

        return ask

    def _request(self) -> None:
        plan = self.plan
        if self.promises.status and not self.cloud.exists:
            return  # the API answers 404
        self._requests += 1
        deletion = accepted(
            id=f"d{self._requests}",
            project_id=PROJECT,
            project_name="P",
            domain_id="dom",
            mode=plan.mode,
            dry_run=plan.dry_run,
            plan_id=_PLAN if plan.bound else "",
        )
        try:
            made = self.store.create(deletion, TASKS, Event("deletion.accepted", "a user asks"))
        except storage.AlreadyUnderWay as under_way:
            made = under_way.existing
        self.bus.deletion(made.id)

    def _cancel(self) -> None:
        self._move(Status.CANCELLING, "cancelling")

    def _retry(self) -> None:
        self._move(Status.ACCEPTED, "retried")

    def _protect(self) -> None:
        self._liens += 1
        self.store.add_lien(Lien(f"l{self._liens}", PROJECT, "billing", "an open invoice", self.store.now()))

    def _unprotect(self) -> None:
        for lien in self.store.liens_in_force([PROJECT]):
            self.store.remove_lien(lien.id, "admin")
        if self.promises.status:
            self.bus.deletion(self.latest)

    def _brake(self) -> None:
        self.store.set_brake(Brake(True, "something is wrong"))

    def _unbrake(self) -> None:
        self.store.set_brake(Brake(False))

    def _approve(self) -> None:
        """As the API does."""
        while True:
            d, steps, now = self.store.load(self.latest)
            asked = next((c for c in d.conditions if c.type == "approval" and c.status), None)
            if asked is None or d.status not in LIVE:
                return
            given = Approval(asked.reason, "it is well", now, approval.to_go(d, steps), user_id="second")
            after = dataclasses.replace(d, approvals=(*d.approvals, given), progress_at=now, wake_at=now)
            with contextlib.suppress(storage.Conflict):
                self.store.save(d, after, (), [Event("deletion.approved", "it is well")])
                break
        self.bus.deletion(self.latest)

    def _force(self) -> None:
        """As the API does."""
        for _ in range(5):
            d, steps, now = self.store.load(self.latest)
            if not transitions.forcible(d):
                return
            asked = Force("it has to go", tuple(self.registry.forcible()), now, d.attempt, d.round, "admin")
            after = dataclasses.replace(d, forced=asked, progress_at=now, wake_at=now)
            anew = [s for s in steps if s.abandoned or s.unseen or s.forcing]
            cleared = [dataclasses.replace(s, abandoned=0, unseen=False, forcing=False) for s in anew]
            with contextlib.suppress(storage.Conflict):
                self.store.save(d, after, cleared, [Event("deletion.forced", "it has to go")])
                break
        self.bus.deletion(self.latest)

    def _move(self, to: Status, verb: str) -> None:
        """As the API does."""
        for _ in range(5):
            deletion, _steps, now = self.store.load(self.latest)
            try:
                after = transitions.move(deletion, to, By.USER, now, verb)
            except IllegalMove:
                return
            try:
                self.store.save(deletion, after, (), [Event(f"deletion.{verb}", verb)])
            except storage.Conflict:
                continue
            except storage.AlreadyUnderWay:
                return
            break
        self.bus.deletion(self.latest)

    @property
    def latest(self) -> str:
        return self.promises.latest

    @property
    def status(self) -> Status:
        return self.promises.status[self.latest]

    # -- processes
    def start(self) -> None:
        self._workers: list[Process] = []
        for _ in range(self.plan.engines):
            self._start("engine")
        for _ in range(self.plan.workers):
            self._start("worker")

    def _start(self, part: str) -> None:
        self._started += 1
        rng = self.simulation.rng
        process = Process(f"{part}{self._started}", 1000.0 * rng.random(), 0.9 + 0.2 * rng.random())
        if part == "engine":
            engine = Engine(self.conf, process.name, self.store, self.bus)
            self.simulation.spawn(process, "casts", lambda: self._consume(process, part, engine.handle))
            self.simulation.spawn(process, "tick", lambda: engine.run_ticks(scheduler.Event()))
            return
        clouds = SimulatedClouds(self.cloud)
        worker = Worker(self.conf, process.name, self.store, clouds, self.registry, self.coverage, self.bus)
        process.worker = worker  # type: ignore[attr-defined]
        self._workers = [p for p in self._workers if p.alive] + [process]
        for n in range(self.plan.threads):
            self.simulation.spawn(process, f"t{n + 1}", lambda: self._consume(process, part, worker.handle))

    def _consume(self, process: Process, part: str, handle: Callable[[str], None]) -> None:
        while not getattr(process, "leaving", False):
            id_ = self.bus.take(part)
            self._busy += 1
            try:
                handle(id_)
            except Exception as error:  # as the dispatcher does: it logs, and takes the next
                self.simulation.note(f"{part} failed: {type(error).__name__}: {error}")
            finally:
                self._busy -= 1

    def _restart_later(self, process: Process, seconds: float) -> None:
        part = process.name.rstrip("0123456789")
        begin = self.simulation.now + seconds

        def start() -> None:
            while self.simulation.now < begin:
                self.simulation.sleep(begin - self.simulation.now)
            self._start(part)

        self.simulation.spawn(Process("init"), "start", start)

    def _stop(self, process: Process) -> None:
        """As a worker's process does at SIGTERM, when its time is over."""
        if getattr(process, "leaving", False):
            return
        process.leaving = True  # type: ignore[attr-defined]

        def stop() -> None:
            process.worker.hand_back(5.0)  # type: ignore[attr-defined]
            self._restart_later(process, 1.0)
            self.simulation.kill(process)

        self.simulation.note(f"SIGTERM for {process.name}")
        self.simulation.spawn(process, "stop", stop)

    # -- the run
    def run(self) -> Result:
        simulation = self.simulation
        try:
            self.start()
            simulation.spawn(self.users, "request", self._patiently(self._request))
            ended = self._go(lambda: bool(self.promises.status))
            ended = ended and self._go(self._chaos_over)
            self._calm()
            ended = ended and self._to_the_end()
            if not ended and not simulation.broken:
                simulation.fail(f"it does not come to its end: {self._why()}")
            if not simulation.broken:
                self._check_the_end()
        finally:
            simulation.close()
        return Result(
            simulation.broken,
            str(self.status) if self.promises.status else "",
            simulation.effects,
            simulation.now,
            frozenset(self.promises.passed),
            len(self.promises.late),
            self.struck,
            tuple(simulation.trace or ()),
        )

    def _go(self, over: Callable[[], bool]) -> bool:
        return self.simulation.run(over, LIMIT)

    def _chaos_over(self) -> bool:
        if self.simulation.effects > self.plan.chaos_over:
            return True
        if not self._quiet():
            return False
        if self._deeds:  # nothing is under way, so what somebody was going to do is done now
            self._do(self._deeds.pop(0))
        return not self._deeds

    def _quiet(self) -> bool:
        """Whether nothing is under way any more, and nothing will be by itself."""
        if any(status in LIVE for status in self.promises.status.values()) or self._busy or not self.bus.empty:
            return False
        return not any(t.process is self.users and not t.over for t in self.simulation.threads)

    def _calm(self) -> None:
        self.simulation.note("calm")
        self._faults.clear()
        self._deeds.clear()
        self.store.down_for = 0
        self.cloud.calm()

    def _to_the_end(self) -> bool:
        """From here on nothing goes wrong, so that there must be an end."""
        plan = self.plan
        self._go(self._nobody_asks)
        self._user("unprotect")
        self._user("unbrake")
        if self.cloud.obstacle:
            if not self._go_on(lambda: self._quiet() or self._stalled()):
                return False
            if not self._quiet():
                if plan.ending == "cancel":
                    self._user("cancel")
                elif plan.ending == "force" and transitions.forcible(self._record()):
                    self._user("force")
                else:
                    self._mend()
        if not self._go_on(self._quiet):
            return False
        if plan.ending == "retry" and self.status in transitions.RESTING and self.cloud.exists:
            self._mend()
            self.cloud.empty()
            self._user("retry")
            if not self._go(lambda: self.status in LIVE) or not self._go_on(self._quiet):
                return False
            if not plan.dry_run and self.status is not Status.DELETED:
                self.simulation.fail(f"retried with nothing left and nothing in the way, it is {self.status}")
        return True

    def _go_on(self, over: Callable[[], bool]) -> bool:
        """Go on until it is over; who is asked for an approval gives it."""
        while self._go(lambda: over() or self.promises.asking):
            if not self.promises.asking:
                return True
            self.promises.asking = False
            self._user("approve")
        return False

    def _mend(self) -> None:
        """Somebody removes what stands in the way, or says to go on without it."""
        self.cloud.mend()
        if self.cloud.obstacle == "uncovered":
            now = self.store.now()
            until = now + datetime.timedelta(days=90)
            self.store.add_waiver(Waiver("w", "dns", "there is none any more", now, until, user_id="admin"))

    def _user(self, what: str) -> None:
        self.simulation.note(f"a user comes: {what}")
        self.simulation.spawn(self.users, what, self._patiently(getattr(self, f"_{what}")))
        self._go(self._nobody_asks)

    def _nobody_asks(self) -> bool:
        return not any(t.process is self.users and not t.over for t in self.simulation.threads)

    def _record(self) -> Deletion:
        return self.store.get(self.latest)

    def _stalled(self) -> bool:
        """Whether it says that it is stuck, and by what. (At first it may still name what went wrong before.)"""
        if not self.promises.stalled:
            return False
        said = next((c for c in self._record().conditions if c.type == "stalled" and c.status), None)
        return said is not None and _SAID[self.cloud.obstacle] in said.message

    def _check_the_end(self) -> None:
        self.promises.at_the_end()
        allowed = {Status.CANCELLED}
        if self.plan.dry_run:
            allowed |= {Status.PLANNED}
        elif self.plan.mode.value == "cascade":
            newcomers = self.cloud.gone_by_others or self.plan.bound
            allowed |= {Status.DELETED} | ({Status.LEFTOVERS} if newcomers else set())
        else:
            allowed |= {Status.DELETED, Status.LEFTOVERS, Status.FAILED}
        for deletion_id, status in self.promises.status.items():
            if status not in allowed:
                self.simulation.fail(f"deletion {deletion_id} ends as {status}")
        if Status.CANCELLED in self.promises.status.values() and Status.CANCELLING not in self.promises.passed:
            self.simulation.fail("cancelled, and nobody asked for it")

    def _why(self) -> str:
        deletion, steps, now = self.store.load(self.latest)
        open_ = [f"{s.name}:{s.state}:{s.reason}" for s in steps if s.state != "done" or s.outcome == "unknown"]
        waits = (deletion.wake_at - now).total_seconds()
        return (
            f"{deletion.status} {deletion.purpose} round {deletion.round}, wakes in {waits:.0f} s, {', '.join(open_)}"
        )


def _conf(plan: Plan) -> Any:
    """Configuration as the modules read it: the defaults, and what the plan says."""
    mine = {
        "drain": {
            "driver": plan.driver,
            "token_cache_time": plan.settle,
            "inherited_grants": "block" if plan.block else "close",
        },
        "engine": {"stall_after": STALL_AFTER, "tick": 10.0, "retry_cap": 30.0},
        "worker": {"parallel_deletes": plan.parallel, "lease": LEASE},
        "deletion": {"recovery_window": plan.window / 86400},
        "approval": {"resources": plan.limit},
        "catalog": {"owns_nothing": [] if "identity" in plan.services else ["identity"]},
    }
    groups = {name: {o.dest: o.default for o in options} for name, options in opts._declared().items()}
    return types.SimpleNamespace(
        **{name: types.SimpleNamespace(**values | mine.get(name, {})) for name, values in groups.items()}
    )


def _patches() -> Iterator[tuple[Any, str, Any]]:
    yield from database_module.patches()
    for module in (worker_module, sweep_module, drain_base, drain_fence, clouds_module, hung_module):
        yield module, "time", scheduler.Time
    yield hung_module, "threading", scheduler.Threading
    yield sweep_module, "concurrent", scheduler.Concurrent
    yield worker_module, "Budget", lambda *_: None
    yield drain_base, "PROBES", 1
    yield drain_fence, "PROBES", 1
    yield worker_module.drain_drivers, "load", lambda name: _DRIVERS[name]()
    yield log_module, "context", lambda *_, **__: contextlib.nullcontext()
    quiet = types.SimpleNamespace(**{n: lambda *_: None for n in ("debug", "info", "warning", "error", "exception")})
    for module in (worker_module, engine_module, drain_base):
        yield module, "LOG", quiet
    yield metrics, "step_ended", lambda *_: None


@contextlib.contextmanager
def simulated(also: Iterable[Patch] = ()) -> Iterator[None]:
    """Put the simulation in the place of clocks, threads and waits.

    :param also: what else is replaced: a deliberate breakage
    """
    before = []
    try:
        for owner, name, value in (*_patches(), *also):
            before.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


def run(plan: Plan, tracing: bool = False, also: Iterable[Patch] = ()) -> Result:
    """Run a plan; see :func:`simulated`."""
    with simulated(also):
        return World(plan, tracing).run()
