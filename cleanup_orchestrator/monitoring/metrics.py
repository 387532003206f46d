"""The Prometheus metrics of this process.

``monitoring.server`` has the metrics of the store, and the port. Labels never contain ids, regions, names or URLs, so
that the number of series does not grow with the number of projects. The metrics are module globals, as usual with the
Prometheus client.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import os_service_types
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from cleanup_orchestrator.core.step import Outcome, Step
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.monitoring import activity

PREFIX = "cleanup_orchestrator"
_NAMES = os_service_types.ServiceTypes()

REGISTRY = CollectorRegistry()


class _OfThisProcess(ProcessCollector):
    """The ``process_*`` metrics, also with ``ProcSubset=pid`` of systemd.

    With that setting ``/proc`` shows only processes.
    """

    def _boot_time(self) -> float:
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


_OfThisProcess(registry=REGISTRY)

STEPS = Counter(
    f"{PREFIX}_steps",
    "Steps that this process ended, by outcome; dropped: the lease was lost, released: the process stopped.",
    ["kind", "outcome"],
    registry=REGISTRY,
)
STEP_SECONDS = Histogram(
    f"{PREFIX}_step_duration_seconds",
    "Duration of steps, from the claim to the saved result.",
    ["kind", "service"],
    buckets=(0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
CALLS = Counter(
    f"{PREFIX}_calls",
    "API calls to the cloud, by the class of the HTTP status; none: no answer.",
    ["service", "status"],
    registry=REGISTRY,
)
WAITS = Histogram(
    f"{PREFIX}_rate_wait_seconds",
    "Time that API calls waited for a permit under [limits], including calls that did not wait.",
    ["service"],
    buckets=(0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60),
    registry=REGISTRY,
)
TAKEOVERS = Counter(
    f"{PREFIX}_lease_takeovers",
    "Steps that this engine dispatched again because the lease of their worker had expired.",
    ["kind"],
    registry=REGISTRY,
)
CONFLICTS = Counter(
    f"{PREFIX}_conflicts",
    "Decisions of this engine that were repeated because a worker wrote first.",
    registry=REGISTRY,
)
CASTS_FAILED = Counter(
    f"{PREFIX}_casts_failed", "Messages that the broker did not accept; the tick replaces them.", registry=REGISTRY
)
NOTIFICATIONS = Counter(
    f"{PREFIX}_notifications",
    "Notifications of this process: sent, failed, or dropped because the queue was full.",
    ["result"],
    registry=REGISTRY,
)
HUNG = Gauge(
    f"{PREFIX}_hung_threads",
    "Threads of this process that were abandoned because their step hung, and that have not ended.",
    registry=REGISTRY,
)
WORKING = Gauge(f"{PREFIX}_work_in_progress", "Decisions and steps that this process works on now.", registry=REGISTRY)
WORKING.set_function(lambda: len(activity.items()))


def step_ended(step: Step, outcome: str, seconds: float) -> None:
    """Count a step that this process had claimed."""
    STEPS.labels(str(step.kind), outcome).inc()
    STEP_SECONDS.labels(str(step.kind), step.service or "-").observe(seconds)


@contextlib.contextmanager
def call(endpoint_filter: Mapping[str, Any] | None) -> Iterator[Callable[[int], None]]:
    """Count one API call; yield a function that takes its status.

    :param endpoint_filter: of keystoneauth; a call for a token has none
    """
    service = str((endpoint_filter or {}).get("service_type") or "identity")
    # One name for "volume", "volumev3" and "block-storage". Unknown names come only from plugins, so there are few.
    service = _NAMES.get_service_type(service) or service
    answered, made = "none", True

    def record(status: int) -> None:
        nonlocal answered
        answered = f"{status // 100}xx"

    try:
        yield record
    except CleanupError:  # raised before anything was sent: the guard or the rate limit refused the call
        made = False
        raise
    except Exception as error:
        if status := getattr(error, "http_status", None):
            record(int(status))
        raise
    finally:
        if made:
            CALLS.labels(service, answered).inc()


def waited(service: str, _region: str, seconds: float) -> None:
    """Record the wait for a permit of the rate limiter."""
    WAITS.labels(service or "-").observe(seconds)


def outcomes() -> tuple[str, ...]:
    """Return all values of the label ``outcome``."""
    return (*(str(outcome) for outcome in Outcome if outcome), "dropped", "released")
