"""The monitoring port of a process: ``/metrics`` and ``/healthcheck``."""

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
            help="Monitoring port of cleanup-orchestrator-api and cleanup-orchestrator-all-in-one. 0 disables the "
            "monitoring port of all processes. cleanup-orchestrator-engine listens on the next port, and "
            "cleanup-orchestrator-worker on the one after it, so that all processes can share one configuration "
            "file. For a second worker on a host set another base port in its environment (OS_METRICS__PORT). "
            "Under uWSGI there is no monitoring port.",
        ),
    ]
}

#: Offset of a process's port from the configured one.
OFFSETS = {"api": 0, "engine": 1, "worker": 2}

_LIMITS = http_server.Limits(threads=4, patience=10.0, connections=200)

#: Seconds for which the figures of the store are cached.
_KEEP = 10.0
#: Timeout of the query of the figures in seconds. Shorter than the default scrape timeout of Prometheus (10).
_TIMEOUT = 5.0


class StoreCollector:
    """Collects the figures of the store.

    If the store does not answer, ``store_up`` is 0 and the other figures are missing.
    """

    def __init__(self, figures: Callable[[], Figures]) -> None:
        self._figures = CachedProbe(figures, _TIMEOUT, _KEEP)

    def describe(self) -> list[GaugeMetricFamily]:
        """Return the metric families without asking the store."""
        nothing = Figures({}, 0, {}, 0.0, 0.0)
        return self._families(nothing, True)

    def collect(self) -> list[GaugeMetricFamily]:
        """Return the metric families with the figures of the store."""
        try:
            return self._families(self._figures(), True)
        except Exception as error:
            LOG.warning("no figures of the store: %s", type(error).__name__)
            return self._families(None, False)

    @staticmethod
    def _families(figures: Figures | None, up: bool) -> list[GaugeMetricFamily]:
        def one(name: str, text: str, value: float) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)

        families = [
            one("store_up", "1 if the store returned its figures. If 0, the other figures are missing.", float(up))
        ]
        if figures is None:
            return families
        deletions = GaugeMetricFamily(f"{PREFIX}_deletions", "Recorded deletions, by status.", labels=["status"])
        for status in Status:
            deletions.add_metric([str(status)], figures.deletions.get(str(status), 0))
        steps = GaugeMetricFamily(
            f"{PREFIX}_steps_under_way", "Steps that are dispatched or running.", labels=["state"]
        )
        for state in (StepState.DISPATCHED, StepState.RUNNING):
            steps.add_metric([str(state)], figures.steps.get(str(state), 0))
        return [
            *families,
            deletions,
            one("deletions_stalled", "Live deletions without progress.", figures.stalled),
            one("deletions_blocked", "Live deletions that need an action of a person.", figures.blocked),
            one(
                "deletions_held",
                "Live deletions that a lien, the brake or a delete window holds.",
                figures.on_hold,
            ),
            one("liens", "Liens in force.", figures.liens),
            one("brake_on", "1 if the brake is on: nothing is locked or deleted.", float(figures.brake)),
            steps,
            one(
                "unclaimed_step_age_seconds",
                "Age of the oldest step that no worker has claimed. Grows if there are too few workers.",
                figures.unclaimed,
            ),
            one(
                "overdue_seconds",
                "Delay of the most overdue decision about a deletion. Grows if engines hang or are too slow.",
                figures.overdue,
            ),
        ]


class Server:
    """Serves ``/metrics`` and ``/healthcheck`` without authentication."""

    def __init__(self, host: str, port: int, health: Health, figures: Callable[[], Figures] | None = None) -> None:
        """Listen.

        :param figures: returns the figures of the store; ``None``: this process does not publish them
        :raises OSError: if the address is in use
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
