"""Cinder: volumes in every state that refuses a delete, and everything that can depend on one."""

from __future__ import annotations

import time
import uuid
from typing import Any

from tests.cloud.fillings.base import Filled, FillError, Filling, Rest
from tests.cloud.fillings.compute import await_server, compute, make_server
from tests.cloud.fillings.image import make_image

PATIENCE = 600.0  # seconds within which a resource changes its state
TYPE = "fakevol"
GROUP_TYPE = "loose"


def cinder(connection: Any, version: str = "3.59") -> Rest:
    return Rest(connection.block_storage, {"OpenStack-API-Version": f"volume {version}"})


def await_status(rest: Rest, collection: str, id_: str, *statuses: str) -> dict[str, Any]:
    """Wait until a resource has one of these states; return it."""
    key = collection.removesuffix("s")
    deadline = time.monotonic() + PATIENCE
    while (found := rest.call("GET", f"/{collection}/{id_}", connect_retries=6)[key])["status"] not in statuses:
        if found["status"].startswith("error") or time.monotonic() > deadline:
            raise FillError(f"{key} {found['name']} is {found['status']}, not {' or '.join(statuses)}")
        time.sleep(0.3)
    return found


def once(rest: Rest, collection: str, name: str, **attributes: Any) -> str:
    """Return the id of the resource with that name; begin its creation if there is none."""
    for found in rest.call("GET", f"/{collection}/detail")[collection]:
        if found["name"] == name:
            return found["id"]
    key = collection.removesuffix("s")
    return rest.call("POST", f"/{collection}", {key: {"name": name, **attributes}})[key]["id"]


def make_volume(filled: Filled, name: str, **attributes: Any) -> str:
    """A volume of a gigabyte, once."""
    rest = cinder(filled.connection)
    volume_id = once(rest, "volumes", name, size=1, volume_type=TYPE, **attributes)
    states = ("available", "in-use", "reserved", "awaiting-transfer", "error", "error_deleting")  # also an earlier one
    await_status(rest, "volumes", volume_id, *states)
    return volume_id


def settings(f: Filling) -> None:
    """Make the settings of an administrator for the project: limits, a default type, and a private type."""
    rest = cinder(f.admin_connection, "3.62")
    rest.call("PUT", f"/os-quota-sets/{f.project_id}", {"quota_set": {"volumes": 66, "snapshots": 44}})
    f.note("volume quota", f.project_id)
    known = {t["name"]: t["id"] for t in rest.call("GET", "/types", params={"is_public": "None"})["volume_types"]}
    if (name := f"{f.name}-nowhere") not in known:
        body = {"name": name, "os-volume-type-access:is_public": False, "extra_specs": {"volume_backend_name": "none"}}
        known[name] = rest.call("POST", "/types", {"volume_type": body})["volume_type"]["id"]
    for project in (f.project_id, f.filled.partner_id):
        path = f"/types/{known[name]}/action"
        rest.call("POST", path, {"addProjectAccess": {"project": project}}, ok=(409,))  # it has it
    f.note("volume type access", known[name])
    rest.call("PUT", f"/default-types/{f.project_id}", {"default_type": {"volume_type": TYPE}})
    f.note("default volume type", known[TYPE])
    groups = {t["name"]: t["id"] for t in rest.call("GET", "/group_types")["group_types"]}
    if GROUP_TYPE not in groups:
        rest.call("POST", "/group_types", {"group_type": {"name": GROUP_TYPE}}, ok=(409,))  # it exists already


def volumes(f: Filling) -> None:
    f.note("volume", make_volume(f.filled, f"{f.name}-plain", metadata={"colour": "blue"}))
    for suffix in ("parent", "stale", "failed", "half-deleted"):
        f.note("volume", make_volume(f.filled, f"{f.name}-{suffix}"))
    everything = cinder(f.admin_connection)
    for at, reset in (
        (2, {"status": "available", "attach_status": "attached"}),  # without an attachment
        (3, {"status": "error"}),
        (4, {"status": "error_deleting"}),
    ):
        path = f"/volumes/{f.first('volume', at)}/action"
        everything.call("POST", path, {"os-reset_status": reset})


def snapshots(f: Filling) -> None:
    """Two of one volume, and a volume made from one of them: no type can be deleted completely before the other."""
    rest, everything = cinder(f.filled.connection), cinder(f.admin_connection)
    for suffix in ("snap", "failed snap"):
        snapshot = f.note("snapshot", once(rest, "snapshots", f"{f.name}-{suffix}", volume_id=f.first("volume", 1)))
        await_status(rest, "snapshots", snapshot, "available", "error_deleting")
    everything.call("POST", f"/snapshots/{snapshot}/action", {"os-reset_status": {"status": "error_deleting"}})
    f.note("volume", make_volume(f.filled, f"{f.name}-clone", snapshot_id=f.first("snapshot")))


def transfer(f: Filling) -> None:
    """An offer that was not accepted."""
    rest = cinder(f.filled.connection)
    volume = f.note("volume", make_volume(f.filled, f"{f.name}-offered"))
    known = rest.call("GET", "/volume-transfers/detail")["transfers"]
    if not known:
        body = {"transfer": {"volume_id": volume, "name": f"{f.name}-offer"}}
        known = [rest.call("POST", "/volume-transfers", body)["transfer"]]
    f.note("volume transfer", known[0]["id"])


def groups(f: Filling) -> None:
    """A group with a volume and a snapshot of it; and a group of the old kind.

    The old group has a type that no storage has: the fake storage would fail to create and to delete it.
    """
    rest = cinder(f.filled.connection)
    group = f.note("group", once(rest, "groups", f"{f.name}-group", group_type=GROUP_TYPE, volume_types=[TYPE]))
    await_status(rest, "groups", group, "available")
    f.note("volume", make_volume(f.filled, f"{f.name}-grouped", group_id=group))
    snapshot = f.note("group snapshot", once(rest, "group_snapshots", f"{f.name}-group-snap", group_id=group))
    await_status(rest, "group_snapshots", snapshot, "available")
    every = rest.call("GET", "/consistencygroups/detail")["consistencygroups"]
    old = [each["id"] for each in every if each["name"] == f"{f.name}-old"]
    if not old:
        body = {"consistencygroup": {"name": f"{f.name}-old", "volume_types": f.first("volume type access")}}
        old = [rest.call("POST", "/consistencygroups", body)["consistencygroup"]["id"]]
    f.note("consistency group", old[0])


def backups(f: Filling) -> None:
    """One of a whole volume, and two incremental ones, each based on the one before."""
    rest = cinder(f.filled.connection)
    for suffix, incremental in (("full", False), ("second", True), ("third", True)):
        name, volume = f"{f.name}-{suffix}", f.first("volume")
        backup = f.note("backup", once(rest, "backups", name, volume_id=volume, incremental=incremental))
        await_status(rest, "backups", backup, "available")


def attachments(f: Filling) -> None:
    """A volume that is deleted with its server, and one that is reserved for a server that was never created."""
    rest, nova = cinder(f.filled.connection), compute(f.filled.connection)
    newer = Rest(f.filled.connection.compute, {"OpenStack-API-Version": "compute 2.79"})
    image = make_image(f.image, f.project_id, f"{f.name}-with-volume")
    server = f.note("server with a volume", make_server(f.filled, f"{f.name}-with-volume", imageRef=image))
    await_server(nova, server, "ACTIVE")
    used = f.note("volume", make_volume(f.filled, f"{f.name}-used"))
    if rest.call("GET", f"/volumes/{used}")["volume"]["status"] == "available":
        body = {"volumeAttachment": {"volumeId": used, "delete_on_termination": True}}
        newer.call("POST", f"/servers/{server}/os-volume_attachments", body)
    await_status(rest, "volumes", used, "in-use")
    reserved = f.note("volume", make_volume(f.filled, f"{f.name}-reserved"))
    if rest.call("GET", f"/volumes/{reserved}")["volume"]["status"] == "available":
        body = {"attachment": {"volume_uuid": reserved, "instance_uuid": str(uuid.uuid4())}}
        rest.call("POST", "/attachments", body)
    for row in rest.call("GET", "/attachments")["attachments"]:
        f.note("attachment", row["id"])


KINDS = (settings, volumes, snapshots, transfer, groups, backups, attachments)
