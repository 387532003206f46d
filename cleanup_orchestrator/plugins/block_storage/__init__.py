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

from typing import TYPE_CHECKING

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    Rest,
    Service,
)
from cleanup_orchestrator.plugins.block_storage.backups import (
    BACKUP,
)
from cleanup_orchestrator.plugins.block_storage.common import (
    SERVICE_TYPE,
)
from cleanup_orchestrator.plugins.block_storage.groups import (
    CONSISTENCY_GROUP,
    CONSISTENCY_GROUP_SNAPSHOT,
    GROUP,
    GROUP_SNAPSHOT,
)
from cleanup_orchestrator.plugins.block_storage.settings import (
    DEFAULT_TYPE,
    QUOTA_SET,
    TYPE_ACCESS,
)
from cleanup_orchestrator.plugins.block_storage.volumes import (
    ATTACHMENT,
    SNAPSHOT,
    TRANSFER,
    VOLUME,
)

if TYPE_CHECKING:
    pass

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
    contract_version=1,
    options=OPTIONS,
    after=("orchestration.stack",),
    # Anybody else gets his own project's things, without a word about the owner that was asked for.
    proof=Rest(SERVICE_TYPE, "/os-quota-sets/{project_id}"),
    roles="admin on any one project, to whom Cinder shows everything, so each list carries the owner filter; admin on "
    "the project under deletion, for backups (in Swift they lie in the account of whoever deletes them) and for "
    "consistency groups (which do not say whose they are)",
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
