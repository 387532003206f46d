"""The filter of the list of deletions."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator.dashboard import fields, words

#: The value of the API for all statuses of a deletion under way.
_LIVE = "live"
#: A name that looks like the ID of a project is taken for one.
_PROJECT_ID = re.compile("[0-9a-f]{32}")


class Filter(fields.Form):
    """What the list shows. A value that is not known is no filter."""

    status = forms.ChoiceField(
        label=_("Status"), required=False, choices=[("", _("All")), (_LIVE, _("Under way")), *words.STATUSES]
    )
    mode = forms.ChoiceField(label=_("Mode"), required=False, choices=[("", _("All")), *words.MODES])
    attention = forms.ChoiceField(
        label=_("Needs a person"), required=False, choices=[("", _("All")), ("true", _("Yes")), ("false", _("No"))]
    )
    dry_run = forms.ChoiceField(
        label=_("Dry runs"),
        required=False,
        choices=[("", _("Hide")), ("also", _("Show also")), ("only", _("Show only"))],
    )
    project = forms.CharField(label=_("Project (name or ID)"), required=False, max_length=255)
    ticket = forms.CharField(label=_("Ticket"), required=False, max_length=128)


def query_of(request: HttpRequest) -> tuple[Filter, dict[str, Any]]:
    """Return the form, and the parameters of the API."""
    form = Filter(request.GET)
    form.is_valid()
    # A field with an error is not in the cleaned data.
    given = {name: form.cleaned_data.get(name) or None for name in form.fields}
    project = given.pop("project")
    is_id = _PROJECT_ID.fullmatch(project or "")
    given["dry_run"] = {None: "false", "only": "true"}.get(given["dry_run"])
    return form, given | {"project_id" if is_id else "project_name": project}
