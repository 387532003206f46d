"""Orphan scans and their results.

Written by ``python -m tests.sdk_source`` from the shapes of the API: change these, and write it anew.
"""

from __future__ import annotations

from typing import Any

from openstack import resource

from cleanup_orchestrator.sdk.base import CleanupResource
from cleanup_orchestrator.sdk.places import TypeInRegion


class ScanCounts(CleanupResource):
    """The sums of an orphan scan."""

    #: Rows of the first read, of all owners.
    listed: int = resource.Body("listed", type=int)
    #: Rows of these without an owner, or whose owner cannot be a project.
    owner_unknown: int = resource.Body("owner_unknown", type=int)
    #: Rows of these of unknown projects that are younger than ``min_age``.
    too_young: int = resource.Body("too_young", type=int)
    #: Projects about which Keystone gave no clear answer.
    undecided: int = resource.Body("undecided", type=int)
    #: Resources of unknown projects at the first read.
    candidates: int = resource.Body("candidates", type=int)
    #: Candidates that the second read confirmed.
    orphans: int = resource.Body("orphans", type=int)
    #: API calls.
    calls: int = resource.Body("calls", type=int)


class ScanPart(TypeInRegion):
    """A type in one region, and how far an orphan scan is with it."""

    #: Whether the type is a project setting.
    project_setting: bool = resource.Body("project_setting", type=bool)
    #: The read of its latest result. 0: none.
    read: int = resource.Body("read", type=int)
    #: ``idle``, ``dispatched`` (sent to the workers), ``running`` or ``done``.
    state: str = resource.Body("state", type=str)
    #: ``clear``: listed. ``unknown``: ``reason`` and ``message`` say why. Empty: not read yet.
    outcome: str = resource.Body("outcome", type=str)
    #: Code of why the result is unknown.
    reason: str = resource.Body("reason", type=str)
    #: The same as text.
    message: str = resource.Body("message", type=str)


class ScannedType(ScanPart, ScanCounts):
    """A type in one region that an orphan scan lists."""


class NotCoveredType(TypeInRegion):
    """A type that an orphan scan cannot list."""

    #: Why the scan cannot list the type.
    reason: str = resource.Body("reason", type=str)


class OrphanScan(CleanupResource):
    """A search for resources of projects that no longer exist."""

    resource_key = "orphan_scan"
    resources_key = "orphan_scans"

    #: ID of the scan.
    id: str = resource.Body("id", type=str)
    #: Status of the scan.
    status: str = resource.Body("status", type=str)
    #: Why the scan has this status.
    message: str = resource.Body("message", type=str)
    #: Whether ``[orphans] schedule_interval`` started the scan. Otherwise a user did.
    scheduled: bool = resource.Body("scheduled", type=bool)
    #: The present read.
    read: int = resource.Body("read", type=int)
    #: Seconds. Younger resources are skipped: that of the request, or ``[orphans] min_age``.
    min_age: int = resource.Body("min_age", type=int)
    #: Seconds between the end of the first read and the second read: ``[orphans] reread_after``.
    reread_after: int = resource.Body("reread_after", type=int)
    #: ID of the user who started the scan. Empty: the schedule.
    user_id: str = resource.Body("user_id", type=str)
    #: Name of that user.
    user_name: str = resource.Body("user_name", type=str)
    #: ID of that request.
    request_id: str = resource.Body("request_id", type=str)
    #: When the scan was recorded.
    created_at: str = resource.Body("created_at", type=str)
    #: When the scan entered its status.
    status_at: str = resource.Body("status_at", type=str)
    #: When the second read may begin. ``null``: not known, or not needed.
    reread_at: str | None = resource.Body("reread_at", type=str)
    #: When the scan ended. ``null``: it has not ended.
    finished_at: str | None = resource.Body("finished_at", type=str)
    #: One link with ``rel`` ``self``: the URL of the record.
    links: list[dict[str, Any]] = resource.Body("links", type=list)
    #: Sums of ``coverage``. Absent in lists.
    counts: ScanCounts = resource.Body("counts", type=ScanCounts)
    #: One object for each type in each region that the scan lists. Absent in lists.
    coverage: list[ScannedType] = resource.Body("coverage", type=list, list_type=ScannedType)
    #: The types that a scan cannot list. Absent in lists.
    not_covered: list[NotCoveredType] = resource.Body("not_covered", type=list, list_type=NotCoveredType)


class Owned(CleanupResource):
    """Whose a resource is in its service."""

    #: The owner of the resource in its service.
    project_id: str = resource.Body("project_id", type=str)


class Orphan(Owned, TypeInRegion):
    """A resource whose project no longer exists."""

    resources_key = "orphans"

    #: ID of the resource in its service.
    id: str = resource.Body("id", type=str)
    #: Name of the resource in its service.
    name: str = resource.Body("name", type=str)
    #: Whether the resource is a project setting, such as a quota or a default security group.
    project_setting: bool = resource.Body("project_setting", type=bool)
    #: When the resource was created. ``null``: its service does not say.
    created_at: str | None = resource.Body("created_at", type=str)
    #: Whether ``created_at`` is known.
    age_known: bool = resource.Body("age_known", type=bool)
    #: When the first read found the resource.
    first_seen_at: str = resource.Body("first_seen_at", type=str)
    #: When the second read found the resource.
    last_seen_at: str = resource.Body("last_seen_at", type=str)


class TypeCount(CleanupResource):
    """The number of orphans of a type."""

    #: Type, as ``service.type``.
    type: str = resource.Body("type", type=str)
    #: Number of orphans of the type.
    count: int = resource.Body("count", type=int)


class OrphanProject(CleanupResource):
    """A project that no longer exists, and the number of its orphans."""

    resources_key = "projects"

    #: ID of the project.
    project_id: str = resource.Body("project_id", type=str)
    #: Name of the project in its latest recorded deletion that has one. ``null``: there is none.
    project_name: str | None = resource.Body("project_name", type=str)
    #: ID of its domain from the same source.
    domain_id: str | None = resource.Body("domain_id", type=str)
    #: ID of that deletion.
    deletion_id: str | None = resource.Body("deletion_id", type=str)
    #: Number of orphans, without project settings.
    orphans: int = resource.Body("orphans", type=int)
    #: Number of orphans of each type, without project settings.
    counts: list[TypeCount] = resource.Body("counts", type=list, list_type=TypeCount)
    #: The same for project settings.
    project_settings: list[TypeCount] = resource.Body("project_settings", type=list, list_type=TypeCount)
