"""Manila: shares and what depends on them, groups, networks, types, quotas.

Manila refuses to delete a share while any resource depends on it. So each kind of dependent resource is a separate
type, and is deleted first. No separate types: access rules, metadata, export locations and instances are deleted with
their share, subnets with their share network, and members with their group snapshot. User messages are a log that
expires, and Manila lists it to the project alone. A project's rows in ``quota_usages`` are deleted with its quota.
Without a quota they stay, as counters.

If Manila does not treat the caller as an admin, it silently ignores ``all_tenants``, and the lists show the caller's
own project. Therefore, before each list, the plugin makes a call that Manila answers to admins only.
"""

from __future__ import annotations

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import CONTROLLERS, Service
from cleanup_orchestrator.plugins.shared_file_system.common import SERVERS, SERVICE_TYPE
from cleanup_orchestrator.plugins.shared_file_system.groups import (
    GROUP_SNAPSHOT,
    SECURITY_SERVICE,
    SHARE_GROUP,
    SHARE_NETWORK,
    SHARE_SERVER,
)
from cleanup_orchestrator.plugins.shared_file_system.settings import GROUP_TYPE_ACCESS, QUOTA, TYPE_ACCESS, TYPE_QUOTA
from cleanup_orchestrator.plugins.shared_file_system.shares import (
    BACKUP,
    REPLICA,
    RESOURCE_LOCK,
    SHARE,
    SNAPSHOT,
    TRANSFER,
)

OPTIONS = (
    cfg.BoolOpt(
        "delete_public_shares",
        default=False,
        help="Delete a project's public shares, too: all projects see them, and may have mounted them.",
    ),
)

SERVICE = Service(
    service_type=SERVICE_TYPE,
    contract_version=2,
    after=CONTROLLERS,
    options=OPTIONS,
    roles="admin (project-scoped)",
    proof=SERVERS.own,
    types=(
        RESOURCE_LOCK,
        TRANSFER,
        BACKUP,
        REPLICA,
        GROUP_SNAPSHOT,
        SNAPSHOT,
        SHARE,
        SHARE_GROUP,
        SHARE_NETWORK,
        SHARE_SERVER,
        SECURITY_SERVICE,
        TYPE_ACCESS,
        GROUP_TYPE_ACCESS,
        TYPE_QUOTA,
        QUOTA,
    ),
)
