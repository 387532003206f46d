"""When a wait for an orphan scan ends, and with which exit code."""

import io

import pytest

from cleanup_orchestrator.osc import scan_wait
from cleanup_orchestrator.osc.screen import Screen
from cleanup_orchestrator.sdk.errors import Unreachable
from tests.support.timing import SleepClock

RUNNING = {"id": "s", "status": "running", "read": 1}


class Api:
    """An API whose scan has one state after the other; the last one stays."""

    def __init__(self, *states):
        self.states = list(states)

    def get_orphan_scan(self, _id):
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, BaseException):
            raise state
        return state


def waited(monkeypatch, *states, timeout=None, quiet=False):
    monkeypatch.setattr(scan_wait, "time", SleepClock())
    stream = io.StringIO()
    scan, code = scan_wait.until_ended(Api(*states), RUNNING, Screen(stream), timeout, quiet)
    return scan["status"], code, stream.getvalue()


@pytest.mark.parametrize(("status", "code"), [("completed", 0), ("incomplete", 4), ("failed", 1), ("cancelled", 1)])
def test_the_exit_code_says_how_the_scan_ended(monkeypatch, status, code):
    ended = {"id": "s", "status": status, "message": "0 orphans; 2 too young"}
    assert waited(monkeypatch, RUNNING, ended)[:2] == (status, code)


def test_each_change_has_one_line_and_the_last_one_says_what_was_skipped(monkeypatch):
    waiting = {**RUNNING, "status": "waiting", "reread_at": "2026-11-21T10:05:00Z", "counts": {"candidates": 2}}
    ended = {"id": "s", "status": "completed", "message": "0 orphans; 2 too young"}
    told = waited(monkeypatch, RUNNING, waiting, waiting, ended)[2].splitlines()
    assert [line.rpartition("; ")[0] for line in told] == [
        "orphan scan s: running; read 1 of 2",
        "orphan scan s: waiting; read 1 of 2; the second read begins at 2026-11-21T10:05:00Z; candidates 2",
        "orphan scan s: completed; 0 orphans; 2 too young",
    ]


def test_the_time_out_ends_the_wait_and_not_the_scan(monkeypatch):
    status, code, told = waited(monkeypatch, RUNNING, timeout=30.0)
    assert (status, code) == ("running", 1)
    assert told.splitlines()[1:] == [
        "Timed out after 30s of waiting; the scan continues.",
        "    See it with: openstack project orphan scan show s",
        "    Cancel it with: openstack project orphan scan cancel s",
    ]


def test_a_short_outage_of_the_api_does_not_end_the_wait(monkeypatch):
    ended = {"id": "s", "status": "completed", "message": ""}
    assert waited(monkeypatch, Unreachable("no answer"), Unreachable("no answer"), ended)[1] == 0
    assert waited(monkeypatch, Unreachable("no answer"))[:2] == ("running", 1)


def test_ctrl_c_ends_the_wait_and_not_the_scan(monkeypatch):
    status, code, told = waited(monkeypatch, KeyboardInterrupt())
    assert (status, code) == ("running", 130) and "Stopped waiting; the scan continues." in told
