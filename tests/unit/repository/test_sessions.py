"""The recorded sessions of the manual are drawn as they were recorded, and have the form of today's commands."""

import json
import re
import shlex
import sys
from pathlib import Path

from cleanup_orchestrator.osc.project_delete import DeleteProject

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "doc" / "ext"))
import sessions  # noqa: E402

sys.path.remove(str(ROOT / "doc" / "ext"))

CAST = (ROOT / "doc" / "source" / "recordings" / "demo.cast").read_text()
LINES = [text for _, text in sessions.lines(CAST)]


def cast(*outputs):
    events = [json.dumps([seconds, "o", text]) for seconds, text in outputs]
    return "\n".join([json.dumps({"version": 2, "width": 80, "height": 24}), *events])


def test_a_line_begins_when_its_first_part_is_printed():
    found = list(sessions.lines(cast((1.0, "a"), (2.0, "b\r\n\r\nc"), (3.0, "\r\nd"))))
    assert found == [(1.0, "ab"), (2.0, ""), (2.0, "c"), (3.0, "d")]


def test_a_long_table_says_how_many_rows_are_left_out():
    rows = [(0.0, f"  | {name} |") for name in ("Title", "a", "b", "c")]
    found = list(sessions.shortened(iter([*rows, (1.0, "end")]), 2))
    assert [text for _, text in found] == ["  | Title |", "  | a |", "  | b |", "  … 1 more rows", "end"]


def test_of_the_progress_of_a_status_the_first_and_the_last_line_stay():
    texts = [
        "demo: deleting; 1s",
        "demo: deleting; 2s",
        "demo: verifying; 3s",
        "demo: verifying (settings); 4s",
        "a",
        "a",
    ]
    found = [text for _, text in sessions.shortened(iter([*enumerate(texts), (6, "demo: deleted after 5s; 1")]), 5)]
    assert found == [*texts, "demo: deleted after 5s; 1"]
    found = sessions.shortened(enumerate(f"demo: deleting; {n}s" for n in range(9)), 5)
    assert list(found) == [(0, "demo: deleting; 0s"), (8, "demo: deleting; 8s")]


def test_a_broken_line_of_the_progress_stays_or_goes_as_a_whole():
    lines = [(n, text) for n in range(3) for text in (f"demo: verifying; kept {n},", "    1s")]
    found = [text for _, text in sessions.shortened(iter(lines), 5)]
    assert found == ["demo: verifying; kept 0,", "    1s", "demo: verifying; kept 2,", "    1s"]


def test_a_line_that_is_too_long_is_broken_and_loses_nothing():
    found = list(sessions.folded(iter([(1.0, "a" * 100)]), 46))
    assert [(seconds, len(text)) for seconds, text in found] == [(1.0, 46), (None, 46), (None, 8)]


def test_on_a_phone_lines_are_broken_between_words_and_tables_are_cut():
    found = list(sessions.narrowed(iter([(1.0, "  one two three"), (2.0, "  | one | two |"), (3.0, "")]), 10))
    assert found == [(1.0, "  one two"), (None, "    three"), (2.0, "  | one |…"), (3.0, "")]


def test_what_was_printed_is_text_in_the_picture():
    drawn = sessions.session("one", "a < b", cast((0.0, "<script>\r\n")), 5)
    assert "<script>" not in drawn
    assert drawn.count("&lt;script&gt;") == 2 and "a &lt; b" in drawn


def test_the_recording_fits_80_columns_and_has_no_control_characters():
    assert json.loads(CAST.splitlines()[0])["width"] == 80
    assert [line for line in LINES if not line.isprintable()] == []
    for private in ("/tmp/", "/home/", "/root/"):
        assert private not in CAST


def test_the_recording_shows_commands_that_this_package_has():
    shown = [shlex.split(line)[1:] for line in LINES if line.startswith("$ ")]
    assert shown
    for words in shown:
        assert words[:3] == ["openstack", "project", "delete"]
        DeleteProject(None, None).get_parser("").parse_args(words[3:])


def test_the_recording_ends_with_a_deleted_project():
    forms = (r"Delete\? \[y/N\] ", r"demo: leftovers after \d+s; .*deleted 0\b", r"demo: deleted after .*remaining 0\b")
    assert [form for form in forms if not any(re.match(form, line) for line in LINES)] == []
