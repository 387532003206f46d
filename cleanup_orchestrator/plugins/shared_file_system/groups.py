"""Manila: share groups, share networks, share servers and security services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    REFUSED,
    Collection,
    Composition,
    ForcedDelete,
    LastChange,
    OneByOne,
    Parts,
    ProjectDefinition,
    Resource,
    Row,
    Use,
    Verdict,
    failed_in,
    linked,
    refuse,
    refused_in_use,
    verdict_naming,
)
from cleanup_orchestrator.plugins.shared_file_system.common import (
    FLOOR,
    GROUP_SNAPSHOTS,
    GROUPS,
    NETWORKS,
    SERVERS,
    SERVICE_TYPE,
    SHARES,
    describe_status,
    force_delete,
    remedies,
    reset_to_error,
    row_blocker,
    simple_type,
    wrong_status,
)

if TYPE_CHECKING:
    from openstack.connection import Connection


def _members(connection: Connection, project: ProjectDefinition, group: Resource) -> Verdict | None:
    """Return a verdict that names the shares and snapshots of a share group, of any project."""
    shares = SHARES.where(all_tenants="1", share_group_id=group.id)
    blockers = [row_blocker("share", row) for row in shares.rows(connection, project)]
    blockers += [
        row_blocker("group_snapshot", row)
        for row in GROUP_SNAPSHOTS.all.rows(connection, project)
        if row.get("share_group_id") == group.id
    ]
    return verdict_naming(project, "it has", blockers)


def explain_group(connection: Connection, project: ProjectDefinition, group: Resource) -> Verdict | None:
    """Name the shares and snapshots of a share group; or its state."""
    if verdict := _members(connection, project, group):
        return verdict
    row = GROUPS.show.row(connection, project, group)
    return wrong_status(row) if row.get("status") not in ("available", "error") else None


_force_group = force_delete(GROUPS)


def force_group(connection: Connection, project: ProjectDefinition, group: Resource) -> None:
    """Reset a share group to error, and delete it by force.

    Shares and snapshots of the group block this. Manila would remove the rows of the snapshots with the group, also of
    those that are protected, and leave their data on the backend.
    """
    refuse(_members(connection, project, group))
    _force_group(connection, project, group)


def _drop_subnets(connection: Connection, project: ProjectDefinition, network: Resource) -> None:
    """Remove all subnets but one: Manila refuses to delete a share network with more."""
    for subnet in (network.data.get("share_network_subnets") or ())[1:]:
        path = f"/{{id}}/subnets/{subnet['id']}"
        NETWORKS.call(path, method="DELETE", accept=frozenset({202, 204, 404})).call(connection, project, network)


def explain_network(connection: Connection, project: ProjectDefinition, network: Resource) -> Verdict | None:
    """Name the shares and share groups on a share network."""
    blockers = []
    for type_, collection in (("share", SHARES), ("share_group", GROUPS)):
        for row in collection.where(all_tenants="1", share_network_id=network.id).rows(connection, project):
            if row.get("share_network_id") == network.id:
                blockers.append(row_blocker(type_, row))
    return verdict_naming(project, "it is used by", blockers)


#: Its list has no pages: Manila would take ``limit`` for an attribute to filter by.
_SECURITY_SERVICES = Collection(
    SERVICE_TYPE,
    "/security-services",
    one="security_service",
    list_path="/security-services/detail",
    own_query={"all_tenants": "1", "project_id": "{project_id}"},
    microversion=FLOOR,
)


def _security_services(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the first thousand: the list has no pages."""
    yield from _SECURITY_SERVICES.own.rows(connection, project)


def explain_security_service(connection: Connection, project: ProjectDefinition, service: Resource) -> Verdict | None:
    """Name the share networks that a security service is attached to."""
    pages = NETWORKS.where(all_tenants="1", security_service_id=service.id)
    return verdict_naming(
        project, "it is attached to", [row_blocker("share_network", row) for row in pages.rows(connection, project)]
    )


_SHARE_SERVERS = (
    "openstack share server list --share-network {{id}}, then openstack share server set --status error SERVER and "
    "openstack share server delete SERVER, also for a server that is not deleted automatically "
    "(is_auto_deletable false)"
)

GROUP_SNAPSHOT = simple_type(
    "group_snapshot",
    GROUP_SNAPSHOTS,
    prepare=(reset_to_error(GROUP_SNAPSHOTS),),
    used_by=(),
    remedies=remedies("share group snapshot"),
    force=ForcedDelete(force_delete(GROUP_SNAPSHOTS)),
    by_hand="as an admin: manila share-group-snapshot-reset-state --state error {id}, then "
    "openstack share group snapshot delete --force {id}",
    describe=describe_status,
    created="created_at",
    parts=(),
    source="GET /v2/share-group-snapshots/detail?all_tenants=1&project_id=X, DELETE "
    "/v2/share-group-snapshots/{id}; manila api/v2/share_group_snapshots.py, share_group/api.py",
)

SHARE_GROUP = simple_type(
    "share_group",
    GROUPS,
    prepare=(reset_to_error(GROUPS),),
    used_by=(
        Use(
            ("shared-file-system.share", "shared-file-system.group_snapshot"),
            REFUSED,
            foresee=OneByOne(_members),
        ),
    ),
    remedies=remedies("share group"),
    force=ForcedDelete(force_group),
    by_hand="as an admin, once it has no shares and no snapshots: openstack share group set --status error {id}, then "
    "openstack share group delete --force {id}",
    explain=explain_group,
    describe=describe_status,
    after=("share", "group_snapshot"),
    needed_by=(("share", refused_in_use), ("group_snapshot", refused_in_use)),
    created="created_at",
    parts=(),
    source="GET /v2/share-groups/detail?all_tenants=1&project_id=X, DELETE /v2/share-groups/{id}; manila "
    "api/v2/share_groups.py, share_group/api.py",
)

SHARE_NETWORK = simple_type(
    "share_network",
    NETWORKS,
    prepare=(_drop_subnets,),
    explain=explain_network,
    changed="updated_at",
    remedies=remedies("share network", _SHARE_SERVERS),
    used_by=(
        Use(
            ("shared-file-system.share", "shared-file-system.share_group"),
            REFUSED,
            OneByOne(explain_network),  # before its subnets are removed
        ),
    ),
    after=("share", "share_group"),
    needed_by=(("share", linked(SHARES.call("/{id}"))), ("share_group", linked(GROUPS.call("/{id}")))),
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(
        Parts(
            "subnet",
            "share_network_subnets",
            created="created_at",
            updated=LastChange("updated_at", null_until_changed=True),
        ),
    ),
    source="GET /v2/share-networks/detail?project_id=X, DELETE /v2/share-networks/{id}, and its subnets; "
    "manila api/v2/share_networks.py, share_network_subnets.py",
    note="Its share servers are deleted with it, later. They have ports in the project's networks. Manila "
    "answers 409 if it has more than one subnet, so all but one are removed before.",
)

SHARE_SERVER = simple_type(
    "share_server",
    SERVERS,
    title="id",
    changed="updated_at",
    failed=failed_in("Manila", "error"),
    remedies=remedies("share server", "openstack {0} set --status error {{id}}, then openstack {0} delete {{id}}"),
    updated=LastChange("updated_at"),
    parts=(),
    composition=Composition(deleted_with=("share_network",)),
    used_by=(),
    after=("share_network",),
    describe=describe_status,
    source="GET /v2/share-servers?project_id=X; manila api/v2/share_servers.py, share/manager.py",
    note="It is deleted with its share network. Once that is gone, Manila no longer lists it.",
)

SECURITY_SERVICE = simple_type(
    "security_service",
    _SECURITY_SERVICES,
    list=_security_services,
    all_projects="Manila lists only the first thousand of them: the list has no pages",
    explain=explain_security_service,
    used_by=(Use(("shared-file-system.share_network",), REFUSED, foresee=OneByOne(explain_security_service)),),
    after=("share_network",),
    needed_by=(("share_network", refused_in_use),),
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    source="GET /v2/security-services/detail?all_tenants=1&project_id=X, DELETE /v2/security-services/{id}; "
    "manila api/v2/security_service.py",
    note="Manila answers 403 while it is attached to a share network. Manila treats limit and offset in this "
    "list as attributes to filter by, and then finds nothing. So the list is read without them: it has a "
    "thousand rows at most, and is read again when these are gone.",
)
