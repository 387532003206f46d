"""A dry run under way ends for a real deletion of its project."""

import dataclasses
import itertools

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.dry_runs import REPLACED_BY, ended, gives_way
from cleanup_orchestrator.core.guard import HoldInputs, causes
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import Step, StepKind
from cleanup_orchestrator.core.transitions import LIVE, MOVES
from tests.support.cases import each_case
from tests.unit.world import T0, deletion

ASKED = Event("deletion.accepted", "x", "alice", {}, "req-1")
REAL = deletion(id="real", mode=Mode.CASCADE)


@pytest.mark.parametrize("status", sorted(Status))
def test_only_a_live_dry_run_gives_way_and_only_to_a_deletion_that_is_none(status):
    dry = deletion(status=status, dry_run=True)
    assert gives_way(dry, REAL) is (status in LIVE)
    assert not gives_way(dry, dataclasses.replace(REAL, dry_run=True))
    assert not gives_way(dataclasses.replace(dry, dry_run=False), REAL)
    assert not gives_way(dataclasses.replace(dry, has_changes=True), REAL), "it has something to undo"


@each_case("kind", [kind for kind in StepKind if kind is not StepKind.RELEASE], "status", sorted(LIVE))
def test_what_gives_way_has_written_nothing(status, kind):
    assert list(causes(HoldInputs(deletion(status=status, dry_run=True)), Step("s", "d", kind, round=1)))


@pytest.mark.parametrize("status", [Status.ACCEPTED, Status.INVENTORY, Status.CANCELLING])
def test_it_ends_by_legal_moves_that_name_the_request_and_the_other_deletion(status):
    moves = list(ended(deletion(status=status, dry_run=True), (), REAL, ASKED, T0))
    statuses = [status, *(after.status for after, _event in moves)]
    assert statuses[-2:] == [Status.CANCELLING, Status.CANCELLED]
    assert set(itertools.pairwise(statuses)) <= MOVES.keys()
    for after, event in moves:
        assert event.type == f"deletion.{after.status}"
        assert (event.actor, event.request_id, event.data[REPLACED_BY]) == ("alice", "req-1", "real")
        assert "replaced by deletion real (cascade)" in event.message
    last, _event = moves[-1]
    assert (last.finished_at, last.message) == (T0, "replaced by deletion real (cascade)")
