"""One claimed step: does it in a thread, renews its lease meanwhile, and saves its result.

The store decides who holds a claim: it refuses to renew, to finish or to release a claim that another worker took over.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from contextlib import AbstractContextManager

from oslo_log import log

from cleanup_orchestrator.cloud.session import GuardedSession
from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.orphan_scan import OrphanScan
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.results import believed
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult
from cleanup_orchestrator.errors import classify
from cleanup_orchestrator.monitoring import activity, metrics
from cleanup_orchestrator.store import unavailable
from cleanup_orchestrator.worker import watchdog
from cleanup_orchestrator.worker.context import WorkerContext
from cleanup_orchestrator.worker.steps import RUNNERS
from cleanup_orchestrator.worker.steps.context import StepContext
from cleanup_orchestrator.worker.steps.scan import ScanContext

LOG = log.getLogger(__name__)

#: Seconds between two attempts to save a result. Each attempt has the store's own retries, too.
_STORE_AWAY = 1.0


class StepTask:
    """One claimed step, done in a thread that can be given up.

    The API calls of its sessions are its signs of life.
    """

    def __init__(
        self, worker: WorkerContext, hung: watchdog.HungThreads, owner: Deletion | OrphanScan, step: Step
    ) -> None:
        """Create the task of a claimed step.

        :param hung: the threads of this worker that hang
        :param owner: what the step belongs to
        """
        self.worker, self.owner, self.step, self.name = worker, owner, step, step.place
        self.options = worker.conf.worker
        self.sessions: list[GuardedSession] = []  #: every session that was made for the task
        self.began = time.monotonic()
        self.over = threading.Event()  #: set when the thread has ended
        self.stopping = False  #: the process ends: the task no longer writes anything and is done again elsewhere
        self.error: BaseException | None = None  #: what kept its thread from saving the result
        self._hung = hung
        self._given_up = ""
        self._released = False
        self.step_context: StepContext | ScanContext
        if isinstance(owner, OrphanScan):
            self.step_context = ScanContext(worker, owner, step, self.withheld, self.seen)
        else:
            self.step_context = StepContext(worker, owner, step, self.withheld, self.seen)

    def context(self) -> AbstractContextManager[None]:
        """Return the logging context of the task."""
        return self.step_context.log_context()

    def announce(self) -> None:
        """Tell the engines that there is a new result."""
        self.worker.bus.decide(self.owner.id)

    # -- signs of life
    def seen(self, session: GuardedSession) -> None:
        """Remember a session that was made for the task."""
        self.sessions.append(session)
        if self._given_up:
            session.end(self._given_up)

    def life(self) -> float:
        """Return the monotonic time of the last sign of life."""
        return max((session.life for session in tuple(self.sessions)), default=self.began)

    @property
    def calls(self) -> int:
        """The number of API calls so far."""
        return sum(session.calls for session in tuple(self.sessions))

    @property
    def writing(self) -> bool:
        """Whether a write call is under way: it may still take effect."""
        return any(session.writing for session in tuple(self.sessions))

    def withheld(self) -> str:
        """Return why write calls are no longer made; empty: write calls may be made."""
        if self._given_up:
            return self._given_up
        if self.stopping:
            return f"this worker is being stopped, another one goes on with {self.step.name}"
        return ""

    # -- its claim
    def renew(self) -> bool:
        """Extend the lease; return whether the task may still hold the claim.

        A store that does not answer does not end the claim: the lease may still be valid.
        """
        try:
            return bool(self.worker.store.renew(self.step, float(self.options.lease)))
        except Exception as error:
            LOG.warning("%s: its lease could not be renewed: %s", self.name, error)
            return True

    def release_claim(self) -> bool:
        """Give the claim back once; return ``False`` if a write call is still under way."""
        if self.writing:
            return False
        try:
            if not self._released and self.worker.store.release_claim(self.step):
                LOG.info("%s: its claim is released", self.name)
                metrics.STEPS.labels(str(self.step.kind), "released").inc()
                self.worker.bus.steps([self.step.id])
        except Exception as error:
            LOG.warning("%s: its claim could not be released and ends with the lease: %s", self.name, error)
        self._released = True
        return True

    # -- its thread
    def carry_out(self) -> None:
        """Do the step in its own thread, unless a thread hangs that makes it wait; give the thread up when it hangs.

        :raises BaseException: the result could not be saved
        """
        try:
            if why := self._hung.enter(self.step):
                self.save(StepResult(Outcome.UNKNOWN, str(Reason.TIMED_OUT), why))
                return
            thread = threading.Thread(target=self.main, name=f"step-{self.step.id}", daemon=True)
            thread.start()
            limits = (lambda: self.options.step_timeout), (lambda: self.options.step_limit)
            why = watchdog.watch(self.over, self.life, *limits, self.renew, float(self.options.lease) / 3)
            if why:
                LOG.error("%s: given up: %s; its thread is at %s", self.name, why, watchdog.place(thread))
                self.abandon(thread, why)
            elif self.error is not None:
                raise self.error
        finally:
            self._hung.leave(self.step)

    def main(self) -> None:
        """Do the step in its own thread and save its result, including errors."""
        try:
            with self.context(), activity.track(self.name, self.owner.id, self.step_context.project_id, self.step.id):
                self._work()
        except BaseException as error:  # it ends this task, and neither thread nor process
            self.error = error
        finally:
            self.over.set()
            if (seconds := self._hung.forget()) is not None:
                with self.context():
                    LOG.warning("%s: its thread has ended, %.0f seconds after it was given up", self.name, seconds)

    def _work(self) -> None:
        try:
            self.run()
        except Exception:  # the result could not be saved
            raise
        except BaseException as error:  # a plugin's
            self.save(self._failed(error))

    def abandon(self, thread: threading.Thread, why: str) -> None:
        """Give up a thread that hangs: withhold its calls and save an unknown result, in the caller's thread."""
        step = self.step
        what = f"{step.type} of {step.service} in region {step.region or '-'}" if step.service else str(step.kind)
        message = f"{what}: {why}"
        self.give_up(message)
        # As after a crash: a write call that is under way has the time of a lease to take effect or not.
        self.renew()
        until = time.monotonic() + float(self.options.lease) * 2 / 3
        while self.writing and time.monotonic() < until and not self.over.wait(0.1):
            pass
        # Those that make its calls in parallel stay with its own: it waits for them.
        threads = {thread}.union(*(session.callers() for session in tuple(self.sessions)))
        self._hung.add(thread, step, self.over, len(threads))
        self.worker.clouds.forget(self.step_context.project_id)  # others need not wait for what this thread holds
        result = StepResult(Outcome.UNKNOWN, str(Reason.TIMED_OUT), message, calls=self.calls)
        if self.worker.store.finish(step, result, self.step_context.events(result)):
            metrics.step_ended(step, str(result.outcome), time.monotonic() - self.began)

    def give_up(self, why: str) -> None:
        """Withhold every further API call: the thread hangs."""
        self._given_up = f"given up: {why}"
        for session in tuple(self.sessions):
            session.end(self._given_up)

    def run(self) -> None:
        """Do the step and save its result; an error is a result, too."""
        needs_project = False
        try:
            runner = RUNNERS[self.step.kind]
            needs_project = runner.needs_project
            result = runner(self.step_context).run()
        except Exception as error:
            result = self._failed(error)
            if needs_project and not self._given_up:
                result = dataclasses.replace(result, learned=self.step_context.learned_by_failing())
        self.save(result)

    def _failed(self, error: BaseException) -> StepResult:
        failure = classify(error)
        cause = f": {error.orig}" if hasattr(error, "orig") else ""  # what the driver of the database says, for the log
        LOG.warning("%s: %s: %s%s", self.name, failure.reason, failure.message, cause)
        return StepResult(Outcome.UNKNOWN, str(failure.reason), failure.message)

    # -- its result
    def save(self, result: StepResult) -> None:
        """Save the result, if the worker still holds the step."""
        if self._given_up:
            return
        if result.reason in (Reason.UNREACHABLE, Reason.NO_ENDPOINT):
            self.step_context.clouds.forget(self.step_context.project_id)  # the next attempt reads the catalog again
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
        """Save the result and the journal, and retry while the database is away; ``False`` if the claim is lost.

        The result may be an hour's work. Retries end after the time of one lease: then another worker may do the work
        again. The store decides whether the worker still holds the claim at that time.
        """
        context, began = self.step_context, time.monotonic()
        while True:
            try:
                saved = self.worker.store.finish(self.step, result, context.events(result), context.yielded)
            except Exception as error:
                retries_exhausted = self.stopping or time.monotonic() - began >= self.options.lease
                if retries_exhausted or not unavailable(error):
                    raise
                LOG.warning("%s: its result waits for the store, which does not answer", self.name)
            else:
                if not saved:
                    LOG.warning("%s: no longer held by this worker, its result is dropped", self.name)
                return saved
            time.sleep(_STORE_AWAY)
