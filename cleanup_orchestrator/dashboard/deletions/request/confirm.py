"""The preview of deletions, and their confirmation."""

from __future__ import annotations

import dataclasses
import urllib.parse
from functools import cached_property
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from horizon import messages

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, fields, pages
from cleanup_orchestrator.dashboard.deletions.actions import RecordForm
from cleanup_orchestrator.dashboard.deletions.project_actions import request_url
from cleanup_orchestrator.dashboard.deletions.request import preview, projects
from cleanup_orchestrator.dashboard.deletions.request.forms import ConfirmForm
from cleanup_orchestrator.sdk.text import DELETION_ID

#: The key of the dry runs that this session has confirmed. A page that is sent again requests nothing: a purged
#: project can have new resources.
_REQUESTED = "project_cleanup_requested"
#: How many of them a session keeps.
_REMEMBERED = 100


@dataclasses.dataclass
class Refused:
    """A request without effect."""

    dry_run: sdk.Deletion
    problem: str
    #: Whether the API may have made it: no usable answer arrived.
    unknown: bool = False
    #: The deletion that is under way, if that is why. Empty: none.
    deletion_id: str = ""


class Preview(pages.Page):
    """Shows what dry runs found, and requests what they tried."""

    page_title = gettext_lazy("What Would Happen")
    template_name = "project_cleanup/request/preview.html"

    @cached_property
    def record(self) -> RecordForm:
        """The form with what the request says about itself."""
        return RecordForm(self.request.POST if self.request.method == "POST" else None, prefix="record")

    @cached_property
    def found(self) -> list[preview.Found]:
        """The dry runs of the query. A deletion that is no dry run is left out."""
        ids = dict.fromkeys(id_ for id_ in self.request.GET.getlist("dry_run") if DELETION_ID.fullmatch(id_))
        dry_runs = preview.read(calls.proxy(self.request), list(ids)[: projects.MAX_PROJECTS])
        return [one for one in dry_runs if one.dry_run.dry_run]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the dry runs, and the form if all have ended."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        moving = any(one.moving for one in self.found)
        wanted = [one for one in self.found if one.confirm is not None]
        context |= {"found": self.found, "moving": moving, "again_url": self._again(), "wanted": wanted}
        shown = [self.record, *(one.confirm for one in wanted)]
        context |= {"problems": fields.problems(shown), "form_id": "pc-confirm-form", "record": self.record}
        if wanted:
            context |= {"danger": any(one.deletes for one in wanted), "submit_label": _label(wanted)}
        return context

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the dry runs."""
        self._add_forms()
        answer: HttpResponse = super().get(request, *args, **kwargs)
        return answer

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Request the deletions. If one is not confirmed, none is requested."""
        self._add_forms(request.POST)
        wanted = [one for one in self.found if one.confirm is not None]
        if not wanted or self.record.errors or any(one.confirm.errors for one in wanted):
            return self.render_to_response(self.get_context_data(**kwargs))
        made, refused = self._request(wanted)
        if len(made) == 1 and not refused:
            messages.success(request, _("The deletion of %s is requested.") % pages.text(made[0].project_name))
            return HttpResponseRedirect(reverse("horizon:identity:project_deletions:detail", args=[made[0].id]))
        context = {"page_title": _("Requested Deletions"), "made": made, "refused": refused, "again_url": self._again()}
        context["unknown"] = any(one.unknown for one in refused)
        return render(request, "project_cleanup/request/results.html", context)

    def _add_forms(self, data: Any = None) -> None:
        """Add a form to each dry run that can be requested, if all have ended and the policy allows it."""
        if any(one.moving for one in self.found):
            return
        for one in self.found:
            if one.requestable() and calls.allowed_for(self.request, "cleanup:deletions:create", one.dry_run):
                one.confirm = ConfirmForm(one.dry_run, one.deletes and not one.bound, data=data)

    def _request(self, wanted: list[preview.Found]) -> tuple[list[sdk.Deletion], list[Refused]]:
        """Request each deletion, and return those that the API made and those that it refused."""
        client = calls.proxy(self.request, calls.LONG_TIMEOUT)
        made, refused = list[sdk.Deletion](), list[Refused]()
        requested = list(self.request.session.get(_REQUESTED, ()))
        for one in wanted:
            if one.dry_run.id in requested:
                refused.append(Refused(one.dry_run, _("This was requested already. Make a new dry run.")))
                continue
            try:
                record = self.record.given()
                made.append(client.create_deletion(**one.wanted(bind="not_before" not in record), **record))
            except calls.FAILURES as exc:
                calls.check_login(exc)
                problem, deletion_id = projects.refusal(exc)
                refused.append(Refused(one.dry_run, problem, calls.status_of(exc) >= 500, deletion_id))
            else:
                requested.append(one.dry_run.id)
        self.request.session[_REQUESTED] = requested[-_REMEMBERED:]
        return made, refused

    def _again(self) -> str:
        """Return the URL of the request page with the same projects and choices."""
        runs = [one.dry_run for one in self.found]
        choices = dict[str, str]()
        if runs:
            choices = {"mode": runs[0].mode, "include_subtree": str(bool(runs[0].include_subtree)).lower()}
            selected = preview.selection_of(runs[0]).items()
            choices |= {name: value if isinstance(value, str) else ", ".join(value) for name, value in selected}
        return f"{request_url(str(run.project_id) for run in runs)}&{urllib.parse.urlencode(choices)}"


def _label(wanted: list[preview.Found]) -> str:
    """Return what the button does."""
    modes = {one.dry_run.mode for one in wanted}
    number = len(wanted) + sum(len(one.below) for one in wanted)
    more = any(one.more_below for one in wanted)
    if more and modes == {"cascade"}:
        label = _("Delete more than %(number)d projects with their contents")
    elif more:
        label = _("Request more than %(number)d deletions")
    elif modes == {"report"}:
        label = ngettext("Request the report deletion", "Request %(number)d report deletions", number)
    elif modes == {"cascade"} and number == 1:
        label = _("Delete project %(name)s with its contents")
    elif modes == {"cascade"}:
        label = _("Delete %(number)d projects with their contents")
    elif modes == {"purge"}:
        label = ngettext(
            "Delete the contents of project %(name)s", "Delete the contents of %(number)d projects", number
        )
    else:
        label = _("Request %(number)d deletions")
    run = wanted[0].dry_run
    return str(label % {"number": number, "name": pages.text(run.project_name or run.project_id)})
