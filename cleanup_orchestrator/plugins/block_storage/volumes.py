"""Cinder: volumes, their attachments and transfers, and snapshots."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cleanup_orchestrator.plugins.base import (
    GIB,
    REFUSED,
    Composition,
    ForcedDelete,
    LastChange,
    OneByOne,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Use,
    Verdict,
    blocker,
    exceptions,
    in_catalog,
    linked,
    may_be_id,
    refuse,
    verdict_naming,
)
from cleanup_orchestrator.plugins.block_storage.common import (
    ATTACHMENTS,
    BUSY,
    GROUP_MEMBERS,
    GROUPS,
    ON_HOLD,
    SERVICE_TYPE,
    SNAPSHOT_OWNER,
    SNAPSHOTS,
    TRANSFERS,
    VOLUME_OWNER,
    VOLUMES,
    attached_to,
    being_deleted,
    cinder_blocker,
    delete_failed,
    force_delete,
    list_all,
    list_rows,
    post_action,
    remedies,
    reset_to_error,
    server_blocker,
    snapshots_of,
    wait_while_busy,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

#: States in which Cinder accepts the delete of a volume (volume/api.py, delete). For other types only the first two.
DELETABLE = frozenset({"available", "error", "error_restoring", "error_extending", "error_managing"})
#: Values of ``migration_status`` when no migration is in progress (volume/api.py, AVAILABLE_MIGRATION_STATUS).
SETTLED = frozenset({None, "", "none", "deleting", "error", "success"})


def _volume_owner(connection: Connection, project: ProjectDefinition, volume_id: Any) -> str:
    row = VOLUMES.show.row(connection, project, Resource(str(volume_id), "", None))
    return str(row.get(VOLUME_OWNER) or "")


_SOURCE_IS_THERE = "_source_is_there"  # added to listed rows; no attribute of Cinder begins with an underscore


def _survives(value: str) -> bool:
    """Return whether Cinder keeps a filter's value as a string.

    For volumes it evaluates the value as a Python literal.
    """
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return True
    return False


def list_volumes(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's volumes; mark copies that a migration creates.

    A project id that reads as a number (digits alone, or with one ``e``) does not work as a filter in Cinder. Then all
    volumes of the cloud are listed, and the owner is compared here.
    """
    query = {"project_id": project.id} if _survives(project.id) else {}
    targets: list[Row] = []
    wanted: set[str] = set()
    for row in list_rows(connection, project, VOLUMES, **query):
        if str(row.get("migration_status") or "").startswith("target:"):
            targets.append(row)
        else:
            yield row
    # Copies are rare. The source volume is asked for, because remembering every id takes memory for many volumes.
    for row in targets:
        source = str(row["migration_status"]).removeprefix("target:")
        if source not in wanted and _exists(connection, source):
            wanted.add(source)
        yield {**row, _SOURCE_IS_THERE: source in wanted}


def _exists(connection: Connection, volume_id: str) -> bool:
    response = connection.block_storage.get(f"/volumes/{volume_id}")
    if response.status_code == 404:
        return False
    exceptions.raise_from_response(response)
    return True


def _keep_migration_target(volume: Resource, project: ProjectDefinition) -> str | None:
    if volume.data.get(_SOURCE_IS_THERE):
        return "Cinder made it to migrate another volume to, and removes it with that"
    return None


def _group_of(connection: Connection, project: ProjectDefinition, row: Row) -> list[dict[str, str]]:
    """Return the group that a volume is in, as a blocker."""
    if legacy := row.get("consistencygroup_id"):  # shows no owner; its volumes belong to its project
        return [cinder_blocker("consistency_group", legacy, project.id)]
    if not (group := row.get("group_id")):
        return []
    group_row = GROUPS.show.row(connection, project, Resource(str(group), "", None))
    return [cinder_blocker("group", group, group_row.get("project_id"), group_row.get("name"))]


def make_volume_deletable(connection: Connection, project: ProjectDefinition, volume: Resource) -> None:
    """Reset a stale state in which Cinder refuses the delete of a volume.

    :raises Refused: naming what the volume is used by
    """
    row = volume.data
    status = str(row.get("status"))
    refuse(verdict_naming(project, "it is deleted with", _group_of(connection, project, row)))
    if status in BUSY:
        wait_while_busy(project, row, status)
    if status == "deleting":
        _refuse_without_host(connection, project, row)
    if status == "awaiting-transfer":
        offers = list_rows(connection, project, TRANSFERS, volume_id=volume.id)
        blockers = [
            cinder_blocker("transfer", o["id"], project.id, o.get("name"))
            for o in offers
            if o.get("volume_id") == volume.id
        ]
        refuse(verdict_naming(project, "it is offered by", blockers))
    reset = {} if status in DELETABLE else {"status": "error"}
    migration = row.get("migration_status")
    if migration not in SETTLED:
        if not str(migration).startswith("target:"):
            wait_while_busy(project, row, "migrating")
        reset |= {"status": "error", "migration_status": "none"}
    if status in ON_HOLD or row.get("attachments"):
        refuse(verdict_naming(project, "it is attached to", attached_to(connection, project, volume.id)))
        reset |= {"status": "error", "attach_status": "detached"}
    if reset:
        post_action(connection, project, volume, VOLUMES, {"os-reset_status": reset})


def _refuse_without_host(connection: Connection, project: ProjectDefinition, row: Row) -> None:
    """Refuse a volume whose delete was lost, if the service of its host is gone: another delete would be lost as well.

    :raises Refused: naming the host, and the calls that help
    """
    host = str(row.get("os-vol-host-attr:host") or "").partition("#")[0]
    if not host:
        return
    services = Rest(
        SERVICE_TYPE, "/os-services", key="services", query={"binary": "cinder-volume"}, microversion=GROUP_MEMBERS
    )
    known = list(services.rows(connection, project))
    clusters = {service.get("cluster") for service in known if service.get("host") == host} - {None, ""}
    able = (service for service in known if service.get("host") == host or service.get("cluster") in clusters)
    if any(service.get("state") == "up" for service in able):
        return
    text = (
        f"Cinder has not deleted it, and no cinder-volume of its host {host} is up (openstack volume service list): "
        "start it; or, if the storage moved to another host, cinder-manage volume update_host --currenthost "
        f"{row['os-vol-host-attr:host']} --newhost HOST@BACKEND#POOL; or, if the storage is gone for good, mark the "
        "volume as deleted in Cinder's database"
    )
    raise Refused(Verdict(Reason.UNREACHABLE, text))


def delete_volume(connection: Connection, project: ProjectDefinition, volume: Resource) -> None:
    """Delete a volume, never in cascade; name what blocks it when Cinder refuses.

    :raises Refused: naming snapshots of any project, or what the volume is attached to
    """
    try:
        VOLUMES.delete.call(connection, project, volume)
        return
    except exceptions.BadRequestException:
        refuse(verdict_naming(project, "it has", snapshots_of(connection, project, volume.id)))
        refuse(verdict_naming(project, "it is attached to", attached_to(connection, project, volume.id)))
        now = VOLUMES.show.row(connection, project, volume)
        if now.get("status") not in DELETABLE or _group_of(connection, project, now):
            raise
    # Nothing shows the cause. The attach_status, which no answer contains, may be stale. The status is not reset,
    # because the cause may be another one.
    reset = {"os-reset_status": {"attach_status": "detached"}}
    post_action(connection, project, volume, VOLUMES, reset)
    VOLUMES.delete.call(connection, project, volume)


def force_volume(connection: Connection, project: ProjectDefinition, volume: Resource) -> None:
    """Reset a volume to error, detached and not migrating, and delete it by force.

    :raises Refused: when a server of any project has it, or it is deleted with its group; or naming its snapshots
    """
    refuse(verdict_naming(project, "it is deleted with", _group_of(connection, project, volume.data)))
    holders = attached_to(connection, project, volume.id)
    servers = [blocker for blocker in holders if blocker["type"] == "compute.server"]
    refuse(verdict_naming(project, "it is attached to", servers))
    reset = {"status": "error", "attach_status": "detached", "migration_status": "none"}
    try:
        force_delete(VOLUMES, reset)(connection, project, volume)
    except exceptions.BadRequestException:
        refuse(verdict_naming(project, "it has", snapshots_of(connection, project, volume.id)))
        raise


def _attached_elsewhere(connection: Connection, project: ProjectDefinition, volume: Resource) -> Verdict | None:
    """Name the servers of others that a volume is attached to."""
    servers = {str(row["server_id"]) for row in volume.data.get("attachments") or () if row.get("server_id")}
    holders = [holder for one in sorted(servers) if (holder := server_blocker(connection, one))]
    return verdict_naming(project, "it is attached to", (one for one in holders if one["owner"] != project.id))


def _data_of_image(connection: Connection, project: ProjectDefinition, volume: Resource) -> Verdict | None:
    """Name the image of others, or for others, whose data is the volume.

    A Cinder store of Glance (``glance_store``, ``_drivers/cinder``), and Cinder where it uploads a volume to such a
    store (``volume/manager.py``), note the image in the metadata, and name the volume after it. Any member can write
    both. So what Glance shows of the places of the image counts, where it shows them.
    """
    image_id = str((volume.data.get("metadata") or {}).get("glance_image_id") or "")
    if not may_be_id(image_id) or volume.name != f"image-{image_id}" or not in_catalog(connection, "image"):
        return None
    try:
        image = Rest("image", "/images/{id}").row(connection, project, Resource(image_id, "", None))
    except (exceptions.NotFoundException, exceptions.BadRequestException):  # it is gone, or no id of an image
        return None
    places = [str(one.get("url")) for one in image.get("locations") or ()]
    places += [str(image["direct_url"])] if image.get("direct_url") else []
    if places and not any(volume.id in place for place in places):
        return None
    owner, visibility = str(image.get("owner") or ""), str(image.get("visibility"))
    named = blocker("image.image", image_id, owner, image.get("name"))
    if owner != project.id:
        return verdict_naming(project, "it is the data of", [named])
    if visibility == "private" or (visibility == "shared" and not _has_members(connection, project, image_id)):
        return None  # the image is deleted as well
    text = f"it is the data of an image of the project, which is {visibility}: it goes once that image is private"
    return Verdict(Reason.PROTECTED, text, (named,))


def _has_members(connection: Connection, project: ProjectDefinition, image_id: str) -> bool:
    """Return whether an image is shared with a project that has not rejected it."""
    members = Rest("image", f"/images/{quote(image_id, safe='')}/members", key="members").rows(connection, project)
    return any(row.get("member_id") != project.id and row.get("status") != "rejected" for row in members)


def list_attachments(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the attachments of the project's volumes, with the volumes' owners."""
    own_volumes: set[str] | None = None
    for row in list_rows(connection, project, ATTACHMENTS, project_id=project.id):
        if own_volumes is None:
            own_volumes = {str(v["id"]) for v in list_volumes(connection, project) if v.get(VOLUME_OWNER) == project.id}
        mine = row.get("volume_id") in own_volumes
        owner = project.id if mine else _volume_owner(connection, project, row.get("volume_id"))
        # connection_info contains the credentials of the storage.
        yield {**{k: v for k, v in row.items() if k != "connection_info"}, "project_id": owner}


def show_attachment(connection: Connection, project: ProjectDefinition, attachment: Resource) -> Row:
    """Read the owner again: the owner of the volume."""
    row = ATTACHMENTS.show.row(connection, project, attachment)
    return {**row, "project_id": _volume_owner(connection, project, row.get("volume_id"))}


def check_attachment(connection: Connection, project: ProjectDefinition, attachment: Resource) -> Verdict | None:
    """Name the server that an attachment is for, if Nova knows it: Nova has to detach the volume.

    Cinder asks Nova as well, except where an attachment is only reserved.
    """
    server = attachment.data.get("instance")
    holder = server_blocker(connection, str(server)) if server else None
    return verdict_naming(project, "its volume is attached to", [holder] if holder else [])


def list_transfers(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the transfers of the project's volumes.

    A transfer from before Train shows no owner. Its owner is that of its volume.
    """
    for row in list_rows(connection, project, TRANSFERS, project_id=project.id):
        owner = row.get("source_project_id") or _volume_owner(connection, project, row.get("volume_id"))
        yield {**row, "source_project_id": owner}


def show_transfer(connection: Connection, project: ProjectDefinition, transfer: Resource) -> Row:
    """Read a transfer again."""
    row = TRANSFERS.show.row(connection, project, transfer)
    owner = row.get("source_project_id") or _volume_owner(connection, project, row.get("volume_id"))
    return {**row, "source_project_id": owner}


def _keep_accepted(transfer: Resource, project: ProjectDefinition) -> str | None:
    return "it was accepted, and only its record is left" if transfer.data.get("accepted") else None


_CLONED = "_cloned"  # added to listed rows, as _SOURCE_IS_THERE


def list_snapshots(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's snapshots; mark those that volumes of the project were made from."""
    cloned: set[str] | None = None
    for row in list_rows(connection, project, SNAPSHOTS, project_id=project.id):
        if cloned is None:
            made = (one.get("snapshot_id") for one in list_volumes(connection, project))
            cloned = {str(snapshot_id) for snapshot_id in made if snapshot_id}
        yield {**row, _CLONED: str(row["id"]) in cloned}


def snapshot_delete_failed(snapshot: Resource, project: ProjectDefinition) -> str | None:
    """Say that Cinder failed to delete a snapshot, or took back the delete.

    Cinder accepts each delete. If the back end then says that the snapshot is busy, it is available again
    (volume/manager.py, SnapshotIsBusy). While a volume of the project was made from it, it waits for that.
    """
    if snapshot.data.get("status") == "available" and not snapshot.data.get(_CLONED):
        return "Cinder accepts it and takes it back: to the back end the snapshot is busy, and it is available again"
    return delete_failed(snapshot, project)


_OF_SNAPSHOT = remedies("volume snapshot")
_CLONES = (
    "if it is available again after each delete, a volume that was made from it may need its data, also another "
    "project's: as an admin, cinder list --all-tenants --filters snapshot_id={id} shows such volumes; it is deleted "
    "automatically once they are gone, or have copies of the data (rbd flatten). Otherwise: "
)

TRANSFER = ResourceType(
    name="transfer",
    used_by=(),
    list=list_transfers,
    show=show_transfer,
    delete=TRANSFERS.delete,
    owner="source_project_id",
    all_projects=list_all(TRANSFERS),
    keep=(_keep_accepted,),
    created="created_at",
    parts=(),
    source="GET /v3/volume-transfers/detail?all_tenants=1&project_id=X, DELETE /v3/volume-transfers/{id}, "
    "microversion 3.59; cinder api/v3/volume_transfer.py, db/api.py (_process_transfer_filters)",
    note="An offer of one of the project's volumes to another project. After its delete the volume is available "
    "again. Offers to the project belong to the projects that made them. The delete acts on nothing that a user "
    "wrote: the key of an offer is compared only when the offer is accepted.",
)

ATTACHMENT = ResourceType(
    name="attachment",
    list=list_attachments,
    show=show_attachment,
    used_by=(
        Use(("compute.server",), "takes the volume from the server", OneByOne(check_attachment)),
        Use(
            ("application-container.container", "baremetal.node"),
            "takes the volume from the container or the node",
            unseen="an attachment of Zun names no container, and Ironic shows the nodes of others to its admins alone",
        ),
    ),
    delete=ATTACHMENTS.delete,
    title="instance",
    all_projects="an attachment shows no owner, and is deleted with its volume",
    after=("compute.server",),
    needed_by=(("compute.server", linked()),),
    source="GET /v3/attachments/detail?all_tenants=1&project_id=X, DELETE /v3/attachments/{id}, microversion "
    "3.27; cinder api/v3/attachments.py, volume/api.py (attachment_deletion_allowed)",
    note="It is deleted with its server. What is left then was not cleaned up by Nova, or does not belong to a "
    "server. Its owner is that of its volume. An attachment to a server that Nova knows is left: Cinder answers "
    "409 ConflictNovaUsingAttachment, and the server's owner is named.",
)

SNAPSHOT = ResourceType(
    name="snapshot",
    if_abandoned="It still uses storage. Its volume cannot be deleted while it exists.",
    list=list_snapshots,
    all_projects=list_all(SNAPSHOTS),
    show=SNAPSHOTS.show,
    delete=SNAPSHOTS.delete,
    owner=SNAPSHOT_OWNER,
    properties="metadata",
    composition=Composition(
        part_of=(("group_snapshot", "group_snapshot_id"), ("consistency_group_snapshot", "group_snapshot_id"))
    ),
    prepare=(reset_to_error(SNAPSHOTS),),
    used_by=(Use((f"{SERVICE_TYPE}.volume",), "is refused by a back end that has not copied the data to the volume"),),
    deleting=being_deleted,
    failed=snapshot_delete_failed,
    changed="updated_at",
    remedies={**_OF_SNAPSHOT, Reason.ERROR: _CLONES + _OF_SNAPSHOT[Reason.ERROR]},
    force=ForcedDelete(force_delete(SNAPSHOTS)),
    by_hand="as an admin: openstack volume snapshot set --state error {id}, then openstack volume snapshot "
    "delete --force {id}",
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    size=("size", GIB),
    source="GET /v3/snapshots/detail?all_tenants=1&project_id=X, DELETE /v3/snapshots/{id}; cinder "
    "api/v3/snapshots.py, volume/api.py (delete_snapshot)",
    note="It may belong to a volume that is another project's by now (a transfer without snapshots). That does not "
    "block its delete. On copy-on-write storage it can be deleted only after the volumes made from it: Cinder "
    "accepts the delete, reverts it later, and the delete is tried again. If no volume of the project was made from "
    "it, this counts as a failed delete: a volume that another project got by a transfer may need its data.",
)

VOLUME = ResourceType(
    name="volume",
    if_abandoned="It still uses storage.",
    list=list_volumes,
    all_projects=list_all(VOLUMES),
    show=VOLUMES.show,
    used_by=(
        Use(("compute.server",), REFUSED, foresee=OneByOne(_attached_elsewhere)),
        Use((f"{SERVICE_TYPE}.snapshot",), REFUSED),
        Use(("image.image",), "takes the data from the image", OneByOne(_data_of_image)),
    ),
    prepare=(make_volume_deletable,),
    deleting=being_deleted,
    failed=delete_failed,
    changed="updated_at",
    remedies=remedies("volume"),
    delete=delete_volume,
    force=ForcedDelete(force_volume),
    by_hand="as an admin: openstack volume set --state error --detached {id}, then openstack volume delete "
    "--force {id}",
    owner=VOLUME_OWNER,
    properties="metadata",
    composition=Composition(part_of=(("group", "group_id"), ("consistency_group", "consistencygroup_id"))),
    keep=(_keep_migration_target,),
    after=("compute.server", "container-infrastructure-management.cluster", "database.instance"),
    needed_by=(("compute.server", linked(Rest("compute", "/servers/{id}"))),),
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    size=("size", GIB),
    source="GET /v3/volumes/detail?all_tenants=1&project_id=X, DELETE /v3/volumes/{id}, POST "
    "/v3/volumes/{id}/action os-reset_status; cinder volume/api.py (delete, check_volume_filters), "
    "api/contrib/admin_actions.py",
    note="Never deleted in cascade: an admin's cascade would delete snapshots of other projects. With a snapshot "
    "of any project the delete is refused, and foreign ones are named. If a volume is in use, reserved or "
    "awaiting a transfer without an attachment or transfer, or its delete failed, it is reset to error and "
    "detached, then deleted. A project id that reads as a number does not work as a filter here: then the "
    "volumes of the whole cloud are listed and compared. The key of an encrypted volume is deleted with it. "
    "The copy that a migration creates is left to the migration.",
)
