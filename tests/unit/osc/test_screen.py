"""What a terminal shows: lines that fit, and how many there are."""

import io

import pytest

from cleanup_orchestrator.osc import screen


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [("abcd", 3, "abc"), ("日本語", 5, "日本"), ("é" * 3, 3, "é" * 3), ("abc", 3, "abc")],
)
def test_a_text_is_cut_where_it_would_wrap(text, columns, expected):
    assert screen.cut(text, columns) == expected


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("  short", ["  short"]),
        ("  a b c d e f g h", ["  a b c d", "      e f", "      g h"]),
        ("  do it: openstack x y z", ["  do it:", "      openstack x y z"]),
        ("  openstack x y z", ["  openstack x y z"]),
        ("  | a table | x |", ["  | a table | x |"]),
    ],
)
def test_a_line_is_folded_between_words_and_a_command_is_never_broken(line, parts):
    assert screen.folded(line, 9) == parts


def test_more_lines_than_the_terminal_has_are_counted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    made = screen.Screen(Terminal())
    made._size = lambda: (80, 5)
    made.draw([f"line {n}" for n in range(10)])
    assert made.stream.getvalue().splitlines() == ["line 0", "line 1", "line 2", "... and 7 more"]
