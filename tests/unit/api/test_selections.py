"""What a request for a purged project selects."""

import types

import pytest

from cleanup_orchestrator.api import selections
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.core.selection import EVERYTHING, Selection

CONTEXT = types.SimpleNamespace(
    types={"orchestration": ("stack", "failed_stack", "software_config"), "network": ("port",)},
    variants={"orchestration.stack": ("orchestration.failed_stack",)},
    catalog_status=lambda _waivers: [types.SimpleNamespace(service_type="weather")],
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, EVERYTHING),
        ({"created_before": None, "updated_before": None}, EVERYTHING),
        ({"skip": ["neutron", "heat.software_config"]}, Selection(skip=("network", "orchestration.software_config"))),
        ({"skip": ["heat.stack"]}, Selection(skip=("orchestration.failed_stack", "orchestration.stack"))),
        ({"skip": ["orchestration.failed_stack"]}, Selection(skip=("orchestration.failed_stack",))),
        ({"types": ["orchestration.stack"]}, Selection(types=("orchestration.stack",))),
        ({"skip": ["weather", "weather.station"]}, Selection(skip=("weather", "weather.station"))),
        ({"names": ["b*", "a", "b*"], "not_names": ["c"]}, Selection(names=("a", "b*"), not_names=("c",))),
        ({"not_tags": ["b", "a", "b"]}, Selection(not_tags=("a", "b"))),
    ],
)
def test_a_selection_has_official_names_and_each_text_once(given, expected):
    assert selections.read(CONTEXT, given) == expected


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"skip": ["netwrok"]}, "selection"),
        ({"skip": ["network.prot"]}, "selection"),
        ({"skip": ["heat.port"]}, "selection"),
        ({"services": ["network"], "skip": ["neutron"]}, "skip"),
        ({"types": ["orchestration.failed_stack"], "skip": ["orchestration.stack"]}, "skip"),
        ({"tags": ["a"], "not_tags": ["a"]}, "not_tags"),
        ({"names": ["a"], "not_names": ["a"]}, "not_names"),
    ],
)
def test_a_typo_and_a_selection_of_nothing_are_refused(given, field):
    with pytest.raises(ApiError) as caught:
        selections.read(CONTEXT, given)
    assert (caught.value.status, caught.value.code, caught.value.more["field"]) == (400, "invalid_body", field)
