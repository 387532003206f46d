"""The worker: takes one step at a time under a lease, does it, saves the result, announces it."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from keystoneauth1 import exceptions as ka_exceptions
from openstack.connection import Connection
from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator import drain as drain_drivers
from cleanup_orchestrator import log as our_log
from cleanup_orchestrator.cloud import protection
from cleanup_orchestrator.cloud.catalog import ServiceCatalog
from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound, Projects, Protection
from cleanup_orchestrator.cloud.rate_limiter import Budget
from cleanup_orchestrator.cloud.session import Clouds, Guard, GuardedSession, read_only
from cleanup_orchestrator.core import force as forcing
from cleanup_orchestrator.core import plugin_liens
from cleanup_orchestrator.core.deletion import Deletion, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.guard import Facts, NeverDelete, destructive, hold
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.journal import Change, Event
from cleanup_orchestrator.core.maintenance_windows import Windows
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult, Token
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.drain import janitor
from cleanup_orchestrator.errors import (
    CleanupError,
    NoJanitor,
    OnHold,
    ProjectGone,
    ProjectKnown,
    ProjectProtected,
    Stopped,
    WriteRefused,
    classify,
)
from cleanup_orchestrator.messaging.rpc import Bus
from cleanup_orchestrator.monitoring import activity, health, metrics
from cleanup_orchestrator.plugins.base import NOTHING, ProjectDefinition, Refused, Resource, ResourceType
from cleanup_orchestrator.plugins.registry import Registry
from cleanup_orchestrator.store import Store, unavailable
from cleanup_orchestrator.worker import watchdog
from cleanup_orchestrator.worker.steps.survey import survey
from cleanup_orchestrator.worker.sweep import sweep as sweeping
from cleanup_orchestrator.worker.sweep.keep_marks import KeepMarks

LOG = log.getLogger(__name__)

OPTS = {
    "deletion": [
        cfg.BoolOpt(
            "recovery_stop_servers",
            default=False,
            help="Stop the project's running servers, and what else a plugin says is running, when the recovery window "
            "opens. A restore starts those that were stopped. Off: they go on running until the window is over.",
        ),
    ],
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
        cfg.FloatOpt(
            "step_timeout",
            default=300.0,
            min=1.0,
            mutable=True,
            help="Seconds without a sign of life, that is an API call that begins or ends, after which a step counts "
            "as hanging: its result is 'unknown' (timed_out), its thread is given up, and it is tried again later. A "
            "step at work is silent for as long as one call waits for its turn and for its answer: choose more than "
            "[limits] longest_wait and [orchestrator] call_timeout together.",
        ),
        cfg.FloatOpt(
            "step_limit",
            default=14400.0,
            min=1.0,
            mutable=True,
            help="Seconds after which a step is given up in the same way however busy it is: one that asks the same "
            "for ever gives signs of life, too. A step begins no delete after its 'slice', so that this is for its two "
            "listings: choose more than the longest of them takes under the [limits].",
        ),
        cfg.IntOpt(
            "most_listed",
            default=500000,
            min=1,
            mutable=True,
            help="Resources of one type and one project that a listing has in memory; each takes about half a "
            "kilobyte. Of a longer list no more is read: a report says that there are at least so many, and a cascade "
            "deletes these, then lists again. Such a list is never taken for empty.",
        ),
    ],
    "force": [
        cfg.ListOpt(
            "types",
            default=[],
            mutable=True,
            help="Resource types whose declared force may be used, each as service.type (orchestration.stack). Empty: "
            "all that declare one; the manual's page of each service says which. Of the others, what cannot be deleted "
            "is let go of as it is.",
        ),
        cfg.ListOpt(
            "never",
            default=[],
            mutable=True,
            help="Resource types whose declared force is never used, whatever 'types' says.",
        ),
    ],
}

#: What is, or has to do with, somebody else's; and what no ordinary delete was tried on: force has no word in it.
_NOT_BY_FORCE = frozenset(
    {
        Reason.PROTECTED,
        Reason.FOREIGN,
        Reason.OWNER_UNKNOWN,
        Reason.NOT_PLANNED,
        Reason.ON_HOLD,
        Reason.PRESENT,
        Reason.QUEUED,
        Reason.RATE_LIMITED,
    }
)

#: What the record forgets when its lock turns out to be open again.
_REOPENED: dict[str, Any] = {"closed_at": None, "drained_at": None, "empty_inventories": 0}


def _vanished(deletion: Deletion, now: datetime.datetime) -> dict[str, Any]:
    """Return what changes in a deletion whose project Keystone does not know (any more).

    Inventories that were empty before count only behind a lock. Without one (driver ``none``) a member could create
    something after the last of them, until the project was gone.
    """
    if deletion.project_gone_at is not None:
        return {}
    unlocked = deletion.drained_at is None and deletion.closed_at is None
    return {"project_gone_at": now} | ({"empty_inventories": 0} if unlocked else {})


#: What is done to the project itself, and cannot be where it is gone.
_ON_THE_PROJECT = frozenset({StepKind.ACCESS, StepKind.DRAIN, StepKind.CLOSE})

#: Ids in one journal line.
_CHUNK = 100

#: Seconds for which Keystone's word holds that it does not know a project.
_GONE = 5.0

#: Seconds between two tries to save a result. The store has its own patience with each.
_STORE_AWAY = 1.0


class Worker:
    """Everything that a worker needs, wired once."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        name: str,
        store: Store,
        clouds: Clouds,
        registry: Registry,
        coverage: ServiceCatalog,
        bus: Bus,
    ) -> None:
        self.conf, self.name = conf, name
        self.budget = Budget(conf, store, metrics.waited)
        self.store, self.clouds, self.unlimited = store, clouds.within(self.budget), clouds
        self.registry, self.coverage, self.bus = registry, coverage, bus
        self._driver: drain.Driver | None = None
        self._tasks: set[_Task] = set()  #: under way in this process
        self.hung = watchdog.Hung()
        self._refusing = self._halting = False

    @property
    def protection(self) -> Protection:
        """Which projects are never deleted, as the configuration has it now."""
        return Protection(tuple(self.conf.deletion.never_delete_projects), self.clouds.project_id)

    @property
    def windows(self) -> Windows:
        """The hours in which projects are locked and deleted."""
        return protection.windows(self.conf)

    def refuse(self) -> None:
        """Take no further step: a cast that still arrives is passed on to another worker."""
        self._refusing = True

    def release_claims(self, patience: float) -> None:
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
        while waiting := [task for task in tuple(self._tasks) if not task.release_claims()]:
            if time.monotonic() >= deadline:
                names = ", ".join(f"{task.step.name} ({task.step.id})" for task in waiting)
                LOG.warning("a write call does not end: left until the lease runs out: %s", names)
                return
            time.sleep(0.05)

    def handle(self, step_id: str) -> None:
        """Take a step, if it is still there to be taken, and see it through, or give it up when it hangs."""
        if self._refusing:
            self.bus.step(step_id)
            return
        claimed = self.store.claim(step_id, self.name, float(self.conf.worker.lease))
        if claimed is None:
            LOG.debug("step %s is not there to be taken", step_id)
            return
        deletion, step = claimed
        task = _Task(self, deletion, step)
        self._tasks.add(task)
        task.stopping = self._halting  # taken at the very moment in which the others were told
        try:
            with task.context():
                if why := self.hung.enter(step):
                    task.save(StepResult(Outcome.UNKNOWN, str(Reason.TIMED_OUT), why))
                else:
                    self._see_through(task)
        except Exception:
            LOG.exception("step %s (%s) could not save its result", step.name, step.id)
            return
        finally:
            self._tasks.discard(task)
            self.hung.leave(step)
        self.bus.deletion(deletion.id)

    def force(self, deletion_id: str) -> dict[str, str]:
        """Return the types whose force may be used for a deletion, each with why it cannot be, if so. Changes nothing.

        Only where the latest look found something is there anything to force, and so to ask about.
        """
        options = self.conf.force
        names = [name for name in self.registry.forcible() if not options.types or name in options.types]
        found = {name: "" for name in names if name not in options.never}
        deletion, steps, _now = self.store.load(deletion_id)
        for step in steps:
            if step.kind is not StepKind.SWEEP or step.waived or not step.remaining or step.name not in found:
                continue
            try:
                self._may_force(deletion, step)
            except Refused as refused:
                found[step.name] = f"{step.name} in {step.region}: {refused.verdict.message}"
            except Exception as error:  # whatever it is: nobody knows whether force would work
                found[step.name] = f"{step.name} in {step.region}: {classify(error).message}"
        return found

    def _may_force(self, deletion: Deletion, step: Step) -> None:
        project = definition(self, deletion, step)
        type_ = self.registry.find(step.service, step.type).for_missing_project(project.gone)
        if type_.may_force is None:
            return
        if type_.token is Token.PROJECT:
            session = self.clouds.project_session(deletion.project_id, _on_nothing)
        else:
            session = self.clouds.admin_session(_on_nothing)
        type_.may_force(self.clouds.connection(session, step.region), project)

    def _see_through(self, task: _Task) -> None:
        """Have a task done in a thread of its own, which can be given up."""
        lease, step = float(self.conf.worker.lease), task.step
        renew = lambda: watchdog.renewed(lambda: self.store.renew(step, lease), f"step {step.id}")  # noqa: E731
        thread, why = task.see_through(f"step-{step.id}", self.conf.worker, renew)
        if not why:
            if task.error is not None:
                raise task.error
            return
        what = f"{step.type} of {step.service} in region {step.region or '-'}" if step.service else str(step.kind)
        message = f"{what}: {why}"
        LOG.error("%s: given up: %s; its thread is at %s", task.name, why, watchdog.place(thread))
        task.give_up(message)
        # As when a process dies: a write call that is under way has the time of a lease to take effect or not.
        renew()
        patience = time.monotonic() + lease * 2 / 3
        while task.writing and time.monotonic() < patience and not task.over.wait(0.1):
            pass
        self.hung.add(thread, step, task.over)
        self.clouds.forget(task.deletion.project_id)  # whoever waits for what the thread holds there need not any more
        result = StepResult(Outcome.UNKNOWN, str(Reason.TIMED_OUT), message, calls=task.calls)
        if self.store.finish(step, result, task.events(result)):
            metrics.step_ended(step, str(result.outcome), time.monotonic() - task.began)

    def sound(self) -> None:
        """Say whether the threads that hang are still few.

        :raises cleanup_orchestrator.monitoring.health.Unfit: there are more than this worker has threads for its work
        """
        if (count := len(self.hung)) > self.conf.worker.threads:
            raise health.Unfit(f"{count} threads hang: restart it")

    @property
    def driver(self) -> drain.Driver:
        """The drain driver that the operator chose."""
        if self._driver is None:
            self._driver = drain_drivers.load(self.conf.drain.driver)
        return self._driver


def _on_nothing(method: str, url: str) -> None:
    """Refuse every write but one on what is not there: whether it would be allowed is all that the answer says."""
    if NOTHING not in url.partition("?")[0].split("/"):
        raise WriteRefused(f"{method} {url} refused: this is a check, nothing may be written")


def definition(worker: Worker, deletion: Deletion, step: Step) -> ProjectDefinition:
    """Return what a plugin may know of the project that a step is about."""
    return ProjectDefinition(
        id=deletion.project_id,
        name=deletion.project_name,
        domain_id=deletion.domain_id,
        region=step.region,
        member_ids=deletion.member_ids,
        options=worker.registry.options(worker.conf, step.service),
        gone=deletion.project_gone_at is not None,
    )


class _Task(watchdog.WatchedTask):
    """One claimed step."""

    def __init__(self, worker: Worker, deletion: Deletion, step: Step) -> None:
        super().__init__()
        self.worker, self.deletion, self.step = worker, deletion, step
        self.store, self.clouds = worker.store, worker.clouds.seen_by(self.seen)
        self.yielded: list[Change] = []  #: recorded changes that somebody else undid meanwhile
        self.notes: list[Event] = []  #: for the journal, with the result
        self.stuck: frozenset[str] = frozenset()  #: ids of what force is used on
        self.stopping = False  #: the process ends: no further write, and whatever comes out is done anew by another
        self.error: BaseException | None = None  #: why its result could not be saved
        self._janitor_lock = threading.Lock()
        self._janitor_connection: Connection | None = None
        self._no_janitor: NoJanitor | None = None  #: why there is no such connection
        self._given_back = False
        self._gone_at = -math.inf  #: when Keystone last said that it does not know the project, monotonic

    def context(self) -> AbstractContextManager[None]:
        """Return what puts the ids of its deletion on each line of the log."""
        return our_log.context(self.deletion.id, self.deletion.project_id, self.deletion.request_id)

    def main(self) -> None:
        """Be the thread: do it, whatever it raises, and save what came out."""
        try:
            with self.context(), activity.track(self.name, self.deletion.id, self.deletion.project_id, self.step.id):
                try:
                    self.run()
                except Exception as error:
                    self.error = error
                except BaseException as error:  # a plugin's: it ends this step, and neither thread nor process
                    self.save(self._failed(error))
        except BaseException as error:
            self.error = error
        finally:
            self.over.set()
            if (seconds := self.worker.hung.forget()) is not None:
                with self.context():
                    LOG.warning("%s: its thread has ended, %.0f seconds after it was given up", self.name, seconds)

    # -- its ends
    @property
    def name(self) -> str:
        """What it is, for the log."""
        return watchdog.where(self.step)

    def release_claims(self) -> bool:
        """Give the step back, unless a write call of its is under way; return whether it is off our hands."""
        if self.writing:
            return False
        try:
            if not self._given_back and self.store.release_claim(self.step):
                LOG.info("%s: handed back", self.name)
                metrics.STEPS.labels(str(self.step.kind), "handed_back").inc()
                self.worker.bus.step(self.step.id)
        except Exception as error:
            LOG.warning("%s: not handed back, it is taken up when its lease runs out: %s", self.name, error)
        self._given_back = True
        return True

    # -- the guard of every write call
    def guard(self, method: str, url: str) -> None:
        """Let a write call pass only while the step is ours and its deletion wants it."""
        if self._given_up:
            raise Stopped(f"{method} withheld: {self._given_up}")
        if self.stopping:
            raise Stopped(f"{method} withheld: this worker is being stopped, another one goes on with {self.step.name}")
        if self.deletion.dry_run:
            read_only(method, url)
        # An operator may have put it there while it goes: none of the looks before knows of it.
        why = self.worker.protection.listed(self.deletion.project_id, self.deletion.project_name)
        if NeverDelete().holds(Facts(self.deletion, never_delete=why), self.step):
            raise ProjectProtected(f"{method} withheld: {why}")
        if self.deletion.origin is Origin.ADOPTED:
            self._expect_gone(method)
        if not self.store.may_write(self.step, self.worker.windows):
            raise self._refusal(method)

    def _refusal(self, what: str) -> Stopped:
        """Return why the store refused something: what holds the deletion, if anything does, else that it moved on."""
        deletion, _steps, now = self.store.load(self.deletion.id)
        held = hold(deletion, now, self.worker.windows) if destructive(deletion, self.step) else None
        if held is not None:
            return OnHold(f"{what} withheld: {held.message}")
        return Stopped(f"{what} withheld: the deletion was cancelled, or step {self.step.name} is not ours any more")

    def _expect_gone(self, method: str) -> None:
        """Have Keystone say, now and then, that it still does not know the project whose leftovers are deleted.

        Not within the limits of calls: the write that waits for the answer has a turn, and might keep it from one.

        :raises ProjectKnown: it does
        :raises Stopped: it did not say
        """
        if time.monotonic() - self._gone_at < _GONE:
            return
        clouds, project_id = self.worker.unlimited.seen_by(self.seen), self.deletion.project_id
        try:
            known = Projects(clouds.identity(clouds.admin_session())).knows(project_id, clouds.project_id())
        except Exception as error:
            text = (
                f"{method} withheld: Keystone did not say that it does not know the project: {classify(error).message}"
            )
            raise Stopped(text) from error
        if known:
            raise ProjectKnown(f"{method} withheld: Keystone knows project {project_id}: it is no orphan")
        self._gone_at = time.monotonic()

    def _admin(self, writing: bool) -> GuardedSession:
        return self.clouds.admin_session(self.guard if writing else read_only)

    def run(self) -> None:
        """Do it and save what came out; an error is a result too."""
        actions: dict[StepKind, Callable[[], tuple[StepResult, dict[str, Any]]]] = {
            StepKind.SURVEY: self._survey,
            StepKind.ACCESS: self._access,
            StepKind.DRAIN: self._drain,
            StepKind.SWEEP: self._sweep,
            StepKind.HALT: self._halt,
            StepKind.CLOSE: self._close,
            StepKind.RELEASE: self._release,
            StepKind.REMOVE: self._remove,
        }
        values: dict[str, Any] = {}
        try:
            result, values = actions[self.step.kind]()
        except Exception as error:
            result = self._failed(error)
            if self.step.kind in _ON_THE_PROJECT and not self._given_up and self._gone():
                values = _vanished(self.deletion, self.store.now())
        self.save(result, **values)

    def _failed(self, error: BaseException) -> StepResult:
        failure = classify(error)
        LOG.warning("%s: %s: %s", self.name, failure.reason, failure.message)
        return StepResult(Outcome.UNKNOWN, str(failure.reason), failure.message)

    def save(self, result: StepResult, **values: Any) -> None:
        """Save what came out, unless it is not ours any more; see ``Store.finish`` for the values."""
        if self._given_up:
            return
        if result.reason == Reason.UNREACHABLE:
            self.clouds.forget(self.deletion.project_id)  # the next try sees a catalog that was mended meanwhile
        if self.stopping:  # what was withheld made it look like a failure
            self.release_claims()
            return
        result = dataclasses.replace(result, calls=self.calls)
        try:
            saved = self._save(result, values)
        except Exception as error:
            if unavailable(error):
                raise
            # Whatever a service or a plugin made of it: the step must not come back again and again without a word.
            why = " ".join(str(getattr(error, "orig", error)).split())[:200]
            LOG.error("%s: its result cannot be saved: %s: %s", self.name, type(error).__name__, why)
            text = f"what it found cannot be recorded: {type(error).__name__}: {why}"
            result = StepResult(Outcome.UNKNOWN, str(Reason.BAD_ANSWER), text, calls=self.calls)
            saved = self._save(result, {})
        if not saved:
            LOG.warning("%s: not ours any more, its result is dropped", self.name)
            metrics.step_ended(self.step, "dropped", time.monotonic() - self.began)
            return
        metrics.step_ended(self.step, str(result.outcome), time.monotonic() - self.began)
        gone, left, outcome = len(result.deleted), len(result.leftovers), result.outcome
        LOG.info(
            "%s: %s, %d found, %d gone, %d left, %d calls", self.name, outcome, result.found, gone, left, result.calls
        )

    def _save(self, result: StepResult, values: Mapping[str, Any]) -> bool:
        """Save the result, and do not lose it to a database that is away: a sweep may have been an hour's work.

        For as long as a lease: by then others go on with the step, and see in the cloud what was done. Whether it is
        still ours by then is for the store to say.
        """
        began = time.monotonic()
        while True:
            try:
                return self.store.finish(self.step, result, self.events(result), self.yielded, **values)
            except Exception as error:
                retries_exhausted = self.stopping or time.monotonic() - began >= self.worker.conf.worker.lease
                if retries_exhausted or not unavailable(error):
                    raise
                LOG.warning("%s: its result waits for the store, which does not answer", self.name)
            time.sleep(_STORE_AWAY)

    def events(self, result: StepResult) -> list[Event]:
        """Return the journal lines of a result."""
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
        events += self.notes
        if self.step.kind is not StepKind.SWEEP:
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
    def _survey(self) -> tuple[StepResult, dict[str, Any]]:
        identity = self.clouds.identity(self._admin(writing=False))
        found = survey(
            self.deletion,
            identity,
            self.worker.registry,
            self.worker.coverage,
            self.worker.protection,
            self.store.waivers_in_force(self.deletion.project_id),
            self.store.steps(self.deletion.id),
            self._halting,
        )
        if not found.steps:
            return found.sweep, {}
        if not self.store.put_steps(self.step, found.steps, found.catalog):
            raise Stopped("the survey is not ours any more")
        values: dict[str, Any] = {"waivers": found.waivers}
        self._note(found.waivers)
        if found.project is None:
            return found.sweep, values | _vanished(self.deletion, self.store.now())
        values |= {"project_name": found.project.name, "domain_id": found.project.domain_id}
        values["member_ids"] = found.member_ids
        if self.deletion.project_gone_at is not None:
            message = "Keystone knows the project again: what was concluded without it is void"
            values |= _REOPENED | {"project_gone_at": None}
            return dataclasses.replace(found.sweep, message=message), values
        self._yield(found.project)
        if self._reopened(found.project):
            return dataclasses.replace(found.sweep, message="somebody opened the project again"), values | _REOPENED
        return found.sweep, values

    def _note(self, waivers: Sequence[Waiver]) -> None:
        """Note for the journal which waivers are relied upon from now on, and which not any more."""
        before = {w.id: w for w in self.deletion.waivers}
        after = {w.id: w for w in waivers}
        for waiver in (w for w in waivers if w.id not in before):
            text = f"goes on without a look at {waiver}"
            self.notes.append(Event("waiver.relied_upon", text, self.worker.name, waiver.to_dict()))
        for waiver in (w for w in before.values() if w.id not in after):
            text = f"not relied upon any more: {waiver}"
            self.notes.append(Event("waiver.ended", text, self.worker.name, {"id": waiver.id}))

    def _reopened(self, project: Project) -> bool:
        """Whether the lock that the record has is not there any more: then nothing is proven that rests on it."""
        if self.deletion.closed_at is not None:
            return project.enabled
        return self.deletion.drained_at is not None and not self.worker.driver.held(self._ground())

    def _yield(self, project: Project) -> None:
        """Note which recorded changes somebody else undid: should they do them again, that is none of our business.

        Not while the drain may still be at work: what it has recorded and is about to do looks undone.
        """
        if self.deletion.status is Status.DRAINING:
            return
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

    def _ground(self) -> drain.DrainContext:
        def record_intent(type_: str, data: Any) -> None:
            if self.store.record_intent(self.step, type_, data) is None:
                raise self._refusal(type_)

        def added() -> frozenset[str]:
            changes = self.store.changes(self.deletion.id)
            return frozenset(
                c.data["role_id"] for c in changes if c.type == drain.GRANT_ADDED and c.data["actor_id"] == user_id
            )

        session, user_id = self._admin(writing=True), self.clouds.user_id()
        return drain.DrainContext(
            self.deletion.id,
            self.deletion.project_id,
            user_id,
            self.clouds,
            Projects(self.clouds.identity(session)),
            self.guard,
            record_intent,
            added,
            self.clouds.janitor_id,
        )

    def _access(self) -> tuple[StepResult, dict[str, Any]]:
        return _done(drain.ensure_access(self._ground(), self.worker.conf.drain.project_role)), {}

    def _drain(self) -> tuple[StepResult, dict[str, Any]]:
        ground = self._ground()
        if self.step.attempt > 1:
            self._regain(ground)
        result = self.worker.driver.drain(ground)
        if result.reason == Reason.INHERITED_GRANTS and self.worker.conf.drain.inherited_grants == "block":
            return StepResult(Outcome.UNKNOWN, result.reason, result.message), {}
        return _done(result), {}

    def _regain(self, ground: drain.DrainContext) -> None:
        """Take our role on the project once more: a drain may fail because somebody took it from us.

        It is no condition of the drain: what else is wrong the driver says in its own words.
        """
        try:
            drain.ensure_access(ground, self.worker.conf.drain.project_role)
        except Stopped:
            raise
        except Exception as error:
            LOG.info("no token of project %s before it is drained again: %s", ground.project_id, error)

    def _close(self) -> tuple[StepResult, dict[str, Any]]:
        ground = self._ground()
        try:
            result = self.worker.driver.close(ground)
        except ka_exceptions.Forbidden as error:
            return self._refused(ground.projects, error), {}
        if self.deletion.drained_at is None or self.worker.driver.held_until_closed(ground):
            return _done(result), {}
        # Somebody was let in after the last look: only what is found from the closing on proves anything.
        text = f"{result.message}; somebody was let in right before: it is proven empty anew"
        now = self.store.now()
        values = {"drained_at": now, "closed_at": now, "empty_inventories": 0}
        return _done(dataclasses.replace(result, message=text)), values

    def _release(self) -> tuple[StepResult, dict[str, Any]]:
        projects = Projects(self.clouds.identity(self._admin(writing=True)))
        count = release(self.store, projects, self.step, self.deletion.project_id, self.worker.name, self._start)
        return StepResult(Outcome.CLEAR, message=f"{count} changes undone"), {}

    def _start(self, change: Change) -> str:
        """Start what we stopped for the recovery window; see ``sweep.start``."""
        data = change.data
        try:
            type_ = self.worker.registry.find(data["service"], data["type"])
        except (KeyError, StopIteration):
            raise CleanupError(f"no plugin knows how to start {drain.describe(change)}") from None
        session = self._session(type_, self.guard)
        place = dataclasses.replace(self.step, region=data["region"], service=data["service"], type=data["type"])
        project = definition(self.worker, self.deletion, place)
        return sweeping.start(type_, self.clouds.connection(session, data["region"]), project, data["id"])

    @property
    def _halting(self) -> bool:
        """Whether what runs is stopped for the recovery window: of a project that can be had back, and is to go."""
        options = self.worker.conf.deletion
        wanted = options.recovery_stop_servers and options.recovery_window > 0
        return bool(wanted) and plugin_liens.binding(self.deletion) and self.deletion.origin is Origin.REQUEST

    def _halt(self) -> tuple[StepResult, dict[str, Any]]:
        if not self._halting:
            return StepResult(Outcome.CLEAR, message="nothing is stopped: [deletion] recovery_stop_servers is off"), {}
        where = {"region": self.step.region, "service": self.step.service, "type": self.step.type}

        def record(resource: Resource) -> None:
            if self.store.record_intent(self.step, drain.RESOURCE_STOPPED, {**where, "id": resource.id}) is None:
                raise self._refusal("the stop")

        type_ = self.worker.registry.find(self.step.service, self.step.type)
        project = definition(self.worker, self.deletion, self.step)
        result = sweeping.halt(
            type_,
            self.clouds.connection(self._session(type_, self.guard), self.step.region),
            project,
            record,
            KeepMarks.from_conf(self.worker.conf),
            self._kin(type_, project),
            self.worker.conf.worker.most_listed,
            self._planned(self.step.service, type_),
        )
        for chunk in _chunks(result.facts.get("stopped", ())):
            named = {"resources": [{"id": i, "name": n} for i, n in chunk]}
            text = f"{self.step.name}: {len(chunk)} stopped for the recovery window"
            self.notes.append(Event("resource.stopped", text, self.worker.name, {**where, **named}))
        # Counted from the record: a worker may have died after some of them.
        mine = [c for c in self.store.changes(self.deletion.id) if c.type == drain.RESOURCE_STOPPED]
        count = sum(where.items() <= change.data.items() for change in mine)
        said = f"{self.step.name}@{self.step.region or '-'}: {count} stopped"
        return dataclasses.replace(result, message="; ".join(filter(None, (said, result.message)))), {}

    def _session(self, type_: ResourceType, guard: Guard, gone: bool = False) -> GuardedSession:
        if type_.token is Token.PROJECT:
            if gone:
                raise ProjectGone(_unseen(type_))
            return self.clouds.project_session(self.deletion.project_id, guard)
        return self.clouds.admin_session(guard)

    def _janitor(self) -> Connection:
        """Return a connection with the janitor's token for the project; the same one for the whole step.

        :raises NoJanitor: there is none; it is then not asked for again in this step
        """
        with self._janitor_lock:
            if self._no_janitor is not None:
                raise self._no_janitor
            if self._janitor_connection is None:
                try:
                    conf = self.worker.conf
                    session = janitor.session(self._ground(), conf.janitor.roles, conf.drain.driver == "fence")
                except NoJanitor as error:
                    self._no_janitor = error
                    raise
                self._janitor_connection = self.clouds.connection(session, self.step.region)
            return self._janitor_connection

    def _waiver_ended(self) -> Waiver | None:
        """Return a waiver that this deletion relied upon and that does not hold any more, if there is one."""
        holding = {w.id for w in self.store.waivers_in_force(self.deletion.project_id)}
        return next((w for w in self.deletion.waivers if w.id not in holding), None)

    def _remove(self) -> tuple[StepResult, dict[str, Any]]:
        if ended := self._waiver_ended():
            # Out of the project settings round, and look again: what was left out is looked for, or blocks.
            text = f"it has expired, or was withdrawn, before the project went: {ended}"
            return StepResult(Outcome.UNKNOWN, str(Reason.STOPPED), text), {
                "empty_inventories": 0,
                "purpose": str(RoundPurpose.NONE),
            }
        projects = Projects(self.clouds.identity(self._admin(writing=True)))
        try:
            # Not as a cache has it: who enabled it a moment ago may have made something in it.
            project = projects.get_uncached(self.deletion.project_id)
            if project.enabled:
                self._yield(project)
                # All looks since the closing are void: out of the project settings round, close it and look again.
                text = "somebody enabled the project again: it is closed and proven empty anew"
                return StepResult(Outcome.UNKNOWN, str(Reason.STOPPED), text), {
                    **_REOPENED,
                    "purpose": str(RoundPurpose.NONE),
                }
            projects.delete(self.deletion.project_id, self.deletion.id)
        except ProjectNotFound:
            pass
        except ka_exceptions.Forbidden as error:
            return self._refused(projects, error), {}
        try:
            projects.get(self.deletion.project_id)
        except ProjectNotFound:
            for change in self.store.changes(self.deletion.id):  # they went with the project
                event = Event("drain.undone", f"{change.type}: gone with the project", self.worker.name)
                if not self.store.undone(self.step, change, event):
                    raise Stopped(f"step {self.step.name} is not ours any more") from None
            return StepResult(Outcome.CLEAR, message="Keystone does not know the project any more"), {}
        return StepResult(
            Outcome.UNKNOWN, str(Reason.ERROR), "Keystone accepted the delete and still knows the project"
        ), {}

    def _refused(self, projects: Projects, error: ka_exceptions.Forbidden) -> StepResult:
        """Return why Keystone refuses to disable or to delete the project.

        Keystone deletes no project with another one below it, and disables none with an enabled one below it.
        """
        text = classify(error).message
        project = projects.get(self.deletion.project_id)
        if project.immutable:
            return StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_IMMUTABLE), text)
        if children := projects.children(project.id):
            text = f"it has child projects: {', '.join(children)}; Keystone says: {text}"
            return StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_HAS_CHILDREN), text)
        return StepResult(Outcome.UNKNOWN, str(Reason.FORBIDDEN), text)

    def _sweep(self) -> tuple[StepResult, dict[str, Any]]:
        project = definition(self.worker, self.deletion, self.step)
        type_ = self.worker.registry.find(self.step.service, self.step.type).for_missing_project(project.gone)
        deleting = (
            self.deletion.purpose in (RoundPurpose.DELETE, RoundPurpose.PROJECT_SETTINGS) and not self.deletion.dry_run
        )
        guard = self.guard if deleting else read_only
        outside = type_.all_projects_view() if type_.token is Token.PROJECT and project.gone else None
        if outside is not None:
            type_, deleting, guard = outside, False, read_only
        connection = self.clouds.connection(self._session(type_, guard, project.gone), self.step.region)
        marks = KeepMarks.from_conf(self.worker.conf)
        kin = self._kin(type_, project)
        options = self.worker.conf.worker
        if outside is not None:
            # Nobody gets a token of the project any more: an admin sees whether there is anything, and deletes nothing.
            return sweeping.look(type_, connection, project, Reason.PROJECT_GONE, marks, most=options.most_listed), {}
        planned = self._planned(self.step.service, type_)
        if not deleting:
            look = sweeping.look(
                type_,
                connection,
                project,
                marks=marks,
                kin=kin,
                most=options.most_listed,
                planned=planned,
                each_kept=self.deletion.dry_run,
                ask=self.step.name in protection.lien_types(self.worker.conf),
            )
            return self._with_lien(self._still_lost(look) if project.gone else look, complete=not look.more), {}
        forced = self.deletion.purpose is RoundPurpose.DELETE and forcing.works(self.deletion)
        if forced and self.step.forcing:
            left = self._left(options.most_listed)
            self.stuck = frozenset(one.id for one in left if one.reason not in _NOT_BY_FORCE)
        # Residue is little, and at the point of no return nothing is put off.
        seconds = options.slice if self.deletion.purpose is RoundPurpose.DELETE else math.inf
        result = sweeping.delete(
            type_,
            connection,
            project,
            self._record_intent,
            options.parallel_deletes,
            seconds,
            self.step.attempt,
            marks,
            kin,
            options.most_listed,
            self.stuck,
            planned,
            self._janitor,
        )
        if forced or project.gone:  # it may be let go of, or stay: then this is what is known of it
            left = [_named(type_, project, one) for one in result.leftovers]
            result = dataclasses.replace(result, leftovers=tuple(left))
        return self._with_lien(result, complete=False), {}

    def _with_lien(self, result: StepResult, complete: bool) -> StepResult:
        """Return a result with what others use of the type, if that raises a lien; what changes nothing tells of it.

        :param complete: whether each resource was asked about, so that a lien ends with its reason
        """
        if self.step.name not in protection.lien_types(self.worker.conf) or result.outcome is Outcome.UNKNOWN:
            return result
        in_use = plugin_liens.sentence(result.leftovers)
        if plugin_liens.binding(self.deletion):
            return dataclasses.replace(result, in_use=in_use) if in_use or complete else result
        if in_use:
            text = f"a cascade would raise a lien, and delete nothing: {self.step.name}: {in_use}"
            where = {"region": self.step.region, "service": self.step.service, "type": self.step.type}
            self.notes.append(Event("lien.foreseen", text, self.worker.name, where))
        return result

    def _still_lost(self, look: StepResult) -> StepResult:
        """Return a look whose leftovers are what the deletes before it have left for want of the project.

        Else they would look as if they had come anew, and would be deleted, looked at, and deleted again without end.
        """
        lost = {one.id: one for one in self._left(self.worker.conf.worker.most_listed) if _is_lost(one)}
        if not lost:
            return look
        left = tuple(lost.get(one.id, one) for one in look.leftovers)
        worst = next((one for one in left if _is_lost(one)), None)
        said = {"reason": str(worst.reason), "message": worst.message} if worst else {}
        return dataclasses.replace(look, leftovers=left, **said)

    def _left(self, most: int) -> list[Leftover]:
        """Return what the try before this one left."""
        where = {"region": self.step.region, "service": self.step.service, "type": self.step.type}
        return [row.leftover for row in self.store.leftovers(self.deletion.id, most, **where)]

    def _planned(self, service: str, type_: ResourceType) -> frozenset[str] | None:
        """Return the ids that the deletion's plan has of a type; none: it is bound to no plan, or the type to none.

        What goes with the project is in no plan: its turn comes when nothing else is left.
        """
        if not self.deletion.plan_id or type_.project_setting:
            return None
        return self.store.planned(self.deletion.plan_id, self.step.region, service, type_.name)

    def _kin(self, type_: ResourceType, project: ProjectDefinition) -> list[sweeping.RelatedType]:
        """Return the types whose keep marks count for this step's, too."""
        registry = self.worker.registry
        found = []
        for service, other, whole, attribute in registry.kin(registry.services[self.step.service], type_):
            own = service.service_type == self.step.service
            options = registry.options(self.worker.conf, service.service_type)
            found.append(
                sweeping.RelatedType(
                    other.name if own else f"{service.service_type}.{other.name}",
                    other.for_missing_project(project.gone),
                    dataclasses.replace(project, options=options),
                    whole,
                    attribute,
                    None if whole else self._planned(service.service_type, other),
                )
            )
        return found

    def _record_intent(self, resources: Sequence[Resource]) -> None:
        where = {"region": self.step.region, "service": self.step.service, "type": self.step.type}
        by_force = [r for r in resources if r.id in self.stuck]
        ordinary = [r for r in resources if r.id not in self.stuck]
        events = [
            Event(
                type_, f"{self.step.name}: {what} {len(chunk)}", self.worker.name, {**where, "resources": _ids(chunk)}
            )
            for type_, what, chunk in (
                ("resource.deleting", "going to delete", ordinary),
                ("resource.forcing", "going to use force on", by_force),
            )
            if chunk
        ]
        if not self.store.append_events(self.step, *events):
            raise self._refusal("DELETE")


def release(
    store: Store,
    projects: Projects,
    step: Step,
    project_id: str,
    actor: str,
    start: Callable[[Change], str] | None = None,
) -> int:
    """Undo what is recorded, the latest first, and return how many changes that were.

    One that cannot be undone holds up none of the others: they are what locks the users out. Its error is raised last.

    :param step: on whose behalf it is done
    :param start: starts a resource again that we stopped
    :raises Stopped: the step is not ours any more
    """
    changes = store.changes(step.deletion_id)
    failed: list[Exception] = []
    for change in reversed(changes):
        try:
            text = drain.undo(projects, project_id, change, start)
        except Stopped:
            raise
        except Exception as error:
            failed.append(error)
            continue
        if not store.undone(step, change, Event("drain.undone", text, actor, {"type": change.type})):
            raise Stopped(f"step {step.name} is not ours any more")
    if failed:
        raise failed[0]
    return len(changes)


def _ids(resources: Sequence[Resource]) -> list[dict[str, str]]:
    return [{"id": r.id, "name": r.name} for r in resources]


def _named(type_: ResourceType, project: ProjectDefinition, leftover: Leftover) -> Leftover:
    """Return a leftover with all that the report says of it should it be let go of."""
    owner = "" if leftover.reason is Reason.OWNER_UNKNOWN else project.id
    return dataclasses.replace(leftover, owner=owner, remedy=type_.remedy(leftover.id, project))


def _is_lost(leftover: Leftover) -> bool:
    return leftover.reason is Reason.PROJECT_GONE


def _unseen(type_: ResourceType) -> str:
    """Say why nobody knows what a project that is gone has of a type."""
    why = f": {type_.all_projects}" if isinstance(type_.all_projects, str) and type_.all_projects else ""
    return f"nobody gets a token for the project any more, and no other shows its {type_.name}s{why}"


def _done(result: drain.Result) -> StepResult:
    return StepResult(Outcome.CLEAR, result.reason, result.message)


def _chunks(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[i : i + _CHUNK] for i in range(0, len(items), _CHUNK)]
