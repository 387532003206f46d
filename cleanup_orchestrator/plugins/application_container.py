"""Zun: capsules, containers, registries and the quota.

A host of Zun deletes a container or a capsule with the token of the request: it uses this token in Neutron for the
ports, and in Cinder for the volumes that the project's users named. Therefore the janitor's token is used.

Networks and images in Zun are the operator's.

This was tested with containers and capsules that have no host, as those whose creation failed. Those that run were not
met.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    PORTS,
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
    linked,
    state_remedies,
)
from cleanup_orchestrator.plugins.neutron import ports_of_devices
from cleanup_orchestrator.plugins.port_uses import uses_of_ports
from cleanup_orchestrator.plugins.verdicts import is_past

if TYPE_CHECKING:
    from openstack.connection import Connection

TYPE = "application-container"

#: This microversion shows the name of a capsule as ``name``. Zun knows the header only with its former service type. It
#: answers 406 to the one that keystoneauth makes of the official type.
_HEADERS = {"OpenStack-API-Version": "container 1.32"}
_ALL = {"all_projects": "true"}
#: What a host does with the token of the request.
_ACTS = "the networks and volumes that users named when they created it. Its host uses the token of the request there"


def _rest(path: str, **declared: Any) -> Rest:
    """Return a call of Zun."""
    return Rest(TYPE, path, headers=_HEADERS, **declared)


def _list(collection: str, **query: str) -> Rest:
    """Return the call that lists a collection. To callers without the role admin Zun answers 403, or their own rows."""
    return _rest(
        f"/{collection}", key=collection, query={**_ALL, **query}, paging=Paging.MARKER, limit=100, marker="uuid"
    )


def _delete(connection: Connection, project: ProjectDefinition, resource: Resource, collection: str) -> None:
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
    query: dict[str, str] = {"stop": "true"} if collection == "containers" else {}
    _rest(f"/{collection}/{{id}}", method="DELETE", query=query).call(connection, project, resource)


def _delete_container(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Delete a container; Zun stops it first."""
    _delete(connection, project, resource, "containers")


def _delete_capsule(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
    """Delete a capsule with its containers."""
    _delete(connection, project, resource, "capsules")


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


def _quotas(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's quota if it differs from the default. Zun does not show whether there is a row."""
    own, default = (_rest(path).call(connection, project) for path in _QUOTAS)
    if own != default:
        yield {"id": project.id, "name": "quota of containers", "project_id": project.id}


_QUOTAS = ("/quotas/{project_id}", "/quotas/{project_id}/defaults")
_CONTAINER = _rest("/containers/{id}")
_CAPSULE = _rest("/capsules/{id}")

SERVICE = Service(
    service_type=TYPE,
    contract_version=1,
    after=CONTROLLERS,
    proof=Rest(TYPE, "/registries", query={**_ALL, "limit": 1}),
    roles="admin on one project: with it Zun lists the resources of all projects, and deletes registries and quotas",
    types=(
        ResourceType(
            name="capsule",
            list=_list("capsules"),
            all_projects=_list("capsules"),
            show=_CAPSULE,
            delete=_delete_capsule,
            id="uuid",
            deleting=_deleting,
            failed=_delete_failed,
            changed="updated_at",
            remedies=_remedies("capsule"),
            created="created_at",
            parts=(PORTS,),
            used_by=uses_of_ports(ports_of_devices, "a port of it is used by"),
            acts_on=_ACTS,
            unfiltered="Zun has no filter for capsules: it lists those of all projects to an admin",
            by_hand="as an admin: DELETE /v1/capsules/{id} (Zun)",
            source="GET, DELETE /v1/capsules; zun api/controllers/v1/capsules.py, compute/manager.py "
            "(_do_container_delete)",
            note="To callers without the role admin Zun lists their own capsules, whatever the query says. So a list "
            "that only admins get is asked for before.",
        ),
        ResourceType(
            name="container",
            list=_list("containers", project_id="{project_id}"),
            all_projects=_list("containers"),
            show=_CONTAINER,
            delete=_delete_container,
            id="uuid",
            deleting=_deleting,
            failed=_delete_failed,
            changed="updated_at",
            remedies=_remedies("appcontainer"),
            created="created_at",
            parts=(PORTS,),
            used_by=uses_of_ports(ports_of_devices, "a port of it is used by"),
            acts_on=_ACTS,
            by_hand="as an admin: DELETE /v1/containers/{id}?stop=true (Zun)",
            source="GET, DELETE /v1/containers; zun api/controllers/v1/containers.py, common/utils.py (VALID_STATES), "
            "network/neutron.py, compute/manager.py (_detach_volumes)",
            note="The containers of a capsule are not listed here. They are deleted with the capsule.",
        ),
        ResourceType(
            name="registry",
            list=_list("registries", project_id="{project_id}"),
            all_projects=_list("registries"),
            show=_rest("/registries/{id}", key="registry"),
            delete=_rest("/registries/{id}", method="DELETE"),
            id="uuid",
            used_by=(),
            after=("container", "capsule"),
            needed_by=(("container", linked(_CONTAINER)), ("capsule", linked(_CAPSULE))),
            source="GET, DELETE /v1/registries; zun api/controllers/v1/registries.py",
            note="A registry that a container names cannot be deleted.",
        ),
        ResourceType(
            name="quota",
            list=_quotas,
            all_projects="Zun shows the quota of one project at a time",
            delete=_rest("/quotas/{project_id}", method="DELETE"),
            fresh="it is addressed by the project's id",
            used_by=(),
            project_setting=True,
            source="GET, DELETE /v1/quotas; zun api/controllers/v1/quotas.py, common/quota.py",
            note="A row that has the default value is not found.",
        ),
    ),
)
