"""Nova: servers in every state, server groups, and what points at the project.

Nova refuses almost no delete, but several answers are misleading: lists omit what is hidden, soft-deleted or out of
reach, and some deletes are accepted and ignored. The plugin checks each of these cases.

No separate types: the ports that Nova created for a server, its shelved image, its allocations in Placement, its share
attachments and its tags are deleted with the server. Migrations, actions, faults and usage are history that
``nova-manage db archive_deleted_rows`` and ``purge`` remove. A server on a host that is down is deleted in the database
alone. Its guest may run until the host is back, which then removes it (``running_deleted_instance_action``).
"""

from __future__ import annotations

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import Service
from cleanup_orchestrator.plugins.compute.groups import SERVER_GROUP
from cleanup_orchestrator.plugins.compute.servers import SERVER, UNREACHABLE_SERVER
from cleanup_orchestrator.plugins.compute.settings import AGGREGATE, FLAVOR_ACCESS, KEYPAIR, QUOTA_SET

OPTIONS = (
    cfg.BoolOpt(
        "sweep_flavor_access",
        default=True,
        help="Remove the project from the access lists of private flavors. Nova cannot be asked which flavors a "
        "project has access to: it takes one call for every private flavor of the cloud, once for each deletion. An "
        "entry that stays gives no access.",
    ),
)

SERVICE = Service(
    service_type="compute",
    contract_version=2,
    options=OPTIONS,
    after=("orchestration.stack",),
    roles="admin on one project: with it Nova lists and deletes the servers of all projects. Also any role on the "
    "project to be deleted, because Nova shows servers in cells that do not answer only to a token of "
    "their project",
    types=(
        SERVER,
        UNREACHABLE_SERVER,
        SERVER_GROUP,
        KEYPAIR,
        AGGREGATE,
        FLAVOR_ACCESS,
        QUOTA_SET,
    ),
)
