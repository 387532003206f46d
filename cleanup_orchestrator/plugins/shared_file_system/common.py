"""What all parts of the Manila plugin use: lists, calls, owners, states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    Action,
    Collection,
    Paging,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Verdict,
    blocker,
    knows_microversion,
    state_remedies,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

SERVICE_TYPE = "shared-file-system"

#: The microversion of Zed. Before it, a snapshot shows no metadata (2.73) and a share no recycle bin (2.69).
FLOOR = "2.73"
TRANSFERS, BACKUPS, LOCKS = "2.77", "2.80", "2.81"
EXPERIMENTAL = {"X-OpenStack-Manila-API-Experimental": "true"}
PAGE = 1000  #: Manila's ``osapi_max_limit``, to which it reduces a larger limit


def rest(path: str, microversion: str = FLOOR, **declared: Any) -> Rest:
    """Return a call with the microversion that the plugin uses by default."""
    return Rest(SERVICE_TYPE, path, microversion=microversion, **declared)


def reset(collection: Collection) -> Rest:
    """Return the call that sets the status of a resource to ``error``, also while it is busy."""
    return collection.call("/{id}/action", method="POST", body={"reset_status": {"status": "error"}})


def _paged(path: str, one: str, everyone: Mapping[str, str], **declared: Any) -> Collection:
    """Return a collection with a list that is paged by offset, and detailed unless another path is declared.

    Manila's next links have a marker, which its lists ignore. Rows are sorted by id where they may share a time.

    :param everyone: the query for the rows of all projects
    """
    own = {**everyone, "project_id": "{project_id}"}
    declared = {"microversion": FLOOR, "list_path": f"{path}/detail", "own_query": own, **declared}
    return Collection(SERVICE_TYPE, path, one=one, all_query=everyone, paging=Paging.OFFSET, limit=PAGE, **declared)


_ALL = {"all_tenants": "1"}
SHARES, SNAPSHOTS = _paged("/shares", "share", _ALL), _paged("/snapshots", "snapshot", _ALL)
GROUPS, NETWORKS = _paged("/share-groups", "share_group", _ALL), _paged("/share-networks", "share_network", _ALL)
GROUP_SNAPSHOTS = _paged("/share-group-snapshots", "share_group_snapshot", _ALL)
REPLICAS = _paged("/share-replicas", "share_replica", _ALL)
SHARE_BACKUPS = _paged("/share-backups", "share_backup", _ALL, microversion=BACKUPS, headers=EXPERIMENTAL)
RESOURCE_LOCKS = _paged("/resource-locks", "resource_lock", {"all_projects": "1"}, list_path="", microversion=LOCKS)
SHARE_TRANSFERS = _paged(
    "/share-transfers",
    "transfer",
    {"all_tenants": "true"},
    key="transfers",
    own_query={"all_tenants": "true", "source_project_id": "{project_id}"},
    microversion=TRANSFERS,
)
#: Manila shows the owner of share servers to admins only. They have no pages.
SERVERS = Collection(SERVICE_TYPE, "/share-servers", one="share_server", microversion=FLOOR)


def since(microversion: str) -> Callable[[Connection, ProjectDefinition], bool]:
    """Return an ``available`` check: whether Manila has the microversion."""
    return lambda connection, project: knows_microversion(connection.shared_file_system, microversion)


def owner_of(row: Row) -> str:
    """Return the id of the project that owns a row; empty when the row shows none."""
    return str(row.get("project_id") or "")


def row_blocker(type_: str, row: Row, owner: str | None = None) -> dict[str, str]:
    """Return a listed row as a blocker; ``owner`` where the row shows none."""
    return blocker(f"{SERVICE_TYPE}.{type_}", row["id"], owner_of(row) if owner is None else owner, row.get("name"))


def describe_status(resource: Resource, project: ProjectDefinition) -> str | None:
    """Describe a status in which Manila refuses a delete."""
    status = resource.data.get("status")
    return None if status in (None, "available", "active") else f"its status is {status}"


def being_deleted(resource: Resource, project: ProjectDefinition) -> str | None:
    """Say that Manila deletes a resource."""
    status = resource.data.get("status")
    if status in ("deleting", "deferred_deleting"):
        return f"Manila is deleting it: its status is {status}"
    return None


def delete_failed(resource: Resource, project: ProjectDefinition) -> str | None:
    """Say that Manila tried to delete a resource, and failed."""
    status = resource.data.get("status")
    if status in ("error_deleting", "error_deferred_deleting"):
        return f"Manila failed to delete it: its status is {status}"
    return None


def remedies(name: str, call: str = "openstack {0} set --status error {{id}}") -> Mapping[Reason, str]:
    """Return what a person does about a resource that Manila does not delete.

    :param name: of the resource in the commands of ``openstack``: ``share snapshot``
    """
    return state_remedies(
        "openstack share service list shows whether the service of its host is up; openstack share message list and "
        "the log of manila-share have the cause",
        call.format(name),
    )


def reset_to_error(collection: Collection) -> Action:
    """Return an action that resets a failed change to ``error``.

    Manila refuses a delete in ``error_deleting`` and the like, and accepts it in ``error``. A change in progress is
    left.
    """

    def reset_failed(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
        if why := being_deleted(resource, project):
            raise Refused(Verdict(Reason.DELETING, why))
        status = str(resource.data.get("status"))
        if "error" in status and status != "error":
            reset(collection).call(connection, project, resource)

    return reset_failed


def force_delete(collection: Collection) -> Callable[[Connection, ProjectDefinition, Resource], None]:
    """Return an action that resets the status to error and forces the delete."""
    delete = collection.call("/{id}/action", method="POST", body={"force_delete": None})

    def force(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
        reset(collection).call(connection, project, resource)
        delete.call(connection, project, resource)

    return force


def wrong_status(resource: Row) -> Verdict:
    """Return a verdict that names the status in which Manila refuses the delete."""
    return Verdict(
        Reason.IN_USE,
        f"its status is {resource.get('status')}: Manila deletes what is available or in error. If nothing is at work "
        "on it, an admin can reset the status",
    )


def simple_type(name: str, collection: Collection, **declared: Any) -> ResourceType:
    """Return a type with the calls of a collection, where no others are declared."""
    calls = {"list": collection.own, "all_projects": collection.all}
    calls |= {"show": collection.show, "delete": collection.delete}
    return ResourceType(name=name, **{**calls, "deleting": being_deleted, "failed": delete_failed, **declared})
