"""The Django application."""

from __future__ import annotations

from django.apps import AppConfig


class ProjectCleanup(AppConfig):
    """The panels, their templates and their static files."""

    name = "cleanup_orchestrator.dashboard"
    label = "project_cleanup"
    verbose_name = "Project deletions"

    def ready(self) -> None:
        """Add the actions to the table of Identity → Projects."""
        from cleanup_orchestrator.dashboard.deletions import project_actions

        project_actions.add()
