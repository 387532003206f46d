"""``cloud check``: what is not known is not ok, time limits, clocks, the printed lines and the exit code."""

from __future__ import annotations

import argparse
import contextlib
import json
import threading
import time
import types

import pytest

from cleanup_orchestrator.cmd import cloud_check
from cleanup_orchestrator.cmd.cloud_check import findings, report
from cleanup_orchestrator.cmd.cloud_findings import clock_finding, failed, ok, warning
from cleanup_orchestrator.core.conformance import Verdict

OK, WARNING, FAILED = ok("a", "fine"), warning("b", "look", "sub"), failed("c", "bad", "mend it")


@pytest.mark.parametrize(
    ("found", "code"),
    [([], 0), ([OK], 0), ([OK, WARNING], 1), ([WARNING, FAILED, OK], 2), ([FAILED], 2)],
)
def test_the_exit_code_is_that_of_the_worst_line(found, code, capsys):
    assert report(found, as_json=False) == code
    assert report(found, as_json=True) == code
    rows = json.loads(capsys.readouterr().out.partition("FAILED\n")[2])["checks"]
    assert [row["result"] for row in rows] == [cloud_check.CODES[one.verdict] for one in found]


def test_a_line_has_the_check_its_subject_and_the_command(capsys):
    report([WARNING, FAILED], as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["warning  b sub: look", "FAILED   c: bad. Run: mend it", "0 ok, 1 warning, 1 FAILED"]


def test_a_password_in_an_error_is_not_shown(capsys):
    report([failed("database", "postgresql://cleanup:hush@db/x does not answer", "mend it")], as_json=False)
    assert "hush" not in capsys.readouterr().out


def test_what_hangs_or_fails_is_red_and_the_rest_is_said():
    end = threading.Event()

    def hangs():
        yield ok("first", "before it hangs")
        end.wait(20)

    def fails():
        yield ok("second", "before it fails")
        raise RuntimeError("the service is odd")

    began = time.monotonic()
    found = list(findings([("hangs", hangs), ("fails", fails), ("fine", lambda: [ok("third", "fine")])], 0.3))
    end.set()
    assert time.monotonic() - began < 10
    assert [(one.rule, one.verdict) for one in found] == [
        ("first", Verdict.OK),
        ("hangs", Verdict.FAILED),
        ("second", Verdict.OK),
        ("fails", Verdict.FAILED),
        ("third", Verdict.OK),
    ]
    assert "more than 0.3 seconds" in found[1].text and "the service is odd" in found[3].text


@pytest.mark.parametrize(
    ("shown", "before", "after", "good"),
    [
        (100.0, 100.0, 100.0, True),
        (95.0, 100.0, 130.0, True),  # within what is tolerated, although the answer took long
        (135.0, 100.0, 130.0, True),
        (120.0, 100.0, 130.0, True),
        (94.9, 100.0, 130.0, False),
        (135.1, 100.0, 130.0, False),
        (3700.0, 100.0, 100.0, False),
    ],
)
def test_a_clock_counts_as_wrong_beyond_five_seconds_of_the_call(shown, before, after, good):
    found = clock_finding("clock", "x", shown, before, after)
    assert (found.verdict is Verdict.OK) is good
    assert good or ("fast" if shown > after else "slow") in found.text


def test_a_name_from_keystone_controls_no_terminal_and_begins_no_line(capsys):
    """A manager of a domain may give a project such a name."""
    name = "x\x1b[2J\nok       lock: all is well"
    report([warning("lock", f"project {name}", name)], as_json=False)
    first, counts = capsys.readouterr().out.splitlines()
    assert first.startswith("warning  lock x\\x1b[2J\\nok ") and "1 warning" in counts


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_what_a_check_made_is_undone_at_the_end(monkeypatch, error):
    """Also of a check that takes too long: its thread ends with the process, and its project would stay."""
    undone = []

    def checks(context, _upgrade):
        context.undo.append(lambda: undone.append("the project") or [])
        yield OK
        if error:
            raise error

    parts = types.SimpleNamespace(store=types.SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(cloud_check, "read", lambda _files: None)
    monkeypatch.setattr(cloud_check, "components", lambda _conf: parts)
    monkeypatch.setattr(cloud_check, "all_findings", checks)
    args = argparse.Namespace(json=False, time_limit=20)
    with pytest.raises(error) if error else contextlib.nullcontext():
        cloud_check.run([], args, lambda _conf: [])
    assert undone == ["the project"]
