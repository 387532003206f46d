"""The worker: claims steps of deletions and of orphan scans, and carries them out."""

from __future__ import annotations

import time
from collections.abc import Iterable

from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator.core.step import SCANS
from cleanup_orchestrator.monitoring import health
from cleanup_orchestrator.worker import watchdog
from cleanup_orchestrator.worker.context import WorkerContext
from cleanup_orchestrator.worker.force_check import forcible_types
from cleanup_orchestrator.worker.task import StepTask

LOG = log.getLogger(__name__)

OPTS = {
    "deletion": [
        cfg.BoolOpt(
            "recovery_stop_servers",
            default=False,
            help="Stop the project's running servers, and other running resources that a plugin can stop, when the "
            "recovery window opens. A restore starts them again. If false, they run until the window ends.",
        ),
    ],
    "worker": [
        cfg.IntOpt("threads", default=8, min=1, help="Number of steps that one worker process does at the same time."),
        cfg.IntOpt(
            "parallel_deletes", default=8, min=1, mutable=True, help="Number of parallel delete calls within one step."
        ),
        cfg.IntOpt(
            "lease",
            default=60,
            min=5,
            help="Seconds for which a worker holds a step without renewing its lease. After a crash another worker "
            "takes the step when they have passed.",
        ),
        cfg.FloatOpt(
            "slice",
            default=60.0,
            min=1.0,
            mutable=True,
            help="Seconds after which a sweep starts no further delete. The step then goes to the end of the queue, so "
            "that a large project does not delay small ones.",
        ),
        cfg.FloatOpt(
            "step_timeout",
            default=300.0,
            min=1.0,
            mutable=True,
            help="Seconds without an API call that begins or ends after which a step counts as hanging. Its result is "
            "then 'unknown' (timed_out), its thread is given up, and the step is tried again later. A working step is "
            "silent while one call waits for its permit and for its answer: set more than the sum of [limits] "
            "longest_wait and of [orchestrator] call_timeout and answer_timeout.",
        ),
        cfg.FloatOpt(
            "step_limit",
            default=14400.0,
            min=1.0,
            mutable=True,
            help="Seconds after which a step is given up like a step that hangs (see step_timeout), even if it makes "
            "API calls: a step in an endless loop makes calls, too. A step starts no delete after its 'slice', so this "
            "limits the time of its two lists. Set more than the longest list takes under the [limits].",
        ),
        cfg.IntOpt(
            "most_listed",
            default=500000,
            min=1,
            mutable=True,
            help="Maximum number of resources of one type and one project that a listing keeps in memory; each takes "
            "about half a kilobyte. A longer list is not read to its end: a report says that there are at least so "
            "many, and a cascade deletes these and lists again. Such a list never counts as empty.",
        ),
        cfg.IntOpt(
            "deleting_patience",
            default=14400,
            min=1,
            mutable=True,
            help="Seconds for which a service may work on the delete of a resource before the resource counts as "
            "stuck: it is then named as a blocker, force may be used on it, and only what needs it waits for it. It "
            "stays watched, and the deletion goes on when it is gone. Types that are slow by nature have a longer "
            "time of their own.",
        ),
    ],
    "force": [
        cfg.ListOpt(
            "types",
            default=[],
            mutable=True,
            help="Resource types whose declared force may be used, each as service.type (orchestration.stack). Empty: "
            "all types that declare one; the manual's page of each service lists them. Resources of other types that "
            "cannot be deleted are abandoned as they are.",
        ),
        cfg.ListOpt(
            "never",
            default=[],
            mutable=True,
            help="Resource types whose declared force is never used, also if 'types' has them.",
        ),
    ],
}


class Worker:
    """Takes steps from the message bus and carries them out."""

    def __init__(self, context: WorkerContext) -> None:
        self.context = context
        self.hung = watchdog.HungThreads()
        self._tasks: set[StepTask] = set()  #: under way in this process
        self._refusing = self._stopping = False

    def claim(self, step_id: str) -> StepTask | None:
        """Claim a step; ``None``: it is taken, finished, or what it belongs to has moved on."""
        context = self.context
        claimed = context.store.claim(step_id, context.name, float(context.conf.worker.lease))
        return None if claimed is None else StepTask(context, self.hung, *claimed)

    def handle(self, *step_ids: str) -> None:
        """Claim steps, carry them out one after the other, and tell the engines about their results.

        :param step_ids: steps of the same deletion or scan: the engines are told once, after the last step
        """
        done = [task for step_id in step_ids if (task := self._carry_out(step_id)) is not None]
        if done:
            done[-1].announce()

    def _carry_out(self, step_id: str) -> StepTask | None:
        """Claim a step and carry it out; return it unless it has no result that this worker saved."""
        if self._refusing:
            self.context.bus.steps([step_id])  # another worker claims it
            return None
        task = self.claim(step_id)
        if task is None:
            LOG.debug("%s cannot be claimed", step_id)
            return None
        self._tasks.add(task)
        task.stopping = self._stopping  # it may have been claimed just after the others were told to stop
        try:
            with task.context():
                task.carry_out()
        except Exception:  # the lease runs out, and the step is taken up again
            LOG.exception("%s could not save its result", task.name)
            return None
        finally:
            self._tasks.discard(task)
        return task

    def refuse(self) -> None:
        """Take no further step: a cast that still arrives is passed on to another worker.

        Steps of orphan scans stop now. They take long, change nothing, and are done again by another worker.
        """
        self._refusing = True
        self._stop(task for task in tuple(self._tasks) if task.step.kind in SCANS)

    @staticmethod
    def _stop(tasks: Iterable[StepTask]) -> None:
        for task in tasks:
            task.stopping = True

    def release_claims(self, patience: float) -> None:
        """Give every step under way back to the queue, because the process ends.

        Write calls of these steps are withheld from now on. A write call that is under way may still take effect, after
        another worker claimed the step or a user cancelled the deletion. The worker waits for its end. If it does not
        end, the worker keeps the step until the lease ends.

        :param patience: seconds to wait for write calls that are under way
        """
        deadline = time.monotonic() + patience
        self._refusing = self._stopping = True
        self._stop(tuple(self._tasks))
        while waiting := [task for task in tuple(self._tasks) if not task.release_claim()]:
            if time.monotonic() >= deadline:
                names = ", ".join(f"{task.step.name} ({task.step.id})" for task in waiting)
                LOG.warning("a write call does not end: the claim is kept until the lease ends: %s", names)
                return
            time.sleep(0.05)

    def force(self, deletion_id: str) -> dict[str, str]:
        """Return the types whose force may be used for a deletion; see ``forcible_types``."""
        return forcible_types(self.context, deletion_id)

    def sound(self) -> None:
        """Check that few threads hang.

        :raises cleanup_orchestrator.monitoring.health.Unfit: more threads hang than the worker has for its work
        """
        if (count := len(self.hung)) > self.context.conf.worker.threads:
            raise health.Unfit(f"{count} threads hang: restart it")
