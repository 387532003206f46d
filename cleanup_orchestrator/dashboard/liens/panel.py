"""The panel."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator.dashboard import panels


class Liens(panels.Panel):
    """Identity → Project Deletion → Liens."""

    name = _("Liens")
    slug = "project_liens"
    rules = ("cleanup:liens:list",)
