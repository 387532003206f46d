"""The report of a deletion that keeps its project says why each leftover was not deleted."""

import dataclasses
import types

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, StepResult
from cleanup_orchestrator.worker.steps.sweep import Sweep
from tests.unit.world import UNKNOWN, deletion, left

REFUSED = Leftover("a", "a", Reason.IN_USE, "a server uses it", ({"type": "compute.server", "id": "s"},))
ASIDE = Leftover("b", "b", Reason.NOT_SELECTED, "it does not have the tag 'x'")


def listed_by(mode, status, *before):
    """Return the method of a sweep whose last attempt left these."""
    sweep = Sweep.__new__(Sweep)
    sweep.deletion = deletion(mode=mode, status=status)
    sweep.worker = types.SimpleNamespace(conf=types.SimpleNamespace(worker=types.SimpleNamespace(most_listed=10)))
    sweep._left = lambda _most: list(before)
    return sweep._still_refused


def test_the_last_inventory_keeps_the_reason_of_the_last_delete():
    result = listed_by(Mode.EMPTY, Status.VERIFYING, REFUSED, ASIDE)(left("a", "b", "c"))
    assert result.leftovers == (REFUSED, *left("b", "c").leftovers)
    assert (result.outcome, result.reason, result.message) == (Outcome.LEFTOVERS, "in_use", "a server uses it")


def test_what_the_inventory_itself_says_of_a_resource_counts():
    now = left("a", reason=Reason.PROTECTED)
    assert listed_by(Mode.EMPTY, Status.VERIFYING, REFUSED)(now).leftovers == now.leftovers


@pytest.mark.parametrize("before", [[], [REFUSED]])
@pytest.mark.parametrize(
    "result", [UNKNOWN, StepResult(Outcome.CLEAR), dataclasses.replace(left("a"), more=True, message="at least 1")]
)
def test_a_list_that_failed_or_is_empty_or_incomplete_is_not_changed(result, before):
    assert listed_by(Mode.EMPTY, Status.VERIFYING, *before)(result) == result


@pytest.mark.parametrize(
    ("mode", "status"),
    [(Mode.CASCADE, Status.VERIFYING), (Mode.REPORT, Status.VERIFYING), (Mode.EMPTY, Status.INVENTORY)],
)
def test_other_inventories_say_only_what_they_see(mode, status):
    assert listed_by(mode, status, REFUSED)(left("a")) == left("a")
