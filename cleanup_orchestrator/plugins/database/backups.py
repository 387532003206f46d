"""Trove: backups, and the strategies that name their containers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    LastChange,
    Needs,
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
    foreign_users,
    show_leftover,
)
from cleanup_orchestrator.plugins.database.common import (
    ONE_PAGE,
    TYPE,
    describe_status,
    is_quiet,
    one_page,
    own_instances,
    reset_instance,
    trove_remedies,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

_ALL_BACKUPS = one_page("/backups", "backups", all_projects="true", limit=ONE_PAGE)
_BACKUP = Rest(TYPE, "/backups/{id}", key="backup")
#: While a backup has one of these, Trove refuses to delete it.
_RUNNING = ("NEW", "BUILDING", "SAVING")


def of_backup(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Name the instances, and clusters, of which a leftover is a backup that is still being made.

    Without the instance such a backup never ends, and no call ends it.
    """
    rows = {id_: show_leftover(_BACKUP, connection, project, id_) for id_ in sorted(left)}
    unknown = next((id_ for id_, row in rows.items() if row is None), None)
    running = {str(row.get("instance_id")): id_ for id_, row in rows.items() if row and row.get("status") in _RUNNING}

    def needs(resource: Resource) -> str | None:
        ids = [resource.id, *(str(member.get("id")) for member in resource.data.get("instances") or ())]
        return unknown or next((running[id_] for id_ in ids if id_ in running), None)

    return needs


def _parent(backup: Resource) -> Iterable[str]:
    """Return the backup that one is an increment of."""
    parent = backup.data.get("parent_id")
    return (str(parent),) if parent else ()


def _increments_of_others(
    connection: Connection, project: ProjectDefinition, backups: Sequence[Resource]
) -> dict[str, Verdict]:
    """Name the increments of others, which an admin made of the backups, or of increments of these.

    Trove deletes all increments of a backup together with it, also those of other projects.
    """
    asked = {backup.id for backup in backups}
    rows = list(_ALL_BACKUPS(connection, project))
    parents = {row["id"]: row.get("parent_id") for row in rows}

    def bases(id_: str) -> Iterator[str]:
        seen = {id_}
        while (parent := parents.get(id_)) and parent not in seen:
            seen.add(id_ := parent)
            yield parent

    increments = (
        (base, blocker(f"{TYPE}.backup", row["id"], row.get("project_id"), row.get("name")))
        for row in rows
        for base in bases(row["id"])
        if base in asked
    )
    return foreign_users(project, "it is the base of", increments)


def _delete_backup(connection: Connection, project: ProjectDefinition, backup: Resource) -> None:
    """Delete a backup.

    :raises Refused: the project is gone
    """
    if project.gone:
        text = (
            "the project is gone, and with an admin's token Trove would delete an object of the same name in the "
            "account of the admin's project: mark its row in Trove's table backups as deleted. Its data is in the "
            "project's account in Swift"
        )
        raise Refused(Verdict(Reason.PROJECT_GONE, text))
    Rest(TYPE, "/backups/{id}", method="DELETE").call(connection, project, backup)


def _unblock_backup(
    connection: Connection, deleting: Connection, project: ProjectDefinition, backup: Resource, error: Exception
) -> bool:
    """End a backup that Trove has made for longer than ``reset_after``, with the task of its instance.

    Trove 26 refuses the delete with 500 instead of 422, because it compares two kinds of times.
    """
    row = _BACKUP.row(connection, project, backup)
    if row.get("status") not in _RUNNING or not is_quiet(row, project):
        return False
    instance = row.get("instance_id")
    if instance not in {row.get("id") for row in own_instances(connection, project)}:
        return False
    reset_instance(connection, project, str(instance))
    return True


def _explain_backup(connection: Connection, project: ProjectDefinition, backup: Resource) -> Verdict | None:
    """Say that Trove makes a backup."""
    status = _BACKUP.row(connection, project, backup).get("status")
    if status not in _RUNNING:
        return None
    text = (
        f"it is {status}: Trove refuses to delete a backup that it makes. If it does not end and its instance is gone, "
        "an operator must set its state to FAILED in Trove's table backups"
    )
    return Verdict(Reason.IN_USE, text)


def _delete_failed(backup: Resource, project: ProjectDefinition) -> str | None:
    """Say that Trove could not delete a backup."""
    return "Trove failed to delete it: DELETE_FAILED" if backup.data.get("status") == "DELETE_FAILED" else None


_STRATEGIES = Rest(TYPE, "/backup_strategies", key="backup_strategies", query={"project_id": "{project_id}"})


def _strategies(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the strategies of a project: one for each instance that has its own, and one for all others.

    They have no id.
    """
    for row in _STRATEGIES.rows(connection, project):
        yield {**row, "id": row["instance_id"] or "project"}


def _delete_strategy(connection: Connection, project: ProjectDefinition, strategy: Resource) -> None:
    query = {"project_id": "{project_id}"} | ({} if strategy.id == "project" else {"instance_id": "{id}"})
    Rest(TYPE, "/backup_strategies", method="DELETE", query=query).call(connection, project, strategy)


BACKUP_STRATEGY = ResourceType(
    name="backup_strategy",
    used_by=(),
    list=_strategies,
    all_projects="Trove shows the strategies of one project at a time",
    delete=_delete_strategy,
    title="swift_container",
    why_no_show="it is addressed by the project's and the instance's id",
    source="GET, DELETE /v1.0/{project}/backup_strategies?project_id=X; trove backup/service.py, backup/models.py "
    "(BackupStrategy)",
    note="Only the name of a container for backups. Trove answers 202 to a delete of what does not exist, too.",
)

BACKUP = ResourceType(
    name="backup",
    if_abandoned="It still uses storage.",
    list=one_page("/backups", "backups", project_id="{project_id}", limit=ONE_PAGE),
    all_projects=_ALL_BACKUPS,
    show=_BACKUP,
    delete=_delete_backup,
    refers_to=_parent,
    used_by=(Use((f"{TYPE}.backup",), "deletes the increments, too", _increments_of_others),),
    unblock=_unblock_backup,
    explain=_explain_backup,
    describe=describe_status,
    changed="updated",
    failed=_delete_failed,
    remedies=trove_remedies("set the state of its row {id} in Trove's table backups to FAILED", "an operator"),
    user_content="the name of its object in Swift, which the guest agent reports: Trove deletes the object of this "
    "name in the account of the token's project. It also counts the quota of the token's project",
    by_hand="as an admin of the database: set deleted = 1 in the row {id} of Trove's table backups",
    created="created",
    updated=LastChange("updated"),
    parts=(),
    source="GET /v1.0/{project}/backups?project_id=X, DELETE /v1.0/{project}/backups/ID; trove backup/models.py, "
    "taskmanager/models.py (BackupTasks.delete_backup)",
    note="Increments are deleted before the backup that they need. If Swift refuses to delete the object, Trove still "
    "marks the backup as deleted: the object stays in the project's container, which is deleted later. Trove does not "
    "delete the object of a backup that a user brought along (RESTORED). Snapshots of Cinder as backups were not met "
    "in a test.",
)
