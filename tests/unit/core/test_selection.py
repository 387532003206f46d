"""Which types a selection has, how it is stored, and which of its names the catalog lacks."""

import dataclasses
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup_orchestrator.core.selection import EVERYTHING, Selection, contradiction, unmatched
from cleanup_orchestrator.core.step import Outcome, Step, StepKind
from tests.unit.world import sweep_step

PORT = sweep_step("network.port", after=("compute.server",))
UNSUPPORTED = Step("x", "d", StepKind.UNSUPPORTED, "R1", "weather", outcome=Outcome.UNKNOWN, reason="no_plugin")
NETWORK = Selection(services=("network",))


@pytest.mark.parametrize(
    ("selection", "lost"),
    [
        (EVERYTHING, ()),
        (Selection(services=("network", "weather")), ()),
        (Selection(services=("netwrok",)), ("netwrok",)),
        (Selection(types=("network.port", "network.prot")), ("network.prot",)),
        (Selection(types=("weather.station",)), ()),  # its types are not known: it is unknown, and not misspelled
        (Selection(services=("dns",), types=("dns.zone",)), ("dns", "dns.zone")),
        (Selection(tags=("x",)), ()),
    ],
)
def test_the_names_of_a_selection_that_the_catalog_does_not_have(selection, lost):
    assert unmatched(selection, [PORT, UNSUPPORTED]) == lost


@pytest.mark.parametrize(
    ("selection", "selected"),
    [
        (EVERYTHING, {"compute.server", "network.port", "network.", "dns."}),
        (NETWORK, {"network.port", "network."}),
        (Selection(types=("network.port",)), {"network.port", "network."}),
        (Selection(services=("network",), types=("compute.server",)), {"compute.server", "network.port", "network."}),
        (Selection(tags=("x",)), {"compute.server", "network.port", "network.", "dns."}),
    ],
)
def test_which_types_a_selection_has(selection, selected):
    names = ("compute.server", "network.port", "network.", "dns.")
    assert {name for name in names if selection.has_type(*name.split("."))} == selected


def test_a_skipped_name_that_the_catalog_does_not_have_is_lost_as_well():
    assert unmatched(Selection(skip=("network.port", "weather.station", "weather")), [PORT, UNSUPPORTED]) == ()
    assert unmatched(Selection(skip=("network.prot", "dns", "compute.server")), [PORT]) == (
        "dns",
        "network.prot",
        "compute.server",
    )
    assert unmatched(Selection(services=("dns",), skip=("dns",)), [PORT]) == ("dns",)


@pytest.mark.parametrize(
    ("selection", "selected"),
    [
        (Selection(skip=("network",)), {"compute.server", "dns."}),
        (Selection(skip=("network.port",)), {"compute.server", "network.", "dns."}),
        (Selection(services=("network", "dns"), skip=("network",)), {"dns."}),
        (
            Selection(types=("network.port",), services=("compute",), skip=("network.port",)),
            {"compute.server", "network."},
        ),
        (Selection(types=("network.port",), skip=("network",)), set()),
    ],
)
def test_skip_wins_over_services_and_types(selection, selected):
    names = ("compute.server", "network.port", "network.", "dns.")
    assert {name for name in names if selection.has_type(*name.split("."))} == selected


def test_what_may_be_of_a_skipped_type_counts_as_skipped():
    selection = Selection(skip=("network.port", "dns"))
    names = ("network.port", "network.router", "network.", "dns.zone", "dns.", "compute.")
    assert {name for name in names if selection.skips(*name.split("."))} == {
        "network.port",
        "network.",
        "dns.zone",
        "dns.",
    }


# --------------------------------------------------------------------------------------------------------------- names
@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("web", ["web"], ["Web", "web1", "my web", "web ", ""]),
        ("web*", ["web", "web1", "web\n2", "web[1]"], ["Web1", "a-web"]),
        ("*", ["x", " ", "\n"], [""]),  # what has no name is not selected by it
        ("web?", ["web1"], ["web", "web10"]),
        ("web[0-9]", ["web1"], ["webx", "web[0-9]"]),
        ("web[!0-9]", ["webx"], ["web1"]),
        ("[prod] db", ["p db"], ["[prod] db"]),
        ("[", ["["], []),
        ("[]", ["[]"], [""]),
        ("a.c", ["a.c"], ["abc"]),
        ("caf\u00e9*", ["caf\u00e9", "cafe\u0301 2"], ["cafe"]),
        ("cafe\u0301", ["caf\u00e9"], ["cafe"]),
    ],
)
def test_names_are_compared_with_shell_patterns_as_a_whole(pattern, matching, others):
    selection = Selection(names=(pattern,))
    assert [name for name in (*matching, *others) if not selection.lacks_name(name)] == matching
    assert [name for name in matching if Selection(not_names=(pattern,)).excluded_name(name) is None] == []


def test_one_of_several_patterns_is_enough():
    selection = Selection(names=("a*", "b*"), not_names=("*x", "*y"))
    assert [name for name in ("a", "b", "c") if not selection.lacks_name(name)] == ["a", "b"]
    assert [selection.excluded_name(name) for name in ("ax", "by", "b")] == ["*x", "*y", None]
    assert not EVERYTHING.lacks_name("")
    assert EVERYTHING.excluded_name("x") is None


def test_a_name_that_is_written_as_its_pattern_is_excluded_too():
    """``[prod] db`` is a set of characters. The user who types it to keep something means this very name."""
    selection = Selection(not_names=("[prod] db",))
    assert [selection.excluded_name(name) for name in ("[prod] db", "p db", "q db")] == ["[prod] db", "[prod] db", None]
    assert Selection(not_names=("[cafe\u0301]",)).excluded_name("[caf\u00e9]")


def test_a_pattern_of_a_user_takes_no_time_without_end():
    selection = Selection(names=("*a" * 127,), not_names=("*[a-b]?" * 36,))
    name = "a" * 254 + "c"
    before = time.process_time()
    assert selection.lacks_name(name)
    selection.excluded_name(name)
    assert time.process_time() - before < 2


# ----------------------------------------------------------------------------------------------- a selection of nothing
@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"services": ("dns",), "skip": ("dns",)}, ("skip", "dns")),
        ({"types": ("dns.zone",), "skip": ("dns",)}, ("skip", "dns.zone")),
        ({"types": ("dns.zone",), "skip": ("dns.zone",)}, ("skip", "dns.zone")),
        ({"services": ("dns", "network"), "skip": ("dns",)}, ("", "")),
        ({"services": ("dns",), "skip": ("dns.zone",)}, ("", "")),
        ({"skip": ("dns",)}, ("", "")),
        ({"tags": ("a", "b"), "not_tags": ("b",)}, ("not_tags", "b")),
        ({"tags": ("a",), "not_tags": ("b",)}, ("", "")),
        ({"names": ("a", "b"), "not_names": ("b", "a")}, ("not_names", "a, b")),
        ({"names": ("a", "b"), "not_names": ("b",)}, ("", "")),
        ({}, ("", "")),
    ],
)
def test_criteria_that_leave_nothing_contradict_each_other(values, found):
    assert contradiction(Selection(**values)) == found


# ----------------------------------------------------------------------------------------------------------- properties
NAMES = st.sampled_from(["compute", "network", "dns"])
TYPES = st.sampled_from(["compute.server", "network.port", "network.router", "dns.zone"])
TEXTS = st.text(max_size=5)


def some(values):
    return st.lists(values, max_size=3).map(tuple)


SELECTIONS = st.builds(
    Selection,
    services=some(NAMES),
    types=some(TYPES),
    skip=some(NAMES | TYPES),
    tags=some(TEXTS),
    not_tags=some(TEXTS),
    names=some(TEXTS),
    not_names=some(TEXTS),
    created_before=st.none() | st.datetimes(),
    updated_before=st.none() | st.datetimes(),
)


@given(SELECTIONS)
def test_a_selection_is_read_as_it_was_stored(selection):
    stored = json.loads(json.dumps(selection.to_dict()))
    assert Selection.from_dict(stored) == selection
    assert set(stored) == {field.name for field in dataclasses.fields(Selection)}
    assert bool(selection) is (selection != EVERYTHING)
    assert bool(str(selection)) is bool(selection)


@given(SELECTIONS)
def test_a_selection_that_an_earlier_release_stored_is_read(selection):
    earlier = ("services", "types", "tags", "created_before")
    old = Selection(**{name: getattr(selection, name) for name in earlier})
    assert Selection.from_dict({name: old.to_dict()[name] for name in earlier}) == old


@given(SELECTIONS, TYPES)
def test_skip_only_narrows_and_wins(selection, name):
    service, type_ = name.split(".")
    selected = selection.has_type(service, type_)
    assert selected <= dataclasses.replace(selection, skip=()).has_type(service, type_)
    assert not (selected and selection.skips(service, type_))
    for skipped in (name, service):
        assert not dataclasses.replace(selection, skip=(*selection.skip, skipped)).has_type(service, type_)


@given(some(TEXTS), some(TEXTS), TEXTS)
def test_what_is_excluded_by_name_stays_whatever_is_added(patterns, more, name):
    fewer, all_ = Selection(not_names=patterns), Selection(not_names=patterns + more)
    assert fewer.excluded_name(name) is None or all_.excluded_name(name) is not None
    assert name not in more or all_.excluded_name(name) is not None
