"""The panel."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator.dashboard import panels


class Services(panels.Panel):
    """Identity → Project Deletion → Services."""

    name = _("Services")
    slug = "project_services"
    rules = ("cleanup:services:list",)
