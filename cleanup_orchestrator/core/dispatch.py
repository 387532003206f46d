"""Says when a step is dispatched, lost, tried again and done. Pure.

This is the same for the steps of deletions and of orphan scans.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable

from cleanup_orchestrator.core import backoff
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Step, StepResult, StepState


def under_way_until(step: Step, rules: Rules) -> datetime.datetime | None:
    """Return when a step under way counts as lost; ``None`` if it is not under way.

    The time may be in the past.
    """
    if step.state is StepState.DISPATCHED:
        assert step.dispatched_at is not None
        return step.dispatched_at + rules.claim_timeout
    if step.state is StepState.RUNNING:
        assert step.lease_until is not None
        return step.lease_until
    return None


def busy_until(steps: Iterable[Step], now: datetime.datetime, rules: Rules) -> list[datetime.datetime]:
    """Return when each of the steps under way counts as lost. A lost step does not count as busy."""
    return [until for step in steps if (until := under_way_until(step, rules)) is not None and until > now]


def retry_at(step: Step, rules: Rules, cap: float | None = None) -> datetime.datetime:
    """Return when a finished step may be tried again.

    :param cap: the longest wait, in seconds; without it, that of the rules
    """
    assert step.finished_at is not None
    return step.finished_at + backoff.delay(step.attempt, rules.retry_base, rules.retry_cap if cap is None else cap)


def dispatched(step: Step, round_: int, attempt: int, now: datetime.datetime) -> Step:
    """Return a step as it is dispatched now."""
    return dataclasses.replace(
        step, round=round_, attempt=attempt, state=StepState.DISPATCHED, dispatched_at=now, lease_until=None
    )


def finished(step: Step, result: StepResult, now: datetime.datetime) -> Step:
    """Return a step with the part of a result that every kind of step has."""
    same = (step.outcome, step.reason) == (result.outcome, result.reason)
    return dataclasses.replace(
        step,
        state=StepState.DONE,
        outcome=result.outcome,
        reason=result.reason,
        message=result.message,
        calls=step.calls + result.calls,
        same=step.same + 1 if same else 1,
        remedy=result.remedy,
        finished_at=now,
        lease_until=None,
    )
