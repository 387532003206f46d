"""Manila: shares with all that depends on them, share groups, share networks, access to private types, quotas.

Manila refuses to delete a share as long as anything depends on it, so each of those is a type of its own, and goes
first. What has no type: access rules, metadata, export locations and instances go with their share, subnets with their
share network, members with their group snapshot. User messages are a log, which expires, and which Manila lists to the
project alone. A project's rows in ``quota_usages`` go with its quota; without one they stay, as counters.

To a caller who is no admin in Manila's eyes, ``all_tenants`` means nothing: the lists show the caller's own project,
without a word. So before a list is believed, Manila is asked something that it answers to admins only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    Service,
)
from cleanup_orchestrator.plugins.shared_file_system.common import (
    SERVICE_TYPE,
    SHARE_SERVERS,
)
from cleanup_orchestrator.plugins.shared_file_system.groups import (
    GROUP_SNAPSHOT,
    SECURITY_SERVICE,
    SHARE_GROUP,
    SHARE_NETWORK,
    SHARE_SERVER,
)
from cleanup_orchestrator.plugins.shared_file_system.settings import (
    GROUP_TYPE_ACCESS,
    QUOTA,
    TYPE_ACCESS,
    TYPE_QUOTA,
)
from cleanup_orchestrator.plugins.shared_file_system.shares import (
    BACKUP,
    REPLICA,
    RESOURCE_LOCK,
    SHARE,
    SNAPSHOT,
    TRANSFER,
)

if TYPE_CHECKING:
    pass

OPTIONS = (
    cfg.BoolOpt(
        "delete_public_shares",
        default=False,
        help="Delete a project's public shares, too: all projects see them, and may have mounted them.",
    ),
)

SERVICE = Service(
    service_type=SERVICE_TYPE,
    contract_version=1,
    after=CONTROLLERS,
    options=OPTIONS,
    roles="admin (project-scoped)",
    proof=SHARE_SERVERS,
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
