"""The monitoring port of a process: ``/metrics`` for Prometheus, and ``/healthcheck``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_log import log
from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily

from cleanup_orchestrator import http_server
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.step import StepState
from cleanup_orchestrator.monitoring.health import PATH, Health
from cleanup_orchestrator.monitoring.metrics import PREFIX, REGISTRY
from cleanup_orchestrator.monitoring.probe import CachedProbe
from cleanup_orchestrator.store import Figures

LOG = log.getLogger(__name__)

OPTS = {
    "metrics": [
        cfg.HostAddressOpt(
            "host",
            default="127.0.0.1",
            help="Address that the monitoring port (/metrics and /healthcheck, without authentication) listens on.",
        ),
        cfg.PortOpt(
            "port",
            default=0,
            help="Port of the monitoring server of cleanup-orchestrator-api and cleanup-orchestrator-all-in-one; 0: no "
            "process has one. So that one file serves all, cleanup-orchestrator-engine listens on the next port and "
            "cleanup-orchestrator-worker on the one after that. A second worker of a host gets its own through its "
            "environment: OS_METRICS__PORT, the number from which it counts. Under uWSGI there is none.",
        ),
    ]
}

#: Which port of the three a process takes.
OFFSETS = {"api": 0, "engine": 1, "worker": 2}

_LIMITS = http_server.Limits(threads=4, patience=10.0, connections=200)

#: Seconds for which the figures of the store are given again: many who scrape cost one query.
_KEEP = 10.0
#: Seconds after which a scrape goes without them: Prometheus gives up after ten by default.
_TIMEOUT = 5.0


class StoreCollector:
    """Gives the store's figures to those who scrape. A store that does not answer gives none, and ``store_up`` 0."""

    def __init__(self, figures: Callable[[], Figures]) -> None:
        self._figures = CachedProbe(figures, _TIMEOUT, _KEEP)

    def describe(self) -> list[GaugeMetricFamily]:
        """Return the families without values: the store is not asked when the process starts."""
        nothing = Figures({}, 0, {}, 0.0, 0.0)
        return self._families(nothing, True)

    def collect(self) -> list[GaugeMetricFamily]:
        """Ask the store."""
        try:
            return self._families(self._figures(), True)
        except Exception as error:
            LOG.warning("no figures of the store: %s", type(error).__name__)
            return self._families(None, False)

    @staticmethod
    def _families(figures: Figures | None, up: bool) -> list[GaugeMetricFamily]:
        def one(name: str, text: str, value: float) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)

        families = [one("store_up", "Whether the store gave its figures; without them they are missing.", float(up))]
        if figures is None:
            return families
        deletions = GaugeMetricFamily(f"{PREFIX}_deletions", "Deletions on record, by status.", labels=["status"])
        for status in Status:
            deletions.add_metric([str(status)], figures.deletions.get(str(status), 0))
        steps = GaugeMetricFamily(
            f"{PREFIX}_steps_under_way", "Steps handed out and not ended: dispatched or running.", labels=["state"]
        )
        for state in (StepState.DISPATCHED, StepState.RUNNING):
            steps.add_metric([str(state)], figures.steps.get(str(state), 0))
        return [
            *families,
            deletions,
            one("deletions_stalled", "Live deletions without progress: each names its blockers.", figures.stalled),
            one("deletions_held", "Live deletions that a lien, the brake or the hours hold.", figures.held),
            one("liens", "Liens in force.", figures.liens),
            one("brake_on", "Whether the brake is on: nothing is locked or deleted.", float(figures.brake)),
            steps,
            one(
                "unclaimed_step_age_seconds",
                "Age of the oldest step that no worker has taken; grows when there are too few workers, or none.",
                figures.unclaimed,
            ),
            one(
                "overdue_seconds",
                "By how much the most overdue deletion should have been looked at; grows when no engine runs.",
                figures.overdue,
            ),
        ]


class Server:
    """The monitoring port: ``/metrics`` and ``/healthcheck``, for machines of the operator only."""

    def __init__(self, host: str, port: int, health: Health, figures: Callable[[], Figures] | None = None) -> None:
        """Listen.

        :param figures: of the store; none: this process does not give them
        :raises OSError: when the address is in use
        """
        registry = CollectorRegistry()
        registry.register(REGISTRY)
        if figures is not None:
            registry.register(StoreCollector(figures))
        pages: dict[str, Any] = {"/metrics": make_wsgi_app(registry, disable_compression=True), PATH: health}

        def application(environ: dict[str, Any], start_response: Any) -> Any:
            page = pages.get(environ.get("PATH_INFO", ""))
            if page is None:
                start_response("404 Not Found", [("Content-Type", "text/plain")])
                return [b"there are /metrics and /healthcheck\n"]
            return page(environ, start_response)

        self._http = http_server.Server(host, port, application, _LIMITS)
        self._thread = threading.Thread(target=self._http.serve, name="monitoring", daemon=True)
        self._thread.start()
        LOG.info("monitoring: listening on %s port %d", host, port)

    def close(self) -> None:
        """Stop listening."""
        self._http.stop()
        self._thread.join(timeout=1)
