"""Liens, waivers and the brake, and the services of the catalog.

Written by ``python -m tests.sdk_source`` from the shapes of the API: change these, and write it anew.
"""

from __future__ import annotations

from typing import Any

from openstack import resource

from cleanup_orchestrator.sdk.base import CleanupResource
from cleanup_orchestrator.sdk.places import Place


class Lien(CleanupResource):
    """A protection of a project from deletion."""

    resource_key = "lien"
    resources_key = "liens"

    #: ID of the lien.
    id: str = resource.Body("id", type=str)
    #: ID of the protected project.
    project_id: str = resource.Body("project_id", type=str)
    #: The department or system that needs the lien. Of a plugin lien: the plugin, such as ``plugin:image.image``.
    origin: str = resource.Body("origin", type=str)
    #: Why. Only for callers who may read liens.
    reason: str = resource.Body("reason", type=str)
    #: When the lien was recorded.
    created_at: str = resource.Body("created_at", type=str)
    #: When the lien ends. ``null``: it is in force until it is removed.
    expires_at: str | None = resource.Body("expires_at", type=str)
    #: ID of the user who recorded the lien. Empty: a plugin raised it.
    user_id: str = resource.Body("user_id", type=str)
    #: Name of that user.
    user_name: str = resource.Body("user_name", type=str)
    #: ID of the request. For a plugin lien: of the request for the deletion.
    request_id: str = resource.Body("request_id", type=str)
    #: When the lien was removed. ``null``: it was not removed.
    deleted_at: str | None = resource.Body("deleted_at", type=str)
    #: ID of the user who removed the lien, or ``plugin``. Empty: it was not removed.
    deleted_by: str = resource.Body("deleted_by", type=str)
    #: State of the lien. Only in the answers of ``/v1/liens``.
    state: str = resource.Body("state", type=str)
    #: One link with ``rel`` ``self``: the URL of the record.
    links: list[dict[str, Any]] = resource.Body("links", type=list)


class SkippedService(Place):
    """A catalog entry that a waiver skipped."""


class Waiver(CleanupResource):
    """The permission to skip a service."""

    resource_key = "waiver"
    resources_key = "waivers"

    #: ID of the waiver.
    id: str = resource.Body("id", type=str)
    #: Official type of the waived service.
    service_type: str = resource.Body("service_type", type=str)
    #: Only in this region. ``null``: in every region.
    region: str | None = resource.Body("region", type=str)
    #: Only for deletions of this project. ``null``: for deletions of every project.
    project_id: str | None = resource.Body("project_id", type=str)
    #: Why. Only for callers who may read waivers.
    reason: str = resource.Body("reason", type=str)
    #: When the waiver was recorded.
    created_at: str = resource.Body("created_at", type=str)
    #: When the waiver ends.
    expires_at: str = resource.Body("expires_at", type=str)
    #: ID of the user who recorded the waiver.
    user_id: str = resource.Body("user_id", type=str)
    #: Name of that user.
    user_name: str = resource.Body("user_name", type=str)
    #: ID of the request. Absent in a deletion.
    request_id: str = resource.Body("request_id", type=str)
    #: When the waiver was withdrawn. ``null``: it was not. Absent in a deletion.
    deleted_at: str | None = resource.Body("deleted_at", type=str)
    #: ID of the user who withdrew it. Empty: it was not withdrawn. Absent in a deletion.
    deleted_by: str = resource.Body("deleted_by", type=str)
    #: State of the waiver. Only in the answers of ``/v1/waivers``.
    state: str = resource.Body("state", type=str)
    #: One link with ``rel`` ``self``: the URL of the record.
    links: list[dict[str, Any]] = resource.Body("links", type=list)
    #: Only in a deletion: the catalog entries that were skipped because of it.
    not_listed: list[SkippedService] = resource.Body("not_listed", type=list, list_type=SkippedService)


class Brake(CleanupResource):
    """The brake, which stops all deletions of the cloud."""

    resource_key = "brake"

    #: Whether the brake is set.
    on: bool = resource.Body("on", type=bool)
    #: The reason with which the brake was set last. Empty: it was never set.
    reason: str = resource.Body("reason", type=str)
    #: When the brake was set or lifted last. ``null``: it was never set.
    since: str | None = resource.Body("since", type=str)
    #: ID of the user who set or lifted the brake last. Empty: it was never set.
    user_id: str = resource.Body("user_id", type=str)
    #: Name of that user.
    user_name: str = resource.Body("user_name", type=str)
    #: ID of that request.
    request_id: str = resource.Body("request_id", type=str)


class TypeFacts(CleanupResource):
    """What an admin wants to know of a resource type before a force."""

    #: The resource type, as in ``types``.
    type: str = resource.Body("type", type=str)
    #: Whether the type has a forced delete.
    forcible: bool = resource.Body("forcible", type=bool)
    #: What an abandoned resource of the type still uses and does. Empty: not known.
    if_abandoned: str = resource.Body("if_abandoned", type=str)


class Service(CleanupResource):
    """An entry of the catalog, and what handles it."""

    resources_key = "services"

    #: Region of the endpoints in Keystone. Empty: they have no region.
    region: str = resource.Body("region", type=str)
    #: Official type of the service. Of a second service of the type in the region: the type, a dot, and the name or ID
    #: of the service, such as ``object-store.radosgw``.
    service_type: str = resource.Body("service_type", type=str)
    #: Name of the service in Keystone.
    name: str = resource.Body("name", type=str)
    #: ``plugin``: a plugin handles the service. ``protocol``: it lists and deletes its resources itself.
    #: ``nothing_to_own``: ``[catalog] owns_nothing`` has it. ``waived``: a waiver makes deletions skip it.
    #: ``unsupported``: nothing lists it, so that no project can be deleted.
    answered_by: str = resource.Body("answered_by", type=str)
    #: The resource types of the plugin, or those that the service itself declares. Empty without either.
    types: list[str] = resource.Body("types", type=list, list_type=str)
    #: With ``plugin``: one object for each of ``types``. Empty: no type has a forced delete.
    type_facts: list[TypeFacts] = resource.Body("type_facts", type=list, list_type=TypeFacts)
    #: Why neither a plugin nor the service itself lists its resources, or what is wrong with that. With ``waived``: who
    #: waived it, until when, and why, if the caller may read waivers.
    message: str = resource.Body("message", type=str)
    #: ID of the waiver. ``null``: not waived.
    waiver_id: str | None = resource.Body("waiver_id", type=str)
    #: Where the service answers over the project resources protocol. Empty: it never did, or the caller may see only
    #: the services of a domain.
    protocol_url: str = resource.Body("protocol_url", type=str)
    #: When the service last said over the protocol which types it has. ``null``: it never did.
    protocol_read_at: str | None = resource.Body("protocol_read_at", type=str)
