"""Cinder: groups and group snapshots, of the current and of the old API."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    NIL_UUID,
    REFUSED,
    SCOPED,
    BadAnswer,
    Composition,
    Fallback,
    ForcedDelete,
    Needs,
    OneByOne,
    Paging,
    ProjectDefinition,
    Resource,
    ResourceType,
    Rest,
    Row,
    Token,
    Use,
    Verdict,
    exceptions,
    failed_in,
    refuse,
    show_leftover,
    state_remedies,
    verdict_naming,
)
from cleanup_orchestrator.plugins.block_storage.common import (
    BUSY,
    GROUP_SNAPSHOTS,
    GROUPS,
    ON_HOLD,
    SERVICE_TYPE,
    SNAPSHOT_OWNER,
    SNAPSHOTS,
    VOLUME_OWNER,
    VOLUMES,
    attached_to,
    being_deleted,
    check_scope,
    cinder_blocker,
    detailed,
    list_all,
    list_own,
    list_rows,
    post_action,
    remedies,
    reset_to_error,
    snapshots_of,
    wait_while_busy,
)

if TYPE_CHECKING:
    from openstack.connection import Connection


def _volumes_in(connection: Connection, project: ProjectDefinition, group: Resource) -> list[Row]:
    rows = list_rows(connection, project, VOLUMES, group_id=group.id)
    return [row for row in rows if row.get("group_id") == group.id]


def _foreign_volumes(connection: Connection, project: ProjectDefinition, group: Resource) -> Verdict | None:
    """Name the volumes of others in a group."""
    foreign = [v for v in _volumes_in(connection, project, group) if v.get(VOLUME_OWNER) != project.id]
    blockers = [cinder_blocker("volume", v["id"], v.get(VOLUME_OWNER), v.get("name")) for v in foreign]
    return verdict_naming(project, "deleting it would delete", blockers)


def _contents_of(connection: Connection, project: ProjectDefinition, group: Resource) -> Iterator[tuple[str, str]]:
    """Yield the volumes of a group."""
    for row in _volumes_in(connection, project, group):
        yield f"{SERVICE_TYPE}.volume", str(row["id"])


def check_group(connection: Connection, project: ProjectDefinition, group: Resource) -> None:
    """Refuse a busy group, and one with a volume that is attached; name what blocks the delete."""
    volumes = _volumes_in(connection, project, group)
    status = str(group.data.get("status"))
    if status in BUSY:
        wait_while_busy(project, group.data, status)
    for volume in volumes:
        if volume.get("attachments") or volume.get("status") in ON_HOLD:
            holders = attached_to(connection, project, volume["id"])
            refuse(verdict_naming(project, "a volume of it is attached to", holders))


def explain_group(connection: Connection, project: ProjectDefinition, group: Resource) -> Verdict | None:
    """Name the snapshots, of any project, of a group and of its volumes, and what these are attached to.

    Each of them blocks the delete.
    """
    rows = list_rows(connection, project, GROUP_SNAPSHOTS, group_id=group.id)
    blockers = [
        cinder_blocker("group_snapshot", s["id"], s.get("project_id"), s.get("name"))
        for s in rows
        if s.get("group_id") == group.id
    ]
    volumes = _volumes_in(connection, project, group)
    for volume in volumes:
        blockers += snapshots_of(connection, project, volume["id"])
    if verdict := verdict_naming(project, "it has", blockers):
        return verdict
    holders = [holder for volume in volumes for holder in attached_to(connection, project, volume["id"])]
    return verdict_naming(project, "a volume of it is attached to", holders)


def detach_stale(
    connection: Connection, deleting: Connection, project: ProjectDefinition, group: Resource, error: Exception
) -> bool:
    """Reset the ``attach_status`` of the group's volumes if nothing is attached; return whether to delete it again.

    Cinder refuses to delete a group with a volume whose ``attach_status`` is ``attached``, also if there is no
    attachment. No answer contains this status. The reset would remove the attachments of a volume. So it is made only
    if nothing explains the refusal: no volume has an attachment or a snapshot.
    """
    if not isinstance(error, exceptions.BadRequestException) or explain_group(connection, project, group) is not None:
        return False
    volumes = _volumes_in(connection, project, group)
    if any(volume.get(VOLUME_OWNER) != project.id for volume in volumes):
        return False
    reset = {"os-reset_status": {"attach_status": "detached"}}
    for volume in volumes:
        one = Resource(str(volume["id"]), "", project.id, volume)
        post_action(connection, project, one, VOLUMES, reset)
    return bool(volumes)


_OLD_GROUPS, _OLD_SNAPSHOTS = detailed("/consistencygroups"), detailed("/cgsnapshots", paging=Paging.OFFSET)
_DELETE = GROUPS.call("/{id}/action", method="POST", body={"delete": {"delete-volumes": True}})


def force_group(connection: Connection, project: ProjectDefinition, group: Resource) -> None:
    """Reset a group to error, also while it is busy, and delete it with its volumes.

    :raises Refused: as ``check_group`` does, but for the state of the group
    """
    check_group(connection, project, dataclasses.replace(group, data={**group.data, "status": "error"}))
    post_action(connection, project, group, GROUPS, {"reset_status": {"status": "error"}})
    _DELETE.call(connection, project, group)


def force_group_snapshot(connection: Connection, project: ProjectDefinition, snapshot: Resource) -> None:
    """Reset a group snapshot to error, also while it is busy, and delete it."""
    post_action(connection, project, snapshot, GROUP_SNAPSHOTS, {"reset_status": {"status": "error"}})
    GROUP_SNAPSHOTS.delete.call(connection, project, snapshot)


group_delete_failed = failed_in("Cinder", "error", "error_deleting")  #: also of a snapshot of a group


def _groups_if_gone(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the old consistency groups of a project that is gone.

    The list has an owner filter, but its rows show no owner. So the filter is checked with an id that does not exist.
    """
    old = _OLD_GROUPS.where(all_tenants="1", project_id="{project_id}")
    no_project = dataclasses.replace(project, id=NIL_UUID)
    if next(old.rows(connection, no_project), None) is not None:
        raise BadAnswer("Cinder ignores the owner filter of consistency groups")
    if rows := list(old.rows(connection, project)):
        known = {str(row["id"]) for row in list_rows(connection, project, GROUPS, project_id=project.id)}
        yield from (row for row in rows if row["id"] not in known)


def _group_snapshots_if_gone(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the old group snapshots of a project that is gone.

    Their list shows those of the token's project alone. They are found by the project's snapshots that they contain.
    """
    snapshots = list_rows(connection, project, SNAPSHOTS, project_id=project.id)
    own = (row for row in snapshots if row.get(SNAPSHOT_OWNER) == project.id)
    if wholes := {str(row["group_snapshot_id"]) for row in own if row.get("group_snapshot_id")}:
        wholes -= {str(row["id"]) for row in list_rows(connection, project, GROUP_SNAPSHOTS)}
    yield from ({"id": identity, "name": ""} for identity in sorted(wholes))


def _legacy(
    old: Rest,
    new: Rest,
    if_gone: Callable[[Connection, ProjectDefinition], Iterator[Row]],
) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of what only the old API shows.

    The old API lists the new kind as well.
    """

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        if project.gone:
            yield from if_gone(connection, project)
            return
        check_scope(connection, project)
        known: set[str] | None = None
        for row in old.rows(connection, project):
            if known is None:
                known = {str(each["id"]) for each in new.rows(connection, project)}
            if row["id"] not in known:
                yield row

    return listing


#: A server shows its volumes, also those that are only reserved for it.
_SERVER = Rest("compute", "/servers/{id}", key="server")


def groups_of_servers(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Return a function that says which server has a volume of a group."""
    servers: dict[str, str] = {}
    for id_ in left:
        server = show_leftover(_SERVER, connection, project, id_) or {}
        volumes = server.get("os-extended-volumes:volumes_attached")
        if volumes is None:  # Nova does not know the server, or its cell does not answer
            return lambda _group: id_
        for attached in volumes:
            volume = show_leftover(VOLUMES.show, connection, project, str(attached["id"])) or {}
            servers |= {str(volume.get(key)): id_ for key in ("group_id", "consistencygroup_id") if volume.get(key)}
    return lambda group: servers.get(group.id)


_USED_BY = (
    Use((f"{SERVICE_TYPE}.volume",), "deletes the volume", OneByOne(_foreign_volumes)),
    Use(
        (f"{SERVICE_TYPE}.snapshot", f"{SERVICE_TYPE}.group_snapshot", "compute.server"),
        REFUSED,
        foresee=OneByOne(explain_group),
    ),
)
_FRESH = "the token is scoped into the project, and Cinder shows nothing else"
_RESET_GROUP = "cinder --os-volume-api-version 3.20 group-reset-state --state error {{id}}"
_RESET_SNAPSHOT = "cinder --os-volume-api-version 3.19 group-snapshot-reset-state --state error {{id}}"
#: The old API has no call that resets a state.
_BY_DATABASE = state_remedies(
    "openstack volume service list shows whether the service of its host is up, and the log of that service has the "
    "cause: storage without consistency groups deletes none",
    "set the status of its row {id} to 'error' in Cinder's table groups, or group_snapshots",
    "an operator",
)
_OWNERLESS = "Cinder does not say whose they are: it lists those of the token's project"

GROUP_SNAPSHOT = ResourceType(
    name="group_snapshot",
    list=list_own(GROUP_SNAPSHOTS),
    all_projects=list_all(GROUP_SNAPSHOTS),
    show=GROUP_SNAPSHOTS.show,
    delete=GROUP_SNAPSHOTS.delete,
    prepare=(reset_to_error(GROUP_SNAPSHOTS, "reset_status"),),
    used_by=(),
    deleting=being_deleted,
    failed=group_delete_failed,
    force=ForcedDelete(force_group_snapshot),
    by_hand=f"as an admin: {_RESET_SNAPSHOT.format()}, then openstack volume group snapshot delete {{id}}",
    remedies=remedies("", _RESET_SNAPSHOT),
    created="created_at",
    parts=(),
    source="GET /v3/group_snapshots/detail?all_tenants=1&project_id=X, DELETE /v3/group_snapshots/{id}, "
    "microversion 3.58; cinder api/v3/group_snapshots.py",
    note="Its snapshots are deleted with it, and cannot be deleted one by one. Those of old consistency groups are "
    "hidden here: see consistency_group_snapshot.",
)

CONSISTENCY_GROUP_SNAPSHOT = ResourceType(
    name="consistency_group_snapshot",
    list=_legacy(_OLD_SNAPSHOTS.all, GROUP_SNAPSHOTS.all, _group_snapshots_if_gone),
    all_projects=_OWNERLESS,
    delete=_OLD_SNAPSHOTS.delete,
    used_by=(),
    deleting=being_deleted,
    failed=group_delete_failed,
    remedies=_BY_DATABASE,
    owner=SCOPED,
    why_no_show=_FRESH,
    token=Token.PROJECT,
    fallback=Fallback(Token.ADMIN),
    created="created_at",
    parts=(),
    source="GET /v3/cgsnapshots/detail, DELETE /v3/cgsnapshots/{id}; cinder api/contrib/cgsnapshots.py",
    note="Created with the deprecated API of consistency groups. It shows no owner. The API lists those of the "
    "token's project alone, and the new kind among them. If the project is gone, they are found by the "
    "snapshots that they contain.",
)

GROUP = ResourceType(
    name="group",
    list=list_own(GROUPS),
    all_projects=list_all(GROUPS),
    show=GROUPS.show,
    deleting=being_deleted,
    prepare=(check_group,),
    used_by=_USED_BY,
    composition=Composition(contains=_contents_of),
    delete=_DELETE,
    unblock=detach_stale,
    explain=explain_group,
    force=ForcedDelete(force_group),
    failed=group_delete_failed,
    by_hand=f"as an admin: {_RESET_GROUP.format()}, then openstack volume group delete --force {{id}}",
    remedies=remedies("", _RESET_GROUP),
    after=("compute.server",),
    needed_by=(("compute.server", groups_of_servers),),
    created="created_at",
    parts=(),
    source="GET /v3/groups/detail?all_tenants=1&project_id=X, POST /v3/groups/{id}/action delete, microversion "
    "3.58; cinder api/v3/groups.py, group/api.py (delete)",
    note="Its volumes, of any project, are deleted with it: refused when one is another project's. Snapshots of its "
    "volumes are deleted before, and those of other projects are named. The list is paged by the last id: "
    "Cinder returns no next link on a page with an old consistency group, which it hides here. If Cinder refuses the "
    "delete, and no volume has an attachment or a snapshot, their attach_status is stale: it is reset.",
)

CONSISTENCY_GROUP = ResourceType(
    name="consistency_group",
    list=_legacy(_OLD_GROUPS.all, GROUPS.all, _groups_if_gone),
    all_projects=_OWNERLESS,
    prepare=(check_group,),
    used_by=_USED_BY,
    composition=Composition(contains=_contents_of),
    delete=_OLD_GROUPS.call("/{id}/delete", method="POST", body={"consistencygroup": {"force": True}}),
    deleting=being_deleted,
    failed=group_delete_failed,
    remedies=_BY_DATABASE,
    unblock=detach_stale,
    explain=explain_group,
    owner=SCOPED,
    why_no_show=_FRESH,
    token=Token.PROJECT,
    fallback=Fallback(Token.ADMIN),
    after=("compute.server",),
    needed_by=(("compute.server", groups_of_servers),),
    created="created_at",
    parts=(),
    source="GET /v3/consistencygroups/detail, POST /v3/consistencygroups/{id}/delete; cinder "
    "api/contrib/consistencygroups.py",
    note="Created with the deprecated API of consistency groups, and hidden among the groups. Its volumes are "
    "deleted with it, as those of a group. If its storage has no such groups and failed to create it, the "
    "storage later also rejects the delete, silently. Then only an operator can help, in the database.",
)
