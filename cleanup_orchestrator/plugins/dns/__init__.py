"""Designate: zones, recordsets in zones of others, PTR records, tasks, TSIG keys.

None of Designate's lists has an owner filter. With the header ``X-Auth-Sudo-Project-ID`` an admin's call counts as one
of the project. The lists still show what is shared with the project and what has no owner, so the owner of each row is
compared.

The delete of a zone deletes everything in it, of any project. So resources of other projects in or below a zone are
looked up right before the delete. If there are any, the delete is refused and they are named. No separate types:
recordsets of the project's own zones, zone attributes and masters are deleted with their zone. Pools, TLDs, blacklists
and service statuses belong to the operator. Zones that other projects offer to the project (transfer requests that name
it as their target) belong to those projects.
"""

from __future__ import annotations

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    Rest,
    Service,
    quota_type,
)
from cleanup_orchestrator.plugins.dns.common import ALL, SUDO
from cleanup_orchestrator.plugins.dns.records import PTR, RECORDSET
from cleanup_orchestrator.plugins.dns.zones import (
    TSIG_KEY,
    ZONE,
    ZONE_EXPORT,
    ZONE_IMPORT,
    ZONE_SHARE,
    ZONE_TRANSFER_ACCEPT,
    ZONE_TRANSFER_REQUEST,
)

OPTIONS = (
    cfg.BoolOpt(
        "delete_foreign_recordsets",
        default=False,
        help="Delete a project's zone even if other projects have recordsets in it. These recordsets are lost. If "
        "false, they are reported as blockers. If another project has a zone below the zone, Designate always refuses "
        "the delete.",
    ),
    cfg.BoolOpt(
        "sweep_zone_shares",
        default=False,
        help="Remove the shares of other projects' zones with the project. These shares belong to the other projects, "
        "and give no access once the project is gone. But a zone with a share counts as shared, and its owner's "
        "delete is refused until the share is removed.",
    ),
)

_NO_PROJECT = "no-such-project"  # its quota is the default, which Designate shows in no other way


QUOTA = quota_type(
    Rest("dns", "/quotas/{project_id}", headers=SUDO),
    Rest("dns", f"/quotas/{_NO_PROJECT}", headers=ALL),
    "zones",
    all_projects="Designate shows the quotas of one project at a time",
    delete=Rest("dns", "/quotas/{project_id}", method="DELETE", headers=ALL),
    source="GET, DELETE /v2/quotas/{project_id}; designate quota/base.py, quota/impl_storage.py",
    note="Designate answers the defaults where there is no row, so only a quota that differs from the defaults is "
    "seen. Rows that equal the defaults stay, and have no effect.",
)

SERVICE = Service(
    service_type="dns",
    contract_version=2,
    after=CONTROLLERS,
    options=OPTIONS,
    roles="admin; by Designate's policies use_sudo, all_tenants and edit_managed_records",
    types=(
        PTR,
        RECORDSET,
        ZONE_TRANSFER_REQUEST,
        ZONE_TRANSFER_ACCEPT,
        ZONE_IMPORT,
        ZONE_EXPORT,
        TSIG_KEY,
        ZONE,
        ZONE_SHARE,
        QUOTA,
    ),
)
