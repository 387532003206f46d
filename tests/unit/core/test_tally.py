"""The numbers of a deletion: what its types had, and what is left."""

import dataclasses
import itertools

import pytest

from cleanup_orchestrator.core.deletion import RoundPurpose, Status, Tally
from cleanup_orchestrator.core.messages import message
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.results import record
from cleanup_orchestrator.core.step import Outcome, StepState
from cleanup_orchestrator.core.tally import found as ever_found
from cleanup_orchestrator.core.tally import remaining, tally
from tests.unit.world import CLEAR, T0, UNKNOWN, World, deletion, left, sweep_step

S, P = Status, RoundPurpose
TALLY = Tally(steps=40, steps_done=12, found=71, deleted=60, remaining=11)


def test_what_could_not_be_listed_is_not_called_gone():
    tally = dataclasses.replace(TALLY, unknown=2)
    assert message(deletion(status=S.DELETING, tally=tally)).endswith("are left; 2 types could not be listed")


def test_the_numbers_never_go_back_within_an_attempt():
    world = World(deletion(), sweep_step("network.port"), sweep_step("network.network", after=("network.port",)))
    shown = []

    def note(result):
        def answer(_step):
            shown.append((world.deletion.round, tally(world.deletion, world.steps.values())))
            return result

        return answer

    in_use, deleting = left("a", "b", reason=Reason.IN_USE), left("b", reason=Reason.DELETING)
    answers = iter([left("a", "b", "c"), in_use, UNKNOWN, deleting, CLEAR])
    world.answers["network.port"] = lambda step: note(next(answers, CLEAR))(step)
    world.answers["network.network"] = note(CLEAR)
    assert world.run() is S.DELETED
    shown.append((world.deletion.round, tally(world.deletion, world.steps.values())))
    assert len(shown) > 8
    for (one, before), (two, after) in itertools.pairwise(shown):
        assert after.found >= before.found
        assert after.deleted >= before.deleted
        if one == two:
            assert after.steps_done >= before.steps_done
    assert (shown[-1][1].found, shown[-1][1].deleted) == (3, 3)


@pytest.mark.parametrize(("round_", "expected"), [(2, 0), (3, 7)])
def test_what_an_earlier_attempt_found_does_not_count_in_this_one(round_, expected):
    before = {"state": StepState.RUNNING, "outcome": Outcome.LEFTOVERS, "found": 7, "remaining": 7}
    step = dataclasses.replace(sweep_step("network.port", round=round_), **before)
    _, after = record(deletion(status=S.DELETING, since_round=1, round=round_), step, UNKNOWN, T0)
    assert after.found == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"outcome": Outcome.LEFTOVERS, "found": 9, "remaining": 3}, 9, id="fewer than before"),
        pytest.param({"outcome": Outcome.LEFTOVERS, "found": 3, "remaining": 3, "deleted": 4}, 7, id="and new ones"),
        pytest.param({"outcome": Outcome.UNKNOWN, "found": 9, "deleted": 2}, 11, id="not listed"),
        pytest.param({"outcome": Outcome.CLEAR, "found": 9, "deleted": 9, "round": 1}, 9, id="an earlier attempt"),
    ],
)
def test_how_many_a_type_ever_had(values, expected):
    record = deletion(status=S.DELETING, since_round=2, round=3)
    assert ever_found(record, sweep_step("network.port", **{"round": 3, **values})) == expected


@pytest.mark.parametrize(("round_", "expected"), [(2, 0), (3, 7)])
def test_leftovers_of_an_earlier_attempt_do_not_count_in_this_one(round_, expected):
    record_ = deletion(status=S.DELETING, since_round=3, round=3)
    step = sweep_step("network.port", round=round_, outcome=Outcome.LEFTOVERS, state=StepState.DONE, remaining=7)
    assert remaining(record_, step) == tally(record_, [step]).remaining == expected
