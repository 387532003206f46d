"""The fields that say where something is: its region, service and type, or its project and deletion."""

from __future__ import annotations

from cleanup_orchestrator.shapes.base import Shape, field, uuid


class Place(Shape):
    """The fields that name a service in a region."""

    region: str = field("Region of the catalog entry. Empty: the entry has no region.")
    service: str = field("Official service type, such as ``network``.")


class TypeInRegion(Place):
    """The fields that name a resource type in a region."""

    type: str = field("Resource type, such as ``port``. Empty: an unsupported service.")


class InDeletion(Shape):
    """The fields that name the project and the deletion of a record."""

    deletion_id: str = uuid("ID of the deletion.")
    project_id: str = field("ID of the project.")
    project_name: str = field("Name of the project in Keystone, or its last known name.", label="Project")
    domain_id: str = field("ID of the domain of the project.")
