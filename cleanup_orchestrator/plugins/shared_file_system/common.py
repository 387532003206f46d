"""What all parts of the Manila plugin use: lists, calls, owners, states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    Action,
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
    """Return a call with the microversion that the plugin uses by default. Those of backups are experimental."""
    if microversion == BACKUPS:
        declared["headers"] = EXPERIMENTAL
    return Rest(SERVICE_TYPE, path, microversion=microversion, **declared)


def reset(path: str, microversion: str = FLOOR) -> Rest:
    """Return the call that sets the status of a resource to ``error``, also while it is busy."""
    return rest(f"{path}/{{id}}/action", microversion, method="POST", body={"reset_status": {"status": "error"}})


def paged_list(path: str, key: str, microversion: str = FLOOR, **query: str) -> Rest:
    """Return a list that is paged by offset.

    Manila's next links have a marker, which its lists ignore. Rows are sorted by id where they may share a time.
    """
    return rest(path, microversion, key=key, query=query, paging=Paging.OFFSET, limit=PAGE)


#: Manila shows the owner of share servers to admins only.
SHARE_SERVERS = rest("/share-servers", key="share_servers", query={"project_id": "{project_id}"})


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


def reset_to_error(path: str, microversion: str = FLOOR) -> Action:
    """Return an action that resets a failed change to ``error``.

    Manila refuses a delete in ``error_deleting`` and the like, and accepts it in ``error``. A change in progress is
    left.
    """

    def reset_failed(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
        if why := being_deleted(resource, project):
            raise Refused(Verdict(Reason.DELETING, why))
        status = str(resource.data.get("status"))
        if "error" in status and status != "error":
            reset(path, microversion).call(connection, project, resource)

    return reset_failed


def force_delete(path: str) -> Callable[[Connection, ProjectDefinition, Resource], None]:
    """Return an action that resets the status to error and forces the delete."""
    delete = rest(f"{path}/{{id}}/action", method="POST", body={"force_delete": None})

    def force(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
        reset(path).call(connection, project, resource)
        delete.call(connection, project, resource)

    return force


def wrong_status(resource: Row) -> Verdict:
    """Return a verdict that names the status in which Manila refuses the delete."""
    return Verdict(
        Reason.IN_USE,
        f"its status is {resource.get('status')}: Manila deletes what is available or in error. If nothing is at work "
        "on it, an admin can reset the status",
    )


def simple_type(name: str, path: str, key: str, one: str, microversion: str = FLOOR, **declared: Any) -> ResourceType:
    """Return a type with a detailed list, and calls by id below the same path."""
    declared.setdefault(
        "list", paged_list(f"{path}/detail", key, microversion, all_tenants="1", project_id="{project_id}")
    )
    declared.setdefault("all_projects", paged_list(f"{path}/detail", key, microversion, all_tenants="1"))
    declared.setdefault("show", rest(f"{path}/{{id}}", microversion, key=one))
    declared.setdefault("delete", rest(f"{path}/{{id}}", microversion, method="DELETE"))
    declared.setdefault("deleting", being_deleted)
    declared.setdefault("failed", delete_failed)
    return ResourceType(name=name, **declared)
