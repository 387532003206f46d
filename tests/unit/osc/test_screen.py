"""What a terminal shows: lines that fit, and how many there are."""

import io

import pytest
import wcwidth

from cleanup_orchestrator.osc import screen
from cleanup_orchestrator.sdk import one_line


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
        ("  a b c d e f g h", ["  a b c d", "    … e f", "    … g h"]),
        (f"  do it: {screen.unbroken('openstack x y z')}", ["  do it:", "      openstack x y z"]),
        (f"  {screen.unbroken('openstack x y z')}", ["  openstack x y z"]),
        (screen.unbroken("  | a table | x |"), ["  | a table | x |"]),
        (f"do: {screen.unbroken('it')}", ["do: it"]),
    ],
)
def test_a_line_is_folded_between_words_and_a_command_of_ours_is_never_broken(line, parts):
    assert screen.folded(line, 9) == parts


@pytest.mark.parametrize(
    "name",
    [
        "x: openstack project purge --yes admin",
        "x: \x02openstack project purge --yes admin",
        f"x: {screen.unbroken('openstack project purge --yes admin')}",
        "y" * 22 + " openstack project purge --yes admin",
        "y" * 30 + "\u2800openstack\u2800project\u2800purge --yes admin",
        "| openstack project purge --yes admin",
        "+-+ openstack project purge --yes admin",
        "\u3164" * 24 + "openstack project purge --yes admin",
        "表" * 40 + " openstack project purge --yes admin",
        "e\u0301" * 70 + " openstack project purge --yes admin",
        "openstack project purge --yes admin " * 3,
    ],
)
def test_no_name_makes_a_line_that_looks_like_a_command_of_ours(name):
    made = screen.Screen(Terminal())
    made._size = lambda: (30, 24)
    made.say([f"{indent}{one_line(name)}: {screen.command('openstack x {id}', id='i')}" for indent in ("", "    ")])
    lines = made.stream.getvalue().splitlines()
    assert all(screen.width(line) <= 30 for line in lines)
    begun = [line for line in lines if not line.lstrip(" ").startswith("… ")]
    ours = [line for line in begun if line.lstrip(" ").startswith("openstack x i")]
    assert ours == ["    openstack x i", "        openstack x i"]
    assert len(begun) == 4, "the name begins one line, and not more"


def test_without_a_terminal_a_line_is_whole_and_has_no_mark():
    made = screen.Screen(io.StringIO())
    made.say([f"a {'b' * 90}: {screen.command('openstack x {id}', id='a b')}"])
    assert made.stream.getvalue() == f"a {'b' * 90}: openstack x 'a b'\n"


def test_a_terminal_of_few_columns_gets_lines_all_the_same():
    assert screen.folded("    表表表表 x", 3) == ["    表表表", "      … 表", "      … x"]


@pytest.mark.parametrize(
    ("text", "columns"),
    [("e\u0301", 1), ("ก\u0e31\u0e49", 1), ("\u1100\u1161", 2), ("a\u20dd", 1), ("表", 2), ("ｶ", 1), ("\u200d", 0)],
)
def test_the_width_is_that_of_a_table(text, columns):
    assert screen.width(text) == wcwidth.wcswidth(text) == columns


def test_more_lines_than_the_terminal_has_are_counted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    made = screen.Screen(Terminal())
    made._size = lambda: (80, 5)
    made.draw([f"line {n}" for n in range(10)])
    assert made.stream.getvalue().splitlines() == ["line 0", "line 1", "line 2", "... and 7 more"]
