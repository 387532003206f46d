"""The pages of the panel."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator.dashboard import pages


class Index(pages.Page):
    """The list."""

    page_title = _("Deletions")
    template_name = "project_cleanup/deletions/index.html"
