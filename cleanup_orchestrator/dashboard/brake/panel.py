"""The panel."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator.dashboard import panels


class Brake(panels.Panel):
    """Identity → Project Deletion → Brake."""

    name = _("Brake")
    slug = "project_brake"
    rules = ("cleanup:brake:get",)
