"""Cyborg: accelerator requests that a server no longer uses.

Nova makes the requests of a server, binds them to it, and deletes them with it. Only Nova may delete a bound request.
So servers are deleted first. Here only requests are deleted that are bound to no server.

Devices, deployables and device profiles are the operator's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    REFUSED,
    LastChange,
    ProjectDefinition,
    Reason,
    Resource,
    ResourceType,
    Rest,
    Row,
    Service,
    Use,
    Verdict,
    blocker,
    exceptions,
    state_remedies,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

TYPE = "accelerator"

_REQUESTS = Rest(TYPE, "/accelerator_requests", key="arqs")


def _list(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the requests of all projects, which Cyborg shows to callers with the role admin.

    It has no call that it answers to admins only: by default it shows even the devices to the members of any project.

    :raises ForbiddenException: without this role, Cyborg would show the requests of the token's project
    """
    if "admin" not in connection.session.auth.get_access(connection.session).role_names:
        raise exceptions.failure(403, "the token has no role admin: Cyborg shows it one project")
    yield from _REQUESTS.rows(connection, project)


def _explain_bound(connection: Connection, project: ProjectDefinition, request: Resource) -> Verdict | None:
    """Name the server that a request is bound to."""
    server = request.data.get("instance_uuid")
    if not server:
        return None
    return Verdict(
        Reason.IN_USE,
        "it is bound to a server: only Nova may delete it, with the server. If the server is no longer there, an "
        "operator must delete it with a service token",
        (blocker("compute.server", server, project.id),),
    )


SERVICE = Service(
    service_type=TYPE,
    contract_version=2,
    after=(*CONTROLLERS, "compute.server"),
    roles="admin on one project: with it Cyborg lists and deletes the requests of all projects",
    types=(
        ResourceType(
            name="accelerator_request",
            used_by=(Use(("compute.server",), REFUSED),),
            list=_list,
            all_projects=_list,
            show=Rest(TYPE, "/accelerator_requests/{id}"),
            delete=Rest(TYPE, "/accelerator_requests?arqs={id}", method="DELETE"),
            id="uuid",
            title="device_profile_name",
            explain=_explain_bound,
            remedies=state_remedies(
                "the log of cyborg-conductor has the cause, and openstack accelerator arq show {id} the server that it "
                "is bound to",
                "openstack accelerator arq unbind {id} with a service token, if Nova does not know that server",
                "an operator",
            ),
            unfiltered="Cyborg lists the requests of all projects to an admin, on one page and without a filter",
            created="created_at",
            updated=LastChange("updated_at"),
            parts=(),
            source="GET, DELETE /v2/accelerator_requests; cyborg api/controllers/v2/arqs.py, objects/ext_arq.py, "
            "policies/arqs.py",
            note="To callers without the role admin Cyborg lists only the requests of the token's project. It looks "
            "for the role of this name, whatever its policy says. So the role is looked for in the token before the "
            "list. Bound requests were not met with a real device: a test wrote the server into the database.",
        ),
    ),
)
