"""One claimed step of a deletion: does it in a thread and saves its result."""

from __future__ import annotations

import collections
import dataclasses
import threading
import time
from contextlib import AbstractContextManager

from oslo_log import log

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator.core.actions import believed
from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import classify
from cleanup_orchestrator.monitoring import activity, metrics
from cleanup_orchestrator.store import unavailable
from cleanup_orchestrator.worker import watchdog
from cleanup_orchestrator.worker.context import WorkerContext
from cleanup_orchestrator.worker.leases import LeasedTask
from cleanup_orchestrator.worker.steps import RUNNERS
from cleanup_orchestrator.worker.steps.context import StepContext, chunks, named

LOG = log.getLogger(__name__)


class StepTask(LeasedTask):
    """One claimed step."""

    def __init__(self, worker: WorkerContext, hung: watchdog.HungThreads, deletion: Deletion, step: Step) -> None:
        """Create the task of a claimed step.

        :param hung: the threads of this worker that hang
        """
        super().__init__(worker.conf.worker)
        self.worker, self.deletion, self.step = worker, deletion, step
        self.work_on = StepContext(worker, deletion, step, self.withheld, self.seen)
        self._hung = hung

    # -- what leased work defines
    @property
    def name(self) -> str:
        """What the step is, and its region."""
        return watchdog.where(self.step)

    @property
    def thread_name(self) -> str:
        """The name of its thread."""
        return f"step-{self.step.id}"

    def context(self) -> AbstractContextManager[None]:
        """Return the logging context with the ids of deletion, project and request."""
        return our_log.context(self.deletion.id, self.deletion.project_id, self.deletion.request_id)

    def extend(self, seconds: float) -> bool:
        """Extend the lease in the store; return ``False`` if the claim is lost."""
        return bool(self.worker.store.renew(self.step, seconds))

    def release(self) -> bool:
        """Return the step to the queue in the store; ``False``: the claim is lost."""
        return self.worker.store.release_claim(self.step)

    def requeue(self) -> None:
        """Count the released step and cast it to the workers."""
        metrics.STEPS.labels(str(self.step.kind), "released").inc()
        self.worker.bus.steps([self.step.id])

    def announce(self) -> None:
        """Tell the engines that the deletion has a new result."""
        self.worker.bus.decide(self.deletion.id)

    def carry_out(self) -> None:
        """Do the step, unless a thread hangs that makes it wait."""
        try:
            if why := self._hung.enter(self.step):
                self.save(StepResult(Outcome.UNKNOWN, str(Reason.TIMED_OUT), why))
            else:
                super().carry_out()
        finally:
            self._hung.leave(self.step)

    def work(self) -> None:
        """Do the step in its own thread and save its result, including errors."""
        with activity.track(self.name, self.deletion.id, self.deletion.project_id, self.step.id):
            try:
                self.run()
            except Exception:  # the result could not be saved
                raise
            except BaseException as error:  # a plugin's
                self.save(self._failed(error))

    def ended(self) -> None:
        """Raise what kept the result from being saved, if anything did."""
        if self.error is not None:
            raise self.error

    def thread_ended(self) -> None:
        """Log the end of a thread that was given up before."""
        if (seconds := self._hung.forget()) is not None:
            with self.context():
                LOG.warning("%s: its thread has ended, %.0f seconds after it was given up", self.name, seconds)

    def abandon(self, thread: threading.Thread, why: str) -> None:
        """Give up a thread that hangs: withhold its calls and save an unknown result."""
        step = self.step
        what = f"{step.type} of {step.service} in region {step.region or '-'}" if step.service else str(step.kind)
        message = f"{what}: {why}"
        self.give_up(message)
        # As after a crash: a write call that is under way has the time of a lease to take effect or not.
        self.renew()
        until = time.monotonic() + float(self.options.lease) * 2 / 3
        while self.writing and time.monotonic() < until and not self.over.wait(0.1):
            pass
        self._hung.add(thread, step, self.over)
        self.worker.clouds.forget(self.deletion.project_id)  # other threads need not wait for what this one holds
        result = StepResult(Outcome.UNKNOWN, str(Reason.TIMED_OUT), message, calls=self.calls)
        if self.worker.store.finish(step, result, self.events(result)):
            metrics.step_ended(step, str(result.outcome), time.monotonic() - self.began)

    # -- the step
    def withheld(self) -> str:
        """Return why no write call is made any more; empty: write calls may be made."""
        if self._given_up:
            return self._given_up
        if self.stopping:
            return f"this worker is being stopped, another one goes on with {self.step.name}"
        return ""

    def run(self) -> None:
        """Do the step and save its result; an error is a result, too."""
        needs_project = False
        try:
            runner = RUNNERS[self.step.kind]
            needs_project = runner.needs_project
            result = runner(self.work_on).run()
        except Exception as error:
            result = self._failed(error)
            if needs_project and not self._given_up and self.work_on.project_is_gone():
                result = dataclasses.replace(result, learned=self.work_on.gone_facts())
        self.save(result)

    def _failed(self, error: BaseException) -> StepResult:
        failure = classify(error)
        LOG.warning("%s: %s: %s", self.name, failure.reason, failure.message)
        return StepResult(Outcome.UNKNOWN, str(failure.reason), failure.message)

    # -- its result
    def save(self, result: StepResult) -> None:
        """Save the result, unless the worker does not hold the step any more."""
        if self._given_up:
            return
        if result.reason in (Reason.UNREACHABLE, Reason.NO_ENDPOINT):
            self.work_on.clouds.forget(self.deletion.project_id)  # the next attempt reads the catalog again
        if self.stopping:  # withheld calls made the result look like a failure
            self.release_claim()
            return
        result = believed(self.step, dataclasses.replace(result, calls=self.calls))
        try:
            saved = self._finish(result)
        except Exception as error:
            if unavailable(error):
                raise
            # The database refuses what a service or a plugin returned. The step must not be repeated without a reason.
            why = " ".join(str(getattr(error, "orig", error)).split())[:200]
            LOG.error("%s: its result cannot be saved: %s: %s", self.name, type(error).__name__, why)
            text = f"what it found cannot be recorded: {type(error).__name__}: {why}"
            result = StepResult(Outcome.UNKNOWN, str(Reason.BAD_ANSWER), text, calls=self.calls)
            saved = self._finish(result)
        outcome = str(result.outcome) if saved else "dropped"
        metrics.step_ended(self.step, outcome, time.monotonic() - self.began)
        if saved:
            gone, left = len(result.deleted), len(result.leftovers)
            text = "%s: %s, %d found, %d gone, %d left, %d calls"
            # Most lists are empty, and a line for each would hide the others.
            empty = self.step.kind is StepKind.SWEEP and result.outcome is Outcome.CLEAR and not result.found
            write = LOG.debug if empty else LOG.info
            write(text, self.name, outcome, result.found, gone, left, result.calls)

    def _finish(self, result: StepResult) -> bool:
        """Save the result and the journal; return ``False`` if the claim is lost."""
        store, yielded = self.worker.store, self.work_on.yielded
        return self.save_patiently(lambda: store.finish(self.step, result, self.events(result), yielded))

    def events(self, result: StepResult) -> list[Event]:
        """Return the journal lines of a result."""
        step, actor, place = self.step, self.worker.name, self.work_on.place
        events = [
            Event(
                EventType.RESOURCE_DELETED,
                f"{step.name}: {len(chunk)} gone",
                actor,
                {**place, "resources": named(chunk)},
            )
            for chunk in chunks(result.deleted)
        ]
        events += [
            Event(EventType.DRAIN_YIELDED, f"a user has undone it: {drain.describe(c)}", actor, {"type": c.type})
            for c in self.work_on.yielded
        ]
        events += self.work_on.notes
        changed = (str(result.outcome), result.reason) != (str(step.outcome), step.reason)
        if step.kind is not StepKind.SWEEP and (changed or result.message != step.message or self._is_first()):
            text = f"{step.kind}: {result.message or result.outcome}"
            events.append(Event(f"step.{step.kind}", text, actor, {"outcome": str(result.outcome)}))
        elif step.kind is StepKind.SWEEP and result.outcome is Outcome.CLEAR:
            if result.message and result.message != step.message:  # the list may have missed something
                events.append(Event(f"sweep.{result.outcome}", f"{step.name}: {result.message}", actor, place))
        elif step.kind is StepKind.SWEEP and changed:
            reasons = collections.Counter(str(leftover.reason) for leftover in result.leftovers)
            left = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
            text = f"{step.name}: " + (left or f"unknown: {result.message}")
            data = {**place, "outcome": str(result.outcome), "reason": result.reason}
            events.append(Event(f"sweep.{result.outcome}", text, actor, data))
        return events

    def _is_first(self) -> bool:
        """Whether the result of a deletion-wide step is for the journal although it is the same as before.

        Surveys and the access step are repeated in each round, and from time to time while the deletion waits: only the
        first one of an attempt is.
        """
        repeated = self.step.kind in (StepKind.SURVEY, StepKind.ACCESS)
        return self.step.attempt == 1 and not (repeated and self.step.round > self.deletion.since_round)
