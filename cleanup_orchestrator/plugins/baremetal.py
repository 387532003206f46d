"""Ironic: deployed instances and leases of nodes, allocations, runbooks, and the nodes that a project owns.

A node is hardware of the operator. It names two projects: the lessee uses it, the owner manages it. No node is ever
deleted here, and no owner of a node is changed. If a project leases a node, its instance is undeployed and the lease
is ended. If it owns a node, the node is left over, and an admin must give it to another project, or to none.

Servers of Nova are deleted by Nova, with their node's deployment. So servers go first.

Ironic shows a node, by default, to its owner and its lessee, and to system-scoped tokens. To an admin of another
project it answers with an empty list. So all calls are made with a token of the project.

By default Ironic lets neither the janitor undeploy what the project leases, nor the project end its leases: an admin
has to do it. An operator can allow both. In the policy file of Ironic, add this to the end of the default rules, which
``oslopolicy-sample-generator --namespace ironic.api`` prints::

    baremetal:node:set_provision_state  ... or (role:member and project_id:%(node.lessee)s)
    baremetal:node:update:lessee        ... or (role:admin and project_id:%(node.lessee)s)

In place of the first one, the janitor can be given the role manager in ``[janitor] roles``. Then what Heat and Magnum
do for a user at a delete is done with this role, too.

No separate types: ports, port groups, volume connectors and volume targets are parts of their node. Deploy templates,
inspection rules, chassis and conductors belong to no project.

This was tested with fake hardware, without Nova, Neutron and Cinder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    NIL_UUID,
    BadAnswer,
    Blocker,
    Collection,
    Composition,
    Fallback,
    LastChange,
    OneByOne,
    Paging,
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
    blocking_verdict,
    exceptions,
    knows_microversion,
    linked,
    state_remedies,
    verdict_naming,
)
from cleanup_orchestrator.plugins.nova import says_not_found

if TYPE_CHECKING:
    from openstack.connection import Connection

TYPE = "baremetal"

#: Filters by owner and lessee, and child nodes, which a list without ``include_children`` leaves out.
_NODES_VERSION = "1.83"
_OWNED_ALLOCATIONS = "1.60"
_RUNBOOKS_VERSION = "1.92"

#: States without an instance on the node. In any other state, also in one that is not known here, it may have one.
_WITHOUT_INSTANCE = frozenset(
    {
        "enroll", "verifying", "manageable", "available", "inspecting", "inspect wait", "inspect failed",
        "cleaning", "clean wait", "clean hold", "clean failed",
    }
)  # fmt: skip
_UNDEPLOYING = "deleting"
_CLEANING = frozenset({_UNDEPLOYING, "cleaning", "clean wait"})


def _collection(name: str, microversion: str, **queries: Any) -> Collection:
    """Return a collection."""
    return Collection(
        TYPE, f"/{name}", microversion=microversion, paging=Paging.MARKER, limit=1000, marker="uuid", **queries
    )


_NODES = _collection("nodes", _NODES_VERSION)
_ALLOCATIONS = _collection("allocations", _OWNED_ALLOCATIONS, own_query={"owner": "{project_id}"})
_RUNBOOKS = _collection(
    "runbooks", _RUNBOOKS_VERSION, query={"fields": "uuid,name,owner,public,extra,created_at,updated_at"}
)


def _nodes(**query: str) -> Rest:
    """Return the call that lists nodes. Ironic answers 500 to a list with the field ``allocation_uuid``."""
    fields = "uuid,name,owner,lessee,provision_state,instance_uuid,last_error,provision_updated_at"
    return _NODES.where(fields=fields, include_children="true", **query)


#: With the filter ``project``, Ironic answers 403 in place of an empty list to a token of another project.
_OWNED = _nodes(project="{project_id}", owner="{project_id}")
_LEASED = _nodes(project="{project_id}", lessee="{project_id}")
_ALL_NODES = _nodes()

#: Ironic refuses these to callers that do not see the nodes, or allocations, of all projects.
_SEES_ALL_NODES = _NODES.call("", query={"project": NIL_UUID, "limit": 1})
_SEES_ALL_ALLOCATIONS = _ALLOCATIONS.call("", query={"owner": NIL_UUID, "limit": 1})
#: Here the filter ``project`` is a boolean. Ironic compares it with the token's project.
_SEES_ALL_RUNBOOKS = _RUNBOOKS.call("", query={"project": "true", "limit": 1})


def _deployed(row: Row) -> bool:
    return row.get("provision_state") not in _WITHOUT_INSTANCE


def _where(
    listing: Rest, wanted: Callable[[Row], bool], what: str
) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a hook that lists some of the rows of a call.

    :param what: which rows, for the page of the service in the manual
    """

    def rows(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        yield from (row for row in listing.rows(connection, project) if wanted(row))

    rows.__doc__ = f"Yield {what}."
    return rows


# ------------------------------------------------------------------------------------------------------------ instances
def _undeploying(instance: Resource, project: ProjectDefinition) -> str | None:
    return "Ironic is undeploying it" if instance.data.get("provision_state") == _UNDEPLOYING else None


def _undeploy_failed(instance: Resource, project: ProjectDefinition) -> str | None:
    """Say that Ironic failed to undeploy a node, and why."""
    if instance.data.get("provision_state") != "error":
        return None
    return f"Ironic failed to undeploy it: {instance.data.get('last_error') or 'it gives no reason'}"


def _clean_failed(lease: Resource, project: ProjectDefinition) -> str | None:
    """Say that Ironic failed to clean a node. Its lease can be ended all the same."""
    if lease.data.get("provision_state") != "clean failed":
        return None
    return f"Ironic failed to clean the node: {lease.data.get('last_error') or 'it gives no reason'}"


_REMEDIES = state_remedies(
    "openstack baremetal node show {id} has last_error and the conductor that reserves the node, and openstack "
    "baremetal conductor list shows whether it is up",
    "start that conductor again, which ends its reservation and its task; then openstack baremetal node undeploy {id}",
)


def _allocation_of_others(connection: Connection, project: ProjectDefinition, node: Row) -> Verdict | None:
    """Return a verdict if the node's allocation is not the project's. Ironic deletes it when the node is undeployed."""
    uuid = node.get("allocation_uuid")
    if not uuid:
        return None
    try:
        owner = _ALLOCATIONS.show.row(connection, project, Resource(str(uuid), "", None)).get("owner")
    except exceptions.NotFoundException:  # Ironic hides what the project may not see
        owner = None
    allocation = blocker(f"{TYPE}.allocation", uuid, owner)
    return verdict_naming(project, "its node has", [allocation] if owner != project.id else [])


def _server_on(connection: Connection, project: ProjectDefinition, node: Row) -> Verdict | None:
    """Return a verdict if the instance is a server of Nova, of any project.

    :raises openstack.exceptions.ForbiddenException: Nova does not show the servers of all projects to the caller
    """
    uuid = node.get("instance_uuid")
    servers = Rest("compute", "/servers", query={"all_tenants": "1", "limit": 1})
    catalog = connection.session.auth.get_access(connection.session).service_catalog
    if not uuid or not any(catalog.get_endpoints(service_type="compute", region_name=project.region).values()):
        return None
    servers.call(connection, project)
    server = Rest("compute", "/servers/{id}", key="server")
    try:
        owner = server.row(connection, project, Resource(str(uuid), "", None)).get("tenant_id")
    except exceptions.NotFoundException as error:
        says_not_found(error.response)
        return None
    return verdict_naming(project, "Nova undeploys it with", [blocker("compute.server", uuid, owner)])


def _deployed_by_owner(_connection: Connection, project: ProjectDefinition, node: Row) -> Verdict | None:
    """Return a verdict if the owner of the node may have deployed the instance: nothing says that the project did."""
    owner = node.get("owner")
    if node.get("allocation_uuid") or owner in (None, "", project.id):
        return None

    def say(foreign: bool, named: Sequence[Blocker]) -> str:
        return (
            "the node belongs to another project, and the instance has no allocation of this one: whose instance it "
            "is, is not known. The owner of the node, or an admin, must undeploy it or end the lease"
        )

    return blocking_verdict(project, [blocker(f"{TYPE}.node", node["uuid"], owner)], say)


def _on_node(check: Callable[[Connection, ProjectDefinition, Row], Verdict | None]) -> OneByOne:
    """Return what finds the uses of an instance by a check of its node."""

    def find(connection: Connection, project: ProjectDefinition, instance: Resource) -> Verdict | None:
        node = _NODES.show.row(connection, project, instance)
        if node.get("uuid") != instance.id:  # it would say nothing of an allocation, a server or an owner
            raise BadAnswer(f"Ironic did not show node {instance.id} when it was asked for it")
        return check(connection, project, node)

    return OneByOne(find)


def _undeploy(connection: Connection, project: ProjectDefinition, instance: Resource) -> None:
    """Undeploy a node, with the janitor's token.

    :raises Refused: the policy of Ironic forbids it to the janitor, or the project is gone, so that there is no janitor
    """
    by_hand = f"An admin must undeploy it: openstack baremetal node undeploy {instance.id}"
    if project.gone:
        raise Refused(Verdict(Reason.PROJECT_GONE, f"there is no janitor for a project that is gone. {by_hand}"))
    call = _NODES.call("/{id}/states/provision", method="PUT", body={"target": "deleted"})
    try:
        call.call(connection, project, instance)
    except exceptions.ForbiddenException as error:
        raise Refused(
            Verdict(
                Reason.FORBIDDEN,
                "Ironic's policy baremetal:node:set_provision_state does not let the janitor undeploy what the "
                f"project leases ({error}); allow it or give the janitor the role manager ([janitor] roles). {by_hand}",
            )
        ) from error


# --------------------------------------------------------------------------------------------------------------- leases
def _cleaning(lease: Resource, project: ProjectDefinition) -> str | None:
    state = lease.data.get("provision_state")
    return f"the node is {state}: the lease is ended afterwards" if state in _CLEANING else None


def _end_lease(connection: Connection, project: ProjectDefinition, lease: Resource) -> None:
    """Remove the lessee of a node.

    :raises Refused: an instance is deployed on the node, which would keep running without a lessee; or the policy
        forbids it
    """
    node = _NODES.show.row(connection, project, lease)
    if _deployed(node):
        raise Refused(
            Verdict(
                Reason.IN_USE,
                f"an instance is deployed on the node ({node.get('provision_state')})",
                (blocker(f"{TYPE}.instance", lease.id, project.id, lease.name),),
            )
        )
    call = _NODES.call("/{id}", method="PATCH", body=[{"op": "remove", "path": "/lessee"}])
    try:
        call.call(connection, project, lease)
    except exceptions.ForbiddenException as error:
        raise Refused(
            Verdict(
                Reason.FORBIDDEN,
                f"Ironic's policy baremetal:node:update:lessee does not let the project end its lease ({error}). Allow "
                "it to admins of the lessee, or let an admin end the lease: openstack baremetal node unset "
                f"{lease.id} --lessee",
            )
        ) from error


# ---------------------------------------------------------------------------------------------------------- allocations
def _refuse_deployed(connection: Connection, project: ProjectDefinition, allocation: Resource) -> None:
    """Refuse to delete an allocation while an instance is deployed on its node.

    Ironic refuses that, too, but not of a node in maintenance. The instance would then keep running without its
    allocation.
    """
    row = _ALLOCATIONS.show.row(connection, project, allocation)
    uuid = row.get("node_uuid")
    if not uuid:
        return
    try:
        node = _NODES.show.row(connection, project, Resource(str(uuid), "", None))
    except exceptions.NotFoundException:
        raise Refused(
            Verdict(
                Reason.PROTECTED,
                f"Ironic does not show its node {uuid} to the project: whether an instance is deployed there is not "
                f"known. An admin must look at the node, and delete the allocation: openstack baremetal allocation "
                f"delete {allocation.id}",
            )
        ) from None
    if _deployed(node):
        raise Refused(
            Verdict(
                Reason.IN_USE,
                f"an instance is deployed on its node {uuid} ({node.get('provision_state')})",
                (blocker(f"{TYPE}.instance", uuid, project.id),),
            )
        )


# -------------------------------------------------------------------------------------------------- nodes and runbooks
def _protect_hardware(node: Resource, project: ProjectDefinition) -> str | None:
    """Protect each node: it is hardware."""
    return (
        "a node is hardware, and never deleted or given away. An admin must give it to another project (openstack "
        f"baremetal node set {node.id} --owner PROJECT), or to none (openstack baremetal node unset {node.id} --owner)"
    )


def _protect_public(runbook: Resource, project: ProjectDefinition) -> str | None:
    if runbook.data.get("public") is False:
        return None
    return (
        "the runbook is public: other projects may be using it. An admin must delete it, or give it to another project"
    )


def _has_runbooks(connection: Connection, project: ProjectDefinition) -> bool:
    return knows_microversion(connection.baremetal, _RUNBOOKS_VERSION)


def _type(name: str, **declared: Any) -> ResourceType:
    """Return a type that is listed with a token of the project, and once that is gone, with one that sees all."""
    return ResourceType(name=name, id="uuid", token=Token.PROJECT, fallback=Fallback(Token.ADMIN), **declared)


SERVICE = Service(
    service_type=TYPE,
    contract_version=2,
    after=(*CONTROLLERS, "compute.server"),
    roles="admin on the project to be deleted. To end leases, the policy baremetal:node:update:lessee must allow it to "
    "admins of the lessee, and to undeploy instances, baremetal:node:set_provision_state must allow it to the janitor; "
    "by default Ironic allows neither, and an admin has to act. Once the project is gone, and for orphan scans: the "
    "role service on the project service, with [DEFAULT] rbac_service_role_elevated_access = true in ironic.conf",
    types=(
        _type(
            "instance",
            if_abandoned="The node stays deployed. Other projects cannot use it. It still uses power.",
            list=_where(_LEASED, _deployed, "the nodes that the project leases, and that have an instance"),
            all_projects=_where(
                _ALL_NODES,
                lambda row: bool(row.get("lessee")) and _deployed(row),
                "the nodes that any project leases, and that have an instance",
            ),
            proof=_SEES_ALL_NODES,
            show=_NODES.show,
            owner="lessee",
            deleting=_undeploying,
            failed=_undeploy_failed,
            changed="provision_updated_at",
            remedies=_REMEDIES,
            used_by=(
                Use((f"{TYPE}.allocation",), "undeploys the node of the allocation", _on_node(_allocation_of_others)),
                Use(("compute.server",), "undeploys the node of the server", _on_node(_server_on)),
                Use((f"{TYPE}.node",), "undeploys what its owner may have deployed", _on_node(_deployed_by_owner)),
            ),
            delete=_undeploy,
            user_content="the volumes and ports that users attached to the node: Ironic detaches them in Cinder and "
            "Neutron with the token of the request",
            by_hand="as an admin: openstack baremetal node undeploy {id}",
            source="GET /v1/nodes?lessee=X, PUT /v1/nodes/UUID/states/provision; ironic common/policy.py, "
            "conductor/manager.py (_do_node_tear_down), common/neutron.py, common/cinder.py (get_client)",
            note="A node that the project leases, in a state in which it has an instance. The node stays. Ironic lets "
            "an admin of the lessee undeploy it, also if another project has deployed it. Ironic then deletes the "
            "allocation of the node, also that of another project. So the plugin looks first at the allocation, the "
            "owner of the node, and Nova's server of this id. Undeploying cleans the disks only if Ironic is "
            "configured so.",
        ),
        _type(
            "allocation",
            if_abandoned="The node stays reserved. Other projects cannot use it.",
            used_by=(Use((f"{TYPE}.instance", "compute.server"), "is refused while the node has an instance"),),
            list=_ALLOCATIONS.own,
            all_projects=_ALLOCATIONS.all,
            proof=_SEES_ALL_ALLOCATIONS,
            show=_ALLOCATIONS.show,
            owner="owner",
            prepare=(_refuse_deployed,),
            delete=_ALLOCATIONS.delete,
            after=("instance",),
            needed_by=(("instance", linked()), ("compute.server", linked())),
            composition=Composition(part_of=(("instance", "node_uuid"),)),
            created="created_at",
            updated=LastChange("updated_at"),
            parts=(),
            properties="extra",
            source="GET, DELETE /v1/allocations; ironic api/controllers/v1/allocation.py, conductor/allocations.py "
            "(verify_node_for_deallocation)",
            note="It is deleted with its instance. Without one, its delete frees the node. An admin of another project "
            "gets 404 for the delete of what exists, and 403 for the list.",
        ),
        _type(
            "lease",
            used_by=(),
            list=_LEASED,
            all_projects=_where(_ALL_NODES, lambda row: bool(row.get("lessee")), "the nodes that any project leases"),
            proof=_SEES_ALL_NODES,
            show=_NODES.show,
            owner="lessee",
            deleting=_cleaning,
            failed=_clean_failed,
            changed="provision_updated_at",
            patience=24 * 3600,  # cleaning the disks of a node takes hours
            remedies={
                **_REMEDIES,
                Reason.FORBIDDEN: "an admin ends the lease: openstack baremetal node unset {id} --lessee. Or the "
                "operator allows it to admins of the lessee, in Ironic's policy baremetal:node:update:lessee",
            },
            delete=_end_lease,
            after=("instance", "allocation"),
            needed_by=(("instance", linked()), ("allocation", linked()), ("compute.server", linked())),
            by_hand="as an admin: openstack baremetal node unset {id} --lessee",
            source="GET /v1/nodes?lessee=X, PATCH /v1/nodes/UUID; ironic common/policy.py, api/controllers/v1/node.py "
            "(patch)",
            note="Its delete removes the lessee from the node, and nothing else. Ironic allows that also while an "
            "instance is deployed, which would then keep running unseen. So the state is read right before. The owner "
            "of a node can lease it to any project, and so hold up that project's deletion.",
        ),
        _type(
            "node",
            if_abandoned="The node stays enrolled. Other projects cannot use it. It still uses power.",
            used_by=(),
            list=_OWNED,
            all_projects=_where(_ALL_NODES, lambda row: bool(row.get("owner")), "the nodes that any project owns"),
            proof=_SEES_ALL_NODES,
            show=_NODES.show,
            owner="owner",
            delete=None,
            protect=(_protect_hardware,),
            source="GET /v1/nodes?owner=X; ironic common/policy.py, db/sqlalchemy/api.py (_add_nodes_filters)",
            note="Never deleted, and always left over. Lists leave out child nodes unless include_children is given. "
            "Apart from admins of Ironic, only an admin of a project can create nodes, and the project owns these.",
        ),
        _type(
            "runbook",
            used_by=(),
            list=_RUNBOOKS.all,
            all_projects=_RUNBOOKS.all,
            proof=_SEES_ALL_RUNBOOKS,
            available=_has_runbooks,
            show=_RUNBOOKS.show,
            owner="owner",
            protect=(_protect_public,),
            delete=_RUNBOOKS.delete,
            created="created_at",
            updated=LastChange("updated_at"),
            parts=(),
            properties="extra",
            unfiltered="to a token of the project Ironic lists its runbooks and the public ones, of any project",
            source="GET, DELETE /v1/runbooks, microversion 1.92; ironic api/controllers/v1/runbook.py",
            note="A manager of a project can create one. Its steps are executed when a user applies it to a node, "
            "never at its delete.",
        ),
    ),
)
