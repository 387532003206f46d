"""Octavia: load balancers, all that hangs on them, and the project's quota.

One delete removes a load balancer with everything below it. No separate types: members are deleted with their pool, and
L7 rules with their policy; Octavia has no list of either over all parents. Flavors, availability zones and profiles
belong to the operator. Amphorae, with their servers, ports and security groups, belong to Octavia's own project and are
deleted with the load balancer. The row of a deleted load balancer stays for a while with the status DELETED, in no
list, until Octavia's housekeeping purges it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    VIP_PORTS,
    BadAnswer,
    Collection,
    Composition,
    LastChange,
    Paging,
    Parts,
    ProjectDefinition,
    Reason,
    Resource,
    ResourceType,
    Rest,
    Row,
    Service,
    Verdict,
    failed_in,
    in_catalog,
    state_remedies,
    to_row,
)
from cleanup_orchestrator.plugins.neutron import rows_with
from cleanup_orchestrator.plugins.port_uses import uses_of_ports

if TYPE_CHECKING:
    from openstack.connection import Connection

_UPDATED = LastChange("updated_at", null_until_changed=True)

#: Octavia's ``pagination_max_limit``, to which it reduces a larger limit.
PAGE = 1000


def _collection(name: str, one: str = "") -> Collection:
    # Octavia drops the owner filter from its next links: only their marker is used, put over the original query.
    return Collection("load-balancer", f"/lbaas/{name}", one=one, query={"limit": PAGE}, paging=Paging.LINKS)


_BALANCERS = _collection("loadbalancers", "loadbalancer")
_QUOTAS = _collection("quotas", "quota")


def describe(balancer: Resource, project: ProjectDefinition) -> str | None:
    """Return the address of a load balancer, and a status that matters."""
    row = balancer.data
    parts = [f"VIP {row['vip_address']}"] if row.get("vip_address") else []
    if row.get("provisioning_status") not in ("ACTIVE", None):
        parts.append(f"it is {row['provisioning_status']}")
    return ", ".join(parts) or None


def being_deleted(balancer: Resource, project: ProjectDefinition) -> str | None:
    """Say that Octavia deletes a load balancer."""
    return "Octavia is deleting it" if balancer.data.get("provisioning_status") == "PENDING_DELETE" else None


def explain(connection: Connection, project: ProjectDefinition, balancer: Resource) -> Verdict | None:
    """Return what an immutable load balancer (409) waits for."""
    row = _BALANCERS.show.row(connection, project, balancer)
    if why := being_deleted(dataclasses.replace(balancer, data=row), project):
        return Verdict(Reason.DELETING, why)
    status = str(row.get("provisioning_status"))
    if status.startswith("PENDING_"):
        return Verdict(Reason.IN_USE, f"it is {status}: Octavia refuses every change until that is over")
    provider = str(row.get("provider"))
    enabled = {str(each.get("name")) for each in _PROVIDERS.rows(connection, project)}
    if provider not in enabled:
        text = (
            f"its provider {provider} is no longer enabled ({', '.join(sorted(enabled))} are): add it to "
            "enabled_provider_drivers in the section [api_settings] of octavia.conf until it is deleted"
        )
        return Verdict(Reason.NOT_SUPPORTED, text)
    return None


_PROVIDERS = Rest("load-balancer", "/lbaas/providers", key="providers")
_RESET = (
    "UPDATE load_balancer SET provisioning_status = 'ERROR' WHERE id = '{id}', in Octavia's database (no call does it)"
)
_REMEDIES = {
    **state_remedies("the logs of octavia-worker and of octavia-health-manager have the cause", _RESET, "an operator"),
    Reason.NOT_SUPPORTED: "an operator enables the provider again, as the message says: load balancer {id} is then "
    "deleted automatically. Without the provider's driver its row can only be deleted in Octavia's database, and what "
    "the provider made for it stays",
}


_DEFAULT_QUOTA = _QUOTAS.call("/{project_id}/default", key="quota")


def _quota(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the quota if a limit differs from the default.

    Octavia keeps the row as a counter in any case. ``GET /lbaas/quotas/X`` is not used, because it writes: it stores
    the current defaults where a limit is not set. The delete does so, too, after it has cleared all limits.
    """
    defaults: Row | None = None
    for row in _QUOTAS.own.rows(connection, project):
        if "project_id" not in row:
            raise BadAnswer("GET /lbaas/quotas answered a quota without a project")
        limits = {key: row[key] for key in row if key not in ("project_id", "tenant_id") and row[key] is not None}
        if limits and defaults is None:
            defaults = to_row(_DEFAULT_QUOTA.call(connection, project).get("quota"))
        if defaults is not None and any(limits[key] != defaults.get(key) for key in limits):
            yield row


def _of_balancer(
    connection: Connection, project: ProjectDefinition, balancer: Resource, collection: str
) -> Iterator[Row]:
    """Yield a load balancer's rows of a collection."""
    for row in _collection(collection).own.rows(connection, project):
        if balancer.id in {each["id"] for each in row["loadbalancers"]}:
            yield row


def _members(connection: Connection, project: ProjectDefinition, balancer: Resource) -> Iterator[Row]:
    """Yield the members of a load balancer's pools."""
    for pool in _of_balancer(connection, project, balancer, "pools"):
        if pool["members"]:
            yield from _collection(f"pools/{pool['id']}/members").own.rows(connection, project)


def _rules(connection: Connection, project: ProjectDefinition, balancer: Resource) -> Iterator[Row]:
    """Yield the rules of the L7 policies of a load balancer's listeners."""
    for listener in _of_balancer(connection, project, balancer, "listeners"):
        for policy in listener["l7policies"]:
            yield from _collection(f"l7policies/{policy['id']}/rules").own.rows(connection, project)


def _ports_of(
    connection: Connection, project: ProjectDefinition, balancers: Sequence[Resource]
) -> Iterator[tuple[str, Row]]:
    """Yield the ports with the addresses of load balancers, each with the id of its load balancer."""
    owners: dict[str, str] = {}
    for balancer in balancers:
        more = (str(each["port_id"]) for each in balancer.data.get("additional_vips") or () if each.get("port_id"))
        owners |= dict.fromkeys((str(balancer.data.get("vip_port_id") or ""), *more), balancer.id)
    owners.pop("", None)
    if owners and in_catalog(connection, "network"):
        for port in rows_with(connection, project, "/ports", "id", owners):
            yield owners[str(port["id"])], port


def _child(name: str, plural: str, source: str, **declared: Any) -> ResourceType:
    collection = _collection(plural)
    return ResourceType(
        name=name,
        list=collection.own,
        all_projects=collection.all,
        delete=collection.delete,
        why_no_show="never deleted by itself: it is deleted with its load balancer",
        composition=Composition(deleted_with=("load_balancer",)),
        after=("load_balancer",),
        tags="tags",
        created="created_at",
        updated=_UPDATED,
        parts=(),
        used_by=(),
        source=source,
        **declared,
    )


SERVICE = Service(
    service_type="load-balancer",
    contract_version=2,
    after=CONTROLLERS,
    # Refused to callers who may not see all projects. The list of quotas is not refused to them: it is empty.
    proof=Rest("load-balancer", "/lbaas/loadbalancers", query={"project_id": "{project_id}", "limit": "1"}),
    roles="admin; load-balancer_admin where Octavia runs with its policy files for advanced RBAC or admin_or_owner",
    types=(
        ResourceType(
            name="load_balancer",
            if_abandoned="Its virtual machines and its address stay in use.",
            list=_BALANCERS.own,
            all_projects=_BALANCERS.all,
            show=_BALANCERS.show,
            delete=_BALANCERS.call("/{id}", method="DELETE", query={"cascade": "true"}),
            deleting=being_deleted,
            failed=failed_in("Octavia", "ERROR", attribute="provisioning_status"),
            changed="updated_at",
            remedies=_REMEDIES,
            by_hand="as an admin: openstack loadbalancer delete --cascade {id}; before that, in a PENDING status: "
            f"{_RESET}",
            explain=explain,
            used_by=uses_of_ports(_ports_of, "its address is used by"),
            describe=describe,
            tags="tags",
            created="created_at",
            updated=_UPDATED,
            parts=(
                Parts("member", _members, created="created_at", updated=_UPDATED),
                Parts("L7 rule", _rules, created="created_at", updated=_UPDATED),
                VIP_PORTS,
            ),
            source="GET /v2/lbaas/loadbalancers?project_id=X, DELETE /v2/lbaas/loadbalancers/{id}?cascade=true; "
            "octavia api/v2/controllers/load_balancer.py, api/common/pagination.py, db/repositories.py",
            note="Octavia's next links lose the owner filter: the second page would have rows of all projects. The "
            "delete also removes listeners, pools, members, health monitors, L7 policies and the VIP port that "
            "Octavia created. A port that the user provided stays, and belongs to the network service. Without "
            "cascade Octavia answers 400 if there is a child. The delete is accepted only in ACTIVE or ERROR "
            "(409 otherwise). No API resets a PENDING status.",
        ),
        _child(
            "listener",
            "listeners",
            "GET /v2/lbaas/listeners?project_id=X; octavia api/v2/controllers/listener.py",
            note="Deleted with its load balancer, as all types below: a delete of its own would lock the load "
            "balancer. It is listed to prove that it is gone.",
        ),
        _child("pool", "pools", "GET /v2/lbaas/pools?project_id=X; octavia api/v2/controllers/pool.py"),
        _child(
            "health_monitor",
            "healthmonitors",
            "GET /v2/lbaas/healthmonitors?project_id=X; octavia api/v2/controllers/health_monitor.py",
        ),
        _child(
            "l7_policy",
            "l7policies",
            "GET /v2/lbaas/l7policies?project_id=X; octavia api/v2/controllers/l7policy.py",
        ),
        ResourceType(
            name="quota",
            list=_quota,
            all_projects="Octavia keeps the row as a counter, whether there is a quota or not",
            delete=_QUOTAS.call("/{project_id}", method="DELETE"),
            id="project_id",
            title="project_id",
            why_no_show="it is addressed by the project's id",
            used_by=(),
            project_setting=True,
            source="GET /v2/lbaas/quotas?project_id=X, GET /v2/lbaas/quotas/X/default, DELETE /v2/lbaas/quotas/X; "
            "octavia api/v2/controllers/quotas.py, base.py (_get_db_quotas), db/repositories.py",
            note="The row counts what the project uses, and Octavia cannot remove it: the delete resets the limits "
            "to the defaults, and a row with the defaults counts as no quota. A read of one project's quota by "
            "its id writes the defaults into its row, so the list is read instead.",
        ),
    ),
)
