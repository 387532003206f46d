"""The projects that the user chose, as Keystone names them."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from horizon import exceptions as horizon_exceptions
from keystoneauth1 import exceptions as ksa_exceptions
from openstack_dashboard import api

from cleanup_orchestrator.dashboard import calls
from cleanup_orchestrator.sdk.text import KEYSTONE_ID

#: Projects of one request. Each of them needs several calls.
MAX_PROJECTS = 20


@dataclasses.dataclass
class Project:
    """A project that the user chose."""

    id: str
    name: str = ""
    domain_id: str = ""
    domain_name: str = ""
    #: Whether Keystone does not have it.
    missing: bool = False
    #: Why its name is not known, or why the API refuses it. Empty: no problem.
    problem: str = ""
    #: The deletion that is under way, if that is the problem. Empty: none.
    deletion_id: str = ""

    def refuse(self, exc: Exception) -> None:
        """Keep why the API refuses the project."""
        self.problem, self.deletion_id = refusal(exc)


def refusal(exc: Exception) -> tuple[str, str]:
    """Return why the API refuses a request, and the ID of the deletion that is under way, if that is why."""
    under_way = getattr(exc, "code", "") == "deletion_under_way"
    return calls.problem(exc), getattr(exc, "deletion_id", "") if under_way else ""


def chosen(request: HttpRequest) -> tuple[list[Project], int]:
    """Return the projects of the query, and how many are too many."""
    ids = list(dict.fromkeys(id_ for id_ in request.GET.getlist("project") if id_))
    domains: dict[str, str] = {}
    return [_read(request, id_, domains) for id_ in ids[:MAX_PROJECTS]], max(0, len(ids) - MAX_PROJECTS)


def _read(request: HttpRequest, id_: str, domains: dict[str, str]) -> Project:
    if not KEYSTONE_ID.fullmatch(id_):  # it would be part of a path in Keystone
        return _missing(id_)
    try:
        project = api.keystone.tenant_get(request, id_, admin=False)
    except (ksa_exceptions.ClientException, horizon_exceptions.HorizonException) as exc:
        return _unknown(id_, exc)
    domain_id = str(getattr(project, "domain_id", "") or "")
    if domain_id not in domains:
        domains[domain_id] = _domain(request, domain_id)
    return Project(id_, str(project.name), domain_id, domains[domain_id])


def _unknown(id_: str, exc: Any) -> Project:
    if isinstance(exc, ksa_exceptions.Unauthorized):
        raise calls.expired() from exc
    if isinstance(exc, ksa_exceptions.NotFound):
        return _missing(id_)
    if isinstance(exc, ksa_exceptions.Forbidden):
        return Project(id_, problem=_("Keystone does not let you see the name of this project."))
    return Project(id_, problem=_("Keystone does not answer, so the name of this project is not known."))


def _missing(id_: str) -> Project:
    said = _("Keystone has no project with this ID. It may be deleted already. Nothing is requested for it.")
    return Project(id_, missing=True, problem=said)


def _domain(request: HttpRequest, domain_id: str) -> str:
    """Return the name of a domain, or an empty text if the user may not see it."""
    try:
        return str(api.keystone.keystoneclient(request).domains.get(domain_id).name)
    except (ksa_exceptions.ClientException, horizon_exceptions.HorizonException):
        return ""
