"""What is listed: which lists are believed, and whose the listed resources are."""

import pytest

from cleanup_orchestrator.cloud.session import read_only
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.base import SCOPED, ProjectDefinition
from tests.support import sweeps
from tests.unit.worker.test_deleting import HttpError, Journal, Listed, Shelf, _going, row, run

US = ProjectDefinition("us", "Us", "default", "R1")


class ServiceDisabledException(Exception):
    """openstacksdk's error for a service that the catalog does not have."""


class NotSupported(Exception):
    """What the SDK raises when nothing at an endpoint says which versions it speaks."""


def test_an_object_whose_owner_is_missing_is_protected():
    shelf = Shelf(row("1", owner=None), row("2", owner=""))
    result = run(shelf.type())
    assert {leftover.reason for leftover in result.leftovers} == {Reason.OWNER_UNKNOWN}
    assert shelf.deletes == []


@pytest.mark.parametrize("owner", [None, "", "U-S"])
def test_what_may_be_the_projects_is_not_kept_although_a_rule_of_its_type_would_keep_it(owner):
    """What is kept is no leftover: the project would count as empty."""
    shelf = Shelf(row("1", owner=owner))
    result = sweeps.delete(shelf.type(keep=(lambda *_: "it is the operator's",)), None, US, parallel=1)
    assert [(left.id, left.reason) for left in result.leftovers] == [("1", Reason.OWNER_UNKNOWN)]
    assert (result.outcome, result.kept, shelf.deletes) == (Outcome.LEFTOVERS, 0, [])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (HttpError(401), Reason.FORBIDDEN),
        (HttpError(403), Reason.FORBIDDEN),
        (HttpError(404), Reason.NOT_SUPPORTED),
        (HttpError(405), Reason.NOT_SUPPORTED),
        (HttpError(429), Reason.RATE_LIMITED),
        (HttpError(500), Reason.ERROR),
        (HttpError(503), Reason.ERROR),
        (TimeoutError("too slow"), Reason.UNREACHABLE),
        (ConnectionError("refused"), Reason.UNREACHABLE),
        (NotSupported("no supported versions"), Reason.UNREACHABLE),
        (ServiceDisabledException("it is not in the catalog"), Reason.UNREACHABLE),
        (KeyError("defect of a plugin"), Reason.ERROR),
    ],
)
def test_a_list_that_fails_is_unknown_and_never_empty(error, reason):
    shelf = Shelf()
    shelf.list_error = error
    for result in (run(shelf.type()), sweeps.inventory(shelf.type(), None, US)):
        assert (result.outcome, result.reason) == (Outcome.UNKNOWN, reason)


def test_a_second_list_that_fails_is_unknown_too():
    shelf = Shelf(row("1"))

    def delete(*args):
        shelf.delete(*args)
        shelf.list_error = HttpError(500)

    assert run(shelf.type(delete=delete)).outcome is Outcome.UNKNOWN


def test_an_inventory_only_lists():
    shelf = Shelf(row("1"), row("2", owner="them"))
    result = sweeps.inventory(shelf.type(), None, US)
    assert (result.outcome, [leftover.id for leftover in result.leftovers]) == (Outcome.LEFTOVERS, ["1"])
    assert shelf.deletes == []


def test_a_scoped_type_belongs_to_its_token():
    shelf = Shelf({"id": "1", "name": "x"})
    assert run(shelf.type(owner=SCOPED, show=None, why_no_show="scoped")).deleted == (("1", "x"),)


@pytest.mark.parametrize("empty", ["", " ", None])
def test_an_empty_project_id_is_refused(empty):
    with pytest.raises(ValueError, match="project id"):
        ProjectDefinition(empty, "x", "d", "r")


def test_the_guard_of_an_inventory_refuses_writes():
    with pytest.raises(Exception, match="must not write"):
        read_only("DELETE", "http://x")


@pytest.mark.parametrize(
    "owners",
    [("us", "them"), ("them", "us"), ("us", None), (None, "us"), ("us", "U-S"), ("U-S", "us"), ("them", None)],
)
def test_a_list_with_two_owners_of_one_resource_is_unknown(owners):
    """It would be empty, or its resource would be deleted, by whichever row came first."""
    shelf = Shelf()
    type_ = shelf.type(list=lambda *_: [row("1", owner=owner) for owner in owners], show=None)
    for result in (sweeps.inventory(type_, None, US), sweeps.delete(type_, None, US)):
        assert (shelf.deletes, result.outcome, result.reason) == ([], Outcome.UNKNOWN, Reason.BAD_ANSWER)
    assert sweeps.inventory(shelf.type(list=lambda *_: [row("1")] * 2), None, US).found == 1, "a page that is repeated"


def test_what_loses_its_owner_in_its_delete_is_not_gone():
    """In a list without an owner filter, rows without an owner belong to no project."""
    shelf = Shelf(row("1"), row("public", owner=None))

    def delete(_connection, _project, resource):
        shelf.rows[resource.id]["project_id"] = None

    journal = Journal(shelf.type(delete=delete, unfiltered="it lists all"))
    for _attempt in range(2):  # the next one knows it from the journal alone
        result = journal.sweep()
        assert (result.outcome, result.reason, result.deleted) == (Outcome.LEFTOVERS, Reason.OWNER_UNKNOWN, ())
        assert [one.id for one in result.leftovers] == ["1"]
        assert result.message == "it was the project's, and its project_id is missing by now"
    del shelf.rows["1"]
    assert journal.sweep().outcome is Outcome.CLEAR


def another(shelf):
    """Return a ``show`` that answers about another resource of the project, as behind a proxy that mixes them up."""
    return lambda *_: dict(row("another"))


def test_nothing_is_deleted_of_which_another_resource_is_shown():
    shelf = Shelf(row("1"))
    result = run(shelf.type(show=another(shelf)))
    assert (shelf.deletes, result.outcome, result.reason) == ([], Outcome.LEFTOVERS, Reason.BAD_ANSWER)
    assert "its service showed another resource, another" in result.message


@pytest.mark.parametrize("available", [None, 0, "", "no"])
def test_a_type_that_does_not_say_whether_it_is_there_is_unknown(available):
    shelf = Shelf(row("1"))
    for result in (
        run(shelf.type(available=lambda *_: available)),
        sweeps.inventory(shelf.type(available=lambda *_: available), None, US),
    ):
        assert (result.outcome, result.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


def test_what_only_a_person_can_clear_is_the_reason_of_the_result():
    """Else the deletion would say that something is in use, and a person would wait for it."""
    shelf = Listed(row("a"), row("b"))
    shelf.refuse = {"a": HttpError(409)}

    def protected(resource, _project):
        return "it is shared" if resource.id == "b" else ""

    result = sweeps.delete(shelf.type(protect=(protected,)), None, US)
    assert {left.reason for left in result.leftovers} == {Reason.IN_USE, Reason.PROTECTED}
    assert result.reason == Reason.PROTECTED


def test_a_list_of_what_is_being_deleted_that_is_not_read_to_its_end_is_incomplete():
    shelf = Listed(*(row(str(number), status="deleting") for number in range(5)))
    result = sweeps.delete(shelf.type(deleting=_going), None, US, most_listed=3)
    assert result.more
    assert result.outcome is Outcome.LEFTOVERS
