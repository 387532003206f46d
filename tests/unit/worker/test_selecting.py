"""Which resources a deletion that keeps its project selects, and what a sweep does with the others."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.selection import EVERYTHING, Selection
from cleanup_orchestrator.core.step import Outcome, Token
from cleanup_orchestrator.plugins.base import Halt, Parts, Run, Verdict
from cleanup_orchestrator.worker.sweep.exclusions import KeepMarks
from cleanup_orchestrator.worker.sweep.selecting import moment
from tests.support import sweeps
from tests.support.cases import each_case
from tests.unit.worker.shelf import BEFORE, NAME, OLD, OLDER, TAGGED, US, YOUNG, Missing, Shelf, part, reasons, swept


# --------------------------------------------------------------------------------------------------------------- times
@each_case(
    "value,expected",
    [
        ("2026-11-01T00:00:00Z", BEFORE),
        ("2026-11-01T00:00:00", BEFORE),
        ("2026-11-01 00:00:00", BEFORE),
        ("2026-11-01T00:00:00.000000", BEFORE),
        ("2026-11-01T02:00:00+02:00", BEFORE),
        ("2026-10-31T19:00:00-05:00", BEFORE),
        ("2026-11-01", BEFORE),
        (1793491200, BEFORE),
        (1793491200.0, BEFORE),
        ("1793491200", BEFORE),
        (BEFORE, BEFORE),
        (BEFORE.replace(tzinfo=datetime.UTC), BEFORE),
        *((unknown, None) for unknown in ("0", 1, "0001-01-01T00:00:00", "1970-01-01T00:00:00Z", "20261127")),
        *((nothing, None) for nothing in (None, "", 0, True, False, "yesterday", "Sun, 01 Nov 2026 00:00:00 GMT")),
        *((nothing, None) for nothing in ([], {}, "9999-99-99", 1e30, float("nan"), "0001-01-01T00:00:00+23:59")),
    ],
)
def test_a_time_is_read_in_the_forms_of_services_or_not_at_all(value, expected):
    assert moment(value) == expected


# -------------------------------------------------------------------------------------------------------- the criteria
@pytest.mark.parametrize(
    ("selection", "row", "why"),
    [
        (EVERYTHING, {}, None),
        (Selection(services=("network",)), {}, None),
        (Selection(types=("network.thing",)), {}, None),
        (Selection(services=("compute",)), {}, "its type is not selected"),
        (Selection(types=("network.port",)), {}, "its type is not selected"),
        (TAGGED, {"tags": ["temporary", "x"]}, None),
        (TAGGED, {"tags": ["Temporary"]}, "it does not have the tag 'temporary'"),
        (TAGGED, {"tags": []}, "it does not have the tag 'temporary'"),
        (TAGGED, {"tags": "temporary"}, "it does not have the tag 'temporary'"),
        (TAGGED, {"tags": None}, "it does not have the tag 'temporary'"),
        (TAGGED, {}, "it does not have the tag 'temporary'"),
        (Selection(tags=("a", "b")), {"tags": ["a"]}, "it does not have the tag 'b'"),
        (OLDER, {"created_at": OLD}, None),
        (OLDER, {"created_at": YOUNG}, "it was created at 2026-11-01T00:00:00Z"),
        (OLDER, {"created_at": "soon"}, "its service does not say when it was created"),
        (OLDER, {}, "its service does not say when it was created"),
        (dataclasses.replace(OLDER, tags=("x",)), {"created_at": OLD, "tags": []}, "it does not have the tag 'x'"),
        (dataclasses.replace(OLDER, tags=("x",)), {"created_at": YOUNG, "tags": ["x"]}, "it was created at 2026-11-01"),
        (dataclasses.replace(OLDER, services=("dns",)), {"created_at": OLD}, "its type is not selected"),
    ],
)
def test_a_resource_is_deleted_only_if_it_meets_each_criterion(selection, row, why):
    shelf = Shelf(one=row)
    result = swept(shelf, selection)
    if why is None:
        assert (shelf.deletes, result.outcome) == (["one"], Outcome.CLEAR)
        return
    [left] = result.leftovers
    assert shelf.deletes == []
    assert left.reason is Reason.NOT_SELECTED
    assert left.message.startswith(why)
    assert (result.outcome, result.reason, result.message) == (Outcome.LEFTOVERS, "not_selected", "")


def test_a_type_without_tags_and_without_an_age_is_not_selected_by_them():
    for selection in (TAGGED, OLDER):
        shelf = Shelf(one={"tags": ["temporary"], "created_at": OLD})
        assert reasons(swept(shelf, selection, tags="", created="")) == {"one": "not_selected"}
        assert shelf.deletes == []


def test_an_inventory_says_the_same_and_a_plan_has_only_what_is_selected():
    shelf = Shelf(old={"created_at": OLD}, young={"created_at": YOUNG})
    result = sweeps.inventory(shelf.type(), None, US, name=NAME, selection=OLDER)
    assert reasons(result) == {"old": "present", "young": "not_selected"}
    assert (result.reason, result.found) == ("present", 2)
    alone = sweeps.inventory(Shelf(old={"created_at": OLD}).type(), None, US, name=NAME)
    assert result.digest == alone.digest


def test_project_settings_have_no_selection():
    shelf = Shelf(one={})
    type_ = shelf.type(project_setting=True)
    assert sweeps.delete(type_, None, US, name=NAME, selection=Selection(services=("dns",))).outcome is Outcome.CLEAR


# ---------------------------------------------------------------------------------------- against the other protections
@pytest.mark.parametrize("owner", [None, "U-S"])
@pytest.mark.parametrize(("selection", "reason"), [(EVERYTHING, "owner_unknown"), (TAGGED, "not_selected")])
def test_what_may_be_the_projects_blocks_only_if_it_is_selected(owner, selection, reason):
    shelf = Shelf(one={"project_id": owner})
    assert reasons(swept(shelf, selection)) == {"one": reason}
    assert shelf.deletes == []


@pytest.mark.parametrize(("tags", "reason"), [(["temporary"], "protected"), ([], "not_selected")])
def test_a_protection_is_named_only_of_what_is_selected(tags, reason):
    shelf = Shelf(one={"tags": tags})
    assert reasons(swept(shelf, TAGGED, protect=(lambda *_: "it is shared",))) == {"one": reason}
    assert shelf.deletes == []


def test_a_keep_mark_holds_in_a_selection():
    shelf = Shelf(one={"tags": ["temporary", "keep"]})
    assert reasons(swept(shelf, TAGGED, keep_marks=KeepMarks(frozenset({"keep"})))) == {"one": "protected"}


def test_another_projects_resource_is_never_named():
    shelf = Shelf(mine={"tags": ["temporary"]}, theirs={"project_id": "them", "tags": ["temporary"]})
    assert swept(shelf, TAGGED).leftovers == ()
    assert shelf.deletes == ["mine"]


# --------------------------------------------------------------------------------------------- right before the delete
@pytest.mark.parametrize(
    ("shown", "deleted"),
    [
        ({"tags": ["temporary"], "created_at": OLD}, True),
        ({"tags": [], "created_at": OLD}, False),
        ({"tags": ["temporary"], "created_at": YOUNG}, False),
        ({"tags": ["temporary"]}, True),  # the time of creation does not change: what the list showed counts
        ({"tags": ["temporary"], "created_at": None}, True),
        ({"tags": []}, False),
    ],
)
def test_a_resource_that_lost_its_tag_since_it_was_listed_stays(shown, deleted):
    shelf = Shelf(one={"tags": ["temporary"], "created_at": OLD})
    shelf.shown["one"] = {"id": "one", "project_id": "us", "name": "one", **shown}
    result = swept(shelf, dataclasses.replace(OLDER, tags=("temporary",)))
    assert shelf.deletes == (["one"] if deleted else [])
    if not deleted:
        assert reasons(result) == {"one": "not_selected"}


@pytest.mark.parametrize("shown", [{}, {"tags": None}])
def test_a_resource_that_does_not_show_its_tags_any_more_stays(shown):
    shelf = Shelf(one={"tags": ["temporary"], "created_at": OLD})
    shelf.shown["one"] = {"id": "one", "project_id": "us", "name": "one", **shown}
    [left] = swept(shelf, TAGGED).leftovers
    assert shelf.deletes == []
    assert left.reason is Reason.REFUSED, "it is selected, so that the project does not count as purged"
    assert "does not show whether it still has the selected tags" in left.message
    assert swept(shelf, OLDER).outcome is Outcome.CLEAR, "no tag is selected"


def test_a_resource_whose_last_tag_was_removed_is_not_selected():
    """Heat shows ``null`` for a stack without tags, in its list as well."""
    shelf = Shelf(one={"tags": ["temporary"]})

    def show(_connection, _project, _resource):
        shelf.rows["one"]["tags"] = None
        return shelf.rows["one"]

    assert reasons(swept(shelf, TAGGED, show=show)) == {"one": "not_selected"}
    assert shelf.deletes == []


# --------------------------------------------------------------------------------------------------------------- parts
@pytest.mark.parametrize(
    ("row", "values", "deleted"),
    [
        ({"whole": "one", "created_at": OLD}, {}, True),
        ({"whole": "one", "created_at": YOUNG}, {}, False),
        ({"whole": "another", "created_at": YOUNG}, {}, True),
        ({"whole": "one", "created_at": YOUNG, "project_id": "them"}, {}, True),  # it does not go with ours
        ({"whole": "one", "created_at": YOUNG}, {"keep": (lambda *_: "it is Nova's",)}, True),
        ({"whole": "one", "created_at": OLD}, {"created": ""}, False),
        ({"whole": "another", "created_at": OLD}, {"created": ""}, True),
        ({"whole": "one"}, {}, False),
    ],
)
def test_a_resource_goes_with_its_parts_unless_one_is_too_young_or_of_unknown_age(row, values, deleted):
    shelf = Shelf(one={"created_at": OLD})
    result = swept(shelf, OLDER, related=[part(Shelf(p=row), **values)])
    assert shelf.deletes == (["one"] if deleted else [])
    if not deleted:
        said = result.leftovers[0].message
        assert said == "its part p, which would be deleted with it, was created at 2026-11-01T00:00:00Z" or (
            (row.get("created_at") != YOUNG)
            and said == "its service does not say when its part p, which would be deleted with it, was created"
        )


def test_a_resource_stays_if_the_age_of_its_parts_cannot_be_read_with_its_token():
    shelf = Shelf(one={"created_at": OLD})
    result = swept(shelf, OLDER, related=[part(Shelf(p={"whole": "one", "created_at": OLD}), token=Token.PROJECT)])
    assert shelf.deletes == []
    assert result.leftovers[0].message == "whether its part must stay cannot be read with the same token"
    swept(shelf, OLDER, related=[part(Shelf(), token=Token.PROJECT, created="")])
    assert shelf.deletes == []
    swept(shelf, TAGGED, related=[part(Shelf(), token=Token.PROJECT)])
    assert shelf.deletes == []
    swept(shelf, Selection(services=("network",)), related=[part(Shelf(), token=Token.PROJECT)])
    assert shelf.deletes == ["one"]


def test_a_young_part_that_does_not_name_its_whole_may_be_of_any():
    shelf = Shelf(one={"created_at": OLD}, two={"created_at": OLD})
    swept(shelf, OLDER, related=[part(Shelf(p={"created_at": YOUNG}), attribute="")])
    assert shelf.deletes == []


RULES = (Parts("rule", "rules", created="created_at"),)
ROUTES = (Parts("route", "routes", changed="updated_at"),)
NOT_SAID = "its service does not say when its {}, which would be deleted with it, was created"


@each_case(
    "parts,row,why",
    [
        ((), {}, None),
        (None, {}, "its plugin does not say whether younger parts would be deleted with it"),
        (RULES, {"rules": []}, None),
        (RULES, {"rules": [{"id": "r", "created_at": OLD}]}, None),
        (
            RULES,
            {"rules": [{"id": "q", "created_at": OLD}, {"id": "r", "created_at": YOUNG}]},
            "its rule r, which would be deleted with it, was created at 2026-11-01T00:00:00Z",
        ),
        (RULES, {"rules": [{"id": "r"}]}, NOT_SAID.format("rule r")),
        (RULES, {"rules": ["r"]}, NOT_SAID.format("rule")),
        (RULES, {"rules": [{"id": "r", "created_at": "soon"}], "updated_at": OLD}, NOT_SAID.format("rule r")),
        (ROUTES, {"routes": [], "updated_at": YOUNG}, None),
        (ROUTES, {"routes": [{"nexthop": "x"}], "updated_at": OLD}, None),
        (
            ROUTES,
            {"routes": [{"nexthop": "x"}], "updated_at": YOUNG},
            "its route, which would be deleted with it, may be as young as the last change at 2026-11-01T00:00:00Z",
        ),
        (ROUTES, {"routes": ["x"]}, NOT_SAID.format("route")),
        ((*ROUTES, *RULES), {"routes": [], "rules": [{"id": "r"}]}, NOT_SAID.format("rule r")),
    ],
    "listed_by",
    ["row", "hook"],
)
def test_parts_that_are_no_types_must_be_old_enough_too(parts, row, why, listed_by):
    if parts and listed_by == "hook":
        parts = tuple(
            dataclasses.replace(one, list=lambda _c, _p, whole, name=one.list: iter(whole.data[name])) for one in parts
        )
    shelf = Shelf(one={"created_at": OLD, **row})
    result = swept(shelf, OLDER, parts=parts)
    assert shelf.deletes == ([] if why else ["one"])
    assert [(one.reason, one.message) for one in result.leftovers] == ([("not_selected", why)] if why else [])


def test_parts_do_not_matter_without_an_age():
    shelf = Shelf(one={"tags": ["temporary"]})
    swept(shelf, TAGGED, parts=None)
    assert shelf.deletes == ["one"]


def test_a_part_that_is_new_since_the_list_keeps_its_whole():
    shelf = Shelf(one={"created_at": OLD, "rules": []})
    shelf.shown["one"] = {**shelf.rows["one"], "rules": [{"id": "r", "created_at": YOUNG}]}
    assert reasons(swept(shelf, OLDER, parts=RULES)) == {"one": "not_selected"}
    assert shelf.deletes == []


def test_parts_are_listed_again_right_before_the_delete_also_of_what_cannot_be_shown():
    shelf, answers = Shelf(one={"created_at": OLD}), [OLD, YOUNG, YOUNG]
    parts = (Parts("rule", lambda *_: [{"id": "r", "created_at": answers.pop(0)}], created="created_at"),)
    assert reasons(swept(shelf, OLDER, parts=parts, show=None, why_no_show="a test")) == {"one": "not_selected"}
    assert (shelf.deletes, answers) == ([], [])


@pytest.mark.parametrize("error", [TimeoutError("no answer"), Missing("no such part")])
def test_parts_that_cannot_be_listed_make_the_sweep_unknown_and_keep_their_whole(error):
    def broken(*_):
        raise error

    shelf = Shelf(one={"created_at": OLD})
    assert swept(shelf, OLDER, parts=(Parts("rule", broken),)).outcome is Outcome.UNKNOWN
    assert swept(shelf, OLDER, parts=(Parts("rule", "rules"),)).outcome is Outcome.UNKNOWN
    once = iter([[], None, []])
    vanished = (Parts("rule", lambda *_: found if (found := next(once)) is not None else broken()),)
    assert swept(shelf, OLDER, parts=vanished).outcome is Outcome.LEFTOVERS
    assert shelf.deletes == []


def test_only_what_is_old_enough_itself_is_asked_for_its_parts():
    def never(*_):
        raise AssertionError("it is too young itself")

    shelf = Shelf(one={"created_at": YOUNG})
    assert reasons(swept(shelf, OLDER, parts=(Parts("rule", never),))) == {"one": "not_selected"}


@pytest.mark.parametrize(
    ("selection", "name", "said"),
    [
        (Selection(types=("network.part",)), "part", "its type is not selected: deleted only with its part"),
        (Selection(services=("dns",)), "dns.zone", "its type is not selected: deleted only with its dns.zone"),
        (Selection(types=("network.other",)), "part", "its type is not selected"),
        (TAGGED, "part", "it does not have the tag 'temporary': deleted only with its part"),
        (OLDER, "part", "it was created at 2026-11-01T00:00:00Z"),
    ],
)
def test_an_unselected_part_says_that_it_goes_with_a_selected_whole(selection, name, said):
    shelf = Shelf(one={"created_at": YOUNG})
    whole = dataclasses.replace(part(Shelf(), name=name.rpartition(".")[2]), name=name, whole=True)
    result = sweeps.inventory(shelf.type(), None, US, name=NAME, selection=selection, related=[whole])
    assert [one.message for one in result.leftovers] == [said]


def test_parts_go_with_a_tagged_whole_without_a_list_of_them():
    class Silent(Shelf):
        def list(self, *_):
            raise AssertionError("no list is needed")

    shelf = Shelf(one={"tags": ["temporary"]})
    swept(shelf, TAGGED, related=[part(Silent())])
    assert shelf.deletes == ["one"]


def test_an_age_that_cannot_be_checked_for_parts_makes_the_sweep_unknown():
    class Broken(Shelf):
        def list(self, *_):
            raise TimeoutError("no answer")

    shelf = Shelf(one={"created_at": OLD})
    assert swept(shelf, OLDER, related=[part(Broken())]).outcome is Outcome.UNKNOWN
    assert shelf.deletes == []


# ---------------------------------------------------------------------------------------------------- what stays refers
def test_what_a_resource_that_stays_refers_to_stays_too_directly_or_not():
    rows = {"base": [], "middle": ["base"], "tip": ["middle"], "free": []}
    shelf = Shelf(**{id_: {"to": to, "created_at": YOUNG if id_ == "tip" else OLD} for id_, to in rows.items()})
    result = swept(shelf, OLDER, refers_to=lambda resource: resource.data["to"])
    assert shelf.deletes == ["free"]
    assert reasons(result) == {"base": "in_use", "middle": "in_use", "tip": "not_selected"}
    by_id = {one.id: one for one in result.leftovers}
    assert by_id["middle"].message == "tip refers to it, and stays"
    assert by_id["base"].blocked_by[0]["id"] == "middle"


def test_what_a_selected_resource_refers_to_goes_after_it():
    rows = {"base": [], "tip": ["base"]}
    shelf = Shelf(**{id_: {"to": to, "created_at": OLD} for id_, to in rows.items()})
    assert swept(shelf, OLDER, refers_to=lambda resource: resource.data["to"]).outcome is Outcome.CLEAR
    assert shelf.deletes == ["tip", "base"]


def test_names_are_references_as_well():
    shelf = Shelf(base={"to": [], "created_at": OLD}, tip={"to": ["the base"], "created_at": YOUNG})
    shelf.rows["base"]["name"] = "the base"
    assert reasons(swept(shelf, OLDER, refers_to=lambda resource: resource.data["to"]))["base"] == "in_use"


# ------------------------------------------------------------------------- what refers stays for another reason
@pytest.mark.parametrize("reason", [Reason.IN_USE, Reason.FOREIGN])
def test_what_a_resource_in_use_refers_to_stays_with_it(reason):
    def used(_resources):
        return {"tip": Verdict(reason, "something uses it")}

    shelf = Shelf(base={"to": [], "tags": ["temporary"]}, tip={"to": ["base"], "tags": ["temporary"]})
    result = swept(shelf, TAGGED, refers_to=lambda resource: resource.data["to"], needs=lambda: used)
    assert shelf.deletes == []
    assert reasons(result) == {"base": "in_use", "tip": str(reason)}


def test_what_a_resource_of_an_unknown_owner_refers_to_stays_with_it():
    shelf = Shelf(base={"to": []}, tip={"to": ["base"], "project_id": None})
    result = swept(shelf, EVERYTHING, refers_to=lambda resource: resource.data["to"])
    assert (shelf.deletes, reasons(result)) == ([], {"base": "in_use", "tip": "owner_unknown"})


# -------------------------------------------------------------------------------------------------- the recovery window
def test_only_what_is_selected_is_stopped_for_the_recovery_window():
    shelf = Shelf(one={"tags": ["temporary"]}, two={"tags": []})
    state = lambda row: Run.OFF if row["id"] in shelf.stops else Run.ON  # noqa: E731
    stop = lambda _connection, _project, resource: shelf.stops.append(resource.id)  # noqa: E731
    halting = shelf.type(halt=Halt(state, stop, stop))
    sweeps.halt(halting, None, US, lambda _resource: None, name=NAME, selection=TAGGED)
    assert shelf.stops == ["one"]


def test_what_lost_its_tag_since_it_was_listed_is_not_stopped():
    shelf = Shelf(one={"tags": ["temporary"]})
    shelf.shown["one"] = {**shelf.rows["one"], "tags": []}
    stop = lambda _connection, _project, resource: shelf.stops.append(resource.id)  # noqa: E731
    halting = shelf.type(halt=Halt(lambda _row: Run.ON, stop, stop))
    sweeps.halt(halting, None, US, lambda _resource: None, name=NAME, selection=TAGGED)
    assert shelf.stops == []


# ---------------------------------------------------------------------------------------------------- a truncated list
@pytest.mark.parametrize("sweep", [sweeps.inventory, sweeps.delete])
def test_a_list_that_ends_before_the_first_selected_resource_is_unknown(sweep):
    shelf = Shelf(**{f"young{n}": {"created_at": YOUNG} for n in range(3)}, old={"created_at": OLD})
    result = sweep(shelf.type(), None, US, name=NAME, selection=OLDER, most_listed=2)
    assert result.outcome is Outcome.UNKNOWN
    assert "[worker] most_listed" in result.message
    assert shelf.deletes == []


def test_a_list_that_ends_after_a_selected_resource_has_leftovers():
    shelf = Shelf(old={"created_at": OLD}, **{f"young{n}": {"created_at": YOUNG} for n in range(3)})
    result = sweeps.inventory(shelf.type(), None, US, name=NAME, selection=OLDER, most_listed=2)
    assert (result.outcome, result.more) == (Outcome.LEFTOVERS, True)


def test_a_long_list_of_a_type_that_is_not_selected_is_no_problem():
    shelf = Shelf(**{f"thing{n}": {} for n in range(3)})
    result = sweeps.inventory(
        shelf.type(), None, US, name=NAME, selection=Selection(types=("dns.zone",)), most_listed=2
    )
    assert result.outcome is Outcome.LEFTOVERS
