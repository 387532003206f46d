"""What the pages of liens and of waivers have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, pages, projects

#: The states of a record, in words.
_STATES = {
    "in_force": _("In force"),
    "expired": _("Expired"),
    "removed": _("Removed"),
    "withdrawn": _("Withdrawn"),
}


class ReasonField(forms.CharField):
    """A reason: one line."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(label=_("Reason"), max_length=1000, widget=forms.TextInput(attrs={"dir": "auto"}), **kwargs)


class FilterForm(projects.ProjectForm):
    """Selects records by their state and their project."""

    state = forms.ChoiceField(
        label=_("State"),
        choices=[("in_force", _("In force")), ("ended", _("Ended")), ("all", _("All"))],
        required=False,
    )
    project = projects.ProjectField(required=False)


class ListPage(pages.ListPage):
    """A list of records with a filter."""

    #: What a record is called in the ids of HTML.
    noun: ClassVar[str]
    filter_class: ClassVar[type[FilterForm]] = FilterForm
    #: Rules of the buttons.
    create_rule: ClassVar[str]
    end_rule: ClassVar[str]

    def records(self, filters: dict[str, Any]) -> Iterator[Any]:
        """Return the records that match."""
        raise NotImplementedError

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return one page of the list."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        query = self.request.GET
        form = self.filter_class(query or None, request=self.request)
        chosen = form.cleaned_data if form.is_bound and form.is_valid() else {}
        context |= {"noun": self.noun, "filter": form, "filtered": bool(query)}
        context["may_create"] = calls.allowed(self.request, self.create_rule)
        context["may_end"] = calls.allowed(self.request, self.end_rule)
        if context["may_end"]:
            context["columns"] = (*self.columns, _("Actions"))
        if form.is_bound and not form.is_valid():
            return context | {"nothing": False}
        filters = {"state": chosen.get("state"), "project_id": chosen.get("project"), "marker": query.get("marker")}
        extra = {name: value for name, value in chosen.items() if name not in ("state", "project")}
        records, more = pages.page_of(self.records(filters | extra | {"sort": "created_at:desc"}))
        context["first_url"] = pages.first_link(self.request) if query.get("marker") else ""
        context["next_url"] = pages.next_link(self.request, records[-1].id) if more else ""
        names = projects.names(self.request, [record.project_id for record in records])
        return context | {"rows": [row(record, names) for record in records]}


def row(record: sdk.Lien | sdk.Waiver, names: dict[str, str]) -> dict[str, Any]:
    """Return what a template shows of a record."""
    in_force = record.state == "in_force"
    return {
        "record": record,
        "project_name": names.get(record.project_id or "", ""),
        "in_force": in_force,
        "state": _STATES.get(record.state, record.state),
        "state_class": f"pc-label-{'warn' if in_force else 'plain'}",
    }


class CreatePage(pages.FormPage):
    """A page whose form has fields for projects."""

    #: Fields that a link can fill in.
    from_link: ClassVar[tuple[str, ...]] = ("project",)

    def get_form_kwargs(self) -> dict[str, Any]:
        """Return the arguments of the form."""
        kwargs: dict[str, Any] = super().get_form_kwargs()
        return kwargs | {"request": self.request}

    def get_initial(self) -> dict[str, Any]:
        """Return what the link fills in."""
        query = self.request.GET
        return {name: query[name] for name in self.from_link if query.get(name)}


class EndPage(pages.FormPage):
    """The question before a record ends."""

    #: What a record is called in the ids of HTML.
    noun: ClassVar[str]
    form_class = forms.Form
    danger = True

    def record(self) -> Any:
        """Return the record."""
        raise NotImplementedError

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the record; without one in force, the page has no form."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        record = self.record()
        return context | {"noun": self.noun, "row": row(record, projects.names(self.request, [record.project_id]))}
