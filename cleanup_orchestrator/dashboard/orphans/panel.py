"""The panel."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator.dashboard import panels


class Orphans(panels.Panel):
    """Identity → Project Deletion → Orphans."""

    name = _("Orphans")
    slug = "project_orphans"
    rules = ("cleanup:orphan_scans:list",)
