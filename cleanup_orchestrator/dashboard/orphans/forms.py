"""The forms of the panel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator.dashboard import fields
from cleanup_orchestrator.sdk.orphans import ScannedType
from cleanup_orchestrator.sdk.text import KEYSTONE_ID


class NoFields(forms.Form):
    """A form that is only a button."""


class ScanForm(fields.Form):
    """How a scan searches."""

    min_age = forms.IntegerField(
        label=_("Minimum age of a resource, in seconds"),
        required=False,
        min_value=0,
        help_text=_(
            "Younger resources are skipped. An empty field: the setting of the operator, which is also the lowest age."
        ),
    )


class Filter(fields.Form):
    """Which orphans are listed.

    :param types: the types that the scan lists
    """

    project = forms.RegexField(rf"^{KEYSTONE_ID.pattern}\Z", required=False, label=_("Project ID"))
    what = forms.ChoiceField(required=False, label=_("Service and type"))

    def __init__(self, *args: Any, types: Iterable[ScannedType], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["what"].choices = _choices({(each.service, each.type) for each in types})

    def filters(self) -> dict[str, str | None]:
        """Return the parameters of the call. The form is valid."""
        service, _dot, type_ = self.cleaned_data["what"].partition(".")
        return {"project_id": self.cleaned_data["project"] or None, "service": service or None, "type": type_ or None}


def _choices(types: set[tuple[str, str]]) -> list[tuple[str, Any]]:
    """Return all types of each service together, and each type by itself."""
    choices: list[tuple[str, Any]] = [("", _("All"))]
    for service in sorted({service for service, _type in types}):
        every = (service, _now("%s: all types") % service)
        each = [(f"{service}.{type_}", type_) for of, type_ in sorted(types) if of == service]
        choices.append((service, [every, *each]))
    return choices


class TypedId(fields.Form):
    """A form that is valid only if the user has typed the ID of the project.

    :param project_id: the ID of the project
    """

    project_id = forms.CharField(
        label=_("ID of the project"),
        help_text=_("Type the ID of the project to confirm."),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )

    def __init__(self, *args: Any, project_id: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.wanted = project_id

    def clean_project_id(self) -> str:
        """Return the ID.

        :raises django.forms.ValidationError: if another ID was typed
        """
        typed = str(self.cleaned_data["project_id"])
        if typed != self.wanted:
            raise forms.ValidationError(_("This is not the ID of the project. Nothing was deleted."))
        return typed
