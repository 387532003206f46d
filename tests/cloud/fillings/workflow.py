"""Mistral: what a member defines, starts and schedules, and what only an admin can define."""

from __future__ import annotations

import time
from typing import Any

from tests.cloud.fillings.base import FillError, Filling, Rest, client

WORKFLOW = """version: '2.0'
{name}:
  tags: [nightly]
  tasks:
    first:
      action: std.echo output='hello'
      on-success: second
    second:
      workflow: {name}_part
{name}_part:
  tasks:
    waits:
      action: std.async_noop
"""
WORKBOOK = """version: '2.0'
name: {name}
actions:
  spoken:
    base: std.echo output='hello'
workflows:
  inner:
    tasks:
      one:
        action: std.noop
"""
ACTION = "version: '2.0'\n{name}:\n  base: std.async_noop\n"
CODE = (
    "from mistral_lib import actions\n\n\nclass Own(actions.Action):\n    def run(self, context):\n        return 1\n"
)
NAMESPACE = "team"


def mistral(connection: Any) -> Rest:
    """Return a client of Mistral."""
    return client(connection, "workflow")


def plain(rest: Rest, path: str, text: str, **query: str) -> Any:
    """Create something whose body is no JSON."""
    return rest.raw("POST", path, data=text, headers={"Content-Type": "text/plain"}, params=query).json()


def inside(f: Filling) -> Rest:
    """Return a client with an admin's token of the project."""
    user = f.admin_connection.current_user_id
    role = f.identity_admin.call("GET", "/roles", params={"name": "admin"})["roles"][0]["id"]
    f.identity_admin.call("PUT", f"/projects/{f.project_id}/users/{user}/roles/{role}")
    return mistral(f.admin_connection.connect_as_project({"id": f.project_id}))


def definitions(f: Filling) -> None:
    """Workflows, a workbook, actions and environments, also in a namespace."""
    rest = mistral(f.filled.connection)
    for namespace in ("", NAMESPACE):
        made = plain(rest, "/workflows", WORKFLOW.format(name="flow"), namespace=namespace)["workflows"]
        f.note("workflow", *(row["id"] for row in made))
        made = plain(rest, "/actions", ACTION.format(name="act"), namespace=namespace)["actions"]
        f.note("action", *(row["id"] for row in made))
    f.note("workbook", plain(rest, "/workbooks", WORKBOOK.format(name="book"), namespace=NAMESPACE)["id"])
    for name in ("settings", "settings.json", "a?b=c%d{e}"):
        f.note("environment", rest.call("POST", "/environments", {"name": name, "variables": "{}"})["id"])
    found = rest.call("GET", "/actions", params={"namespace": NAMESPACE})["actions"]
    f.note("action", *(row["id"] for row in found if row["project_id"] == f.project_id))
    found = rest.call("GET", "/workflows", params={"namespace": NAMESPACE})["workflows"]
    f.note("workflow", *(row["id"] for row in found if row["project_id"] == f.project_id))


def executions(f: Filling) -> None:
    """A running execution with a sub-workflow, one that is over, and action executions without a workflow."""
    rest = mistral(f.filled.connection)
    running = rest.call("POST", "/executions", {"workflow_id": f.first("workflow"), "input": "{}"})["id"]
    over = rest.call("POST", "/executions", {"workflow_id": f.first("workflow", 1), "input": "{}"})["id"]
    rest.call("PUT", f"/executions/{over}", {"state": "CANCELLED"})
    for name in ("std.noop", "act"):
        body = {"name": name, "input": "{}", "params": '{"save_result": true}'}
        f.note("action_execution", rest.call("POST", "/action_executions", body)["id"])
    deadline = time.monotonic() + 60
    while len(mine := executions_of(f)) != 3:  # with the sub-workflow
        if time.monotonic() > deadline:
            raise FillError(f"Mistral has not started the sub-workflow: {mine}")
        time.sleep(0.2)
    f.note("execution", running, over, *mine)


def executions_of(f: Filling) -> list[str]:
    """Return the ids of the project's executions."""
    found = mistral(f.filled.connection).call("GET", "/executions")["executions"]
    return [row["id"] for row in found if row["project_id"] == f.project_id]


def triggers(f: Filling) -> None:
    """Mistral makes a trust for each."""
    rest = mistral(f.filled.connection)
    body = {"name": "yearly", "workflow_id": f.first("workflow"), "pattern": "0 0 1 1 *", "workflow_input": "{}"}
    f.note("cron_trigger", rest.call("POST", "/cron_triggers", body)["id"])
    body = {"name": "event", "workflow_id": f.first("workflow"), "exchange": "nova", "topic": "notifications",
            "event": "compute.instance.create.end"}  # fmt: skip
    f.note("event_trigger", rest.call("POST", "/event_triggers", body)["id"])


def code(f: Filling) -> None:
    """By default only an admin can create these, in the project of the token."""
    rest = inside(f)
    for namespace in ("", NAMESPACE):
        f.note(
            "code_source", plain(rest, "/code_sources", CODE, name=f"code_{f.project_id}", namespace=namespace)["id"]
        )
        body = {"name": f"own_{f.project_id}", "class_name": "Own", "code_source_name": f"code_{f.project_id}",
                "namespace": namespace}  # fmt: skip
        f.note("dynamic_action", rest.call("POST", "/dynamic_actions", body)["id"])


KINDS = (definitions, executions, triggers, code)
