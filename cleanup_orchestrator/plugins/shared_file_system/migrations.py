"""Manila: migrations and transfers of a share that never end, and are ended before its delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    Collection,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    Row,
    Verdict,
    is_past,
    refuse,
    verdict_naming,
)
from cleanup_orchestrator.plugins.shared_file_system.common import (
    EXPERIMENTAL,
    FLOOR,
    SERVICE_TYPE,
    SHARE_TRANSFERS,
    SHARES,
    TRANSFERS,
    reset,
    row_blocker,
    since,
)

if TYPE_CHECKING:
    from openstack.connection import Connection


_INSTANCES = Collection(SERVICE_TYPE, "/share_instances", microversion=FLOOR)
#: Task states in which Manila refuses the delete of a share, while a migration has to be completed by an admin.
_COPIED = ("data_copying_completed", "migration_driver_phase1_done")
#: Task states in which Manila refuses the delete (manila common/constants.py, BUSY_TASK_STATES).
_MIGRATING = frozenset(
    {
        *_COPIED, "migration_starting", "migration_in_progress", "migration_completing", "migration_driver_starting",
        "migration_driver_in_progress", "data_copying_starting", "data_copying_in_progress", "data_copying_completing",
    }
)  # fmt: skip
#: Statuses of the two instances of a share that is being migrated.
_ON_THE_MOVE = ("migrating", "migrating_to", "server_migrating", "server_migrating_to")
#: Seconds without a change of its instances after which a migration counts as lost. A copy may take hours in which
#: nothing changes that the API shows.
_LOST_AFTER = 24 * 3600


def end_migration(connection: Connection, project: ProjectDefinition, share: Resource) -> None:
    """End a migration that keeps Manila from the delete of a share; wait for one that is in progress.

    If a migration waits for an admin who completes it, it is cancelled, however long it has waited. If the share has no
    instance that is being migrated, or such an instance has not changed for a day in another state, the task state is
    stale: it is reset.

    :raises Refused: while the migration is in progress, or Manila cancels it
    """
    task = share.data.get("task_state")
    if task not in _MIGRATING or share.data.get("is_soft_deleted"):
        return
    instances = SHARES.call(f"/{share.id}/instances", key="share_instances")
    moving = [row for row in instances.rows(connection, project) if row.get("status") in _ON_THE_MOVE]
    lost = all(is_past(row.get("updated_at") or row.get("created_at"), _LOST_AFTER) for row in moving)
    if moving and task in _COPIED:
        _action(connection, project, share, {"migration_cancel": None})
        remedy = (
            f"Manila cancels it within minutes, and the delete is tried again automatically. If its task state stays "
            f"{task}, manila-share does not run on one of its hosts: an operator starts it, or an admin makes the call "
            f"openstack share set --task-state none {share.id}"
        )
        text = f"its task state was {task}: Manila cancels the migration first"
        raise Refused(Verdict(Reason.IN_USE, text, remedy=remedy))
    if not lost:
        text = f"Manila is migrating it ({task}). An admin can end that: openstack share migration cancel {share.id}"
        raise Refused(Verdict(Reason.IN_USE, text))
    for row in moving:
        reset(_INSTANCES).call(connection, project, Resource(str(row["id"]), "", project.id))
    _action(connection, project, share, {"reset_task_state": {"task_state": None}})


def _action(connection: Connection, project: ProjectDefinition, share: Resource, body: Row) -> None:
    """Call an action of migrations. It was experimental until microversion 2.95."""
    call = SHARES.call("/{id}/action", method="POST", body=body, headers=EXPERIMENTAL)
    call.call(connection, project, share)


def end_transfer(connection: Connection, project: ProjectDefinition, share: Resource) -> None:
    """Reset the status of a share that awaits a transfer which does not exist.

    :raises Refused: naming the transfer
    """
    if share.data.get("status") != "awaiting_transfer":
        return
    if since(TRANSFERS)(connection, project):
        query = {"all_tenants": "true", "resource_id": share.id}
        transfers = SHARE_TRANSFERS.where(**query).rows(connection, project)
        offers = [row for row in transfers if row.get("resource_id") == share.id]
        owners = [row_blocker("transfer", row, str(row.get("source_project_id") or "")) for row in offers]
        refuse(verdict_naming(project, "it is offered by", owners))
    reset(SHARES).call(connection, project, share)
