"""The worker: claims steps of deletions and carries them out."""

from __future__ import annotations

import time

from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator.monitoring import health
from cleanup_orchestrator.worker import watchdog
from cleanup_orchestrator.worker.context import WorkerContext
from cleanup_orchestrator.worker.force_check import forcible_types
from cleanup_orchestrator.worker.leases import LeasedWorker
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


class Worker(LeasedWorker[StepTask]):
    """Takes the steps of deletions."""

    def __init__(self, context: WorkerContext) -> None:
        super().__init__()
        self.context = context
        self.hung = watchdog.HungThreads()

    def claim(self, work_id: str) -> StepTask | None:
        """Claim a step; ``None``: it is taken, finished, or the deletion has moved on."""
        context = self.context
        claimed = context.store.claim(work_id, context.name, float(context.conf.worker.lease))
        return None if claimed is None else StepTask(context, self.hung, *claimed)

    def pass_on(self, work_id: str) -> None:
        """Cast a step to another worker."""
        self.context.bus.steps([work_id])

    def release_claims(self, patience: float) -> None:
        """Give every step under way back to the queue, because the process ends.

        Write calls of these steps are withheld from now on. A write call that is under way may still take effect, after
        another worker claimed the step or a user cancelled the deletion. The worker waits for its end. If it does not
        end, the worker keeps the step until the lease ends.

        :param patience: seconds to wait for write calls that are under way
        """
        deadline = time.monotonic() + patience
        self.stop_tasks()
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
