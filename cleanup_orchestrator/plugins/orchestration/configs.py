"""Heat: software configs and software deployments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    REFUSED,
    Collection,
    LastChange,
    OneByOne,
    Paging,
    ProjectDefinition,
    Resource,
    ResourceType,
    Row,
    Use,
    Verdict,
    exceptions,
    refused_in_use,
    verdict_naming,
)
from cleanup_orchestrator.plugins.nova import server_blocker

if TYPE_CHECKING:
    from openstack.connection import Connection

_CONFIGS = Collection("orchestration", "/software_configs", paging=Paging.MARKER, limit=200)
_DEPLOYMENTS = Collection("orchestration", "/software_deployments")


def _deployments(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the deployments of the project's configs.

    Heat shows the owner of a config, not of a deployment. A deployment with another project's config is not found. Only
    an admin can create one.
    """
    configs = {row["id"] for row in _CONFIGS.all.rows(connection, project) if row.get("project") == project.id}
    if configs:  # the list has all deployments of the cloud in one page
        for row in _DEPLOYMENTS.all.rows(connection, project):
            if row.get("config_id") in configs:
                yield {**row, "project_id": project.id}


def _show_deployment(connection: Connection, project: ProjectDefinition, deployment: Resource) -> Row:
    """Read a deployment again, from the list, and check its config.

    The config shows the owner, and may have been replaced. ``GET /software_deployments/{id}`` acts on the inputs of the
    deployment's config, which a user wrote. Heat looks for the signal that they name with the caller's token, in the
    caller's own Swift account, and answers with an error where they are invalid
    (heat/engine/service_software_config.py, ``_show_software_deployment``).

    :raises NotFoundException: when the list does not have the deployment
    """
    server_id = deployment.data.get("server_id")
    query = {"server_id": str(server_id)} if server_id else {}
    for row in _DEPLOYMENTS.where(**query).rows(connection, project):
        if row.get("id") == deployment.id:
            same = row.get("config_id") == deployment.data.get("config_id")
            return {**row, "project_id": project.id if same else None}
    raise exceptions.failure(404, f"deployment {deployment.id} is not in the list")


def _foreign_server(connection: Connection, project: ProjectDefinition, deployment: Resource) -> Verdict | None:
    """Name the server of a deployment to another project's server.

    An admin of that project created it with this project's config.
    """
    server_id = deployment.data.get("server_id")
    try:
        server = server_blocker(connection, server_id) if server_id else None
    except exceptions.BadRequestException:  # it is not the id of a server
        return None
    return verdict_naming(project, "it configures", [server] if server and server["owner"] != project.id else [])


SOFTWARE_DEPLOYMENT = ResourceType(
    name="software_deployment",
    list=_deployments,
    all_projects="Heat does not show the owner of a deployment",
    show=_show_deployment,
    delete=_DEPLOYMENTS.delete,
    title="server_id",
    used_by=(Use(("compute.server",), "takes the configuration from the server", OneByOne(_foreign_server)),),
    after=("stack",),
    created="creation_time",
    updated=LastChange("updated_time", null_until_changed=True),
    parts=(),
    source="GET, DELETE /v1/P/software_deployments; heat engine/api.py, format_software_deployment, "
    "engine/service_software_config.py",
    note="Those of a stack are deleted with it. These were created separately. Heat lists those of the whole cloud, "
    "without paging and without an owner: a deployment is the project's when its config is, and its server is "
    "not another project's.",
)

SOFTWARE_CONFIG = ResourceType(
    name="software_config",
    list=_CONFIGS.all,
    all_projects=_CONFIGS.all,
    delete=_CONFIGS.delete,
    owner="project",
    unfiltered="Heat has no owner filter for configs: an admin is shown those of the whole cloud",
    used_by=(Use(("orchestration.software_deployment",), REFUSED),),
    why_no_show="Heat tells the owner of a config in the list alone, and nothing can change it",
    after=("software_deployment",),
    needed_by=(("software_deployment", refused_in_use),),
    created="creation_time",
    parts=(),
    source="GET, DELETE /v1/P/software_configs; heat db/api.py, software_config_delete",
    note="Heat answers 400 while a deployment of any project uses it.",
)
