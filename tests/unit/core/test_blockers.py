"""What keeps a deletion from going on: what only a person can clear is said at once, and stays said until then."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core.blockers import blockers, only_a_person_clears
from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import Child, Force, Mode, Status
from cleanup_orchestrator.core.reasons import ONE_ANSWER, ONLY_A_PERSON, Reason
from cleanup_orchestrator.core.results import record
from cleanup_orchestrator.core.rounds import refused_token
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult, StepState, Token
from tests.unit.world import CLEAR, T0, UNKNOWN, World, deletion, left, sweep_step

NETWORK = sweep_step("network.network", after=("network.port",))
PORT = sweep_step("network.port")


def blocked(world):
    return world.deletion.condition(ConditionType.BLOCKED)


def stalled(world):
    return world.deletion.condition(ConditionType.STALLED)


def world_with(reason, **values):
    world = World(deletion(**values), NETWORK, PORT)
    world.answers["network.network"] = lambda _: left("n1", reason=reason)
    return world


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (Reason.FOREIGN, True),
        (Reason.PROTECTED, True),
        (Reason.OWNER_UNKNOWN, True),
        (Reason.NO_JANITOR, True),
        (Reason.FORBIDDEN, True),
        (Reason.IN_USE, False),
        (Reason.ERROR, False),
        (Reason.DELETING, False),
        (Reason.PRESENT, False),
        (Reason.REFUSED, False),
    ],
)
def test_a_leftover_blocks_if_only_a_person_can_clear_it(reason, expected):
    world = world_with(reason)
    world.run(limit=60)
    assert world.deletion.status is Status.DELETING
    assert (blocked(world) is not None) is expected
    if expected:
        assert world.deletion.attention == ("blocked",)
        assert blocked(world).message == f"network.network@R1: {reason}"


@pytest.mark.parametrize("reason", [Reason.NOT_SUPPORTED, Reason.FORBIDDEN, Reason.NO_PROJECT_TOKEN])
def test_a_list_that_fails_until_a_person_acts_blocks(reason):
    world = World(deletion(), PORT)
    world.answers["network.port"] = lambda _: StepResult(Outcome.UNKNOWN, str(reason), "why")
    world.run(limit=60)
    assert blocked(world).message == f"network.port@R1: {reason}"


def test_it_is_said_with_the_first_inventory_and_before_anything_is_deleted():
    world = world_with(Reason.FOREIGN)
    world.run(limit=60, until=Status.DELETING)
    assert blocked(world) is not None
    assert [b.reason for b in blockers(world.deletion, world.steps.values())] == [Reason.FOREIGN]
    assert world.now - T0 < datetime.timedelta(seconds=60)


def test_it_is_said_once_however_many_rounds_and_tries_follow():
    world = world_with(Reason.FOREIGN)
    world.run(limit=300)
    assert [e.data["status"] for e in world.events if e.type == "condition.blocked"] == [True]


def test_it_ends_when_it_is_cleared():
    world = world_with(Reason.FOREIGN)
    world.run(limit=100)
    world.answers["network.network"] = lambda _: CLEAR
    assert world.run(limit=600) is Status.DELETED
    assert blocked(world) is None
    assert [e.data["status"] for e in world.events if e.type == "condition.blocked"] == [True, False]


@pytest.mark.parametrize("values", [{"mode": Mode.REPORT}, {"dry_run": True}])
def test_a_report_and_a_dry_run_end_by_themselves(values):
    world = world_with(Reason.FOREIGN, **values)
    world.run(limit=100)
    assert not [e for e in world.events if e.type == "condition.blocked"]
    assert blockers(world.deletion, world.steps.values())


@pytest.mark.parametrize("values", [{}, {"mode": Mode.REPORT}, {"dry_run": True}])
def test_every_deletion_is_blocked_if_it_cannot_even_begin(values):
    world = World(deletion(**values), PORT)
    world.answers["survey"] = lambda _: StepResult(Outcome.UNKNOWN, str(Reason.FORBIDDEN), "no role")
    world.run(limit=600)
    assert world.deletion.status is Status.ACCEPTED
    assert world.now - T0 > 3 * world.rules.stall_after
    assert stalled(world) is None
    assert (blocked(world) is not None, world.deletion.attention) == (
        True,
        () if "dry_run" in values else ("blocked",),
    )


def test_a_service_without_a_plugin_blocks():
    step = Step("u", "d", StepKind.UNSUPPORTED, "R1", "messaging", reason=str(Reason.NO_PLUGIN))
    step = dataclasses.replace(step, state=StepState.DONE, outcome=Outcome.UNKNOWN, round=1)
    world = World(deletion(), PORT, step)
    world.run(limit=60)
    assert blocked(world).message == "messaging@R1: no_plugin"


@pytest.mark.parametrize(
    "result",
    [
        StepResult(Outcome.UNKNOWN, str(Reason.FORBIDDEN), "no role"),
        StepResult(Outcome.UNKNOWN, str(Reason.NOT_SUPPORTED), "404"),
        left("q", reason=Reason.PROTECTED),
    ],
)
def test_a_project_setting_that_stays_needs_no_person(result):
    world = World(deletion(), PORT, sweep_step("compute.quota", project_setting=True))
    world.answers["compute.quota"] = lambda _: result
    assert world.run() is Status.DELETED
    assert not [e for e in world.events if e.type == "condition.blocked"]
    assert world.deletion.message.startswith("removed; nothing is left but settings of the project: compute.quota")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, True),
        ({"round": 3, "state": StepState.RUNNING}, True),  # a later round: the result of the one before counts
        ({"round": 2, "state": StepState.RUNNING}, False),  # the first list of this attempt runs
        ({"round": 2, "state": StepState.RUNNING, "attempt": 2}, True),
        ({"round": 0}, False),  # of the attempt before
        ({"waived": "w"}, False),
        ({"informational": True}, False),
        ({"kind": StepKind.ACCESS}, False),
        ({"kind": StepKind.HALT}, False),
        ({"reason": Reason.IN_USE}, False),
        ({"outcome": Outcome.CLEAR}, False),
    ],
)
def test_which_results_count(values, expected):
    base = {"round": 2, "attempt": 1, "state": StepState.DONE, "outcome": Outcome.LEFTOVERS, "reason": Reason.FOREIGN}
    record = deletion(status=Status.DELETING, since_round=1, round=3)
    assert only_a_person_clears(record, dataclasses.replace(PORT, **{**base, **values})) is expected


@pytest.mark.parametrize(
    ("task", "reason", "mode"),
    [("remove", Reason.PROJECT_HAS_CHILDREN, Mode.REPORT), ("close", Reason.FORBIDDEN, Mode.REPORT)],
)
def test_what_ended_the_attempt_before_blocks_in_no_later_one(task, reason, mode):
    world = World(deletion(mode=mode), PORT)
    world.answers[task] = lambda _: StepResult(Outcome.UNKNOWN, str(reason), "why")
    assert world.run() is Status.FAILED
    world.user(Status.ACCEPTED)
    world.events.clear()

    def now_it_works(_step):
        world.engine()  # a decision while it runs
        return CLEAR

    world.answers[task] = now_it_works
    assert world.run() is Status.DELETED
    assert not [e for e in world.events if e.type == "condition.blocked"]


@pytest.mark.parametrize(("unplanned", "expected"), [(0, False), (1, True)])
def test_under_force_only_what_is_not_planned_blocks(unplanned, expected):
    record = deletion(status=Status.DELETING, round=3, forced=Force("why", (), T0, attempt=1, round=2))
    values = {"state": StepState.DONE, "outcome": Outcome.LEFTOVERS, "reason": Reason.NOT_PLANNED, "round": 3}
    step = dataclasses.replace(PORT, **values, remaining=1, unplanned=unplanned)
    assert only_a_person_clears(record, step) is expected


@pytest.mark.parametrize("status", [Status.CANCELLING, Status.CANCELLED])
def test_after_a_cancel_only_the_release_can_block(status):
    record = deletion(status=status, round=3)
    values = {"state": StepState.DONE, "round": 3, "reason": Reason.FORBIDDEN}
    sweep = dataclasses.replace(PORT, **values, outcome=Outcome.LEFTOVERS)
    release = Step("r", "d", StepKind.RELEASE, **values, outcome=Outcome.UNKNOWN)
    assert [only_a_person_clears(record, step) for step in (sweep, release)] == [False, True]


# ------------------------------------------------------------------------------------------------ trees of projects
BELOW = StepResult(Outcome.CLEAR, str(Reason.PROJECT_HAS_CHILDREN), "it has child projects: c1")


@pytest.mark.parametrize(
    ("status", "attention", "message", "remedy"),
    [
        (Status.DELETING, "", None, False),
        (Status.DELETING, "blocked", "project Child: blocked", False),
        (Status.DELETING, "approval", "project Child: approval", False),
        (Status.FAILED, "failed", "project Child: failed; survey: project_has_children", True),
        (Status.CANCELLED, "", "survey: project_has_children", True),
    ],
)
def test_a_parent_needs_a_person_if_a_child_does(status, attention, message, remedy):
    world = World(deletion(include_subtree=True), PORT)
    world.answers["survey"] = lambda _: BELOW
    child = Child("d1", "c1", status, world.now, "Child", tuple(attention.split()))
    world.deletion = dataclasses.replace(world.deletion, children=(child,))
    world.run(limit=200)
    assert world.deletion.status is Status.ACCEPTED
    found = blocked(world)
    assert (found and {*found.message.split("; ")}) == (message and {*message.split("; ")})
    assert world.deletion.attention == (("blocked",) if message else ())
    assert bool(blockers(world.deletion, world.steps.values())) is remedy
    assert stalled(world) is None


@pytest.mark.parametrize("mode", sorted(Mode))
@pytest.mark.parametrize("status", [Status.PLANNED, Status.FAILED])
def test_a_dry_run_does_not_wait_for_the_dry_runs_below_it(mode, status):
    world = World(deletion(include_subtree=True, dry_run=True, mode=mode), PORT)
    world.answers["survey"] = lambda _: BELOW
    world.deletion = dataclasses.replace(world.deletion, children=(Child("d1", "c1", status, world.now, "Child"),))
    assert world.run() is Status.PLANNED
    assert not [e for e in world.events if e.type == "condition.blocked"]
    assert blockers(world.deletion, world.steps.values()) == ()


def test_a_dry_run_without_the_projects_below_says_that_they_block():
    world = World(deletion(dry_run=True), PORT)
    world.answers["survey"] = lambda _: dataclasses.replace(BELOW, outcome=Outcome.UNKNOWN)
    assert world.run() is Status.FAILED
    assert [b.reason for b in blockers(world.deletion, world.steps.values())] == [Reason.PROJECT_HAS_CHILDREN]


def test_the_cancel_of_a_parent_is_not_blocked_by_what_is_below_it():
    world = World(deletion(include_subtree=True), PORT)
    world.answers["survey"] = lambda _: BELOW
    world.answers["release"] = lambda _: UNKNOWN
    child = Child("d1", "c1", Status.FAILED, world.now, "Child", "failed")
    world.deletion = dataclasses.replace(world.deletion, children=(child,), has_changes=True)
    world.run(limit=60)
    assert blocked(world) is not None
    world.user(Status.CANCELLING)
    world.run(limit=30)
    assert world.deletion.status is Status.CANCELLING
    assert blocked(world) is None


# ------------------------------------------------------------------------------------------ no token of the project
NO_TOKEN = StepResult(Outcome.UNKNOWN, str(Reason.NO_PROJECT_TOKEN), "Keystone issues no token for the project")
SECRETS = [sweep_step(f"key-manager.{name}", token=Token.PROJECT) for name in ("secret", "container", "order")]


def without_token(until=None, **values):
    world = World(deletion(**values), *SECRETS)
    world.answers = {step.id: lambda _: NO_TOKEN for step in SECRETS}
    world.run(limit=60, until=until)
    return world


@pytest.mark.parametrize(
    "values", [{"dry_run": True}, {"mode": Mode.REPORT}, {"mode": Mode.PURGE}, {"mode": Mode.REPORT, "dry_run": True}]
)
def test_a_report_does_not_try_again_to_list_what_needs_a_token_that_there_is_not(values):
    world = without_token(**values)
    assert world.deletion.status in (Status.LEFTOVERS, Status.PLANNED)
    swept = [name for name in world.dispatched if name.startswith("key-manager")]
    rounds = world.deletion.round - 1
    assert len(swept) == len(SECRETS) * rounds


def test_a_cascade_tries_again_only_once_the_access_step_has_got_a_token():
    world = without_token(until=Status.VERIFYING)
    world.answers["access"] = lambda _: NO_TOKEN
    world.run(limit=100)
    tried, asked = world.dispatched.count("key-manager.secret"), world.dispatched.count("access")
    for _ in range(200):
        world.run(limit=1)
    assert world.dispatched.count("access") > asked + 5, "it is asked for from time to time"
    assert world.dispatched.count("key-manager.secret") == tried
    world.answers = {}
    assert world.run() is Status.DELETED


def test_a_retry_of_a_user_asks_for_the_token_at_once():
    world = without_token(until=Status.VERIFYING)
    world.run(limit=100)
    world.answers = {}
    world.now += datetime.timedelta(seconds=1)
    world.retry_now()
    before = world.now
    while world.step("key-manager.secret").outcome is not Outcome.CLEAR:
        world.run(limit=1)
    assert world.now - before < datetime.timedelta(seconds=5)


def test_force_abandons_what_needs_a_token_that_there_is_not():
    world = World(deletion(), *SECRETS).finds("key-manager.secret", lambda _: NO_TOKEN)
    world.run(until=Status.DELETING)
    world.run(limit=100)
    world.force()
    assert world.run() is Status.DELETED
    assert world.step("key-manager.secret").unseen


def seconds(number):
    return T0 + datetime.timedelta(seconds=number)


def told(kind, reason=Reason.NO_PROJECT_TOKEN, started=0, finished=1, round_=1, state=StepState.DONE):
    times = {"started_at": seconds(started), "finished_at": seconds(finished)}
    name = f"{kind} at {started}"
    return Step(name, "d", kind, reason=str(reason), message=name, round=round_, state=state, **times)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), ""),
        ((told(StepKind.SWEEP),), "sweep at 0"),
        ((told(StepKind.SWEEP, Reason.FORBIDDEN),), ""),
        ((told(StepKind.ACCESS),), "access at 0"),
        ((told(StepKind.SWEEP, started=1, finished=2), told(StepKind.SURVEY, "")), "sweep at 1"),
        # until the next survey or access step begins
        ((told(StepKind.SWEEP), told(StepKind.SURVEY, "", 2, 3)), ""),
        ((told(StepKind.SWEEP), told(StepKind.ACCESS, "", 2, 3)), ""),
        ((told(StepKind.SWEEP), told(StepKind.ACCESS, "", 2, 0, state=StepState.RUNNING)), ""),
        ((told(StepKind.SWEEP), told(StepKind.ACCESS, started=2, finished=3)), "access at 2"),
        # of an earlier attempt
        ((told(StepKind.SWEEP, round_=0),), ""),
        ((told(StepKind.ACCESS, round_=0),), ""),
    ],
)
def test_a_refused_token_is_known_until_it_is_asked_for_again(steps, expected):
    assert refused_token(deletion(), steps) == expected


def failed(reason):
    return StepResult(Outcome.UNKNOWN, str(reason), "why")


def after(*results, step=PORT):
    for result in results:
        _, step = record(deletion(status=Status.DELETING, round=1), step, result, T0)
    return step


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
