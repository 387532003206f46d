"""Tells whether a report proves that its project owns nothing. Pure.

The gate in Keystone's policy asks this before a delete that the orchestrator does not make.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from cleanup_orchestrator.core.deletion import Deletion, DeletionView, Status
from cleanup_orchestrator.core.selection import EVERYTHING
from cleanup_orchestrator.core.snapshot import done
from cleanup_orchestrator.core.step import Outcome, StepKind, StepView
from cleanup_orchestrator.core.texts import enumerated
from cleanup_orchestrator.core.times import utc

#: Types that one answer names at most.
_NAMED = 10


def latest(deletions: Iterable[Deletion]) -> Deletion | None:
    """Return the deletion that ended last; ``None``: one is under way, or there is none.

    A project has one deletion under way at most. So the one that ended last has the latest inventory.
    """
    every = tuple(deletions)
    ended = {(d.finished_at, d.id): d for d in every if d.finished_at is not None}
    return ended[max(ended)] if ended and len(ended) == len(every) else None


def doubt(report: DeletionView, steps: Iterable[StepView], since: datetime.datetime) -> str:
    """Return why a deletion is no proof that its project is empty; an empty text: it is one.

    A resource that appears after its type was listed is not in the report. Therefore the age of a proof counts from the
    begin of its first list.

    :param since: the earliest begin that counts
    """
    profile = report.profile
    if report.status is not Status.PLANNED or not profile.requested:
        return f"deletion {report.id} ended as {report.status}, and only a dry run proves that a project is empty"
    if profile.keeps_project or report.selection != EVERYTHING:
        return f"dry run {report.id} is about a part of the project"
    if report.brake is not None:
        return "the brake is set"
    if report.liens:
        return f"{report.liens[0]} is in force"
    every = tuple(steps)
    if report.waivers or any(step.waived for step in every):
        return f"dry run {report.id} relies on a waiver"
    if not _surveyed(report, every):
        return f"dry run {report.id} did not read the catalog to its end"
    listed = [s for s in every if s.kind in (StepKind.SWEEP, StepKind.UNSUPPORTED) and not s.project_setting]
    if not listed:
        return f"dry run {report.id} listed no type"
    if unclear := [step for step in listed if not (done(step, report.round) and step.outcome is Outcome.CLEAR)]:
        return f"dry run {report.id} is not empty: " + enumerated(sorted(map(_named, unclear)), _NAMED)
    begun = [step.started_at for step in listed if step.started_at is not None]
    if len(begun) < len(listed) or min(begun) < since:
        return f"dry run {report.id} began to list before {utc(since)}, which is too long ago"
    return ""


def _surveyed(report: Deletion, steps: Iterable[StepView]) -> bool:
    surveys = [step for step in steps if step.kind is StepKind.SURVEY]
    return bool(surveys) and all(done(s, report.since_round) and s.outcome is Outcome.CLEAR for s in surveys)


def _named(step: StepView) -> str:
    what = f"{step.remaining} left" if step.outcome is Outcome.LEFTOVERS else step.reason or "not listed"
    return f"{step.place.replace('.@', '@')} ({what})"
