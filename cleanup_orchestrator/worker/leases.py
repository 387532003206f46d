"""Carries out leased work: claim, renew, and finish once or give back.

Two kinds of work are leased: steps of deletions (``worker.task``) and parts of orphan scans (``worker.orphan_scan``).
The store decides who holds a claim: it refuses to renew, to finish or to release a claim that another worker took over.
"""

from __future__ import annotations

import abc
import contextlib
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

from oslo_log import log

from cleanup_orchestrator.store import unavailable
from cleanup_orchestrator.worker import watchdog

LOG = log.getLogger(__name__)

#: Seconds between two attempts to save a result. Each attempt has the store's own retries, too.
_STORE_AWAY = 1.0


class LeasedTask(watchdog.WatchedTask, abc.ABC):
    """One claimed piece of work, done in a thread while its lease is renewed."""

    def __init__(self, options: Any) -> None:
        """Create the task of a claim.

        :param options: the configuration group ``[worker]``
        """
        super().__init__()
        self.options = options
        self.stopping = False  #: the process ends: the task writes nothing any more and is done again elsewhere
        self.error: BaseException | None = None  #: what its thread raised
        self._released = False

    # -- what each kind of work defines
    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What the task is, for the log."""

    @property
    @abc.abstractmethod
    def thread_name(self) -> str:
        """The name of its thread."""

    @abc.abstractmethod
    def work(self) -> None:
        """Do the work, in the task's own thread."""

    @abc.abstractmethod
    def ended(self) -> None:
        """Handle the end of the thread, in the caller's thread."""

    @abc.abstractmethod
    def abandon(self, thread: threading.Thread, why: str) -> None:
        """Give up a thread that hangs and save the result, in the caller's thread."""

    @abc.abstractmethod
    def extend(self, seconds: float) -> bool:
        """Extend the lease in the store; return ``False`` if the claim is lost."""

    @abc.abstractmethod
    def release(self) -> bool:
        """Return the claim to the queue in the store; return ``False`` if it is lost."""

    @abc.abstractmethod
    def requeue(self) -> None:
        """Cast the released work to the workers."""

    @abc.abstractmethod
    def announce(self) -> None:
        """Tell the engines that the result is saved."""

    def context(self) -> AbstractContextManager[None]:
        """Return the logging context of the task."""
        return contextlib.nullcontext()

    def thread_ended(self) -> None:
        """Handle the end of the thread, in that thread, also after it was given up."""

    # -- what every kind of work does alike
    def main(self) -> None:
        """Run the work in its own thread and keep what it raises."""
        try:
            with self.context():
                self.work()
        except BaseException as error:  # a plugin's, too: it ends this task, and neither thread nor process
            self.error = error
        finally:
            self.over.set()
            self.thread_ended()

    def carry_out(self) -> None:
        """Run the work in a thread; give the thread up when it hangs."""
        thread, why = self.see_through(self.thread_name, self.options, self.renew)
        if not why:
            self.ended()
            return
        LOG.error("%s: given up: %s; its thread is at %s", self.name, why, watchdog.place(thread))
        self.abandon(thread, why)

    def renew(self) -> bool:
        """Extend the lease; return whether the task may still hold the claim.

        A store that does not answer does not end the claim: the lease may still be valid.
        """
        try:
            return self.extend(float(self.options.lease))
        except Exception as error:
            LOG.warning("%s: its lease could not be renewed: %s", self.name, error)
            return True

    def release_claim(self) -> bool:
        """Give the claim back once; return ``False`` if a write call is still under way."""
        if self.writing:
            return False
        try:
            if not self._released and self.release():
                LOG.info("%s: its claim is released", self.name)
                self.requeue()
        except Exception as error:
            LOG.warning("%s: its claim could not be released and ends with the lease: %s", self.name, error)
        self._released = True
        return True

    def save_patiently(self, write: Callable[[], bool]) -> bool:
        """Save a result, and retry while the database is away.

        Returns ``False`` if the claim is lost. The result may be an hour's work. Retries end after the time of one
        lease: then another worker may do the work again. The store decides whether the worker still holds the claim at
        that time.
        """
        began = time.monotonic()
        while True:
            try:
                saved = write()
            except Exception as error:
                retries_exhausted = self.stopping or time.monotonic() - began >= self.options.lease
                if retries_exhausted or not unavailable(error):
                    raise
                LOG.warning("%s: its result waits for the store, which does not answer", self.name)
            else:
                if not saved:
                    LOG.warning("%s: not held by this worker any more, its result is dropped", self.name)
                return saved
            time.sleep(_STORE_AWAY)


Task = TypeVar("Task", bound=LeasedTask)


class LeasedWorker(abc.ABC, Generic[Task]):
    """Takes work of one kind from the message bus and carries it out."""

    def __init__(self) -> None:
        self._tasks: set[Task] = set()  #: under way in this process
        self._refusing = self._stopping = False

    @abc.abstractmethod
    def claim(self, work_id: str) -> Task | None:
        """Claim a piece of work; ``None``: it is taken, finished, or not wanted any more."""

    @abc.abstractmethod
    def pass_on(self, work_id: str) -> None:
        """Cast work that this worker refuses to another worker."""

    def refuse(self) -> None:
        """Take no further work: a cast that still arrives is passed on to another worker."""
        self._refusing = True

    def stop_tasks(self) -> tuple[Task, ...]:
        """Take no further work and tell every task to stop; return the tasks."""
        self.refuse()
        self._stopping = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.stopping = True
        return tasks

    def handle(self, *work_ids: str) -> None:
        """Claim pieces of work, carry them out one after the other, and tell the engines about their results.

        :param work_ids: work of the same deletion or scan: the engines are told once, after the last piece
        """
        done = [task for work_id in work_ids if (task := self._carry_out(work_id)) is not None]
        if done:
            done[-1].announce()

    def _carry_out(self, work_id: str) -> Task | None:
        """Claim a piece of work and carry it out; return it unless it has no result that this worker saved."""
        if self._refusing:
            self.pass_on(work_id)
            return None
        task = self.claim(work_id)
        if task is None:
            LOG.debug("%s cannot be claimed", work_id)
            return None
        self._tasks.add(task)
        task.stopping = self._stopping  # it may have been claimed just after the others were told to stop
        try:
            with task.context():
                task.carry_out()
        except Exception:  # the lease runs out, and the work is taken up again
            LOG.exception("%s could not save its result", task.name)
            return None
        finally:
            self._tasks.discard(task)
        return task
