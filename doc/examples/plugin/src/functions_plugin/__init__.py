"""The service of functions: functions, and the triggers that call them."""

from cleanup_orchestrator.plugins.base import (
    Collection,
    Paging,
    ProjectDefinition,
    Resource,
    ResourceType,
    Rest,
    Service,
)

TYPE = "function-engine"
#: The calls of a collection: the list of the project's resources, that of all, and those that show and delete one.
TRIGGERS = Collection(TYPE, "/triggers", one="trigger", paging=Paging.MARKER)
FUNCTIONS = Collection(TYPE, "/functions", one="function", paging=Paging.MARKER)
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
            list=TRIGGERS.own,
            all_projects=TRIGGERS.all,
            show=TRIGGERS.show,
            delete=TRIGGERS.delete,
            created="created_at",
            parts=(),
            source=SOURCE,
        ),
        ResourceType(
            "function",
            used_by=(),
            list=FUNCTIONS.own,
            all_projects=FUNCTIONS.all,
            show=FUNCTIONS.show,
            delete=FUNCTIONS.delete,
            created="created_at",
            parts=(),
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
    contract_version=2,
)
