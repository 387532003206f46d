"""What results and facts change in a deletion and its steps: which list is believed, and what the store writes."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core import results
from cleanup_orchestrator.core.deletion import Deletion, RoundPurpose, Status
from cleanup_orchestrator.core.findings import (
    InventoryOutdated,
    ProjectGone,
    ProjectReclosed,
    ProjectReopened,
    ProjectReturned,
    ProjectSeen,
    RemovalStopped,
    Surveyed,
)
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.plans import EMPTY_DIGEST
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.results import believed
from cleanup_orchestrator.core.step import Outcome, StepKind, StepResult
from cleanup_orchestrator.worker.steps import RUNNERS
from tests.support.cases import each_case
from tests.unit.core.test_blockers import after, failed
from tests.unit.world import CLEAR, T0, UNKNOWN, deletion, left, sweep_step

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
        (InventoryOutdated(), {"empty_inventories": 0}),
        (ProjectReclosed(AT), {"drained_at": AT, "closed_at": AT, "empty_inventories": 0}),
        (RemovalStopped(), {"purpose": RoundPurpose.NONE, "empty_inventories": 0}),
    ],
)
def test_what_a_fact_changes(fact, changes):
    result = StepResult(Outcome.UNKNOWN, learned=(fact,))
    after, _ = results.record(BEFORE, sweep_step("network.port"), result, NOW)
    assert after == dataclasses.replace(BEFORE, **changes, updated_at=NOW)
    assert results.settled(BEFORE, after, result) == changes.keys()


def test_a_field_that_a_fact_sets_is_written_also_if_it_looks_unchanged():
    """An engine may be counting an inventory at this moment that rests on a lock which is gone."""
    before = dataclasses.replace(BEFORE, drained_at=None, closed_at=None, empty_inventories=0)
    result = StepResult(Outcome.UNKNOWN, learned=(ProjectReopened(),))
    after, _ = results.record(before, sweep_step("network.port"), result, NOW)
    assert results.settled(before, after, result) == REOPENED.keys()


def test_the_time_of_progress_is_written_only_if_something_moved():
    step = sweep_step("network.port")
    for result, moved in ((StepResult(Outcome.UNKNOWN), set()), (StepResult(Outcome.CLEAR), {"progress_at"})):
        after, _ = results.record(BEFORE, step, result, NOW)
        assert results.settled(BEFORE, after, result) == moved


def test_facts_set_fields_that_a_deletion_has():
    names = {field.name for field in dataclasses.fields(Deletion)}
    facts = (Surveyed(()), ProjectSeen("", "", ()), ProjectGone(AT, False), ProjectReturned(), ProjectReclosed(AT))
    assert results.settled(BEFORE, BEFORE, StepResult(Outcome.CLEAR, learned=facts)) <= names


def test_every_kind_of_step_that_is_dispatched_has_its_class():
    assert set(RUNNERS) == set(StepKind) - {StepKind.UNSUPPORTED}


PORT = sweep_step("network.port")
HOUR = datetime.timedelta(hours=1)


@pytest.mark.parametrize(
    ("before", "sweep", "progress"),
    [
        ({}, dataclasses.replace(left("1"), deleted=(("2", "two"),)), True),
        ({"remaining": 1, "outcome": Outcome.LEFTOVERS}, left("1"), False),
        ({"remaining": 2, "outcome": Outcome.LEFTOVERS}, left("1"), True),
        ({"outcome": Outcome.LEFTOVERS}, CLEAR, True),
        ({"outcome": Outcome.CLEAR}, CLEAR, False),
        ({}, UNKNOWN, False),
    ],
)
def test_what_is_progress(before, sweep, progress):
    record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE)
    after, _ = results.record(record, dataclasses.replace(PORT, **before), sweep, T0 + HOUR)
    assert (after.progress_at == T0 + HOUR) is progress


NOT_FOUND = StepResult(Outcome.UNKNOWN, str(Reason.NOT_SUPPORTED), "HTTP 404: Group 7 could not be found")
ABSENT = StepResult(Outcome.CLEAR, absent=True)


@pytest.mark.parametrize(
    ("before", "now", "outcome", "reason"),
    [
        ([], [NOT_FOUND], Outcome.UNKNOWN, Reason.NOT_SUPPORTED),
        ([CLEAR], [NOT_FOUND], Outcome.UNKNOWN, Reason.ERROR),
        ([dataclasses.replace(left("a"), digest="x")], [NOT_FOUND, NOT_FOUND], Outcome.UNKNOWN, Reason.ERROR),
        ([dataclasses.replace(CLEAR, digest=EMPTY_DIGEST), failed(Reason.UNREACHABLE)], [NOT_FOUND], Outcome.UNKNOWN,
         Reason.ERROR),
        ([NOT_FOUND], [NOT_FOUND], Outcome.UNKNOWN, Reason.NOT_SUPPORTED),
        ([CLEAR], [failed(Reason.FORBIDDEN)], Outcome.UNKNOWN, Reason.FORBIDDEN),
        # A service that never had the type.
        ([], [ABSENT], Outcome.CLEAR, ""),
        ([ABSENT], [ABSENT], Outcome.CLEAR, ""),
        # One that had it, and says that it does not.
        ([CLEAR], [ABSENT], Outcome.UNKNOWN, Reason.ERROR),
        ([CLEAR], [ABSENT, ABSENT], Outcome.CLEAR, ""),
        ([left("a")], [ABSENT], Outcome.UNKNOWN, Reason.ERROR),
        ([left("a")], [ABSENT, ABSENT], Outcome.UNKNOWN, Reason.NOT_SUPPORTED),
        ([left("a")], [ABSENT, ABSENT, ABSENT, CLEAR], Outcome.CLEAR, ""),
    ],
)  # fmt: skip
def test_what_a_list_said_before_counts(before, now, outcome, reason):
    step = after(*before, *now)
    assert (step.outcome, step.reason) == (outcome, reason)


@each_case(
    "result",
    [NOT_FOUND, ABSENT, CLEAR, left("a"), failed(Reason.ERROR)],
    "before",
    [[], [CLEAR], [left("a")], [left("a"), ABSENT], [ABSENT], [left("a"), NOT_FOUND]],
)
def test_a_believed_result_is_believed_again(before, result):
    once = believed(after(*before), result)
    assert believed(after(*before), once) == once


def test_the_number_of_what_was_there_is_kept_while_the_type_is_said_to_be_absent():
    assert after(left("a", "b"), ABSENT, ABSENT).found == 2


def test_equal_results_in_a_row_are_counted():
    results = [failed(Reason.ERROR), failed(Reason.ERROR), failed(Reason.FORBIDDEN), failed(Reason.FORBIDDEN), CLEAR]
    assert [after(*results[:n]).same for n in range(1, 6)] == [1, 2, 1, 2, 1]


@pytest.mark.parametrize(
    ("before", "now", "deleted"),
    [
        ({"remaining": 3}, StepResult(Outcome.CLEAR), 3),  # its parent took all of it along
        ({"remaining": 3}, StepResult(Outcome.CLEAR, kept=1), 2),
        ({"remaining": 3, "kept": 1}, StepResult(Outcome.CLEAR, kept=1), 3),
        ({"remaining": 3, "kept": 5}, StepResult(Outcome.CLEAR, kept=1), 3),
        ({"remaining": 1}, StepResult(Outcome.CLEAR, kept=9), 0),
        ({"outcome": Outcome.UNKNOWN, "found": 3}, StepResult(Outcome.CLEAR, kept=1), 3),  # that list counted none
    ],
)
def test_what_is_kept_by_now_was_not_deleted(before, now, deleted):
    """A port that its service uses by now, and a volume that goes with another resource, are still there."""
    step = sweep_step("network.port", **{"outcome": Outcome.LEFTOVERS, **before})
    record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE)
    assert results.record(record, step, now, T0)[1].deleted == deleted


def test_a_truncated_list_takes_the_digest_of_the_list_before_from_a_plan():
    """A plan or an approval must not name resources of an earlier list as if they were all that there is."""
    listed = dataclasses.replace(sweep_step("image.image"), digest="of all")
    for more, digest in ((False, "of all"), (True, "")):
        _deletion, step = results.record(deletion(), listed, dataclasses.replace(left("i"), more=more), NOW)
        assert step.digest == digest
