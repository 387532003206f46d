"""The base of the pages."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, ClassVar, TypeVar

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.template.response import SimpleTemplateResponse
from django.utils.translation import gettext as _
from django.views import generic
from horizon import messages
from horizon.views import PageTitleMixin

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, fields

T = TypeVar("T")

#: Rows of a page of a list.
PAGE = 20


def page_of(records: Iterator[T], size: int = PAGE) -> tuple[list[T], bool]:
    """Return one page of rows, and whether there are more.

    :param records: the rows of a call with the limit ``size + 1``
    """
    rows = list(islice(records, size + 1))
    return rows[:size], len(rows) > size


def next_link(request: HttpRequest, marker: str) -> str:
    """Return the query of the next page: that of this page, with another marker."""
    query = [(name, value) for name, value in _pairs(request) if name != "marker"]
    return "?" + urllib.parse.urlencode([*query, ("marker", marker)])


def first_link(request: HttpRequest) -> str:
    """Return the query of the first page of the same list."""
    return "?" + urllib.parse.urlencode([(name, value) for name, value in _pairs(request) if name != "marker"])


def _pairs(request: HttpRequest) -> Iterable[tuple[str, str]]:
    return [(name, value) for name, values in request.GET.lists() for value in values]


#: Characters that change the direction of a text, with what is shown instead, as by ``sdk.one_line``.
_DIRECTIONS = dict.fromkeys((0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "?")


def legible(response: HttpResponse) -> None:
    """Replace the characters that change the direction of a text in a rendered page.

    Users choose names and reasons. With such a character, a name looks like that of another project or resource.
    """
    response.content = response.content.decode().translate(_DIRECTIONS).encode()


class Guarded(PageTitleMixin):
    """A page that shows what the API says when it cannot be loaded. A user never sees a stack trace of a call."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer the request; show the reason if a call fails."""
        try:
            response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        except calls.FAILURES as exc:
            response = unavailable(request, exc)
            legible(response)
        if isinstance(response, SimpleTemplateResponse):
            response.add_post_render_callback(legible)
        return response


def unavailable(request: HttpRequest, exc: Exception) -> HttpResponse:
    """Return the page that says why the requested page cannot be shown.

    :raises horizon.exceptions.NotAuthenticated: if the user has to log in again
    """
    calls.check_login(exc)
    status = calls.status_of(exc)
    again = request.method == "GET" and status >= 500  # a refusal would be the same
    context = {
        "page_title": _("Not Available"),
        "problem": calls.problem(exc),
        "again": request.get_full_path() if again else "",
    }
    return render(request, "project_cleanup/unavailable.html", context, status=status)


class Page(Guarded, generic.TemplateView):
    """A page that shows something. ``get_context_data`` makes all calls, and the template none."""


class ListPage(Page):
    """A page with one table, for the template ``list.html``."""

    #: HTML id of the table.
    table_id: ClassVar[str]
    #: Heads of the columns.
    columns: ClassVar[tuple[Any, ...]]
    #: HTML id of the form of the filter.
    filter_id: ClassVar[str] = "pc-filter"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return an empty table."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        context |= {"table_id": self.table_id, "columns": self.columns, "filter_id": self.filter_id}
        return context | {"rows": [], "nothing": True}


class FormPage(Guarded, generic.FormView):
    """A page with a form of Django, and what it does.

    A refusal of the API is shown above the form, with what the user typed.
    """

    template_name = "project_cleanup/form.html"
    #: Label of the button.
    submit_label: ClassVar[Any] = ""
    #: Whether the button is that of a danger.
    danger: ClassVar[bool] = False
    #: HTML id of the form.
    form_id: ClassVar[str] = "pc-form"

    def act(self, form: forms.Form) -> str:
        """Make the call; return the message of the success."""
        raise NotImplementedError

    def back(self) -> str:
        """Return the URL to go to without a change."""
        raise NotImplementedError

    def done(self) -> str:
        """Return the URL to go to after the call."""
        return self.back()

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return what the template shows."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        context |= {"form_id": self.form_id, "submit_label": self.submit_label, "danger": self.danger}
        return context | {"back_url": self.back(), "problems": fields.problems([context["form"]])}

    def form_valid(self, form: forms.Form) -> HttpResponse:
        """Make the call; show the form again if the API refuses."""
        try:
            said = self.act(form)
        except calls.FAILURES as exc:
            calls.check_login(exc)
            form.add_error(None, calls.problem(exc))
            answer: HttpResponse = self.form_invalid(form)
            return answer
        messages.success(self.request, said)
        return HttpResponseRedirect(self.done())


def text(value: Any) -> str:
    """Return a text of a tenant as one printable line, for a message; templates escape it."""
    return sdk.one_line(value)
