"""The panel."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator.dashboard import panels


class Deletions(panels.Panel):
    """Identity → Project Deletion → Project Deletions."""

    name = _("Project Deletions")
    slug = "project_deletions"
    rules = ("cleanup:deletions:list",)
