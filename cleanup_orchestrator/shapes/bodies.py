"""The bodies of requests. Unknown fields are refused."""

from __future__ import annotations

from cleanup_orchestrator.core.deletion import Mode
from cleanup_orchestrator.shapes import forms
from cleanup_orchestrator.shapes.base import Input, given

_WHY = given(forms.REASON, "Why. One line that is not blank.", required=True)


class Nothing(Input):
    """No field."""


class SelectionBody(Input):
    """The criteria of ``core.selection.Selection``."""

    services: list[str] = given(
        forms.list_of(forms.SERVICE_TYPE, 100),
        "Types of services, aliases of them, or names of OpenStack projects. All their resources are selected.",
    )
    types: list[str] = given(forms.list_of(forms.TYPE_NAME, 200), "Resource types such as ``compute.server``.")
    tags: list[str] = given(forms.list_of(forms.TEXT, 50), "A resource must have all of these tags.")
    created_before: str | None = given(forms.or_null(forms.TIME), "A resource must have been created before this time.")


class CreateBody(Input):
    """The request for the deletion of a project."""

    project_id: str = given(forms.ID, "The project to delete.", required=True)
    mode: str = given(
        forms.one_of(Mode, default="report"),
        "``report``: list the resources, and remove the project only if it has none. ``cascade``: delete them first. "
        "``empty``: delete them, and keep the project.",
    )
    dry_run: bool = given(forms.FLAG, "Only list, and write nothing to any service.")
    include_subtree: bool = given(forms.FLAG, "Also delete every project below this project.")
    plan_id: str = given(forms.UUID, "The plan that limits what is deleted. ``mode`` must be that of the plan.")
    plan_hash: str = given(forms.HASH, "The hash that the plan must have. It needs ``plan_id``.")
    selection: SelectionBody = given(
        {},
        "What is deleted, only with ``mode`` ``empty``. Absent: everything. A resource must meet each criterion: its "
        "type must be in ``types``, or its service in ``services``.",
    )


class ApproveBody(Input):
    """The approval of a deletion that exceeds a limit."""

    reason: str = _WHY


class ForceBody(Input):
    """The request for force."""

    reason: str = _WHY
    types: list[str] | None = given(
        {"type": ["array", "null"], "maxItems": 200, "items": forms.TYPE_NAME},
        "The types whose forced delete is used. Absent or ``null``: all that may be used.",
    )
    although_used: list[str] = given(
        forms.list_of(forms.USED, 50),
        "Resources of the project that are deleted although other projects use them, each as ``service.type:id``. "
        "Nothing is abandoned then. Only the uses that its leftover names are overruled.",
    )


class BrakeBody(Input):
    """The request to set the brake."""

    reason: str = _WHY


class LienBody(Input):
    """The request for a lien."""

    project_id: str = given(forms.ID, "The project to protect.", required=True)
    origin: str = given(
        forms.ORIGIN, "The department or system that needs the lien, such as ``billing``.", required=True
    )
    reason: str = _WHY
    expires_at: str | None = given(forms.or_null(forms.TIME), "When the lien ends. Absent or ``null``: never.")


class WaiverBody(Input):
    """The request for a waiver."""

    service_type: str = given(
        forms.SERVICE_TYPE,
        "The type of the service, an alias of it, or the name of the OpenStack project.",
        required=True,
    )
    region: str | None = given(forms.REGION, "Only in this region. Absent or ``null``: in every region.")
    project_id: str | None = given(forms.or_null(forms.ID), "Only for this project. Absent or ``null``: for every one.")
    reason: str = _WHY
    expires_at: str = given(
        forms.TIME, "When the waiver ends: at most ``[catalog] waiver_limit`` days from now.", required=True
    )
    allow_unknown: bool = given(forms.FLAG, "``true``: the catalog need not have the service in the region.")


class AdoptBody(Input):
    """The request for the deletion of a dead project's orphans."""

    project_id: str = given(forms.ID, "The project whose orphans are deleted.", required=True)
    dry_run: bool = given(forms.FLAG, "Only list, and write nothing to any service.")
