"""The worker: takes one step at a time under a lease, does it, saves the result, announces it."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

from keystoneauth1 import exceptions as ka_exceptions
from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator import drain as drain_drivers
from cleanup_orchestrator import log as our_log
from cleanup_orchestrator import sweep as sweeping
from cleanup_orchestrator.clouds import Clouds, GuardedSession, read_only
from cleanup_orchestrator.coverage import Coverage
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import Stopped, classify
from cleanup_orchestrator.model import Deletion, Event, Kind, Outcome, Purpose, Reason, Step, Sweep, Token
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
        cfg.IntOpt("parallel_deletes", default=4, min=1, help="Delete calls at once within one step."),
        cfg.IntOpt(
            "lease",
            default=60,
            min=5,
            help="Seconds for which a worker owns a step without a sign of life. After a crash the step is taken "
            "up again when they are over.",
        ),
    ]
}

#: What the record forgets when its lock turns out to be open again.
_REOPENED: dict[str, Any] = {"closed_at": None, "drained_at": None, "empty_inventories": 0}

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
        self.store, self.clouds, self.registry, self.coverage, self.bus = store, clouds, registry, coverage, bus
        self.protection = Protection(tuple(conf.deletion.never_delete_projects), clouds.project_id)
        self._driver: drain.Driver | None = None

    def handle(self, step_id: str) -> None:
        """Take a step, if it is still there to be taken, and see it through."""
        lease = float(self.conf.worker.lease)
        claimed = self.store.claim(step_id, self.name, lease)
        if claimed is None:
            LOG.debug("step %s is not there to be taken", step_id)
            return
        deletion, step = claimed
        with (
            our_log.context(deletion_id=deletion.id, project_id=deletion.project_id, request_id=deletion.request_id),
            _Lease(self.store, step, lease),
        ):
            try:
                _Task(self, deletion, step).run()
            except Exception:
                LOG.exception("step %s (%s) could not save its result", step.name, step.id)
                return
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

    # -- the guard of every write call
    def guard(self, method: str, url: str) -> None:
        """Let a write call pass only while the step is ours and its deletion wants it."""
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
        try:
            result, values = actions[self.step.kind]()
        except Exception as error:
            failure = classify(error)
            LOG.warning("%s@%s: %s: %s", self.step.name, self.step.region or "-", failure.reason, failure.message)
            result = Sweep(Outcome.UNKNOWN, str(failure.reason), failure.message)
        if result.reason == Reason.UNREACHABLE:
            self.clouds.forget(self.deletion.project_id)  # the next try sees a catalog that was mended meanwhile
        result = dataclasses.replace(result, calls=sum(s.calls for s in self.sessions))
        where = f"{self.step.name}@{self.step.region or '-'}"
        if not self.store.finish(self.step, result, self._events(result), **values):
            LOG.warning("%s: not ours any more, its result is dropped", where)
            return
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
        if found.project is None or not found.steps:
            return found.sweep, {}
        if not self.store.put_steps(self.step, found.steps, found.catalog):
            raise Stopped("the survey is not ours any more")
        values: dict[str, Any] = {"project_name": found.project.name, "domain_id": found.project.domain_id}
        values["member_ids"] = found.member_ids
        if self._reopened(found.project):
            return dataclasses.replace(found.sweep, message="somebody opened the project again"), values | _REOPENED
        return found.sweep, values

    def _reopened(self, project: Project) -> bool:
        """Whether the lock that the record has is not there any more: then nothing is proven that rests on it."""
        if self.deletion.closed_at is not None:
            return project.enabled
        return self.deletion.drained_at is not None and not self.worker.driver.held(self._ground())

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
        return _done(self.worker.driver.drain(self._ground())), {}

    def _close(self) -> tuple[Sweep, dict[str, Any]]:
        return _done(self.worker.driver.close(self._ground())), {}

    def _release(self) -> tuple[Sweep, dict[str, Any]]:
        projects = Projects(self.clouds.identity(self._admin(writing=True)))
        count = release(self.store, projects, self.deletion.id, self.deletion.project_id, self.worker.name)
        return Sweep(Outcome.CLEAR, message=f"{count} changes undone"), {}

    def _remove(self) -> tuple[Sweep, dict[str, Any]]:
        projects = Projects(self.clouds.identity(self._admin(writing=True)))
        try:
            if projects.get(self.deletion.project_id).enabled:
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
        return sweeping.delete(type_, connection, project, self._intend, self.worker.conf.worker.parallel_deletes), {}

    def _intend(self, resources: Sequence[Resource]) -> None:
        where = {"region": self.step.region, "service": self.step.service, "type": self.step.type}
        lines = [
            Event(
                "resource.deleting",
                f"{self.step.name}: going to delete {len(chunk)}",
                self.worker.name,
                {**where, "resources": [{"id": r.id, "name": r.name} for r in chunk]},
            )
            for chunk in _chunks(resources)
        ]
        self.store.journal(self.deletion.id, *lines)


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
