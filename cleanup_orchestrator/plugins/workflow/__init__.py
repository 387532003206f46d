"""Mistral: triggers, executions, workflows, workbooks, actions and environments.

A delete in Mistral removes rows, and calls no address and no action of a user. Two calls are made with more than that:
a trigger's trust is deleted by Mistral's own user, and an action execution that is not completed is cancelled with the
janitor's token. Mistral shows an admin the resources of all projects, whatever project the token is for.

No separate types: tasks, the action executions of tasks, and the members of a workflow are deleted with their parent.
Calls that Mistral has scheduled for an execution are internal (table ``delayed_calls_v2``). Mistral removes them within
two minutes after the execution.
"""

from __future__ import annotations

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import CONTROLLERS, Rest, Service
from cleanup_orchestrator.plugins.workflow.definitions import (
    ACTION,
    CODE_SOURCE,
    DYNAMIC_ACTION,
    ENVIRONMENT,
    WORKBOOK,
    WORKFLOW,
)
from cleanup_orchestrator.plugins.workflow.executions import ACTION_EXECUTION, CRON_TRIGGER, EVENT_TRIGGER, EXECUTION
from cleanup_orchestrator.plugins.workflow.listing import ALL, TYPE

OPTIONS = (
    cfg.BoolOpt(
        "delete_shared_definitions",
        default=False,
        help="Delete workflows, workbooks, actions, environments and code that are public, and workflows that other "
        "projects have accepted as shared ones. Any member of a project may share a workflow with any other project. "
        "By default only an admin can make something public. Without this option such a resource blocks the deletion "
        "of the project, also a cascade, until it is made private, or the sharing is ended. If the project is gone, "
        "nothing shows which workflows others have accepted: then each of its workflows is left.",
    ),
    cfg.BoolOpt(
        "keep_action_executions",
        default=False,
        help="Do not count the completed action executions that users started without a workflow: they are records, "
        "and stay in the database of Mistral. This is for clouds in which Mistral deletes none of them: "
        "allow_action_execution_deletion in mistral.conf is false by default. Without both options such an action "
        "execution blocks the deletion of its project.",
    ),
)

SERVICE = Service(
    service_type=TYPE,
    contract_version=2,
    after=CONTROLLERS,
    options=OPTIONS,
    # Mistral answers 403 to callers without the role admin. The lists show these callers only their own project.
    proof=Rest(TYPE, "/executions", query={**ALL, "fields": "id", "limit": 1}),
    roles="admin on the project to be deleted for workflows, workbooks, actions, environments and action executions; "
    "admin for the others",
    types=(
        CRON_TRIGGER,
        EVENT_TRIGGER,
        EXECUTION,
        ACTION_EXECUTION,
        ACTION,
        WORKFLOW,
        WORKBOOK,
        ENVIRONMENT,
        CODE_SOURCE,
        DYNAMIC_ACTION,
    ),
)
