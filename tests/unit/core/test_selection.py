"""Which types a selection has, how it is stored, and which of its names the catalog lacks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup_orchestrator.core.selection import EVERYTHING, Selection, unmatched
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


@given(
    st.lists(st.text(max_size=5), max_size=3),
    st.lists(st.text(max_size=5), max_size=3),
    st.none() | st.datetimes(),
)
def test_a_selection_is_read_as_it_was_stored(services, tags, before):
    selection = Selection(tuple(services), (), tuple(tags), before)
    assert Selection.from_dict(selection.to_dict()) == selection
    assert bool(selection) is bool(services or tags or before)
