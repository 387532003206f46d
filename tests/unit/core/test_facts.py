"""What the facts that a step learned change in its deletion, and which fields the store has to write for them."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core import actions
from cleanup_orchestrator.core.deletion import Deletion, RoundPurpose, Status
from cleanup_orchestrator.core.facts import (
    ProjectGone,
    ProjectReclosed,
    ProjectReopened,
    ProjectReturned,
    ProjectSeen,
    RemovalStopped,
    Surveyed,
)
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.step import Outcome, StepKind, StepResult
from cleanup_orchestrator.worker.steps import RUNNERS
from tests.unit.world import T0, deletion, sweep_step

NOW = T0 + datetime.timedelta(hours=1)
AT = T0 + datetime.timedelta(minutes=59)
WAIVER = Waiver("w", "dns", "gone for good", T0, NOW)
#: A deletion right before the removal of its project.
BEFORE = deletion(
    status=Status.VERIFYING,
    purpose=RoundPurpose.PROJECT_SETTINGS,
    drained_at=T0,
    closed_at=T0,
    project_gone_at=T0,
    empty_inventories=2,
)
REOPENED = {"drained_at": None, "closed_at": None, "empty_inventories": 0}


@pytest.mark.parametrize(
    ("fact", "changes"),
    [
        (Surveyed((WAIVER,)), {"waivers": (WAIVER,)}),
        (ProjectSeen("P2", "dom2", ("u",)), {"project_name": "P2", "domain_id": "dom2", "member_ids": ("u",)}),
        (ProjectGone(AT, locked=True), {"project_gone_at": AT}),
        (ProjectGone(AT, locked=False), {"project_gone_at": AT, "empty_inventories": 0}),
        (ProjectReturned(), {"project_gone_at": None, **REOPENED}),
        (ProjectReopened(), REOPENED),
        (ProjectReclosed(AT), {"drained_at": AT, "closed_at": AT, "empty_inventories": 0}),
        (RemovalStopped(), {"purpose": RoundPurpose.NONE, "empty_inventories": 0}),
    ],
)
def test_what_a_fact_changes(fact, changes):
    result = StepResult(Outcome.UNKNOWN, learned=(fact,))
    after, _ = actions.record(BEFORE, sweep_step("network.port"), result, NOW)
    assert after == dataclasses.replace(BEFORE, **changes, updated_at=NOW)
    assert actions.settled(BEFORE, after, result) == changes.keys()


def test_a_field_that_a_fact_sets_is_written_also_if_it_looks_unchanged():
    """An engine may be counting an inventory at this moment that rests on a lock which is gone."""
    before = dataclasses.replace(BEFORE, drained_at=None, closed_at=None, empty_inventories=0)
    result = StepResult(Outcome.UNKNOWN, learned=(ProjectReopened(),))
    after, _ = actions.record(before, sweep_step("network.port"), result, NOW)
    assert actions.settled(before, after, result) == REOPENED.keys()


def test_the_time_of_progress_is_written_only_if_something_moved():
    step = sweep_step("network.port")
    for result, moved in ((StepResult(Outcome.UNKNOWN), set()), (StepResult(Outcome.CLEAR), {"progress_at"})):
        after, _ = actions.record(BEFORE, step, result, NOW)
        assert actions.settled(BEFORE, after, result) == moved


def test_facts_set_fields_that_a_deletion_has():
    names = {field.name for field in dataclasses.fields(Deletion)}
    facts = (Surveyed(()), ProjectSeen("", "", ()), ProjectGone(AT, False), ProjectReturned(), ProjectReclosed(AT))
    assert actions.settled(BEFORE, BEFORE, StepResult(Outcome.CLEAR, learned=facts)) <= names


def test_every_kind_of_step_that_is_dispatched_has_its_class():
    assert set(RUNNERS) == set(StepKind) - {StepKind.UNSUPPORTED}
