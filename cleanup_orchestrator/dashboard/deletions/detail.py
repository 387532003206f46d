"""The page of one deletion, with its tabs."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, pages
from cleanup_orchestrator.dashboard.deletions import states, tabs


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
    return {name for name, (rule, now) in possible.items() if now and calls.allowed_for(request, rule, deletion)}


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
            "own_approval": bool(states.condition(deletion, "approval") and deletion.user_id == self.request.user.id),
            "tabs": shown,
            "tab": tab,
            "tab_template": f"project_cleanup/deletions/_{tab.name}.html",
            "moving": not deletion.finished_at,
        }
        return context | tab.content(self.request, proxy, deletion)
