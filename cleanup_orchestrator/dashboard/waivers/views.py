"""The pages of the panel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from django.urls import reverse
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, holds, pages
from cleanup_orchestrator.dashboard.waivers.forms import CreateForm, FilterForm


class Index(holds.ListPage):
    """The list."""

    page_title = _("Waivers")
    template_name = "project_cleanup/waivers/index.html"
    noun, table_id, filter_id = "waiver", "waivers", "pc-waiver-filter"
    columns = (
        *(_("State"), _("Service"), _("Region"), _("Project")),
        *(_("Reason"), _("Recorded"), _("Ends")),
    )
    filter_class = FilterForm
    create_rule = "cleanup:waivers:create"
    end_rule = "cleanup:waivers:delete"

    def records(self, filters: dict[str, Any]) -> Iterator[sdk.Waiver]:
        """Return the waivers that match."""
        return calls.proxy(self.request).waivers(limit=pages.PAGE + 1, **filters)


class Create(holds.CreatePage):
    """Records a waiver."""

    page_title = _("Let Deletions Skip a Service")
    template_name = "project_cleanup/waivers/create.html"
    form_class = CreateForm
    form_id = "pc-waiver-create"
    submit_label = _("Record the waiver")
    danger = True
    from_link = ("service_type", "region", "project")

    def get_form_kwargs(self) -> dict[str, Any]:
        """Return the arguments of the form."""
        return super().get_form_kwargs() | {"services": list(calls.proxy(self.request).services())}

    def act(self, form: forms.Form) -> str:
        """Record the waiver."""
        data = form.cleaned_data
        waiver = calls.proxy(self.request).create_waiver(
            data["service_type"] or data["other"],
            data["reason"],
            data["expires_at"],
            region=data["region"] or None,
            project_id=data["project"] or None,
            allow_unknown=data["allow_unknown"],
        )
        return str(
            _now("Deletions skip the service %s while the waiver is in force.") % pages.text(waiver.service_type)
        )

    def back(self) -> str:
        """Return to the list."""
        return str(reverse("horizon:identity:project_waivers:index"))


class Withdraw(holds.EndPage):
    """Withdraws a waiver, after a question."""

    page_title = _("Withdraw a Waiver")
    template_name = "project_cleanup/waivers/withdraw.html"
    noun = "waiver"
    form_id = "pc-waiver-withdraw"
    submit_label = _("Withdraw the waiver")

    def record(self) -> sdk.Waiver:
        """Return the waiver."""
        return calls.proxy(self.request).get_waiver(self.kwargs["waiver_id"])

    def act(self, form: forms.Form) -> str:
        """Withdraw the waiver."""
        calls.proxy(self.request).delete_waiver(self.kwargs["waiver_id"])
        return str(_now("The waiver was withdrawn. Deletions list the service again."))

    def back(self) -> str:
        """Return to the list."""
        return str(reverse("horizon:identity:project_waivers:index"))
