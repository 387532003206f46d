"""When a wait ends, and with which exit code."""

import io

import pytest

from cleanup_orchestrator.osc import wait
from cleanup_orchestrator.osc.wait import Waiter, WaitOptions
from tests.support.timing import SleepClock


class Api:
    """An API whose deletion has one status after the other; the last one stays."""

    def __init__(self, *records):
        self.records = [{"id": "d", "project_name": "demo", "mode": "cascade", **each} for each in records]

    def get_deletion(self, _id):
        return self.records.pop(0) if len(self.records) > 1 else self.records[0]

    def deletions(self, **_):
        return []


BLOCKED = {"status": "deleting", "conditions": [{"type": "blocked", "status": True, "message": "a port is in use"}]}
MOVING = {"status": "deleting"}


def waited(monkeypatch, api, **options):
    monkeypatch.setattr(wait, "time", SleepClock())
    return Waiter(api, io.StringIO(), WaitOptions(**options)).wait([dict(api.records[0])])[1]


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({"status": "deleted"}, 0),
        ({"status": "purged", "mode": "purge"}, 0),
        ({"status": "planned", "dry_run": True}, 0),
        ({"status": "purged"}, 1),
        ({"status": "deleted", "dry_run": True}, 1),
        ({"status": "leftovers"}, 1),
        ({"status": "failed"}, 1),
        ({"status": "cancelled"}, 1),
    ],
)
def test_a_wait_succeeds_only_if_the_deletion_ended_as_requested(monkeypatch, record, code):
    assert waited(monkeypatch, Api(MOVING, record)) == code


@pytest.mark.parametrize(("number", "detailed"), [(1, True), (wait.DETAILED, True), (wait.DETAILED + 1, False)])
def test_a_terminal_shows_what_moves_unless_there_are_many(monkeypatch, number, detailed):
    count = {"service": "compute", "type": "server", "state": "running", "remaining": 2}
    moving = {**MOVING, "counts": [count]}
    drawn = []
    monkeypatch.setattr(wait, "time", SleepClock())
    waiter = Waiter(Api(moving, moving, {"status": "deleted"}), io.StringIO(), WaitOptions())
    monkeypatch.setattr(waiter._screen, "draw", drawn.append)
    waiter._watched = [wait.WatchedDeletion({"id": str(n), "mode": "cascade", **moving}) for n in range(number)]
    waiter._draw()
    assert len(drawn[0]) == number * (2 if detailed else 1)
    assert ("    now: compute.server (2 left)" in drawn[0]) == detailed


def test_a_dry_run_that_could_not_list_everything_has_its_own_exit_code(monkeypatch):
    condition = {"type": "plan_complete", "status": False, "message": "no answer"}
    planned = {"status": "planned", "dry_run": True, "conditions": [condition]}
    assert waited(monkeypatch, Api(MOVING, planned)) == wait.INCOMPLETE == 4


def test_a_wait_goes_on_while_a_person_may_help_unless_it_is_to_stop(monkeypatch):
    assert waited(monkeypatch, Api(BLOCKED, {"status": "deleted"})) == 0
    assert waited(monkeypatch, Api(BLOCKED), stop_when_blocked=True, timeout=3600.0) == wait.BLOCKED
    assert waited(monkeypatch, Api(BLOCKED), timeout=60.0) == 1


def test_what_was_blocked_before_a_retry_does_not_end_the_wait_for_it(monkeypatch):
    api = Api(BLOCKED, BLOCKED, MOVING, {"status": "deleted"})
    assert waited(monkeypatch, api, stop_when_blocked=True, patience=600.0) == 0
