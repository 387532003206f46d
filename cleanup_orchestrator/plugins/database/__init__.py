"""Trove: clusters, instances, backups with their objects in Swift, strategies, configuration groups and modules.

By default the server, volume, port and security group of an instance belong to Trove's own project. Trove deletes them
with the instance.

Trove sends the token of a request to the guest agent in the server of an instance: when the instance or its cluster is
deleted, and also when the instance is shown. So an instance is never shown here, but looked up in the list. Instances
and clusters are deleted with the janitor's token. If the project is gone, there is no such token: then an instance is
deleted only if Nova no longer knows its server.

Trove marks a deleted row in its database, and keeps it.

No separate types: databases and their users are inside of the instance. Trove has no call that deletes a quota, so the
rows in ``quotas``, ``quota_usages`` and ``reservations`` stay. They are not read either: Trove makes the missing rows
of a project when its quotas are shown.
"""

from __future__ import annotations

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import Service
from cleanup_orchestrator.plugins.database.backups import BACKUP, BACKUP_STRATEGY
from cleanup_orchestrator.plugins.database.common import PROOF, TYPE
from cleanup_orchestrator.plugins.database.instances import CLUSTER, INSTANCE
from cleanup_orchestrator.plugins.database.settings import CONFIGURATION, MODULE
from cleanup_orchestrator.plugins.database.settings import OPTIONS as SETTINGS_OPTIONS

OPTIONS = (
    cfg.IntOpt(
        "reset_after",
        default=4 * 3600,
        min=0,
        help="Seconds without a change after which an instance that Trove builds or deletes, and a backup that it "
        "makes, count as stuck. Trove refuses to delete what it builds or makes. A stuck one is reset with an admin's "
        "call, and then deleted. Set no lower value than 'usage_timeout' and 'restore_usage_timeout' of Trove.",
    ),
    *SETTINGS_OPTIONS,
)

SERVICE = Service(
    service_type=TYPE,
    contract_version=2,
    options=OPTIONS,
    after=("orchestration.stack",),
    # To an admin of another project the lists show what is asked for. To other callers most of them answer 401 or 403.
    proof=PROOF,
    roles="admin on one project: with it Trove lists the instances, clusters and backups of all projects. For "
    "configuration groups and modules also a role on the project to be deleted that is not admin, such as member",
    types=(
        BACKUP_STRATEGY,
        BACKUP,
        CLUSTER,
        INSTANCE,
        CONFIGURATION,
        MODULE,
    ),
)
