"""Mistral: what starts workflows, and what runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cleanup_orchestrator.plugins.base import (
    Fallback,
    LastChange,
    Parts,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Row,
    Token,
    Verdict,
    exceptions,
)
from cleanup_orchestrator.plugins.workflow.listing import pages

if TYPE_CHECKING:
    from openstack.connection import Connection

CRON_TRIGGERS = pages("cron_triggers", "name", "workflow_id", "workflow_name")
#: Mistral answers 500 to a filter by project.
EVENT_TRIGGERS = pages("event_triggers", "name", "workflow_id")

CRON_TRIGGER = ResourceType(
    name="cron_trigger",
    used_by=(),
    list=CRON_TRIGGERS.own,
    all_projects=CRON_TRIGGERS.all,
    show=CRON_TRIGGERS.show,
    delete=CRON_TRIGGERS.delete,
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    source="GET, DELETE /v2/cron_triggers; mistral api/controllers/v2/cron_trigger.py, services/triggers.py",
    note="Deleted first, because it starts executions. Mistral deletes the trust after the trigger, with its own user. "
    "If that fails, the trust is deleted with the trusts of the project.",
)

EVENT_TRIGGER = ResourceType(
    name="event_trigger",
    used_by=(),
    list=EVENT_TRIGGERS.all,
    all_projects=EVENT_TRIGGERS.all,
    show=EVENT_TRIGGERS.show,
    delete=EVENT_TRIGGERS.delete,
    unfiltered="Mistral answers 500 to a filter by project: an admin lists those of all projects",
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    source="GET, DELETE /v2/event_triggers; mistral api/controllers/v2/event_trigger.py, services/triggers.py",
    note="As a cron trigger.",
)


def _state(execution: Resource, project: ProjectDefinition) -> str:
    return str(execution.data.get("state"))


def _completed(execution: Resource) -> bool:
    return execution.data.get("state") in ("SUCCESS", "ERROR", "CANCELLED", "SKIPPED")


def _tasks(_connection: Connection, _project: ProjectDefinition, execution: Resource) -> Iterator[Row]:
    """Yield the latest time at which an execution can have begun a task: its end. Before that, it is not known."""
    yield {"updated_at": execution.data.get("updated_at") if _completed(execution) else None}


_EXECUTIONS = pages("executions", "workflow_name", "state", "task_execution_id")

EXECUTION = ResourceType(
    name="execution",
    used_by=(),
    list=_EXECUTIONS.own,
    all_projects=_EXECUTIONS.all,
    show=_EXECUTIONS.show,
    delete=_EXECUTIONS.call("/{id}", method="DELETE", query={"force": "true"}),
    title="workflow_name",
    describe=_state,
    after=("cron_trigger", "event_trigger"),
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(Parts("task", _tasks, created="updated_at", updated=LastChange("updated_at")),),
    source="GET, DELETE /v2/executions; mistral api/controllers/v2/execution.py, db/v2/sqlalchemy/api.py "
    "(delete_workflow_execution)",
    note="Without 'force' Mistral refuses (403) to delete an execution that is not completed. The delete removes rows, "
    "and calls nothing: an execution is not cancelled before, because Mistral then calls the addresses in its "
    "parameters ('notify'). Its tasks, action executions and sub-workflows are deleted with it. A sub-workflow is "
    "listed, too. An action that an executor has begun runs to its end, and Mistral drops its result.",
)

_ACTIONS = pages("action_executions", "name", "state", "task_execution_id")


def _ad_hoc(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the action executions that belong to no task. The others are deleted with their execution."""
    return (row for row in _ACTIONS.where().rows(connection, project) if row.get("task_execution_id") is None)


def _unfinished(execution: Resource) -> bool:
    return not _completed(execution)


def _keep_completed(execution: Resource, project: ProjectDefinition) -> str | None:
    if project.options.get("keep_action_executions") and _completed(execution):
        return "it is a record of an action that has ended, and keep_action_executions is set"
    return None


def _delete_action_execution(connection: Connection, project: ProjectDefinition, execution: Resource) -> None:
    """Cancel an action execution that is not completed, and delete it.

    :raises Refused: Mistral deletes none, or none without a token of the project
    """
    if project.gone:
        text = (
            "Mistral deletes an action execution only with a token of its project, and the project is gone: delete its "
            "row in the table action_executions_v2"
        )
        raise Refused(Verdict(Reason.PROJECT_GONE, text))
    one = _ACTIONS.show.row(connection, project, execution)
    if not _completed(Resource(execution.id, "", None, one)):
        _ACTIONS.call("/{id}", method="PUT", body={"state": "CANCELLED"}).call(connection, project, execution)
    try:
        _ACTIONS.delete.call(connection, project, execution)
    except exceptions.ForbiddenException as error:
        if "deletion is not allowed" not in str(error):
            raise
        text = (
            "Mistral deletes no action executions: set allow_action_execution_deletion = true in the [api] section of "
            "mistral.conf, or keep_action_executions = true in [service_workflow]"
        )
        raise Refused(Verdict(Reason.NOT_SUPPORTED, text)) from error


ACTION_EXECUTION = ResourceType(
    name="action_execution",
    used_by=(),
    list=_ad_hoc,
    all_projects=_ad_hoc,
    show=_ACTIONS.show,
    delete=_delete_action_execution,
    keep=(_keep_completed,),
    describe=_state,
    after=("execution",),
    token=Token.PROJECT,
    fallback=Fallback(Token.ADMIN),
    user_content="the expression in an ad-hoc action that makes its result: Mistral evaluates it when an action "
    "execution is cancelled, and functions in it read what the token may read (with an admin's, the executions of all "
    "projects)",
    has_user_content=_unfinished,
    created="created_at",
    updated=LastChange("updated_at", null_until_changed=True),
    parts=(),
    source="GET, PUT, DELETE /v2/action_executions; mistral api/controllers/v2/action_execution.py, "
    "db/v2/sqlalchemy/api.py (delete_action_execution)",
    note="Only those that a user has started without a workflow, and had saved ('save_result'). By default Mistral "
    "deletes none: see allow_action_execution_deletion in mistral.conf, and the option keep_action_executions. Mistral "
    "has no filter by project: the list has the action executions of all projects, also those of tasks. Mistral "
    "refuses to delete one that is not completed, so it is cancelled before.",
)
