"""How several things are written as one text, and control characters as printable ones."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup_orchestrator.core import texts as core_texts
from cleanup_orchestrator.core.texts import enumerated, printable
from cleanup_orchestrator.sdk import text as sdk_text


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b\tc", "a b\\tc"),
        ("a\r\n2026-01-01 INFO forged", "a\\r\\n2026-01-01 INFO forged"),
        ("\x1b[2Jgone\x9b\x7f", "\\x1b[2Jgone\\x9b\\x7f"),
        ("a\u2028b\u2029c\x85d", "a\\u2028b\\u2029c\\x85d"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
        ("M\u00fcller \u4e2d\u6587 \U0001f600", "M\u00fcller \u4e2d\u6587 \U0001f600"),
    ],
)
def test_what_is_no_text_is_shown_and_not_done(text, shown):
    assert printable(text) == shown


@given(st.text())
def test_no_shown_text_controls_the_terminal(text):
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", printable(text))


def test_the_sdk_replaces_the_same_letters_that_look_like_spaces():
    assert sdk_text.BLANK == core_texts.BLANK
    assert printable("a\u2800b\u200bc\u3164") == "a\\u2800b\\u200bc\\u3164"
    assert sdk_text.one_line("a\u2800b\u200bc\u3164") == "a?b?c?"
