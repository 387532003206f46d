"""Each word of the API has a name on the pages."""

import pytest

from cleanup_orchestrator.core.deletion import _ASKING, ConditionType, Mode, Status
from cleanup_orchestrator.dashboard import words


@pytest.mark.parametrize(
    ("table", "known"),
    [
        (words._STATUSES, {*Status}),
        (words._CONDITIONS, {*ConditionType}),
        (words._MODES, {*Mode}),
        (words._ATTENTIONS, {*_ASKING, Status.LEFTOVERS, Status.FAILED}),
    ],
)
def test_the_words_are_those_of_the_api(table, known):
    assert set(table) == {str(word) for word in known}


def test_a_word_of_a_newer_api_is_shown_as_it_is():
    newer = "paused"
    assert [f(newer) for f in (words.status, words.condition, words.attention, words.mode)] == [newer] * 4
    assert words.status_class(newer) == "pc-label-moving"
