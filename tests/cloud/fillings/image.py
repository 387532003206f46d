"""Glance: images in every state and visibility, and the objects that refer to them."""

from __future__ import annotations

import time
from typing import Any

from tests.cloud.fillings.base import FillError, Filling, Rest

DATA = b"not much of an image, but it is one\n" * 64
OCTETS = {"Content-Type": "application/octet-stream"}


def make_image(image: Rest, owner: str, name: str, *, data: bytes | None = DATA, **attributes: Any) -> str:
    """An image with data (unless it is to stay queued), once."""
    for hidden in ("false", "true"):
        query = {"name": name, "owner": owner, "visibility": "all", "os_hidden": hidden}
        if found := image.call("GET", "/images", params=query)["images"]:
            return found[0]["id"]
    body = {"name": name, "disk_format": "raw", "container_format": "bare", **attributes}
    image_id = image.call("POST", "/images", body)["id"]
    if data is not None:
        image.raw("PUT", f"/images/{image_id}/file", data=data, headers=OCTETS)
    return image_id


def images(f: Filling) -> None:
    for suffix, attributes in (
        ("plain", {}),
        ("protected", {"protected": True}),
        ("hidden", {"os_hidden": True}),
        ("queued", {"data": None}),
        ("community", {"visibility": "community"}),
        ("shared", {"visibility": "shared"}),
    ):
        image_id = f.note("image", make_image(f.image, f.project_id, f"{f.name}-{suffix}", **attributes))
        if suffix == "shared":
            f.note("shared image", image_id)


def image_member(f: Filling) -> None:
    """The shared image has a consumer."""
    image_id = f.first("shared image")
    f.image.call("POST", f"/images/{image_id}/members", {"member": f.filled.partner_id}, ok=(409,))  # it is one
    f.note("image member", f"{image_id}/{f.filled.partner_id}")


def imported_image(f: Filling) -> None:
    """The import call of an image leaves a task, which cannot be deleted."""
    name = f"{f.name}-imported"
    image_id = make_image(f.image, f.project_id, name, data=None)
    f.note("image", image_id)
    if f.image.call("GET", f"/images/{image_id}")["status"] == "queued":
        f.image.raw("PUT", f"/images/{image_id}/stage", data=DATA, headers=OCTETS)
        f.image.call("POST", f"/images/{image_id}/import", {"method": {"name": "glance-direct"}})
    deadline = time.monotonic() + 600
    while (status := f.image.call("GET", f"/images/{image_id}")["status"]) != "active":
        if time.monotonic() > deadline:
            raise FillError(f"the imported image {image_id} is still {status}")
        time.sleep(0.2)
    tasks = f.image_admin.call("GET", "/tasks", params={"owner": f.project_id})["tasks"]
    for task in tasks:
        f.note("image task", task["id"])


def metadef_namespace(f: Filling) -> None:
    """Only an administrator may write these; the owner is the project nevertheless."""
    name = f"{f.name}::Demo"
    body = {
        "namespace": name,
        "owner": f.project_id,
        "protected": True,
        "visibility": "private",
        "properties": {"colour": {"title": "colour", "type": "string"}},
        "objects": [{"name": "thing", "properties": {}}],
        "tags": [{"name": "demo"}],
    }
    f.image_admin.call("POST", "/metadefs/namespaces", body, ok=(409,))  # it exists
    f.note("metadef namespace", name)


KINDS = (images, image_member, imported_image, metadef_namespace)
