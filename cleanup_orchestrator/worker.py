"""The worker: takes one step at a time under a lease, does it, saves the result, announces it."""

from __future__ import annotations

import collections
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from keystoneauth1 import exceptions as ka_exceptions
from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator import drain as drain_drivers
from cleanup_orchestrator import log as our_log
from cleanup_orchestrator import metrics, work
from cleanup_orchestrator import sweep as sweeping
from cleanup_orchestrator.budget import Budget
from cleanup_orchestrator.clouds import Clouds, GuardedSession, read_only
from cleanup_orchestrator.coverage import Coverage
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import Stopped, classify
from cleanup_orchestrator.model import Change, Deletion, Event, Kind, Outcome, Purpose, Reason, Step, Sweep, Token
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource
from cleanup_orchestrator.plugins.registry import Registry
from cleanup_orchestrator.projects import Project, ProjectNotFound, Projects, Protection
from cleanup_orchestrator.rpc import Bus
from cleanup_orchestrator.store import Store
from cleanup_orchestrator.survey import survey

LOG = log.getLogger(__name__)

OPTS = {
    "worker": [
        cfg.IntOpt("threads", default=8, min=1, help="Steps that one worker process works on at once."),
        cfg.IntOpt("parallel_deletes", default=4, min=1, mutable=True, help="Delete calls at once within one step."),
        cfg.IntOpt(
            "lease",
            default=60,
            min=5,
            help="Seconds for which a worker owns a step without a sign of life. After a crash the step is taken "
            "up again when they are over.",
        ),
        cfg.FloatOpt(
            "slice",
            default=60.0,
            min=1.0,
            mutable=True,
            help="Seconds after which a sweep that deletes much begins no further delete. What is left goes to the end "
            "of the queue, so that a big project does not keep small ones waiting.",
        ),
    ]
}

#: What the record forgets when its lock turns out to be open again.
_REOPENED: dict[str, Any] = {"closed_at": None, "drained_at": None, "empty_inventories": 0}

#: What is done to the project itself, and cannot be where it is gone.
_ON_THE_PROJECT = frozenset({Kind.ACCESS, Kind.DRAIN, Kind.CLOSE})

#: Ids in one journal line.
_CHUNK = 100


class Worker:
    """Everything that a worker needs, wired once."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        name: str,
        store: Store,
        clouds: Clouds,
        registry: Registry,
        coverage: Coverage,
        bus: Bus,
    ) -> None:
        self.conf, self.name = conf, name
        self.budget = Budget(conf, store, metrics.waited)
        self.store, self.clouds = store, clouds.within(self.budget)
        self.registry, self.coverage, self.bus = registry, coverage, bus
        self._driver: drain.Driver | None = None
        self._tasks: set[_Task] = set()  #: under way in this process
        self._refusing = self._halting = False

    @property
    def protection(self) -> Protection:
        """Which projects are never deleted, as the configuration has it now."""
        return Protection(tuple(self.conf.deletion.never_delete_projects), self.clouds.project_id)

    def refuse(self) -> None:
        """Take no further step: a cast that still arrives is passed on to another worker."""
        self._refusing = True

    def hand_back(self, patience: float) -> None:
        """Give every step that is under way back to the queue: the process ends. Its writes are withheld from now on.

        A write call that is under way may still take effect; whoever takes its step meanwhile, or cancels, could be
        overtaken by it. It is waited for, and if it does not end, the step stays ours until its lease runs out.

        :param patience: seconds in which such calls may end
        """
        self.refuse()
        self._halting = True
        deadline = time.monotonic() + patience
        for task in tuple(self._tasks):
            task.stopping = True
        while waiting := [task for task in tuple(self._tasks) if not task.hand_back()]:
            if time.monotonic() >= deadline:
                names = ", ".join(f"{task.step.name} ({task.step.id})" for task in waiting)
                LOG.warning("a write call does not end: left until the lease runs out: %s", names)
                return
            time.sleep(0.05)

    def handle(self, step_id: str) -> None:
        """Take a step, if it is still there to be taken, and see it through."""
        if self._refusing:
            self.bus.step(step_id)
            return
        lease = float(self.conf.worker.lease)
        claimed = self.store.claim(step_id, self.name, lease)
        if claimed is None:
            LOG.debug("step %s is not there to be taken", step_id)
            return
        deletion, step = claimed
        task = _Task(self, deletion, step)
        self._tasks.add(task)
        task.stopping = self._halting  # taken at the very moment in which the others were told
        try:
            with (
                our_log.context(
                    deletion_id=deletion.id, project_id=deletion.project_id, request_id=deletion.request_id
                ),
                work.on(f"{step.name}@{step.region or '-'}", deletion.id, deletion.project_id, step.id),
                _Lease(self.store, step, lease),
            ):
                try:
                    task.run()
                except Exception:
                    LOG.exception("step %s (%s) could not save its result", step.name, step.id)
                    return
        finally:
            self._tasks.discard(task)
        self.bus.deletion(deletion.id)

    @property
    def driver(self) -> drain.Driver:
        """The drain driver that the operator chose."""
        if self._driver is None:
            self._driver = drain_drivers.load(self.conf.drain.driver)
        return self._driver


class _Lease:
    """Renews a step's lease in the background while it is worked on."""

    def __init__(self, store: Store, step: Step, seconds: float) -> None:
        self._store, self._step, self._seconds = store, step, seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lease-{step.id}", daemon=True)

    def _run(self) -> None:
        while not self._over.wait(self._seconds / 3):
            try:
                if not self._store.renew(self._step, self._seconds):
                    return
            except Exception as error:
                LOG.warning("the lease of step %s could not be renewed: %s", self._step.id, error)

    def __enter__(self) -> _Lease:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._thread.join()


class _Task:
    """One claimed step."""

    def __init__(self, worker: Worker, deletion: Deletion, step: Step) -> None:
        self.worker, self.deletion, self.step = worker, deletion, step
        self.store, self.clouds = worker.store, worker.clouds
        self.sessions: list[GuardedSession] = []
        self.yielded: list[Change] = []  #: recorded changes that somebody else undid meanwhile
        self.stopping = False  #: the process ends: no further write, and whatever comes out is done anew by another
        self._given_back = False

    def hand_back(self) -> bool:
        """Give the step back, unless a write call of its is under way; return whether it is off our hands."""
        if any(session.writing for session in tuple(self.sessions)):
            return False
        where = f"{self.step.name}@{self.step.region or '-'}"
        try:
            if not self._given_back and self.store.give_back(self.step):
                LOG.info("%s: handed back", where)
                metrics.STEPS.labels(str(self.step.kind), "handed_back").inc()
                self.worker.bus.step(self.step.id)
        except Exception as error:
            LOG.warning("%s: not handed back, it is taken up when its lease runs out: %s", where, error)
        self._given_back = True
        return True

    # -- the guard of every write call
    def guard(self, method: str, url: str) -> None:
        """Let a write call pass only while the step is ours and its deletion wants it."""
        if self.stopping:
            raise Stopped(f"{method} withheld: this worker is being stopped, another one goes on with {self.step.name}")
        if self.deletion.dry_run:
            read_only(method, url)
        if not self.store.may_write(self.step):
            raise Stopped(
                f"{method} withheld: the deletion was cancelled, or step {self.step.name} is not ours any more"
            )

    def _admin(self, writing: bool) -> GuardedSession:
        session = self.clouds.admin_session(self.guard if writing else read_only)
        self.sessions.append(session)
        return session

    def run(self) -> None:
        """Do it and save what came out; an error is a result too."""
        actions: dict[Kind, Callable[[], tuple[Sweep, dict[str, Any]]]] = {
            Kind.SURVEY: self._survey,
            Kind.ACCESS: self._access,
            Kind.DRAIN: self._drain,
            Kind.SWEEP: self._sweep,
            Kind.CLOSE: self._close,
            Kind.RELEASE: self._release,
            Kind.REMOVE: self._remove,
        }
        values: dict[str, Any] = {}
        began = time.monotonic()
        try:
            result, values = actions[self.step.kind]()
        except Exception as error:
            failure = classify(error)
            LOG.warning("%s@%s: %s: %s", self.step.name, self.step.region or "-", failure.reason, failure.message)
            result = Sweep(Outcome.UNKNOWN, str(failure.reason), failure.message)
            if self.step.kind in _ON_THE_PROJECT and self._gone():
                values = {"project_gone_at": self.store.now()}
        if result.reason == Reason.UNREACHABLE:
            self.clouds.forget(self.deletion.project_id)  # the next try sees a catalog that was mended meanwhile
        result = dataclasses.replace(result, calls=sum(s.calls for s in self.sessions))
        where = f"{self.step.name}@{self.step.region or '-'}"
        if self.stopping:  # what was withheld made it look like a failure
            self.hand_back()
            return
        if not self.store.finish(self.step, result, self._events(result), self.yielded, **values):
            LOG.warning("%s: not ours any more, its result is dropped", where)
            metrics.step_ended(self.step, "dropped", time.monotonic() - began)
            return
        metrics.step_ended(self.step, str(result.outcome), time.monotonic() - began)
        gone, left, outcome = len(result.deleted), len(result.leftovers), result.outcome
        LOG.info("%s: %s, %d found, %d gone, %d left, %d calls", where, outcome, result.found, gone, left, result.calls)

    def _events(self, result: Sweep) -> list[Event]:
        where = {"region": self.step.region, "service": self.step.service, "type": self.step.type}
        events = [
            Event(
                "resource.deleted",
                f"{self.step.name}: {len(chunk)} gone",
                self.worker.name,
                {**where, "resources": [{"id": i, "name": n} for i, n in chunk]},
            )
            for chunk in _chunks(result.deleted)
        ]
        events += [
            Event("drain.yielded", f"somebody else undid it: {drain.describe(c)}", self.worker.name, {"type": c.type})
            for c in self.yielded
        ]
        changed = (str(result.outcome), result.reason) != (str(self.step.outcome), self.step.reason)
        if self.step.kind is not Kind.SWEEP:
            text = f"{self.step.kind}: {result.message or result.outcome}"
            events.append(Event(f"step.{self.step.kind}", text, self.worker.name, {"outcome": str(result.outcome)}))
        elif result.outcome is not Outcome.CLEAR and changed:
            reasons = collections.Counter(str(leftover.reason) for leftover in result.leftovers)
            left = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
            text = f"{self.step.name}: " + (left or f"unknown: {result.message}")
            data = {**where, "outcome": str(result.outcome), "reason": result.reason}
            events.append(Event(f"sweep.{result.outcome}", text, self.worker.name, data))
        return events

    # -- what each kind does
    def _survey(self) -> tuple[Sweep, dict[str, Any]]:
        identity = self.clouds.identity(self._admin(writing=False))
        found = survey(self.deletion, identity, self.worker.registry, self.worker.coverage, self.worker.protection)
        if not found.steps:
            return found.sweep, {}
        if not self.store.put_steps(self.step, found.steps, found.catalog):
            raise Stopped("the survey is not ours any more")
        if found.project is None:
            return found.sweep, {"project_gone_at": self.deletion.project_gone_at or self.store.now()}
        values: dict[str, Any] = {"project_name": found.project.name, "domain_id": found.project.domain_id}
        values["member_ids"] = found.member_ids
        if self.deletion.project_gone_at is not None:
            message = "Keystone knows the project again: what was concluded without it is void"
            values |= _REOPENED | {"project_gone_at": None}
            return dataclasses.replace(found.sweep, message=message), values
        self._yield(found.project)
        if self._reopened(found.project):
            return dataclasses.replace(found.sweep, message="somebody opened the project again"), values | _REOPENED
        return found.sweep, values

    def _reopened(self, project: Project) -> bool:
        """Whether the lock that the record has is not there any more: then nothing is proven that rests on it."""
        if self.deletion.closed_at is not None:
            return project.enabled
        return self.deletion.drained_at is not None and not self.worker.driver.held(self._ground())

    def _yield(self, project: Project) -> None:
        """Note which recorded changes somebody else undid: should they do them again, that is none of our business."""
        if changes := self.store.changes(self.deletion.id):
            projects = Projects(self.clouds.identity(self._admin(writing=False)))
            closed = self.deletion.closed_at is not None
            self.yielded = drain.undone_by_others(projects, project, changes, closed)

    def _gone(self) -> bool:
        """Whether a failure is no wonder: somebody deleted the project."""
        try:
            Projects(self.clouds.identity(self._admin(writing=False))).get(self.deletion.project_id)
        except ProjectNotFound:
            return True
        except Exception as error:  # then we know no more than before
            LOG.debug("project %s could not be read: %s", self.deletion.project_id, error)
        return False

    def _ground(self) -> drain.Ground:
        def intend(type_: str, data: Any) -> None:
            if self.store.intend(self.step, type_, data) is None:
                raise Stopped(f"step {self.step.name} is not ours any more")

        session = self._admin(writing=True)
        return drain.Ground(
            self.deletion.id,
            self.deletion.project_id,
            self.clouds.user_id(),
            self.clouds,
            Projects(self.clouds.identity(session)),
            self.guard,
            intend,
        )

    def _access(self) -> tuple[Sweep, dict[str, Any]]:
        return _done(drain.ensure_access(self._ground(), self.worker.conf.drain.project_role)), {}

    def _drain(self) -> tuple[Sweep, dict[str, Any]]:
        result = self.worker.driver.drain(self._ground())
        if result.reason == Reason.INHERITED_GRANTS and self.worker.conf.drain.inherited_grants == "block":
            return Sweep(Outcome.UNKNOWN, result.reason, result.message), {}
        return _done(result), {}

    def _close(self) -> tuple[Sweep, dict[str, Any]]:
        return _done(self.worker.driver.close(self._ground())), {}

    def _release(self) -> tuple[Sweep, dict[str, Any]]:
        projects = Projects(self.clouds.identity(self._admin(writing=True)))
        count = release(self.store, projects, self.deletion.id, self.deletion.project_id, self.worker.name)
        return Sweep(Outcome.CLEAR, message=f"{count} changes undone"), {}

    def _remove(self) -> tuple[Sweep, dict[str, Any]]:
        projects = Projects(self.clouds.identity(self._admin(writing=True)))
        try:
            # Not as a cache has it: who enabled it a moment ago may have made something in it.
            project = projects.get_uncached(self.deletion.project_id)
            if project.enabled:
                self._yield(project)
                # All looks since the closing are void: out of the residue round, close it and look again.
                text = "somebody enabled the project again: it is closed and proven empty anew"
                return Sweep(Outcome.UNKNOWN, str(Reason.STOPPED), text), {**_REOPENED, "purpose": str(Purpose.NONE)}
            projects.delete(self.deletion.project_id, self.deletion.id)
        except ProjectNotFound:
            pass
        except ka_exceptions.Forbidden as error:
            reason = Reason.FORBIDDEN
            project = projects.get(self.deletion.project_id)
            if project.immutable:
                reason = Reason.PROJECT_IMMUTABLE
            elif projects.children(project.id):
                reason = Reason.PROJECT_HAS_CHILDREN
            return Sweep(Outcome.UNKNOWN, str(reason), classify(error).message), {}
        try:
            projects.get(self.deletion.project_id)
        except ProjectNotFound:
            for change in self.store.changes(self.deletion.id):  # they went with the project
                event = Event("drain.undone", f"{change.type}: gone with the project", self.worker.name)
                self.store.undone(change, event)
            return Sweep(Outcome.CLEAR, message="Keystone does not know the project any more"), {}
        return Sweep(Outcome.UNKNOWN, str(Reason.ERROR), "Keystone accepted the delete and still knows the project"), {}

    def _sweep(self) -> tuple[Sweep, dict[str, Any]]:
        type_ = self.worker.registry.find(self.step.service, self.step.type)
        deleting = self.deletion.purpose in (Purpose.DELETE, Purpose.RESIDUE) and not self.deletion.dry_run
        guard = self.guard if deleting else read_only
        if self.step.token is Token.PROJECT:
            session = self.clouds.project_session(self.deletion.project_id, guard)
        else:
            session = self.clouds.admin_session(guard)
        self.sessions.append(session)
        project = ProjectDefinition(
            id=self.deletion.project_id,
            name=self.deletion.project_name,
            domain_id=self.deletion.domain_id,
            region=self.step.region,
            member_ids=self.deletion.member_ids,
            options=self.worker.registry.options(self.worker.conf, self.step.service),
        )
        connection = self.clouds.connection(session, self.step.region)
        if not deleting:
            return sweeping.look(type_, connection, project), {}
        options = self.worker.conf.worker
        # Residue is little, and at the point of no return nothing is put off.
        seconds = options.slice if self.deletion.purpose is Purpose.DELETE else math.inf
        result = sweeping.delete(
            type_, connection, project, self._intend, options.parallel_deletes, seconds, self.step.attempt
        )
        return result, {}

    def _intend(self, resources: Sequence[Resource]) -> None:
        where = {"region": self.step.region, "service": self.step.service, "type": self.step.type}
        data = {**where, "resources": [{"id": r.id, "name": r.name} for r in resources]}
        text = f"{self.step.name}: going to delete {len(resources)}"
        self.store.journal(self.deletion.id, Event("resource.deleting", text, self.worker.name, data))


def release(store: Store, projects: Projects, deletion_id: str, project_id: str, actor: str) -> int:
    """Undo what is recorded, the latest first, and return how many changes that were.

    One that cannot be undone holds up none of the others: they are what locks the users out. Its error is raised last.
    """
    changes = store.changes(deletion_id)
    failed: list[Exception] = []
    for change in reversed(changes):
        try:
            text = drain.undo(projects, project_id, change)
        except Stopped:
            raise
        except Exception as error:
            failed.append(error)
            continue
        store.undone(change, Event("drain.undone", text, actor, {"type": change.type}))
    if failed:
        raise failed[0]
    return len(changes)


def _done(result: drain.Result) -> Sweep:
    return Sweep(Outcome.CLEAR, result.reason, result.message)


def _chunks(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[i : i + _CHUNK] for i in range(0, len(items), _CHUNK)]
