"""Drives orphan scans: loads one, decides, saves it, and casts its parts."""

from __future__ import annotations

import datetime
import threading

from oslo_config import cfg
from oslo_log import log

from cleanup_orchestrator.core import orphan_scan
from cleanup_orchestrator.core.orphan_scan import OrphanScan
from cleanup_orchestrator.messaging.rpc import Bus
from cleanup_orchestrator.store import Conflict, NotFound, ScanUnderWay, Store
from cleanup_orchestrator.store.orphans import new_scan

LOG = log.getLogger(__name__)


class Scans:
    """Drives orphan scans and starts scheduled ones.

    Any number of engines may run.
    """

    def __init__(self, conf: cfg.ConfigOpts, store: Store, bus: Bus) -> None:
        self._conf, self._store, self._bus = conf, store, bus

    @property
    def rules(self) -> orphan_scan.Rules:
        """The operator's settings as decisions read them."""
        return orphan_scan.Rules(
            claim_timeout=datetime.timedelta(seconds=self._conf.engine.claim_timeout),
            attempts=self._conf.engine.attempts,
            retry_base=self._conf.engine.retry_base,
            retry_cap=self._conf.engine.retry_cap,
            parts_at_once=self._conf.orphans.parts_at_once,
        )

    def handle(self, scan_id: str) -> None:
        """Decide on a scan until there is nothing more to decide now."""
        for _ in range(20):
            try:
                scan, parts, now = self._store.orphan_scan(scan_id)
                decided = orphan_scan.advance(scan, parts, now, self.rules)
                if decided.scan == scan and not decided.parts:
                    return
                self._store.save_orphan_scan(scan, decided.scan, decided.parts)
            except Conflict:
                continue  # another process wrote first: load again
            except NotFound:
                LOG.warning("orphan scan %s is not in the store", scan_id)
                return
            if decided.scan.status is not scan.status:
                LOG.info("orphan scan %s: %s: %s", scan_id, decided.scan.status, decided.scan.message)
            for part_id in decided.casts:
                self._bus.orphan_scan_part(part_id)
            if not decided.again:
                return

    def tick(self) -> None:
        """Take up the scan that is due, or start a scheduled one."""
        self.schedule()
        if (due := self._store.orphan_scan_due()) is not None:
            self.handle(due)

    def schedule(self) -> OrphanScan | None:
        """Start a scan if the schedule says so; of several engines one starts it."""
        hours = self._conf.orphans.schedule_interval
        if not hours:
            return None
        try:
            scan: OrphanScan | None = self._store.create_orphan_scan(
                new_scan(self._conf, scheduled=True), datetime.timedelta(hours=hours)
            )
        except ScanUnderWay:
            return None
        if scan is not None:
            LOG.info("orphan scan %s: begun by schedule", scan.id)
        return scan

    def run_ticks(self, stop: threading.Event) -> None:
        """Tick until told to stop."""
        while not stop.is_set():
            try:
                self.tick()
            except Exception:
                LOG.exception("the tick for orphan scans failed; the next one tries again")
            stop.wait(float(self._conf.engine.tick))
