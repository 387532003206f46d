"""One odd answer is no verdict: what a list said before counts, and a person is asked for after two answers."""

import dataclasses

import pytest

from cleanup_orchestrator.core import messages
from cleanup_orchestrator.core.actions import believed, record
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import ConditionType, RoundPurpose, Status
from cleanup_orchestrator.core.plans import NOTHING
from cleanup_orchestrator.core.reasons import ONE_ANSWER, ONLY_A_PERSON, Reason
from cleanup_orchestrator.core.step import Outcome, StepKind, StepResult, StepState
from tests.support.cases import each_case
from tests.unit.world import CLEAR, T0, World, deletion, left, sweep_step

PORT = sweep_step("network.port")
NOT_FOUND = StepResult(Outcome.UNKNOWN, str(Reason.NOT_SUPPORTED), "HTTP 404: Group 7 could not be found")
ABSENT = StepResult(Outcome.CLEAR, absent=True)


def failed(reason):
    return StepResult(Outcome.UNKNOWN, str(reason), "why")


def after(*results, step=PORT):
    for result in results:
        _, step = record(deletion(status=Status.DELETING, round=1), step, result, T0)
    return step


@pytest.mark.parametrize(
    ("before", "now", "outcome", "reason"),
    [
        ([], [NOT_FOUND], Outcome.UNKNOWN, Reason.NOT_SUPPORTED),
        ([CLEAR], [NOT_FOUND], Outcome.UNKNOWN, Reason.ERROR),
        ([dataclasses.replace(left("a"), digest="x")], [NOT_FOUND, NOT_FOUND], Outcome.UNKNOWN, Reason.ERROR),
        ([dataclasses.replace(CLEAR, digest=NOTHING), failed(Reason.UNREACHABLE)], [NOT_FOUND], Outcome.UNKNOWN,
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


@pytest.mark.parametrize("reason", sorted(ONLY_A_PERSON & ONE_ANSWER))
def test_a_person_is_asked_for_after_two_answers(reason):
    answers = iter([failed(reason)])
    world = World(deletion(), PORT)
    world.answers["network.port"] = lambda _: next(answers, CLEAR)
    assert world.run(limit=200) is Status.DELETED
    assert [e.type for e in world.events if "blocked" in e.type] == []
    world = World(deletion(), PORT)
    world.answers["network.port"] = lambda _: failed(reason)
    world.run(limit=60)
    assert world.deletion.condition(ConditionType.BLOCKED)


def test_a_single_answer_is_a_blocker_in_the_report_all_the_same():
    step = dataclasses.replace(after(failed(Reason.FORBIDDEN)), round=1)
    [found] = blockers(deletion(status=Status.DELETING, round=1, since_round=1), [step])
    assert found.reason == Reason.FORBIDDEN


@pytest.mark.parametrize(
    ("reason", "kind", "same", "twice"),
    [
        (Reason.FORBIDDEN, StepKind.SWEEP, 1, False),
        (Reason.FORBIDDEN, StepKind.SWEEP, 2, True),
        (Reason.FORBIDDEN, StepKind.DRAIN, 1, True),
        (Reason.FOREIGN, StepKind.SWEEP, 1, True),
        (Reason.STUCK, StepKind.SWEEP, 1, True),
        (Reason.NO_PLUGIN, StepKind.UNSUPPORTED, 0, True),
    ],
)
def test_which_results_rest_on_one_answer(reason, kind, same, twice):
    assert dataclasses.replace(PORT, reason=str(reason), kind=kind, same=same).seen_twice is twice


# --------------------------------------------------------------------------- what does not move, and what is behind it
def swept(name, reason, after=(), round_=2, outcome=Outcome.LEFTOVERS):
    return sweep_step(name, after=after, round=round_, state=StepState.DONE, outcome=outcome, reason=str(reason))


@pytest.mark.parametrize(
    ("reason", "stopped"),
    [
        (Reason.STUCK, True),
        (Reason.ERROR, True),
        (Reason.IN_USE, True),
        (Reason.DELETING, False),
        (Reason.QUEUED, False),
        (Reason.ON_HOLD, False),
    ],
)
def test_what_is_behind_a_type_that_does_not_move_says_so(reason, stopped):
    server = swept("compute.server", reason)
    port = swept("network.port", Reason.PRESENT, after=("compute.server",), round_=1)
    network = swept("network.network", Reason.PRESENT, after=("network.port",), round_=1)
    free = swept("dns.zone", Reason.PRESENT, round_=1)
    record = deletion(status=Status.DELETING, round=2, since_round=1, purpose=RoundPurpose.DELETE)
    expected = {("R1", "network", t): ("compute.server",) for t in ("port", "network")} if stopped else {}
    assert messages.behind(record, [server, port, network, free]) == expected
    other = dataclasses.replace(server, region="R2")
    assert messages.behind(record, [other, port, network, free]) == {}
