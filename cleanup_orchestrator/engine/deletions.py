"""The engine: a shell around ``decide``. Load, decide, save with compare-and-swap, cast. Any number may run."""

from __future__ import annotations

import datetime
import threading

from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator.cloud import protection
from cleanup_orchestrator.core import decide as deciding
from cleanup_orchestrator.core.actions import apply
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import StepState
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.messaging.rpc import Bus
from cleanup_orchestrator.monitoring import activity, metrics
from cleanup_orchestrator.store import Conflict, NotFound, Store

LOG = log.getLogger(__name__)

OPTS = {
    "approval": [
        cfg.IntOpt(
            "resources",
            default=0,
            min=0,
            help="Resources that one cascade may be about before a second person has to approve it; 0: no limit. "
            "Counted in its inventory, and again in each look that more deletes follow. A container of objects counts "
            "as one.",
        ),
        cfg.IntOpt(
            "deletions_a_day",
            default=0,
            min=0,
            help="Cascades in any 24 hours that need no approval; 0: no limit. Counted are those of projects of the "
            "same domain, whoever asked for them, and those that the same user asked for in any domain. Each one "
            "beyond that waits for a second person before the project is locked, and so does a retry more than 24 "
            "hours after the request. Dry runs and reports do not count.",
        ),
    ],
    "deletion": [
        cfg.FloatOpt(
            "recovery_window",
            default=0.0,
            min=0.0,
            max=3650.0,
            help="Days that a cascade rests between its inventory and its first delete; 0: none. The project stays "
            "locked, nothing of it is deleted, and a restore brings it back as it was.",
        ),
    ],
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
    ],
    "force": [
        cfg.IntOpt(
            "attempts",
            default=3,
            min=1,
            mutable=True,
            help="Tries at a resource type, in a deletion under force, before force takes its next turn with what is "
            "left: first what the type declares (reset its state, force its delete, abandon it), then letting go.",
        ),
        cfg.IntOpt(
            "patience",
            default=300,
            min=0,
            mutable=True,
            help="Seconds in which nothing of the whole deletion moves, before force takes its next turn. Longer than "
            "the longest delete that services accept and then work on, such as wiping a large volume: what is merely "
            "slow would be abandoned.",
        ),
    ],
}

#: Decisions in a row on one deletion before others get their turn: more would be a defect, not work.
_MAX_DECISIONS = 50


def rules(conf: cfg.ConfigOpts) -> Rules:
    """Return the operator's settings as the core reads them."""
    seconds = lambda n: datetime.timedelta(seconds=n)  # noqa: E731
    return Rules(
        settle=seconds(conf.drain.token_cache_time),
        stall_after=seconds(conf.engine.stall_after),
        claim_timeout=seconds(conf.engine.claim_timeout),
        attempts=conf.engine.attempts,
        retry_base=conf.engine.retry_base,
        retry_cap=conf.engine.retry_cap,
        steps_at_once=conf.engine.steps_at_once,
        approval_resources=conf.approval.resources,
        approval_deletions=conf.approval.deletions_a_day,
        recovery_window=datetime.timedelta(days=conf.deletion.recovery_window),
        force_attempts=conf.force.attempts,
        force_patience=seconds(conf.force.patience),
        windows=protection.windows(conf),
        lien_types=protection.lien_types(conf),
    )


class Engine:
    """Drives deletions."""

    def __init__(self, conf: cfg.ConfigOpts, name: str, store: Store, bus: Bus) -> None:
        self.name, self.store, self.bus, self.rules = name, store, bus, rules(conf)
        self._conf = conf
        self._tick = float(conf.engine.tick)
        self._lock = threading.Lock()
        self._deciding: dict[str, bool] = {}  #: deletions in hand here, and whether to look at them once more

    def reread(self) -> None:
        """Take over what was changed in the configuration; decisions under way end as they began."""
        self.rules = rules(self._conf)

    def handle(self, deletion_id: str) -> None:
        """Decide on a deletion until there is nothing more to decide now.

        One thread at a time does: several steps of one deletion end at about the same moment, and of those who decide
        at once all but one decide in vain. Who comes second leaves word that there is news, and goes.
        """
        with self._lock:
            busy = deletion_id in self._deciding
            self._deciding[deletion_id] = busy
        if busy:
            return
        try:
            while True:
                self._decide(deletion_id)
                with self._lock:
                    if not self._deciding[deletion_id]:
                        del self._deciding[deletion_id]
                        return
                    self._deciding[deletion_id] = False
        except BaseException:
            with self._lock:
                self._deciding.pop(deletion_id, None)  # what was left word of is due: the tick finds it
            raise

    def _decide(self, deletion_id: str) -> None:
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
                    activity.track("decide", deletion.id, deletion.project_id),
                ):
                    self.store.save(deletion, applied.deletion, applied.steps, applied.events, applied.abandoned)
                    for event in applied.events:
                        LOG.info("%s: %s", event.type, event.message)
            except Conflict:
                metrics.CONFLICTS.inc()
                continue  # somebody else wrote first: look again
            except NotFound:
                LOG.warning("deletion %s is not in the store", deletion_id)
                return
            running = {step.id for step in steps if step.state is StepState.RUNNING}
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
                due = self.store.due()
            except Exception:
                LOG.exception("the tick failed; the next one tries again")
                due = []
            for deletion_id in due:
                if stop.is_set():
                    return
                try:
                    self.handle(deletion_id)
                except Exception:  # one that nobody can decide on must not keep the tick from all the others
                    LOG.exception("the tick failed at deletion %s; the next one tries again", deletion_id)
            stop.wait(self._tick)
