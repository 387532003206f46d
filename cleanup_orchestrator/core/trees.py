"""Answers questions about the deletions of the projects below a project. Pure."""

from __future__ import annotations

from cleanup_orchestrator.core.deletion import Child, DeletionView, Status
from cleanup_orchestrator.core.step import StepView
from cleanup_orchestrator.core.transitions import LIVE


def gone_since(deletion: DeletionView, survey: StepView) -> bool:
    """Whether a project below was deleted after the latest survey began."""
    gone = [c for c in deletion.children if c.status is Status.DELETED]
    return any(survey.started_at is None or c.status_at >= survey.started_at for c in gone)


def under_way(deletion: DeletionView, survey: StepView) -> bool:
    """Whether the projects below may still be deleted without a user's action."""
    return gone_since(deletion, survey) or any(c.status in LIVE for c in deletion.children)


def needing_person(deletion: DeletionView) -> tuple[Child, ...]:
    """Return the deletions of the projects below that need a person."""
    return tuple(c for c in deletion.children if c.attention)
