"""The journal of a deletion that is tried again and again: a line for what changed, none for what did not."""

from __future__ import annotations

import collections

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins import base
from tests.emulated.orchestrator import Orchestrator
from tests.support.emulated_site import LEAN, wait_until_tried, with_type
from tests.support.stores import cancel
from tests.support.timing import wait

LONG = 300
IMAGE = "image.image"
CLOUD = LEAN | {"projects": 1}


def refuse(_connection, _project, _image):
    """Refuse every delete."""
    raise base.Refused(base.Verdict(Reason.ERROR, "its storage burnt down"))


@pytest.fixture
def orchestrator(emulated, tmp_path):
    emulated.state.add("RegionOne", IMAGE, emulated.projects[0])
    made = Orchestrator(emulated, tmp_path, engine={"retry_base": 0.1, "retry_cap": 1})
    made.parts.registry = with_type(IMAGE, delete=refuse, prepare=())
    made.parts.registry.register_options(made.parts.conf)
    with made:
        yield made


def test_each_line_says_something_new_and_who_did_it(orchestrator, emulated):
    deletion_id = orchestrator.request(emulated.projects[0])
    wait_until_tried(orchestrator, deletion_id, IMAGE, 5)
    cancel(orchestrator.store, deletion_id)
    orchestrator.parts.bus.decide(deletion_id)
    wait("it is cancelled", lambda: orchestrator.store.get(deletion_id).status is Status.CANCELLED, LONG)
    events = [row.event for row in orchestrator.store.events(deletion_id, 1000)]
    lines = collections.Counter((e.type, e.message) for e in events if e.type.startswith(("resource.", "step.sur")))
    assert sum(e.type == "resource.deleting" and e.data["type"] == "image" for e in events) == 1
    assert set(lines.values()) == {1}
    of_users = ("deletion.accepted", "deletion.cancelling")  # here the test writes them, without a user
    assert [e.type for e in events if not e.actor and e.type not in of_users] == []
    moves = [e.message for e in events if e.type == "deletion.deleting"]
    assert [move.partition(":")[0] for move in moves] == ["from inventory to deleting"]
