"""The filters of the templates."""

import pytest
from django.utils import timezone

from cleanup_orchestrator.dashboard.templatetags import project_cleanup as filters
from cleanup_orchestrator.sdk.text import size_text


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1536, 2**30 - 1, 340 * 2**30, 2**63 - 1])
def test_a_size_is_written_as_the_commands_write_it(size):
    assert filters.size(size) == size_text(size)


@pytest.mark.parametrize("unknown", [None, ""])
def test_an_unknown_size_is_said_to_be_unknown(unknown):
    assert filters.size(unknown) == "not known"


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"objects": 230, "size": None}, "230 objects, size not known"),
        ({"objects": 1, "size": 1024}, "1 object, 1 KiB"),
        ({"objects": 0, "size": 0}, "0 objects, 0 B"),
        ({"objects": None, "size": 0}, "0 B"),
        ({"size": 0}, "0 B"),
        ({"size": None}, "–"),
    ],
)
def test_a_container_has_the_number_of_its_objects(record, text):
    assert filters.amount(record) == text


def test_all_times_have_the_same_form_and_a_zone():
    with timezone.override("UTC"):
        assert ">2026-11-01 18:00:00 UTC</time>" in filters.at("2026-11-01T18:00:00Z")
    assert filters.at_ago("2026-11-01T18:00:00Z").startswith(filters.at("2026-11-01T18:00:00Z"))
    assert filters.at(None) == filters.ago(None) == filters.at_ago(None) == "–"


@pytest.mark.parametrize(("number", "shown", "more"), [(12, [1] * 10, 2), (0, [], 0), (None, None, 0), (1, [1, 2], 0)])
def test_a_list_says_how_many_more_there_are(number, shown, more):
    assert filters.minus(number, shown) == more


@pytest.mark.parametrize(("part", "whole", "percent"), [(0, 0, 0), (None, 4, 0), (1, 3, 33), (4, 4, 100), (9, 4, 100)])
def test_a_part_is_between_nothing_and_everything(part, whole, percent):
    assert filters.percent_of(part, whole) == percent


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("removed; nothing is left", "Removed; nothing is left"),
        ("network.network 4ae8 may need it", "network.network 4ae8 may need it"),
        ("router_port: in use", "router_port: in use"),
        ("blocked.", "Blocked."),
        ("", ""),
    ],
)
def test_a_message_begins_with_a_capital_and_a_name_of_a_type_stays(message, shown):
    assert filters.sentence(message) == shown
