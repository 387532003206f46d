"""The criteria of a selection that keep resources, by type, tag, name and last change, and what they keep with them."""

import dataclasses
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup_orchestrator.core.selection import EVERYTHING, Selection
from cleanup_orchestrator.core.step import Outcome, Token
from cleanup_orchestrator.plugins.base import Composition, LastChange, Parts
from cleanup_orchestrator.worker.sweep.context import OtherType
from tests.support import sweeps
from tests.support.cases import each_case
from tests.unit.worker.shelf import BEFORE, NAME, OLD, OLDER, TAGGED, US, YOUNG, Missing, Shelf, part, reasons, swept

SHOWN = LastChange("updated_at")
NULL = LastChange("updated_at", null_until_changed=True)
UNCHANGED = Selection(updated_before=BEFORE)
NOT_KEEP = Selection(not_tags=("keep", "hold"))
NAMED = Selection(names=("web*", "db"))
NOT_PROD = Selection(not_names=("prod*", "[a] b"))
SKIP_PARTS = Selection(skip=("network.part",))


def said(result):
    return {one.id: one.message for one in result.leftovers}


# -------------------------------------------------------------------------------------------------------- one resource
@each_case(
    "selection,row,why",
    [
        (Selection(skip=("network",)), {}, "its type is skipped"),
        (Selection(skip=("network.thing",)), {}, "its type is skipped"),
        (Selection(services=("network",), skip=("network.thing",)), {}, "its type is skipped"),
        (Selection(skip=("network.port", "dns")), {}, None),
        (NOT_KEEP, {"tags": []}, None),
        (NOT_KEEP, {"tags": ["Keep", "kept"]}, None),
        (NOT_KEEP, {"tags": ["x", "keep"]}, "it has the tag 'keep'"),
        (NOT_KEEP, {"tags": ["keep", "hold"]}, "it has the tag 'hold'"),
        *(
            (NOT_KEEP, {"tags": value}, "its service does not show its tags")
            for value in (None, "keep", {"keep": 1}, 3)
        ),
        (NOT_KEEP, {}, "its service does not show its tags"),
        (NAMED, {"name": "web1"}, None),
        (NAMED, {"name": "db"}, None),
        (NAMED, {"name": "db1"}, "its name 'db1' is not selected"),
        (NAMED, {"name": "Web1"}, "its name 'Web1' is not selected"),
        (NAMED, {"name": ""}, "it has no name"),
        (Selection(names=("*",)), {"name": ""}, "it has no name"),
        *((Selection(names=("*",)), {"name": v}, "its service does not show a name of it") for v in (None, 3, ["web"])),
        (NOT_PROD, {"name": "test"}, None),
        (NOT_PROD, {"name": "my prod"}, None),
        (NOT_PROD, {"name": ""}, None),
        (NOT_PROD, {"name": "prod-1"}, "its name 'prod-1' matches 'prod*'"),
        (NOT_PROD, {"name": "[a] b"}, "its name '[a] b' matches '[a] b'"),
        *((NOT_PROD, {"name": v}, "its service does not show its name") for v in (None, 3, ["prod"])),
        (dataclasses.replace(NAMED, not_names=("web2",)), {"name": "web2"}, "its name 'web2' matches 'web2'"),
        (dataclasses.replace(NOT_KEEP, tags=("a",)), {"tags": ["a", "keep"]}, "it has the tag 'keep'"),
        (UNCHANGED, {"updated_at": OLD}, None),
        (UNCHANGED, {"updated_at": YOUNG}, "it was changed at 2026-11-01T00:00:00Z"),
        *(
            (UNCHANGED, {"created_at": OLD, "updated_at": value}, "its service does not say when it was changed last")
            for value in (None, "", "soon", 0, "0001-01-01T00:00:00")
        ),
        (UNCHANGED, {"created_at": OLD}, "its service does not say when it was changed last"),
        (UNCHANGED, {"created_at": YOUNG, "updated_at": OLD}, "it was changed at 2026-11-01T00:00:00Z"),
        (dataclasses.replace(UNCHANGED, created_before=BEFORE), {"created_at": OLD, "updated_at": OLD}, None),
    ],
)
def test_a_resource_is_deleted_only_if_no_criterion_keeps_it(selection, row, why):
    shelf = Shelf(one=row)
    result = swept(shelf, selection, updated=SHOWN)
    if why is None:
        assert (shelf.deletes, result.outcome) == (["one"], Outcome.CLEAR)
        return
    assert shelf.deletes == []
    assert reasons(result) == {"one": "not_selected"}
    assert result.leftovers[0].message.startswith(why)


@each_case(
    "row,deleted",
    [
        ({"created_at": OLD, "updated_at": None}, True),
        ({"created_at": OLD}, False),  # an answer without the time is no answer with null
        ({"created_at": YOUNG, "updated_at": None}, False),
        ({"updated_at": None}, False),
        ({"created_at": OLD, "updated_at": "soon"}, False),
        ({"created_at": OLD, "updated_at": ""}, False),
        ({"created_at": OLD, "updated_at": YOUNG}, False),
    ],
)
def test_the_creation_counts_only_where_a_service_shows_null_until_the_first_change(row, deleted):
    shelf = Shelf(one=row)
    swept(shelf, UNCHANGED, updated=NULL)
    assert shelf.deletes == (["one"] if deleted else [])


def test_a_type_that_does_not_show_what_a_criterion_is_about_is_not_selected():
    row = {"tags": [], "created_at": OLD, "updated_at": OLD}
    for selection, hidden in ((UNCHANGED, {}), (NOT_KEEP, {"tags": ""}), (NAMED, {"title": "id"})):
        shelf = Shelf(one=row)
        assert reasons(swept(shelf, selection, **hidden)) == {"one": "not_selected"}
        assert shelf.deletes == []
    shelf = Shelf(web1=row)
    assert reasons(swept(shelf, NOT_PROD, title="id")) == {"web1": "not_selected"}
    assert reasons(swept(shelf, Selection(names=("*",)), title="id")) == {"web1": "not_selected"}


def test_a_name_is_what_lists_show_as_such():
    shelf = Shelf(one={"stack_name": "prod-1", "name": "x"}, two={"stack_name": "x", "name": "prod-1"})
    swept(shelf, NOT_PROD, title="stack_name")
    assert shelf.deletes == ["two"]


# ----------------------------------------------------------------------------------------- right before the delete
@each_case(
    "selection,before,now,reason",
    [
        (NOT_KEEP, {"tags": []}, {"tags": ["keep"]}, "not_selected"),
        (NOT_KEEP, {"tags": []}, {"tags": None}, "refused"),
        (NOT_PROD, {"name": "test"}, {"name": "prod-1"}, "not_selected"),
        (NOT_PROD, {"name": "test"}, {"name": None}, "refused"),
        (NAMED, {"name": "web1"}, {"name": "x"}, "not_selected"),
        (NAMED, {"name": "web1"}, {"name": None}, "refused"),
        (UNCHANGED, {"updated_at": OLD}, {"updated_at": YOUNG}, "not_selected"),
        (UNCHANGED, {"updated_at": OLD}, {"updated_at": None}, "refused"),
    ],
)
def test_each_criterion_is_compared_again_right_before_the_delete(selection, before, now, reason):
    shelf = Shelf(one={"tags": [], **before})
    shelf.shown["one"] = {**shelf.rows["one"], **now}
    assert reasons(swept(shelf, selection, updated=SHOWN)) == {"one": reason}
    assert shelf.deletes == []


# ------------------------------------------------------------------------------------ what the deletion itself changed
@each_case("ids,deleted", [((), []), (("one",), ["one"]), (("other",), [])])
def test_what_was_selected_under_the_lock_stays_selected_although_a_delete_changed_it(ids, deleted):
    shelf = Shelf(one={"created_at": OLD, "updated_at": YOUNG, "rules": ["r"]})
    parts = (Parts("rule", "rules", changed="updated_at"),)
    swept(shelf, UNCHANGED, updated=SHOWN, parts=parts, selected_before=ids)
    assert shelf.deletes == deleted


@each_case(
    "row",
    [
        {"tags": ["keep"]},
        {"tags": []},
        {"tags": ["t"], "name": "prod"},
        {"tags": ["t"], "created_at": YOUNG},
        {"tags": ["t"], "rules": [{"id": "r", "updated_at": YOUNG}]},
        {"tags": ["t"], "rules": [{"id": "r", "created_at": YOUNG, "updated_at": OLD}]},
        {"tags": ["t"], "rules": [{"id": "r"}]},
    ],
)
def test_that_it_was_selected_before_says_nothing_about_other_criteria_and_parts(row):
    selection = Selection(
        tags=("t",), not_tags=("keep",), not_names=("prod",), created_before=BEFORE, updated_before=BEFORE
    )
    shelf = Shelf(one={"name": "x", "created_at": OLD, "updated_at": YOUNG, "rules": [], **row})
    parts = (Parts("rule", "rules", created="created_at", updated=SHOWN),)
    swept(shelf, selection, updated=SHOWN, parts=parts, selected_before=("one",))
    assert shelf.deletes == []


@each_case(
    "ids,created,deleted", [((), OLD, []), (("one",), OLD, ["one"]), (("one",), YOUNG, []), (("one",), None, [])]
)
def test_a_delete_may_have_changed_the_parts_too_but_not_made_them(ids, created, deleted):
    """A stopped server changes its ports."""
    row = {"created_at": created, "updated_at": YOUNG}
    for values in (
        {"parts": (Parts("rule", lambda *_: [{"id": "r", **row}], created="created_at", updated=SHOWN),)},
        {"related": [part(Shelf(p={"whole": "one", **row}), updated=SHOWN)]},
    ):
        shelf = Shelf(one={"created_at": OLD, "updated_at": YOUNG})
        swept(shelf, UNCHANGED, updated=SHOWN, selected_before=ids, **values)
        assert shelf.deletes == deleted


# --------------------------------------------------------------------------------------- parts that are a related type
@each_case(
    "selection,row,values,why",
    [
        (SKIP_PARTS, {}, {}, "is of a skipped type"),
        (Selection(skip=("network.thing_else", "dns.part")), {}, {}, None),
        (NOT_KEEP, {"tags": ["keep"]}, {}, "must stay: it has the tag 'keep'"),
        (NOT_KEEP, {"tags": None}, {}, "must stay: its service does not show its tags"),
        (NOT_KEEP, {"tags": ["x"]}, {}, None),
        (NOT_KEEP, {"tags": ["keep"]}, {"tags": ""}, None),  # the type has no tags
        (NOT_PROD, {"name": "prod"}, {}, "must stay: its name 'prod' matches 'prod*'"),
        (NOT_PROD, {"name": None}, {}, "must stay: its service does not show its name"),
        (NOT_PROD, {"name": ""}, {}, None),
        (NOT_PROD, {"id": "prod"}, {"title": "id"}, None),  # the type has no names
        (UNCHANGED, {"updated_at": YOUNG}, {"updated": SHOWN}, "was changed at 2026-11-01T00:00:00Z"),
        (UNCHANGED, {"updated_at": OLD}, {"updated": SHOWN}, None),
        (UNCHANGED, {"created_at": OLD, "updated_at": None}, {"updated": NULL}, None),
        (UNCHANGED, {"created_at": OLD}, {}, "was changed last"),
        (NAMED, {"name": "db1"}, {}, None),  # a part goes with its whole, whatever its name is
        (TAGGED, {"tags": []}, {}, None),
    ],
)
def test_a_whole_stays_if_a_part_of_a_related_type_must(selection, row, values, why):
    shelf = Shelf(web1={"tags": ["temporary"], "created_at": OLD, "updated_at": OLD})
    parts = Shelf(p={"whole": "web1", "created_at": OLD, **row})
    type_ = part(parts, **values)
    type_ = dataclasses.replace(type_, type=dataclasses.replace(type_.type, name="part"))
    result = swept(shelf, selection, updated=SHOWN, related=[type_])
    assert shelf.deletes == ([] if why else ["web1"])
    if why:
        assert reasons(result) == {"web1": "not_selected"}
        assert why in result.leftovers[0].message


@each_case(
    "selection,values,listed",
    [
        (NAMED, {}, False),
        (Selection(skip=("dns",)), {}, False),
        (NOT_KEEP, {"tags": ""}, False),
        (NOT_PROD, {"title": "id"}, False),
        (SKIP_PARTS, {}, True),
        (NOT_KEEP, {}, True),
        (NOT_PROD, {}, True),
        (UNCHANGED, {}, True),
        (OLDER, {}, True),
    ],
)
def test_parts_are_listed_only_if_a_criterion_may_keep_them(selection, values, listed):
    class Broken(Shelf):
        def list(self, *_):
            raise TimeoutError("no answer")

    row = {"tags": ["temporary"], "created_at": OLD, "updated_at": OLD}
    type_ = part(Broken(), **values)
    type_ = dataclasses.replace(type_, type=dataclasses.replace(type_.type, name="part"))
    shelf = Shelf(web1=row)
    assert (swept(shelf, selection, updated=SHOWN, related=[type_]).outcome is Outcome.UNKNOWN) is listed


def test_parts_of_another_token_keep_their_wholes():
    shelf = Shelf(one={"tags": []})
    result = swept(shelf, NOT_KEEP, related=[part(Shelf(), token=Token.PROJECT)])
    assert said(result) == {"one": "whether its part must stay cannot be read with the same token"}


def test_a_skipped_part_does_not_say_that_it_goes_with_its_whole():
    whole = dataclasses.replace(part(Shelf(), name="group"), name="group", whole=True)
    for selection in (Selection(skip=("network.thing",)), NOT_KEEP):
        result = sweeps.inventory(
            Shelf(one={"tags": ["keep"]}).type(), None, US, name=NAME, selection=selection, related=[whole]
        )
        assert "deleted only with" not in result.leftovers[0].message
    result = sweeps.inventory(Shelf(one={}).type(), None, US, name=NAME, selection=NAMED, related=[whole])
    assert said(result) == {"one": "its name 'one' is not selected: deleted only with its group"}


# -------------------------------------------------------------------------------------------------- parts that are none
@each_case(
    "selection,row,why",
    [
        (UNCHANGED, {"updated_at": OLD}, None),
        (UNCHANGED, {"updated_at": YOUNG}, "its rule r, which would be deleted with it, was changed at 2026-11-01"),
        (
            UNCHANGED,
            {"created_at": YOUNG, "updated_at": OLD},
            "its rule r, which would be deleted with it, was changed",
        ),
        (UNCHANGED, {"updated_at": None, "created_at": OLD}, "its service does not say when its rule r, which would"),
        (UNCHANGED, {}, "its service does not say when its rule r, which would be deleted with it, was changed last"),
        (OLDER, {"created_at": YOUNG, "updated_at": OLD}, "its rule r, which would be deleted with it, was created at"),
        (NOT_KEEP, {"tags": ["keep"]}, None),  # it is no resource of its own
    ],
)
def test_a_whole_stays_if_a_part_was_changed_too_late(selection, row, why):
    shelf = Shelf(one={"tags": [], "created_at": OLD, "updated_at": OLD, "rules": [{"id": "r", **row}]})
    parts = (Parts("rule", "rules", created="created_at", updated=SHOWN),)
    result = swept(shelf, selection, updated=SHOWN, parts=parts)
    assert shelf.deletes == ([] if why else ["one"])
    assert not why or said(result)["one"].startswith(why)


def test_a_type_that_does_not_declare_its_parts_is_not_selected_by_its_last_change():
    shelf = Shelf(one={"updated_at": OLD})
    assert reasons(swept(shelf, UNCHANGED, updated=SHOWN, parts=None)) == {"one": "not_selected"}


def other(shelf, name="network.port", **values):
    type_ = dataclasses.replace(shelf.type(**values), name=name.rpartition(".")[2])
    return lambda asked: OtherType(name, type_, None, US) if asked == name else None


PORTS = (Parts("port", lambda *_: [{"id": "p", "tags": ["keep"], "name": "prod"}], type="network.port"),)


@each_case(
    "selection,values,why",
    [
        (Selection(skip=("network.port",)), {}, "its port p, which would be deleted with it, is of a skipped type"),
        (NOT_KEEP, {}, "its port p, which would be deleted with it, must stay: it has the tag 'keep'"),
        (NOT_PROD, {}, "its port p, which would be deleted with it, must stay: its name 'prod' matches 'prod*'"),
        (NOT_KEEP, {"tags": ""}, None),
        (Selection(skip=("network.router",)), {}, None),
        (NAMED, {}, None),
    ],
)
def test_a_part_that_is_a_resource_of_another_service_keeps_its_whole(selection, values, why):
    shelf = Shelf(web={"tags": []})
    result = swept(shelf, selection, parts=PORTS, find_type=other(Shelf(), **values))
    assert shelf.deletes == ([] if why else ["web"])
    assert not why or said(result) == {"web": why}


def test_a_part_of_a_type_that_no_plugin_declares_keeps_its_whole():
    shelf = Shelf(web={"tags": []})
    assert "no plugin declares network.port" in said(swept(shelf, NOT_KEEP, parts=PORTS))["web"]


# ----------------------------------------------------------------------------------------- what a stack contains
def containing(*contents, **more):
    return {"composition": Composition(contains=lambda *_: iter(contents)), **more}


@each_case(
    "selection,contents,row,why",
    [
        (Selection(skip=("network.port",)), [("network.port", "p")], {}, "it contains network.port p, which is of a"),
        (Selection(skip=("dns",)), [("dns.zone", "z")], {}, "it contains dns.zone z, which is of a skipped type"),
        (
            Selection(skip=("network.router",)),
            [("network.", "x")],
            {},
            "it contains network x, which may be of a skipped",
        ),
        (
            Selection(skip=("dns.zone",)),
            [("", "x")],
            {},
            "it contains what is not known here (x), which may be of a skipped type",
        ),
        (Selection(skip=("dns.zone",)), [("network.port", "p"), ("compute.", "x")], {}, None),
        (
            NOT_KEEP,
            [("network.port", "p")],
            {"tags": ["keep"]},
            "it contains network.port p: it must stay: it has the tag",
        ),
        (NOT_KEEP, [("network.port", "p")], {"tags": ["x"]}, None),
        (NOT_KEEP, [("network.port", "p")], {"tags": ["keep"], "project_id": "them"}, None),
        (NOT_KEEP, [("network.port", "gone")], {}, None),
        (NOT_KEEP, [("network.", "x")], {}, "it contains network x: whether it has a tag or a name that is not to be"),
        (NOT_KEEP, [("", "x")], {}, "it contains what is not known here (x): whether it has a tag"),
        (
            NOT_PROD,
            [("network.port", "p")],
            {"name": "prod"},
            "it contains network.port p: it must stay: its name 'prod'",
        ),
        (NAMED, [("network.port", "p")], {"name": "prod"}, None),
        (TAGGED, [("", "x")], {}, None),
    ],
)
def test_a_whole_stays_if_what_it_contains_must(selection, contents, row, why):
    inside, shelf = Shelf(p={"tags": [], **row}), Shelf(web1={"tags": ["temporary"]})
    inside.show = lambda _c, _p, one: inside.rows[one.id] if one.id in inside.rows else missing()
    result = swept(shelf, selection, find_type=other(inside), **containing(*contents))
    assert shelf.deletes == ([] if why else ["web1"])
    assert not why or said(result)["web1"].startswith(why)


def missing():
    raise Missing("no such port")


def test_what_is_contained_and_cannot_be_read_again_keeps_its_whole():
    shelf = Shelf(one={"tags": []})
    result = swept(
        shelf, NOT_KEEP, find_type=other(Shelf(), show=None, why_no_show="x"), **containing(("network.port", "p"))
    )
    assert said(result) == {"one": "it contains network.port p: its tags and its name cannot be read"}
    swept(shelf, NOT_KEEP, find_type=other(Shelf(), show=None, tags=""), **containing(("network.port", "p")))
    assert shelf.deletes == ["one"]


def test_contents_are_read_again_right_before_the_delete():
    answers = [[], [], [("network.port", "p")], []]  # for the list, for uses by others, for the delete, and the list
    composition = Composition(contains=lambda *_: iter(answers.pop(0)))
    shelf = Shelf(one={})
    swept(shelf, Selection(skip=("network.port",)), composition=composition)
    assert shelf.deletes == []


def test_contents_that_cannot_be_listed_make_the_sweep_unknown():
    def broken(*_):
        raise TimeoutError("no answer")

    shelf = Shelf(one={})
    composition = Composition(contains=broken)
    assert swept(shelf, Selection(skip=("dns",)), composition=composition).outcome is Outcome.UNKNOWN
    assert shelf.deletes == []


# ------------------------------------------------------------------------------------------- what unselected ones need
@pytest.mark.parametrize("selection", [NOT_KEEP, NOT_PROD, UNCHANGED])
def test_what_an_excluded_resource_refers_to_stays(selection):
    row = {"tags": [], "updated_at": OLD}
    shelf = Shelf(
        base={**row, "to": []},
        tip={"to": ["base"], "tags": ["keep"], "name": "prod", "updated_at": YOUNG},
        free={**row, "to": []},
    )
    result = swept(shelf, selection, updated=SHOWN, refers_to=lambda resource: resource.data["to"])
    assert shelf.deletes == ["free"]
    assert reasons(result) == {"base": "in_use", "tip": "not_selected"}


# ---------------------------------------------------------------------------------------------------------- properties
TIMES = st.sampled_from([None, OLD, YOUNG, "soon"])
ROWS = st.fixed_dictionaries(
    {
        "name": st.sampled_from([None, "", "a", "ab", "prod"]),
        "tags": st.sampled_from([None, [], ["a"], ["a", "b"], "a"]),
        "created_at": TIMES,
        "updated_at": TIMES,
    }
)
MOMENTS = st.sampled_from([None, BEFORE, BEFORE + datetime.timedelta(days=1)])
TEXTS = st.lists(st.sampled_from(["a", "a*", "?", "prod", "b", "*"]), max_size=2).map(tuple)
CRITERIA = st.fixed_dictionaries(
    {
        "services": st.sampled_from([(), ("network",), ("dns",)]),
        "types": st.sampled_from([(), ("network.thing",), ("dns.zone",)]),
        "skip": st.sampled_from([(), ("network.thing",), ("network",), ("dns.zone",), ("network.port",)]),
        "tags": TEXTS,
        "not_tags": TEXTS,
        "names": TEXTS,
        "not_names": TEXTS,
        "created_before": MOMENTS,
        "updated_before": MOMENTS,
    }
)


def deleted(rows, selection, updated):
    shelf = Shelf(**{f"r{number}": row for number, row in enumerate(rows)})
    swept(shelf, selection, updated=updated)
    return set(shelf.deletes)


@given(st.lists(ROWS, max_size=3), CRITERIA, st.sampled_from([SHOWN, NULL, None]))
def test_each_criterion_only_narrows(rows, values, updated):
    """Services and types name alternatives: each is a criterion only if the other one is absent."""
    found = deleted(rows, Selection(**values), updated)
    empty = dataclasses.asdict(EVERYTHING)
    for name in values:
        if name not in ("services", "types") or not (values["services"] and values["types"]):
            assert found <= deleted(rows, Selection(**values | {name: empty[name]}), updated)
    if {"network.thing", "network"} & set(values["skip"]):
        assert found == set()


@given(st.lists(ROWS, max_size=3), CRITERIA, TEXTS, MOMENTS)
def test_a_criterion_excludes_what_it_names_and_what_is_unknown(rows, values, texts, moment):
    selection = Selection(**values | {"not_tags": texts, "not_names": texts, "updated_before": moment})
    for index in deleted(rows, selection, SHOWN):
        row = rows[int(index[1:])]
        assert not texts or (isinstance(row["tags"], list) and not set(row["tags"]) & set(texts))
        assert not texts or (row["name"] is not None and row["name"] not in texts)
        assert moment is None or row["updated_at"] in (OLD, YOUNG)
