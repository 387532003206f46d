"""Mistral: everything that runs, starts or is defined is deleted; other projects keep what has the same name."""

from __future__ import annotations

import dataclasses

import pytest

from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.workflow import SERVICE, listing
from tests.cloud.common import (  # noqa: F401
    Case,
    test_a_caller_without_the_admin_role_never_sees_an_empty_project,
    test_a_list_of_all_projects_shows_what_each_has,
    test_an_inventory_finds_everything_and_changes_nothing,
    test_every_page_is_read,
    until,
)
from tests.cloud.filler import fill
from tests.cloud.fillings.base import Filling
from tests.cloud.fillings.workflow import WORKBOOK, inside, mistral, plain
from tests.support import sweeps

CLOUD = ("mistral",)
#: Calls that Mistral has scheduled for the executions: they change by themselves, and end.
SCHEDULED = ("mistral.delayed_calls_v2", "mistral.scheduled_jobs_v2")
TABLES = {
    "action": "action_definitions_v2",
    "action_execution": "action_executions_v2",
    "code_source": "code_sources",
    "cron_trigger": "cron_triggers_v2",
    "dynamic_action": "dynamic_action_definitions",
    "environment": "environments_v2",
    "event_trigger": "event_triggers_v2",
    "execution": "workflow_executions_v2",
    "workbook": "workbooks_v2",
    "workflow": "workflow_definitions_v2",
}


def pair(sweeper, filled, neighbour):
    """Give each two rows one time: Mistral does not find a marker in a namespace, or one that it looks for by name."""
    for table in TABLES.values():
        for number, (id_,) in enumerate(sweeper.rows("mistral", f"SELECT id FROM {table} ORDER BY created_at, id")):
            sql = f"UPDATE {table} SET created_at = '2026-01-01' + INTERVAL ? SECOND WHERE id = ?"
            sweeper.rows("mistral", sql, number // 2, id_)


CASE = Case(
    SERVICE,
    rows={
        "mistral.action_definitions_v2": 3,
        "mistral.action_executions_v2": 5,  # three of them of tasks
        "mistral.code_sources": 2,
        "mistral.cron_triggers_v2": 1,
        "mistral.dynamic_action_definitions": 2,
        "mistral.environments_v2": 3,
        "mistral.event_triggers_v2": 1,
        "mistral.task_executions_v2": 4,
        "mistral.workbooks_v2": 1,
        "mistral.workflow_definitions_v2": 5,
        "mistral.workflow_executions_v2": 3,
        "keystone.trust": 2,
    },
    found={
        "action": 3, "action_execution": 2, "code_source": 2, "cron_trigger": 1, "dynamic_action": 2, "environment": 3,
        "event_trigger": 1, "execution": 3, "workbook": 1, "workflow": 5,
    },
    prepare=pair,
    volatile=SCHEDULED,
    views=TABLES,
    pages=((listing, "LIMIT", 3),),
)  # fmt: skip


@pytest.fixture(scope="module")
def publisher(further_admin):
    """A member of a third project. An admin's workbook would take the workflows of the target's or the neighbour's."""
    return fill(further_admin, "workflow-publisher", only=[])


@pytest.fixture
def published(publisher, further_sweeper):
    """A third project has a public workbook and a public environment, which only an admin may publish."""
    rest = mistral(publisher.connection)
    plain(rest, "/workbooks", WORKBOOK.format(name="BOOK"), namespace="team")
    rest.call("POST", "/environments", {"name": "Settings", "variables": "{}"})
    for table in ("workbooks_v2", "environments_v2"):
        sql = f"UPDATE {table} SET scope = 'public' WHERE project_id = ?"
        further_sweeper.rows("mistral", sql, publisher.project_id)
    yield
    for path in ("workbooks/BOOK", "workflows/BOOK.inner", "actions/BOOK.spoken"):
        rest.call("DELETE", f"/{path}", params={"namespace": "team"}, ok=[404])
    rest.call("DELETE", "/environments/Settings", ok=[404])


@pytest.mark.parametrize("name", ["workbook", "environment"])
def test_a_public_resource_of_another_project_with_that_name_is_not_deleted(projects, further_sweeper, published, name):
    """Mistral would delete both, and for MariaDB the case of letters does not count."""
    target, _ = projects
    swept = CASE.deleted_by(further_sweeper, target, name)
    refused = [left for left in swept.leftovers if left.reason == Reason.FOREIGN]
    assert [left.id for left in refused] == [target.first(name)]
    assert len(refused[0].blocked_by) == 1
    assert further_sweeper.rows("mistral", f"SELECT COUNT(*) FROM {TABLES[name]} WHERE scope = 'public'") == [(1,)]
    for_all = {left.id for left in swept.leftovers}
    assert for_all == {target.first(name)}, "the others are deleted"


def test_a_delete_by_name_would_delete_a_public_resource_of_another_project(further_admin, further_sweeper, published):
    """Why the plugin must not do that."""
    filled = fill(further_admin, "workflow-careless", only=[])
    rest = mistral(filled.connection)
    rest.call("POST", "/environments", {"name": "settings", "variables": "{}"})
    rest.call("DELETE", "/environments/settings")
    assert further_sweeper.rows("mistral", "SELECT name FROM environments_v2 WHERE scope = 'public'") == []


def test_a_name_with_a_slash_is_reported(further_admin, further_sweeper):
    filled = fill(further_admin, "workflow-slash", only=[])
    for name in ("a/b", "..", ""):
        mistral(filled.connection).call("POST", "/environments", {"name": name, "variables": "{}"})
    swept = CASE.deleted_by(further_sweeper, filled, "environment")
    assert {(left.name, left.reason) for left in swept.leftovers} == {
        (name, Reason.NOT_SUPPORTED) for name in ("a/b", "..", "")
    }
    assert "environments_v2" in swept.leftovers[0].message


def test_a_workflow_that_others_have_accepted_is_not_deleted(further_admin, further_sweeper):
    filled = fill(further_admin, "workflow-shares", only=[])
    other = fill(further_admin, "workflow-accepts", only=[])
    body = "version: '2.0'\nshared:\n  tasks:\n    one:\n      action: std.noop\n"
    workflow_id = plain(mistral(filled.connection), "/workflows", body)["workflows"][0]["id"]
    path = f"/workflows/{workflow_id}/members"
    mistral(filled.connection).call("POST", path, {"member_id": other.project_id})
    theirs = mistral(other.connection)
    theirs.call("PUT", f"{path}/{other.project_id}", {"status": "accepted"})
    trigger = {"name": "theirs", "workflow_id": workflow_id, "pattern": "0 0 1 1 *", "workflow_input": "{}"}
    trigger_id = theirs.call("POST", "/cron_triggers", trigger)["id"]
    (left,) = CASE.deleted_by(further_sweeper, filled, "workflow").leftovers
    assert left.reason == Reason.PROTECTED
    assert "other projects have accepted it as a shared workflow: 1;" in left.message
    assert other.project_id not in left.message, "all readers of the deletion see the message"
    (left,) = CASE.deleted_by(further_sweeper, filled, "workflow", delete_shared_definitions=True).leftovers
    assert left.reason == Reason.FOREIGN
    assert left.blocked_by == (
        {"type": "workflow.cron_trigger", "id": trigger_id, "owner": other.project_id, "name": "theirs"},
    )
    theirs.call("DELETE", f"/cron_triggers/{trigger_id}")
    swept = CASE.deleted_by(further_sweeper, filled, "workflow", delete_shared_definitions=True)
    assert swept.outcome is Outcome.CLEAR
    assert CASE.alive(further_sweeper, filled) == CASE.alive(further_sweeper, other) == {}


def test_code_that_other_projects_use_is_not_deleted(further_admin, further_sweeper):
    """Mistral's database deletes the dynamic actions of a code source with it."""
    filled = fill(further_admin, "workflow-code", only=[])
    rest = inside(Filling(further_admin, filled, 0, 0))
    code = (
        "from mistral_lib import actions\n\n\nclass A(actions.Action):\n    def run(self, context):\n        return 1\n"
    )
    source = plain(rest, "/code_sources", code, name="lent", scope="public")["id"]
    body = {"name": "borrowed", "class_name": "A", "code_source_id": source}
    action = mistral(further_admin).call("POST", "/dynamic_actions", body)["id"]
    (left,) = CASE.deleted_by(further_sweeper, filled, "code_source").leftovers
    assert left.reason == Reason.PROTECTED
    (left,) = CASE.deleted_by(further_sweeper, filled, "code_source", delete_shared_definitions=True).leftovers
    assert left.reason == Reason.FOREIGN
    assert [each["id"] for each in left.blocked_by] == [action]
    mistral(further_admin).call("DELETE", f"/dynamic_actions/{action}")
    swept = CASE.deleted_by(further_sweeper, filled, "code_source", delete_shared_definitions=True)
    assert swept.outcome is Outcome.CLEAR


def test_everything_is_deleted_and_the_neighbour_keeps_all(projects, further_sweeper, further_admin):
    """One workbook and one environment of the target were tried before."""
    target, neighbour = projects
    theirs = CASE.rows_of(further_sweeper, neighbour)
    swept = further_sweeper.delete(SERVICE, target)
    assert {name: result.outcome for name, result in swept.items()} == dict.fromkeys(CASE.types, Outcome.CLEAR)
    assert CASE.alive(further_sweeper, target) == {}
    assert CASE.alive(further_sweeper, neighbour) == CASE.rows
    assert CASE.rows_of(further_sweeper, neighbour) == theirs


def test_a_project_that_keystone_has_deleted(further_admin, further_sweeper):
    """Its trusts are gone, too. What Mistral deletes only with a token of the project is named."""
    filled = fill(further_admin, "workflow-orphan", only=["workflow"])
    further_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    definition = dataclasses.replace(further_sweeper.definition(SERVICE, filled), gone=True)
    left = {}
    for name, type_ in CASE.types.items():
        asked = type_.for_missing_project(True)
        swept = sweeps.delete(asked, further_sweeper.connection(write=True), definition)
        assert swept.found == (0 if name == "dynamic_action" else len(filled.ids[name]))  # deleted with the code
        left[name] = {each.reason for each in swept.leftovers}
    named = ("action_execution", "workbook", "environment", "workflow")
    assert left == {name: {Reason.PROJECT_GONE} if name in named else set() for name in CASE.types}
    assert CASE.alive(further_sweeper, filled) == {
        f"mistral.{table}": CASE.rows[f"mistral.{table}"] for table in ("workbooks_v2", "environments_v2")
    } | {"mistral.action_executions_v2": 2, "mistral.workflow_definitions_v2": 5}
    definition = dataclasses.replace(definition, options={"delete_shared_definitions": True})
    swept = sweeps.delete(
        CASE.types["workflow"].for_missing_project(True), further_sweeper.connection(write=True), definition
    )
    assert swept.outcome is Outcome.CLEAR


def test_the_orchestrator_deletes_the_project_with_everything(orchestrator, further_admin, further_sweeper):
    """The catalog has Mistral under an alias of its official type. Without a janitor nothing is cancelled."""
    filled = fill(further_admin, "workflow-whole", only=["workflow"])
    assert CASE.alive(further_sweeper, filled) == CASE.rows
    deletion = orchestrator.request(filled.project_id, Mode.CASCADE)

    def refused(record):
        steps = orchestrator.store.steps(deletion)
        return Reason.NO_JANITOR in {each.reason for each in blockers(record, steps)}

    orchestrator.wait(deletion, until=refused)
    running = f"/action_executions/{filled.first('action_execution', 1)}"
    mistral(further_admin).call("PUT", running, {"state": "CANCELLED"})
    orchestrator.wait(deletion, Status.DELETED)
    assert CASE.alive(further_sweeper, filled) == {}
    # A check of each execution was due within two minutes. It is made, and its row is gone.
    further_sweeper.cloud.mariadb.sql("UPDATE delayed_calls_v2 SET execution_time = UTC_TIMESTAMP()", "mistral")
    until(lambda: further_sweeper.live(filled.project_id, *SCHEDULED), lambda found: not found, 60)
    assert further_sweeper.live(filled.project_id, "mistral.", "keystone.trust") == {}
