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


class Worker(LeasedWorker[StepTask]):
    """Takes the steps of deletions."""

    def __init__(self, context: WorkerContext) -> None:
        super().__init__()
        self.context = context
        self.hung = watchdog.Hung()

    def claim(self, work_id: str) -> StepTask | None:
        """Claim a step; ``None``: it is taken, finished, or the deletion has moved on."""
        context = self.context
        claimed = context.store.claim(work_id, context.name, float(context.conf.worker.lease))
        return None if claimed is None else StepTask(context, self.hung, *claimed)

    def pass_on(self, work_id: str) -> None:
        """Cast a step to another worker."""
        self.context.bus.step(work_id)

    def release_claims(self, patience: float) -> None:
        """Give every step under way back to the queue, because the process ends.

        Write calls of these steps are withheld from now on.

        A write call that is under way may still take effect, after another worker claimed the step or a user cancelled
        the deletion. The worker waits for its end. If it does not end, the worker keeps the step until the lease ends.

        :param patience: seconds to wait for write calls that are under way
        """
        deadline = time.monotonic() + patience
        self.stop_tasks()
        while waiting := [task for task in tuple(self._tasks) if not task.release_claim()]:
            if time.monotonic() >= deadline:
                names = ", ".join(f"{task.step.name} ({task.step.id})" for task in waiting)
                LOG.warning("a write call does not end: left until the lease runs out: %s", names)
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
