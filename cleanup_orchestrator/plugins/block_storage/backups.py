"""Cinder: backups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    GIB,
    Fallback,
    ForcedDelete,
    LastChange,
    OneByOne,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Row,
    Token,
    Use,
    Verdict,
    exceptions,
    refuse,
    verdict_naming,
)
from cleanup_orchestrator.plugins.block_storage.common import (
    BACKUP_OWNER,
    BACKUPS,
    SERVICE_TYPE,
    being_deleted,
    check_scope,
    cinder_blocker,
    delete_failed,
    force_delete,
    list_all,
    list_rows,
    remedies,
    reset_to_error,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

_BACKUP_PROJECT = "os-backup-project-attr:project_id"


_BASE = "_base"  # added to listed rows; no attribute of Cinder begins with an underscore


def list_backups(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's backups with a token of the project; mark each incremental one with its base.

    Cinder does not show the base. It lists the newest backup first. So the base is the next one of the volume that
    others depend on. That of a backup of an older snapshot may be older (cinder backup/api.py, create). Such a base is
    tried too early, and refused, because ``delete_backup`` deletes no base of others.
    """
    check_scope(connection, project)
    without_base: dict[str, list[Row]] = {}
    for row in list_rows(connection, project, BACKUPS, project_id=project.id):
        volume = str(row.get("volume_id"))
        if row.get("has_dependent_backups"):
            for each in without_base.pop(volume, ()):
                yield {**each, _BASE: row["id"]}
        if row.get("is_incremental"):
            without_base.setdefault(volume, []).append(row)
        else:
            yield row
    for rows in without_base.values():
        yield from rows


def base_of(backup: Resource) -> tuple[str, ...]:
    """Return the backup that an incremental one depends on."""
    base = backup.data.get(_BASE)
    return (str(base),) if base else ()


_make_backup_deletable = reset_to_error(BACKUPS)


def _increments(connection: Connection, project: ProjectDefinition, backup: Resource) -> Verdict | None:
    """Name the backups, of any project, that depend on a backup."""
    if not backup.data.get("has_dependent_backups"):
        return None
    rows = list_rows(connection, project, BACKUPS, parent_id=backup.id)
    blockers = [
        cinder_blocker("backup", row["id"], row.get(_BACKUP_PROJECT), row.get("name"))
        for row in rows
        if row["id"] != backup.id
    ]
    return verdict_naming(project, "it is the base of", blockers)


def force_backup(connection: Connection, project: ProjectDefinition, backup: Resource) -> None:
    """Reset a backup to error, whatever its state, and delete it by force.

    Other backups that depend on it block this. Not every driver supports a forced delete. Then Cinder answers 405, and
    accepts an ordinary delete in state error.
    """
    refuse(_increments(connection, project, backup))
    try:
        force_delete(BACKUPS)(connection, project, backup)
    except exceptions.HttpException as error:
        if error.status_code != 405:
            raise
        BACKUPS.delete.call(connection, project, backup)


def _refuse_without_service(connection: Connection, backup: Resource, answer: str) -> None:
    """Refuse a backup that is there although Cinder answered 404: no backup service is available for it.

    :raises Refused: naming its host, and the calls that help
    """
    response = connection.block_storage.get(f"/backups/{backup.id}", microversion=BACKUP_OWNER)
    if response.status_code == 404:
        return
    exceptions.raise_from_response(response)
    text = (
        f"no cinder-backup is available for it: {answer[:200]}. Start it (openstack volume service list --service "
        "cinder-backup), or, if backups moved to another host, cinder-manage backup update_backup_host --currenthost "
        "OLD --newhost NEW; it is then deleted automatically"
    )
    raise Refused(Verdict(Reason.UNREACHABLE, text))


def delete_backup(connection: Connection, project: ProjectDefinition, backup: Resource) -> None:
    """Delete a backup that no other one depends on. A later sweep deletes the others.

    The reset of a state is a message to the backup service. Until it has arrived, Cinder refuses the delete.

    :raises Refused: naming the backups that depend on it; when no backup service is available; when the reset has not
        arrived yet
    """
    refuse(_increments(connection, project, backup))
    try:
        _make_backup_deletable(connection, project, backup)
    except exceptions.NotFoundException as error:
        _refuse_without_service(connection, backup, str(error))
        return
    response = connection.block_storage.delete(f"/backups/{backup.id}", microversion=BACKUP_OWNER)
    if response.status_code == 404:
        _refuse_without_service(connection, backup, response.text)
        return
    if response.status_code == 400 and backup.data.get("status") not in ("available", "error"):
        text = f"its state was {backup.data.get('status')}, and Cinder resets it: the delete follows"
        raise Refused(Verdict(Reason.IN_USE, text))
    exceptions.raise_from_response(response)


BACKUP = ResourceType(
    name="backup",
    if_abandoned="It still uses storage.",
    list=list_backups,
    all_projects=list_all(BACKUPS),
    show=BACKUPS.show,
    delete=delete_backup,
    # The delete looks for them itself: of the project's own increments, some are deleted by then.
    used_by=(Use((f"{SERVICE_TYPE}.backup",), "is refused", foresee=OneByOne(_increments)),),
    deleting=being_deleted,
    failed=delete_failed,
    changed="updated_at",
    remedies=remedies("volume backup"),
    refers_to=base_of,
    force=ForcedDelete(force_backup),
    by_hand="as an admin, with a role on the project as long as there is one: openstack volume backup set "
    "--state error {id}, then openstack volume backup delete {id}",
    owner=_BACKUP_PROJECT,
    properties="metadata",
    token=Token.PROJECT,
    fallback=Fallback(Token.ADMIN),
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    size=("size", GIB),
    source="GET /v3/backups/detail?all_tenants=1&project_id=X, DELETE /v3/backups/{id}; cinder backup/api.py, "
    "backup/drivers/swift.py, backup/chunkeddriver.py",
    note="Deleted with a token of the project, because Cinder's Swift driver deletes in the account of the "
    "caller: with another token it would treat the data as deleted, and leave it behind. An incremental backup "
    "is deleted before its base: a backup that others depend on waits for them, and Cinder checks this only in the "
    "project of the caller. If the project is gone, the row is deleted with an admin's token, and the data "
    "that the Swift driver leaves is deleted with the containers of the project.",
)
