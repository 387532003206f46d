"""Cinder: volumes, snapshots, backups, groups, and what blocks their delete.

Cinder refuses a delete by state. If an operation is no longer behind a state, the state is reset and the resource is
deleted. A busy resource is waited for, until it has not changed for ``reset_after``. Outside of a deletion under force,
nothing is force-deleted. Nothing is deleted in cascade: with an admin's token a cascade silently deletes snapshots of
other projects.

A volume waits for its snapshots, a snapshot for the volumes made from it (on copy-on-write storage), and a group for
both. One resource that another project uses would block all others. So no type here waits for another type as a whole:
each sweep deletes what can be deleted by then, and names what blocks the rest.

No separate types: encryption keys and metadata are deleted with their volume. User messages expire
(``message_ttl``), and do not show their owner. Counters of quota usage and reservations stay: Cinder deletes the limits
alone. Volumes of the image cache belong to the project that ``cinder_internal_tenant_project_id`` names, also those
with a copy of a private image of another project (``image-<id>``): they stay until Cinder evicts them. This project,
and that of Glance's Cinder store, belong on the list of projects that are never deleted.
"""

from __future__ import annotations

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import Rest, Service
from cleanup_orchestrator.plugins.block_storage.backups import BACKUP
from cleanup_orchestrator.plugins.block_storage.common import SERVICE_TYPE
from cleanup_orchestrator.plugins.block_storage.groups import (
    CONSISTENCY_GROUP,
    CONSISTENCY_GROUP_SNAPSHOT,
    GROUP,
    GROUP_SNAPSHOT,
)
from cleanup_orchestrator.plugins.block_storage.settings import DEFAULT_TYPE, QUOTA_SET, TYPE_ACCESS
from cleanup_orchestrator.plugins.block_storage.volumes import ATTACHMENT, SNAPSHOT, TRANSFER, VOLUME

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

SERVICE = Service(
    service_type=SERVICE_TYPE,
    contract_version=2,
    options=OPTIONS,
    after=("orchestration.stack",),
    # To a caller who is not an admin, the lists show only its own project, whatever owner they are asked for.
    proof=Rest(SERVICE_TYPE, "/os-quota-sets/{project_id}"),
    roles="admin on one project: with it Cinder lists the resources of all projects. Also admin on the project to "
    "be deleted, for backups (Cinder's Swift driver works in the account of the caller) and for "
    "consistency groups (they show no owner)",
    types=(
        TRANSFER,
        ATTACHMENT,
        GROUP_SNAPSHOT,
        CONSISTENCY_GROUP_SNAPSHOT,
        SNAPSHOT,
        GROUP,
        CONSISTENCY_GROUP,
        VOLUME,
        BACKUP,
        TYPE_ACCESS,
        DEFAULT_TYPE,
        QUOTA_SET,
    ),
)
