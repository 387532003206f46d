"""Orphan scans and their results."""

from __future__ import annotations

from cleanup_orchestrator.core.words import Outcome, ScanStatus, StepState
from cleanup_orchestrator.shapes.base import REQUEST_ID, SELF, USER_NAME, Link, Shape, field, time, uuid, word
from cleanup_orchestrator.shapes.places import TypeInRegion


class ScanCounts(Shape):
    """The sums of an orphan scan."""

    listed: int = field("Rows of the first read, of all owners.")
    owner_unknown: int = field("Rows of these without an owner, or whose owner cannot be a project.")
    too_young: int = field("Rows of these of unknown projects that are younger than ``min_age``.")
    undecided: int = field("Projects about which Keystone gave no clear answer.")
    candidates: int = field("Resources of unknown projects at the first read.")
    orphans: int = field("Candidates that the second read confirmed.")
    calls: int = field("API calls.")


class ScanPart(TypeInRegion):
    """A type in one region, and how far an orphan scan is with it."""

    project_setting: bool = field("Whether the type is a project setting.")
    read: int = field("The read of its latest result. 0: none.")
    state: str = word(StepState, "``idle``, ``dispatched`` (sent to the workers), ``running`` or ``done``.")
    outcome: str = word(
        Outcome, "``clear``: listed. ``unknown``: ``reason`` and ``message`` say why. Empty: not read yet."
    )
    reason: str = field("Code of why the result is unknown.")
    message: str = field("The same as text.")


class ScannedType(ScanPart, ScanCounts):
    """A type in one region that an orphan scan lists."""


class NotCoveredType(TypeInRegion):
    """A type that an orphan scan cannot list."""

    reason: str = field("Why the scan cannot list the type.")


class OrphanScan(
    Shape,
    one="orphan_scan",
    many="orphan_scans",
    columns="id status message",
    wide="created_at finished_at scheduled user_name",
):
    """A search for resources of projects that no longer exist."""

    id: str = uuid("ID of the scan.")
    status: str = word(ScanStatus, "Status of the scan.")
    message: str = field("Why the scan has this status.")
    scheduled: bool = field("Whether ``[orphans] schedule_interval`` started the scan. Otherwise a user did.")
    read: int = field("The present read.", minimum=1, maximum=2)
    min_age: int = field("Seconds. Younger resources are skipped: that of the request, or ``[orphans] min_age``.")
    reread_after: int = field(
        "Seconds between the end of the first read and the second read: ``[orphans] reread_after``."
    )
    user_id: str = field("ID of the user who started the scan. Empty: the schedule.")
    user_name: str = USER_NAME
    request_id: str = REQUEST_ID
    created_at: str = time("When the scan was recorded.")
    status_at: str = time("When the scan entered its status.")
    reread_at: str | None = time("When the second read may begin. ``null``: not known, or not needed.")
    finished_at: str | None = time("When the scan ended. ``null``: it has not ended.")
    links: list[Link] = SELF
    counts: ScanCounts = field("Sums of ``coverage``.", detail=True)
    coverage: list[ScannedType] = field(
        "One object for each type in each region that the scan lists.",
        detail=True,
    )
    not_covered: list[NotCoveredType] = field("The types that a scan cannot list.", detail=True)


class Owned(Shape):
    """Whose a resource is in its service."""

    project_id: str = field("The owner of the resource in its service.")


class Orphan(
    Owned,
    TypeInRegion,
    many="orphans",
    columns="project_id type name",
    wide="region service id project_setting created_at first_seen_at last_seen_at",
):
    """A resource whose project no longer exists."""

    id: str = field("ID of the resource in its service.")
    name: str = field("Name of the resource in its service.")
    project_setting: bool = field(
        "Whether the resource is a project setting, such as a quota or a default security group."
    )
    created_at: str | None = time("When the resource was created. ``null``: its service does not say.")
    age_known: bool = field("Whether ``created_at`` is known.")
    first_seen_at: str = time("When the first read found the resource.")
    last_seen_at: str = time("When the second read found the resource.")


class TypeCount(Shape):
    """The number of orphans of a type."""

    type: str = field("Type, as ``service.type``.")
    count: int = field("Number of orphans of the type.")


class OrphanProject(
    Shape,
    many="projects",
    columns="project_id project_name orphans counts",
    wide="domain_id project_settings",
):
    """A project that no longer exists, and the number of its orphans."""

    project_id: str = field("ID of the project.")
    project_name: str | None = field(
        "Name of the project in its latest recorded deletion that has one. ``null``: there is none."
    )
    domain_id: str | None = field("ID of its domain from the same source.")
    deletion_id: str | None = uuid("ID of that deletion.")
    orphans: int = field("Number of orphans, without project settings.")
    counts: list[TypeCount] = field("Number of orphans of each type, without project settings.")
    project_settings: list[TypeCount] = field("The same for project settings.")
