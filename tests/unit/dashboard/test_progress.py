"""What the page of a deletion says about its progress."""

import datetime

from cleanup_orchestrator import sdk
from tests.unit.dashboard import stand_in

with stand_in.horizon():
    from cleanup_orchestrator.dashboard.deletions import progress

NOW = datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.timezone.utc)
LATER, EARLIER = "2026-11-01T12:05:00Z", "2026-11-01T11:55:00Z"


def count(type_, state, outcome="", message=""):
    return {"region": "R", "service": "network", "type": type_, "state": state, "outcome": outcome, "message": message}


def of(**values):
    known = {"id": "d", "status": "deleting", "mode": "cascade", "dry_run": False, "finished_at": None, "counts": []}
    return progress.of(sdk.Deletion.received(known | values), NOW)


def test_an_ended_deletion_has_no_progress():
    assert of(finished_at=EARLIER) is None


def test_the_page_names_what_workers_have_and_what_waits():
    counts = [count("port", "running"), count("network", "idle", message="waits for network.port"),
              count("router", "dispatched"), count("trunk", "done", "clear", "done")]  # fmt: skip
    now = of(counts=counts)
    assert now.active == ["network.port (R)", "network.router (R)"]
    assert [each.message for each in now.waiting] == ["waits for network.port"]


def test_many_types_are_counted():
    now = of(counts=[count(f"t{n}", "running") for n in range(20)])
    assert (len(now.active), now.more_active) == (8, 12)


def test_an_estimate_is_a_time_of_the_record_that_has_not_passed():
    now = of(point_of_no_return_at=LATER, settle_until=LATER)
    assert (now.deletes_at, now.settled_at) == (LATER, LATER)
    now = of(point_of_no_return_at=EARLIER, settle_until=EARLIER)
    assert (now.deletes_at, now.settled_at) == ("", "")
    assert of(mode="report", settle_until=LATER).settled_at == ""
