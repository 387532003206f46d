"""Tables of lists: one line for each row, shortened at a terminal, and ids that stay complete."""

import argparse
import io
import types

import pytest

from cleanup_orchestrator.osc import cells, tables

ID = "0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11"


def written(monkeypatch, rows, terminal=True, heads=("ID", "Name", "Message"), **options):
    monkeypatch.setattr("sys.stdout", types.SimpleNamespace(isatty=lambda: terminal))
    monkeypatch.setattr(tables, "size", lambda _: (80, 24))
    given = {"max_width": 0, "fit_width": False, "columns": [], "long": False, "print_empty": False, **options}
    out = io.StringIO()
    tables.OneLine().emit_list(heads, rows, out, argparse.Namespace(**given))
    return out.getvalue().splitlines()


def test_a_long_cell_ends_with_a_mark_and_the_id_stays(monkeypatch):
    lines = written(monkeypatch, [(ID, "demo", "x" * 300), (ID, None, "short")])
    assert max(map(len, lines)) == 80 and len(lines) == 6
    assert lines[3] == f"| {ID} | demo | {'x' * 29}… |"
    assert lines[4] == f"| {ID} |      | short{' ' * 25} |"


def test_the_widest_column_is_shortened_first():
    ((name, message),) = tables.shortened(("Name", "Message"), [("n" * 20, "m" * 100)], 60)
    assert (name, message) == ("n" * 20, "m" * 32 + "…")


def test_a_wide_character_takes_two_columns(monkeypatch):
    lines = written(monkeypatch, [(ID, "予" * 40, "m")])
    assert "予…" in lines[3] and tables.width(lines[3]) == 80


def test_a_row_has_one_line_whatever_its_cells_have(monkeypatch):
    row = (ID, "a\nb\r\nc\u2028d", cells.Numbers([{"type": "network.port", "count": 2}, {"type": "x", "count": 1}]))
    lines = written(monkeypatch, [row])
    assert len(lines) == 5
    assert "| a; b; c; d |" in lines[3] and "network.port: 2; x: 1" in lines[3]


@pytest.mark.parametrize("options", [{"terminal": False}, {"long": True}])
def test_without_a_terminal_and_with_long_nothing_is_shortened(monkeypatch, options):
    lines = written(monkeypatch, [(ID, "demo", "x" * 300)], **options)
    assert "x" * 300 in lines[3]


@pytest.mark.parametrize("options", [{"max_width": 80}, {"columns": ["Message"]}])
def test_who_asks_for_a_width_or_columns_sees_all_of_a_text(monkeypatch, options):
    monkeypatch.setattr("cliff.utils.terminal_width", lambda: 80)
    text = "".join(written(monkeypatch, [(ID, "demo", "x" * 300)], **options))
    assert text.count("x") == 300
