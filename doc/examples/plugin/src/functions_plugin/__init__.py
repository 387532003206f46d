"""The service of functions: functions, and the triggers that call them."""

from cleanup_orchestrator.plugins.base import Paging, ProjectDefinition, Resource, ResourceType, Rest, Service

TYPE = "function-engine"
SOURCE = "the API of the imaginary service, version 1: tests/fake_cloud.py"


def keep_examples(resource: Resource, project: ProjectDefinition) -> str | None:
    """Keep the example that the service creates for each project, and deletes with the project."""
    return "the service created it, and deletes it with the project" if resource.data.get("example") else None


def protect_published(resource: Resource, project: ProjectDefinition) -> str | None:
    """Protect a function that other projects may call."""
    return "it is published, and other projects may be calling it" if resource.data.get("published") else None


SERVICE = Service(
    TYPE,
    (
        ResourceType(
            "trigger",
            used_by=(),
            list=Rest(TYPE, "/triggers", key="triggers", query={"project_id": "{project_id}"}, paging=Paging.MARKER),
            show=Rest(TYPE, "/triggers/{id}", key="trigger"),
            delete=Rest(TYPE, "/triggers/{id}", method="DELETE"),
            created="created_at",
            parts=(),
            all_projects=Rest(TYPE, "/triggers", key="triggers", paging=Paging.MARKER),
            source=SOURCE,
        ),
        ResourceType(
            "function",
            used_by=(),
            list=Rest(TYPE, "/functions", key="functions", query={"project_id": "{project_id}"}, paging=Paging.MARKER),
            show=Rest(TYPE, "/functions/{id}", key="function"),
            delete=Rest(TYPE, "/functions/{id}", method="DELETE"),
            created="created_at",
            parts=(),
            all_projects=Rest(TYPE, "/functions", key="functions", paging=Paging.MARKER),
            after=("trigger",),
            keep=(keep_examples,),
            protect=(protect_published,),
            note="The service refuses to delete a function that a trigger calls.",
            source=SOURCE,
        ),
    ),
    # A user who is no admin gets a list without the resources of other projects, and no error. Only admins may list the
    # workers of the service. So the orchestrator asks for these before it believes a list.
    proof=Rest(TYPE, "/workers", key="workers"),
    roles="admin, on any project",
    contract_version=1,
)
