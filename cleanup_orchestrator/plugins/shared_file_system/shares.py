"""Manila: shares, and what depends on a share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    GIB,
    REFUSED,
    Action,
    ForcedDelete,
    LastChange,
    NeededBy,
    Needs,
    OneByOne,
    Parts,
    ProjectDefinition,
    Resource,
    Rest,
    Row,
    Use,
    Verdict,
    exceptions,
    protection_remedy,
    refused_in_use,
    show_leftover,
    verdict_naming,
)
from cleanup_orchestrator.plugins.shared_file_system.clients import clients_of_others
from cleanup_orchestrator.plugins.shared_file_system.common import (
    BACKUPS,
    LOCKS,
    REPLICAS,
    RESOURCE_LOCKS,
    SHARE_BACKUPS,
    SHARE_TRANSFERS,
    SHARES,
    SNAPSHOTS,
    TRANSFERS,
    being_deleted,
    describe_status,
    force_delete,
    owner_of,
    remedies,
    reset,
    reset_to_error,
    rest,
    row_blocker,
    simple_type,
    since,
    wrong_status,
)
from cleanup_orchestrator.plugins.shared_file_system.migrations import end_migration, end_transfer

if TYPE_CHECKING:
    from openstack.connection import Connection


def _shares(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's shares, then those in the recycle bin.

    The first list hides the recycle bin.
    """
    for soft_deleted in ("false", "true"):
        query = {"all_tenants": "1", "project_id": "{project_id}", "is_soft_deleted": soft_deleted}
        pages = SHARES.where(sort_key="id", sort_dir="asc", **query)
        for row in pages.rows(connection, project):
            yield _aged(connection, project, row, SHARES.call(f"/{row['id']}/instances", key="share_instances"))


_CHANGED = "_changed"  # added to listed rows; no attribute of Manila begins with an underscore


def _aged(connection: Connection, project: ProjectDefinition, row: Row, instances: Rest) -> Row:
    """Return the row of what Manila deletes with the time at which one of its instances changed last.

    The row itself has no such time. Other rows are returned as they are.

    :param instances: lists the instances of the row
    """
    if being_deleted(Resource(str(row["id"]), "", None, row), project) is None:
        return row
    try:
        times = [str(one["updated_at"]) for one in instances.rows(connection, project) if one.get("updated_at")]
    except exceptions.NotFoundException:  # it is gone
        return row
    return {**row, _CHANGED: max(times)} if times else row


def _snapshots(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's snapshots."""
    for row in SNAPSHOTS.own.rows(connection, project):
        query = {"snapshot_id": str(row["id"])}
        yield _aged(connection, project, row, rest("/snapshot-instances/detail", key="snapshot_instances", query=query))


def _all_shares(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the shares of all projects, and those in the recycle bin."""
    for soft_deleted in ("false", "true"):
        query = {"all_tenants": "1", "is_soft_deleted": soft_deleted}
        yield from SHARES.where(sort_key="id", sort_dir="asc", **query).rows(connection, project)


def _own_shares(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    return (row for row in _shares(connection, project) if owner_of(row) == project.id)


def public(share: Resource, project: ProjectDefinition) -> str | None:
    """Protect a share that all projects see."""
    if share.data.get("is_public") and not project.options.get("delete_public_shares"):
        return "the share is public: other projects may have mounted it"
    return None


def _delete_share(connection: Connection, project: ProjectDefinition, share: Resource) -> None:
    """Delete a share. Manila requires the id of the group that the share is in."""
    group = share.data.get("share_group_id")
    query = {"share_group_id": str(group)} if group else {}
    SHARES.call("/{id}", method="DELETE", query=query).call(connection, project, share)


def explain_share(connection: Connection, project: ProjectDefinition, share: Resource) -> Verdict | None:
    """Name what depends on a share, of any project; or its state.

    Locks, snapshots, replicas and backups depend on a share.
    """
    row = SHARES.show.row(connection, project, share)
    blockers = _locks_and_snapshots(connection, project, share)
    blockers += [row_blocker("replica", each, project.id) for each in _spare_replicas(connection, project, row)]
    if since(BACKUPS)(connection, project):
        blockers += [row_blocker("backup", each, project.id) for each in _backups_of(connection, project, row)]
    if verdict := verdict_naming(project, "it is held by", blockers):
        return verdict
    return wrong_status(row) if row.get("status") not in ("available", "error", "inactive") else None


def foresee_share(connection: Connection, project: ProjectDefinition, share: Resource) -> Verdict | None:
    """Name the locks and snapshots of others that depend on a share."""
    return verdict_naming(project, "it is held by", _locks_and_snapshots(connection, project, share))


def _locks_and_snapshots(connection: Connection, project: ProjectDefinition, share: Resource) -> list[dict[str, str]]:
    blockers: list[dict[str, str]] = []
    if since(LOCKS)(connection, project):
        locks = RESOURCE_LOCKS.where(all_projects="1", resource_id=share.id)
        for lock in locks.rows(connection, project):
            if lock.get("resource_action") == "delete":
                blockers.append(row_blocker("resource_lock", lock))
    snapshots = SNAPSHOTS.where(all_tenants="1", share_id=share.id)
    share_snapshots = (each for each in snapshots.rows(connection, project) if each.get("share_id") == share.id)
    return blockers + [row_blocker("snapshot", each) for each in share_snapshots]


def _replicas_of(connection: Connection, project: ProjectDefinition, share: Row) -> list[Row]:
    if not share.get("has_replicas"):
        return []
    return list(REPLICAS.where(share_id=str(share["id"])).rows(connection, project))


def _spare_replicas(connection: Connection, project: ProjectDefinition, share: Row) -> Iterator[Row]:
    """Yield all replicas of a share but one active one.

    That one is the share itself, and Manila never deletes it.
    """
    replicas = sorted(
        (row for row in _replicas_of(connection, project, share) if row.get("share_id") == share["id"]),
        key=lambda row: (row.get("replica_state") != "active", str(row["id"])),
    )
    yield from replicas[1:]


def _while_there(
    connection: Connection, project: ProjectDefinition, share: Row, rows: Callable[..., Iterator[Row]]
) -> Iterator[Row]:
    """Yield what depends on a share; nothing once the share is gone.

    Manila then answers 400 or 404. The share may be gone because the list of shares is older. Manila deletes no share
    that has dependent resources.
    """
    try:
        yield from rows(connection, project, share)
    except (exceptions.BadRequestException, exceptions.NotFoundException):
        try:
            SHARES.show.row(connection, project, Resource(str(share["id"]), "", None))
        except exceptions.NotFoundException:
            return
        raise


def _replicas(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the replicas of the project's shares."""
    for share in _own_shares(connection, project):
        for row in _while_there(connection, project, share, _spare_replicas):
            yield {**row, "project_id": share["project_id"], "name": share.get("name")}


def _backups_of(connection: Connection, project: ProjectDefinition, share: Row) -> Iterator[Row]:
    pages = SHARE_BACKUPS.where(all_tenants="1", share_id=str(share["id"]))
    return (row for row in pages.rows(connection, project) if row.get("share_id") == share["id"])


def _backups(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the backups of the project's shares."""
    for share in _own_shares(connection, project):
        for row in _while_there(connection, project, share, _backups_of):
            yield {**row, "project_id": share["project_id"]}


def _with_owner(one: Rest) -> Action:
    """Return a ``show`` that reads the owner from the resource's share."""

    def show(connection: Connection, project: ProjectDefinition, resource: Resource) -> Row:
        row = one.row(connection, project, resource)
        share = SHARES.show.row(connection, project, Resource(str(row.get("share_id")), "", None))
        return {**row, "project_id": share.get("project_id")}

    return show


def of_share(one: Rest, attribute: str = "share_id") -> NeededBy:
    """Return a rule by which a leftover needs its share, and what else depends on this share.

    :param one: reads a leftover
    :param attribute: of the leftover, with the id of its share
    """

    def rule(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
        rows = {id_: show_leftover(one, connection, project, id_) or {} for id_ in left}
        shares = {id_: str(row.get(attribute) or "") for id_, row in rows.items()}

        def needs(resource: Resource) -> str | None:
            share = str(resource.data.get("share_id") or resource.id)
            return next((id_ for id_, its in shares.items() if its in ("", share)), None)

        return needs

    return rule


_ACCESS_RULES = "2.45"  #: the first microversion with this list, which has the time


def _access_to_share(connection: Connection, project: ProjectDefinition, share: Resource) -> Iterator[Row]:
    """Yield the access rules of a share. An older Manila shows no time of them."""
    if since(_ACCESS_RULES)(connection, project):
        yield from rest("/share-access-rules", _ACCESS_RULES, key="access_list", query={"share_id": share.id}).rows(
            connection, project
        )
    else:
        yield {}


def _access_to_snapshot(connection: Connection, project: ProjectDefinition, snapshot: Resource) -> Iterator[Row]:
    """Yield the access rules of a snapshot. Manila shows no time of them.

    Manila answers 400 to the list where the share has no snapshots that can be mounted.
    """
    share = Resource(str(snapshot.data["share_id"]), "", project.id)
    if SHARES.show.row(connection, project, share)["mount_snapshot_support"] is False:
        return
    path = f"/{snapshot.id}/access-list"
    yield from SNAPSHOTS.call(path, key="snapshot_access_list").rows(connection, project)


_SHARES_OWNER = "it shows no owner: it is that of its share"


def force_backup(connection: Connection, project: ProjectDefinition, backup: Resource) -> None:
    """Reset a backup to error, also while it is busy, and delete it. Manila forces no delete of a backup."""
    reset(SHARE_BACKUPS).call(connection, project, backup)
    SHARE_BACKUPS.delete.call(connection, project, backup)


_OF_TRANSFER = of_share(SHARE_TRANSFERS.show, "resource_id")
_OF_BACKUP, _OF_REPLICA = of_share(SHARE_BACKUPS.show), of_share(REPLICAS.show)

RESOURCE_LOCK = simple_type(
    "resource_lock",
    RESOURCE_LOCKS,
    title="lock_reason",
    used_by=(),
    available=since(LOCKS),
    after=("compute.server",),
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    source="GET /v2/resource-locks?all_projects=1&project_id=X, DELETE /v2/resource-locks/{id}; manila "
    "api/v2/resource_locks.py, lock/api.py, share/api.py (prevent_locked_action_on_share)",
    note="The project's own locks are deleted before the locked resources. A lock of others (an admin, or the "
    "compute service for a mounted share) on a share of the project stays, and the share's verdict names it. "
    "Servers are deleted first, because the compute service deletes its locks with them.",
)

TRANSFER = simple_type(
    "transfer",
    SHARE_TRANSFERS,
    owner="source_project_id",
    used_by=(),
    available=since(TRANSFERS),
    created="created_at",
    parts=(),
    source="GET /v2/share-transfers/detail?all_tenants=true&source_project_id=X, DELETE "
    "/v2/share-transfers/{id}; manila api/v2/share_transfer.py, transfer/api.py",
    note="Its delete returns the share to the project. Until then another project could accept it. The delete acts "
    "on nothing that a user wrote: the key of an offer is compared only when the offer is accepted.",
)

BACKUP = simple_type(
    "backup",
    SHARE_BACKUPS,
    list=_backups,
    all_projects=_SHARES_OWNER,
    show=_with_owner(SHARE_BACKUPS.show),
    available=since(BACKUPS),
    prepare=(reset_to_error(SHARE_BACKUPS),),
    used_by=(),
    changed="updated_at",
    force=ForcedDelete(force_backup),
    by_hand="as an admin: openstack share backup set --status error {id}, then openstack share backup delete {id}",
    remedies=remedies("share backup"),
    describe=describe_status,
    after=("transfer",),
    needed_by=(("transfer", _OF_TRANSFER),),
    created="created_at",
    updated=LastChange("updated_at"),
    parts=(),
    size=("size", GIB),
    source="GET /v2/share-backups/detail?share_id=S, DELETE /v2/share-backups/{id}; manila "
    "api/v2/share_backups.py, share/api.py",
    note="An experimental API. A backup shows no owner: the backups of each of the project's shares are listed, one "
    "call for each share.",
)

REPLICA = simple_type(
    "replica",
    REPLICAS,
    list=_replicas,
    used_by=(),
    all_projects=_SHARES_OWNER,
    show=_with_owner(REPLICAS.show),
    prepare=(reset_to_error(REPLICAS),),
    changed="updated_at",
    force=ForcedDelete(force_delete(REPLICAS)),
    by_hand="as an admin: openstack share replica set --status error {id}, then openstack share replica delete --force "
    "{id}",
    remedies=remedies("share replica"),
    describe=describe_status,
    after=("transfer", "backup"),
    needed_by=(("transfer", _OF_TRANSFER), ("backup", _OF_BACKUP)),
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    source="GET /v2/share-replicas/detail?share_id=S, DELETE /v2/share-replicas/{id}; manila "
    "api/v2/share_replicas.py, share/api.py",
    note="Without a share's id this list shows the replicas of all projects, without owners. The last active replica "
    "is the share itself, and is not listed here.",
)

SNAPSHOT = simple_type(
    "snapshot",
    SNAPSHOTS,
    if_abandoned="It still uses storage. Its share cannot be deleted while it exists.",
    list=_snapshots,
    changed=_CHANGED,
    prepare=(reset_to_error(SNAPSHOTS),),
    used_by=(),
    remedies=remedies("share snapshot"),
    force=ForcedDelete(force_delete(SNAPSHOTS)),
    by_hand="as an admin: openstack share snapshot set --status error {id}, then "
    "openstack share snapshot delete --force {id}",
    describe=describe_status,
    properties="metadata",
    after=("replica", "transfer"),
    needed_by=(("replica", _OF_REPLICA), ("transfer", _OF_TRANSFER)),
    created="created_at",
    parts=(Parts("access rule", _access_to_snapshot),),
    size=("size", GIB),
    source="GET /v2/snapshots/detail?all_tenants=1&project_id=X, DELETE /v2/snapshots/{id}; manila "
    "api/v2/share_snapshots.py, share/api.py",
    note="A snapshot belongs to the project that created it. One that an admin created of the project's share "
    "belongs to the admin's project, and blocks the delete of the share.",
)

SHARE = simple_type(
    "share",
    SHARES,
    if_abandoned="It still uses storage, and may still be mounted. It counts in no quota.",
    list=_shares,
    all_projects=_all_shares,
    delete=_delete_share,
    protect=(public,),
    used_by=(
        Use(
            ("network.port", "network.floating_ip"),
            "takes the files from the client at that address, which an access rule names",
            OneByOne(clients_of_others),
        ),
        Use(
            ("shared-file-system.snapshot", "shared-file-system.resource_lock"),
            REFUSED,
            foresee=OneByOne(foresee_share),
        ),
        Use(
            ("shared-file-system.access_rule",),
            "takes the files from the client",
            unseen="rules for users, certificates, ranges of addresses and networks that are not shared do not say "
            "whose the client is",
        ),
    ),
    changed=_CHANGED,
    prepare=(reset_to_error(SHARES), end_migration, end_transfer),
    remedies={
        **remedies("share"),
        **protection_remedy("makes the share private: 'openstack share set --public False {id}'"),
    },
    force=ForcedDelete(force_delete(SHARES)),
    by_hand="as an admin: openstack share set --status error {id}, then openstack share delete --force {id}",
    explain=explain_share,
    describe=describe_status,
    properties="metadata",
    after=("resource_lock", "transfer", "backup", "replica", "group_snapshot", "snapshot", "compute.server"),
    needed_by=(
        ("resource_lock", of_share(RESOURCE_LOCKS.show, "resource_id")),
        ("transfer", _OF_TRANSFER),
        ("backup", _OF_BACKUP),
        ("replica", _OF_REPLICA),
        ("group_snapshot", refused_in_use),
        ("snapshot", of_share(SNAPSHOTS.show)),
    ),
    created="created_at",
    parts=(Parts("access rule", _access_to_share, created="created_at"),),
    size=("size", GIB),
    source="GET /v2/shares/detail?all_tenants=1&project_id=X, and with is_soft_deleted=true; DELETE "
    "/v2/shares/{id}?share_group_id=G; manila api/v2/shares.py, share/api.py, db/sqlalchemy/api.py",
    note="Shares in the recycle bin are in a list of their own only. The list that counts (with_count) ignores the "
    "owner filter, and is not used. For a share in a group, Manila requires the group's id with the delete. 403 "
    "means a wrong state, a lock, or a resource that depends on the share: it is named. A task state that no migration "
    "is behind is reset, and so is the status of a share that awaits a transfer which does not exist.",
)
