"""What happens next, as tables of cases and as properties that always hold."""

import dataclasses
import datetime
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.core import actions, decide
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Force, Mode, RoundPurpose, Status
from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.core.reasons import ONLY_A_PERSON, Reason, StatusReason
from cleanup_orchestrator.core.rounds import Round
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.snapshot import FATAL, Snapshot
from cleanup_orchestrator.core.step import TASKS, Outcome, Step, StepKind, StepResult, StepState, Token
from cleanup_orchestrator.core.transitions import LIVE
from tests.support.examples import examples
from tests.unit.world import CLEAR, T0, UNKNOWN, World, deletion, left, sweep_step

PORT = sweep_step("network.port")
NETWORK = sweep_step("network.network", after=("network.port",))
SECRET = sweep_step("key-manager.secret", token=Token.PROJECT)
QUOTA = sweep_step("network.quota", project_setting=True, after=("network.port", "*"))
UNSUPPORTED = dataclasses.replace(
    sweep_step("dns.x"),
    kind=StepKind.UNSUPPORTED,
    type="",
    round=1,
    state=StepState.DONE,
    outcome=Outcome.UNKNOWN,
    reason="no_plugin",
)


def visited(world):
    return [e.type.split(".")[1] for e in world.events if e.type.startswith("deletion.")]


def empties_after(world, n):
    """Answer with one resource for the first n sweeps of a delete round, then with nothing."""
    calls = {"n": 0}

    def answer(step):
        if world.deletion.purpose is RoundPurpose.DELETE:
            calls["n"] += 1
            if calls["n"] > n:
                return dataclasses.replace(CLEAR, found=1, deleted=(("1", "one"),))
        return left("1") if calls["n"] <= n else CLEAR

    return answer


def test_a_cascade_walks_the_whole_way():
    world = World(deletion(), PORT, NETWORK, SECRET, QUOTA)
    world.answers = {"network.port": empties_after(world, 1)}
    assert world.run() is Status.DELETED
    assert visited(world) == ["draining", "inventory", "deleting", "verifying", "deleted"]
    assert world.step("network.port").deleted == 1


def test_a_report_of_a_full_project_ends_in_leftovers_and_never_drains():
    world = World(deletion(mode=Mode.REPORT), PORT, SECRET)
    world.answers = {"network.port": lambda _: left("1")}
    assert world.run() is Status.LEFTOVERS
    assert "drain" not in world.dispatched
    assert not world.deletion.has_changes  # the orchestrator's own grant is taken back
    assert "release" in world.dispatched


def test_a_report_of_an_empty_project_drains_verifies_and_removes_it():
    world = World(deletion(mode=Mode.REPORT), PORT, SECRET, QUOTA)
    assert world.run() is Status.DELETED
    assert visited(world) == ["inventory", "draining", "inventory", "verifying", "deleted"]
    assert all(purpose is not RoundPurpose.DELETE for _, purpose in world.writes)


def test_a_report_that_finds_something_after_the_drain_releases_it():
    world = World(deletion(mode=Mode.REPORT), PORT)
    world.answers = {"network.port": lambda _: left("new") if world.deletion.drained_at else CLEAR}
    assert world.run() is Status.LEFTOVERS
    assert not world.deletion.has_changes


@pytest.mark.parametrize("mode", list(Mode))
def test_a_dry_run_ends_planned_and_writes_nothing(mode):
    world = World(deletion(mode=mode, dry_run=True), PORT, SECRET, QUOTA, UNSUPPORTED)
    world.answers = {"network.port": lambda _: left("1"), "key-manager.secret": lambda _: UNKNOWN}
    assert world.run() is Status.PLANNED
    assert world.writes == []
    assert {"access", "drain", "close", "release", "remove"}.isdisjoint(world.dispatched)


def test_two_empty_inventories_after_the_caches_ran_out_then_one_more_after_closing():
    world = World(deletion(), PORT)
    world.run()
    settled = world.deletion.drained_at + world.rules.settle
    assert len(world.empty_rounds) == 3
    assert all(opened >= settled for opened in world.empty_rounds)
    assert world.deletion.condition("settled").message.startswith("no service caches a token from before the lock")
    assert world.empty_rounds[2] >= world.deletion.closed_at


def test_a_partial_drain_proves_nothing_until_the_project_is_disabled_and_settled():
    world = World(deletion(), PORT, SECRET)
    world.answers = {"drain": lambda _: StepResult(Outcome.CLEAR, "inherited_grants", "users keep getting tokens")}
    assert world.run() is Status.DELETED
    settled = world.deletion.closed_at + world.rules.settle
    assert len([opened for opened in world.empty_rounds if opened >= settled]) == 2
    assert next(c for c in world.deletion.conditions if c.type == "drained").reason == "project_disabled"


@pytest.mark.parametrize("bad", [UNKNOWN, left("x", reason=Reason.PROTECTED), left("x", reason=Reason.FOREIGN)])
def test_what_is_unknown_or_left_is_never_removed_over(bad):
    world = World(deletion(), PORT, NETWORK, SECRET)
    world.answers = {"network.port": lambda _: bad}
    world.run(limit=300)
    assert world.deletion.status is Status.DELETING
    assert "remove" not in world.dispatched
    assert world.step("key-manager.secret").outcome is Outcome.CLEAR  # all other parts went on
    assert "network.network" not in [
        s for s, p in world.writes if p is RoundPurpose.DELETE
    ]  # never unblocked by a failure
    expected = "blocked" if bad.reason in ONLY_A_PERSON else "stalled"
    stalled = next(c for c in world.deletion.conditions if c.type == expected)
    assert stalled.status
    assert "network.port@R1" in stalled.message


def test_resources_found_after_the_closing_are_deleted_without_waiting_for_unreadable_types():
    """What needs a token of the project rests on its last scoped look: a step that waits for it would wait for ever."""
    trust = sweep_step("identity.trust", after=("*",), region="")
    world = World(deletion(), PORT, dataclasses.replace(NETWORK, after=("key-manager.secret",)), SECRET, trust)
    found = []

    def late(step):
        if world.deletion.closed_at and not found:
            found.append(step)
            return left("late")
        return CLEAR

    world.answers = {"network.port": late}
    assert world.run() is Status.DELETED
    assert found and visited(world).count("deleting") == 1


def test_an_unsupported_service_blocks_only_completion():
    world = World(deletion(), PORT, UNSUPPORTED)
    world.run(limit=400)
    assert world.deletion.status is Status.DELETING
    assert world.step("network.port").outcome is Outcome.CLEAR
    assert [b.reason for b in blockers(world.deletion, world.steps.values())] == ["no_plugin"]
    assert world.dispatched.count("survey") > 3  # the catalog is read again: an operator may have corrected it


@pytest.mark.parametrize(
    ("state", "attempt", "named"),
    [
        (StepState.DONE, 1, True),
        (StepState.DISPATCHED, 2, True),
        (StepState.RUNNING, 2, True),
        (StepState.DISPATCHED, 1, False),  # its result is an earlier round's
        (StepState.RUNNING, 1, False),
        (StepState.IDLE, 2, False),
    ],
)
def test_a_blocker_is_named_also_while_it_is_tried_again(state, attempt, named):
    """Who asks in the middle of a try must not be told that nothing is in the way."""
    stuck = {"outcome": Outcome.LEFTOVERS, "reason": str(Reason.FOREIGN), "remaining": 1}
    step = dataclasses.replace(PORT, state=state, round=1, attempt=attempt, **stuck)
    found = blockers(deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE), [step])
    assert [b.reason for b in found] == ([Reason.FOREIGN] if named else [])


def test_an_error_that_passes_is_tried_again_with_growing_waits():
    world = World(deletion(), PORT)
    seen = []

    def answer(step):
        if world.deletion.status is not Status.DELETING:
            return left("r1") if world.deletion.status is Status.INVENTORY else CLEAR
        seen.append(world.now)
        return UNKNOWN if len(seen) < 4 else CLEAR

    world.answers = {"network.port": answer}
    assert world.run() is Status.DELETED
    waits = [(b - a).total_seconds() for a, b in itertools.pairwise(seen)]
    assert [round(w) for w in waits] == [1, 2, 4]


@pytest.mark.parametrize("reason", sorted(FATAL))
def test_a_project_that_cannot_be_deleted_fails_before_anything_is_touched(reason):
    world = World(deletion(), PORT)
    world.answers = {"survey": lambda _: StepResult(Outcome.UNKNOWN, str(reason), "why")}
    assert world.run() is Status.FAILED
    assert (world.deletion.reason, world.writes) == (str(reason), [])


def test_found_while_verifying_goes_back_to_deleting_and_starts_the_proof_anew():
    world = World(deletion(), PORT)
    looks = []

    def answer(step):
        looks.append(world.deletion.status)
        late = world.deletion.status is Status.VERIFYING and looks.count(Status.VERIFYING) == 2
        return left("late") if late else CLEAR

    world.answers = {"network.port": answer}
    assert world.run() is Status.DELETED
    assert visited(world) == ["draining", "inventory", "verifying", "deleting", "verifying", "deleted"]
    backwards = [e for e in world.events if e.data.get("backwards")]
    assert [e.data["reason"] for e in backwards] == ["found_while_verifying"]
    assert len(world.empty_rounds) == 4


def test_what_comes_back_each_time_is_met_with_growing_waits():
    world = World(deletion(), PORT)
    world.answers = {
        "network.port": lambda _: CLEAR if world.deletion.purpose is RoundPurpose.DELETE else left("again")
    }
    backs, opened = [], []
    world.run(until=Status.VERIFYING)
    for _ in range(3000):
        before = len(world.events)
        world.run(limit=1)
        for event in world.events[before:]:
            backs += [world.deletion.status_at] if event.data.get("reason") == StatusReason.FOUND_AGAIN else []
            opened += [world.deletion.round_opened_at] if event.data.get("purpose") == RoundPurpose.DELETE else []
        if len(backs) == 12:
            break
    waits = [(b - a).total_seconds() for a, b in zip(backs, opened, strict=False)]
    assert waits == sorted(waits)
    assert waits[0] <= 2
    assert waits[-1] >= 30


def test_a_cast_that_no_worker_took_is_repeated():
    world = World(deletion(), PORT)
    world.settle_engine()
    assert world.dispatched == ["survey"]
    world.now = T0 + world.rules.claim_timeout
    world.settle_engine()
    assert world.dispatched == ["survey", "survey"]
    assert world.step("survey").attempt == 1


def test_a_step_of_a_failed_worker_is_dispatched_again_at_the_end_of_its_lease():
    world = World(deletion(), PORT)
    world.settle_engine()
    world.claim("survey")
    world.settle_engine()
    assert world.dispatched == ["survey"]
    assert world.deletion.wake_at <= world.step("survey").lease_until
    world.now = world.step("survey").lease_until
    world.settle_engine()
    assert world.dispatched == ["survey", "survey"]


def test_a_cancel_waits_for_the_running_step_then_undoes():
    world = World(deletion(), PORT)
    world.answers = {"network.port": lambda _: left("1", reason=Reason.IN_USE)}
    world.run(until=Status.DELETING)
    world.run(limit=1)
    running = next(s for s in world.steps.values() if s.kind is StepKind.SWEEP)
    if running.state is StepState.DISPATCHED:
        world.claim(running.id)
    world.steps[running.id] = dataclasses.replace(
        world.steps[running.id], state=StepState.RUNNING, lease_until=world.now + datetime.timedelta(seconds=30)
    )
    world.user(Status.CANCELLING)
    world.settle_engine()
    assert "release" not in world.dispatched
    world.finish(running.id, UNKNOWN)
    assert world.run() is Status.CANCELLED
    assert not world.deletion.has_changes


def test_a_cancel_waits_for_a_worker_that_died_only_until_its_lease_ends():
    world = World(deletion(), PORT).finds("network.port")
    assert world.run(until=Status.DELETING) is Status.DELETING
    world.steps["network.port"] = dataclasses.replace(
        world.steps["network.port"],
        state=StepState.RUNNING,
        round=world.deletion.round,
        lease_until=world.now + datetime.timedelta(seconds=30),
    )
    world.user(Status.CANCELLING)
    world.settle_engine()
    assert ("release" in world.dispatched, world.deletion.wake_at) == (False, world.steps["network.port"].lease_until)
    world.now = world.deletion.wake_at
    assert world.run() is Status.CANCELLED


def test_slow_is_not_stuck_while_caches_run_out():
    rules = Rules(stall_after=datetime.timedelta(seconds=10))
    world = World(deletion(), PORT, rules=rules)
    assert world.run() is Status.DELETED
    assert not [e for e in world.events if e.type == "condition.stalled"]


def test_project_settings_go_right_before_the_project_and_only_then():
    world = World(deletion(), PORT, QUOTA)
    world.answers = {"network.quota": lambda _: dataclasses.replace(CLEAR, deleted=(("q", "q"),))}
    world.run()
    assert [p for s, p in world.writes if s == "network.quota"] == [RoundPurpose.PROJECT_SETTINGS]
    assert world.dispatched.index("network.quota") > world.dispatched.index("close")
    assert world.dispatched[-1] == "remove"


def test_what_needs_a_project_token_is_not_swept_once_the_project_is_disabled():
    world = World(deletion(), PORT, SECRET)
    world.run()
    after_close = world.dispatched[world.dispatched.index("close") :]
    assert "key-manager.secret" not in after_close
    assert "network.port" in after_close


def test_after_a_retry_old_results_do_not_count():
    world = World(deletion(mode=Mode.REPORT), PORT)
    world.answers = {"network.port": lambda _: left("1")}
    world.run()
    world.answers = {}
    world.user(Status.ACCEPTED)
    assert world.run() is Status.DELETED
    assert world.deletion.attempt == 2


def test_what_went_along_with_something_else_counts_as_gone():
    world = World(deletion(), PORT)
    world.answers = {
        "network.port": lambda _: CLEAR if world.deletion.purpose is RoundPurpose.DELETE else left("a", "b")
    }
    world.run(until=Status.DELETING)
    assert world.step("network.port").remaining == 2
    world.answers = {}
    assert world.run() is Status.DELETED
    assert world.step("network.port").deleted == 2


def test_access_that_was_lost_is_regained():
    world = World(deletion(), PORT, SECRET)
    enabled = {"yes": False}
    missing = StepResult(Outcome.UNKNOWN, str(Reason.NO_PROJECT_TOKEN), "the project is disabled")
    world.answers = {
        "access": lambda _: CLEAR if enabled["yes"] else missing,
        "key-manager.secret": lambda _: CLEAR if enabled["yes"] and world.dispatched.count("access") > 1 else missing,
    }
    world.run(limit=200)
    assert world.deletion.status is Status.DELETING
    enabled["yes"] = True
    assert world.run() is Status.DELETED


def test_the_role_that_the_janitor_lacks_is_given_in_the_access_step():
    """A service may join the catalog after that step, or a member of the project may take the role away."""
    lacking = StepResult(Outcome.UNKNOWN, str(Reason.NO_JANITOR), "the janitor does not have its role on the project")
    module = sweep_step("database.module", token=Token.MEMBER)
    world = World(deletion(), PORT, module)
    world.answers = {module.name: lambda _: CLEAR if world.dispatched.count("access") > 1 else lacking}
    assert world.run(limit=200) is Status.DELETED


def test_a_delete_that_has_no_janitor_is_not_a_matter_of_the_access_step():
    """The access step could not change it."""
    stack = sweep_step("orchestration.stack", token=Token.PROJECT)
    world = World(deletion(), stack)
    world.answers = {stack.name: lambda _: left("a", reason=Reason.NO_JANITOR)}
    world.run(limit=200)
    assert (world.deletion.status, world.dispatched.count("access")) == (Status.DELETING, 1)


# ------------------------------------------------------------------------------------------------------- properties
OUTCOMES = st.sampled_from([CLEAR, CLEAR, CLEAR, UNKNOWN, left("a"), left("a", "b", reason=Reason.IN_USE)])


@st.composite
def behaviours(draw):
    """What each worker's answer will be, then clear for ever: everything mends itself in the end."""
    return draw(
        st.dictionaries(
            st.sampled_from(
                [
                    "network.port",
                    "network.network",
                    "key-manager.secret",
                    "drain",
                    "access",
                    "close",
                    "remove",
                    "release",
                ]
            ),
            st.lists(OUTCOMES, max_size=6),
        )
    )


def scripted(world, behaviour):
    left_over = {name: list(answers) for name, answers in behaviour.items()}

    def answer_for(name):
        def answer(step):
            result = left_over[name].pop(0) if left_over[name] else CLEAR
            if step.kind is not StepKind.SWEEP and result.outcome is Outcome.LEFTOVERS:
                return UNKNOWN
            return result

        return answer

    world.answers = {name: answer_for(name) for name in behaviour}


def drained_at(held):
    """Return since when the drain held, by its line in the journal."""
    return datetime.datetime.fromisoformat(held.message.rsplit(" ", 1)[1].removesuffix("Z"))


@settings(max_examples=examples(60))
@given(behaviours(), st.sampled_from(Mode), st.booleans())
def test_every_deletion_comes_to_an_end_that_it_may_have(behaviour, mode, dry_run):
    world = World(deletion(mode=mode, dry_run=dry_run), PORT, NETWORK, SECRET, QUOTA)
    scripted(world, behaviour)
    status = world.run()
    assert status not in LIVE
    if dry_run:
        assert status is Status.PLANNED
        assert world.writes == []
    elif mode is Mode.CASCADE:
        assert status is Status.DELETED
    elif mode is Mode.PURGE:
        assert status in (Status.PURGED, Status.LEFTOVERS)
        assert {"close", "remove", "network.quota"}.isdisjoint(world.dispatched)
        assert not world.deletion.has_changes
    else:
        assert status in (Status.DELETED, Status.LEFTOVERS, Status.FAILED)
        assert all(purpose is not RoundPurpose.DELETE for _, purpose in world.writes)
        if status is not Status.DELETED:
            assert not world.deletion.has_changes
    if status in (Status.DELETED, Status.PURGED):
        [held] = [e for e in world.events if e.type == "drain.held"][-1:]
        settled = drained_at(held) + world.rules.settle
        assert len([t for t in world.empty_rounds if t >= settled]) >= 2
        assert ("remove" in world.dispatched) is (status is Status.DELETED)


@settings(max_examples=examples(40))
@given(behaviours(), st.sampled_from(Mode), st.integers(0, 60))
def test_a_cancel_at_any_moment_ends_with_all_changes_undone(behaviour, mode, moment):
    world = World(deletion(mode=mode), PORT, NETWORK, SECRET, QUOTA)
    scripted(world, behaviour)
    world.run(limit=moment)
    if world.deletion.status in LIVE and world.deletion.purpose is not RoundPurpose.PROJECT_SETTINGS:
        world.user(Status.CANCELLING)
        assert world.run() is Status.CANCELLED
        assert not world.deletion.has_changes
        assert "remove" not in world.dispatched


@settings(max_examples=examples(40))
@given(behaviours(), st.integers(0, 80), st.sampled_from(Mode))
def test_deciding_twice_on_the_same_facts_says_the_same(behaviour, moment, mode):
    world = World(deletion(mode=mode), PORT, NETWORK, SECRET, QUOTA)
    scripted(world, behaviour)
    world.run(limit=moment)
    steps = tuple(world.steps.values())
    first = decide.decide(world.deletion, steps, world.now, world.rules)
    assert first == decide.decide(world.deletion, steps, world.now, world.rules)
    # and applying it, then deciding with no time gone by, repeats no dispatch
    applied = actions.apply(world.deletion, steps, first, world.now)
    if not applied.decide_again:
        after = {**world.steps, **{s.id: s for s in applied.steps}}
        again = decide.decide(applied.deletion, tuple(after.values()), world.now, world.rules)
        assert not [a for a in again if isinstance(a, actions.Dispatch)]


@settings(max_examples=examples(40))
@given(behaviours(), st.sampled_from(Mode))
def test_a_live_deletion_always_has_a_wake_time(behaviour, mode):
    world = World(deletion(mode=mode), PORT, NETWORK, SECRET, QUOTA)
    scripted(world, behaviour)
    for moment in range(0, 60, 7):
        world.run(limit=moment)
        if world.deletion.status in LIVE:
            assert world.deletion.wake_at <= world.now + world.rules.heartbeat


def test_a_lost_cast_is_repeated_in_time():
    world = World(deletion())
    world.settle_engine()
    assert world.dispatched == ["survey"]
    assert world.deletion.wake_at <= world.now + world.rules.claim_timeout


# ---------------------------------------------------------------------------------------- no look that proves nothing
def test_an_empty_project_is_not_listed_once_more_for_deletes():
    world = World(deletion(), PORT, SECRET)
    assert world.run() is Status.DELETED
    assert visited(world) == ["draining", "inventory", "verifying", "deleted"]
    assert world.dispatched.count("network.port") == 4  # before the deletes, twice in the verification, and once closed


@pytest.mark.parametrize(
    "found", [left("1"), left("1", reason=Reason.PROTECTED), dataclasses.replace(left("1"), in_use_unplanned=1)]
)
def test_a_project_that_is_not_empty_is_deleted_from_before_its_verification(found):
    world = World(deletion(), PORT).finds("network.port")
    world.answers["network.port"] = lambda _: found if world.deletion.status is Status.INVENTORY else CLEAR
    world.run()
    assert visited(world)[:4] == ["draining", "inventory", "deleting", "verifying"]


def test_what_could_not_be_listed_is_no_empty_project():
    world = World(deletion(), PORT)
    world.answers["network.port"] = lambda _: UNKNOWN if world.deletion.status is Status.INVENTORY else CLEAR
    world.run()
    assert "deleting" in visited(world)


HELD = StepResult(Outcome.CLEAR, str(Reason.DRAIN_HELD), "the project is disabled")


def test_behind_a_drain_that_held_all_the_time_the_two_inventories_still_count_after_the_closing():
    world = World(deletion(), PORT)
    world.answers = {"close": lambda _: HELD}
    assert world.run() is Status.DELETED
    settled = world.deletion.drained_at + world.rules.settle
    assert len(world.empty_rounds) == 2
    assert all(settled <= opened < world.deletion.closed_at for opened in world.empty_rounds)


def test_a_project_that_was_never_drained_is_proven_empty_after_the_closing_whatever_the_driver_says():
    world = World(deletion(), PORT)
    partial = StepResult(Outcome.CLEAR, "inherited_grants", "users keep getting tokens")
    world.answers = {"drain": lambda _: partial, "close": lambda _: HELD}
    assert world.run() is Status.DELETED
    settled = world.deletion.closed_at + world.rules.settle
    assert len([opened for opened in world.empty_rounds if opened >= settled]) == 2


def test_one_survey_for_each_verification_and_one_for_what_precedes_it():
    world = World(deletion(), PORT)
    assert world.run() is Status.DELETED
    assert world.dispatched.count("survey") == 3  # of the request, of the verification, and of the closed project


def test_a_second_inventory_long_after_the_first_has_a_survey_of_its_own():
    world = World(deletion(), PORT)
    slow = []

    def answer(_):
        if world.deletion.status is Status.VERIFYING and not slow:
            slow.append(True)
            world.now += datetime.timedelta(seconds=31)
        return CLEAR

    world.answers = {"network.port": answer}
    assert world.run() is Status.DELETED
    assert world.dispatched.count("survey") == 4


@pytest.mark.parametrize("mode", Mode)
def test_an_inventory_that_follows_a_wait_has_a_survey_of_its_own(mode):
    """Its deletion waits for a token of the project."""
    world = World(deletion(mode=mode, dry_run=True), PORT)
    world.run(until=Status.INVENTORY)
    world.now += datetime.timedelta(seconds=31)
    world.deletion = dataclasses.replace(world.deletion, purpose=RoundPurpose.NONE, round=world.deletion.since_round)
    world.run()
    assert world.dispatched.count("survey") == 2


def test_a_delete_that_its_service_works_on_is_polled_every_second_and_later_less_often():
    world = World(deletion(), PORT).finds("network.port")
    polls = []

    def answer(_):
        if world.deletion.purpose is RoundPurpose.DELETE:
            polls.append(world.now)
            return left("r1", reason=Reason.DELETING) if len(polls) < 40 else CLEAR
        return left("r1") if world.deletion.status is Status.INVENTORY else CLEAR

    world.answers = {"network.port": answer}
    assert world.run() is Status.DELETED
    waits = [(b - a).total_seconds() for a, b in itertools.pairwise(polls)]
    assert [round(wait) for wait in waits[:9]] == [1] * 9
    assert max(waits) <= 10
    assert waits == sorted(waits)


HOUR = datetime.timedelta(hours=1)


def test_a_report_that_cannot_see_everything_ends_without_locking_the_project():
    world = World(deletion(mode=Mode.REPORT), PORT)
    world.answers["network.port"] = lambda _: UNKNOWN
    assert world.run(limit=500) is Status.LEFTOVERS
    assert world.deletion.reason == "unknown"
    assert "drain" not in world.dispatched


def test_more_than_may_go_without_an_approval_stops_the_deletes_at_once():
    world = World(deletion(), PORT, rules=Rules(approval_resources=3))
    more = left(*"12345", reason=Reason.IN_USE)
    world.answers["network.port"] = lambda _: more if world.deletion.purpose is RoundPurpose.DELETE else left("1")
    assert world.run(until=Status.DELETING) is Status.DELETING
    assert world.run(limit=20, until=Status.VERIFYING) is Status.VERIFYING
    assert world.deletion.reason == "too_many_resources"


@pytest.mark.parametrize("state", [StepState.RUNNING, StepState.DONE])
def test_force_waits_for_what_still_runs(state):
    """It may be what keeps the other one."""
    now = T0 + HOUR
    forced = Force("why", (), T0, 1, 1)
    record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE, round=3, forced=forced, round_opened_at=T0)
    ended = {"round": 3, "state": StepState.DONE, "finished_at": T0, "started_at": T0}
    stuck = {**ended, "outcome": Outcome.LEFTOVERS, "remaining": 1, "reason": "in_use", "attempt": 3}
    tasks = [Step(str(kind), "d", kind, outcome=Outcome.CLEAR, **ended) for kind in TASKS]
    running = {**stuck, "state": state, "lease_until": now + HOUR}
    steps = (*tasks, dataclasses.replace(PORT, **stuck), sweep_step("image.image", **running))
    found = decide.decide(record, steps, now, Rules())
    is_abandoned = {action.step_id for action in found if isinstance(action, actions.Abandon)}
    assert is_abandoned == (set() if state is StepState.RUNNING else {"network.port", "image.image"})


@pytest.mark.parametrize("held", [False, True])
def test_force_does_nothing_while_the_deletion_is_on_hold(held):
    forced = Force("why", (), T0, 1, 1)
    brake = Brake(True, "x") if held else None
    record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE, round=3, forced=forced, brake=brake)
    assert Round(Snapshot(record, (), T0 + HOUR, Rules())).force_due is not held


def test_a_cancel_waits_for_the_result_of_the_release():
    """Its changes are undone one by one, and its result may say that Keystone no longer knows the project."""
    world = World(deletion(), sweep_step("network.port")).finds("network.port", lambda _: left("r1"))
    world.run(until=Status.DELETING)
    world.user(Status.CANCELLING)
    world.settle_engine()
    world.claim("release")
    world.deletion = dataclasses.replace(world.deletion, has_changes=False)  # the last one is undone
    world.settle_engine()
    assert world.deletion.status is Status.CANCELLING
    world.finish("release")
    world.settle_engine()
    assert world.deletion.status is Status.CANCELLED
