"""The forms of the request of deletions."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import fields, times

#: Each mode, and what it does.
MODES = (
    ("report", _("Report: list what the project owns. Only if it owns nothing, delete the project.")),
    ("cascade", _("Cascade: delete everything the project owns, then delete the project.")),
    ("purge", _("Purge: delete what the project owns, and keep the project.")),
)

#: Fields that only mode ``purge`` has: all criteria of a selection. One that is missing here would be lost between the
#: dry run and the deletion, and more would be deleted.
SELECTING = (
    "services",
    "types",
    "skip",
    "tags",
    "not_tags",
    "names",
    "not_names",
    "created_before",
    "updated_before",
)


class RequestForm(fields.Form):
    """What to do with the chosen projects."""

    mode = forms.ChoiceField(label=_("What to do"), choices=MODES, widget=forms.RadioSelect, initial="cascade")
    include_subtree = forms.BooleanField(
        label=_("Also the projects below"),
        required=False,
        help_text=_("Do the same with each project below the chosen ones, first. Not with Purge."),
    )
    services = forms.CharField(
        label=_("Only these services"),
        required=False,
        help_text=_("Only with Purge. Separate names by commas: compute, network. An empty field: all services."),
    )
    types = forms.CharField(
        label=_("Only these types of resources"),
        required=False,
        help_text=_("Only with Purge. Separate names by commas: compute.server, volume. An empty field: all types."),
    )
    skip = forms.CharField(
        label=_("Never these services and types"),
        required=False,
        help_text=_(
            "Only with Purge. Separate names by commas: image, network.port. What contains such a resource stays, too."
        ),
    )
    tags = forms.CharField(
        label=_("Only resources with all of these tags"),
        required=False,
        help_text=_("Only with Purge. Separate tags by commas. An empty field: with any tags, or none."),
    )
    not_tags = forms.CharField(
        label=_("Only resources with none of these tags"),
        required=False,
        help_text=_(
            "Only with Purge. Separate tags by commas. With a tag, a resource whose service shows no tags is not "
            "deleted."
        ),
    )
    names = forms.CharField(
        label=_("Only resources with a name like one of these"),
        required=False,
        help_text=_(
            "Only with Purge. Separate patterns by commas: test-*, web?. Upper and lower case differ. With a pattern, "
            "a resource without a name is not deleted."
        ),
    )
    not_names = forms.CharField(
        label=_("Only resources with a name unlike all of these"),
        required=False,
        help_text=_(
            "Only with Purge. Separate patterns by commas: prod-*. With a pattern, a resource whose service shows no "
            "name is not deleted."
        ),
    )
    created_before = times.TimeField(
        label=_("Only resources created before (UTC)"),
        required=False,
        help_text=_("Only with Purge. An empty field: any age. With a time, a resource of unknown age is not deleted."),
    )
    updated_before = times.TimeField(
        label=_("Only resources last changed before (UTC)"),
        required=False,
        help_text=_(
            "Only with Purge. An empty field: at any time. With a time, a resource whose service does not show its "
            "last change is not deleted."
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        modes = {"include_subtree": "report cascade"} | dict.fromkeys(SELECTING, "purge")
        for name, of in modes.items():  # a script hides the fields of other modes
            self.fields[name].widget.attrs["data-pc-modes"] = of

    def clean_services(self) -> list[str]:
        """Return the names."""
        return _names(self.cleaned_data["services"])

    def clean_types(self) -> list[str]:
        """Return the names."""
        return _names(self.cleaned_data["types"])

    def clean_skip(self) -> list[str]:
        """Return the names."""
        return _names(self.cleaned_data["skip"])

    def clean_tags(self) -> list[str]:
        """Return the tags. A tag can have blanks."""
        return _names(self.cleaned_data["tags"], ",")

    def clean_not_tags(self) -> list[str]:
        """Return the tags. A tag can have blanks."""
        return _names(self.cleaned_data["not_tags"], ",")

    def clean_names(self) -> list[str]:
        """Return the patterns. A pattern can have blanks."""
        return _names(self.cleaned_data["names"], ",")

    def clean_not_names(self) -> list[str]:
        """Return the patterns. A pattern can have blanks."""
        return _names(self.cleaned_data["not_names"], ",")

    def clean(self) -> dict[str, Any]:
        """Refuse fields of another mode: a choice that has no effect would delete more than the user wants."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get("mode") == "purge":
            if cleaned.get("include_subtree"):
                self.add_error("include_subtree", _("Purge covers no projects below. Clear this choice."))
            return cleaned
        for name in SELECTING:
            if cleaned.get(name):
                self.add_error(name, _("Only Purge can select resources. Clear this field, or choose Purge."))
        return cleaned

    def wanted(self) -> dict[str, Any]:
        """Return the parameters of the request."""
        given = self.cleaned_data
        parameters = {"mode": given["mode"], "include_subtree": given["include_subtree"]}
        return parameters | {"selection": {name: given[name] for name in SELECTING if given[name]} or None}


class ConfirmForm(fields.Form):
    """The confirmation of one deletion."""

    def __init__(self, dry_run: sdk.Deletion, unbound: bool, **kwargs: Any) -> None:
        super().__init__(prefix=dry_run.id, **kwargs)
        self.expected = confirmation(dry_run)
        if dry_run.mode != "report":
            self.fields["typed"] = forms.CharField(
                label=_("Name of the project")
                if self.expected == dry_run.project_name
                else _("ID of the project (its name has characters that cannot be typed)"),
                strip=False,
                widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "dir": "auto"}),
                error_messages={"required": _("Type the name of the project.")},
            )
        if unbound:
            self.fields["unbound"] = forms.BooleanField(
                label=_("I understand that resources which are not listed here can be deleted as well."),
                error_messages={"required": _("Confirm that you understand this.")},
            )
        self.style()

    def clean_typed(self) -> str:
        """Refuse another name. Blanks around the typed name are ignored, unless the project's name has them."""
        typed = str(self.cleaned_data["typed"])
        if self.expected not in (typed, typed.strip()):
            raise forms.ValidationError(_("This is not the name of the project. Nothing was requested."))
        return typed


def confirmation(dry_run: sdk.Deletion) -> str:
    """Return what the user types to confirm a deletion: the name, or the ID if the name cannot be typed.

    Horizon shows the marks of AngularJS in a name as other characters.
    """
    name = dry_run.project_name or ""
    typable = name.strip() and name.isprintable() and "{$" not in name and "$}" not in name
    return name if typable else str(dry_run.project_id)


def _names(text: str, separator: str = r"[,\s]") -> list[str]:
    """Return the names of a field. Without a name the field must be empty: it would select everything."""
    names = [name.strip() for name in re.split(separator, text) if name.strip()]
    if text.strip() and not names:
        raise forms.ValidationError(_("This has no name. Clear the field, or type names."))
    return names
