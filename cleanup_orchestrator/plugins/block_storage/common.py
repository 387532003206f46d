"""What every part of the Cinder plugin uses: lists, states, owners, and resets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    BadAnswer,
    Collection,
    Paging,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    Row,
    Verdict,
    blocker,
    exceptions,
    is_past,
    refuse,
    state_remedies,
    verdict_naming,
)
from cleanup_orchestrator.plugins.nova import server_blocker as server_blocker

if TYPE_CHECKING:
    from openstack.connection import Connection

_ATTACHMENTS = "3.27"  #: the first microversion with attachments; Ocata
GROUP_MEMBERS = "3.14"  #: the first that names the group of a volume, and the group snapshot of a snapshot; Newton
BACKUP_OWNER = "3.18"  #: the first that shows the owner of a backup; Ocata
GROUP_OWNER = "3.58"  #: the first that shows the owner of a group or a group snapshot; Stein
_TRANSFERS = "3.59"  #: the first that pages transfers and (from 3.57) shows their owner; Train
SERVICE_TYPE = "block-storage"
VOLUME_OWNER = "os-vol-tenant-attr:tenant_id"
SNAPSHOT_OWNER = "os-extended-snapshot-attributes:project_id"

#: States in which an operation is in progress, and which end by themselves.
BUSY = frozenset(
    {
        "creating", "managing", "deleting", "downloading", "uploading", "retyping", "extending", "backing-up",
        "restoring", "restoring-backup", "reverting", "updating", "unmanaging",
    }
)  # fmt: skip
#: States of a volume that is attached, or about to be. When no attachment exists, they are stale.
ON_HOLD = frozenset({"in-use", "reserved", "attaching", "detaching", "error_attaching", "error_detaching"})
PAGE = 1000  #: Cinder's ``osapi_max_limit``, to which it reduces a larger limit
RESTARTS = 5  #: of a list whose marker was deleted


def detailed(path: str, one: str = "", microversion: str | None = None, **declared: Any) -> Collection:
    """Return a collection with a detailed list that is paged by marker."""
    declared = {"paging": Paging.MARKER, "list_path": f"{path}/detail", **declared}
    return Collection(SERVICE_TYPE, path, one=one, microversion=microversion, limit=PAGE, **declared)


VOLUMES = detailed("/volumes", "volume", GROUP_MEMBERS)
SNAPSHOTS = detailed("/snapshots", "snapshot", GROUP_MEMBERS)
ATTACHMENTS = detailed("/attachments", "attachment", _ATTACHMENTS)
TRANSFERS = detailed("/volume-transfers", "transfer", _TRANSFERS, key="transfers")
BACKUPS = detailed("/backups", "backup", BACKUP_OWNER)
GROUPS = detailed("/groups", "group", GROUP_OWNER)
GROUP_SNAPSHOTS = detailed("/group_snapshots", "group_snapshot", GROUP_OWNER)


def list_own(collection: Collection) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of the project's rows of a collection."""

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        yield from list_rows(connection, project, collection, project_id=project.id)

    return listing


def list_all(collection: Collection) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of the rows of all projects, without accepted transfers."""

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for row in list_rows(connection, project, collection):
            if not row.get("accepted"):
                yield row

    return listing


def list_rows(
    connection: Connection, project: ProjectDefinition, collection: Collection, **query: str
) -> Iterator[Row]:
    """Yield all rows of a collection, of all projects unless the query filters.

    A page begins after a row. If that row is gone by then, Cinder answers 404. Then the list is read again from the
    beginning, so that rows may repeat.

    :raises BadAnswer: when the marker was gone each time
    """
    call = collection.where(all_tenants="1", **query)
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
    raise BadAnswer(f"{call!r}: the row before the next page was deleted {RESTARTS} times while the list was read")


def post_action(
    connection: Connection, project: ProjectDefinition, resource: Resource, collection: Collection, body: Row
) -> None:
    """Call an action on a resource."""
    collection.call("/{id}/action", method="POST", body=body).call(connection, project, resource)


def being_deleted(resource: Resource, project: ProjectDefinition) -> str | None:
    """Say that Cinder deletes a resource, unless it has not changed for ``reset_after``."""
    going = resource.data.get("status") == "deleting" and not resource.data.get("group_snapshot_id")
    return "Cinder is deleting it" if going and not is_quiet(project, resource.data) else None


def delete_failed(resource: Resource, project: ProjectDefinition) -> str | None:
    """Say that Cinder tried to delete a resource, and failed. Only a backup shows why."""
    status = resource.data.get("status")
    if status != "error_deleting":
        return None
    why = resource.data.get("fail_reason")
    return (
        f"Cinder failed to delete it (error_deleting): {why}" if why else "Cinder failed to delete it: error_deleting"
    )


def is_quiet(project: ProjectDefinition, row: Row) -> bool:
    """Return whether a row has not changed for ``reset_after``.

    Cinder's times are UTC. Groups and their snapshots do not show when they changed. Only for one that is being created
    the time of its creation says the same.
    """
    if "updated_at" not in row and row.get("status") != "creating":
        return False
    return is_past(row.get("updated_at") or row.get("created_at"), int(project.options.get("reset_after", 4 * 3600)))


def remedies(name: str, call: str = "openstack {0} set --state error {{id}}") -> Mapping[Reason, str]:
    """Return what a person does about a resource that Cinder does not delete.

    :param name: of the resource in the commands of ``openstack``: ``volume snapshot``
    """
    see = (
        "openstack volume service list shows whether the service of its host is up, and the log of that service has "
        "the cause. cinder thaw-host HOST ends a freeze"
    )
    gone = f"{see}. Start that service, or do what the message says: {{id}} is then deleted automatically"
    return {**state_remedies(see, call.format(name)), Reason.UNREACHABLE: gone}


def wait_while_busy(project: ProjectDefinition, row: Row, doing: str) -> None:
    """Refuse a busy resource, unless it has not changed for ``reset_after``.

    :raises Refused: when it is to be waited for
    """
    if is_quiet(project, row):
        return
    if doing == "deleting":
        raise Refused(Verdict(Reason.DELETING, "Cinder is deleting it"))
    raise Refused(Verdict(Reason.IN_USE, f"it is {doing}: Cinder takes its delete when that is over"))


def cinder_blocker(type_: str, id_: Any, owner: Any, name: Any = "") -> dict[str, str]:
    """Return a blocker in Cinder."""
    return blocker(f"{SERVICE_TYPE}.{type_}", id_, owner, name)


def reset_to_error(
    collection: Collection, action: str = "os-reset_status"
) -> Callable[[Connection, ProjectDefinition, Resource], None]:
    """Return an action that resets a state in which Cinder refuses the delete."""

    def make_deletable(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
        """Reset a state that no operation is behind; wait for a busy resource."""
        if group := resource.data.get("group_snapshot_id"):
            refuse(verdict_naming(project, "it is deleted with", [cinder_blocker("group_snapshot", group, project.id)]))
        status = str(resource.data.get("status"))
        if status in ("available", "error"):
            return
        if status in BUSY:
            wait_while_busy(project, resource.data, status)
        post_action(connection, project, resource, collection, {action: {"status": "error"}})

    return make_deletable


def force_delete(
    collection: Collection, reset: Row | None = None
) -> Callable[[Connection, ProjectDefinition, Resource], None]:
    """Return an action that resets a resource to error and deletes it by force."""

    def force(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
        """Reset it to error, also while it is busy, and delete it by force."""
        if group := resource.data.get("group_snapshot_id"):
            refuse(verdict_naming(project, "it is deleted with", [cinder_blocker("group_snapshot", group, project.id)]))
        post_action(connection, project, resource, collection, {"os-reset_status": dict(reset or {"status": "error"})})
        post_action(connection, project, resource, collection, {"os-force_delete": {}})

    return force


def attached_to(connection: Connection, project: ProjectDefinition, volume_id: str) -> list[dict[str, str]]:
    """Return what a volume is attached to, as blockers.

    They are servers, or attachments without a server.
    """
    blockers = []
    for row in list_rows(connection, project, ATTACHMENTS, volume_id=volume_id):
        if row.get("volume_id") != volume_id:
            continue
        server = row.get("instance")
        holder = server_blocker(connection, str(server)) if server else None
        if holder is not None:
            blockers.append(holder)
        else:
            blockers.append(cinder_blocker("attachment", row["id"], project.id))
    return blockers


def snapshots_of(connection: Connection, project: ProjectDefinition, volume_id: str) -> list[dict[str, str]]:
    """Return a volume's snapshots, of any project, as blockers."""
    rows = list_rows(connection, project, SNAPSHOTS, volume_id=volume_id)
    return [
        cinder_blocker("snapshot", s["id"], s.get(SNAPSHOT_OWNER), s.get("name"))
        for s in rows
        if s.get("volume_id") == volume_id
    ]


def check_scope(connection: Connection, project: ProjectDefinition) -> None:
    """Check that the lists are those of the project.

    :raises BadAnswer: when the project exists and the token is not scoped into it
    """
    if project.gone:
        return
    scope = connection.session.get_project_id()
    if scope != project.id:
        raise BadAnswer(f"the token is scoped into project {scope}, not into {project.id}")
