"""Mistral: everything that runs, starts or is defined is deleted; other projects keep what has the same name."""

from __future__ import annotations

import dataclasses
import time

import pytest

from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Token
from cleanup_orchestrator.plugins.base import Rest
from cleanup_orchestrator.plugins.workflow import SERVICE, listing
from tests.cloud.filler import fill
from tests.cloud.fillings.base import Filling
from tests.cloud.fillings.workflow import WORKBOOK, inside, mistral, plain
from tests.support import sweeps

CLOUD = ("mistral",)
TYPES = {type_.name: type_ for type_ in SERVICE.types}
#: The rows of a filled project.
ROWS = {
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
}


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


def alive(sweeper, filled):
    found = sweeper.live(filled.project_id, "mistral.", "keystone.trust")
    return {table: count for table, count in found.items() if table not in SCHEDULED}


def steady(text):
    return [line for line in text.splitlines() if not any(table in line for table in SCHEDULED)]


def found_by(sweeper, filled, type_, **options):
    sweeper.enter(filled)
    project_id = filled.project_id if type_.token is Token.PROJECT else None
    definition = sweeper.definition(SERVICE, filled, **options)
    return sweeps.inventory(type_, sweeper.connection(project_id), definition)


def delete(sweeper, filled, name, **options):
    sweeper.enter(filled)
    type_ = TYPES[name]
    project_id = filled.project_id if type_.token is Token.PROJECT else None
    definition = sweeper.definition(SERVICE, filled, **options)
    return sweeps.delete(type_, sweeper.connection(project_id, write=True), definition)


def test_an_inventory_finds_all_and_changes_nothing(projects, further_sweeper):
    target, _ = projects
    further_sweeper.enter(target)
    before = steady(further_sweeper.dump("mistral"))
    for name, type_ in TYPES.items():
        found = found_by(further_sweeper, target, type_)
        assert {left.id for left in found.leftovers} == set(target.ids[name]), (name, found)
    assert steady(further_sweeper.dump("mistral")) == before
    assert alive(further_sweeper, target) == ROWS


def test_all_pages_are_listed(projects, further_sweeper, monkeypatch):
    """Mistral does not find a marker that is in a namespace, or that it looks for by name. Two rows have each time."""
    target, _ = projects
    monkeypatch.setattr(listing, "LIMIT", 3)
    for name, type_ in TYPES.items():
        rows = further_sweeper.rows("mistral", f"SELECT id FROM {TABLES[name]} ORDER BY created_at, id")
        for number, (id_,) in enumerate(rows):
            sql = f"UPDATE {TABLES[name]} SET created_at = '2026-01-01' + INTERVAL ? SECOND WHERE id = ?"
            further_sweeper.rows("mistral", sql, number // 2, id_)
        if isinstance(type_.list, Rest):
            type_ = dataclasses.replace(type_, list=dataclasses.replace(type_.list, limit=1))
        found = found_by(further_sweeper, target, type_)
        assert {left.id for left in found.leftovers} == set(target.ids[name]), (name, found)


def test_an_orphan_scan_sees_the_owner_of_each(projects, further_sweeper):
    target, neighbour = projects
    for name, type_ in TYPES.items():
        view = type_.all_projects_view()
        found = sweeps.inventory(view, further_sweeper.connection(), further_sweeper.definition(SERVICE, target))
        assert {left.id for left in found.leftovers} == set(target.ids[name])
        assert found.facts["others_ignored"] >= len(neighbour.ids[name])


@pytest.mark.parametrize("name", [name for name, type_ in TYPES.items() if type_.token is Token.ADMIN])
def test_a_caller_without_the_admin_role_never_sees_an_empty_project(projects, further_sweeper, name):
    target, neighbour = projects
    definition = further_sweeper.definition(SERVICE, target)
    found = sweeps.inventory(TYPES[name], neighbour.connection, definition)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


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
    swept = delete(further_sweeper, target, name)
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
    swept = delete(further_sweeper, filled, "environment")
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
    (left,) = delete(further_sweeper, filled, "workflow").leftovers
    assert left.reason == Reason.PROTECTED
    assert "other projects have accepted it as a shared workflow: 1;" in left.message
    assert other.project_id not in left.message, "all readers of the deletion see the message"
    (left,) = delete(further_sweeper, filled, "workflow", delete_shared_definitions=True).leftovers
    assert left.reason == Reason.FOREIGN
    assert left.blocked_by == (
        {"type": "workflow.cron_trigger", "id": trigger_id, "owner": other.project_id, "name": "theirs"},
    )
    theirs.call("DELETE", f"/cron_triggers/{trigger_id}")
    swept = delete(further_sweeper, filled, "workflow", delete_shared_definitions=True)
    assert swept.outcome is Outcome.CLEAR
    assert alive(further_sweeper, filled) == alive(further_sweeper, other) == {}


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
    (left,) = delete(further_sweeper, filled, "code_source").leftovers
    assert left.reason == Reason.PROTECTED
    (left,) = delete(further_sweeper, filled, "code_source", delete_shared_definitions=True).leftovers
    assert left.reason == Reason.FOREIGN
    assert [each["id"] for each in left.blocked_by] == [action]
    mistral(further_admin).call("DELETE", f"/dynamic_actions/{action}")
    assert delete(further_sweeper, filled, "code_source", delete_shared_definitions=True).outcome is Outcome.CLEAR


def test_everything_is_deleted_and_the_neighbour_keeps_all(projects, further_sweeper, further_admin):
    """One workbook and one environment of the target were tried before."""
    target, neighbour = projects
    theirs = steady(further_sweeper.dump_of(neighbour.project_id))
    swept = further_sweeper.delete(SERVICE, target)
    assert {name: result.outcome for name, result in swept.items()} == dict.fromkeys(TYPES, Outcome.CLEAR)
    assert alive(further_sweeper, target) == {}
    assert alive(further_sweeper, neighbour) == ROWS
    assert steady(further_sweeper.dump_of(neighbour.project_id)) == theirs


def test_a_project_that_keystone_has_deleted(further_admin, further_sweeper):
    """Its trusts are gone, too. What Mistral deletes only with a token of the project is named."""
    filled = fill(further_admin, "workflow-orphan", only=["workflow"])
    further_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    definition = dataclasses.replace(further_sweeper.definition(SERVICE, filled), gone=True)
    left = {}
    for name, type_ in TYPES.items():
        asked = type_.for_missing_project(True)
        swept = sweeps.delete(asked, further_sweeper.connection(write=True), definition)
        assert swept.found == (0 if name == "dynamic_action" else len(filled.ids[name]))  # deleted with the code
        left[name] = {each.reason for each in swept.leftovers}
    named = ("action_execution", "workbook", "environment", "workflow")
    assert left == {name: {Reason.PROJECT_GONE} if name in named else set() for name in TYPES}
    assert alive(further_sweeper, filled) == {
        f"mistral.{table}": ROWS[f"mistral.{table}"] for table in ("workbooks_v2", "environments_v2")
    } | {"mistral.action_executions_v2": 2, "mistral.workflow_definitions_v2": 5}
    definition = dataclasses.replace(definition, options={"delete_shared_definitions": True})
    swept = sweeps.delete(
        TYPES["workflow"].for_missing_project(True), further_sweeper.connection(write=True), definition
    )
    assert swept.outcome is Outcome.CLEAR


def test_the_orchestrator_deletes_the_project_with_everything(orchestrator, further_admin, further_sweeper):
    """The catalog has Mistral under an alias of its official type. Without a janitor nothing is cancelled."""
    filled = fill(further_admin, "workflow-whole", only=["workflow"])
    assert alive(further_sweeper, filled) == ROWS
    deletion = orchestrator.request(filled.project_id, Mode.CASCADE)

    def refused(record):
        steps = orchestrator.store.steps(deletion)
        return Reason.NO_JANITOR in {each.reason for each in blockers(record, steps)}

    orchestrator.wait(deletion, until=refused)
    running = f"/action_executions/{filled.first('action_execution', 1)}"
    mistral(further_admin).call("PUT", running, {"state": "CANCELLED"})
    orchestrator.wait(deletion, Status.DELETED)
    assert alive(further_sweeper, filled) == {}
    # A check of each execution was due within two minutes. It is made, and its row is gone.
    further_sweeper.cloud.mariadb.sql("UPDATE delayed_calls_v2 SET execution_time = UTC_TIMESTAMP()", "mistral")
    until = time.monotonic() + 60
    while further_sweeper.live(filled.project_id, *SCHEDULED) and time.monotonic() < until:
        time.sleep(0.5)
    assert further_sweeper.live(filled.project_id, "mistral.", "keystone.trust") == {}
