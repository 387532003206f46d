"""A line of the log is one line, whatever names and ids it repeats."""

import io
import logging
import sys

import pytest

from cleanup_orchestrator import log as our_log


@pytest.fixture
def lines():
    """Log a message; give what was written."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(our_log._Redacting(logging.Formatter("INFO [%(request_id)s] %(message)s")))

    def log(message, *args, request_id="r", exc_info=None):
        record = logging.LogRecord("test", logging.INFO, "p", 1, message, args, exc_info)
        record.request_id = request_id
        handler.emit(record)
        return stream.getvalue()

    return log


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\x85", "\x0b"])
def test_a_name_begins_no_line(lines, end):
    written = lines("project %s is deleted", f"x{end}INFO [r] project admin is deleted")
    assert len(written.splitlines()) == 1
    assert "project x\\" in written


def test_an_id_out_of_a_header_begins_none_either(lines):
    assert len(lines("asked", request_id="a\nb").splitlines()) == 1


def test_a_traceback_keeps_its_lines(lines):
    try:
        raise ValueError("password=hush")
    except ValueError:
        written = lines("it broke", exc_info=sys.exc_info())
    assert written.splitlines()[1].startswith("Traceback")
    assert "hush" not in written


def test_what_was_logged_is_not_changed_for_others(lines, caplog):
    record = logging.LogRecord("n", logging.INFO, "p", 1, "a %s", ("b\nc",), None)
    our_log._Redacting(logging.Formatter("%(message)s")).format(record)
    assert record.getMessage() == "a b\nc"
