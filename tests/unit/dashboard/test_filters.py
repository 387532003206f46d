"""The filters of the templates."""

import pytest

from cleanup_orchestrator.dashboard.templatetags import project_cleanup as filters
from cleanup_orchestrator.sdk.text import size_text


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1536, 2**30 - 1, 340 * 2**30, 2**63 - 1])
def test_a_size_is_written_as_the_commands_write_it(size):
    assert filters.size(size) == size_text(size)


@pytest.mark.parametrize("unknown", [None, ""])
def test_an_unknown_size_is_a_dash(unknown):
    assert filters.size(unknown) == "–"


@pytest.mark.parametrize(("part", "whole", "percent"), [(0, 0, 0), (None, 4, 0), (1, 3, 33), (4, 4, 100), (9, 4, 100)])
def test_a_part_is_between_nothing_and_everything(part, whole, percent):
    assert filters.percent_of(part, whole) == percent
