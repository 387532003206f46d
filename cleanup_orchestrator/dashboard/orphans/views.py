"""The pages of scans and of what they found."""

from __future__ import annotations

from typing import Any

from django import forms
from django.urls import reverse
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, pages
from cleanup_orchestrator.dashboard.deletions import listing
from cleanup_orchestrator.dashboard.orphans.forms import Filter, NoFields, ScanForm

INDEX = "horizon:identity:project_orphans:index"
DETAIL = "horizon:identity:project_orphans:detail"

#: Orphans of a page.
_ORPHANS = 50


class Index(pages.ListPage):
    """The list of scans."""

    page_title = _("Orphans")
    template_name = "project_cleanup/orphans/index.html"
    table_id = "scans"
    columns = (_("Started"), _("Started by"), _("Status"), _("Result"), _("Ended"))

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return one page of scans."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        marker = self.request.GET.get("marker")
        client = calls.proxy(self.request)
        scans, more = pages.page_of(client.orphan_scans(limit=pages.PAGE + 1, marker=marker))
        can_cancel = calls.allowed(self.request, "cleanup:orphan_scans:cancel")
        return context | {
            "rows": scans,
            "columns": (*self.columns, *([_("Action")] if can_cancel else [])),
            "moving": any(not scan.finished_at for scan in scans),
            "can_start": calls.allowed(self.request, "cleanup:orphan_scans:create"),
            "can_cancel": can_cancel,
            "first_url": pages.first_link(self.request) if marker else "",
            "next_url": pages.next_link(self.request, scans[-1].id) if more else "",
        }


class Start(pages.FormPage):
    """Start a scan."""

    page_title = _("Start an Orphan Scan")
    template_name = "project_cleanup/orphans/start.html"
    form_class = ScanForm
    form_id = "pc-scan-start"
    submit_label = _("Start the scan")

    started = ""

    def act(self, form: forms.Form) -> str:
        """Start the scan."""
        self.started = calls.proxy(self.request).create_orphan_scan(min_age=form.cleaned_data["min_age"]).id
        return str(_now("The scan has started. This page shows its progress."))

    def back(self) -> str:
        """Return the URL of the list."""
        return str(reverse(INDEX))

    def done(self) -> str:
        """Return the URL of the scan."""
        return str(reverse(DETAIL, args=[self.started]))


class Cancel(pages.FormPage):
    """Cancel a scan."""

    page_title = _("Cancel an Orphan Scan")
    template_name = "project_cleanup/orphans/cancel.html"
    form_class = NoFields
    form_id = "pc-scan-cancel"
    submit_label = _("Cancel the scan")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the scan."""
        context = super().get_context_data(**kwargs)
        return context | {"scan": calls.proxy(self.request).get_orphan_scan(self.kwargs["scan_id"])}

    def act(self, form: forms.Form) -> str:
        """Cancel the scan."""
        calls.proxy(self.request).cancel_orphan_scan(self.kwargs["scan_id"])
        return str(_now("The scan is cancelled."))

    def back(self) -> str:
        """Return the URL of the scan."""
        return str(reverse(DETAIL, args=[self.kwargs["scan_id"]]))


class Detail(pages.Page):
    """A scan: its status, the dead projects that it found, and what it could not list."""

    page_title = _("Orphan Scan")
    template_name = "project_cleanup/orphans/detail.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the scan, and one page of dead projects."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        marker = self.request.GET.get("marker")
        client = calls.proxy(self.request)
        scan = client.get_orphan_scan(self.kwargs["scan_id"])
        projects, more = pages.page_of(client.orphan_projects(scan, limit=pages.PAGE + 1, marker=marker))
        ended = bool(scan.finished_at)
        return context | {
            "scan": scan,
            "ended": ended,
            "has_result": scan.status in ("completed", "incomplete"),
            "parts": len(scan.coverage),
            "parts_done": sum(part.state == "done" for part in scan.coverage),
            "unknown": [part for part in scan.coverage if part.outcome == "unknown"],
            "projects": projects,
            "can_cancel": not ended and calls.allowed(self.request, "cleanup:orphan_scans:cancel"),
            "can_adopt": ended and calls.allowed(self.request, "cleanup:orphan_scans:adopt"),
            "first_url": pages.first_link(self.request) if marker else "",
            "next_url": pages.next_link(self.request, projects[-1].project_id) if more else "",
        }


class Orphans(pages.ListPage):
    """The orphans that a scan found."""

    page_title = _("Orphans of a Scan")
    template_name = "project_cleanup/orphans/orphans.html"
    table_id = "orphans"
    columns = (
        *(_("Service and type"), _("Name and ID"), _("Project ID"), _("Region")),
        *(_("Created"), _("First seen"), _("Last seen")),
    )

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return one page of orphans."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        query = self.request.GET
        marker = query.get("marker", "")
        client = calls.proxy(self.request)
        scan = client.get_orphan_scan(self.kwargs["scan_id"])
        form = Filter(query, types=scan.coverage)
        rows: list[sdk.Orphan] = []
        following = ""
        if form.is_valid():
            path = f"/orphan-scans/{scan.id}/orphans"
            rows, following = listing.page_of(client, sdk.Orphan, path, marker, _ORPHANS, **form.filters())
        return context | {
            "scan": scan,
            "filter": form,
            "filtered": bool(query.get("project") or query.get("what")),
            "rows": rows,
            "nothing": form.is_valid(),
            "first_url": pages.first_link(self.request) if marker else "",
            "next_url": pages.next_link(self.request, following) if following else "",
        }
