"""What a worker asks before each write call of a step."""

import dataclasses
import itertools
import types

import pytest
import sqlalchemy.exc
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.projects import Protection
from cleanup_orchestrator.cloud.session import read_only
from cleanup_orchestrator.core.delete_windows import Windows
from cleanup_orchestrator.core.deletion import Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.guard import Cause, HoldInputs, HoldName, HoldOptions, causes
from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.core.journal import Change
from cleanup_orchestrator.core.step import SCANS, Step, StepKind, StepState
from cleanup_orchestrator.errors import Cancelled, OnHold, ProjectKnown, ProjectProtected, Stopped, WriteRefused
from cleanup_orchestrator.plugins.base import NIL_UUID
from cleanup_orchestrator.worker import force_check, guard, watchdog
from cleanup_orchestrator.worker.sweep.other_projects import OtherProjects
from cleanup_orchestrator.worker.task import StepTask
from tests.support.no_protocol import NoProtocol
from tests.unit.world import T0, allowed, deletion, sweep_step

DATABASE_AWAY = sqlalchemy.exc.OperationalError(
    "SELECT deletions.id FROM deletions", {"id": "d-1"}, Exception('connection to server at "10.1.2.3" failed')
)
CLOSED = HoldOptions(Windows.of(["thu 20:00-22:00"], "UTC"))


class Records:
    """A store that answers what a test says, and writes down what it is told."""

    def __init__(self, record, may=True):
        self.record, self.may, self.asked, self.saved, self.waivers = record, may, [], [], ()
        self.left, self.given_back, self.changed, self.forgotten = [], [], (), []

    def withheld(self, step, options, never_delete):
        self.asked.append(options)
        if not self.may:
            return (Cause(HoldName.CLAIM_LOST, "the worker no longer holds the lease of this step"),)
        return tuple(
            causes(
                HoldInputs(self.record, T0, HoldOptions(), None, never_delete, self.record.liens, self.record.brake),
                step,
            )
        )

    def load(self, _deletion_id):
        return self.record, (), T0

    def finish(self, step, result, events, yielded):
        self.saved.append(result)
        return True

    def release_claim(self, step):
        self.given_back.append(step.id)
        return True

    def waivers_in_force(self, _project_id):
        return self.waivers

    def changes(self, _deletion_id):
        return self.changed

    def steps(self, _deletion_id):
        return ()

    def now(self):
        return T0

    def record_intent(self, step, type_, data):
        made = Change(f"c{len(self.changed)}", step.owner_id, len(self.changed) + 1, type_, dict(data))
        self.changed = (*self.changed, made)
        return made

    def undone(self, _step, change, event):
        self.changed = tuple(one for one in self.changed if one != change)
        self.forgotten.append((change.type, event.message))
        return True

    def deletes(self, _step_id):
        return {}

    def leftovers(self, *_, **__):
        return [types.SimpleNamespace(leftover=one) for one in self.left]


class Clouds:
    """Sessions that only say what guard they were made with."""

    def __init__(self):
        self.guards = []

    def observed_by(self, _made):
        return self

    def admin_session(self, guard=read_only):
        self.guards.append(guard)
        return types.SimpleNamespace(guard=guard)

    def identity(self, session):
        return session

    def connection(self, _session, _region):
        return None

    def project_id(self):
        return "own"

    def user_id(self):
        return "me"


def task(record=None, step=None, store=None, **conf):
    record = record or deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE)
    step = step or dataclasses.replace(sweep_step("network.port"), state=StepState.RUNNING, round=1)
    clouds, store = Clouds(), store or Records(record)
    options = {"never_delete_projects": (), "recovery_stop_servers": False, "recovery_window": 0}
    worker = types.SimpleNamespace(
        store=store,
        clouds=clouds,
        unlimited=clouds,
        name="w",
        bus=types.SimpleNamespace(steps=lambda _: None),
        protection=Protection(tuple(conf.get("never", ())), lambda: "own"),
        hold_options=conf.get("hold_options", CLOSED),
        conf=types.SimpleNamespace(
            worker=types.SimpleNamespace(lease=60, most_listed=10, slice=60, parallel_deletes=1, deleting_patience=60),
            protection=types.SimpleNamespace(keep_tags=[], keep_properties=[], lien_types=[], ignored_uses=[]),
            deletion=types.SimpleNamespace(**options),
        ),
        registry=conf.get("registry"),
        protocol=NoProtocol(conf.get("registry")),
        others=OtherProjects(),
    )
    return StepTask(worker, watchdog.HungThreads(), record, step)


def refused(made, error):
    with pytest.raises(error) as caught:
        made.step_context.guard("DELETE", "http://cloud/ports/1")
    return caught.value


# ------------------------------------------------------------------------------------------------------- the guard
def test_a_write_passes_when_the_store_lets_it_by_the_hours_of_now():
    made = task()
    made.step_context.guard("DELETE", "http://cloud/ports/1")
    assert made.worker.store.asked == [CLOSED]


def test_a_write_does_not_pass_when_the_store_does_not_let_it():
    made = task(hold_options=HoldOptions())
    made.worker.store.may = False
    error = refused(made, Stopped)
    assert type(error) is Stopped
    assert str(error) == "DELETE withheld: the worker no longer holds the lease of this step"


@pytest.mark.parametrize("error", [DATABASE_AWAY, sqlalchemy.exc.TimeoutError("QueuePool limit of size 10")])
def test_a_write_does_not_pass_while_the_store_does_not_answer(error):
    made = task()

    def withheld(*_):
        raise error

    made.worker.store.withheld = withheld
    said = refused(made, Stopped)
    assert type(said) is Stopped
    assert str(said) == "withheld: the orchestrator's database does not say whether it may be made"


def test_a_write_of_a_cancelled_deletion_says_so():
    text = str(refused(task(deletion(status=Status.CANCELLING)), Cancelled))
    assert text == "DELETE withheld: the deletion was cancelled"


def test_the_refusal_names_the_holds_without_their_reasons():
    """Every caller who sees the deletion sees the message; not every one may read the reason of the brake."""
    made = task()
    made.worker.store.record = dataclasses.replace(
        made.worker.store.record, brake=Brake(True, "the storage misbehaves", T0)
    )
    text = str(refused(made, OnHold))
    assert "on hold (brake)" in text
    assert "the storage misbehaves" not in text


def test_a_dry_run_writes_nothing():
    refused(task(deletion(dry_run=True, status=Status.DELETING, purpose=RoundPurpose.DELETE)), WriteRefused)


SWEEP, SETTING = (Step("s", "d", StepKind.SWEEP, round=1, project_setting=setting) for setting in (False, True))
#: What a deletion never writes: some of its fields, and the step.
NEVER = {
    "a dry run": ({"dry_run": True}, SWEEP),
    "a dry run, the lock": ({"dry_run": True}, Step("s", "d", StepKind.DRAIN, round=1)),
    "a dry run, its own access": ({"dry_run": True}, Step("s", "d", StepKind.ACCESS, round=1)),
    "a noticed deletion": ({"origin": Origin.NOTICED}, SWEEP),
    "settings of a project that is kept": ({"mode": Mode.PURGE}, SETTING),
    "the end of a project that is kept": ({"mode": Mode.PURGE}, Step("s", "d", StepKind.REMOVE, round=1)),
    "the closing of a project that is kept": ({"mode": Mode.PURGE}, Step("s", "d", StepKind.CLOSE, round=1)),
    "resources of a report": ({"mode": Mode.REPORT}, SWEEP),
    "servers of a report": ({"mode": Mode.REPORT}, Step("s", "d", StepKind.HALT, round=1)),
}


@pytest.mark.parametrize("name", NEVER)
def test_the_worker_refuses_what_a_deletion_never_writes_whatever_the_store_says(name):
    fields, step = NEVER[name]
    made = task(deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE, **fields), step)
    made.worker.store.record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE)
    refused(made, WriteRefused)
    assert not made.worker.store.asked


@pytest.mark.parametrize(("kind", "setting"), [*((kind, False) for kind in StepKind), (StepKind.SWEEP, True)])
def test_the_second_check_refuses_nothing_that_the_holds_let_pass(kind, setting):
    step, passed = Step("s", "d", kind, round=1, project_setting=setting), 0
    for mode, dry_run, origin, status, purpose in itertools.product(Mode, (0, 1), Origin, Status, RoundPurpose):
        record = deletion(mode=mode, dry_run=bool(dry_run), origin=origin, status=status, purpose=purpose)
        # A report has neither a delete round nor a recovery window: the engine decides so, and no hold.
        never = mode is Mode.REPORT and (purpose is RoundPurpose.DELETE or status is Status.RECOVERABLE)
        if not never and allowed(record, step, writing=True):
            passed += 1
            assert not guard.never_writes(record, step), record
    assert passed or kind in (StepKind.SURVEY, StepKind.UNSUPPORTED, *SCANS)


@pytest.mark.parametrize("never", ["p", "P"])
def test_a_project_that_got_on_the_never_delete_list_is_not_changed(never):
    assert "DELETE withheld: " in str(refused(task(never=(never,)), ProjectProtected))


@pytest.mark.parametrize("kind", [StepKind.RELEASE, StepKind.ACCESS])
def test_the_never_delete_list_keeps_nothing_from_being_undone(kind):
    task(step=Step("s", "d", kind, round=1), never=("p",)).step_context.guard("PUT", "http://cloud/projects/p")


def test_a_worker_that_is_stopped_and_a_step_that_was_given_up_write_nothing():
    stopping = task()
    stopping.stopping = True
    refused(stopping, Stopped)
    hanging = task()
    hanging.give_up("it hangs")
    assert "it hangs" in str(refused(hanging, Stopped))
    assert stopping.worker.store.asked == hanging.worker.store.asked == []


def known(answer):
    """Return ``Projects`` for which each project is known, or not, or of which Keystone says nothing."""

    class Answers:
        def __init__(self, _identity):
            pass

        def knows(self, project_id, own_id):
            assert (project_id, own_id) == ("p", "own")
            if isinstance(answer, Exception):
                raise answer
            return answer

    return Answers


@pytest.mark.parametrize(
    ("answer", "error"), [(False, None), (True, ProjectKnown), (ka_exceptions.ConnectFailure("no answer"), Stopped)]
)
def test_what_a_dead_project_left_is_deleted_while_keystone_says_that_it_is_dead(monkeypatch, answer, error):
    record = deletion(origin=Origin.ADOPTED, status=Status.DELETING, purpose=RoundPurpose.DELETE)
    monkeypatch.setattr(guard, "Projects", known(answer))
    made = task(record)
    if error is None:
        made.step_context.guard("DELETE", "http://cloud/ports/1")
        assert len(made.worker.store.asked) == 1
        return
    assert type(refused(made, error)) is error
    assert made.worker.store.asked == []


def test_keystone_is_asked_again_during_a_long_step(monkeypatch):
    made = task(deletion(origin=Origin.ADOPTED, status=Status.DELETING, purpose=RoundPurpose.DELETE))
    now = [0.0]
    monkeypatch.setattr(guard.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(guard, "Projects", known(False))
    made.step_context.guard("DELETE", "http://cloud/ports/1")
    monkeypatch.setattr(guard, "Projects", known(True))
    now[0] = guard._GONE - 1
    made.step_context.guard("DELETE", "http://cloud/ports/2")
    now[0] = guard._GONE
    refused(made, ProjectKnown)


def test_a_project_that_keystone_knows_is_known_to_the_next_call_as_well(monkeypatch):
    """The deletes of a sweep are made at once: what stops the first one stops the others."""
    made = task(deletion(origin=Origin.ADOPTED, status=Status.DELETING, purpose=RoundPurpose.DELETE))
    monkeypatch.setattr(guard.time, "monotonic", lambda: 0.0)
    monkeypatch.setattr(guard, "Projects", known(True))
    refused(made, ProjectKnown)
    refused(made, ProjectKnown)
    assert made.worker.store.asked == []


@pytest.mark.parametrize(
    ("url", "passes"),
    [
        (f"http://cloud/stacks/{NIL_UUID}/abandon", True),
        (f"http://cloud/stacks/1/abandon?id={NIL_UUID}", False),
        (f"http://cloud/stacks/x{NIL_UUID}/abandon", False),
        ("http://cloud/stacks/1/abandon", False),
    ],
)
def test_a_check_may_write_on_what_is_not_there_alone(url, passes):
    if passes:
        force_check.only_on_nothing("DELETE", url)
        return
    with pytest.raises(WriteRefused):
        force_check.only_on_nothing("DELETE", url)
