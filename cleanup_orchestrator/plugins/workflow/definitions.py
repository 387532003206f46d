"""Mistral: workflows, workbooks, actions, environments, and the code of dynamic actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    REFUSED,
    Action,
    Composition,
    Explain,
    Fallback,
    LastChange,
    OneByOne,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Token,
    Use,
    Verdict,
    blocker,
    verdict_naming,
)
from cleanup_orchestrator.plugins.workflow.executions import EVENT_TRIGGERS
from cleanup_orchestrator.plugins.workflow.listing import ALL, OWN, TYPE, by_time, namesakes, pages, rows_of, show_named

if TYPE_CHECKING:
    from openstack.connection import Connection

_OPTION = "[service_workflow] delete_shared_definitions"
_NAMESPACE = {"namespace": "{row[namespace]}"}


def _protect_public(definition: Resource, project: ProjectDefinition) -> str | None:
    if definition.data.get("scope") == "private" or project.options.get("delete_shared_definitions"):
        return None
    return f"it is public: other projects may use it. It is deleted if it is made private, or with {_OPTION}"


def _shared(connection: Connection, project: ProjectDefinition, workflow: Resource) -> Verdict | None:
    """Count the projects that have accepted a workflow as a shared one.

    Mistral shows these projects only to a token of the project. If the project is gone, they are unknown. Then the
    workflow is not deleted, because another project may use it.
    """
    if project.options.get("delete_shared_definitions"):
        return None
    if project.gone:
        text = "whether other projects have accepted it as a shared workflow is unknown: Mistral shows this only to a "
        text += f"token of its project, and the project is gone; it is deleted with {_OPTION}"
        return Verdict(Reason.PROJECT_GONE, text)
    body = Rest(TYPE, "/workflows/{id}/members").call(connection, project, workflow)
    if others := sum(row.get("status") == "accepted" for row in rows_of(body, "members")):
        text = f"other projects have accepted it as a shared workflow: {others}; it is deleted if the sharing is ended"
        return Verdict(Reason.PROTECTED, f"{text}, or with {_OPTION}")
    return None


def _triggers(connection: Connection, project: ProjectDefinition, workflow: Resource) -> Verdict | None:
    """Name the triggers, of any project, that start a workflow."""
    crons = pages("cron_triggers", "name").where(**ALL, workflow_id=workflow.id)
    kinds = {"cron_trigger": crons.rows(connection, project)}
    kinds["event_trigger"] = (
        row for row in EVENT_TRIGGERS.all.rows(connection, project) if row.get("workflow_id") == workflow.id
    )
    blockers = [
        blocker(f"{TYPE}.{kind}", row["id"], row.get("project_id"), row.get("name"))
        for kind, rows in kinds.items()
        for row in rows
    ]
    return verdict_naming(project, "it is started by", blockers)


_WORKFLOWS = pages("workflows", "name", "namespace", "scope", "tags")

WORKFLOW = ResourceType(
    name="workflow",
    list=_WORKFLOWS.own,
    all_projects=_WORKFLOWS.all,
    show=_WORKFLOWS.call("/{id}", query=_NAMESPACE),
    delete=_WORKFLOWS.call("/{id}", method="DELETE", query=_NAMESPACE),
    protect=(_protect_public,),
    explain=_triggers,
    used_by=(
        Use(
            (f"{TYPE}.member",),
            "takes the workflow from the projects that have accepted it",
            OneByOne(_shared),
            option="delete_shared_definitions",
        ),
        Use((f"{TYPE}.cron_trigger", f"{TYPE}.event_trigger"), REFUSED, foresee=OneByOne(_triggers)),
    ),
    tags="tags",
    after=("cron_trigger", "event_trigger", "execution", "action"),
    token=Token.PROJECT,
    fallback=Fallback(Token.ADMIN),
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    source="GET, DELETE /v2/workflows, GET /v2/workflows/ID/members; mistral api/controllers/v2/workflow.py, "
    "db/v2/sqlalchemy/api.py (delete_workflow_definition)",
    note="Mistral answers 400 while a trigger of any project starts it. Its members are deleted with it. Workflows "
    "that other projects share with the project belong to these projects and stay, and so do these shares. If the "
    "project is gone, the projects that have accepted a workflow are unknown: without the option it is left.",
)


def _actions(of_all: bool) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of the actions in all namespaces that workflows and workbooks have.

    Mistral lists the actions of one namespace at a time. Actions that come with Mistral, or are made of a code source,
    have no id besides their name.
    """
    namespaces = pages("workflows", "namespace")
    workflows = namespaces.all if of_all else namespaces.own
    workbooks = by_time("workbooks", "namespace")

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        rows = [*workflows.rows(connection, project), *workbooks(connection, project)]
        own = [row for row in rows if of_all or row.get("project_id") == project.id]
        for namespace in sorted({"", *(str(row.get("namespace") or "") for row in own)}):
            one = Resource("", "", None, {"namespace": namespace})
            body = Rest(TYPE, "/actions", query=_NAMESPACE).call(connection, project, one)
            yield from (row for row in rows_of(body, "actions") if row["id"] != row["name"])

    return listing


ACTION = ResourceType(
    name="action",
    used_by=(),
    list=_actions(of_all=False),
    all_projects=_actions(of_all=True),
    show=show_named("actions", "namespace", "tags"),
    delete=Rest(TYPE, "/actions/{id}", method="DELETE", query=_NAMESPACE),
    protect=(_protect_public,),
    tags="tags",
    after=("execution",),
    token=Token.PROJECT,
    fallback=Fallback(Token.ADMIN),
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    source="GET, DELETE /v2/actions; mistral api/controllers/v2/action.py, actions/dynamic_action.py (find_all)",
    note="Mistral lists the actions of one namespace at a time, and no call lists namespaces. So the namespaces of the "
    "project's workflows and workbooks are listed, and these are deleted after the actions. An action in a namespace "
    "in which the project has neither is in no list: it stays. To list actions, Mistral loads the code of all dynamic "
    "actions that the token sees. Only an admin can create these.",
)


def _namesakes(collection: str) -> Explain:
    def foreign(connection: Connection, project: ProjectDefinition, resource: Resource) -> Verdict | None:
        """Name the public resources of other projects that a delete by name would delete, too.

        Mistral deletes all rows with the name that the project sees.
        """
        rows = namesakes(connection, project, resource, collection)
        blockers = [
            blocker(f"{TYPE}.{collection[:-1]}", row["id"], row.get("project_id"), row["name"])
            for row in rows
            if row["id"] != resource.id and row.get("project_id") != project.id and row.get("scope") != "private"
        ]
        return verdict_naming(project, "Mistral deletes by name, and would also delete", blockers)

    return foreign


def _delete_named(collection: str, table: str, query: Mapping[str, str]) -> Action:
    call = Rest(TYPE, f"/{collection}/{{row[name]}}", method="DELETE", query=query)

    def delete(connection: Connection, project: ProjectDefinition, resource: Resource) -> None:
        """Delete a resource by its name, with a token of the project, unless that deletes another project's.

        :raises Refused: when it does, and when no call can delete it
        """
        by_hand = f"delete the row with its id in the table {table} of Mistral's database"
        if project.gone:
            text = f"Mistral deletes it only with a token of its project, and the project is gone: {by_hand}"
            raise Refused(Verdict(Reason.PROJECT_GONE, text))
        if resource.name in ("", ".", "..") or "/" in resource.name:
            text = f"Mistral deletes it by name, and no address can have this name: {by_hand}"
            raise Refused(Verdict(Reason.NOT_SUPPORTED, text))
        call.call(connection, project, resource)

    return delete


def _named(name: str, table: str, *fields: str, **declared: Any) -> ResourceType:
    """Return a type that Mistral shows and deletes by name."""
    collection = f"{name}s"
    listing = by_time(collection, "name", "scope", *fields)
    return ResourceType(
        name=name,
        list=listing,
        all_projects=listing,
        show=show_named(collection, *fields),
        delete=_delete_named(collection, table, _NAMESPACE if "namespace" in fields else {}),
        protect=(_protect_public,),
        used_by=(
            Use(
                (f"{TYPE}.{name}",),
                "deletes the public one of the same name",
                OneByOne(_namesakes(collection)),
            ),
        ),
        by_hand=f"as an admin of Mistral's database: delete the row with the id {{id}} in the table {table}",
        created="created_at",
        updated=LastChange("updated_at", null_until_changed=True),
        parts=(),
        token=Token.PROJECT,
        fallback=Fallback(Token.ADMIN),
        **declared,
    )


_BY_NAME = (
    "Mistral deletes by name, with a token of the project alone, and deletes all rows of that name that the project "
    "sees: also a public one of another project. If there is one, the delete is refused, and the report names it. A "
    "name with a slash cannot be in an address of Mistral: such a resource is a leftover, which an operator removes "
    "from the database. So is one whose project is gone."
)

WORKBOOK = _named(
    "workbook",
    "workbooks_v2",
    "namespace",
    "tags",
    tags="tags",
    after=("action",),
    source="GET, DELETE /v2/workbooks; mistral api/controllers/v2/workbook.py, db/v2/sqlalchemy/api.py "
    "(delete_workbook)",
    note=f"The workflows and actions of a workbook stay after its delete: they are listed separately. {_BY_NAME}",
)

ENVIRONMENT = _named(
    "environment",
    "environments_v2",
    after=("execution",),
    source="GET, DELETE /v2/environments; mistral api/controllers/v2/environment.py, db/v2/sqlalchemy/api.py "
    "(delete_environment)",
    note=_BY_NAME,
)

_DYNAMIC = ("name", "namespace", "scope", "code_source_id")
_ALL_DYNAMIC = by_time("dynamic_actions", *_DYNAMIC, **ALL)


def _others(connection: Connection, project: ProjectDefinition, source: Resource) -> Verdict | None:
    """Name the dynamic actions that are deleted with a code source and must not be.

    These are other projects', and the project's own that are public.
    """
    blockers = []
    for row in _ALL_DYNAMIC(connection, project):
        if row.get("code_source_id") != source.id:
            continue
        action = DYNAMIC_ACTION.resource(row, project)
        if action.owner != project.id or _protect_public(action, project):
            blockers.append(blocker(f"{TYPE}.dynamic_action", action.id, action.owner, action.name))
    return verdict_naming(project, "deleting it would delete", blockers)


_ADMINS = "By default only an admin can create one, for the project of the token."

DYNAMIC_ACTION = ResourceType(
    name="dynamic_action",
    used_by=(),
    list=by_time("dynamic_actions", *_DYNAMIC, **ALL, **OWN),
    all_projects=_ALL_DYNAMIC,
    show=Rest(TYPE, "/dynamic_actions/{id}", query=_NAMESPACE),
    delete=Rest(TYPE, "/dynamic_actions/{id}", method="DELETE", query=_NAMESPACE),
    protect=(_protect_public,),
    after=("code_source",),
    composition=Composition(part_of=(("code_source", "code_source_id"),)),
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    source="GET, DELETE /v2/dynamic_actions; mistral api/controllers/v2/dynamic_action.py",
    note=f"{_ADMINS} It is deleted with its code source. Only one that is made of another project's code source is "
    "left. Mistral 23 answers 500 to the delete of a dynamic action in a namespace: then only its row in the table "
    "dynamic_action_definitions can be deleted.",
)

_SOURCED = ("name", "namespace", "scope")

CODE_SOURCE = ResourceType(
    name="code_source",
    list=by_time("code_sources", *_SOURCED, **ALL, **OWN),
    all_projects=by_time("code_sources", *_SOURCED, **ALL),
    show=Rest(TYPE, "/code_sources/{id}", query=_NAMESPACE),
    delete=Rest(TYPE, "/code_sources/{id}", method="DELETE", query=_NAMESPACE),
    protect=(_protect_public,),
    used_by=(Use((f"{TYPE}.dynamic_action",), "deletes the dynamic action", OneByOne(_others)),),
    after=("execution",),
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    source="GET, DELETE /v2/code_sources; mistral api/controllers/v2/code_source.py, db/v2/sqlalchemy/models.py",
    note=f"{_ADMINS} The database deletes the dynamic actions of any project that are made of it. If one of them is "
    "another project's, or public, the code source is not deleted.",
)
