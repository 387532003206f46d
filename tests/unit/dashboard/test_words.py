"""Each word of the API has a name on the pages."""

import pytest

from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.dashboard import words


@pytest.mark.parametrize(
    ("table", "known"),
    [
        (words._STATUSES, {*Status}),
        (words._MODES, {*Mode}),
    ],
)
def test_the_words_are_those_of_the_api(table, known):
    assert set(table) == {str(word) for word in known}


def test_every_condition_has_words():
    assert set(words._CONDITIONS) <= {*ConditionType}
    assert words.condition("on_the_way") == "On the way"


def test_a_word_of_a_newer_api_is_shown_as_it_is():
    newer = "paused"
    assert [f(newer) for f in (words.status, words.mode)] == [newer] * 2
    assert words.status_class(newer) == "pc-label-moving"
