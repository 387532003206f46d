"""Zun: capsules, containers, registries and the quota.

A host of Zun deletes a container or a capsule with the token of the request: it uses this token in Neutron for the
ports, and in Cinder for the volumes that the project's users named. Therefore the janitor's token is used.

Networks and images in Zun are the operator's.

This was tested with containers and capsules that have no host, as those whose creation failed. Those that run were not
met.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    PORTS,
    Collection,
    LastChange,
    Paging,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Service,
    Verdict,
    is_past,
    linked,
    quota_type,
    state_remedies,
)
from cleanup_orchestrator.plugins.neutron import ports_of_devices
from cleanup_orchestrator.plugins.port_uses import uses_of_ports

if TYPE_CHECKING:
    from openstack.connection import Connection

TYPE = "application-container"

#: This microversion shows the name of a capsule as ``name``. Zun knows the header only with its former service type. It
#: answers 406 to the one that keystoneauth makes of the official type.
_HEADERS = {"OpenStack-API-Version": "container 1.32"}
_ALL = {"all_projects": "true"}
#: What a host does with the token of the request.
_ACTS = "the networks and volumes that users named when they created it. Its host uses the token of the request there"


def _collection(name: str, one: str = "") -> Collection:
    """Return a collection. To callers without the role admin Zun answers 403 to the list, or their own rows."""
    return Collection(
        TYPE,
        f"/{name}",
        one=one,
        own_query={**_ALL, "project_id": "{project_id}"},
        all_query=_ALL,
        headers=_HEADERS,
        paging=Paging.MARKER,
        marker="uuid",
    )


_CAPSULES, _CONTAINERS, _QUOTAS = _collection("capsules"), _collection("containers"), _collection("quotas")
_REGISTRIES = _collection("registries", "registry")


def _delete(connection: Connection, project: ProjectDefinition, resource: Resource, call: Rest) -> None:
    """Delete a container or a capsule.

    :raises Refused: the project is gone, and a host would use the orchestrator's token
    """
    if project.gone and resource.data.get("host"):
        raise Refused(
            Verdict(
                Reason.PROJECT_GONE,
                "its host would use the orchestrator's token for what users wrote: an admin must delete it in Zun",
            )
        )
    call.call(connection, project, resource)


def _delete_container(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Delete a container; Zun stops it first."""
    call = _CONTAINERS.call("/{id}", method="DELETE", query={"stop": "true"})
    _delete(connection, project, resource, call)


def _delete_capsule(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Delete a capsule with its containers."""
    _delete(connection, project, resource, _CAPSULES.delete)


#: Seconds after which a delete counts as lost, and is requested again.
_LOST_AFTER = 3600


def _deleting(resource: Resource, project: ProjectDefinition) -> str | None:
    """Wait for the host, unless it has not changed for an hour: then the delete is requested again."""
    lost = is_past(resource.data.get("updated_at"), _LOST_AFTER)
    return "its host is deleting it" if resource.data.get("task_state") == "container_deleting" and not lost else None


def _delete_failed(resource: Resource, project: ProjectDefinition) -> str | None:
    """Say that a container is in Error, and why: a failed delete leaves it so."""
    if resource.data.get("status") != "Error" or resource.data.get("task_state"):
        return None
    return f"its status is Error: {resource.data.get('status_reason') or 'Zun gives no reason'}"


def _remedies(name: str) -> Mapping[Reason, str]:
    return state_remedies(
        f"openstack appcontainer service list shows whether the zun-compute of its host is up, and openstack {name} "
        "show {id} the reason",
        f"openstack {name} delete --force {{id}}",
    )


SERVICE = Service(
    service_type=TYPE,
    contract_version=2,
    after=CONTROLLERS,
    proof=Rest(TYPE, "/registries", query={**_ALL, "limit": 1}),
    roles="admin on one project: with it Zun lists the resources of all projects, and deletes registries and quotas",
    types=(
        ResourceType(
            name="capsule",
            list=_CAPSULES.all,
            all_projects=_CAPSULES.all,
            show=_CAPSULES.show,
            delete=_delete_capsule,
            id="uuid",
            deleting=_deleting,
            failed=_delete_failed,
            changed="updated_at",
            remedies=_remedies("capsule"),
            created="created_at",
            updated=LastChange("updated_at"),
            parts=(PORTS,),
            used_by=uses_of_ports(ports_of_devices, "a port of it is used by"),
            user_content=_ACTS,
            unfiltered="Zun has no filter for capsules: it lists those of all projects to an admin",
            by_hand="as an admin: DELETE /v1/capsules/{id} (Zun)",
            source="GET, DELETE /v1/capsules; zun api/controllers/v1/capsules.py, compute/manager.py "
            "(_do_container_delete)",
            note="To callers without the role admin Zun lists their own capsules, whatever the query says. So a list "
            "that only admins get is asked for before.",
        ),
        ResourceType(
            name="container",
            list=_CONTAINERS.own,
            all_projects=_CONTAINERS.all,
            show=_CONTAINERS.show,
            delete=_delete_container,
            id="uuid",
            deleting=_deleting,
            failed=_delete_failed,
            changed="updated_at",
            remedies=_remedies("appcontainer"),
            created="created_at",
            updated=LastChange("updated_at"),
            parts=(PORTS,),
            used_by=uses_of_ports(ports_of_devices, "a port of it is used by"),
            user_content=_ACTS,
            by_hand="as an admin: DELETE /v1/containers/{id}?stop=true (Zun)",
            source="GET, DELETE /v1/containers; zun api/controllers/v1/containers.py, common/utils.py (VALID_STATES), "
            "network/neutron.py, compute/manager.py (_detach_volumes)",
            note="The containers of a capsule are not listed here. They are deleted with the capsule.",
        ),
        ResourceType(
            name="registry",
            list=_REGISTRIES.own,
            all_projects=_REGISTRIES.all,
            show=_REGISTRIES.show,
            delete=_REGISTRIES.delete,
            id="uuid",
            used_by=(),
            after=("container", "capsule"),
            needed_by=(("container", linked(_CONTAINERS.show)), ("capsule", linked(_CAPSULES.show))),
            source="GET, DELETE /v1/registries; zun api/controllers/v1/registries.py",
            note="A registry that a container names cannot be deleted.",
        ),
        quota_type(
            _QUOTAS.call("/{project_id}"),
            _QUOTAS.call("/{project_id}/defaults"),
            "containers",
            of="containers",
            all_projects="Zun shows the quota of one project at a time",
            delete=_QUOTAS.call("/{project_id}", method="DELETE"),
            source="GET, DELETE /v1/quotas; zun api/controllers/v1/quotas.py, common/quota.py",
            note="A row that has the default value is not found.",
        ),
    ),
)
