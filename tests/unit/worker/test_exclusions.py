"""What keeps a resource from being deleted: it is not planned, or a part of it is kept."""

import dataclasses

import pytest

from cleanup_orchestrator.core import storable
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Token
from cleanup_orchestrator.plugins.base import ResourceType
from cleanup_orchestrator.worker.sweep.context import RelatedType
from tests.support import sweeps
from tests.unit.core.test_plans import reasons, rows
from tests.unit.worker.test_deleting import US, Shelf

PARTS = ResourceType("part", lambda *_: [], None)


def whole_with(parts, planned, attribute="whole_id", **values):
    """A shelf with the wholes w1 and w2, and their related."""
    shelf = Shelf(*rows("w1", "w2"))
    part = dataclasses.replace(PARTS, list=lambda *_: parts, **values)
    return shelf, [RelatedType("part", part, US, False, attribute, planned)]


@pytest.mark.parametrize(
    ("parts", "deleted", "why"),
    [
        (rows("p1", whole_id="w1"), ["w1", "w2"], "its part is planned as well"),
        (rows("new", whole_id="w1"), ["w2"], "a part came later, and would go with it"),
        (rows("new"), [], "its parent is unknown"),
        (
            [{"id": "new", "project_id": "them", "whole_id": "w1"}],
            ["w1", "w2"],
            "another project's is no newcomer",
        ),
        ([], ["w1", "w2"], "no parts"),
    ],
)
def test_an_unplanned_resource_keeps_what_would_take_it_along(parts, deleted, why):
    shelf, related = whole_with(parts, {"p1"})
    result = sweeps.delete(shelf.type(), None, US, related=related, planned={"w1", "w2"})
    assert sorted(shelf.deletes) == deleted, why
    assert set(reasons(result).values()) <= {Reason.NOT_PLANNED}


@pytest.mark.parametrize("id_", ["w\0", "\ud800", "w" * 600])
def test_a_plan_names_a_resource_and_its_part_by_their_stored_ids(id_):
    shelf = Shelf(*rows(id_))
    part = dataclasses.replace(PARTS, list=lambda *_: rows(id_, whole_id=id_))
    stored = {storable.resource_id(id_)}
    related = [RelatedType("part", part, US, False, "whole_id", stored)]
    sweeps.delete(shelf.type(), None, US, related=related, planned=stored)
    assert shelf.deletes == [id_]


@pytest.mark.parametrize("id_", ["w\0", "w" * 600])
def test_a_resource_that_is_not_in_the_plan_stays_though_its_id_looks_like_a_planned_one(id_):
    stored = storable.resource_id(id_)
    shelf = Shelf(*rows(id_, id_ + "2", id_[:512], stored))
    result = sweeps.delete(shelf.type(), None, US, planned={stored})
    assert shelf.deletes == [id_]
    assert set(reasons(result).values()) == {Reason.NOT_PLANNED}


def test_a_part_that_is_kept_anyway_is_not_unplanned():
    shelf, related = whole_with(rows("new", whole_id="w1"), set(), keep=(lambda *_: "it goes with it",))
    sweeps.delete(shelf.type(), None, US, related=related, planned={"w1", "w2"})
    assert sorted(shelf.deletes) == ["w1", "w2"]


@pytest.mark.parametrize("token", Token)
def test_a_part_that_is_a_project_setting_is_in_no_plan(token):
    shelf, related = whole_with(rows("new", whole_id="w1"), set(), project_setting=True, token=token)
    sweeps.delete(shelf.type(), None, US, related=related, planned={"w1", "w2"})
    assert sorted(shelf.deletes) == ["w1", "w2"]


def test_parts_that_cannot_be_listed_leave_everything_unknown():
    def broken(*_):
        raise RuntimeError("no")

    shelf, related = whole_with([], set())
    related = [dataclasses.replace(related[0], type=dataclasses.replace(PARTS, list=broken))]
    result = sweeps.delete(shelf.type(), None, US, related=related, planned={"w1"})
    assert (result.outcome, shelf.deletes) == (Outcome.UNKNOWN, [])


def test_parts_that_only_another_token_shows_keep_their_wholes():
    shelf, related = whole_with([], set(), token=Token.PROJECT)
    sweeps.delete(shelf.type(), None, US, related=related, planned={"w1"})
    assert shelf.deletes == []
