"""The engine: loads a deletion or an orphan scan, decides, saves, and casts steps.

It decides while the store locks the record, so that any number of engines may run.
"""

from __future__ import annotations

import dataclasses
import datetime
import threading

from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator.cloud import protection
from cleanup_orchestrator.core import decide as deciding
from cleanup_orchestrator.core.actions import Applied, apply
from cleanup_orchestrator.core.deletion import Deletion, DeletionCase
from cleanup_orchestrator.core.queue import QueueState
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Step, StepState
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.engine import orphan_scans
from cleanup_orchestrator.engine.alarms import Alarms
from cleanup_orchestrator.messaging.rpc import Bus
from cleanup_orchestrator.monitoring import activity, metrics
from cleanup_orchestrator.store import Conflict, NotFound, Store
from cleanup_orchestrator.store.deletions import Decided

LOG = log.getLogger(__name__)

OPTS = {
    "approval": [
        cfg.IntOpt(
            "resources",
            default=0,
            min=0,
            help="Number of resources above which a second person has to approve a cascade; 0: no limit. They are "
            "counted in its inventory, and again in each later inventory that deletes follow. A container of objects "
            "counts as one.",
        ),
        cfg.IntOpt(
            "deletions_a_day",
            default=0,
            min=0,
            help="Number of cascades in any 24 hours that need no approval; 0: no limit. This counts the cascades of "
            "projects of the same domain, and those that the same user requested in any domain. Each further cascade "
            "waits for a second person before its project is locked, and so does a retry more than 24 hours after the "
            "request. Dry runs and reports do not count.",
        ),
    ],
    "deletion": [
        cfg.ListOpt(
            "reminders",
            default=[30, 7, 1],
            item_type=cfg.types.Integer(min=1, max=3650),
            mutable=True,
            help="Days before the date of a deletion at which its condition 'scheduled' changes, so that a "
            "notification and the notices of [notices] remind of it. Empty: never.",
        ),
        cfg.FloatOpt(
            "recovery_window",
            default=0.0,
            min=0.0,
            max=3650.0,
            help="Days that a cascade waits between its inventory and its first delete; 0: none. The project stays "
            "locked, nothing in it is deleted, and a restore brings it back as it was.",
        ),
    ],
    "engine": [
        cfg.IntOpt(
            "threads", default=4, min=1, help="Number of deletions that one engine process decides on at the same time."
        ),
        cfg.FloatOpt("tick", default=5.0, min=0.1, help="Seconds between two searches for deletions that are due."),
        cfg.IntOpt(
            "stall_after",
            default=600,
            min=1,
            mutable=True,
            help="Seconds without progress after which a deletion is 'stalled'.",
        ),
        cfg.IntOpt(
            "claim_timeout",
            default=30,
            min=1,
            help="Seconds after which a step that no worker has claimed is cast again.",
        ),
        cfg.IntOpt(
            "steps_at_once",
            default=8,
            min=1,
            mutable=True,
            help="Maximum number of sweeps of one deletion that run at the same time, so that no project occupies "
            "every worker. An inventory has many short sweeps: they are sent to the workers in as many batches.",
        ),
        cfg.IntOpt(
            "deletions_at_once",
            default=16,
            min=1,
            mutable=True,
            help="Number of deletions that may be worked on at the same time. These places go round by domain, within "
            "a domain by requester, and to the oldest deletion of a requester. A deletion needs a place until its "
            "verification. It gives the place back while it waits for a person, for the projects below it or for "
            "another try, and waits for a place again before it goes on. It does not count after five minutes in one "
            "status: large projects do not keep small ones waiting.",
        ),
        cfg.IntOpt(
            "attempts",
            default=3,
            min=1,
            mutable=True,
            help="Number of attempts at a listing before a report says 'unknown'.",
        ),
        cfg.FloatOpt(
            "retry_base",
            default=1.0,
            min=0.1,
            mutable=True,
            help="Seconds before the second attempt at a step; doubled before each further one.",
        ),
        cfg.FloatOpt(
            "retry_cap",
            default=60.0,
            min=1.0,
            mutable=True,
            help="The longest wait between two attempts, in seconds. Between two attempts to delete the resources of a "
            "type, the wait is also at most an eighth of the time since the round began, or 10 seconds if that is "
            "more.",
        ),
    ],
    "force": [
        cfg.IntOpt(
            "attempts",
            default=3,
            min=1,
            mutable=True,
            help="Number of attempts to delete the resources of a type, in a deletion under force, before their forced "
            "delete is used, if the type has one. After the same number of attempts again the resources are abandoned.",
        ),
        cfg.IntOpt(
            "patience",
            default=300,
            min=0,
            mutable=True,
            help="Seconds without progress of the whole deletion before the next means of force is used. Set more than "
            "the longest delete that a service accepts and then works on, such as wiping a large volume: otherwise a "
            "slow delete is abandoned.",
        ),
    ],
}

#: Decisions in a row on one deletion before the engine turns to others. More decisions in a row are a defect.
_MAX_DECISIONS = 50


def rules(conf: cfg.ConfigOpts) -> Rules:
    """Return the operator's settings as the core reads them."""

    def seconds(n: float) -> datetime.timedelta:
        return datetime.timedelta(seconds=n)

    return Rules(
        settle=seconds(conf.drain.token_cache_time),
        stall_after=seconds(conf.engine.stall_after),
        claim_timeout=seconds(conf.engine.claim_timeout),
        attempts=conf.engine.attempts,
        retry_base=conf.engine.retry_base,
        retry_cap=conf.engine.retry_cap,
        steps_at_once=conf.engine.steps_at_once,
        scan_steps_at_once=conf.orphans.steps_at_once,
        deletions_at_once=conf.engine.deletions_at_once,
        approval_resources=conf.approval.resources,
        approval_deletions=conf.approval.deletions_a_day,
        reminders=tuple(conf.deletion.reminders),
        recovery_window=datetime.timedelta(days=conf.deletion.recovery_window),
        force_attempts=conf.force.attempts,
        force_patience=seconds(conf.force.patience),
        hold_options=protection.hold_options(conf),
        lien_types=protection.lien_types(conf),
    )


#: Deletions that are announced at most when one gives its place back. One is enough, unless more places are free.
_NEXT = 3


def _gives_place(before: Deletion, after: Deletion) -> bool:
    """Whether a deletion gives its place back, so that another one may go on."""
    return before.queue_state is QueueState.WORKING is not after.queue_state


class Engine:
    """Drives deletions and orphan scans."""

    def __init__(self, conf: cfg.ConfigOpts, name: str, store: Store, bus: Bus) -> None:
        self.name, self.store, self.bus, self.rules = name, store, bus, rules(conf)
        self._conf = conf
        self._tick = float(conf.engine.tick)
        self.alarms = Alarms(bus.decide)
        self._lock = threading.Lock()
        self._failing: set[str] = set()  #: ids at which the last tick failed
        self._deciding: dict[str, bool] = {}  #: ids that a thread decides on; true: decide once more

    def reread(self) -> None:
        """Apply a changed configuration to all further decisions."""
        self.rules = rules(self._conf)

    def handle(self, id_: str) -> None:
        """Decide on a deletion or an orphan scan until there is nothing more to decide now.

        One thread at a time decides on a deletion: steps of one deletion often end at the same moment, and of parallel
        decisions all but one would be lost. If another thread decides on this deletion, mark it for one more decision
        and return.
        """
        with self._lock:
            busy = id_ in self._deciding
            self._deciding[id_] = busy
        if busy:
            return
        try:
            while True:
                self._decide(id_)
                with self._lock:
                    if not self._deciding[id_]:
                        del self._deciding[id_]
                        return
                    self._deciding[id_] = False
        except BaseException:
            with self._lock:
                self._deciding.pop(id_, None)  # a marked deletion is due: the tick takes it up
            raise

    def _decide(self, id_: str) -> None:
        for _ in range(_MAX_DECISIONS):
            try:
                with activity.track("decide", id_):
                    again = self._decide_once(id_)
            except Conflict:
                metrics.CONFLICTS.inc()
                continue  # a worker wrote first: load again
            except NotFound:
                LOG.warning("%s is no deletion and no orphan scan in the store", id_)
                return
            if not again:
                return
        LOG.error("%s: %d decisions in a row; the tick goes on with it", id_, _MAX_DECISIONS)

    def _decide_once(self, id_: str) -> bool:
        """Make one decision; return whether another one should follow at once.

        :raises NotFound: the id is neither that of a deletion nor that of an orphan scan
        """
        try:
            decided = self.store.decide(id_, self._apply, self.rules.deletions_at_once)
        except NotFound:
            return orphan_scans.decide(self.store, self.bus, id_, self.rules)
        return decided is not None and self._carry_out(decided)

    def _carry_out(self, decided: Decided) -> bool:
        """Send what follows from a decision; return whether another one should follow at once."""
        deletion, applied = decided.before, decided.applied
        with our_log.context(deletion_id=deletion.id, project_id=deletion.project_id, request_id=deletion.request_id):
            for event in applied.events:
                LOG.info("%s: %s", event.type, event.message)
        running = {step.id for step in decided.steps if step.state is StepState.RUNNING}
        for step in applied.steps:
            if step.id in running:
                metrics.TAKEOVERS.labels(str(step.kind)).inc()
        for batch in applied.casts:
            self.bus.steps(batch)
        ended = applied.deletion.status not in LIVE
        if deletion.parent_deletion_id and (ended or deletion.attention != applied.deletion.attention):
            self.bus.decide(deletion.parent_deletion_id)
        if _gives_place(deletion, applied.deletion):
            for next_id in self.store.next_ones(self.rules.deletions_at_once, _NEXT):
                self.bus.decide(next_id)
        if not applied.decide_again:
            self._set_alarm(applied.deletion, decided.now)
        return applied.decide_again

    def _set_alarm(self, deletion: Deletion, now: datetime.datetime) -> None:
        """Have the deletion decided on when it is due, and not at the tick after that."""
        if deletion.status in LIVE:
            self.alarms.set(deletion.id, (deletion.wake_at - now).total_seconds())
        else:
            self.alarms.clear(deletion.id)

    def _apply(self, deletion: DeletionCase, steps: tuple[Step, ...], now: datetime.datetime) -> Applied | None:
        """Decide, and return what to save; ``None``: there is nothing to do now."""
        actions = deciding.decide(deletion, steps, now, self.rules)
        if not actions:
            return None
        LOG.debug("deletion %s: %s", deletion.id, ", ".join(type(action).__name__ for action in actions))
        applied = apply(deletion, steps, actions, now)
        events = tuple(dataclasses.replace(event, actor=self.name) for event in applied.events)
        return dataclasses.replace(applied, events=events)

    def run_ticks(self, stop: threading.Event) -> None:
        """Take up every deletion and every orphan scan that is due, until told to stop.

        A deletion whose message was lost is due as well, although nothing else happens to it.
        """
        while not stop.is_set():
            for id_ in self._due():
                if stop.is_set():
                    return
                try:
                    self.handle(id_)
                    self._failing.discard(id_)
                except Exception:  # one record that cannot be decided on must not block the others
                    LOG.exception("the tick failed at %s; the next one tries again", id_)
                    self._failing.add(id_)
            stop.wait(self._tick)

    def _due(self) -> list[str]:
        """Start a scheduled orphan scan; return the ids of all that is due. An error of one does not hide the other.

        The store returns the most overdue deletions only. Those that cannot be decided on stay the most overdue, so
        that they come last, and in addition.
        """
        due: list[str] = []
        try:
            due += self.store.due(without=self._failing)
        except Exception:
            LOG.exception("the tick failed; the next one tries again")
        try:
            orphan_scans.start_scheduled(self._conf, self.store)
            due += filter(None, [self.store.orphan_scan_due()])
        except Exception:
            LOG.exception("the tick for orphan scans failed; the next one tries again")
        return [*due, *self._failing.difference(due)]
