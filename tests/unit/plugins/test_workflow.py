"""Mistral: pages by time, deletes by name, and action executions that Mistral keeps."""

import dataclasses

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.selection import Selection
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.base import Resource
from cleanup_orchestrator.plugins.workflow import SERVICE, listing
from tests.support import sweeps
from tests.unit.answers import connection, project

TYPES = {type_.name: type_ for type_ in SERVICE.types}
ENVIRONMENT, ACTION_EXECUTION = TYPES["environment"], TYPES["action_execution"]
FULL = {"next": "http://elsewhere/v2/environments?marker=x"}


def row(number, second, **more):
    return {"id": f"id-{number}", "name": f"name-{number}", "project_id": "p", "scope": "private",
            "created_at": f"2026-01-01 00:00:{second:02}", "updated_at": None, **more}  # fmt: skip


class Environments:
    """Environments as Mistral handles them: the database decides whether names are equal."""

    def __init__(self, *rows):
        self.rows = list(rows)

    def answer(self, method, path, query, body):
        if method == "DELETE":
            name = path.removeprefix("/environments/").casefold()
            self.rows = [each for each in self.rows if each["name"].casefold() != name]
            return 204, ""
        found = self.rows
        if "name" in query:
            found = [each for each in found if "eq:" + each["name"].casefold() == query["name"].casefold()]
        if "created_at" in query:
            found = [each for each in found if "gte:" + each["created_at"] >= query["created_at"]]
        limit = query.get("limit", 1000)
        return 200, {"environments": found[:limit], **(FULL if len(found) >= limit else {})}


@pytest.mark.parametrize(
    ("seconds", "complete"),
    [
        ([], True),
        ([1, 2], True),
        ([1, 2, 3], True),  # a full page
        ([1, 2, 3, 4, 5, 6, 7, 8], True),
        ([1, 1, 2, 2, 3, 3, 4, 4], True),
        ([1, 2, 2, 2, 3], False),  # no page begins after the three of one second
        ([1, 1, 1], False),
    ],
)
def test_pages_by_time_are_complete_or_the_list_is_unknown(monkeypatch, seconds, complete):
    monkeypatch.setattr(listing, "LIMIT", 3)
    mistral = Environments(*(row(number, second) for number, second in enumerate(seconds)))
    found = sweeps.inventory(ENVIRONMENT, connection(workflow=mistral.answer), project())
    if complete:
        assert [left.id for left in found.leftovers] == [each["id"] for each in mistral.rows]
    else:
        assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (row(2, 1, name="Mine", project_id="q", scope="public"), Reason.FOREIGN),
        (row(2, 1, name="Mine", project_id="q", scope=None), Reason.FOREIGN),  # Mistral does not say that it is private
        (row(2, 1, name="Mine", project_id="q"), None),  # a private one of another project stays where it is
        (row(2, 1, name="other", project_id="q", scope="public"), None),
    ],
)
def test_a_delete_by_name_spares_what_others_made_public(other, reason):
    mistral = Environments(row(1, 1, name="mine"), other)
    cloud = connection(workflow=mistral.answer)
    swept = sweeps.delete(ENVIRONMENT, cloud, project())
    assert [left.reason for left in swept.leftovers] == ([reason] if reason else [])
    deleted = [path for method, path, _ in cloud.workflow.asked if method == "DELETE"]
    assert deleted == ([] if reason else ["/environments/mine"])


@pytest.mark.parametrize(("name", "path"), [("a{b}c", "/environments/a%7Bb%7Dc"), ("eq:a", "/environments/eq%3Aa")])
def test_a_name_is_no_template_and_no_filter(name, path):
    mistral = Environments(row(1, 1, name=name))
    cloud = connection(workflow=mistral.answer)
    sweeps.delete(ENVIRONMENT, cloud, project())
    assert path in [asked for method, asked, _ in cloud.workflow.asked if method == "DELETE"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_a_name_that_no_address_can_have_is_reported(name):
    mistral = Environments(row(1, 1, name=name))
    (left,) = sweeps.delete(ENVIRONMENT, connection(workflow=mistral.answer), project()).leftovers
    assert left.reason == Reason.NOT_SUPPORTED
    assert len(mistral.rows) == 1


@pytest.mark.parametrize("option", [False, True])
@pytest.mark.parametrize(
    ("text", "reason"),
    [("Action execution deletion is not allowed.", Reason.NOT_SUPPORTED), ("Policy forbids it", Reason.FORBIDDEN)],
)
def test_action_executions_that_mistral_keeps(option, text, reason):
    one = {"id": "a", "name": "std.noop", "project_id": "p", "state": "SUCCESS", "task_execution_id": None}
    of_a_task = {**one, "id": "b", "task_execution_id": "t"}

    def answer(method, path, query, body):
        if method == "DELETE":
            return 403, {"faultstring": text}
        return 200, (one if path == "/action_executions/a" else {"action_executions": [one, of_a_task]} if
                     "marker" not in query else {"action_executions": []})  # fmt: skip

    swept = sweeps.delete(ACTION_EXECUTION, connection(workflow=answer), project(keep_action_executions=option))
    assert [(left.id, left.reason) for left in swept.leftovers] == ([] if option else [("a", reason)])


@pytest.mark.parametrize("name", [name for name, type_ in TYPES.items() if type_.tags])
@pytest.mark.parametrize("kept", [["nightly"], []])
def test_the_tags_are_read_again_right_before_the_delete(name, kept):
    """Mistral shows only the attributes that the query names, where it names any."""
    collection = f"{name}s"
    listed, deleted = row(1, 1, namespace="", tags=["nightly"]), []

    def answer(method, path, query, body):
        if method == "DELETE":
            deleted.append(path)
            return 204, ""
        asked = path.rpartition("/")[2]
        shown = listed if asked == collection and "name" not in query else {**listed, "tags": kept}
        shown = {key: shown[key] for key in query.get("fields", ",".join(shown)).split(",")}
        if asked == listed["id"]:
            return 200, shown
        return 200, {asked: [] if deleted or asked != collection or "marker" in query else [shown]}

    selection = Selection(tags=("nightly",))
    sweeps.delete(TYPES[name], connection(workflow=answer), project(), name=f"workflow.{name}", selection=selection)
    assert len(deleted) == len(kept)


@pytest.mark.parametrize(("option", "deleted"), [(False, False), (True, True)])
def test_a_workflow_of_a_project_that_is_gone_is_deleted_only_with_the_option(option, deleted):
    """Mistral shows an admin no members of another project's workflow, and so none at all."""
    rows = [row(1, 1, namespace="")]

    def answer(method, path, query, body):
        if method == "DELETE":
            rows.clear()
            return 204, ""
        if path == "/workflows/id-1":
            return 200, rows[0]
        collection = path.rpartition("/")[2]
        return 200, {collection: rows if collection == "workflows" and "marker" not in query else []}

    dead = dataclasses.replace(project(delete_shared_definitions=option), gone=True)
    swept = sweeps.delete(TYPES["workflow"].for_missing_project(True), connection(workflow=answer), dead)
    assert (rows == []) is deleted
    assert [left.reason for left in swept.leftovers] == ([] if deleted else [Reason.PROJECT_GONE])
    if not deleted:
        assert "is unknown: Mistral shows this only to a token of its project" in swept.leftovers[0].message


@pytest.mark.parametrize(
    ("action", "stays"),
    [
        ({}, False),
        ({"project_id": "them"}, True),
        ({"scope": "public"}, True),  # the project's own, which others may use
        ({"project_id": "them", "code_source_id": "another"}, False),
    ],
    ids=str,
)
def test_a_code_source_stays_if_actions_of_others_are_made_of_it(action, stays):
    made = row(1, 1, namespace="", code_source_id="source") | action
    mistral = connection(workflow=lambda *_: (200, {"dynamic_actions": [made]}))
    source = Resource("source", "source", "p", {"id": "source", "scope": "private"})
    verdict = sweeps.before_delete(TYPES["code_source"], mistral, project(), source)
    assert [each["id"] for each in (verdict.blocked_by if verdict else ())] == (["id-1"] if stays else [])
