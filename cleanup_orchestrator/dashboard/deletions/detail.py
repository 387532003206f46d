"""The page of one deletion, with its tabs."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from django.views import generic

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, pages
from cleanup_orchestrator.dashboard.deletions import actions, states, tabs
from cleanup_orchestrator.dashboard.deletions.project_actions import request_url
from cleanup_orchestrator.sdk import report_page


def buttons_of(request: HttpRequest, deletion: sdk.Deletion) -> set[str]:
    """Return the actions that the policy and the state of a deletion allow this user."""
    # The user who requested a deletion cannot approve it.
    approvable = states.condition(deletion, "approval") and deletion.user_id != request.user.id
    possible = {
        "retry": ("cleanup:deletions:retry", deletion.retryable),
        "approve": ("cleanup:deletions:approve", approvable and not deletion.finished_at),
        "restore": ("cleanup:deletions:restore", deletion.restorable),
        "cancel": ("cleanup:deletions:cancel", deletion.cancellable),
        "force": ("cleanup:projects:force", deletion.forcible),
    }
    shown = {name for name, (rule, now) in possible.items() if now and calls.allowed_for(request, rule, deletion)}
    if actions.changeable(request, deletion):
        shown.add("change")
    if {"restore", "cancel"} <= shown:  # the same call in two words
        shown.remove("cancel" if states.gives_back(deletion) else "restore")
    return shown


def cascade_url(request: HttpRequest, deletion: sdk.Deletion) -> str:
    """Return the URL of the request that deletes what a report found; empty: there is no such next step."""
    found = deletion.mode == "report" and deletion.status == "leftovers" and deletion.attention
    if not found or not calls.allowed_for(request, "cleanup:deletions:create", deletion):
        return ""
    return f"{request_url([deletion.project_id])}&mode=cascade"


class Detail(pages.Page):
    """The page."""

    # The title is a template: the name is rendered into it, and escaped.
    page_title = _("Deletion of project {{ name }}")
    template_name = "project_cleanup/deletions/detail.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the deletion, and what its tab shows."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        proxy = calls.proxy(self.request)
        deletion = proxy.get_deletion(str(kwargs["deletion_id"]))
        shown = tabs.of_deletion(self.request, deletion)
        wanted = self.request.GET.get("tab", "")
        tab = next((each for each in shown if each.name == wanted), shown[0])
        context |= {
            "deletion": deletion,
            "name": pages.text(deletion.project_name or deletion.project_id),
            "conditions": states.notable(deletion),
            "buttons": buttons_of(self.request, deletion),
            "cascade_url": cascade_url(self.request, deletion),
            "may_report": calls.allowed_for(self.request, "cleanup:deletions:report", deletion),
            "own_approval": bool(states.condition(deletion, "approval") and deletion.user_id == self.request.user.id),
            "tabs": shown,
            "tab": tab,
            "tab_template": f"project_cleanup/deletions/_{tab.name}.html",
            "moving": not deletion.finished_at,
        }
        return context | tab.content(self.request, proxy, deletion)


class Report(pages.Guarded, generic.View):
    """The report of a deletion as a file: an HTML page that the browser does not show within Horizon."""

    def get(self, request: HttpRequest, deletion_id: Any) -> HttpResponse:
        """Return the file."""
        found = calls.proxy(request, calls.LONG_TIMEOUT).deletion_report(str(deletion_id))
        answer = HttpResponse(report_page.page(dict(found.items())), content_type="text/html; charset=utf-8")
        answer["Content-Disposition"] = f'attachment; filename="deletion-report-{deletion_id}.html"'
        answer["X-Content-Type-Options"] = "nosniff"
        return answer
