"""How several things are written as one text."""

import pytest

from cleanup_orchestrator.core.texts import enumerated


@pytest.mark.parametrize(
    ("texts", "separator", "text"),
    [
        ([], ", ", ""),
        (["a"], ", ", "a"),
        (["a", "b"], ", ", "a, b"),
        (["a", "b", "c"], ", ", "a, b and 1 more"),
        (["a", "b", "c", "d"], "; ", "a; b; and 2 more"),
        (["a", "b", "c"], " -> ", "a -> b -> and 1 more"),
    ],
)
def test_the_first_two_are_named_and_the_others_counted(texts, separator, text):
    assert enumerated(texts, 2, separator) == text
