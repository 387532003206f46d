"""Heat: the Keystone projects and users that Heat created for stacks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    FINAL_HEADER,
    BadAnswer,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Verdict,
    blocker,
)
from cleanup_orchestrator.plugins.orchestration.listing import stacks_of

if TYPE_CHECKING:
    from openstack.connection import Connection

_USER_PROJECT = "Heat stack user project"  #: the description that Heat gives (heat_keystoneclient.py)


def _user_domain(connection: Connection, project: ProjectDefinition) -> str:
    """Return the id of the domain of the stacks' users.

    :raises BadAnswer: when Keystone knows no domain of that name
    """
    name = str(project.options.get("stack_user_domain"))
    domains = Rest("identity", "/domains", key="domains", query={"name": name}).rows(connection, project)
    for row in domains:
        if row.get("name") == name:
            return str(row["id"])
    raise BadAnswer(f"Keystone knows no domain {name!r}: set stack_user_domain to that of heat.conf")


def _made_for(project: ProjectDefinition, domain_id: str, row: Row) -> bool:
    """Return whether Heat created a Keystone project for a stack of this project."""
    # Heat limits the name, which is both ids, to 64 characters.
    named = re.fullmatch(re.escape(project.id) + r"-[0-9a-f-]{31}", str(row.get("name")))
    return bool(named) and row.get("domain_id") == domain_id and row.get("description") == _USER_PROJECT


def _user_projects(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the projects that Heat created for stacks of this project."""
    domain_id = _user_domain(connection, project)
    call = Rest("identity", "/projects", "projects", query={"domain_id": domain_id, "name__startswith": project.id})
    for row in call.rows(connection, project):
        if _made_for(project, domain_id, row):
            yield {**row, "project_id": project.id}


def _show_user_project(connection: Connection, project: ProjectDefinition, user_project: Resource) -> Row:
    """Read one of these projects again, and check the same attributes."""
    row = Rest("identity", "/projects/{id}", key="project").row(connection, project, user_project)
    made_by_heat = _made_for(project, _user_domain(connection, project), row)
    return {**row, "project_id": project.id if made_by_heat else None}


def _refuse_used(connection: Connection, project: ProjectDefinition, user_project: Resource) -> None:
    """Refuse the project of an existing stack: Heat deletes it with the stack."""
    for row in stacks_of(nested=True).rows(connection, project):
        if row.get("stack_user_project_id") == user_project.id:
            stack = blocker("orchestration.stack", row["id"], row.get("project"), row.get("stack_name"))
            raise Refused(Verdict(Reason.IN_USE, "its stack is still there", (stack,)))


def _delete_users(connection: Connection, project: ProjectDefinition, user_project: Resource) -> None:
    """Delete the users that Heat created for it.

    They have no other roles, and only Heat knows their passwords.
    """
    call = Rest("identity", "/role_assignments", "role_assignments", query={"scope.project.id": user_project.id})
    for user_id in sorted({row["user"]["id"] for row in call.rows(connection, project) if "user" in row}):
        user = Resource(user_id, "", None)
        row = Rest("identity", "/users/{id}", key="user").row(connection, project, user)
        if row.get("domain_id") == user_project.data["domain_id"] and row.get("default_project_id") == user_project.id:
            Rest("identity", "/users/{id}", method="DELETE").call(connection, project, user)


def _domain_named(connection: Connection, project: ProjectDefinition) -> bool:
    """A domain in the option stack_user_domain."""
    return bool(project.options.get("stack_user_domain"))


STACK_USER_PROJECT = ResourceType(
    name="stack_user_project",
    used_by=(),
    list=_user_projects,
    all_projects="they are projects themselves, and found by the id of the project that they were made for",
    show=_show_user_project,
    delete=Rest(
        "identity",
        "/projects/{id}",
        method="DELETE",
        headers={FINAL_HEADER: "orchestration.stack_user_project"},
    ),
    prepare=(_refuse_used, _delete_users),
    project_setting=True,
    available=_domain_named,
    source="GET /v3/projects?domain_id=D&name__startswith=X; DELETE /v3/projects/ID; heat "
    "engine/clients/os/keystone/heat_keystoneclient.py, create_stack_domain_project",
    note="Off unless stack_user_domain names the domain. For a stack with wait conditions, signals or software "
    "deployments, Heat creates a Keystone project in Heat's domain, with a user for each. Heat deletes it with "
    "the stack, but leaves it when a stack is abandoned. It is recognised by domain, description, and a name "
    "that begins with the project's id.",
)
