"""What runs is stopped for the recovery window, and exactly that is started again, wherever a process dies."""

import dataclasses
import datetime
import types

import pytest

from cleanup_orchestrator.cloud.projects import ProjectNotFound
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.guard import destructive
from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.core.journal import Change
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.selection import Selection
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import BadAnswer, CleanupError, OnHold
from cleanup_orchestrator.plugins import compute, conformance
from cleanup_orchestrator.plugins.base import Service
from cleanup_orchestrator.worker.sweep.exclusions import KeepMarks
from tests.support import sweeps
from tests.unit.answers import connection, project
from tests.unit.world import CLEAR, T0, UNKNOWN, World, allowed, deletion, left, sweep_step

TASK = "OS-EXT-STS:task_state"
SERVER = next(t for t in compute.SERVICE.types if t.name == "server")


# ------------------------------------------------------------------------------------------------------------- a server
@pytest.mark.parametrize(
    ("status", "task", "run"),
    [
        ("ACTIVE", None, "on"),
        ("SHUTOFF", None, "off"),
        ("ACTIVE", "powering-off", "busy"),
        ("SHUTOFF", "powering-on", "busy"),
        ("ACTIVE", "image_snapshot", "busy"),
        ("BUILD", "spawning", "busy"),
        ("ACTIVE", "deleting", "other"),
        ("SHUTOFF", "soft-deleting", "other"),
        ("PAUSED", None, "other"),
        ("SUSPENDED", None, "other"),
        ("SHELVED_OFFLOADED", None, "other"),
        ("VERIFY_RESIZE", None, "other"),
        ("RESCUE", None, "other"),
        ("ERROR", None, "other"),
        ("SOFT_DELETED", None, "other"),
        ("UNKNOWN", None, "other"),
        (None, None, "other"),
    ],
)
def test_only_what_is_active_and_left_alone_runs_and_only_what_is_shut_off_is_stopped(status, task, run):
    assert compute.servers.run({"id": "s", "status": status, TASK: task}) == run


def test_a_server_of_which_nova_hides_what_is_being_done_to_it_is_not_known_to_run():
    with pytest.raises(BadAnswer):
        compute.servers.run({"id": "s", "status": "ACTIVE"})


class Crash(BaseException):
    """The process dies here."""


class Nova:
    """Servers of several projects; each call may be the last one that a process makes."""

    def __init__(self, **servers):
        self.rows = {id_: self.server(id_, *how) for id_, how in servers.items()}
        self.fuse, self.calls = -1, 0
        self.log, self.slow, self.refuses = [], False, {}
        self.shown = {}  #: what is shown of a server right before its stop, where that is another thing

    @staticmethod
    def server(id_, status="ACTIVE", task=None, owner="p", **more):
        row = {"id": id_, "name": f"n-{id_}", "tenant_id": owner, "status": status, TASK: task, "tags": []}
        return {**row, "metadata": {}, **more}

    def burn(self):
        self.calls += 1
        self.fuse -= 1
        if self.fuse == 0:
            raise Crash

    def answer(self, method, path, query, body):
        if method == "GET" and path == "/servers/detail":
            if "all" in self.refuses:
                return self.refuses["all"], {}
            rows = [] if query.get("soft_deleted") else [r for r in self.rows.values() if r["status"] != "GONE"]
            return 200, {"servers": rows}
        id_ = path.split("/")[2]
        row = self.shown.get(id_, self.rows.get(id_))
        if row is None or row["status"] == "GONE":
            return 404, {"itemNotFound": {"message": "no"}}
        if method == "GET":
            return 200, {"server": row}
        if id_ in self.refuses:
            return self.refuses[id_], {"conflictingRequest": {"message": "no"}}
        self.burn()
        [action] = body
        self.log.append((action, id_))
        on, off = ("ACTIVE", "SHUTOFF") if action == "os-stop" else ("SHUTOFF", "ACTIVE")
        if row["status"] != on or row[TASK] is not None:
            return 409, {"conflictingRequest": {"message": f"it is {row['status']}, {row[TASK]}"}}
        self.rows[id_] = {**row, TASK: "powering"} if self.slow else {**row, "status": off}
        self.burn()
        return 202, {}

    def settle(self):
        for id_, row in self.rows.items():
            if row[TASK] == "powering":
                self.rows[id_] = {**row, TASK: None, "status": "SHUTOFF" if row["status"] == "ACTIVE" else "ACTIVE"}

    def statuses(self):
        return {id_: row["status"] for id_, row in self.rows.items()}


class Record:
    """What is written down, as the store does it: what is still to be undone is not written twice."""

    def __init__(self, nova):
        self.nova, self.ids, self.error = nova, [], None

    def __call__(self, resource):
        if self.error:
            raise self.error
        self.nova.burn()
        if resource.id not in self.ids:
            self.ids.append(resource.id)
        self.nova.log.append(("recorded", resource.id))
        self.nova.burn()

    def undo(self):
        """Start all of it, as a release does; return what it says."""
        said = []
        for id_ in tuple(reversed(self.ids)):
            said.append(sweeps.start(SERVER, connection(compute=self.nova.answer), project(), id_))
            self.nova.burn()
            self.ids.remove(id_)
        return said


def halt(nova, record=None, **how):
    return sweeps.halt(SERVER, connection(compute=nova.answer), project(), record or Record(nova), **how)


def test_what_is_stopped_was_written_down_before_and_nothing_else_is():
    nova = Nova(a=(), b=("SHUTOFF",), c=("PAUSED",), d=("ERROR",), e=("ACTIVE", "deleting"), f=())
    record = Record(nova)
    assert halt(nova, record).outcome is Outcome.CLEAR
    assert nova.log == [("recorded", "a"), ("os-stop", "a"), ("recorded", "f"), ("os-stop", "f")]
    assert record.undo() == ["started server f (n-f)", "started server a (n-a)"]
    assert nova.statuses() == {"a": "ACTIVE", "b": "SHUTOFF", "c": "PAUSED", "d": "ERROR", "e": "ACTIVE", "f": "ACTIVE"}


@pytest.mark.parametrize(
    "shown",
    [
        Nova.server("a", owner="q"),
        Nova.server("a", owner=None),
        Nova.server("another"),
        Nova.server("a", "PAUSED"),
        Nova.server("a", "ACTIVE", "image_snapshot"),
        Nova.server("a", tags=["keep"]),
    ],
    ids=[
        "another project's",
        "without an owner",
        "another one",
        "paused meanwhile",
        "busy meanwhile",
        "marked meanwhile",
    ],
)
def test_it_is_read_again_right_before_and_left_alone_if_it_is_not_what_it_was(shown):
    nova = Nova(a=())
    nova.shown["a"] = shown
    halt(nova, keep_marks=KeepMarks(tags=frozenset({"keep"})))
    assert nova.log == []


def test_a_server_that_is_not_selected_any_more_right_before_its_stop_runs_on():
    nova = Nova(a=(), b=())
    nova.rows = {id_: {**row, "tags": ["temporary"]} for id_, row in nova.rows.items()}
    nova.shown["a"] = {**nova.rows["a"], "tags": []}
    halt(nova, selection=Selection(tags=("temporary",)))
    assert nova.log == [("recorded", "b"), ("os-stop", "b")]


@pytest.mark.parametrize(
    ("nova", "how"),
    [
        (Nova(a=("ACTIVE", None, "")), {}),
        (Nova(a=()), {"planned": {"b"}}),
        (Nova(a=("ACTIVE", None, "p")), {"planned": ()}),
    ],
    ids=["without an owner", "not in the plan", "an empty plan"],
)
def test_what_a_deletion_would_not_delete_is_not_stopped(nova, how):
    assert halt(nova, **how).outcome is Outcome.CLEAR
    assert nova.log == []


def test_a_list_with_anothers_server_in_it_is_no_answer():
    nova = Nova(a=(), b=("ACTIVE", None, "q"))
    assert halt(nova).outcome is Outcome.UNKNOWN and nova.log == []


def test_a_list_that_fails_is_not_an_empty_one():
    nova = Nova(a=())
    nova.refuses = {"all": 503}
    assert halt(nova).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        (lambda nova: nova.refuses.update(a=409), Reason.IN_USE, "a (n-a)"),
        (lambda nova: nova.refuses.update(a=403), Reason.FORBIDDEN, "a (n-a)"),
        (lambda nova: nova.refuses.update(a=500), Reason.ERROR, "a (n-a)"),
        (lambda nova: nova.rows.update(a=Nova.server("a", "ACTIVE", "image_snapshot")), Reason.IN_USE, "in transition"),
        (lambda nova: setattr(nova, "slow", True), Reason.IN_USE, "in transition"),
    ],
    ids=["in use", "forbidden", "broken", "busy", "not yet"],
)
def test_what_still_runs_is_not_done_and_is_named_and_the_others_are_stopped(change, reason, words):
    nova = Nova(a=(), b=())
    change(nova)
    result = halt(nova)
    assert (result.outcome, result.reason) == (Outcome.UNKNOWN, str(reason))
    assert words in result.message and ("os-stop", "b") in nova.log and result.leftovers == ()


def test_a_server_that_is_gone_before_its_stop_is_ignored():
    nova = Nova(a=())
    nova.shown["a"] = Nova.server("a", "GONE")
    listed = nova.rows.pop
    nova.refuses = {}
    first = nova.answer

    def answer(method, path, query, body):
        if path == "/servers/a":
            listed("a", None)
        return first(method, path, query, body)

    nova.answer = answer
    assert halt(nova).outcome is Outcome.CLEAR and nova.log == []


def test_what_must_not_be_written_down_is_not_stopped():
    nova = Nova(a=(), b=())
    record = Record(nova)
    record.error = OnHold("the brake")
    result = halt(nova, record)
    assert (result.outcome, result.reason) == (Outcome.UNKNOWN, str(Reason.ON_HOLD)) and nova.log == []


@pytest.mark.parametrize("slow", [False, True], ids=["at once", "later"])
def test_after_a_crash_at_any_point_only_servers_that_ran_run_again(slow):
    """Killed at each effect of the stop, which is taken up again or not, and at each of the start."""
    before = {"a": (), "b": ("SHUTOFF",), "c": (), "d": ("PAUSED",)}
    wanted, points = Nova(**before).statuses(), 0
    for again in (False, True):
        for stop_at in range(1, 20):
            for start_at in (-1, *range(1, 10)):
                nova = Nova(**before)
                nova.slow, record = slow, None
                record = Record(nova)
                points += _dies_at(nova, stop_at, lambda n=nova, r=record: halt(n, r))
                nova.settle()
                if again:
                    halt(nova, record)
                    nova.settle()
                if not _dies_at(nova, start_at, record.undo) and start_at > 0:
                    break  # it takes fewer effects than that: it would not die at a later one either
                nova.settle()
                record.undo()
                nova.settle()
                assert nova.statuses() == wanted, (again, stop_at, start_at, nova.log)
    assert points > 100


def _dies_at(nova, effect, what):
    nova.fuse = effect
    try:
        what()
    except Crash:
        return True
    finally:
        nova.fuse = -1
    return False


@pytest.mark.parametrize(
    ("now", "said", "error"),
    [
        (Nova.server("a", "SHUTOFF"), "started server a (n-a)", ""),
        (Nova.server("a", "ACTIVE"), "no longer stopped", ""),
        (Nova.server("a", "PAUSED"), "no longer stopped", ""),
        (Nova.server("a", "ERROR"), "no longer stopped", ""),
        (Nova.server("a", "SHUTOFF", "deleting"), "no longer stopped", ""),
        (Nova.server("a", "GONE"), "is gone", ""),
        (Nova.server("a", "SHUTOFF", owner="q"), "server a belongs to another project now: not started", ""),
        (Nova.server("a", "SHUTOFF", owner=None), "server a belongs to no project now: not started", ""),
        (Nova.server("b", "SHUTOFF"), "server a belongs to another project now: not started", ""),
        (Nova.server("a", "ACTIVE", "powering-off"), "", "it is in transition"),
        (Nova.server("a", "SHUTOFF", "rebuilding"), "", "it is in transition"),
    ],
)
def test_only_a_server_in_the_state_that_the_stop_left_is_started(now, said, error):
    nova = Nova()
    nova.rows["a"] = now
    start = lambda: sweeps.start(SERVER, connection(compute=nova.answer), project(), "a")  # noqa: E731
    if error:
        with pytest.raises(CleanupError, match=f"server a.*{error}"):
            start()
    else:
        assert said in start()
    assert [action for action, _ in nova.log] == (["os-start"] if said.startswith("started") else [])


def test_a_not_found_that_the_list_contradicts_is_not_gone():
    nova = Nova(a=("SHUTOFF",))
    nova.shown["a"] = Nova.server("a", "GONE")
    with pytest.raises(CleanupError, match="server a is stopped, and not started"):
        sweeps.start(SERVER, connection(compute=nova.answer), project(), "a")


def test_a_refused_start_is_named():
    nova = Nova(a=("SHUTOFF",))
    nova.refuses = {"a": 409}
    with pytest.raises(CleanupError, match=r"server a \(n-a\) is stopped, and not started"):
        sweeps.start(SERVER, connection(compute=nova.answer), project(), "a")


CHANGE = Change("c", "d", 1, drain.RESOURCE_STOPPED, {"region": "R", "service": "compute", "type": "server", "id": "a"})


def test_of_a_project_that_is_gone_nothing_is_started_again():
    def gone(_project_id):
        raise ProjectNotFound("p")

    keystone = types.SimpleNamespace(get_uncached=gone)
    assert "no longer anything to undo" in drain.undo(keystone, "p", CHANGE, lambda _: pytest.fail("started"))


def test_a_process_that_cannot_start_it_does_not_say_that_it_did():
    with pytest.raises(CleanupError):
        drain.undo(types.SimpleNamespace(), "p", CHANGE)
    assert "compute.server a" in drain.describe(CHANGE)


def test_a_plugin_that_stops_what_it_cannot_show_breaks_the_contract():
    blind = dataclasses.replace(SERVER, show=None, why_no_show="it is")
    assert any("halt" in problem for problem in conformance.problems(Service("compute", (blind,))))


# ---------------------------------------------------------------------------------------------------------- decisions
DAY = datetime.timedelta(days=1)
HALT, PORT = "halt", "network.port"
RULES = Rules(recovery_window=7 * DAY)


def world(rules=RULES, **values):
    step = Step(HALT, "d", StepKind.HALT, "R1", "compute", "server")
    w = World(deletion(**values), sweep_step(PORT), step, rules=rules)
    there = ["p"]

    def port(_step):
        if w.deletion.purpose is RoundPurpose.DELETE:
            there.clear()
        return left(*there) if there else CLEAR

    w.answers[PORT] = port
    w.answers[HALT] = lambda _: StepResult(Outcome.CLEAR, message="compute.server@R1: 2 stopped")
    return w


def in_the_window(w):
    assert w.run(until=Status.RECOVERABLE) is Status.RECOVERABLE
    return w


def rest(w, days=1.0):
    until = w.now + days * DAY
    while w.now < until and w.deletion.status is Status.RECOVERABLE:
        w.run(limit=1)
    w.settle_engine()


def halted(w):
    return next((c for c in w.deletion.conditions if c.type == "halted"), None)


def test_what_runs_is_stopped_once_when_the_window_opens_and_then_it_rests():
    w = in_the_window(world())
    w.run(limit=2)
    assert w.dispatched.count(HALT) == 1 and halted(w).status and "2 stopped" in halted(w).message
    assert w.deletion.wake_at == w.deletion.point_of_no_return_at, "days without a heartbeat"
    assert w.run() is Status.DELETED and w.dispatched.count(HALT) == 1
    assert halted(w) is None


@pytest.mark.parametrize(
    ("rules", "values", "stops"),
    [
        (RULES, {}, 1),
        (Rules(), {}, 0),
        (Rules(approval_resources=1, recovery_window=DAY), {}, 1),
        (RULES, {"dry_run": True}, 0),
        (RULES, {"mode": Mode.REPORT}, 0),
        (RULES, {"origin": Origin.ADOPTED, "project_gone_at": T0}, 0),
        (RULES, {"project_gone_at": T0}, 0),
    ],
    ids=["window", "no window", "window and approval", "dry run", "report", "orphans", "project gone"],
)
def test_only_a_window_out_of_which_a_project_comes_back_stops_anything(rules, values, stops):
    w = world(rules, **values)
    w.run(limit=300)
    assert w.dispatched.count(HALT) == stops


def test_a_failed_stop_is_repeated_and_reported_and_the_window_keeps_its_length():
    w = world(Rules(recovery_window=DAY / 4))
    w.answers[HALT] = lambda _: UNKNOWN
    in_the_window(w)
    until = w.deletion.point_of_no_return_at
    rest(w, 1 / 8)
    assert w.deletion.status is Status.RECOVERABLE and w.dispatched.count(HALT) > 100
    assert not halted(w).status and halted(w).reason == "unreachable"
    while w.steps[HALT].state is not StepState.DONE:
        w.run(limit=1)
    assert [b.type for b in blockers(w.deletion, w.steps.values())] == ["server"]
    rest(w, 1 / 4)
    assert w.deletion.status is Status.INVENTORY and until <= w.now < until + datetime.timedelta(minutes=2)
    assert "server" not in [b.type for b in blockers(w.deletion, w.steps.values())], "its time is over"
    assert w.run() is Status.DELETED


def test_what_is_under_way_when_the_window_ends_comes_to_its_end_first():
    w = in_the_window(world())
    w.settle_engine()
    w.claim(HALT)
    w.now = w.deletion.point_of_no_return_at
    w.steps[HALT] = dataclasses.replace(w.steps[HALT], lease_until=w.now + datetime.timedelta(seconds=60))
    w.settle_engine()
    assert w.deletion.status is Status.RECOVERABLE
    w.finish(HALT)
    w.settle_engine()
    assert w.deletion.status is Status.INVENTORY


def test_a_brake_withholds_it_and_it_goes_on_afterwards():
    w = world()
    assert w.run(until=Status.INVENTORY) is Status.INVENTORY
    w.deletion = dataclasses.replace(w.deletion, brake=Brake(True, "smoke", T0))
    in_the_window(w)
    rest(w, 0.1)
    assert HALT not in w.dispatched
    w.deletion = dataclasses.replace(w.deletion, brake=None, wake_at=w.now)
    rest(w, 0.1)
    assert w.dispatched.count(HALT) == 1 and halted(w).status


def test_a_restore_waits_for_a_stop_that_is_under_way_before_it_starts_anything():
    w = in_the_window(world())
    w.settle_engine()
    w.claim(HALT)
    w.user(Status.CANCELLING)
    lease = w.steps[HALT].lease_until
    w.settle_engine()
    assert "release" not in w.dispatched and halted(w) is None
    w.now = lease
    assert w.run() is Status.CANCELLED and "release" in w.dispatched


def test_a_retry_stops_the_servers_again():
    w = in_the_window(world())
    rest(w, 0.1)
    w.deletion = dataclasses.replace(w.deletion, status=Status.LEFTOVERS)
    w.user(Status.ACCEPTED)
    in_the_window(w)
    rest(w, 0.1)
    assert w.dispatched.count(HALT) == 2


@pytest.mark.parametrize("status", list(Status))
def test_a_stop_is_a_write_of_the_window_alone(status):
    step = Step("s", "d", StepKind.HALT, round=1, state=StepState.RUNNING)
    d = deletion(status=status)
    assert allowed(d, step, writing=True) is allowed(d, step) is (status is Status.RECOVERABLE)
    assert destructive(d, step)
    held = dataclasses.replace(d, brake=Brake(True, "smoke", T0))
    assert not allowed(held, step, writing=True)
    assert not allowed(dataclasses.replace(d, dry_run=True), step, writing=True)
