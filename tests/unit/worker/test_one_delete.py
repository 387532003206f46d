"""The delete of one resource: its token, force, another try, and the reason of a refusal."""

import dataclasses

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.errors import Stopped
from cleanup_orchestrator.plugins.base import ForcedDelete, ProjectDefinition, Refused, Verdict
from tests.support import sweeps
from tests.unit.worker.test_deleting import HttpError, Shelf, row, run

US = ProjectDefinition("us", "Us", "default", "R1")


def test_the_type_gives_the_reason_of_a_refused_delete():
    shelf = Shelf(row("1"))
    shelf.refuse["1"] = HttpError(409)
    blocker = ({"type": "port", "id": "x", "owner": "them"},)
    result = run(shelf.type(explain=lambda *_: Verdict(Reason.FOREIGN, "their port is on it", blocker)))
    assert result.leftovers[0].blocked_by == blocker


def test_a_failing_explanation_hides_nothing():
    shelf = Shelf(row("1"))
    shelf.refuse["1"] = HttpError(409)

    def explain(*_):
        raise HttpError(500)

    assert run(shelf.type(explain=explain)).leftovers[0].reason is Reason.IN_USE


def test_a_resource_that_cannot_be_read_was_not_refused_its_delete():
    """What an explanation would name refused nothing: the way out is that its service shows the resource again."""
    shelf = Shelf(row("1"))

    def broken(*_):
        raise HttpError(500)

    result = run(shelf.type(show=broken, explain=lambda *_: Verdict(Reason.IN_USE, "it is used by the project's port")))
    assert (shelf.deletes, result.reason) == ([], Reason.ERROR)
    assert result.message == "it could not be read right before its delete: HTTP 500"


def test_prepare_runs_before_the_delete_and_its_refusal_stops_it():
    shelf, order = Shelf(row("1")), []

    def clear(*_):
        order.append("clear")
        raise HttpError(409)

    result = run(shelf.type(prepare=(clear,)))
    assert (order, shelf.deletes) == (["clear"], [])
    assert result.leftovers[0].reason is Reason.IN_USE


class Stubborn(Shelf):
    """What it holds goes by force alone."""

    def __init__(self, *rows):
        super().__init__(*rows)
        self.forced = []
        self.prepared = []

    def prepare(self, _connection, _project, resource):
        self.prepared.append(resource.id)

    def force(self, _connection, _project, resource):
        self.forced.append(resource.id)
        if resource.id in self.refuse:
            raise self.refuse[resource.id]
        self.rows.pop(resource.id, None)

    def type(self, **values):
        return super().type(force=ForcedDelete(self.force), prepare=(self.prepare,), **values)


def test_force_is_used_on_what_was_left_and_on_nothing_else():
    shelf = Stubborn(row("1"), row("2"), row("3", owner="them"))
    result = run(shelf.type(), stuck={"1", "3"})
    assert (shelf.forced, shelf.deletes, shelf.prepared) == (["1"], ["2"], ["2"])
    assert {id_ for id_, _ in result.deleted} == {"1", "2"}
    assert shelf.rows.keys() == {"3"}


def test_without_force_it_is_never_used():
    shelf = Stubborn(row("1"))
    shelf.slow = {"1"}
    for attempt in range(1, 6):
        run(shelf.type(), attempt=attempt)
    assert shelf.forced == []


def test_a_type_without_force_gets_an_ordinary_delete_again():
    shelf = Shelf(row("1"))
    run(shelf.type(), stuck={"1"})
    assert shelf.deletes == ["1"]


@pytest.mark.parametrize("why", ["owner", "mark", "keep"])
def test_force_takes_nothing_that_an_ordinary_delete_would_not_take(why):
    shelf = Stubborn(row("1"))
    values = {
        "owner": {"show": lambda *_: row("1", owner="them")},
        "mark": {"protect": (lambda *_: "it is public",)},
        "keep": {"keep": (lambda *_: "it is the operator's",)},
    }
    result = run(shelf.type(**values[why]), stuck={"1"})
    assert shelf.forced == [] and shelf.rows.keys() == {"1"}
    assert result.kept == (why == "keep")
    assert [left.reason for left in result.leftovers] == (
        {"owner": [Reason.OWNER_UNKNOWN], "mark": [Reason.PROTECTED], "keep": []}[why]
    )


def test_a_refused_forced_delete_leaves_the_text_of_the_refusal():
    shelf = Stubborn(row("1"))
    shelf.refuse["1"] = Refused(Verdict(Reason.FOREIGN, "another project's snapshot holds it"))
    [left] = run(shelf.type(), stuck={"1"}).leftovers
    assert (left.reason, left.message) == (Reason.FOREIGN, "another project's snapshot holds it")


def test_what_force_does_not_find_is_left_as_long_as_it_is_listed():
    shelf = Stubborn(row("1"))
    shelf.refuse["1"] = HttpError(404)
    result = run(shelf.type(), stuck={"1"})
    assert [left.reason for left in result.leftovers] == [Reason.REFUSED], "the second listing is the truth"


def acting(shelf, **values):
    """A type whose deletes are told apart by the connection that they are made with."""
    made = []

    def delete(connection, project, resource):
        made.append((connection, resource.id))
        shelf.delete(connection, project, resource)

    return shelf.type(delete=delete, **values), made


def test_what_acts_on_what_users_wrote_is_deleted_with_the_janitors_token_alone():
    type_, made = acting(Shelf(row("1"), row("2")), user_content="a template")
    assert run(type_, janitor=lambda: "janitor").outcome is Outcome.CLEAR
    assert made == [("janitor", "1"), ("janitor", "2")]


def test_force_is_used_with_the_janitors_token_too():
    shelf, forced = Shelf(row("1")), []
    type_ = shelf.type(user_content="a template", force=ForcedDelete(lambda connection, *_: forced.append(connection)))
    run(type_, janitor=lambda: "janitor", stuck={"1"})
    assert (forced, shelf.deletes) == (["janitor"], [])


def test_without_a_janitor_nothing_is_changed_and_the_reason_is_reported():
    prepared = []
    shelf = Shelf(row("1"))
    type_, made = acting(shelf, user_content="a template", prepare=(lambda *_: prepared.append(1),))
    result = run(type_)
    assert [(left.id, left.reason) for left in result.leftovers] == [("1", Reason.NO_JANITOR)]
    assert (made, prepared) == ([], [])


def test_what_acts_on_nothing_needs_no_janitor():
    type_, made = acting(Shelf(row("1")))
    assert run(type_).outcome is Outcome.CLEAR
    assert made == [(None, "1")]


def test_where_only_some_act_the_others_need_no_janitor():
    type_, made = acting(
        Shelf(row("1", evil=True), row("2")), user_content="an address", has_user_content=lambda one: "evil" in one.data
    )
    assert run(type_, janitor=lambda: "janitor").outcome is Outcome.CLEAR
    assert made == [("janitor", "1"), (None, "2")]


def test_what_has_come_to_act_since_it_was_listed_is_deleted_with_the_janitors_token():
    shelf = Shelf(row("1"))
    type_, made = acting(
        shelf,
        user_content="an address",
        has_user_content=lambda one: "evil" in one.data,
        show=lambda *_: {**row("1"), "evil": True},
    )
    run(type_, janitor=lambda: "janitor")
    assert made == [("janitor", "1")]


def test_a_project_that_is_gone_needs_no_janitor():
    type_, made = acting(Shelf(row("1")), user_content="a template")
    gone = dataclasses.replace(US, gone=True)
    assert sweeps.delete(type_, None, gone, parallel=1).outcome is Outcome.CLEAR
    assert made == [(None, "1")]


@pytest.mark.parametrize(("helps", "tries"), [(True, 2), (False, 1)])
def test_a_refused_delete_is_made_once_more_where_what_refused_it_was_removed(helps, tries):
    shelf = Shelf(row("1"))
    shelf.refuse["1"] = HttpError(500)
    asked = []

    def unblock(*arguments):
        asked.append(arguments[:2])
        return helps

    type_, made = acting(shelf, user_content="a template", unblock=unblock)
    run(type_, janitor=lambda: "janitor")
    assert made == [("janitor", "1")] * tries, "what is made once more is made with the same token"
    assert asked == [(None, "janitor")]


def test_a_cancel_is_no_refusal():
    shelf = Shelf(row("1"))
    shelf.refuse["1"] = Stopped("cancelled")
    type_, _ = acting(shelf, user_content="a template", unblock=lambda *_: pytest.fail("asked"))
    assert run(type_, janitor=lambda: "janitor").reason == Reason.STOPPED
