"""The panel."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator.dashboard import panels


class Waivers(panels.Panel):
    """Identity → Project Deletion → Waivers."""

    name = _("Waivers")
    slug = "project_waivers"
    rules = ("cleanup:waivers:list",)
