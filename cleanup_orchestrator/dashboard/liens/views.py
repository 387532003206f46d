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
from cleanup_orchestrator.dashboard.liens.forms import CreateForm


class Index(holds.ListPage):
    """The list."""

    page_title = _("Liens")
    template_name = "project_cleanup/liens/index.html"
    noun, table_id, filter_id = "lien", "liens", "pc-lien-filter"
    columns = (_("State"), _("Project"), _("Origin"), _("Reason"), _("Recorded"), _("Ends"))
    create_rule = "cleanup:liens:create"
    end_rule = "cleanup:liens:delete"

    def records(self, filters: dict[str, Any]) -> Iterator[sdk.Lien]:
        """Return the liens that match."""
        return calls.proxy(self.request).liens(limit=pages.PAGE + 1, **filters)


class Create(holds.CreatePage):
    """Records a lien."""

    page_title = _("Protect a Project")
    template_name = "project_cleanup/liens/create.html"
    form_class = CreateForm
    form_id = "pc-lien-create"
    submit_label = _("Record the lien")

    def act(self, form: forms.Form) -> str:
        """Record the lien."""
        data = form.cleaned_data
        lien = calls.proxy(self.request).create_lien(
            data["project"], data["origin"], data["reason"], data["expires_at"]
        )
        return str(_now("Project %s cannot be deleted while the lien is in force.") % pages.text(lien.project_id))

    def back(self) -> str:
        """Return to the list."""
        return str(reverse("horizon:identity:project_liens:index"))


class Remove(holds.EndPage):
    """Removes a lien, after a question."""

    page_title = _("Remove a Lien")
    template_name = "project_cleanup/liens/remove.html"
    noun = "lien"
    form_id = "pc-lien-remove"
    submit_label = _("Remove the lien")

    def record(self) -> sdk.Lien:
        """Return the lien."""
        return calls.proxy(self.request).get_lien(self.kwargs["lien_id"])

    def act(self, form: forms.Form) -> str:
        """Remove the lien."""
        calls.proxy(self.request).delete_lien(self.kwargs["lien_id"])
        return str(_now("The lien was removed. A deletion that it held continues, unless something else holds it."))

    def back(self) -> str:
        """Return to the list."""
        return str(reverse("horizon:identity:project_liens:index"))
