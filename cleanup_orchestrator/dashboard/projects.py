"""Projects by their name or ID, with the user's token in Keystone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from horizon import exceptions as horizon_exceptions
from keystoneauth1 import exceptions as ksa_exceptions
from openstack_dashboard.api import keystone

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, fields
from cleanup_orchestrator.sdk.text import KEYSTONE_ID

#: Longest text that a project is looked for with. A name in Keystone is shorter.
_LONGEST = 255
#: Projects of the same name that a message lists at most.
_LISTED = 5
#: An ID as Keystone makes it. Only such a text can be a project that Keystone no longer has.
_MADE_ID = re.compile("[0-9a-fA-F]{32}|[0-9a-fA-F-]{36}")


def names(request: HttpRequest, ids: Iterable[str | None]) -> dict[str, str]:
    """Return the names of projects by their IDs. A project that the user may not see, or that is gone, has none."""
    by_id: dict[str, str] = {}
    for project_id in sorted({id_ for id_ in ids if id_ and KEYSTONE_ID.fullmatch(id_)}):
        try:
            by_id[project_id] = keystone.tenant_get(request, project_id, admin=False).name
        except (ksa_exceptions.NotFound, ksa_exceptions.Forbidden):
            continue
        except (ksa_exceptions.ClientException, horizon_exceptions.ServiceCatalogException):
            break  # Keystone does not answer: the page shows the IDs, and does not wait for each of them
    return by_id


def find(request: HttpRequest, text: str) -> str:
    """Return the ID of the project with this name or ID.

    An ID that Keystone does not have is returned as it is: liens and records also have projects that are gone.

    :raises django.forms.ValidationError: if no project or more than one is meant
    """
    try:
        projects = _found(request, text)
    except ksa_exceptions.Unauthorized as exc:
        raise calls.expired() from exc
    except ksa_exceptions.Forbidden as exc:
        raise forms.ValidationError(_("Keystone does not let you search for names. Enter the project's ID.")) from exc
    except (ksa_exceptions.ClientException, horizon_exceptions.ServiceCatalogException) as exc:
        raise forms.ValidationError(_("Keystone cannot be used at the moment: %s") % sdk.one_line(exc)) from exc
    if len(projects) > 1:
        raise forms.ValidationError(_several(projects))
    if projects:
        return str(projects[0].id)
    if _MADE_ID.fullmatch(text):
        return text
    raise forms.ValidationError(_("No project that you may see has this name or ID. Check the spelling."))


def _found(request: HttpRequest, text: str) -> list[Any]:
    if KEYSTONE_ID.fullmatch(text):
        try:
            return [keystone.tenant_get(request, text, admin=False)]
        except (ksa_exceptions.NotFound, ksa_exceptions.Forbidden):
            pass  # a name can look like an ID
    return list(keystone.keystoneclient(request).projects.list(name=text))


def _several(projects: list[Any]) -> str:
    listed = [
        _("%(project)s (domain %(domain)s)") % {"project": project.id, "domain": project.domain_id}
        for project in projects[:_LISTED]
    ]
    more = " …" if len(projects) > _LISTED else ""
    said = _("%(count)s projects have this name. Enter the ID of one: %(ids)s")
    return str(said % {"count": len(projects), "ids": ", ".join(listed) + more})


class ProjectField(forms.CharField):
    """The name or ID of a project. The form sets ``request`` in each field; the value is the ID."""

    request: HttpRequest

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("label", gettext_lazy("Project (name or ID)"))
        widget = forms.TextInput(attrs={"autocomplete": "off", "dir": "auto"})
        super().__init__(max_length=_LONGEST, widget=widget, **kwargs)

    def clean(self, value: Any) -> str:
        """Return the ID, or an empty text."""
        text = super().clean(value)
        return find(self.request, text) if text else ""


class ProjectForm(fields.Form):
    """A form with fields for projects."""

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            if isinstance(field, ProjectField):
                field.request = request
