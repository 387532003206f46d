"""The list of the deletions."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, pages
from cleanup_orchestrator.dashboard.deletions import filters, states
from cleanup_orchestrator.sdk.text import DELETION_ID


def _row(deletion: sdk.Deletion) -> dict[str, Any]:
    blocked = states.condition(deletion, "blocked")
    return {
        "deletion": deletion,
        "conditions": states.notable(deletion),
        "blocked": blocked.message if blocked else "",
        "lists_only": states.lists_only(deletion),
    }


class Index(pages.Page):
    """The list, latest first."""

    page_title = _("Project Deletions")
    template_name = "project_cleanup/deletions/index.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return one page of the list, and the filter."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        request = self.request
        form, query = filters.query_of(request)
        marker = request.GET.get("marker", "")
        if not DELETION_ID.fullmatch(marker):
            marker = ""
        proxy = calls.proxy(request)
        try:
            deletions, more = pages.page_of(proxy.deletions(limit=pages.PAGE + 1, marker=marker or None, **query))
        except sdk.ApiError as exc:
            if exc.status_code != 400 or not marker:
                raise
            marker = ""  # of a deletion that is no longer recorded: back to the first page
            deletions, more = pages.page_of(proxy.deletions(limit=pages.PAGE + 1, **query))
        return context | {
            "filter": form,
            "may_request": calls.allowed_somewhere(request, "cleanup:deletions:create"),
            "of_domain": bool(calls.credentials(request).get("domain_id")),
            "filter_id": "pc-filter",
            "filtered": any(name != "marker" and value for name, value in request.GET.items()),
            "rows": [_row(each) for each in deletions],
            "moving": any(not each.finished_at for each in deletions),
            "next_url": pages.next_link(request, deletions[-1].id) if more else "",
            "first_url": pages.first_link(request) if marker else "",
        }
