"""The holds: what a lien, the brake and the windows mean for decisions, and which step may write."""

import dataclasses
import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.api import views
from cleanup_orchestrator.core import guard, results
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.delete_windows import ALWAYS, Windows
from cleanup_orchestrator.core.deletion import Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.guard import HoldOptions, destructive
from cleanup_orchestrator.core.holds import Brake, Lien
from cleanup_orchestrator.core.reasons import Reason, remedy
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult, StepState, Token
from cleanup_orchestrator.core.transitions import (
    FINAL,
    LIVE,
    RESTING,
    cancellable,
)
from cleanup_orchestrator.errors import OnHold, classify
from tests.support.cases import each_case
from tests.support.examples import examples
from tests.unit.world import CLEAR, DONE, T0, UNKNOWN, World, allowed, deletion, left, sweep_step

PORT = sweep_step("network.port")
SECRET = sweep_step("key-manager.secret", token=Token.PROJECT)
QUOTA = sweep_step("network.quota", project_setting=True, after=("*",))
ON_HOLD = StepResult(Outcome.UNKNOWN, str(Reason.ON_HOLD), "DELETE withheld")
HOUR = datetime.timedelta(hours=1)
#: T0 is a Thursday, 00:00 UTC.
CLOSED = Windows.of(["thu 20:00-22:00"], "UTC")
BRAKE = Brake(True, "the storage misbehaves", T0, "u", "alice")


def lien(id_="l", expires_at=None, **values):
    return Lien(id_, "p", "billing", "the last invoice is open", T0, expires_at, user_name="alice", **values)


#: What holds a deletion: what the store says of it, and what the configuration does.
HOLDS = {
    "lien": ({"liens": (lien(),)}, ALWAYS),
    "brake": ({"brake": BRAKE}, ALWAYS),
    "window": ({}, CLOSED),
}


def world(hold, *sweeps, **values):
    loaded, windows = HOLDS[hold]
    return World(
        deletion(**loaded, **values), *(sweeps or (PORT, SECRET, QUOTA)), rules=Rules(hold_options=HoldOptions(windows))
    )


def put_on(world, hold):
    loaded, windows = HOLDS[hold]
    world.deletion = dataclasses.replace(world.deletion, **loaded)
    world.rules = dataclasses.replace(world.rules, hold_options=HoldOptions(windows))


def lift(world):
    world.deletion = dataclasses.replace(world.deletion, liens=(), brake=None)
    world.rules = dataclasses.replace(world.rules, hold_options=HoldOptions())


def condition(world, type_="on_hold"):
    return next((c for c in world.deletion.conditions if c.type == type_), None)


def is_held(world):
    found = condition(world)
    return found is not None and found.status


def no_reason_is_shown(world):
    """The API hides only the message of a condition from callers who may not read liens or the brake."""
    shown = [e.message for e in world.events if not e.type.startswith("condition.")]
    shown += [s.message for s in world.steps.values()] + [world.deletion.message]
    assert not [text for text in shown if lien().reason in text or BRAKE.reason in text]


def rest(world, hours=1.0):
    """Let everything run for some hours, and no longer."""
    until = world.now + hours * HOUR
    while world.now < until:
        world.run(limit=1)
        if world.deletion.status not in LIVE:
            break


def ports(world, there):
    """Ports are there until a sweep deletes them."""

    def answer(step):
        if world.deletion.purpose is RoundPurpose.DELETE:
            there.clear()
            return dataclasses.replace(CLEAR, found=1, deleted=(("1", "one"),))
        return left("1") if there else CLEAR

    return answer


# --------------------------------------------------------------------------------------------------------- resting
@pytest.mark.parametrize("hold", HOLDS)
def test_a_cascade_on_hold_removes_no_access(hold):
    held = world(hold)
    rest(held)
    assert held.deletion.status is Status.DRAINING
    assert not {"drain", "close", "remove", "network.port"} & set(held.dispatched)
    assert is_held(held) and condition(held).reason == hold


@pytest.mark.parametrize("hold", HOLDS)
def test_a_report_on_hold_takes_its_inventory(hold):
    full = world(hold, PORT, mode=Mode.REPORT)
    full.answers = {"network.port": lambda _: left("1")}
    assert full.run() is Status.LEFTOVERS
    assert condition(full) is None, "what rests is held by nothing"
    empty = world(hold, PORT, mode=Mode.REPORT)
    rest(empty)
    assert empty.deletion.status is Status.DRAINING and "drain" not in empty.dispatched


@pytest.mark.parametrize("hold", HOLDS)
def test_a_dry_run_is_never_on_hold_and_names_the_liens(hold):
    listed = world(hold, PORT, dry_run=True)
    assert listed.run() is Status.PLANNED
    assert condition(listed) is None
    assert ("of billing on project" in listed.deletion.message) is (hold == "lien")
    assert "the last invoice is open" not in listed.deletion.message, "why is for those who may read liens"


@pytest.mark.parametrize("hold", HOLDS)
def test_a_noticed_deletion_is_never_on_hold(hold):
    noticed = world(hold, PORT, mode=Mode.REPORT, origin=Origin.NOTICED, project_gone_at=T0)
    assert noticed.run() is Status.DELETED


@pytest.mark.parametrize("hold", HOLDS)
def test_a_hold_during_the_deletes_stops_them(hold):
    there = {"1"}
    w = World(deletion(), PORT, SECRET, QUOTA)
    w.answers = {"network.port": lambda _: left("1")}
    assert w.run(until=Status.DELETING) is Status.DELETING
    w.settle_engine()
    put_on(w, hold)
    w.answers = {"network.port": lambda step: ON_HOLD}
    before = len(w.dispatched)
    rest(w)
    assert w.deletion.status is Status.DELETING
    assert "network.port" not in w.dispatched[before + 1 :], "what was out already, and nothing more"
    assert is_held(w) and condition(w, "stalled") in (None, condition(w, "stalled")) and not stalled(w)
    lift(w)
    w.answers = {"network.port": ports(w, there)}
    assert w.run() is Status.DELETED
    assert not is_held(w)


def stalled(world):
    found = condition(world, "stalled")
    return found is not None and found.status


@pytest.mark.parametrize("hold", HOLDS)
def test_a_deletion_on_hold_is_not_stalled_and_wakes_only_with_the_heartbeat(hold):
    held = world(hold)
    held.settle_engine()
    decisions = 0
    until = held.now + 2 * HOUR
    while held.now < until:
        held.run(limit=1)
        decisions += 1
    assert not stalled(held)
    assert decisions < 2 * 3600 / 60 * 2 + 20, "it wakes with the heartbeat"
    lift(held)
    held.settle_engine()
    assert not stalled(held), "its time without progress begins when nothing holds it any more"


def test_a_deletion_on_hold_also_reports_an_unreachable_service():
    """It is looked at all the same, and cannot be: nothing that holds deletes is to blame."""
    held = world("brake", PORT, mode=Mode.CASCADE)
    held.deletion = dataclasses.replace(held.deletion, brake=None)
    assert held.run(until=Status.VERIFYING) is Status.VERIFYING
    held.answers = {"network.port": lambda _: UNKNOWN}
    put_on(held, "brake")
    rest(held)
    assert held.deletion.purpose is RoundPurpose.INVENTORY and stalled(held) and is_held(held)


# ------------------------------------------------------------------------------------------------- right at the end
def at_the_project_settings(hold):
    w = World(deletion(), PORT, QUOTA)
    while w.deletion.purpose is not RoundPurpose.PROJECT_SETTINGS:
        w.settle_engine()
        ready = [s.id for s in w.steps.values() if s.state is StepState.DISPATCHED]
        if ready and w.deletion.purpose is not RoundPurpose.PROJECT_SETTINGS:
            w.claim(ready[0])
            w.finish(ready[0])
        elif not ready:
            w.now = w.deletion.wake_at
    put_on(w, hold)
    return w


@pytest.mark.parametrize("hold", HOLDS)
def test_a_lien_that_comes_in_the_project_settings_round_stops_the_removal_and_lets_it_be_cancelled(hold):
    w = at_the_project_settings(hold)
    assert not cancellable(w.deletion)
    w.answers = {"network.quota": lambda _: ON_HOLD}
    rest(w)
    assert "remove" not in w.dispatched
    assert w.deletion.status is Status.VERIFYING and is_held(w) and not stalled(w)
    assert cancellable(w.deletion)
    w.user(Status.CANCELLING)
    assert w.run() is Status.CANCELLED
    assert not w.deletion.has_changes and not is_held(w)


@pytest.mark.parametrize("hold", HOLDS)
def test_afterwards_the_project_is_proven_empty_anew(hold):
    w = at_the_project_settings(hold)
    rest(w, hours=30 if hold != "window" else 10)
    lift(w)
    since = w.now
    w.answers = {}
    assert w.run() is Status.DELETED
    assert [at for at in w.empty_rounds if at >= since], "what was proven before the hold may be days old"
    assert "inventory.void" in [e.type for e in w.events]
    no_reason_is_shown(w)


@pytest.mark.parametrize("hold", HOLDS)
def test_what_comes_and_goes_while_the_project_is_being_closed_lets_the_closing_end_first(hold):
    """It may be disabled by then: who looks needs a token, and gets none."""
    w = World(deletion(), PORT, SECRET, QUOTA)
    no_token = StepResult(Outcome.UNKNOWN, str(Reason.NO_PROJECT_TOKEN), "Keystone gives us no token for the project")
    for _ in range(1000):
        w.settle_engine()
        if w.step("close").state is StepState.DISPATCHED:
            break
        w.run(limit=1)
    w.claim("close")
    w.answers = dict.fromkeys(("key-manager.secret", "access"), lambda _: no_token)
    put_on(w, hold)
    w.settle_engine()
    assert is_held(w)
    lift(w)
    w.settle_engine()
    assert not is_held(w)
    w.finish("close")
    assert w.run() is Status.DELETED


@pytest.mark.parametrize(
    ("state", "leaves"), [(StepState.RUNNING, False), (StepState.DONE, False), (StepState.DISPATCHED, False)]
)
def test_after_the_delete_of_the_project_was_sent_no_cancel_is_possible(state, leaves):
    """Its delete may have been sent, and be done later: as without any lien it stays past the point of no return."""
    w = at_the_project_settings("lien")
    w.steps["remove"] = dataclasses.replace(
        w.step("remove"),
        state=state,
        round=w.deletion.round,
        attempt=1,
        outcome=Outcome.UNKNOWN if state is StepState.DONE else Outcome.NONE,
        reason=str(Reason.UNREACHABLE) if state is StepState.DONE else "",
        dispatched_at=w.now,
        finished_at=w.now,
        lease_until=w.now + HOUR,
    )
    w.steps["survey"] = dataclasses.replace(w.step("survey"), state=StepState.DONE, outcome=Outcome.CLEAR)
    w.settle_engine()
    assert cancellable(w.deletion) is leaves


def test_a_removal_that_was_withheld_was_not_sent():
    w = at_the_project_settings("lien")
    w.steps["remove"] = dataclasses.replace(
        w.step("remove"),
        state=StepState.DONE,
        round=w.deletion.round,
        attempt=1,
        outcome=Outcome.UNKNOWN,
        reason=str(Reason.ON_HOLD),
        finished_at=w.now,
    )
    w.settle_engine()
    assert cancellable(w.deletion)


# ------------------------------------------------------------------------------------------------------ going on
@pytest.mark.parametrize("hold", HOLDS)
def test_after_a_hold_the_never_delete_list_is_read_before_any_delete(hold):
    w = World(deletion(), PORT)
    w.answers = {"network.port": lambda _: left("1")}
    w.run(until=Status.DELETING)
    w.settle_engine()
    put_on(w, hold)
    rest(w)
    lift(w)
    w.answers["survey"] = lambda _: StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_PROTECTED), "never")
    before = len(w.writes)
    assert w.run() is Status.FAILED
    assert [name for name, purpose in w.writes[before:] if purpose is RoundPurpose.DELETE] == []


@pytest.mark.parametrize("hold", HOLDS)
def test_after_a_hold_the_never_delete_list_is_read_before_the_drain(hold):
    w = world(hold)
    rest(w)
    assert w.deletion.status is Status.DRAINING
    lift(w)
    w.answers["survey"] = lambda _: StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_PROTECTED), "never")
    assert w.run() is Status.FAILED
    assert "drain" not in w.dispatched


def test_it_wakes_when_a_lien_expires_and_when_the_hours_begin():
    for hold, until in ((lien(expires_at=T0 + 0.001 * HOUR), T0 + 0.001 * HOUR), (None, T0 + 20 * HOUR)):
        loaded = {"liens": (hold,)} if hold else {}
        now = T0 if hold else T0 + 20 * HOUR - datetime.timedelta(seconds=10)
        rules = Rules(hold_options=HoldOptions(ALWAYS if hold else CLOSED))
        w = World(deletion(status=Status.DRAINING, **loaded), PORT, rules=rules)
        w.now = now
        w.settle_engine()
        assert w.deletion.wake_at == until


def test_attempts_on_hold_do_not_count():
    """Else a brake that is set three times would end a report, or leave quotas behind."""
    w = World(deletion(mode=Mode.REPORT), PORT, QUOTA)
    w.answers = {"drain": lambda _: ON_HOLD}
    for _ in range(10):
        w.run(limit=30)
    assert w.deletion.status is Status.DRAINING and w.step("drain").attempt == 1
    w.answers = {}
    assert w.run() is Status.DELETED


def test_a_hold_that_is_over_before_an_engine_sees_it_does_not_end_the_tries():
    answers = iter([UNKNOWN, UNKNOWN, ON_HOLD, CLEAR])
    w = World(deletion(), PORT, QUOTA)
    w.answers = {"network.quota": lambda _: next(answers)}
    assert w.run() is Status.DELETED
    assert w.step("network.quota").outcome is Outcome.CLEAR


def test_of_very_many_liens_the_first_are_named_and_the_others_counted():
    """A column takes 64 kB of text, and a reason may have 4 kB."""
    many = tuple(dataclasses.replace(lien(f"l{n}"), reason="🗑" * 1000) for n in range(200))
    found = guard.hold(deletion(liens=many), T0, HoldOptions())
    assert "lien l9 " in found.message and "190 more liens" in found.message
    assert len(found.message.encode()) < 60_000


def test_all_holds_are_named_and_each_change_is_recorded():
    several = {"liens": (lien("l1"), lien("l2", T0 + 5 * HOUR)), "brake": BRAKE}
    w = World(deletion(**several), PORT, rules=Rules(hold_options=HoldOptions(CLOSED)))
    w.settle_engine()
    rest(w, 0.1)
    found = condition(w)
    assert found.reason == "lien"
    for part in ("lien l1 of billing", "lien l2", "2026-01-01T05:00:00Z", "lien delete l1", "brake lift", "alice"):
        assert part in found.message
    assert "they open next at 2026-01-01T20:00:00Z" in found.message
    w.deletion = dataclasses.replace(w.deletion, liens=())
    w.settle_engine()
    assert condition(w).reason == "brake"
    told = [e.message for e in w.events if e.type == "condition.on_hold"]
    assert len(told) == 2 and "lien l1" in told[0] and "lien l1" not in told[1]


# ------------------------------------------------------------------------------------------------ the writes of each
@pytest.mark.parametrize(
    ("kind", "purpose", "status", "held"),
    [
        (StepKind.SWEEP, RoundPurpose.DELETE, Status.DELETING, True),
        (StepKind.SWEEP, RoundPurpose.PROJECT_SETTINGS, Status.VERIFYING, True),
        (StepKind.DRAIN, RoundPurpose.NONE, Status.DRAINING, True),
        (StepKind.CLOSE, RoundPurpose.NONE, Status.VERIFYING, True),
        (StepKind.REMOVE, RoundPurpose.PROJECT_SETTINGS, Status.VERIFYING, True),
        (StepKind.ACCESS, RoundPurpose.NONE, Status.INVENTORY, False),
        (StepKind.RELEASE, RoundPurpose.NONE, Status.CANCELLING, False),
        (StepKind.RELEASE, RoundPurpose.INVENTORY, Status.INVENTORY, False),
    ],
)
@pytest.mark.parametrize("hold", ["lien", "brake"])
def test_which_steps_may_write_on_hold(hold, kind, purpose, status, held):
    step = dataclasses.replace(PORT, kind=kind, round=1, project_setting=purpose is RoundPurpose.PROJECT_SETTINGS)
    record = deletion(status=status, purpose=purpose)
    assert allowed(record, step, writing=True)
    assert allowed(dataclasses.replace(record, **HOLDS[hold][0]), step, writing=True) is not held
    assert allowed(dataclasses.replace(record, **HOLDS[hold][0]), step), "it may run, and look"
    assert destructive(record, step) is held


@pytest.mark.parametrize(
    ("values", "holds"),
    [
        ({}, True),
        ({"dry_run": True}, False),
        ({"origin": Origin.NOTICED}, False),
        ({"status": Status.CANCELLING}, False),
    ],
)
def test_deletions_that_write_nothing_or_restore_are_not_on_hold(values, holds):
    assert (guard.hold(deletion(brake=BRAKE, liens=(lien(),), **values), T0, HoldOptions(CLOSED)) is not None) is holds


# ------------------------------------------------------------------------------------------------- what always holds
class HoldWorld(World):
    """Record each step that is dispatched, or writes, while the deletion is on hold."""

    def __init__(self, *args, **values):
        super().__init__(*args, **values)
        self.wrong = []

    def engine(self):
        held = guard.hold(self.deletion, self.now, self.rules.hold_options) is not None
        before = len(self.dispatched)
        changed = super().engine()
        for id_ in self.dispatched[before:]:
            if held and destructive(self.deletion, self.steps[id_]):
                self.wrong.append((str(self.deletion.status), id_))
        return changed

    def finish(self, step_id, result=None):
        step = self.steps[step_id]
        held = guard.hold(self.deletion, self.now, self.rules.hold_options) is not None
        if held and destructive(self.deletion, step) and result is None:
            result = ON_HOLD  # the answer of the guard
            self.deletion, self.steps[step_id] = results.record(self.deletion, step, result, self.now)
            return
        super().finish(step_id, result)


@settings(max_examples=examples(40))
@given(
    st.sampled_from(list(Mode)),
    st.lists(st.tuples(st.integers(1, 30), st.sampled_from(["lien", "brake", "window", "lift", "lift"])), max_size=12),
)
def test_on_hold_no_destructive_step_is_dispatched_and_the_deletion_ends_after_the_last_hold(mode, deeds):
    w = HoldWorld(deletion(mode=mode), PORT, SECRET, QUOTA)
    there = set() if mode is Mode.REPORT else {"1"}
    w.answers = {"network.port": ports(w, there)}
    for steps, what in deeds:
        w.run(limit=steps)
        if w.deletion.status not in LIVE:
            break
        lift(w) if what == "lift" else put_on(w, what)
    lift(w)
    assert w.run() is DONE[mode]
    assert w.wrong == []
    assert not is_held(w)
    no_reason_is_shown(w)


# ------------------------------------------------------------------------------------------------- what is said of it
def test_a_write_on_hold_has_another_reason_than_a_stopped_write():
    assert classify(OnHold("DELETE withheld")).reason is Reason.ON_HOLD
    assert "condition 'on_hold'" in remedy(Reason.ON_HOLD)


def test_a_step_on_hold_is_no_blocker():
    done = dataclasses.replace(
        PORT, state=StepState.DONE, round=1, outcome=Outcome.LEFTOVERS, reason=str(Reason.ON_HOLD), remaining=3
    )
    record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE)
    assert blockers(record, [done]) == ()
    assert blockers(record, [dataclasses.replace(done, reason=str(Reason.FOREIGN))]) != ()


def test_a_deletion_shows_the_liens_on_its_project():
    shown = views.deletion(deletion(liens=(lien(expires_at=T0 + HOUR),)), (), Rules(), "http://x", {"lien"})
    [one] = shown["liens"]
    assert (one["origin"], one["expires_at"]) == ("billing", "2026-01-01T01:00:00Z")


def test_a_project_that_gets_on_the_never_delete_list_during_its_deletion_is_kept_and_restored():
    """The write itself is withheld, without a look that says so before; the next survey has the last word."""
    w = World(deletion(), PORT)
    w.answers["network.port"] = lambda _: left("p1")
    w.run(until=Status.DELETING)
    refused = StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_PROTECTED), "DELETE withheld: never")
    w.answers["network.port"] = lambda _: refused
    w.answers["survey"] = lambda _: StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_PROTECTED), "never")
    before = w.dispatched.count("network.port")
    assert w.run(limit=500) is Status.FAILED
    assert (w.deletion.reason, w.deletion.has_changes) == (str(Reason.PROJECT_PROTECTED), False)
    assert w.dispatched.count("network.port") <= before + 2


@pytest.mark.parametrize(
    ("who", "status", "reason"),
    [
        ("drain", Status.LEFTOVERS, "drain_failed"),
        ("close", Status.FAILED, "project_protected"),
        ("remove", Status.FAILED, "project_protected"),
    ],
)
def test_a_lock_or_the_removal_that_the_never_delete_list_withholds_is_not_waited_for(who, status, reason):
    """Between the survey and the lock: no later event would remove it."""
    w = World(deletion(), PORT)
    w.answers[who] = lambda _: StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_PROTECTED), "PATCH withheld: never")
    assert w.run(limit=500) is status
    assert (w.deletion.reason, w.deletion.has_changes) == (reason, False)
    assert "never" in w.deletion.message
    assert w.dispatched.count(who) == 1


S = Status
#: Each kind of step that may write, in a status and a round in which it may.
WRITERS = {
    StepKind.ACCESS: {"status": S.DRAINING},
    StepKind.DRAIN: {"status": S.DRAINING},
    StepKind.HALT: {"status": S.RECOVERABLE},
    StepKind.SWEEP: {"status": S.DELETING, "purpose": RoundPurpose.DELETE},
    StepKind.CLOSE: {"status": S.VERIFYING},
    StepKind.REMOVE: {"status": S.VERIFYING, "purpose": RoundPurpose.PROJECT_SETTINGS},
    StepKind.RELEASE: {"status": S.CANCELLING},
}


def step(kind, **values):
    return dataclasses.replace(Step("s", "d", kind, round=5), **values)


def going(kind, **values):
    return deletion(**{"round": 5, "since_round": 3, **WRITERS[kind], **values})


@each_case("kind", WRITERS)
def test_what_may_write_is_what_its_time_has_come_for(kind):
    assert allowed(going(kind), step(kind), writing=True)
    assert allowed(going(kind), step(kind))


@each_case("kind", WRITERS, "writing", [False, True])
def test_no_step_of_an_earlier_attempt_runs_or_writes(kind, writing):
    assert not allowed(going(kind), step(kind, round=2), writing)


@each_case("kind", [StepKind.SWEEP, StepKind.CLOSE], "round_", [3, 4, 6], "writing", [False, True])
def test_no_sweep_and_no_closing_of_another_round_runs_or_writes(kind, round_, writing):
    """Its round may have been one of deletes, and the present one may be one that counts what is left.

    The lock of the closing's round may be void.
    """
    assert not allowed(going(kind), step(kind, round=round_), writing)


@each_case("kind", sorted(set(WRITERS) - {StepKind.SWEEP, StepKind.CLOSE}))
def test_what_belongs_to_no_round_may_have_begun_in_an_earlier_one_of_the_attempt(kind):
    assert allowed(going(kind), step(kind, round=3), writing=True)


@each_case("kind", WRITERS, "status", sorted(FINAL | RESTING))
def test_nothing_runs_or_writes_once_a_deletion_has_ended(kind, status):
    for writing in (False, True):
        assert not allowed(going(kind, status=status), step(kind), writing)


@each_case("kind", sorted(set(WRITERS) - {StepKind.RELEASE}))
def test_a_cancel_stops_everything_but_the_undoing(kind):
    for writing in (False, True):
        assert not allowed(going(kind, status=S.CANCELLING), step(kind), writing)


@each_case("kind", sorted(set(WRITERS) - {StepKind.RELEASE}))
def test_a_dry_run_writes_nothing(kind):
    assert not allowed(going(kind, dry_run=True), step(kind), writing=True)


@each_case("purpose", [p for p in RoundPurpose if p is not RoundPurpose.DELETE])
def test_a_sweep_writes_in_a_round_of_deletes_alone(purpose):
    assert not allowed(going(StepKind.SWEEP, purpose=purpose), step(StepKind.SWEEP), writing=True)
    project_setting = step(StepKind.SWEEP, project_setting=True)
    assert allowed(going(StepKind.SWEEP, purpose=purpose), project_setting, writing=True) is (
        purpose is RoundPurpose.PROJECT_SETTINGS
    )


@each_case("purpose", [p for p in RoundPurpose if p is not RoundPurpose.PROJECT_SETTINGS])
def test_the_project_is_removed_in_the_project_settings_round_alone(purpose):
    assert not allowed(going(StepKind.REMOVE, purpose=purpose), step(StepKind.REMOVE), writing=True)


@each_case("status", sorted(LIVE - {S.RECOVERABLE}))
def test_what_runs_is_stopped_in_the_recovery_window_alone(status):
    for writing in (False, True):
        assert not allowed(going(StepKind.HALT, status=status), step(StepKind.HALT), writing)


@pytest.mark.parametrize("kind", [kind for kind in StepKind if kind is not StepKind.RELEASE])
def test_only_resources_are_written_of_a_project_that_does_not_exist(kind):
    adopted = deletion(origin=Origin.ADOPTED, status=Status.DELETING, purpose=RoundPurpose.DELETE)
    found = {cause.hold for cause in guard.causes(guard.HoldInputs(adopted), dataclasses.replace(PORT, kind=kind))}
    assert (guard.HoldName.NO_PROJECT in found) is (kind is not StepKind.SWEEP)


@pytest.mark.parametrize("purpose", RoundPurpose)
def test_the_settings_of_a_project_that_is_kept_are_listed_and_never_swept(purpose):
    kept = deletion(mode=Mode.PURGE, status=Status.DELETING, purpose=purpose)
    found = {cause.hold for cause in guard.causes(guard.HoldInputs(kept), QUOTA, writing=False)}
    assert (guard.HoldName.KEPT_PROJECT in found) is (purpose is not RoundPurpose.INVENTORY)
