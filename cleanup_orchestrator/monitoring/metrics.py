"""Counts what this process does, for Prometheus. What is counted in the store, and the port, are in ``monitoring``.

No label ever has a project's or a deletion's id, a region, a name or a URL: the number of series stays the same however
many projects are deleted. The counters are the module's, as is usual with Prometheus: they are of the process.
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
    """The ``process_*`` metrics, also where ``/proc`` shows processes alone (``ProcSubset=pid`` of systemd)."""

    def _boot_time(self) -> float:
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


_OfThisProcess(registry=REGISTRY)

STEPS = Counter(
    f"{PREFIX}_steps",
    "Steps that this process ended, by how: an outcome, dropped (not its own any more) or handed_back (at its stop).",
    ["kind", "outcome"],
    registry=REGISTRY,
)
STEP_SECONDS = Histogram(
    f"{PREFIX}_step_duration_seconds",
    "How long steps took, from taking them to their saved result.",
    ["kind", "service"],
    buckets=(0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
CALLS = Counter(
    f"{PREFIX}_calls",
    "API calls to the cloud, by how they were answered; none: not at all.",
    ["service", "status"],
    registry=REGISTRY,
)
WAITS = Histogram(
    f"{PREFIX}_rate_wait_seconds",
    "How long API calls waited for their turn under [limits], the ones without a wait included.",
    ["service"],
    buckets=(0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60),
    registry=REGISTRY,
)
TAKEOVERS = Counter(
    f"{PREFIX}_lease_takeovers",
    "Steps that this engine handed out again because the lease of their worker had run out.",
    ["kind"],
    registry=REGISTRY,
)
CONFLICTS = Counter(
    f"{PREFIX}_conflicts",
    "Decisions of this engine that were made again because somebody else wrote first.",
    registry=REGISTRY,
)
CASTS_FAILED = Counter(
    f"{PREFIX}_casts_failed", "Messages that the broker did not take; the tick makes up for them.", registry=REGISTRY
)
NOTIFICATIONS = Counter(
    f"{PREFIX}_notifications",
    "Notifications of this process: sent, failed, or dropped because too many were waiting.",
    ["result"],
    registry=REGISTRY,
)
HUNG = Gauge(
    f"{PREFIX}_hung_threads",
    "Threads of this process that were given up because their step hung, and that have not ended.",
    registry=REGISTRY,
)
WORKING = Gauge(f"{PREFIX}_work_in_progress", "Decisions and steps that this process works on now.", registry=REGISTRY)
WORKING.set_function(lambda: len(activity.items()))


def step_ended(step: Step, outcome: str, seconds: float) -> None:
    """Count a step that this process had taken."""
    STEPS.labels(str(step.kind), outcome).inc()
    STEP_SECONDS.labels(str(step.kind), step.service or "-").observe(seconds)


@contextlib.contextmanager
def call(endpoint_filter: Mapping[str, Any] | None) -> Iterator[Callable[[int], None]]:
    """Count one API call; the block is given what to say its status with.

    :param endpoint_filter: keystoneauth's; a call without one is for a token
    """
    service = str((endpoint_filter or {}).get("service_type") or "identity")
    # One name for "volume", "volumev3" and "block-storage"; the unknown ones are those of our plugins, so they are few.
    service = _NAMES.get_service_type(service) or service
    answered, made = "none", True

    def say(status: int) -> None:
        nonlocal answered
        answered = f"{status // 100}xx"

    try:
        yield say
    except CleanupError:  # ours, before anything was sent: the guard refused it, or it got no turn
        made = False
        raise
    except Exception as error:
        if status := getattr(error, "http_status", None):
            say(int(status))
        raise
    finally:
        if made:
            CALLS.labels(service, answered).inc()


def waited(service: str, _region: str, seconds: float) -> None:
    """Count a wait for a turn."""
    WAITS.labels(service or "-").observe(seconds)


def outcomes() -> tuple[str, ...]:
    """Return every value of the label ``outcome``."""
    return (*(str(outcome) for outcome in Outcome if outcome), "dropped", "handed_back")
