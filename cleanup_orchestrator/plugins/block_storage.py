"""Cinder: volumes, snapshots, backups, groups of either kind, and what keeps them from going.

Cinder refuses a delete by state: what is merely in a state that nothing stands behind any more is reset and deleted;
what is busy is waited for, until it has not changed for ``reset_after``. Nothing is force-deleted, and nothing is
deleted in cascade: with an admin's token that takes other projects' snapshots along without a word.

A volume waits for its snapshots, a snapshot for the volumes made from it (on copy-on-write storage), a group for both,
and one that somebody else holds would keep all others. So no type waits here for another as a whole: each sweep takes
what is free by then, and names what is not.

What has no type of its own: encryption keys, metadata and the cached image go with their volume. User messages expire
by themselves (``message_ttl``), and do not say whose they are. Counters of quota usage and reservations stay: Cinder
deletes the limits alone. Volumes of the image cache belong to the project that ``cinder_internal_tenant_project_id``
names: it, and the one of Glance's Cinder store, belong on the list of projects that are never deleted.
"""

from __future__ import annotations

import ast
import dataclasses
import datetime
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from openstack import exceptions
from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    NOTHING,
    SCOPED,
    BadAnswer,
    Paging,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Service,
    Token,
    Verdict,
    blocker,
    knows_microversion,
    refuse,
    verdict_naming,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

OPTIONS = (
    cfg.IntOpt(
        "reset_after",
        default=4 * 3600,
        min=60,
        help="Seconds without a change after which a volume, snapshot, backup or group that is being created, deleted, "
        "migrated or the like counts as stuck. Then its state is reset to 'error', and it is deleted. Copying a large "
        "volume takes hours in which nothing changes that the API shows.",
    ),
)

_ATTACHMENTS = "3.27"  #: the first microversion with attachments; Ocata
_GROUP_MEMBERS = "3.14"  #: the first that names the group of a volume, and the group snapshot of a snapshot; Newton
_BACKUP_OWNER = "3.18"  #: the first that says whose a backup is; Ocata
_GROUP_OWNER = "3.58"  #: the first that says whose a group or a group snapshot is; Stein
_TRANSFERS = "3.59"  #: the first that pages transfers, and (from 3.57) says whose they were; Train
_DEFAULT_TYPES = "3.62"  #: the first with default types of projects; Victoria

_SERVICE = "block-storage"
_VOLUME_OWNER = "os-vol-tenant-attr:tenant_id"
_SNAPSHOT_OWNER = "os-extended-snapshot-attributes:project_id"
_BACKUP_PROJECT = "os-backup-project-attr:project_id"

#: States in which Cinder takes the delete of a volume (volume/api.py, delete); of anything else, the first two.
DELETABLE = frozenset({"available", "error", "error_restoring", "error_extending", "error_managing"})
#: States in which something works on it, and which end by themselves.
BUSY = frozenset(
    {
        "creating", "managing", "deleting", "downloading", "uploading", "retyping", "extending", "backing-up",
        "restoring", "restoring-backup", "reverting", "updating", "unmanaging",
    }
)  # fmt: skip
#: States of a volume that say that something else has it. When nothing does, they are stale.
ON_HOLD = frozenset({"in-use", "reserved", "attaching", "detaching", "error_attaching", "error_detaching"})
#: What ``migration_status`` says when nothing is migrating (volume/api.py, AVAILABLE_MIGRATION_STATUS).
SETTLED = frozenset({None, "", "none", "deleting", "error", "success"})

PAGE = 1000  #: Cinder's ``osapi_max_limit``: a larger wish is cut
RESTARTS = 5  #: of a list whose marker went
_COLLECTIONS = {
    "volumes": ("/volumes/detail", _GROUP_MEMBERS),
    "snapshots": ("/snapshots/detail", _GROUP_MEMBERS),
    "attachments": ("/attachments/detail", _ATTACHMENTS),
    "transfers": ("/volume-transfers/detail", _TRANSFERS),
    "backups": ("/backups/detail", _BACKUP_OWNER),
    "groups": ("/groups/detail", _GROUP_OWNER),
    "group_snapshots": ("/group_snapshots/detail", _GROUP_OWNER),
}
_VOLUME = Rest(_SERVICE, "/volumes/{id}", key="volume", microversion=_GROUP_MEMBERS)


# -------------------------------------------------------------------------------------------------------- helpers


def _mine(collection: str) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of what the project has in a collection."""

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        yield from _rows(connection, project, collection, project_id=project.id)

    return listing


def _everyones(collection: str) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of what all projects have in a collection; a transfer that was accepted is history."""

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for row in _rows(connection, project, collection):
            if not row.get("accepted"):
                yield row

    return listing


def _rows(connection: Connection, project: ProjectDefinition, collection: str, **query: str) -> Iterator[Row]:
    """Yield all rows of a collection, of all projects unless the query says otherwise.

    A page begins after a row, and that row may be gone by then: Cinder answers 404, and the list is read anew, with
    rows that were there before.
    """
    path, microversion = _COLLECTIONS[collection]
    call = Rest(
        _SERVICE,
        path,
        key=collection,
        query={"all_tenants": "1", **query},
        microversion=microversion,
        paging=Paging.MARKER,
        limit=PAGE,
    )
    for _ in range(RESTARTS):
        begun = False
        try:
            for row in call.rows(connection, project):
                begun = True
                yield row
            return
        except exceptions.NotFoundException:
            if not begun:
                raise
    raise BadAnswer(f"{call!r}: what the next page was to begin after went {RESTARTS} times while it was read")


def _call(
    connection: Connection, project: ProjectDefinition, resource: Resource, path: str, body: Row, version: str
) -> None:
    Rest(_SERVICE, path, method="POST", body=body, microversion=version).call(connection, project, resource)


def _quiet_for(row: Row) -> float:
    """Return for how many seconds a row has not changed; 0 when it does not say so. Cinder's times are UTC."""
    try:
        changed = datetime.datetime.fromisoformat(str(row.get("updated_at") or row["created_at"]))
    except (KeyError, ValueError):
        return 0.0
    if changed.tzinfo is None:
        changed = changed.replace(tzinfo=datetime.UTC)
    return (datetime.datetime.now(datetime.UTC) - changed).total_seconds()


def _wait_while_busy(project: ProjectDefinition, row: Row, doing: str) -> None:
    """Refuse what something works on, unless it has not changed for too long.

    :raises Refused: when it is to be waited for
    """
    if _quiet_for(row) >= int(project.options.get("reset_after", 4 * 3600)):
        return
    if doing == "deleting":
        raise Refused(Verdict(Reason.DELETING, "Cinder is deleting it"))
    raise Refused(Verdict(Reason.IN_USE, f"it is {doing}: Cinder takes its delete when that is over"))


def _blocker(type_: str, id_: Any, owner: Any, service: str = _SERVICE) -> dict[str, str]:
    return blocker(f"{service}.{type_}", id_, owner)


def _volume_owner(connection: Connection, project: ProjectDefinition, volume_id: Any) -> str:
    row = _VOLUME.row(connection, project, Resource(str(volume_id), "", None))
    return str(row.get(_VOLUME_OWNER) or "")


def _reset(path: str, action: str, microversion: str) -> Callable[[Connection, ProjectDefinition, Resource], None]:
    """Return a breaker that gets a thing out of a state in which its delete is refused."""

    def make_deletable(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
        """Reset what is in a state that nothing stands behind; wait for what is busy."""
        if group := resource.data.get("group_snapshot_id"):
            refuse(verdict_naming(project, "it goes with", [_blocker("group_snapshot", group, project.id)]))
        status = str(resource.data.get("status"))
        if status in ("available", "error"):
            return
        if status in BUSY:
            _wait_while_busy(project, resource.data, status)
        _call(connection, project, resource, path, {action: {"status": "error"}}, microversion)

    return make_deletable


def _force(
    path: str, action: str, microversion: str, reset: Row | None = None
) -> Callable[[Connection, ProjectDefinition, Resource], None]:
    """Return what resets a thing to error, also while it is busy, and deletes it whatever its state."""

    def force(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
        """Reset it to error, also while something works on it, and delete it by force."""
        if group := resource.data.get("group_snapshot_id"):
            refuse(verdict_naming(project, "it goes with", [_blocker("group_snapshot", group, project.id)]))
        _call(connection, project, resource, path, {action: dict(reset or {"status": "error"})}, microversion)
        _call(connection, project, resource, path, {"os-force_delete": {}}, microversion)

    return force


# ------------------------------------------------------------------------------------------------ volumes

_SOURCE_IS_THERE = "_source_is_there"  # put into listed rows; no attribute of Cinder begins with an underscore


def _survives(value: str) -> bool:
    """Whether Cinder takes a filter's value for what it is: for volumes it evaluates it as a Python literal."""
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return True
    return False


def list_volumes(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's volumes; mark the copies that a migration is about to put in the place of one of them.

    A project id that reads as a number (digits alone, or with one ``e``) is no filter for Cinder: then all volumes of
    the cloud are listed, and compared on this side.
    """
    query = {"project_id": project.id} if _survives(project.id) else {}
    targets: list[Row] = []
    wanted: set[str] = set()
    for row in _rows(connection, project, "volumes", **query):
        if str(row.get("migration_status") or "").startswith("target:"):
            targets.append(row)
        else:
            yield row
    # There is rarely one; whether its volume is still there is asked, not remembered: there may be very many volumes.
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


def _attached_to(connection: Connection, project: ProjectDefinition, volume_id: str) -> list[dict[str, str]]:
    """Return who has a volume, as blockers: servers, or attachments without one."""
    found = []
    for row in _rows(connection, project, "attachments", volume_id=volume_id):
        if row.get("volume_id") != volume_id:
            continue
        server = row.get("instance")
        owner = _server_owner(connection, str(server)) if server else None
        if owner is not None:
            found.append(_blocker("server", server, owner, service="compute"))
        else:
            found.append(_blocker("attachment", row["id"], project.id))
    return found


def _server_owner(connection: Connection, server_id: str) -> str | None:
    """Return whose a server is; ``None`` when Nova knows no such server, or there is no Nova."""
    if connection.config.get_session_endpoint("compute") is None:
        return None
    response = connection.compute.get(f"/servers/{server_id}")
    if response.status_code == 404:
        return None
    exceptions.raise_from_response(response)
    try:
        return str(response.json()["server"]["tenant_id"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadAnswer(f"GET /servers/{server_id} answered without its owner") from error


def _group_of(connection: Connection, project: ProjectDefinition, row: Row) -> list[dict[str, str]]:
    """Return the group that a volume is in, as a blocker."""
    if legacy := row.get("consistencygroup_id"):  # says nothing of its owner, but then its volumes are its project's
        return [_blocker("consistency_group", legacy, project.id)]
    if not (group := row.get("group_id")):
        return []
    call = Rest(_SERVICE, "/groups/{id}", key="group", microversion=_GROUP_OWNER)
    return [_blocker("group", group, call.row(connection, project, Resource(str(group), "", None)).get("project_id"))]


def make_volume_deletable(connection: Connection, project: ProjectDefinition, volume: Resource) -> None:
    """Get a volume out of a state in which Cinder refuses its delete, where nothing stands behind that state.

    :raises Refused: naming what does
    """
    row = volume.data
    status = str(row.get("status"))
    refuse(verdict_naming(project, "it goes with", _group_of(connection, project, row)))
    if status in BUSY:
        _wait_while_busy(project, row, status)
    if status == "awaiting-transfer":
        offers = _rows(connection, project, "transfers", volume_id=volume.id)
        blockers = [_blocker("transfer", o["id"], project.id) for o in offers if o.get("volume_id") == volume.id]
        refuse(verdict_naming(project, "it is offered by", blockers))
    reset = {} if status in DELETABLE else {"status": "error"}
    migration = row.get("migration_status")
    if migration not in SETTLED:
        if not str(migration).startswith("target:"):
            _wait_while_busy(project, row, "migrating")
        reset |= {"status": "error", "migration_status": "none"}
    if status in ON_HOLD or row.get("attachments"):
        refuse(verdict_naming(project, "it is attached to", _attached_to(connection, project, volume.id)))
        reset |= {"status": "error", "attach_status": "detached"}
    if reset:
        _call(connection, project, volume, "/volumes/{id}/action", {"os-reset_status": reset}, _GROUP_MEMBERS)


def _snapshots_of(connection: Connection, project: ProjectDefinition, volume_id: str) -> list[dict[str, str]]:
    """Return a volume's snapshots, whosever, as blockers."""
    rows = _rows(connection, project, "snapshots", volume_id=volume_id)
    return [_blocker("snapshot", s["id"], s.get(_SNAPSHOT_OWNER)) for s in rows if s.get("volume_id") == volume_id]


def delete_volume(connection: Connection, project: ProjectDefinition, volume: Resource) -> None:
    """Delete a volume, never in cascade; when Cinder refuses, say who stands in the way.

    :raises Refused: naming snapshots, whosever, or who has the volume
    """
    delete = Rest(_SERVICE, "/volumes/{id}", method="DELETE", microversion=_GROUP_MEMBERS)
    try:
        delete.call(connection, project, volume)
        return
    except exceptions.BadRequestException:
        refuse(verdict_naming(project, "it has", _snapshots_of(connection, project, volume.id)))
        refuse(verdict_naming(project, "it is attached to", _attached_to(connection, project, volume.id)))
        now = _VOLUME.row(connection, project, volume)
        if now.get("status") not in DELETABLE or _group_of(connection, project, now):
            raise
    # Nothing shows why: its attach_status, which no answer has, may be stale. Its state stays: this may not be why.
    reset = {"os-reset_status": {"attach_status": "detached"}}
    _call(connection, project, volume, "/volumes/{id}/action", reset, _GROUP_MEMBERS)
    delete.call(connection, project, volume)


def force_volume(connection: Connection, project: ProjectDefinition, volume: Resource) -> None:
    """Reset a volume to error, detached and not migrating, whatever works on it, and delete it by force.

    :raises Refused: when a server has it, whosever, or it goes with its group; or naming its snapshots
    """
    refuse(verdict_naming(project, "it goes with", _group_of(connection, project, volume.data)))
    holders = _attached_to(connection, project, volume.id)
    servers = [blocker for blocker in holders if blocker["type"] == "compute.server"]
    refuse(verdict_naming(project, "it is attached to", servers))
    reset = {"status": "error", "attach_status": "detached", "migration_status": "none"}
    try:
        _force("/volumes/{id}/action", "os-reset_status", _GROUP_MEMBERS, reset)(connection, project, volume)
    except exceptions.BadRequestException:
        refuse(verdict_naming(project, "it has", _snapshots_of(connection, project, volume.id)))
        raise


# -------------------------------------------------------------------------------------- attachments and transfers


def list_attachments(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the attachments of the project's volumes, which own them."""
    ours: set[str] | None = None
    for row in _rows(connection, project, "attachments", project_id=project.id):
        if ours is None:
            ours = {str(v["id"]) for v in list_volumes(connection, project) if v.get(_VOLUME_OWNER) == project.id}
        mine = row.get("volume_id") in ours
        owner = project.id if mine else _volume_owner(connection, project, row.get("volume_id"))
        # What it takes to get at the data is in it, passwords included: nobody needs them here.
        yield {**{k: v for k, v in row.items() if k != "connection_info"}, "project_id": owner}


def show_attachment(connection: Connection, project: ProjectDefinition, attachment: Resource) -> Row:
    """Read the owner again: it is the volume's."""
    call = Rest(_SERVICE, "/attachments/{id}", key="attachment", microversion=_ATTACHMENTS)
    row = call.row(connection, project, attachment)
    return {**row, "project_id": _volume_owner(connection, project, row.get("volume_id"))}


def check_attachment(connection: Connection, project: ProjectDefinition, attachment: Resource) -> None:
    """Refuse an attachment to a server that Nova knows: only Nova can detach it without harm.

    Cinder asks Nova as well, but not where an attachment is only reserved.
    """
    if server := attachment.data.get("instance"):
        owner = _server_owner(connection, str(server))
        if owner is not None:
            blockers = [_blocker("server", server, owner, service="compute")]
            refuse(verdict_naming(project, "its volume is attached to", blockers))


def list_transfers(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the transfers of the project's volumes; one from before Train does not say whose it is, its volume does."""
    for row in _rows(connection, project, "transfers", project_id=project.id):
        owner = row.get("source_project_id") or _volume_owner(connection, project, row.get("volume_id"))
        yield {**row, "source_project_id": owner}


def show_transfer(connection: Connection, project: ProjectDefinition, transfer: Resource) -> Row:
    """Read a transfer again."""
    row = Rest(_SERVICE, "/volume-transfers/{id}", key="transfer", microversion=_TRANSFERS).row(
        connection, project, transfer
    )
    owner = row.get("source_project_id") or _volume_owner(connection, project, row.get("volume_id"))
    return {**row, "source_project_id": owner}


def _keep_accepted(transfer: Resource, project: ProjectDefinition) -> str | None:
    return "it was accepted, and is history" if transfer.data.get("accepted") else None


# --------------------------------------------------------------------------------------------------------- groups


def check_group(connection: Connection, project: ProjectDefinition, group: Resource) -> None:
    """Refuse a group with others' volumes, which would go with it, and name what keeps it from going."""
    volumes = [
        row for row in _rows(connection, project, "volumes", group_id=group.id) if row.get("group_id") == group.id
    ]
    foreign = [v for v in volumes if v.get(_VOLUME_OWNER) != project.id]
    blockers = [_blocker("volume", v["id"], v.get(_VOLUME_OWNER)) for v in foreign]
    refuse(verdict_naming(project, "deleting it would delete", blockers))
    status = str(group.data.get("status"))
    if status in BUSY:
        _wait_while_busy(project, group.data, status)
    for volume in volumes:
        if volume.get("attachments"):
            holders = _attached_to(connection, project, volume["id"])
            refuse(verdict_naming(project, "a volume of it is attached to", holders))


def explain_group(connection: Connection, project: ProjectDefinition, group: Resource) -> Verdict | None:
    """Name its own snapshots, or those of its volumes, anybody's: a group goes with none of them."""
    rows = _rows(connection, project, "group_snapshots", group_id=group.id)
    blockers = [_blocker("group_snapshot", s["id"], s.get("project_id")) for s in rows if s.get("group_id") == group.id]
    for volume in _rows(connection, project, "volumes", group_id=group.id):
        if volume.get("group_id") == group.id:
            blockers += _snapshots_of(connection, project, volume["id"])
    return verdict_naming(project, "it has", blockers)


def _scoped(connection: Connection, project: ProjectDefinition) -> None:
    """Make sure whose list it is.

    :raises BadAnswer: when the token is not scoped into the project, as long as there is one
    """
    if project.gone:
        return
    scope = connection.session.get_project_id()
    if scope != project.id:
        raise BadAnswer(f"the token is scoped into project {scope}, not into {project.id}")


def _groups_if_gone(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the old consistency groups of a project that is gone: this old list knows a filter, but shows no owner."""
    query = {"all_tenants": "1", "project_id": "{project_id}"}
    old = Rest(
        _SERVICE, "/consistencygroups/detail", key="consistencygroups", query=query, paging=Paging.MARKER, limit=PAGE
    )
    nobody = dataclasses.replace(project, id=NOTHING)
    if next(old.rows(connection, nobody), None) is not None:
        raise BadAnswer("Cinder ignores whose consistency groups it is asked for")
    if rows := list(old.rows(connection, project)):
        known = {str(row["id"]) for row in _rows(connection, project, "groups", project_id=project.id)}
        yield from (row for row in rows if row["id"] not in known)


def _group_snapshots_if_gone(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the old group snapshots of a project that is gone.

    Their list is that of the token's project alone; but each of them is what some of the project's snapshots go with.
    """
    snapshots = _rows(connection, project, "snapshots", project_id=project.id)
    ours = (row for row in snapshots if row.get(_SNAPSHOT_OWNER) == project.id)
    if wholes := {str(row["group_snapshot_id"]) for row in ours if row.get("group_snapshot_id")}:
        wholes -= {str(row["id"]) for row in _rows(connection, project, "group_snapshots")}
    yield from ({"id": identity, "name": ""} for identity in sorted(wholes))


def _legacy(
    collection: str,
    key: str,
    current: str,
    current_key: str,
    paging: Paging,
    if_gone: Callable[[Connection, ProjectDefinition], Iterator[Row]],
) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of what only the API of old consistency groups shows: it lists the new kind as well."""
    old = Rest(_SERVICE, f"/{collection}/detail", key=key, paging=paging, limit=PAGE)
    new = Rest(
        _SERVICE, f"/{current}/detail", key=current_key, microversion=_GROUP_OWNER, paging=Paging.MARKER, limit=PAGE
    )

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        if project.gone:
            yield from if_gone(connection, project)
            return
        _scoped(connection, project)
        known: set[str] | None = None
        for row in old.rows(connection, project):
            if known is None:
                known = {str(each["id"]) for each in new.rows(connection, project)}
            if row["id"] not in known:
                yield row

    return listing


# -------------------------------------------------------------------------------------------------------- backups


def list_backups(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's backups, the newest first, as seen from the project itself."""
    _scoped(connection, project)
    yield from _rows(connection, project, "backups", project_id=project.id)


_BACKUP = Rest(_SERVICE, "/backups/{id}", key="backup", microversion=_BACKUP_OWNER)
_make_backup_deletable = _reset("/backups/{id}/action", "os-reset_status", _BACKUP_OWNER)


def _refuse_base(connection: Connection, project: ProjectDefinition, backup: Resource) -> None:
    """Refuse a backup that others build on, naming them."""
    if backup.data.get("has_dependent_backups"):
        rows = _rows(connection, project, "backups", parent_id=backup.id)
        blockers = [_blocker("backup", row["id"], row.get(_BACKUP_PROJECT)) for row in rows if row["id"] != backup.id]
        refuse(verdict_naming(project, "it is the base of", blockers))


def force_backup(connection: Connection, project: ProjectDefinition, backup: Resource) -> None:
    """Reset a backup that no other one builds on to error, whatever works on it, and delete it by force.

    Not every driver knows a forced delete: then Cinder answers 405, and takes an ordinary one, for its state is error.
    """
    _refuse_base(connection, project, backup)
    try:
        _force("/backups/{id}/action", "os-reset_status", _BACKUP_OWNER)(connection, project, backup)
    except exceptions.HttpException as error:
        if error.status_code != 405:
            raise
        Rest(_SERVICE, "/backups/{id}", method="DELETE", microversion=_BACKUP_OWNER).call(connection, project, backup)


def delete_backup(connection: Connection, project: ProjectDefinition, backup: Resource) -> None:
    """Delete a backup that no other one builds on; the others have their turn when those are gone.

    :raises Refused: naming the backups that build on it, or when there is no backup service to do it
    """
    _refuse_base(connection, project, backup)
    _make_backup_deletable(connection, project, backup)
    response = connection.block_storage.delete(f"/backups/{backup.id}", microversion=_BACKUP_OWNER)
    if response.status_code == 404:
        # Also what Cinder says when no backup service is up.
        if connection.block_storage.get(f"/backups/{backup.id}", microversion=_BACKUP_OWNER).status_code != 404:
            raise Refused(
                Verdict(Reason.UNREACHABLE, f"no backup service of Cinder is there to delete it: {response.text[:200]}")
            )
        return
    exceptions.raise_from_response(response)


# ----------------------------------------------------------------------------------------------------- project settings


def list_type_access(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's entries in the access lists of private volume types."""
    types = Rest(_SERVICE, "/types", key="volume_types", query={"is_public": "False"}, paging=Paging.MARKER, limit=PAGE)
    for type_ in types.rows(connection, project):
        access = Rest(_SERVICE, f"/types/{type_['id']}/os-volume-type-access", key="volume_type_access")
        for row in access.rows(connection, project):
            if row.get("project_id") == project.id:
                yield {**row, "name": type_.get("name")}


def _knows_default_types(connection: Connection, project: ProjectDefinition) -> bool:
    return knows_microversion(connection.block_storage, _DEFAULT_TYPES)


def list_quotas(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's quota set when it is not the default."""

    def quotas(path: str) -> Row:
        body = Rest(_SERVICE, path).call(connection, project)
        return {key: value for key, value in body["quota_set"].items() if key != "id"}

    path = f"/os-quota-sets/{project.id}"
    if quotas(path) != quotas(f"{path}/defaults"):
        yield {"id": project.id, "name": "quota set", "project_id": project.id}


# ------------------------------------------------------------------------------------------------------ the types

_FRESH = "the token is scoped into the project, and Cinder shows nothing else"
_OWNERLESS = "Cinder does not say whose they are: it lists those of the token's project"
_DEFAULTS = Rest(_SERVICE, "/default-types", key="default_types", microversion=_DEFAULT_TYPES)

SERVICE = Service(
    service_type=_SERVICE,
    contract_version=1,
    options=OPTIONS,
    after=("orchestration.stack",),
    # Anybody else gets his own project's things, without a word about the owner that was asked for.
    proof=Rest(_SERVICE, "/os-quota-sets/{project_id}"),
    roles="admin on any one project, to whom Cinder shows everything, so each list carries the owner filter; admin on "
    "the project under deletion, for backups (in Swift they lie in the account of whoever deletes them) and for "
    "consistency groups (which do not say whose they are)",
    types=(
        ResourceType(
            name="transfer",
            list=list_transfers,
            show=show_transfer,
            delete=Rest(_SERVICE, "/volume-transfers/{id}", method="DELETE", microversion=_TRANSFERS),
            owner="source_project_id",
            all_projects=_everyones("transfers"),
            keep=(_keep_accepted,),
            source="GET /v3/volume-transfers/detail?all_tenants=1&project_id=X, DELETE /v3/volume-transfers/{id}, "
            "microversion 3.59; cinder api/v3/volume_transfer.py, db/api.py (_process_transfer_filters)",
            note="An offer of one of the project's volumes to another project: withdrawn, after which the volume is "
            "available again. Offers to the project belong to those who made them. A withdrawal acts on nothing that a "
            "user wrote: the key of an offer is compared when the offer is accepted, and never otherwise.",
        ),
        ResourceType(
            name="attachment",
            list=list_attachments,
            show=show_attachment,
            prepare=(check_attachment,),
            delete=Rest(_SERVICE, "/attachments/{id}", method="DELETE", microversion=_ATTACHMENTS),
            title="instance",
            all_projects="an attachment shows no owner, and goes with its volume",
            after=("compute.server",),
            source="GET /v3/attachments/detail?all_tenants=1&project_id=X, DELETE /v3/attachments/{id}, microversion "
            "3.27; cinder api/v3/attachments.py, volume/api.py (attachment_deletion_allowed)",
            note="Goes with its server; what is left then was forgotten by Nova, or made for something else than a "
            "server. It has no owner but its volume's. One to a server that Nova knows is left alone: Cinder answers "
            "409 ConflictNovaUsingAttachment, and the server's owner is named.",
        ),
        ResourceType(
            name="group_snapshot",
            list=_mine("group_snapshots"),
            all_projects=_everyones("group_snapshots"),
            show=Rest(_SERVICE, "/group_snapshots/{id}", key="group_snapshot", microversion=_GROUP_OWNER),
            delete=Rest(_SERVICE, "/group_snapshots/{id}", method="DELETE", microversion=_GROUP_OWNER),
            prepare=(_reset("/group_snapshots/{id}/action", "reset_status", _GROUP_OWNER),),
            source="GET /v3/group_snapshots/detail?all_tenants=1&project_id=X, DELETE /v3/group_snapshots/{id}, "
            "microversion 3.58; cinder api/v3/group_snapshots.py",
            note="Takes its snapshots along, which cannot be deleted one by one. Those of old consistency groups are "
            "hidden here: see consistency_group_snapshot.",
        ),
        ResourceType(
            name="consistency_group_snapshot",
            list=_legacy(
                "cgsnapshots",
                "cgsnapshots",
                "group_snapshots",
                "group_snapshots",
                Paging.OFFSET,
                _group_snapshots_if_gone,
            ),
            all_projects=_OWNERLESS,
            delete=Rest(_SERVICE, "/cgsnapshots/{id}", method="DELETE"),
            owner=SCOPED,
            fresh=_FRESH,
            token=Token.PROJECT,
            token_if_gone=Token.ADMIN,
            source="GET /v3/cgsnapshots/detail, DELETE /v3/cgsnapshots/{id}; cinder api/contrib/cgsnapshots.py",
            note="What the deprecated API of consistency groups made. It does not say whose they are, but lists those "
            "of the token's project alone, and lists the new kind among them. Those of a project that is gone are "
            "found by the snapshots that go with them.",
        ),
        ResourceType(
            name="snapshot",
            list=_mine("snapshots"),
            all_projects=_everyones("snapshots"),
            show=Rest(_SERVICE, "/snapshots/{id}", key="snapshot", microversion=_GROUP_MEMBERS),
            delete=Rest(_SERVICE, "/snapshots/{id}", method="DELETE", microversion=_GROUP_MEMBERS),
            owner=_SNAPSHOT_OWNER,
            properties="metadata",
            part_of=(("group_snapshot", "group_snapshot_id"), ("consistency_group_snapshot", "group_snapshot_id")),
            prepare=(_reset("/snapshots/{id}/action", "os-reset_status", _GROUP_MEMBERS),),
            force=_force("/snapshots/{id}/action", "os-reset_status", _GROUP_MEMBERS),
            by_hand="as an admin: openstack volume snapshot set --state error {id}, then openstack volume snapshot "
            "delete --force {id}",
            source="GET /v3/snapshots/detail?all_tenants=1&project_id=X, DELETE /v3/snapshots/{id}; cinder "
            "api/v3/snapshots.py, volume/api.py (delete_snapshot)",
            note="It may be one of a volume that is another project's by now (a transfer without snapshots): that "
            "does not keep it. On copy-on-write storage it goes only after the volumes made from it: Cinder accepts "
            "the delete and takes it back later, and it is tried again.",
        ),
        ResourceType(
            name="group",
            list=_mine("groups"),
            all_projects=_everyones("groups"),
            show=Rest(_SERVICE, "/groups/{id}", key="group", microversion=_GROUP_OWNER),
            prepare=(check_group,),
            delete=Rest(
                _SERVICE,
                "/groups/{id}/action",
                method="POST",
                body={"delete": {"delete-volumes": True}},
                microversion=_GROUP_OWNER,
            ),
            explain=explain_group,
            after=("compute.server",),
            source="GET /v3/groups/detail?all_tenants=1&project_id=X, POST /v3/groups/{id}/action delete, microversion "
            "3.58; cinder api/v3/groups.py, group/api.py (delete)",
            note="Takes its volumes along, whosever: refused when one is another project's. Snapshots of its volumes "
            "go before, those of other projects are named. Paged by the last id: Cinder loses its own link on a page "
            "with an old consistency group on it, which it hides here.",
        ),
        ResourceType(
            name="consistency_group",
            list=_legacy("consistencygroups", "consistencygroups", "groups", "groups", Paging.MARKER, _groups_if_gone),
            all_projects=_OWNERLESS,
            prepare=(check_group,),
            delete=Rest(
                _SERVICE,
                "/consistencygroups/{id}/delete",
                method="POST",
                body={"consistencygroup": {"force": True}},
            ),
            explain=explain_group,
            owner=SCOPED,
            fresh=_FRESH,
            token=Token.PROJECT,
            token_if_gone=Token.ADMIN,
            after=("compute.server",),
            source="GET /v3/consistencygroups/detail, POST /v3/consistencygroups/{id}/delete; cinder "
            "api/contrib/consistencygroups.py",
            note="What the deprecated API of consistency groups made; hidden among the groups. Takes its volumes "
            "along, as a group does. One that its storage failed to make because it has no such groups is refused its "
            "delete by that storage as well, later and without a word: then only an operator can help, in the "
            "database.",
        ),
        ResourceType(
            name="volume",
            list=list_volumes,
            all_projects=_everyones("volumes"),
            show=_VOLUME,
            prepare=(make_volume_deletable,),
            delete=delete_volume,
            force=force_volume,
            by_hand="as an admin: openstack volume set --state error --detached {id}, then openstack volume delete "
            "--force {id}",
            owner=_VOLUME_OWNER,
            properties="metadata",
            part_of=(("group", "group_id"), ("consistency_group", "consistencygroup_id")),
            keep=(_keep_migration_target,),
            after=("compute.server", "container-infrastructure-management.cluster", "database.instance"),
            source="GET /v3/volumes/detail?all_tenants=1&project_id=X, DELETE /v3/volumes/{id}, POST "
            "/v3/volumes/{id}/action os-reset_status; cinder volume/api.py (delete, check_volume_filters), "
            "api/contrib/admin_actions.py",
            note="Never in cascade: as an admin's that takes snapshots of other projects along. With a snapshot of "
            "anybody it is refused, and foreign ones are named. In use, reserved or awaiting a transfer with nobody "
            "who has it, or failed in its delete: reset to error and detached, then deleted. A project id that reads "
            "as a number is useless as a filter here: then the volumes of the whole cloud are listed and compared. The "
            "key of an encrypted volume goes with it. The copy that a migration makes is left to the migration.",
        ),
        ResourceType(
            name="backup",
            list=list_backups,
            all_projects=_everyones("backups"),
            show=_BACKUP,
            delete=delete_backup,
            force=force_backup,
            by_hand="as an admin, with a role on the project as long as there is one: openstack volume backup set "
            "--state error {id}, then openstack volume backup delete {id}",
            owner=_BACKUP_PROJECT,
            properties="metadata",
            token=Token.PROJECT,
            token_if_gone=Token.ADMIN,
            source="GET /v3/backups/detail?all_tenants=1&project_id=X, DELETE /v3/backups/{id}; cinder backup/api.py, "
            "backup/drivers/swift.py, backup/chunkeddriver.py",
            note="With a token of the project: Cinder's Swift driver deletes in the account of whoever asks, takes not "
            "finding anything there for done, and would leave the data behind. From the newest to the oldest: one "
            "that others build on waits for them, which Cinder itself checks in the caller's project alone. Of "
            "a project that is gone the row goes with an admin's token, and what the Swift driver leaves of it goes "
            "with the containers of the project.",
        ),
        ResourceType(
            name="type_access",
            list=list_type_access,
            all_projects="an entry in a volume type's access list gives nobody anything once its project is gone",
            delete=Rest(
                _SERVICE,
                "/types/{id}/action",
                method="POST",
                body={"removeProjectAccess": {"project": "{project_id}"}},
            ),
            id="volume_type_id",
            fresh="the call names the project, and removes nobody else's entry",
            project_setting=True,
            unfiltered="there is no list of a project's types: the access list of every private type is asked for",
            source="GET /v3/types?is_public=False, GET /v3/types/{id}/os-volume-type-access, POST "
            "/v3/types/{id}/action removeProjectAccess; cinder api/contrib/volume_type_access.py",
            note="The volume type itself has no owner and stays.",
        ),
        ResourceType(
            name="default_type",
            list=_DEFAULTS,
            all_projects=_DEFAULTS,
            delete=Rest(_SERVICE, "/default-types/{project_id}", method="DELETE", microversion=_DEFAULT_TYPES),
            id="project_id",
            title="volume_type_id",
            fresh="it is addressed by the project's id",
            available=_knows_default_types,
            project_setting=True,
            unfiltered="Cinder lists those of all projects; the rows are compared on this side",
            source="GET, DELETE /v3/default-types, microversion 3.62; cinder api/v3/default_types.py",
            note="What type the project's new volumes have; a setting.",
        ),
        ResourceType(
            name="quota_set",
            list=list_quotas,
            all_projects="Cinder shows the quotas of one project at a time",
            delete=Rest(_SERVICE, "/os-quota-sets/{id}", method="DELETE"),
            fresh="it is addressed by the project's id",
            project_setting=True,
            source="GET /v3/os-quota-sets/X and /os-quota-sets/X/defaults, DELETE /v3/os-quota-sets/X; cinder "
            "api/contrib/quotas.py, db/api.py (quota_destroy_by_project)",
            note="Cinder shows the default to whom has no row, so a row that equals it is not seen, and stays; and so "
            "do the counters of what was used.",
        ),
    ),
)
