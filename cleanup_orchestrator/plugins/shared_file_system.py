"""Manila: shares with all that depends on them, share groups, share networks, access to private types, quotas.

Manila refuses to delete a share as long as anything depends on it, so each of those is a type of its own, and goes
first. What has no type: access rules, metadata, export locations and instances go with their share, subnets with their
share network, members with their group snapshot. User messages are a log, which expires, and which Manila lists to the
project alone. A project's rows in ``quota_usages`` go with its quota; without one they stay, as counters.

To a caller who is no admin in Manila's eyes, ``all_tenants`` means nothing: the lists show the caller's own project,
without a word. So before a list is believed, Manila is asked something that it answers to admins only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from openstack import exceptions
from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    Action,
    BadAnswer,
    Paging,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Service,
    Verdict,
    blocker,
    knows_microversion,
    to_row,
    verdict_naming,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

OPTIONS = (
    cfg.BoolOpt(
        "delete_public_shares",
        default=False,
        help="Delete a project's public shares, too: all projects see them, and may have mounted them.",
    ),
)

SERVICE_TYPE = "shared-file-system"
#: The microversion of Zed, before which a snapshot shows no metadata (2.73) and a share no recycle bin (2.69).
FLOOR = "2.73"
TRANSFERS, BACKUPS, LOCKS = "2.77", "2.80", "2.81"
_EXPERIMENTAL = {"X-OpenStack-Manila-API-Experimental": "true"}
PAGE = 1000  #: Manila's ``osapi_max_limit``, to which it cuts a larger wish

# --------------------------------------------------------------------------------------------------- lists and calls


def _rest(path: str, microversion: str = FLOOR, **declared: Any) -> Rest:
    return Rest(SERVICE_TYPE, path, microversion=microversion, **declared)


def _pages(path: str, key: str, microversion: str = FLOOR, **query: str) -> Rest:
    # By offset: Manila's next links have a marker, to which no list of it pays heed. By id: of rows that were created
    # within the same second, two pages could show the same one.
    headers = _EXPERIMENTAL if microversion == BACKUPS else {}
    return _rest(path, microversion, key=key, query=query, headers=headers, paging=Paging.OFFSET, limit=PAGE)


# These two know no pages at all: any offset gives the whole.
_TYPES = _rest("/types", key="share_types", query={"is_public": "all"})
_GROUP_TYPES = _rest("/share-group-types", key="share_group_types", query={"is_public": "all"})


#: Whose they are, Manila tells admins alone.
_SHARE_SERVERS = _rest("/share-servers", key="share_servers", query={"project_id": "{project_id}"})


def since(microversion: str) -> Callable[[Connection, ProjectDefinition], bool]:
    """Return a check for ``ResourceType.available``: whether this Manila knows the microversion."""
    return lambda connection, project: knows_microversion(connection.shared_file_system, microversion)


def _owner(row: Row) -> str:
    return str(row.get("project_id") or "")


def _blocker(type_: str, row: Row, owner: str | None = None) -> dict[str, str]:
    return blocker(f"{SERVICE_TYPE}.{type_}", row["id"], _owner(row) if owner is None else owner)


# ------------------------------------------------------------------------------------------------------------ states


def _describe(resource: Resource, project: ProjectDefinition) -> str | None:
    status = resource.data.get("status")
    return None if status in (None, "available", "active") else f"its status is {status}"


def _going(resource: Resource) -> Verdict | None:
    """Return that its delete is under way, if it is."""
    status = resource.data.get("status")
    if status in ("deleting", "deferred_deleting", "error_deferred_deleting"):
        return Verdict(Reason.DELETING, f"Manila is deleting it: its status is {status}")
    return None


def _reset(path: str, microversion: str = FLOOR) -> Action:
    """Return the way out of a failed change: ``error_deleting`` and the like are refused, ``error`` is not.

    A change that is still under way is left to come to its end.
    """
    headers = _EXPERIMENTAL if microversion == BACKUPS else {}
    action = _rest(
        f"{path}/{{id}}/action",
        microversion,
        method="POST",
        headers=headers,
        body={"reset_status": {"status": "error"}},
    )

    def reset_failed(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
        if verdict := _going(resource):
            raise Refused(verdict)
        status = str(resource.data.get("status"))
        if "error" in status and status != "error":
            action.call(connection, project, resource)

    return reset_failed


def _force(path: str) -> Action:
    """Return the last way out: the state is reset to ``error`` also while Manila is at work, and the delete forced."""
    reset = _rest(f"{path}/{{id}}/action", method="POST", body={"reset_status": {"status": "error"}})
    delete = _rest(f"{path}/{{id}}/action", method="POST", body={"force_delete": None})

    def force(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
        """Reset its status to error, also while something works on it, and delete it by force."""
        reset.call(connection, project, resource)
        delete.call(connection, project, resource)

    return force


def _stuck(resource: Row) -> Verdict:
    return Verdict(
        Reason.IN_USE,
        f"its status is {resource.get('status')}: Manila deletes what is available or in error. If nothing is at work "
        "on it any more, an admin can reset the status",
    )


# ------------------------------------------------------------------------------------------------------------ shares


def _shares(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's shares, and those in the recycle bin, which the first list hides."""
    for soft_deleted in ("false", "true"):
        query = {"all_tenants": "1", "project_id": "{project_id}", "is_soft_deleted": soft_deleted}
        pages = _pages("/shares/detail", "shares", sort_key="id", sort_dir="asc", **query)
        yield from pages.rows(connection, project)


def _all_shares(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the shares of all projects, and those in the recycle bin."""
    for soft_deleted in ("false", "true"):
        query = {"all_tenants": "1", "is_soft_deleted": soft_deleted}
        yield from _pages("/shares/detail", "shares", sort_key="id", sort_dir="asc", **query).rows(connection, project)


def _own_shares(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    return (row for row in _shares(connection, project) if _owner(row) == project.id)


_SHARE = _rest("/shares/{id}", key="share")


def public(share: Resource, project: ProjectDefinition) -> str | None:
    """Protect a share that all projects see."""
    if share.data.get("is_public") and not project.options.get("delete_public_shares"):
        return "the share is public: other projects may have mounted it"
    return None


def _delete_share(connection: Connection, project: ProjectDefinition, share: Resource) -> None:
    """Delete; Manila wants to hear of the group that a share is in."""
    group = share.data.get("share_group_id")
    _rest("/shares/{id}", method="DELETE", query={"share_group_id": str(group)} if group else {}).call(
        connection, project, share
    )


def explain_share(connection: Connection, project: ProjectDefinition, share: Resource) -> Verdict | None:
    """Name what depends on a share, whosever: locks, snapshots, replicas, backups; or its state."""
    row = _SHARE.row(connection, project, share)
    blockers: list[dict[str, str]] = []
    if since(LOCKS)(connection, project):
        locks = _pages("/resource-locks", "resource_locks", LOCKS, all_projects="1", resource_id=share.id)
        for lock in locks.rows(connection, project):
            if lock.get("resource_action") == "delete":
                blockers.append(_blocker("resource_lock", lock))
    snapshots = _pages("/snapshots/detail", "snapshots", all_tenants="1", share_id=share.id)
    blockers += [_blocker("snapshot", each) for each in snapshots.rows(connection, project)]
    blockers += [_blocker("replica", each, project.id) for each in _spare_replicas(connection, project, row)]
    if since(BACKUPS)(connection, project):
        blockers += [_blocker("backup", each, project.id) for each in _backups_of(connection, project, row)]
    if verdict := verdict_naming(project, "it is held by", blockers):
        return verdict
    return _stuck(row) if row.get("status") not in ("available", "error", "inactive") else None


def _replicas_of(connection: Connection, project: ProjectDefinition, share: Row) -> list[Row]:
    if not share.get("has_replicas"):
        return []
    return list(_pages("/share-replicas/detail", "share_replicas", share_id=str(share["id"])).rows(connection, project))


def _spare_replicas(connection: Connection, project: ProjectDefinition, share: Row) -> Iterator[Row]:
    """Yield all but the one active replica that Manila never deletes: that is the share itself."""
    replicas = sorted(
        (row for row in _replicas_of(connection, project, share) if row.get("share_id") == share["id"]),
        key=lambda row: (row.get("replica_state") != "active", str(row["id"])),
    )
    yield from replicas[1:]


def _while_there(
    connection: Connection, project: ProjectDefinition, share: Row, rows: Callable[..., Iterator[Row]]
) -> Iterator[Row]:
    """Yield what a share has; nothing once it is gone, which Manila answers with 400 or 404.

    It refuses to delete a share that still has any: the list of shares is older than its answer about this one.
    """
    try:
        yield from rows(connection, project, share)
    except (exceptions.BadRequestException, exceptions.NotFoundException):
        try:
            _SHARE.row(connection, project, Resource(str(share["id"]), "", None))
        except exceptions.NotFoundException:
            return
        raise


def _replicas(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    for share in _own_shares(connection, project):
        for row in _while_there(connection, project, share, _spare_replicas):
            yield {**row, "project_id": share["project_id"], "name": share.get("name")}


def _backups_of(connection: Connection, project: ProjectDefinition, share: Row) -> Iterator[Row]:
    pages = _pages("/share-backups/detail", "share_backups", BACKUPS, all_tenants="1", share_id=str(share["id"]))
    return (row for row in pages.rows(connection, project) if row.get("share_id") == share["id"])


def _backups(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    for share in _own_shares(connection, project):
        for row in _while_there(connection, project, share, _backups_of):
            yield {**row, "project_id": share["project_id"]}


def _with_owner(one: Rest) -> Action:
    """Return a way to read again what shows no owner: it is that of its share."""

    def show(connection: Connection, project: ProjectDefinition, resource: Resource) -> Row:
        row = one.row(connection, project, resource)
        share = _SHARE.row(connection, project, Resource(str(row.get("share_id")), "", None))
        return {**row, "project_id": share.get("project_id")}

    return show


# ---------------------------------------------------------------------------------------- share groups and networks


def explain_group(connection: Connection, project: ProjectDefinition, group: Resource) -> Verdict | None:
    """Name the shares and snapshots of a share group."""
    shares = _pages("/shares/detail", "shares", all_tenants="1", share_group_id=group.id)
    blockers = [_blocker("share", row) for row in shares.rows(connection, project)]
    snapshots = _pages("/share-group-snapshots/detail", "share_group_snapshots", all_tenants="1")
    blockers += [
        _blocker("group_snapshot", row)
        for row in snapshots.rows(connection, project)
        if row.get("share_group_id") == group.id
    ]
    if verdict := verdict_naming(project, "it has", blockers):
        return verdict
    row = _rest("/share-groups/{id}", key="share_group").row(connection, project, group)
    return _stuck(row) if row.get("status") not in ("available", "error") else None


def _drop_subnets(connection: Connection, project: ProjectDefinition, network: Resource) -> None:
    """Remove all subnets but one: with more, Manila refuses to delete the share network."""
    for subnet in (network.data.get("share_network_subnets") or ())[1:]:
        _rest(
            f"/share-networks/{{id}}/subnets/{subnet['id']}", method="DELETE", accept=frozenset({202, 204, 404})
        ).call(connection, project, network)


def explain_network(connection: Connection, project: ProjectDefinition, network: Resource) -> Verdict | None:
    """Name the shares and share groups on a share network."""
    blockers = []
    for type_, path, key in (
        ("share", "/shares/detail", "shares"),
        ("share_group", "/share-groups/detail", "share_groups"),
    ):
        for row in _pages(path, key, all_tenants="1", share_network_id=network.id).rows(connection, project):
            if row.get("share_network_id") == network.id:
                blockers.append(_blocker(type_, row))
    return verdict_naming(project, "it is used by", blockers)


def _security_services(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the first thousand; asked for a page, Manila would look for services with such a ``limit``."""
    query = {"all_tenants": "1", "project_id": "{project_id}"}
    yield from _rest("/security-services/detail", key="security_services", query=query).rows(connection, project)


def explain_security_service(connection: Connection, project: ProjectDefinition, service: Resource) -> Verdict | None:
    """Name the share networks that a security service is attached to."""
    pages = _pages("/share-networks/detail", "share_networks", all_tenants="1", security_service_id=service.id)
    return verdict_naming(
        project, "it is attached to", [_blocker("share_network", row) for row in pages.rows(connection, project)]
    )


# -------------------------------------------------------------------------------------------- access and quota rows


def _access(
    types: Rest, is_public: str, entries: str, key: str
) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of the private types that the project was given access to."""

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for type_ in types.rows(connection, project):
            if is_public not in type_:
                raise BadAnswer(f"{types!r} does not tell which types are public")
            if type_[is_public]:
                continue
            for entry in _rest(entries.format(id=type_["id"]), key=key).rows(connection, project):
                if entry.get("project_id") == project.id:
                    yield {"id": type_["id"], "name": type_.get("name"), "project_id": entry["project_id"]}

    return listing


def _quota_set(connection: Connection, project: ProjectDefinition, path: str = "", **query: str) -> dict[str, Any]:
    body = _rest(f"/quota-sets/{{project_id}}{path}", query=query).call(connection, project)
    found = dict(to_row(body.get("quota_set")))
    found.pop("id", None)
    if "shares" not in found:
        raise BadAnswer("GET /quota-sets/{project_id} answered no quotas")
    return found


def _quota(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    if _quota_set(connection, project) != _quota_set(connection, project, "/defaults"):
        yield {"id": project.id, "name": "quota", "project_id": project.id}


def _type_quotas(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the share types for which the project has a quota of its own: one that differs from the project's."""
    whole: dict[str, Any] | None = None
    for type_ in _TYPES.rows(connection, project):
        whole = _quota_set(connection, project) if whole is None else whole
        found = _quota_set(connection, project, share_type=str(type_["id"]))
        if any(whole.get(key) != value for key, value in found.items() if key in whole):
            yield {"id": type_["id"], "name": type_.get("name"), "project_id": project.id}


# ------------------------------------------------------------------------------------------------------------- types


_SHARES_OWNER = "it shows no owner: it is that of its share"
_ACCESS = "an entry in a type's access list gives nobody anything once its project is gone"
_QUOTAS = "Manila shows the quotas of one project at a time"


def _simple(name: str, path: str, key: str, one: str, microversion: str = FLOOR, **declared: Any) -> ResourceType:
    """Return a type with a detailed list, and calls by id below the same path."""
    declared.setdefault("list", _pages(f"{path}/detail", key, microversion, all_tenants="1", project_id="{project_id}"))
    declared.setdefault("all_projects", _pages(f"{path}/detail", key, microversion, all_tenants="1"))
    declared.setdefault("show", _rest(f"{path}/{{id}}", microversion, key=one))
    declared.setdefault("delete", _rest(f"{path}/{{id}}", microversion, method="DELETE"))
    return ResourceType(name=name, **declared)


SERVICE = Service(
    service_type=SERVICE_TYPE,
    contract_version=1,
    after=CONTROLLERS,
    options=OPTIONS,
    roles="admin (project-scoped)",
    proof=_SHARE_SERVERS,
    types=(
        _simple(
            "resource_lock",
            "/resource-locks",
            "resource_locks",
            "resource_lock",
            LOCKS,
            list=_pages("/resource-locks", "resource_locks", LOCKS, all_projects="1", project_id="{project_id}"),
            all_projects=_pages("/resource-locks", "resource_locks", LOCKS, all_projects="1"),
            title="lock_reason",
            available=since(LOCKS),
            after=("compute.server",),
            source="GET /v2/resource-locks?all_projects=1&project_id=X, DELETE /v2/resource-locks/{id}; manila "
            "api/v2/resource_locks.py, lock/api.py, share/api.py (prevent_locked_action_on_share)",
            note="The project's own locks go before what they lock. A lock that somebody else (an admin, or the "
            "compute service for a mounted share) put on a share of the project stays, and the share names it: "
            "servers go first, for theirs go with them.",
        ),
        _simple(
            "transfer",
            "/share-transfers",
            "transfers",
            "transfer",
            TRANSFERS,
            list=_pages(
                "/share-transfers/detail", "transfers", TRANSFERS, all_tenants="true", source_project_id="{project_id}"
            ),
            owner="source_project_id",
            all_projects=_pages("/share-transfers/detail", "transfers", TRANSFERS, all_tenants="true"),
            available=since(TRANSFERS),
            source="GET /v2/share-transfers/detail?all_tenants=true&source_project_id=X, DELETE "
            "/v2/share-transfers/{id}; manila api/v2/share_transfer.py, transfer/api.py",
            note="Its delete gives the share back to the project; until then another project could take it. "
            "It acts on nothing that a user wrote: the key of an offer is compared when the offer is accepted.",
        ),
        _simple(
            "backup",
            "/share-backups",
            "share_backups",
            "share_backup",
            BACKUPS,
            list=_backups,
            all_projects=_SHARES_OWNER,
            show=_with_owner(_rest("/share-backups/{id}", BACKUPS, key="share_backup", headers=_EXPERIMENTAL)),
            delete=_rest("/share-backups/{id}", BACKUPS, method="DELETE", headers=_EXPERIMENTAL),
            available=since(BACKUPS),
            prepare=(_reset("/share-backups", BACKUPS),),
            describe=_describe,
            after=("transfer",),
            source="GET /v2/share-backups/detail?share_id=S, DELETE /v2/share-backups/{id}; manila "
            "api/v2/share_backups.py, share/api.py",
            note="An experimental API. A backup shows no owner: the backups of each of the project's shares are asked "
            "for, one call for each share.",
        ),
        _simple(
            "replica",
            "/share-replicas",
            "share_replicas",
            "share_replica",
            list=_replicas,
            all_projects=_SHARES_OWNER,
            show=_with_owner(_rest("/share-replicas/{id}", key="share_replica")),
            describe=_describe,
            after=("transfer", "backup"),
            source="GET /v2/share-replicas/detail?share_id=S, DELETE /v2/share-replicas/{id}; manila "
            "api/v2/share_replicas.py, share/api.py",
            note="Without a share's id this list is that of all projects, and shows no owner. The last active replica "
            "is the share itself, and is not listed here.",
        ),
        _simple(
            "group_snapshot",
            "/share-group-snapshots",
            "share_group_snapshots",
            "share_group_snapshot",
            prepare=(_reset("/share-group-snapshots"),),
            force=_force("/share-group-snapshots"),
            by_hand="as an admin: manila share-group-snapshot-reset-state --state error {id}, then "
            "openstack share group snapshot delete --force {id}",
            describe=_describe,
            source="GET /v2/share-group-snapshots/detail?all_tenants=1&project_id=X, DELETE "
            "/v2/share-group-snapshots/{id}; manila api/v2/share_group_snapshots.py, share_group/api.py",
        ),
        _simple(
            "snapshot",
            "/snapshots",
            "snapshots",
            "snapshot",
            prepare=(_reset("/snapshots"),),
            force=_force("/snapshots"),
            by_hand="as an admin: openstack share snapshot set --status error {id}, then "
            "openstack share snapshot delete --force {id}",
            describe=_describe,
            properties="metadata",
            after=("replica", "transfer"),
            source="GET /v2/snapshots/detail?all_tenants=1&project_id=X, DELETE /v2/snapshots/{id}; manila "
            "api/v2/share_snapshots.py, share/api.py",
            note="A snapshot belongs to whoever took it: one that an admin took of the project's share is the admin's, "
            "and holds the share.",
        ),
        _simple(
            "share",
            "/shares",
            "shares",
            "share",
            list=_shares,
            all_projects=_all_shares,
            delete=_delete_share,
            protect=(public,),
            prepare=(_reset("/shares"),),
            force=_force("/shares"),
            by_hand="as an admin: openstack share set --status error {id}, then openstack share delete --force {id}",
            explain=explain_share,
            describe=_describe,
            properties="metadata",
            after=("resource_lock", "transfer", "backup", "replica", "group_snapshot", "snapshot", "compute.server"),
            source="GET /v2/shares/detail?all_tenants=1&project_id=X, and with is_soft_deleted=true; DELETE "
            "/v2/shares/{id}?share_group_id=G; manila api/v2/shares.py, share/api.py, db/sqlalchemy/api.py",
            note="Shares in the recycle bin are in no list but their own. The list that counts (with_count) forgets "
            "the owner filter, and is not used. In a group, Manila wants the group's id with the delete. 403 means a "
            "wrong state, a lock, or something that depends on the share: it is named.",
        ),
        _simple(
            "share_group",
            "/share-groups",
            "share_groups",
            "share_group",
            prepare=(_reset("/share-groups"),),
            force=_force("/share-groups"),
            by_hand="as an admin: openstack share group set --status error {id}, then "
            "openstack share group delete --force {id}",
            explain=explain_group,
            describe=_describe,
            after=("share", "group_snapshot"),
            source="GET /v2/share-groups/detail?all_tenants=1&project_id=X, DELETE /v2/share-groups/{id}; manila "
            "api/v2/share_groups.py, share_group/api.py",
        ),
        _simple(
            "share_network",
            "/share-networks",
            "share_networks",
            "share_network",
            prepare=(_drop_subnets,),
            explain=explain_network,
            after=("share", "share_group"),
            source="GET /v2/share-networks/detail?project_id=X, DELETE /v2/share-networks/{id}, and its subnets; "
            "manila api/v2/share_networks.py, share_network_subnets.py",
            note="Takes its share servers along, later: these hold ports in the project's networks. 409 with more than "
            "one subnet: all but the last are removed before.",
        ),
        _simple(
            "share_server",
            "/share-servers",
            "share_servers",
            "share_server",
            list=_rest("/share-servers", key="share_servers", query={"project_id": "{project_id}"}),
            all_projects=_rest("/share-servers", key="share_servers"),
            title="id",
            deleted_with=("share_network",),
            after=("share_network",),
            describe=_describe,
            source="GET /v2/share-servers?project_id=X; manila api/v2/share_servers.py, share/manager.py",
            note="Goes with its share network; once that is gone, Manila lists it to nobody.",
        ),
        _simple(
            "security_service",
            "/security-services",
            "security_services",
            "security_service",
            list=_security_services,
            all_projects="Manila lists the first thousand of them, and knows no pages",
            explain=explain_security_service,
            after=("share_network",),
            source="GET /v2/security-services/detail?all_tenants=1&project_id=X, DELETE /v2/security-services/{id}; "
            "manila api/v2/security_service.py",
            note="403 while it is attached to a share network. This list takes limit and offset for attributes to "
            "filter by, and with them finds nothing: it is read without, a thousand at most, and again when those are "
            "gone.",
        ),
        ResourceType(
            name="type_access",
            all_projects=_ACCESS,
            list=_access(
                _TYPES,
                "share_type_access:is_public",
                "/types/{id}/share_type_access",
                "share_type_access",
            ),
            delete=_rest(
                "/types/{id}/action", method="POST", body={"removeProjectAccess": {"project": "{project_id}"}}
            ),
            fresh="it is addressed by the type's and the project's id",
            project_setting=True,
            source="GET /v2/types?is_public=all, GET /v2/types/{id}/share_type_access, POST /v2/types/{id}/action; "
            "manila api/v2/share_types.py",
            note="One call for each private type of the cloud. The type is the operator's and stays.",
        ),
        ResourceType(
            name="group_type_access",
            all_projects=_ACCESS,
            list=_access(
                _GROUP_TYPES,
                "is_public",
                "/share-group-types/{id}/access",
                "share_group_type_access",
            ),
            delete=_rest(
                "/share-group-types/{id}/action",
                method="POST",
                body={"removeProjectAccess": {"project": "{project_id}"}},
            ),
            fresh="it is addressed by the type's and the project's id",
            project_setting=True,
            source="GET /v2/share-group-types?is_public=all, GET /v2/share-group-types/{id}/access, POST "
            "/v2/share-group-types/{id}/action; manila api/v2/share_group_types.py",
        ),
        ResourceType(
            name="type_quota",
            list=_type_quotas,
            all_projects=_QUOTAS,
            delete=_rest("/quota-sets/{project_id}", method="DELETE", query={"share_type": "{id}"}),
            fresh="it is addressed by the type's and the project's id",
            project_setting=True,
            source="GET, DELETE /v2/quota-sets/X?share_type=T; manila api/v2/quota_sets.py",
            note="One call for each share type. A quota that says the same as the project's own stays unseen.",
        ),
        ResourceType(
            name="quota",
            list=_quota,
            all_projects=_QUOTAS,
            delete=_rest("/quota-sets/{project_id}", method="DELETE"),
            fresh="it is addressed by the project's id",
            project_setting=True,
            after=("type_quota",),
            source="GET, DELETE /v2/quota-sets/X, GET /v2/quota-sets/X/defaults; manila api/v2/quota_sets.py",
            note="Takes the quotas of single users in the project, and the counters of what it used, along. Manila "
            "does not tell whether there is a row: a quota is what differs from the defaults; the rows of a project "
            "without one stay.",
        ),
    ),
)
