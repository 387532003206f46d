"""Glance: what of other projects uses an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    OneByOne,
    Paging,
    ProjectDefinition,
    Resource,
    Rest,
    Use,
    Verdict,
    blocker,
    foreign_users,
    in_catalog,
    verdict_naming,
)
from cleanup_orchestrator.plugins.glance import foreign_images, images_with
from cleanup_orchestrator.plugins.nova import foreign_servers

if TYPE_CHECKING:
    from openstack.connection import Connection


def _used_otherwise(image: Resource, project: ProjectDefinition) -> bool:
    """Return whether the operator wants no image of this visibility to be kept for others."""
    return bool(project.options.get(f"delete_{image.data.get('visibility')}_images"))


def _booted(connection: Connection, project: ProjectDefinition, image: Resource) -> Verdict | None:
    """Name the servers of others that were booted from an image."""
    if _used_otherwise(image, project) or not in_catalog(connection, "compute"):
        return None
    return verdict_naming(project, "it is the image of", foreign_servers(connection, project, image=image.id))


#: Formats of images that other images may name as their kernel or ramdisk.
_KERNELS = frozenset({"aki", "ari", "raw"})


def _kernel_of(connection: Connection, project: ProjectDefinition, image: Resource) -> Verdict | None:
    """Name the images of others that name an image as their kernel or ramdisk."""
    if _used_otherwise(image, project) or image.data.get("disk_format") not in _KERNELS:
        return None
    rows = (row for name in ("kernel_id", "ramdisk_id") for row in images_with(connection, name, image.id))
    return verdict_naming(project, "it is the kernel or ramdisk of", foreign_images(project, rows))


def _in_templates(connection: Connection, project: ProjectDefinition, images: Sequence[Resource]) -> dict[str, Verdict]:
    """Name the cluster templates of others that name the images by id."""
    type_ = "container-infrastructure-management"
    if not in_catalog(connection, type_):
        return {}
    listing = Rest(type_, "/clustertemplates", key="clustertemplates", query={"limit": 200}, paging=Paging.LINKS)
    asked = {image.id for image in images if not _used_otherwise(image, project)}
    name = f"{type_}.cluster_template"
    using = (
        (str(row["image_id"]), blocker(name, row["uuid"], row.get("project_id"), row.get("name")))
        for row in listing.rows(connection, project)
        if row.get("image_id") in asked
    )
    return foreign_users(project, "it is the image of", using)


#: Uses besides memberships, which the plugin itself knows.
USES = (
    Use(
        ("compute.server",),
        "leaves the server without its image: it can no longer be rebuilt, nor moved everywhere",
        OneByOne(_booted),
        planned=False,
        option="delete_public_images, delete_community_images, delete_shared_images",
    ),
    Use(
        ("image.image",),
        "leaves the image without its kernel or ramdisk",
        OneByOne(_kernel_of),
        planned=False,
    ),
    Use(
        ("container-infrastructure-management.cluster_template",),
        "leaves the template without its image",
        _in_templates,
    ),
    Use(("block-storage.volume",), "is refused by a store that has not copied the data to the volume"),
    Use(
        ("baremetal.node", "database.instance"),
        "leaves them without their image",
        unseen="Ironic shows the nodes of others to its admins alone, and Trove's versions of data stores "
        "belong to the operator, who keeps their images",
    ),
)
