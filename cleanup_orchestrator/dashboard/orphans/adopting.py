"""The pages that adopt the orphans of a dead project: first a dry run, then the adoption."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import Http404
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, pages
from cleanup_orchestrator.dashboard.orphans import views
from cleanup_orchestrator.dashboard.orphans.forms import NoFields, TypedId

_DELETION = "horizon:identity:project_deletions:detail"
_ADOPT = "horizon:identity:project_orphans:adopt"


class _OfProject(pages.FormPage):
    """A page about a dead project of a scan."""

    made = ""

    @cached_property
    def client(self) -> sdk.Proxy:
        """The calls of the API."""
        return calls.proxy(self.request)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the project with the counts of its orphans."""
        context = super().get_context_data(**kwargs)
        scan_id, project_id = self.kwargs["scan_id"], self.kwargs["project_id"]
        project = next(self.client.orphan_projects(scan_id, limit=1, project_id=project_id), None)
        if project is None:
            raise Http404
        return context | {"scan_id": scan_id, "project": project}

    def adopt(self, dry_run: bool) -> None:
        """Request the adoption, or its dry run; keep its ID."""
        scan_id, project_id = self.kwargs["scan_id"], self.kwargs["project_id"]
        self.made = self.client.adopt_orphans(scan_id, project_id, dry_run=dry_run).id

    def back(self) -> str:
        """Return the URL of the scan."""
        return str(reverse(views.DETAIL, args=[self.kwargs["scan_id"]]))


class DryRun(_OfProject):
    """Says what an adoption is; starts its dry run."""

    page_title = _("Adopt Orphans")
    template_name = "project_cleanup/orphans/dry_run.html"
    form_class = NoFields
    form_id = "pc-adopt-dry-run"
    submit_label = _("Dry run: list what would be deleted")

    def act(self, form: forms.Form) -> str:
        """Start the dry run."""
        self.adopt(dry_run=True)
        return str(_now("The dry run has started. Nothing is deleted."))

    def done(self) -> str:
        """Return the URL of the result of the dry run."""
        return str(reverse(_ADOPT, args=[self.kwargs["scan_id"], self.kwargs["project_id"], self.made]))


class Adopt(_OfProject):
    """Shows the result of the dry run, and then deletes the orphans."""

    page_title = _("Adopt Orphans")
    template_name = "project_cleanup/orphans/adopt.html"
    form_class = TypedId
    form_id = "pc-adopt"
    submit_label = _("Delete the orphans")
    danger = True

    @cached_property
    def dry_run(self) -> sdk.Deletion:
        """The dry run.

        :raises django.http.Http404: if the deletion is not a dry run of the adoption of this project
        """
        deletion: sdk.Deletion = self.client.get_deletion(self.kwargs["deletion_id"])
        if (deletion.origin, deletion.dry_run, deletion.project_id) != ("adopted", True, self.kwargs["project_id"]):
            raise Http404
        return deletion

    def get_form_kwargs(self) -> dict[str, Any]:
        """Return the arguments of the form."""
        kwargs: dict[str, Any] = super().get_form_kwargs()
        return kwargs | {"project_id": self.kwargs["project_id"]}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the result of the dry run."""
        dry_run = self.dry_run
        counts = [count for count in dry_run.counts if count.found or count.outcome == "unknown"]
        return super().get_context_data(**kwargs) | {
            "dry_run": dry_run,
            "counts": counts,
            "planned": dry_run.status == "planned",
            "can_adopt": calls.allowed(self.request, "cleanup:orphan_scans:adopt"),
        }

    def form_valid(self, form: forms.Form) -> Any:
        """Delete the orphans, after a dry run that succeeded."""
        if self.dry_run.status != "planned":
            form.add_error(None, _now("The dry run has not ended with a result. Nothing was deleted."))
            return self.form_invalid(form)
        return super().form_valid(form)

    def act(self, form: forms.Form) -> str:
        """Delete the orphans."""
        self.adopt(dry_run=False)
        return str(_now("The deletion of the orphans has started."))

    def done(self) -> str:
        """Return the URL of the deletion."""
        return str(reverse(_DELETION, args=[self.made]))
