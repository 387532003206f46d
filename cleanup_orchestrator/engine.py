"""The engine: a shell around ``decide``. Load, decide, save with compare-and-swap, cast. Any number may run."""

from __future__ import annotations

import datetime
import threading

from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator import decide as deciding
from cleanup_orchestrator import log as our_log
from cleanup_orchestrator import metrics, work
from cleanup_orchestrator.actions import apply
from cleanup_orchestrator.model import State
from cleanup_orchestrator.rpc import Bus
from cleanup_orchestrator.store import Conflict, NotFound, Store
from cleanup_orchestrator.transitions import LIVE

LOG = log.getLogger(__name__)

OPTS = {
    "engine": [
        cfg.IntOpt("threads", default=4, min=1, help="Deletions that one engine process decides on at once."),
        cfg.FloatOpt("tick", default=5.0, min=0.1, help="Seconds between looks for deletions that a message missed."),
        cfg.IntOpt(
            "stall_after",
            default=600,
            min=1,
            mutable=True,
            help="Seconds without progress after which one is 'stalled'.",
        ),
        cfg.IntOpt("claim_timeout", default=30, min=1, help="Seconds after which an unclaimed step is cast again."),
        cfg.IntOpt(
            "steps_at_once",
            default=8,
            min=1,
            mutable=True,
            help="Sweeps of one deletion that are handed out at once, so that no project takes every worker.",
        ),
        cfg.IntOpt(
            "attempts", default=3, min=1, mutable=True, help="Tries at a listing before a report says 'unknown'."
        ),
        cfg.FloatOpt(
            "retry_base",
            default=1.0,
            min=0.1,
            mutable=True,
            help="Seconds before the second try at a step; then doubled.",
        ),
        cfg.FloatOpt(
            "retry_cap", default=60.0, min=1.0, mutable=True, help="The longest wait between two tries, in seconds."
        ),
    ]
}

#: Decisions in a row on one deletion before others get their turn: more would be a defect, not work.
_MAX_DECISIONS = 50


def rules(conf: cfg.ConfigOpts) -> deciding.Rules:
    """Return the operator's settings as the core reads them."""
    seconds = lambda n: datetime.timedelta(seconds=n)  # noqa: E731
    return deciding.Rules(
        settle=seconds(conf.drain.token_cache_time),
        stall_after=seconds(conf.engine.stall_after),
        claim_timeout=seconds(conf.engine.claim_timeout),
        attempts=conf.engine.attempts,
        retry_base=conf.engine.retry_base,
        retry_cap=conf.engine.retry_cap,
        steps_at_once=conf.engine.steps_at_once,
    )


class Engine:
    """Drives deletions."""

    def __init__(self, conf: cfg.ConfigOpts, name: str, store: Store, bus: Bus) -> None:
        self.name, self.store, self.bus, self.rules = name, store, bus, rules(conf)
        self._conf = conf
        self._tick = float(conf.engine.tick)

    def reread(self) -> None:
        """Take over what was changed in the configuration; decisions under way end as they began."""
        self.rules = rules(self._conf)

    def handle(self, deletion_id: str) -> None:
        """Decide on a deletion until there is nothing more to decide now."""
        for _ in range(_MAX_DECISIONS):
            try:
                deletion, steps, now = self.store.load(deletion_id)
                actions = deciding.decide(deletion, steps, now, self.rules)
                if not actions:
                    return
                LOG.debug("deletion %s: %s", deletion_id, ", ".join(type(action).__name__ for action in actions))
                applied = apply(deletion, steps, actions, now)
                with (
                    our_log.context(
                        deletion_id=deletion.id, project_id=deletion.project_id, request_id=deletion.request_id
                    ),
                    work.on("decide", deletion.id, deletion.project_id),
                ):
                    self.store.save(deletion, applied.deletion, applied.steps, applied.events)
                    for event in applied.events:
                        LOG.info("%s: %s", event.type, event.message)
            except Conflict:
                metrics.CONFLICTS.inc()
                continue  # somebody else wrote first: look again
            except NotFound:
                LOG.warning("deletion %s is not in the store", deletion_id)
                return
            running = {step.id for step in steps if step.state is State.RUNNING}
            for step in applied.steps:
                if step.id in running:
                    metrics.TAKEOVERS.labels(str(step.kind)).inc()
            for step_id in applied.casts:
                self.bus.step(step_id)
            if deletion.parent_deletion_id and applied.deletion.status not in LIVE:
                self.bus.deletion(deletion.parent_deletion_id)
            if not applied.changed:
                return
        LOG.error("deletion %s: %d decisions in a row; the tick goes on with it", deletion_id, _MAX_DECISIONS)

    def run_ticks(self, stop: threading.Event) -> None:
        """Until told to stop, take up every deletion whose time has come: what a lost message left."""
        while not stop.is_set():
            try:
                for deletion_id in self.store.due():
                    if stop.is_set():
                        return
                    self.handle(deletion_id)
            except Exception:
                LOG.exception("the tick failed; the next one tries again")
            stop.wait(self._tick)
