"""The picture of the statuses: what is passed, present and ahead."""

import pytest

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard.deletions import states


def deletion(status, mode="cascade", **values):
    progress = values.pop("progress", {"found": 3, "deleted": 1, "purpose": ""})
    known = {"dry_run": False, "origin": "request", "finished_at": None, "plan_id": "", "conditions": []}
    return sdk.Deletion.received({"id": "d", "status": status, "mode": mode, "progress": progress, **known, **values})


PICTURES = {
    "recoverable": "accepted draining inventory [recoverable] deleting verifying deleted",
    "deleting": "accepted draining inventory [deleting] verifying deleted",
    "deleted": "accepted draining inventory deleting verifying [deleted]",
    "leftovers": "accepted draining inventory deleting verifying [leftovers]",
    "cancelling": "accepted inventory deleting [cancelling] cancelled",
    "cancelled": "accepted inventory deleting cancelling [cancelled]",
    "failed": "accepted inventory deleting [failed]",
    "a_newer_status": "accepted inventory deleting [a_newer_status]",
}


def drawn(found):
    return " ".join(f"[{step.status}]" if step.place == "now" else step.status for step in states.steps(found))


@pytest.mark.parametrize(("status", "picture"), PICTURES.items())
def test_a_cascade_is_drawn(status, picture):
    assert drawn(deletion(status)) == picture


@pytest.mark.parametrize(
    ("found", "picture"),
    [
        (deletion("leftovers", "report"), "accepted inventory [leftovers]"),
        (deletion("verifying", "report"), "accepted inventory draining [verifying] deleted"),
        (deletion("planned", dry_run=True), "accepted inventory [planned]"),
        (deletion("purged", "purge"), "accepted draining inventory deleting verifying [purged]"),
        (deletion("deleting", origin="adopted"), "accepted inventory [deleting] verifying deleted"),
        (
            deletion("deleting", conditions=[{"type": "halted", "status": True}]),
            "accepted draining inventory recoverable [deleting] verifying deleted",
        ),
    ],
)
def test_other_deletions_are_drawn(found, picture):
    assert drawn(found) == picture
