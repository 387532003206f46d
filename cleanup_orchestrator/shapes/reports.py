"""What a deletion reports: leftovers, events and plans."""

from __future__ import annotations

from typing import Any

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.words import DELETING_MODES
from cleanup_orchestrator.shapes.base import SELF, USER_NAME, Link, Shape, field, time, uuid, word
from cleanup_orchestrator.shapes.deletions import Blocker, BlockingResource, Selection
from cleanup_orchestrator.shapes.places import InDeletion, TypeInRegion


class Leftover(
    TypeInRegion,
    many="leftovers",
    columns="type id name reason",
    wide="region service size blocked_by remedy commands message abandoned owner",
):
    """A resource of the project that still exists."""

    id: str = field("ID of the resource in its service. In Swift: the name of the container.")
    name: str = field("Name of the resource in its service.")
    size: int | None = field("Size in bytes, as its service lists it. ``null``: the service does not say.")
    objects: int | None = field(
        "Number of objects in it, of a container. ``null``: it is none, or the number is not known."
    )
    reason: str = word(Reason, "Code of why the resource is left.")
    message: str = field("The same as text, often the answer of the service.")
    remedy: str = field(
        "What to do, who may do it, and what happens then: never empty. Of an abandoned resource, and with "
        "``project_gone``: how to delete it by hand, if that is known.",
    )
    commands: list[str] = field(
        "The commands of ``remedy`` that can be copied: without one that deletes or gives up something, and without "
        "one for a resource of another project. Words in capitals stand for a value.",
    )
    abandoned: bool = field("Whether force abandoned the resource.")
    owner: str | None = field(
        "ID of the project that the resource belongs to, recorded under force and for a project that Keystone does not "
        "know. ``null``: unknown, or not recorded."
    )
    blocked_by: list[BlockingResource] = field("The resources that block the delete, at most 50.")


class ProjectLeftover(
    InDeletion,
    Leftover,
    columns="project_name type id reason",
    wide="project_id region service name size blocked_by remedy commands deletion_id domain_id message abandoned owner",
):
    """A leftover, with its project and its deletion."""


class Event(Shape, many="events", columns="at message actor", wide="id type request_id data sequence digest"):
    """An entry of the journal of a deletion."""

    id: int = field("Number of the entry, which is also its marker. Later entries have greater numbers.")
    at: str = time("When the entry was recorded.")
    type: str = field("Type of the entry: two words with a dot, such as ``deletion.accepted`` or ``resource.deleted``.")
    message: str = field("The entry as text.")
    actor: str = field("ID of the user, or name of the engine or the worker. Empty: none is recorded.")
    request_id: str = field("ID of the request that caused the entry. Empty: no request.")
    data: dict[str, Any] = field("Details. The fields depend on ``type``.")
    sequence: int = field("Number of the entry in the journal of its deletion, from 1 without a gap.", minimum=1)
    digest: str = field(
        "SHA-256 of the entry and of the digest of the entry before it. The report of the deletion has what it covers.",
    )


class ProjectEvent(
    InDeletion,
    Event,
    columns="deletion_id project_name type",
    wide="project_id at message actor id request_id data sequence digest",
):
    """An entry of the journal, with its project and its deletion."""


class PlannedType(TypeInRegion):
    """The counts of one type of a plan in one region."""

    delete: int = field("Number of resources to delete.")
    keep: int = field("Number of resources to keep.")
    protect: int = field("Number of resources that would block the cascade.")
    size: int | None = field(
        "Sum of the sizes of the resources to delete, in bytes. ``null``: one or more are not known."
    )
    objects: int | None = field("Sum of the objects in these, of containers. ``null``: one or more are not known.")
    known: bool = field("Whether the type was listed.")
    waived: bool = field("Whether a waiver excludes the type. Then ``known`` is false.")
    reason: str = field("Code of the result, as in the counts of a deletion.")
    message: str = field("The result as text.")
    digest: str = field("SHA-256 of the sorted IDs to delete, each as JSON on a line. Empty: the type was not listed.")


class Plan(Shape, one="plan"):
    """The plan of a dry run: what a cascade would delete, keep and protect."""

    id: str = uuid("ID of the plan, which is the ID of its dry run.")
    project_id: str = field("ID of the project.")
    project_name: str = field("Name of the project.")
    domain_id: str = field("ID of the domain of the project.")
    mode: str = word(sorted(DELETING_MODES), "Mode of the dry run, and of the deletions that can be bound to it.")
    selection: Selection = field("What the dry run selected.")
    created_at: str = time("When the dry run ended.")
    expires_at: str = time(
        "Until when a deletion can be requested with the plan: ``[deletion] plan_max_age`` seconds after "
        "``created_at``."
    )
    summary: str = field("What would be deleted, and what blocks it, as one sentence.")
    user_id: str = field("ID of the user who requested the dry run.")
    user_name: str = USER_NAME
    hash: str = field(
        "Hash of the resources that would be deleted. The order in which services list them does not change it."
    )
    complete: bool = field("Whether ``unknown`` is empty.")
    unknown: list[str] = field(
        "Types that could not be listed, as ``service.type@region``, and unsupported services, as ``service@region``. "
        "Waived services are not among them."
    )
    delete: int = field("Number of resources to delete.")
    keep: int = field("Number of resources to keep.")
    protect: int = field("Number of resources that would block the cascade.")
    order: list[list[str]] = field(
        "Types with resources to delete, as ``service.type``. The types of one array are deleted in parallel, after "
        "those of earlier ones.",
    )
    with_project: list[str] = field(
        "Types of project settings (quotas and the like), as ``service.type``. They are deleted right before the "
        "project is removed, and the plan does not have their resources."
    )
    types: list[PlannedType] = field("One object for each type in each region, without project settings.")
    blockers: list[Blocker] = field("What would prevent the end of a cascade: protected resources, and unknown types.")
    links: list[Link] = SELF


class Planned(Shape):
    """What a plan says about a resource."""

    action: str = word(
        ["delete", "keep", "protect"],
        "``delete``. ``keep``: the resource is not the user's, is deleted with its parent, or is not selected. "
        "``protect``: it would block the deletion. ``message`` says why.",
    )


class PlannedResource(
    Planned,
    TypeInRegion,
    many="resources",
    columns="action type id name",
    wide="region service size reason message blocked_by",
):
    """A resource of a plan."""

    id: str = field("ID of the resource in its service.")
    name: str = field("Name of the resource in its service.")
    size: int | None = field("Size in bytes, as its service lists it. ``null``: the service does not say.")
    objects: int | None = field(
        "Number of objects in it, of a container. ``null``: it is none, or the number is not known."
    )
    reason: str = word(Reason, "Code of the reason.")
    message: str = field("The same as text.")
    blocked_by: list[BlockingResource] = field("The resources that will block the delete, at most 50.")
