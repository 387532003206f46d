"""Nova: quotas and flavor access, and the keypairs and aggregates that are kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from cleanup_orchestrator.plugins.base import (
    NIL_UUID,
    BadAnswer,
    Paging,
    ProjectDefinition,
    Resource,
    ResourceType,
    Rest,
    Row,
    quota_limits,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

_KEYPAIR_PAGES = "2.35"  #: the first that pages keypairs, and (from 2.10) lists those of another user
_QUOTAS = "2.57"  #: leaves out the quotas of nova-network and of injected files


def list_keypairs(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the keypairs of the project's members. They are counted only."""
    for user in project.member_ids:
        listing = Rest(
            "compute",
            "/os-keypairs",
            key="keypairs",
            query={"user_id": user},
            microversion=_KEYPAIR_PAGES,
            paging=Paging.LINKS,
        )
        for row in listing.rows(connection, project):
            name = row["keypair"]["name"]
            yield {"id": f"{user}/{name}", "name": name, "project_id": project.id}


def _keep_keypair(keypair: Resource, project: ProjectDefinition) -> str | None:
    return "it belongs to its user, who may be using it in other projects"


def list_aggregates(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the host aggregates that are reserved for the project."""
    for row in Rest("compute", "/os-aggregates", key="aggregates").rows(connection, project):
        for key, value in (row.get("metadata") or {}).items():
            if key.startswith("filter_tenant_id") and project.id in str(value).replace(" ", "").split(","):
                yield {"id": str(row["id"]), "name": row.get("name"), "project_id": project.id}


def _keep_aggregate(aggregate: Resource, project: ProjectDefinition) -> str | None:
    return "it belongs to the operator, and merely names the project"


def list_flavor_access(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's entries in the access lists of private flavors."""
    flavors = Rest("compute", "/flavors", key="flavors", query={"is_public": "false"}, paging=Paging.LINKS)
    for flavor in flavors.rows(connection, project):
        path = f"/flavors/{quote(flavor['id'], safe='')}/os-flavor-access"
        for row in Rest("compute", path, key="flavor_access").rows(connection, project):
            if row.get("tenant_id") == project.id:
                yield {**row, "name": flavor.get("name")}


def _flavor_access_wanted(connection: Connection, project: ProjectDefinition) -> bool:
    """Whether the option sweep_flavor_access is set."""
    return bool(project.options.get("sweep_flavor_access", True))


def _limits(connection: Connection, project: ProjectDefinition) -> Row:
    call = Rest("compute", "/limits", query={"tenant_id": "{project_id}"}, microversion=_QUOTAS)
    try:
        absolute = call.call(connection, project)["limits"]["absolute"]
    except (KeyError, TypeError) as error:
        raise BadAnswer(f"{call!r} answered without absolute limits") from error
    return {name: value for name, value in absolute.items() if name.startswith("max")}


def list_quotas(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the quota set if the project's or a member's is not the default.

    If Keystone does not know the project, Nova shows its limits instead of quotas. The limits of a project that never
    existed are the defaults. Quotas of single users are not shown then.
    """
    if project.gone:
        if _limits(connection, project) != _limits(connection, dataclasses.replace(project, id=NIL_UUID)):
            yield {"id": project.id, "name": "quota set", "project_id": project.id}
        return

    def quotas(path: str = "", **query: str) -> Row:
        path = f"/os-quota-sets/{project.id}{path}"
        call = Rest("compute", path, key="quota_set", query=query, microversion=_QUOTAS)
        return quota_limits(call, connection, project, "cores")

    own = quotas()
    if own != quotas("/defaults") or any(quotas(user_id=user) != own for user in project.member_ids):
        yield {"id": project.id, "name": "quota set", "project_id": project.id}


KEYPAIR = ResourceType(
    name="keypair",
    used_by=(),
    list=list_keypairs,
    all_projects="keypairs belong to users",
    delete=None,
    keep=(_keep_keypair,),
    unfiltered="keypairs belong to users; those of the project's members are counted",
    source="GET /os-keypairs?user_id=U; nova api/openstack/compute/keypairs.py",
    note="Never deleted: they belong to users, who keep them for their other projects.",
)

AGGREGATE = ResourceType(
    name="aggregate",
    used_by=(),
    list=list_aggregates,
    all_projects="aggregates belong to the operator, and merely name projects",
    delete=None,
    keep=(_keep_aggregate,),
    project_setting=True,
    unfiltered="aggregates have no owner: their metadata is searched for the project's id",
    source="GET /os-aggregates; nova scheduler/request_filter.py, filter_tenant_id",
    note="Hosts that an operator reserved for the project (filter_tenant_id). They are counted, and not changed: the "
    "operator decides who uses the hosts next.",
)

FLAVOR_ACCESS = ResourceType(
    name="flavor_access",
    used_by=(),
    list=list_flavor_access,
    all_projects="an entry in a flavor's access list gives no access once its project is gone",
    delete=Rest(
        "compute",
        "/flavors/{id}/action",
        method="POST",
        body={"removeTenantAccess": {"tenant": "{project_id}"}},
    ),
    id="flavor_id",
    owner="tenant_id",
    why_no_show="the call names the project, and removes no entry of another project",
    project_setting=True,
    available=_flavor_access_wanted,
    unfiltered="there is no list of a project's flavors: the access list of every private flavor is asked for",
    source="GET /flavors?is_public=false, GET /flavors/{id}/os-flavor-access, POST /flavors/{id}/action "
    "removeTenantAccess; nova api/openstack/compute/flavor_access.py",
    note="The flavor itself has no owner and stays. The list makes one call for each private flavor: see "
    "sweep_flavor_access.",
)

QUOTA_SET = ResourceType(
    name="quota_set",
    used_by=(),
    list=list_quotas,
    all_projects="Nova shows the quotas of one project at a time",
    delete=Rest("compute", "/os-quota-sets/{id}", method="DELETE"),
    why_no_show="it is addressed by the project's id",
    project_setting=True,
    source="GET /os-quota-sets/X, /os-quota-sets/X/defaults and ?user_id=U, DELETE /os-quota-sets/X; of a "
    "project that is gone GET /limits?tenant_id=X; nova api/openstack/compute/quota_sets.py, "
    "api/openstack/identity.py (verify_project_id), api/openstack/compute/limits.py",
    note="The quotas of single users in the project are deleted with it. Nova shows the default for a project "
    "without a row, so a row that equals the default is not seen, and stays. With unified limits Keystone has "
    "the limits, and removes them with the project. Nova's delete then has no effect.",
)
