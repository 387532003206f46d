"""The fields that say where something is: its region, service and type, or its project and deletion.

Written by ``python -m tests.sdk_source`` from the shapes of the API: change these, and write it anew.
"""

from __future__ import annotations

from openstack import resource

from cleanup_orchestrator.sdk.base import CleanupResource


class Place(CleanupResource):
    """The fields that name a service in a region."""

    #: Region of the catalog entry. Empty: the entry has no region.
    region: str = resource.Body("region", type=str)
    #: Official service type, such as ``network``.
    service: str = resource.Body("service", type=str)


class TypeInRegion(Place):
    """The fields that name a resource type in a region."""

    #: Resource type, such as ``port``. Empty: an unsupported service.
    type: str = resource.Body("type", type=str)


class InDeletion(CleanupResource):
    """The fields that name the project and the deletion of a record."""

    #: ID of the deletion.
    deletion_id: str = resource.Body("deletion_id", type=str)
    #: ID of the project.
    project_id: str = resource.Body("project_id", type=str)
    #: Name of the project in Keystone, or its last known name.
    project_name: str = resource.Body("project_name", type=str)
    #: ID of the domain of the project.
    domain_id: str = resource.Body("domain_id", type=str)
