"""Trove: clusters and instances."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    GIB,
    REFUSED,
    Composition,
    LastChange,
    Needs,
    ProjectDefinition,
    Reason,
    Resource,
    ResourceType,
    Rest,
    Row,
    Use,
    Verdict,
    blocker,
    exceptions,
    verdict_naming,
)
from cleanup_orchestrator.plugins.database.backups import of_backup
from cleanup_orchestrator.plugins.database.common import (
    TYPE,
    all_instances,
    describe_status,
    instances,
    is_quiet,
    is_refusal_of_a_state,
    one_page,
    own_instances,
    refuse_guests,
    reset_instance,
    trove_remedies,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

_TO_GUEST = (
    "the guest agent in the server of each instance, to which Trove sends the token of the request. Users of the "
    "database may be able to read it there"
)

_clusters = one_page("/mgmt/clusters", "clusters", deleted="false")


def _show_cluster(connection: Connection, project: ProjectDefinition, cluster: Resource) -> Row:
    """Return the row of a cluster from the list. The call that shows one also shows deleted ones."""
    for row in _clusters(connection, project):
        if row.get("id") == cluster.id:
            return row
    raise exceptions.failure(404, f"{cluster.id} is no longer in the list")


def _task(cluster: Row) -> str:
    task = cluster.get("task")
    return str(task.get("name") or "") if isinstance(task, dict) else ""


def _describe_cluster(cluster: Resource, project: ProjectDefinition) -> str | None:
    return f"{len(cluster.data.get('instances') or ())} instances, task {_task(cluster.data)}"


def _cluster_being_deleted(cluster: Resource, project: ProjectDefinition) -> str | None:
    """Say that Trove deletes a cluster, unless it has not changed for ``reset_after``."""
    deleting = _task(cluster.data) == "DELETING" and not is_quiet(cluster.data, project)
    return "Trove is deleting it" if deleting else None


def _members(connection: Connection, project: ProjectDefinition, cluster: Resource) -> list[Row]:
    return [row for row in own_instances(connection, project) if row.get("cluster_id") == cluster.id]


def _delete_cluster(connection: Connection, project: ProjectDefinition, cluster: Resource) -> None:
    """Delete a cluster with its instances.

    :raises Refused: the project is gone, and Nova knows the server of an instance
    """
    if project.gone:
        refuse_guests(connection, project, _members(connection, project, cluster))
    Rest(TYPE, "/clusters/{id}", method="DELETE").call(connection, project, cluster)


def _unblock_cluster(
    connection: Connection, deleting: Connection, project: ProjectDefinition, cluster: Resource, error: Exception
) -> bool:
    """End the task of a cluster if Trove builds none of its instances, or has done so for ``reset_after``."""
    if not is_refusal_of_a_state(error):
        return False
    building = [row for row in _members(connection, project, cluster) if row.get("status") == "BUILD"]
    if not all(is_quiet(row, project) for row in building):
        return False
    for row in building:
        reset_instance(connection, project, str(row["id"]))
    body: dict[str, Any] = {"reset-task": {}}
    Rest(TYPE, "/mgmt/clusters/{id}/action", method="POST", body=body).call(connection, project, cluster)
    return True


def _explain_cluster(connection: Connection, project: ProjectDefinition, cluster: Resource) -> Verdict | None:
    """Say what Trove does with a cluster."""
    task = _task(_show_cluster(connection, project, cluster))
    if task in ("NONE", "DELETING"):
        return None
    return Verdict(Reason.IN_USE, f"its task is {task}: Trove refuses to delete it while it builds its instances")


def _being_deleted(instance: Resource, project: ProjectDefinition) -> str | None:
    """Say that Trove deletes an instance, unless it has not changed for ``reset_after``.

    The status does not show it: it is SHUTDOWN for an instance without a server, too.
    """
    text = str(instance.data.get("task_description") or "")
    deleting = text == "Deleting the instance." and not is_quiet(instance.data, project)
    return "Trove is deleting it" if deleting else None


def _delete_failed(instance: Resource, project: ProjectDefinition) -> str | None:
    """Say that an instance is in state ERROR: a failed delete leaves it so."""
    if instance.data.get("status") not in ("ERROR", "FAILED"):
        return None
    fault = instance.data.get("fault")
    why = fault.get("message") if isinstance(fault, dict) else instance.data.get("task_description")
    return f"its status is {instance.data.get('status')}: {why or 'Trove gives no reason'}"


def _source(instance: Resource) -> Iterable[str]:
    """Return the instance that one replicates."""
    source = instance.data.get("replica_of")
    return (str(source["id"]),) if isinstance(source, dict) else ()


def _delete_instance(connection: Connection, project: ProjectDefinition, instance: Resource) -> None:
    """Delete an instance.

    :raises NotFoundException: the project is gone, and has no such instance
    :raises Refused: the project is gone, and Nova knows the instance's server
    """
    if project.gone:
        rows = [row for row in own_instances(connection, project) if row.get("id") == instance.id]
        if not rows:
            raise exceptions.failure(404, f"{instance.id} is no longer in the list")
        refuse_guests(connection, project, rows)
    Rest(TYPE, "/instances/{id}", method="DELETE").call(connection, project, instance)


def _unblock_instance(
    connection: Connection, deleting: Connection, project: ProjectDefinition, instance: Resource, error: Exception
) -> bool:
    """End the task of an instance that Trove has built for longer than ``reset_after``."""
    if not is_refusal_of_a_state(error) or not is_quiet(instance.data, project):
        return False
    reset_instance(connection, project, instance.id)
    return True


def _explain_instance(connection: Connection, project: ProjectDefinition, instance: Resource) -> Verdict | None:
    """Name replicas, the cluster, or a missing flavor; or say that Trove builds the instance."""
    rows = {row.get("id"): row for row in own_instances(connection, project)}
    row = rows.get(instance.id)
    if row is None:
        return None
    blockers = [
        blocker("database.instance", each["id"], project.id if each["id"] in rows else "")
        for each in row.get("replicas") or ()
    ]
    if verdict := verdict_naming(project, "it is replicated by", blockers):
        return verdict
    if cluster := row.get("cluster_id"):
        text = "it is part of a cluster: Trove deletes it only with the cluster"
        return Verdict(Reason.IN_USE, text, (blocker("database.cluster", cluster, project.id),))
    if row.get("status") == "BUILD":
        text = "Trove is building it, and refuses to delete it until it runs or Trove's option usage_timeout is over"
        if is_quiet(row, project) and not row.get("server_id"):
            text = (
                "Trove has built it for too long. As it has no server, no call resets it: an operator must set "
                "task_id = 1 in its row of Trove's table instances"
            )
        return Verdict(Reason.IN_USE, text)
    flavor = row.get("flavor")
    flavor_id = str(flavor.get("id") or "") if isinstance(flavor, dict) else ""
    try:
        Rest("compute", "/flavors/{id}").call(connection, project, Resource(flavor_id, "", None))
    except exceptions.NotFoundException:
        text = (
            f"Nova no longer knows its flavor {flavor_id}, and without it Trove deletes no instance (500): an "
            "operator must create a flavor with this id"
        )
        return Verdict(Reason.ERROR, text)
    return None


def _of_cluster(connection: Connection, project: ProjectDefinition, left: Collection[str]) -> Needs:
    """Name the instances of clusters that are left."""
    return lambda instance: next((id_ for id_ in left if instance.data.get("cluster_id") == id_), None)


CLUSTER = ResourceType(
    name="cluster",
    if_abandoned="Its servers, volumes and addresses still use hosts, storage and addresses.",
    used_by=(),
    list=_clusters,
    all_projects=_clusters,
    owner="tenant_id",
    show=_show_cluster,
    delete=_delete_cluster,
    deleting=_cluster_being_deleted,
    changed="updated",
    remedies=trove_remedies('POST /mgmt/clusters/{id}/action {{"reset-task": {{}}}}'),
    unblock=_unblock_cluster,
    explain=_explain_cluster,
    describe=_describe_cluster,
    after=("backup",),
    needed_by=(("backup", of_backup),),
    user_content=_TO_GUEST,
    by_hand="as an admin: POST /mgmt/clusters/{id}/action with reset-task, then DELETE /clusters/{id}",
    unfiltered="Trove lists the clusters of all projects to an admin, on one page and without a filter",
    created="created",
    updated=LastChange("updated"),
    parts=(),
    source="GET /v1.0/{project}/mgmt/clusters?deleted=false, DELETE /v1.0/{project}/clusters/ID; trove "
    "extensions/mgmt/clusters/, cluster/models.py (delete), taskmanager/models.py (delete_cluster)",
    note="Its instances are deleted with it. Trove refuses (422) the delete unless the task is NONE or DELETING. "
    "After a failed build the task stays BUILDING for up to ten hours (cluster_usage_timeout): if none of its "
    "instances is being built, the task is reset. The owner is compared in the list, right before the delete.",
)

INSTANCE = ResourceType(
    name="instance",
    if_abandoned="Its server and its volume still use a host and storage.",
    used_by=(Use((f"{TYPE}.instance",), REFUSED),),
    list=instances,
    all_projects=all_instances,
    owner="tenant_id",
    why_no_show="Trove compares the owner with the project of the janitor's token in the delete call",
    delete=_delete_instance,
    refers_to=_source,
    deleting=_being_deleted,
    failed=_delete_failed,
    changed="updated",
    remedies=trove_remedies("openstack database instance reset status {id}"),
    unblock=_unblock_instance,
    explain=_explain_instance,
    describe=describe_status,
    composition=Composition(part_of=(("cluster", "cluster_id"),)),
    after=("backup", "cluster"),
    needed_by=(("backup", of_backup), ("cluster", _of_cluster)),
    user_content=_TO_GUEST,
    created="created",
    updated=LastChange("updated"),
    parts=(),
    size=("volume.size", GIB),
    source="GET /v1.0/{project}/mgmt/instances?project_id=X&deleted=false&include_clustered=true, DELETE "
    "/v1.0/{project}/instances/ID; trove extensions/mgmt/instances/, instance/models.py (delete, delete_async), "
    "guestagent/api.py",
    note="Replicas are deleted before their source. Trove deletes the server, volume, port and security group of an "
    "instance, and does not report it if one of them stays. If the catalog lacks the type in Trove's option "
    "cinder_service_type, the delete never ends. Trove does not list an instance without a row in the table "
    "service_statuses.",
)
