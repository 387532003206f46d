"""The page that forces a deletion: an admin abandons what cannot be deleted."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

from django import forms
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from openstack import exceptions as sdk_exceptions

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls
from cleanup_orchestrator.dashboard.deletions import actions
from cleanup_orchestrator.dashboard.deletions.request.forms import confirmation

#: Leftovers that the page lists at most.
_LISTED = 200

_ALL, _CHOSEN, _NONE = "all", "chosen", "none"


class ForceForm(actions.ReasonForm):
    """The reason, the confirmation, and the types with a forced delete."""

    field_order = ("reason", "use", "types", "name")

    name = forms.CharField(
        label=gettext_lazy("Confirmation"),
        strip=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "dir": "auto"}),
    )
    use = forms.ChoiceField(
        label=gettext_lazy("Before resources are abandoned, delete by force"),
        choices=[
            (_ALL, gettext_lazy("All types that have a forced delete")),
            (_CHOSEN, gettext_lazy("Only the types that are marked below")),
            (_NONE, gettext_lazy("No type: only abandon what cannot be deleted")),
        ],
        initial=_ALL,
        widget=forms.RadioSelect,
    )
    types = forms.MultipleChoiceField(
        label=gettext_lazy("Types to delete by force"), required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, *args: Any, expected: str, types: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.expected = expected
        self.fields["name"].help_text = format_html(
            '{} <code class="pc-name pc-typed" dir="auto">{}</code>', _("To confirm, type this:"), expected
        )
        self.fields["types"].choices = [(each, each) for each in types]
        if not types:  # the choice stays: other types can have a forced delete, and some can be found later
            del self.fields["types"]
            use = self.fields["use"]
            use.choices = [choice for choice in use.choices if choice[0] != _CHOSEN]

    def clean_name(self) -> str:
        """Return the name if it is that of the project."""
        given: str = self.cleaned_data["name"]
        if self.expected not in (given, given.strip()):
            raise forms.ValidationError(_("This is not the confirmation. Nothing was requested."))
        return given

    def clean(self) -> dict[str, Any]:
        """Refuse a choice of types without a type."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get("use") == _CHOSEN and not cleaned.get("types") and "types" not in self.errors:
            self.add_error("types", _("Mark at least one type, or choose another answer above."))
        return cleaned

    def chosen(self) -> list[str] | None:
        """Return the types to delete by force; ``None``: all."""
        use = self.cleaned_data["use"]
        if use == _CHOSEN:
            return list(self.cleaned_data["types"])
        return [] if use == _NONE else None


def _type(row: sdk.Count | sdk.Leftover) -> str:
    return f"{row.service}.{row.type}" if row.type else row.service


class Force(actions.ActionPage):
    """The page."""

    rule = "cleanup:projects:force"
    form_class = ForceForm
    page_title = gettext_lazy("Force the deletion of project {{ name }}")
    template_name = "project_cleanup/deletions/force.html"
    submit_label = gettext_lazy("Force the deletion")
    danger = True
    #: Code of the API's refusal.
    refusal = ""

    def possible(self) -> bool:
        """Return whether the state of the deletion allows force."""
        return bool(self.deletion.forcible) and self.refusal != "not_forcible"

    @functools.cached_property
    def facts(self) -> dict[str, sdk.TypeFacts]:
        """What the API knows of each type with a plugin; nothing if the user may not see the services."""
        try:
            services = list(calls.proxy(self.request, calls.LONG_TIMEOUT).services())
        except sdk_exceptions.ForbiddenException:
            return {}
        return {f"{each.service_type}.{facts.type}": facts for each in services for facts in each.type_facts or ()}

    def get_form_kwargs(self) -> dict[str, Any]:
        """Return what the form needs."""
        kwargs: dict[str, Any] = super().get_form_kwargs()
        there = {_type(each) for each in self.deletion.counts or ()}
        expected = confirmation(self.deletion)
        types = [name for name, facts in self.facts.items() if facts.forcible and name in there]
        return kwargs | {"expected": expected, "types": types}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return what would be abandoned, and what that still uses and does."""
        counts = self.deletion.counts or []
        left = Counter[str]()
        for each in counts:
            if each.remaining:
                left[_type(each)] += each.remaining
        leftovers = list(calls.proxy(self.request).leftovers(self.deletion.id, limit=_LISTED))
        return super().get_context_data(**kwargs) | {
            "leftovers": leftovers,
            "not_listed": max(0, self.deletion.progress.remaining - len(leftovers)),
            "left": [(name, left[name], self.facts.get(name)) for name in sorted(left)],
            "unseen": [each for each in counts if each.outcome == "unknown"],
            "refusal": self.refusal,
            "submit_id": "pc-submit",
        }

    def act(self, form: forms.Form) -> str:
        """Force the deletion."""
        assert isinstance(form, ForceForm)
        project_id, reason = self.deletion.project_id, form.cleaned_data["reason"]
        try:
            calls.proxy(self.request, calls.LONG_TIMEOUT).force_deletion(project_id, reason, form.chosen())
        except sdk.ApiError as exc:
            self.refusal = exc.code
            raise
        return str(_("The deletion of project %s is forced. It first tries everything again.") % self.name)
