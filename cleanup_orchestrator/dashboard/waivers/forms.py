"""The forms of the panel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import holds, projects, times

_TEXT = {"autocomplete": "off"}


class FilterForm(holds.FilterForm):
    """Selects waivers also by their service."""

    service_type = forms.CharField(
        label=_("Service type"), max_length=128, required=False, widget=forms.TextInput(attrs=_TEXT)
    )


def service_choices(services: Iterable[sdk.Service]) -> list[tuple[str, str]]:
    """Return the services that can be waived: those that block deletions first."""
    unsupported: dict[str, list[str]] = {}
    for service in services:
        if service.service_type != "identity":  # the API refuses a waiver for Keystone
            regions = unsupported.setdefault(service.service_type, [])
            if service.answered_by == "unsupported":
                regions.append(service.region)
    ordered = sorted(unsupported.items(), key=lambda item: (not item[1], item[0]))
    return [("", _now("Choose a service")), *((type_, _choice(type_, regions)) for type_, regions in ordered)]


def _choice(service_type: str, regions: list[str]) -> str:
    if not regions:
        return service_type
    if not any(regions):
        return str(_now("%s: unsupported, blocks deletions") % service_type)
    said = _now("%(type)s: unsupported in %(regions)s, blocks deletions")
    return str(said % {"type": service_type, "regions": ", ".join(sorted(filter(None, regions)))})


class CreateForm(projects.ProjectForm):
    """Lets deletions skip a service."""

    service_type = forms.ChoiceField(label=_("Service"), required=False)
    other = forms.CharField(
        label=_("Another service"),
        max_length=128,
        required=False,
        help_text=_("The type of a service that the catalog does not have. Tick the box below as well."),
        widget=forms.TextInput(attrs=_TEXT),
    )
    region = forms.CharField(
        label=_("Region"),
        max_length=128,
        required=False,
        help_text=_("Only in this region. Empty: in every region."),
        widget=forms.TextInput(attrs=_TEXT | {"list": "pc-regions"}),
    )
    allow_unknown = forms.BooleanField(
        label=_("The catalog need not have the service or the region."),
        required=False,
        help_text=_("Without this, the API refuses a name that the catalog does not have, because it can be a typo."),
    )
    project = projects.ProjectField(
        required=False, help_text=_("Only for deletions of this project. Empty: for deletions of every project.")
    )
    reason = holds.ReasonField(help_text=_("Every report that relies on the waiver shows the reason to admins."))
    expires_at = times.FutureTimeField(
        label=_("Ends at (UTC)"), help_text=_("The API limits how long a waiver can be in force: 90 days by default.")
    )

    def __init__(self, *args: Any, services: list[sdk.Service], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["service_type"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = service_choices(services)
        self.regions = sorted({service.region for service in services if service.region})

    def clean(self) -> dict[str, Any]:
        """Check that one service is named."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        chosen, other = data.get("service_type"), data.get("other")
        if "service_type" in self.errors:
            return data
        if not chosen and not other:
            self.add_error("service_type", _("Choose a service, or enter another one below."))
        elif chosen and other:
            self.add_error("other", _("Leave this empty, or choose no service above."))
        elif other and not data.get("allow_unknown"):
            self.add_error("allow_unknown", _("Tick the box for a service that is not in the list."))
        return data
