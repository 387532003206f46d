"""The bodies of requests. Unknown fields are refused."""

from __future__ import annotations

from cleanup_orchestrator.core.words import Mode
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
    types: list[str] = given(
        forms.list_of(forms.TYPE_NAME, 200),
        "Resource types that are selected as well, such as ``compute.server``. Without both: all types.",
    )
    skip: list[str] = given(
        forms.list_of(forms.SERVICE_OR_TYPE, 200),
        "Services and resource types that are never selected, whatever ``services`` and ``types`` say. What contains a "
        "resource of these is not selected either.",
    )
    tags: list[str] = given(forms.list_of(forms.TEXT, 50), "A resource must have all of these tags.")
    not_tags: list[str] = given(
        forms.list_of(forms.TEXT, 50),
        "A resource must have none of these tags. One whose service shows no tags is not selected.",
    )
    names: list[str] = given(
        forms.list_of(forms.TEXT, 50),
        "The whole name of a resource must match one of these patterns with ``*``, ``?`` and ``[...]``. Upper and "
        "lower case differ. One without a name is not selected.",
    )
    not_names: list[str] = given(
        forms.list_of(forms.TEXT, 50),
        "The name of a resource must match none of these patterns, and be equal to none. One whose service shows no "
        "name is not selected.",
    )
    created_before: str | None = given(
        forms.or_null(forms.TIME),
        "A resource must have been created before this time. One of unknown age is not selected.",
    )
    updated_before: str | None = given(
        forms.or_null(forms.TIME),
        "The last change of a resource must have been before this time. One whose service does not show it is not "
        "selected.",
    )


class Record(Input):
    """What a request says about itself."""

    request_reason: str = given(
        forms.REASON,
        "Why the deletion is requested. One line that is not blank. Required if ``[deletion] required`` has "
        "``reason``.",
    )
    ticket: str = given(
        forms.TICKET,
        "A reference of the caller, such as the number of a change. One line that is not blank. Any number of "
        "deletions can have it. Required if ``[deletion] required`` has ``ticket``.",
    )


class CreateBody(Record):
    """The request for the deletion of a project."""

    project_id: str = given(forms.ID, "The project: letters, digits, ``-`` and ``_``.", required=True)
    mode: str = given(
        forms.one_of(Mode, default="report"),
        "``report``: list the resources, and remove the project only if it has none. ``cascade``: delete them first. "
        "``purge``: delete those that ``selection`` selects, and keep the project.",
    )
    dry_run: bool = given(forms.FLAG, "Only list, and write nothing to any service.")
    include_subtree: bool = given(
        forms.FLAG,
        "Every project below this one gets a deletion in the same mode, and is deleted first. Without it, a request "
        "for a project with projects below is refused. Not in mode ``purge``, which leaves them as they are.",
    )
    plan_id: str = given(
        forms.UUID,
        "A plan of the project: only resources that it lists for deletion are deleted. ``mode`` must be that of the "
        "plan. Not with ``dry_run``, ``include_subtree`` or ``selection``.",
    )
    plan_hash: str = given(
        forms.HASH,
        "The hash that the plan must have: 64 digits, ``0`` to ``f``. It needs ``plan_id``. Absent: any hash.",
    )
    selection: SelectionBody = given(
        {},
        "What is deleted, only with ``mode`` ``purge`` and without ``plan_id``. Absent, or without a criterion: "
        "everything. A resource must meet each criterion: its type must be in ``types``, or its service in "
        "``services``.",
    )
    not_before: str = given(
        forms.TIME,
        "The date: nothing of the deletion begins before it. Later than now, and at most ``[deletion] max_delay`` days "
        "from now. Not with ``dry_run``. Absent: the deletion begins at once.",
    )


class SetBody(Record):
    """The change of a request. Fields that are absent stay as they are."""

    not_before: str | None = given(
        forms.or_null(forms.TIME),
        "The new date, later than now, and at most ``[deletion] max_delay`` days after the request. ``null``: now. "
        "Only until the deletion begins.",
    )


class ApproveBody(Input):
    """The approval of a deletion that exceeds a limit."""

    reason: str = _WHY


class ForceBody(Input):
    """The request for force."""

    reason: str = _WHY
    types: list[str] | None = given(
        {"type": ["array", "null"], "maxItems": 200, "items": forms.TYPE_NAME},
        "The types whose forced delete is used before a resource is abandoned, as ``service.type``. Absent or "
        "``null``: all that have one, within ``[force] types`` and ``[force] never``. ``[]``: none. It does not limit "
        "what is abandoned.",
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

    project_id: str = given(forms.ID, "The project to protect. Keystone is not asked whether it exists.", required=True)
    origin: str = given(
        forms.ORIGIN,
        "The department or system that needs the lien, such as ``billing`` or ``legal``. One line that is not blank.",
        required=True,
    )
    reason: str = _WHY
    expires_at: str | None = given(
        forms.or_null(forms.TIME), "When the lien ends, later than now. Absent or ``null``: when it is removed."
    )


class WaiverBody(Input):
    """The request for a waiver."""

    service_type: str = given(
        forms.SERVICE_TYPE,
        "The type of the service, an alias of it, or the name of the OpenStack project. The official type is recorded; "
        "a name that os-service-types does not know, as it is.",
        required=True,
    )
    region: str | None = given(forms.REGION, "Only in this region. Absent or ``null``: in every region.")
    project_id: str | None = given(
        forms.or_null(forms.ID), "Only for deletions of this project. Absent or ``null``: of every project."
    )
    reason: str = _WHY
    expires_at: str = given(
        forms.TIME,
        "When the waiver ends: later than now, and at most ``[catalog] waiver_limit`` days from now.",
        required=True,
    )
    allow_unknown: bool = given(
        forms.FLAG,
        "``true``: the catalog need not have the service in the region. Otherwise one that neither the catalog nor a "
        "deletion under way has is refused, because it can be a typo.",
    )


class OrphanScanBody(Input):
    """The request for an orphan scan."""

    min_age: int = given(
        {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
        "Seconds. Younger resources are skipped. At least ``[orphans] min_age``, which is the default.",
    )


class AdoptBody(Record):
    """The request for the deletion of a dead project's orphans."""

    project_id: str = given(
        forms.ID, "The project whose orphans are deleted: letters, digits, ``-`` and ``_``.", required=True
    )
    dry_run: bool = given(forms.FLAG, "Only list, and write nothing to any service.")
