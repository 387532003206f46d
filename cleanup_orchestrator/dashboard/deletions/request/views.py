"""The page on which the user chooses what to do with projects."""

from __future__ import annotations

import urllib.parse
from functools import cached_property
from typing import Any

from django import forms
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator.dashboard import calls, pages
from cleanup_orchestrator.dashboard.deletions.request import projects
from cleanup_orchestrator.dashboard.deletions.request.forms import MODES, SELECTING, RequestForm


def preview_url(dry_run_ids: list[str]) -> str:
    """Return the URL of the preview of dry runs."""
    query = urllib.parse.urlencode([("dry_run", id_) for id_ in dry_run_ids])
    return f"{reverse('horizon:identity:project_deletions:preview')}?{query}"


class Ask(pages.FormPage):
    """Names the chosen projects, and starts a dry run of each."""

    page_title = _("Delete Projects with Their Contents")
    template_name = "project_cleanup/request/ask.html"
    form_class = RequestForm
    form_id = "pc-request-form"
    submit_label = _("Show what would happen")
    #: IDs of the dry runs that started, if the API refused others.
    started: tuple[str, ...] = ()

    @cached_property
    def chosen(self) -> tuple[list[projects.Project], int]:
        """The projects of the query, and how many are too many."""
        return projects.chosen(self.request)

    def back(self) -> str:
        """Return the URL of the list of projects."""
        return str(reverse("horizon:identity:projects:index"))

    def get_initial(self) -> dict[str, Any]:
        """Return the choices of the query, such as those of the preview that led here."""
        mode = self.request.GET.get("mode")
        initial: dict[str, Any] = {"include_subtree": self.request.GET.get("include_subtree") == "true"}
        initial |= {name: self.request.GET[name] for name in SELECTING if name in self.request.GET}
        return initial | ({"mode": mode} if mode in dict(MODES) else {})

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the projects and the form."""
        context = super().get_context_data(**kwargs)
        chosen, too_many = self.chosen
        context |= {"projects": chosen, "too_many": too_many, "most": projects.MAX_PROJECTS}
        context["any_present"] = any(not project.missing for project in chosen)
        return context | {"started": len(self.started), "preview_url": preview_url(list(self.started))}

    def form_valid(self, form: forms.Form) -> HttpResponse:
        """Start the dry runs. If the API refuses one, say so next to the project."""
        client, wanted, started = calls.proxy(self.request, calls.LONG_TIMEOUT), form.wanted(), []
        asked = [project for project in self.chosen[0] if not project.missing]
        for project in asked:
            try:
                started.append(str(client.create_deletion(project.id, dry_run=True, **wanted).id))
            except calls.FAILURES as exc:
                calls.check_login(exc)
                project.refuse(exc)
        if started and len(started) == len(asked):
            return HttpResponseRedirect(preview_url(started))
        self.started = tuple(started)
        answer: HttpResponse = self.form_invalid(form)
        return answer
