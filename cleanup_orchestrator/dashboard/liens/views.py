"""The pages of the panel."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator.dashboard import pages


class Index(pages.Page):
    """The list."""

    page_title = _("Liens")
    template_name = "project_cleanup/liens/index.html"
