"""What a deletion reports: leftovers, events and plans.

Written by ``python -m tests.sdk_source`` from the shapes of the API: change these, and write it anew.
"""

from __future__ import annotations

from typing import Any

from openstack import resource

from cleanup_orchestrator.sdk.base import CleanupResource
from cleanup_orchestrator.sdk.deletions import Blocker, BlockingResource, Selection
from cleanup_orchestrator.sdk.places import InDeletion, TypeInRegion


class Leftover(TypeInRegion):
    """A resource of the project that still exists."""

    resources_key = "leftovers"

    #: ID of the resource in its service. In Swift: the name of the container.
    id: str = resource.Body("id", type=str)
    #: Name of the resource in its service.
    name: str = resource.Body("name", type=str)
    #: Size in bytes, as its service lists it. ``null``: the service does not say.
    size: int | None = resource.Body("size", type=int)
    #: Number of objects in it, of a container. ``null``: it is none, or the number is not known.
    objects: int | None = resource.Body("objects", type=int)
    #: Code of why the resource is left.
    reason: str = resource.Body("reason", type=str)
    #: The same as text, often the answer of the service.
    message: str = resource.Body("message", type=str)
    #: What to do, who may do it, and what happens then: never empty. Of an abandoned resource, and with
    #: ``project_gone``: how to delete it by hand, if that is known.
    remedy: str = resource.Body("remedy", type=str)
    #: The commands of ``remedy`` that can be copied: without one that deletes or gives up something, and without one
    #: for a resource of another project. Words in capitals stand for a value.
    commands: list[str] = resource.Body("commands", type=list, list_type=str)
    #: Whether force abandoned the resource.
    abandoned: bool = resource.Body("abandoned", type=bool)
    #: ID of the project that the resource belongs to, recorded under force and for a project that Keystone does not
    #: know. ``null``: unknown, or not recorded.
    owner: str | None = resource.Body("owner", type=str)
    #: The resources that block the delete, at most 50.
    blocked_by: list[BlockingResource] = resource.Body("blocked_by", type=list, list_type=BlockingResource)


class ProjectLeftover(InDeletion, Leftover):
    """A leftover, with its project and its deletion."""


class Event(CleanupResource):
    """An entry of the journal of a deletion."""

    resources_key = "events"

    #: Number of the entry, which is also its marker. Later entries have greater numbers.
    id: int = resource.Body("id", type=int)
    #: When the entry was recorded.
    at: str = resource.Body("at", type=str)
    #: Type of the entry: two words with a dot, such as ``deletion.accepted`` or ``resource.deleted``.
    type: str = resource.Body("type", type=str)
    #: The entry as text.
    message: str = resource.Body("message", type=str)
    #: ID of the user, or name of the engine or the worker. Empty: none is recorded.
    actor: str = resource.Body("actor", type=str)
    #: ID of the request that caused the entry. Empty: no request.
    request_id: str = resource.Body("request_id", type=str)
    #: Details. The fields depend on ``type``.
    data: dict[str, Any] = resource.Body("data", type=dict)
    #: Number of the entry in the journal of its deletion, from 1 without a gap.
    sequence: int = resource.Body("sequence", type=int)
    #: SHA-256 of the entry and of the digest of the entry before it. The report of the deletion has what it covers.
    digest: str = resource.Body("digest", type=str)


class ProjectEvent(InDeletion, Event):
    """An entry of the journal, with its project and its deletion."""


class PlannedType(TypeInRegion):
    """The counts of one type of a plan in one region."""

    #: Number of resources to delete.
    delete: int = resource.Body("delete", type=int)
    #: Number of resources to keep.
    keep: int = resource.Body("keep", type=int)
    #: Number of resources that would block the cascade.
    protect: int = resource.Body("protect", type=int)
    #: Sum of the sizes of the resources to delete, in bytes. ``null``: one or more are not known.
    size: int | None = resource.Body("size", type=int)
    #: Sum of the objects in these, of containers. ``null``: one or more are not known.
    objects: int | None = resource.Body("objects", type=int)
    #: Whether the type was listed.
    known: bool = resource.Body("known", type=bool)
    #: Whether a waiver excludes the type. Then ``known`` is false.
    waived: bool = resource.Body("waived", type=bool)
    #: Code of the result, as in the counts of a deletion.
    reason: str = resource.Body("reason", type=str)
    #: The result as text.
    message: str = resource.Body("message", type=str)
    #: SHA-256 of the sorted IDs to delete, each as JSON on a line. Empty: the type was not listed.
    digest: str = resource.Body("digest", type=str)


class Plan(CleanupResource):
    """The plan of a dry run: what a cascade would delete, keep and protect."""

    resource_key = "plan"

    #: ID of the plan, which is the ID of its dry run.
    id: str = resource.Body("id", type=str)
    #: ID of the project.
    project_id: str = resource.Body("project_id", type=str)
    #: Name of the project.
    project_name: str = resource.Body("project_name", type=str)
    #: ID of the domain of the project.
    domain_id: str = resource.Body("domain_id", type=str)
    #: Mode of the dry run, and of the deletions that can be bound to it.
    mode: str = resource.Body("mode", type=str)
    #: What the dry run selected.
    selection: Selection = resource.Body("selection", type=Selection)
    #: When the dry run ended.
    created_at: str = resource.Body("created_at", type=str)
    #: Until when a deletion can be requested with the plan: ``[deletion] plan_max_age`` seconds after ``created_at``.
    expires_at: str = resource.Body("expires_at", type=str)
    #: What would be deleted, and what blocks it, as one sentence.
    summary: str = resource.Body("summary", type=str)
    #: ID of the user who requested the dry run.
    user_id: str = resource.Body("user_id", type=str)
    #: Name of that user.
    user_name: str = resource.Body("user_name", type=str)
    #: Hash of the resources that would be deleted. The order in which services list them does not change it.
    hash: str = resource.Body("hash", type=str)
    #: Whether ``unknown`` is empty.
    complete: bool = resource.Body("complete", type=bool)
    #: Types that could not be listed, as ``service.type@region``, and unsupported services, as ``service@region``.
    #: Waived services are not among them.
    unknown: list[str] = resource.Body("unknown", type=list, list_type=str)
    #: Number of resources to delete.
    delete: int = resource.Body("delete", type=int)
    #: Number of resources to keep.
    keep: int = resource.Body("keep", type=int)
    #: Number of resources that would block the cascade.
    protect: int = resource.Body("protect", type=int)
    #: Types with resources to delete, as ``service.type``. The types of one array are deleted in parallel, after those
    #: of earlier ones.
    order: list[list[str]] = resource.Body("order", type=list)
    #: Types of project settings (quotas and the like), as ``service.type``. They are deleted right before the project
    #: is removed, and the plan does not have their resources.
    with_project: list[str] = resource.Body("with_project", type=list, list_type=str)
    #: One object for each type in each region, without project settings.
    types: list[PlannedType] = resource.Body("types", type=list, list_type=PlannedType)
    #: What would prevent the end of a cascade: protected resources, and unknown types.
    blockers: list[Blocker] = resource.Body("blockers", type=list, list_type=Blocker)
    #: One link with ``rel`` ``self``: the URL of the record.
    links: list[dict[str, Any]] = resource.Body("links", type=list)


class Planned(CleanupResource):
    """What a plan says about a resource."""

    #: ``delete``. ``keep``: the resource is not the user's, is deleted with its parent, or is not selected.
    #: ``protect``: it would block the deletion. ``message`` says why.
    action: str = resource.Body("action", type=str)


class PlannedResource(Planned, TypeInRegion):
    """A resource of a plan."""

    resources_key = "resources"

    #: ID of the resource in its service.
    id: str = resource.Body("id", type=str)
    #: Name of the resource in its service.
    name: str = resource.Body("name", type=str)
    #: Size in bytes, as its service lists it. ``null``: the service does not say.
    size: int | None = resource.Body("size", type=int)
    #: Number of objects in it, of a container. ``null``: it is none, or the number is not known.
    objects: int | None = resource.Body("objects", type=int)
    #: Code of the reason.
    reason: str = resource.Body("reason", type=str)
    #: The same as text.
    message: str = resource.Body("message", type=str)
    #: The resources that will block the delete, at most 50.
    blocked_by: list[BlockingResource] = resource.Body("blocked_by", type=list, list_type=BlockingResource)
