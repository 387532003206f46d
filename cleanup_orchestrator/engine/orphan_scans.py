"""Decides on orphan scans, and starts scheduled ones."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator.core import orphan_scan
from cleanup_orchestrator.core.orphan_scan import Advance, OrphanScan
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Step
from cleanup_orchestrator.messaging.rpc import Bus
from cleanup_orchestrator.store import ScanUnderWay, Store
from cleanup_orchestrator.store.orphans import new_scan

LOG = log.getLogger(__name__)


def decide(store: Store, bus: Bus, scan_id: str, rules: Rules) -> bool:
    """Make one decision on a scan and cast its steps; return whether another decision should follow at once.

    :raises cleanup_orchestrator.store.NotFound: there is no such scan
    :raises cleanup_orchestrator.store.Conflict: a worker wrote a step first
    """

    def advance(scan: OrphanScan, steps: Sequence[Step], now: datetime.datetime) -> Advance:
        return orphan_scan.advance(scan, steps, now, rules)

    before, decided = store.decide_orphan_scan(scan_id, advance)
    if decided.scan.status is not before.status:
        LOG.info("orphan scan %s: %s: %s", scan_id, decided.scan.status, decided.scan.message)
    for step_id in decided.casts:
        bus.steps([step_id])
    return decided.again


def start_scheduled(conf: cfg.ConfigOpts, store: Store) -> OrphanScan | None:
    """Start a scan if the schedule says so; of several engines one starts it."""
    hours = conf.orphans.schedule_interval
    if not hours:
        return None
    try:
        scan: OrphanScan | None = store.create_orphan_scan(
            new_scan(conf, scheduled=True), datetime.timedelta(hours=hours)
        )
    except ScanUnderWay:
        return None
    if scan is not None:
        LOG.info("orphan scan %s: begun by schedule", scan.id)
    return scan
