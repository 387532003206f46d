"""Magnum: clusters, cluster templates, and the project's quota row.

The driver of a cluster manages its stacks, servers, load balancers or Kubernetes objects, and deletes them with the
cluster. So all other types wait for clusters. Resources that Kubernetes created in the cloud (volumes of claims, load
balancers and floating IPs that no longer match) stay, and are swept afterwards.

A cluster whose delete has failed recreates nothing. Like a failed stack it is a separate type, which no type waits for.
The resource that blocks it (a load balancer of Kubernetes on its network) may be swept meanwhile.

No separate types: node groups and certificates are deleted with their cluster. Of the four certificates of a cluster,
Magnum does not delete two, for etcd and the front proxy. If they are in Barbican, they are containers of the project
and are swept there. If they are in Magnum's own table (``x509keypair``), no call removes the rows. Federations cannot
exist: Magnum's conductor implements none of their calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    REFUSED,
    Collection,
    Composition,
    Fallback,
    LastChange,
    OneByOne,
    Paging,
    Parts,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Service,
    Token,
    Use,
    Verdict,
    blocker,
    exceptions,
    in_catalog,
    is_past,
    refused_in_use,
    state_remedies,
    verdict_naming,
)
from cleanup_orchestrator.plugins.orchestration.contents import contents_of
from cleanup_orchestrator.plugins.orchestration.listing import resources_of, show_stack
from cleanup_orchestrator.plugins.orchestration.stacks import abandon_before

if TYPE_CHECKING:
    from openstack.connection import Connection

TYPE = "container-infrastructure-management"

OPTIONS = (
    cfg.BoolOpt(
        "delete_public_templates",
        default=False,
        help="Delete the project's public cluster templates, too. Every project of the cloud may be using them.",
    ),
)

DELETING, DELETE_FAILED = "DELETE_IN_PROGRESS", "DELETE_FAILED"

#: Magnum shows an admin the clusters of all projects, whatever the token, and has no filter.
_ALL = "Magnum has no owner filter: an admin is shown those of the whole cloud"

_PAGES: Mapping[str, Any] = {"query": {"limit": 200}, "paging": Paging.LINKS}
_CLUSTERS = Collection(TYPE, "/clusters", list_path="/clusters/detail", **_PAGES)
_TEMPLATES = Collection(TYPE, "/clustertemplates", **_PAGES)
_QUOTAS = Collection(TYPE, "/quotas", all_query={"all_tenants": "true"}, **_PAGES)


def _failed_clusters(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the clusters, of all projects, whose delete failed or is in progress."""
    for row in _CLUSTERS.all.rows(connection, project):
        if row.get("status") in (DELETING, DELETE_FAILED):
            yield row


def _all_clusters(failed: bool) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of all clusters whose delete has failed, or of all others."""

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for row in _CLUSTERS.all.rows(connection, project):
            if (row.get("status") == DELETE_FAILED) is failed:
                yield row

    return listing


#: Seconds after which the delete of a cluster counts as lost, and is requested again: twice Heat's time limit of the
#: delete of a stack.
_LOST_AFTER = 2 * 3600


def _being_deleted(cluster: Resource, project: ProjectDefinition) -> str | None:
    return "Magnum is deleting it" if _is_under_way(cluster.data) else None


def _is_under_way(row: Row) -> bool:
    """Return whether Magnum deletes a cluster, and the cluster has changed within two hours."""
    return row.get("status") == DELETING and not is_past(row.get("updated_at"), _LOST_AFTER)


def _delete_failed(cluster: Resource, project: ProjectDefinition) -> str | None:
    """Say that Magnum failed to delete a cluster, and why."""
    if cluster.data.get("status") != DELETE_FAILED:
        return None
    return f"Magnum failed to delete it: {cluster.data.get('status_reason') or 'it gives no reason'}"


def _delete_cluster(connection: Connection, project: ProjectDefinition, cluster: Resource) -> None:
    """Request the delete unless it is in progress.

    Magnum passes the request to its conductor and always answers 204, also without a driver for the cluster.

    :raises Refused: when the previous delete failed, with Magnum's reason; when the status has not changed yet; or, if
        the project is gone, while Heat knows its stack
    """
    status = cluster.data.get("status")
    if _is_under_way(cluster.data):
        return
    if project.gone and (stack_id := cluster.data.get("stack_id")):
        # Otherwise Heat would delete the stack with an admin's token, by a template that the project's users wrote.
        abandon_before(connection, project, str(stack_id))
    _CLUSTERS.delete.call(connection, project, cluster)
    if status == DELETE_FAILED:
        why = cluster.data.get("status_reason") or "Magnum gives no reason"
        reason = Reason.PROJECT_GONE if project.gone else Reason.ERROR  # drivers may have needed a token of the project
        raise Refused(Verdict(reason, f"its delete failed, and was asked for again: {why}"))
    now = _CLUSTERS.show.row(connection, project, cluster).get("status")
    if now == status and status != DELETING:
        raise Refused(
            Verdict(
                Reason.DELETING,
                f"the delete was accepted, and its status is still {now}; if that does not change, magnum-conductor "
                "has no driver for it: its log says so",
            )
        )


def _keep_failed(cluster: Resource, project: ProjectDefinition) -> str | None:
    if cluster.data.get("status") == DELETE_FAILED:
        return "its delete failed: it counts as a failed_cluster, which nothing else waits for"
    return None


def _describe(cluster: Resource, project: ProjectDefinition) -> str:
    status, reason = cluster.data.get("status"), cluster.data.get("status_reason")
    return f"{status}: {reason}" if reason else str(status)


def _protect_public(template: Resource, project: ProjectDefinition) -> str | None:
    if template.data.get("public") is False or project.options.get("delete_public_templates"):
        return None
    return "the template is public: other projects may be using it"


def _explain_template(connection: Connection, project: ProjectDefinition, template: Resource) -> Verdict | None:
    """Name the clusters, of any project, that were created from a template."""
    users = [row for row in _CLUSTERS.all.rows(connection, project) if row.get("cluster_template_id") == template.id]
    blockers = [blocker(f"{TYPE}.cluster", row["uuid"], row.get("project_id"), row.get("name")) for row in users]
    return verdict_naming(project, "it is used by", blockers)


def _changes(_connection: Connection, _project: ProjectDefinition, cluster: Resource) -> Iterator[Row]:
    """Yield when a cluster was changed last: each new node and node group changes its status."""
    yield {"updated_at": cluster.data.get("updated_at") or cluster.data.get("created_at")}


def _stack_of(connection: Connection, project: ProjectDefinition, cluster: Resource) -> Resource | None:
    """Return the stack of a cluster; ``None``: it has none, or the list of the project's stacks does not have it."""
    stack_id = cluster.data.get("stack_id")
    if not stack_id or not in_catalog(connection, "orchestration"):
        return None
    try:
        row = show_stack(connection, project, Resource(str(stack_id), "", project.id))
    except exceptions.NotFoundException:
        return None
    return Resource(str(stack_id), str(row["stack_name"]), project.id, row)


def _of_stack(connection: Connection, project: ProjectDefinition, cluster: Resource) -> Iterator[Row]:
    """Yield the resources of a cluster's stack, which its users may change without Magnum."""
    if stack := _stack_of(connection, project, cluster):
        yield from resources_of(connection, project, stack)


def _contents_of(connection: Connection, project: ProjectDefinition, cluster: Resource) -> Iterator[tuple[str, str]]:
    """Yield what is deleted with a cluster's stack, and something unknown for a cluster without one.

    What a driver makes without a stack is not known here.
    """
    stack = _stack_of(connection, project, cluster)
    if stack is None:
        yield "", cluster.id
    else:
        yield "orchestration.stack", stack.id
        yield from contents_of(connection, project, stack)


_REMEDIES = state_remedies(
    "openstack coe cluster show {id} names its stack and the reason; openstack coe service list shows whether "
    "magnum-conductor is up, and its log names a driver that is missing",
    "openstack coe cluster delete {id}, after what the reason names is mended or deleted",
)
_STACK = (
    "the cluster's labels, and the template of its stack, which its users may change: drivers delete with the token "
    "that asks for the delete"
)
_SOURCE = "GET /v1/clusters/detail, DELETE /v1/clusters/UUID; magnum api/controllers/v1/cluster.py, "


def _cluster_type(name: str, **declared: Any) -> ResourceType:
    """Return a type of clusters.

    The types differ in which clusters they list, and in what they wait for.
    """
    return ResourceType(
        name=name,
        show=_CLUSTERS.show,
        deleting=_being_deleted,
        failed=_delete_failed,
        changed="updated_at",
        remedies=_REMEDIES,
        by_hand="as an admin: openstack coe cluster delete {id}; if its driver is gone, openstack stack delete STACK, "
        "and its row in Magnum's table cluster is deleted by an operator",
        delete=_delete_cluster,
        user_content=_STACK,
        id="uuid",
        properties="labels",
        created="created_at",
        updated=LastChange("updated_at", null_until_changed=True),
        parts=(
            Parts("node", _changes, created="updated_at", updated=LastChange("updated_at")),
            Parts("resource of its stack", _of_stack, created="creation_time", updated=LastChange("updated_time")),
        ),
        used_by=(),
        composition=Composition(contains=_contents_of),
        token=Token.PROJECT,
        fallback=Fallback(Token.ADMIN),
        describe=_describe,
        **declared,
    )


SERVICE = Service(
    service_type=TYPE,
    contract_version=2,
    options=OPTIONS,
    # Magnum refuses the quotas of all projects to other callers. The lists show other callers their own project.
    proof=Rest(TYPE, "/quotas", query={"all_tenants": "true", "limit": 1}),
    roles="admin on the project to be deleted (drivers delete with the caller's token); admin for the others",
    types=(
        _cluster_type(
            "cluster",
            if_abandoned="Its servers, volumes and addresses still use hosts, storage and addresses.",
            list=_CLUSTERS.all,
            all_projects=_all_clusters(failed=False),
            keep=(_keep_failed,),
            unfiltered=_ALL,
            source=_SOURCE + "conductor/handlers/cluster_conductor.py",
            note="Deleted before all other types, because a driver fails if its stack or servers are deleted "
            "meanwhile. The token is one of the project because drivers delete with it: stacks, "
            "certificates in Barbican, load balancers. The delete is asynchronous, and accepted (204) even "
            "where it has no effect. If the project is gone, the cluster is deleted with an admin's token, "
            "after Heat has abandoned its stack. What its driver cannot do with that token is left.",
        ),
        _cluster_type(
            "failed_cluster",
            variant_of="cluster",
            list=_failed_clusters,
            all_projects=_all_clusters(failed=True),
            after=("cluster",),
            source=_SOURCE + "service/periodic.py",
            note="A cluster in DELETE_FAILED, and in DELETE_IN_PROGRESS once the delete is requested again. Its "
            "stack may be deleted separately meanwhile. A driver treats what is gone as deleted.",
        ),
        ResourceType(
            name="cluster_template",
            list=_TEMPLATES.all,
            all_projects=_TEMPLATES.all,
            show=_TEMPLATES.show,
            delete=_TEMPLATES.delete,
            id="uuid",
            properties="labels",
            protect=(_protect_public,),
            explain=_explain_template,
            used_by=(Use((f"{TYPE}.cluster",), REFUSED, foresee=OneByOne(_explain_template)),),
            after=("failed_cluster",),
            needed_by=(("failed_cluster", refused_in_use),),
            unfiltered=_ALL,
            created="created_at",
            updated=LastChange("updated_at", null_until_changed=True),
            parts=(),
            source="GET, DELETE /v1/clustertemplates; magnum api/controllers/v1/cluster_template.py, "
            "db/sqlalchemy/api.py",
            note="Magnum answers 400 while a cluster uses the template. Clusters of any project can use a public "
            "template. Hidden templates are listed, too.",
        ),
        ResourceType(
            name="quota",
            used_by=(),
            list=_QUOTAS.all,
            all_projects=_QUOTAS.all,
            delete=_QUOTAS.call("/{project_id}/{row[resource]}", method="DELETE"),
            title="resource",
            why_no_show="it is addressed by the project's id",
            unfiltered="Magnum lists the projects that have a quota row; one by id answers the default instead",
            project_setting=True,
            source="GET /v1/quotas?all_tenants=true, DELETE /v1/quotas/X/Cluster; magnum api/controllers/v1/quota.py",
            note="404 means that there is no row, which counts as gone.",
        ),
    ),
)
