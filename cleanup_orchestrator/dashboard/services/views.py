"""The pages of the panel."""

from __future__ import annotations

import urllib.parse
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, pages, projects

#: Who answers for the resources of a service: in words, and the CSS class of the label.
_ANSWERED_BY = {
    "unsupported": (_("Unsupported: blocks deletions"), "bad"),
    "waived": (_("Waived: deletions skip it"), "warn"),
    "plugin": (_("A plugin"), "good"),
    "protocol": (_("The service itself"), "good"),
    "nothing_to_own": (_("Has no resources of projects"), "plain"),
}

#: More types than these are folded up.
_TYPES = 6


class FilterForm(projects.ProjectForm):
    """Applies the waivers for one project as well."""

    project = projects.ProjectField(required=False, label=_("As for the deletion of project (name or ID)"))


class Index(pages.ListPage):
    """The services of the catalog, those that block deletions first."""

    page_title = _("Services")
    template_name = "project_cleanup/services/index.html"
    table_id, filter_id = "services", "pc-service-filter"
    columns = (_("Service"), _("Region"), _("Who lists its resources"), _("Types of resources"), _("Details"))

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the services."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        form = FilterForm(self.request.GET or None, request=self.request)
        context |= {"filter": form, "filtered": form.is_bound}
        if form.is_bound and not form.is_valid():
            return context | {"nothing": False}
        project_id = form.cleaned_data["project"] if form.is_bound else None
        services = sorted(calls.proxy(self.request).services(project_id or None), key=_order)
        may_waive = calls.allowed(self.request, "cleanup:waivers:create")
        may_see = calls.allowed(self.request, "cleanup:waivers:list")
        return context | {
            "rows": [_row(service, may_waive, may_see) for service in services],
            "may_waive": may_waive,
            "unsupported": sum(service.answered_by == "unsupported" for service in services),
        }


def _order(service: sdk.Service) -> tuple[int, str, str]:
    order = list(_ANSWERED_BY)
    urgency = order.index(service.answered_by) if service.answered_by in ("unsupported", "waived") else len(order)
    return urgency, service.service_type, service.region


def _row(service: sdk.Service, may_waive: bool, may_see: bool) -> dict[str, Any]:
    words, label = _ANSWERED_BY.get(service.answered_by, (service.answered_by, "plain"))
    waive = may_waive and service.answered_by == "unsupported"
    asked = urllib.parse.urlencode({"service_type": service.service_type, "region": service.region})
    shown = urllib.parse.urlencode({"service_type": service.service_type})
    return {
        "service": service,
        "answered_by": words,
        "label": f"pc-label-{label}",
        "folded": len(service.types or []) > _TYPES,
        "waive_url": f"{reverse('horizon:identity:project_waivers:create')}?{asked}" if waive else "",
        "waiver_url": (
            f"{reverse('horizon:identity:project_waivers:index')}?{shown}" if service.waiver_id and may_see else ""
        ),
    }
