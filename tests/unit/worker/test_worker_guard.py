"""What a worker asks before each write call of a step, and what it makes of the last steps of a deletion."""

import dataclasses
import types

import pytest
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound, Protection
from cleanup_orchestrator.cloud.session import read_only
from cleanup_orchestrator.core import actions
from cleanup_orchestrator.core.deletion import Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.guard import HoldOptions
from cleanup_orchestrator.core.holds import Brake, Waiver
from cleanup_orchestrator.core.maintenance_windows import Windows
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.errors import ProjectKnown, ProjectProtected, Stopped, WriteRefused
from cleanup_orchestrator.plugins.base import NOTHING, ResourceType
from cleanup_orchestrator.worker import force_check, guard, watchdog
from cleanup_orchestrator.worker.steps import RUNNERS
from cleanup_orchestrator.worker.steps import context as steps_context
from cleanup_orchestrator.worker.steps import sweep as sweep_step_module
from cleanup_orchestrator.worker.sweep.other_projects import OtherProjects
from cleanup_orchestrator.worker.task import StepTask
from tests.support.no_protocol import NoProtocol
from tests.unit.world import CLEAR, T0, deletion, sweep_step

CLOSED = HoldOptions(Windows.of(["thu 20:00-22:00"], "UTC"))


class Records:
    """A store that answers what a test says, and writes down what it is told."""

    def __init__(self, record, may=True):
        self.record, self.may, self.asked, self.saved, self.waivers = record, may, [], [], ()
        self.left, self.given_back, self.changed, self.forgotten = [], [], (), []

    def may_write(self, step, options=None):
        self.asked.append(options)
        return self.may

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

    def undone(self, _step, change, event):
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

    def seen_by(self, _made):
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
        bus=types.SimpleNamespace(step=lambda _: None),
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


def done(made):
    return RUNNERS[made.step.kind](made.work_on).run()


def refused(made, error):
    with pytest.raises(error) as caught:
        made.work_on.guard("DELETE", "http://cloud/ports/1")
    return caught.value


# ------------------------------------------------------------------------------------------------------- the guard
def test_a_write_passes_when_the_store_lets_it_by_the_hours_of_now():
    made = task()
    made.work_on.guard("DELETE", "http://cloud/ports/1")
    assert made.worker.store.asked == [CLOSED]


def test_a_write_does_not_pass_when_the_store_does_not_let_it():
    made = task(hold_options=HoldOptions())
    made.worker.store.may = False
    assert type(refused(made, Stopped)) is Stopped


def test_the_refusal_names_the_holds_without_their_reasons():
    """Every caller who sees the deletion sees the message; not every one may read the reason of the brake."""
    made = task(hold_options=HoldOptions())
    made.worker.store.may = False
    made.worker.store.record = dataclasses.replace(
        made.worker.store.record, brake=Brake(True, "the storage misbehaves", T0)
    )
    text = str(refused(made, Stopped))
    assert "on hold (brake)" in text
    assert "the storage misbehaves" not in text


def test_a_dry_run_writes_nothing_even_if_the_store_would_let_it():
    refused(task(deletion(dry_run=True, status=Status.DELETING, purpose=RoundPurpose.DELETE)), WriteRefused)


@pytest.mark.parametrize("never", ["p", "P"])
def test_a_project_that_got_on_the_never_delete_list_is_not_changed(never):
    made = task(never=(never,))
    refused(made, ProjectProtected)
    assert made.worker.store.asked == []


@pytest.mark.parametrize("kind", [StepKind.RELEASE, StepKind.ACCESS])
def test_the_never_delete_list_keeps_nothing_from_being_undone(kind):
    task(step=Step("s", "d", kind, round=1), never=("p",)).work_on.guard("PUT", "http://cloud/projects/p")


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
        made.work_on.guard("DELETE", "http://cloud/ports/1")
        assert len(made.worker.store.asked) == 1
        return
    assert type(refused(made, error)) is error
    assert made.worker.store.asked == []


@pytest.mark.parametrize(
    ("url", "passes"),
    [
        (f"http://cloud/stacks/{NOTHING}/abandon", True),
        (f"http://cloud/stacks/1/abandon?id={NOTHING}", False),
        (f"http://cloud/stacks/x{NOTHING}/abandon", False),
        ("http://cloud/stacks/1/abandon", False),
    ],
)
def test_a_check_may_write_on_what_is_not_there_alone(url, passes):
    if passes:
        force_check.only_on_nothing("DELETE", url)
        return
    with pytest.raises(WriteRefused):
        force_check.only_on_nothing("DELETE", url)


# ---------------------------------------------------------------------------------------------------------- results
def test_the_result_of_a_step_that_was_given_up_is_not_saved():
    made = task()
    made.give_up("it hangs")
    made.save(CLEAR)
    assert made.worker.store.saved == []
    other = task()
    other.save(CLEAR)
    assert len(other.worker.store.saved) == 1


@pytest.mark.parametrize("writing", [0, 1])
def test_a_claim_is_released_when_no_write_call_of_the_step_may_still_take_effect(writing):
    made = task()
    made.seen(types.SimpleNamespace(writing=writing, calls=0, end=lambda _: None))
    assert made.release_claim() is not bool(writing)
    assert made.worker.store.given_back == ([] if writing else ["network.port"])


# ----------------------------------------------------------------------------------------------------------- sweeps
class Ports:
    """A registry with one type, whose deletes are written down."""

    def __init__(self):
        self.deleted, self.rows = [], [{"id": "1", "name": "one", "project_id": "p"}]
        self.services = {"network": None}

    def find(self, _service, _type):
        listing = lambda *_: list(self.rows)  # noqa: E731
        return ResourceType("port", listing, self.delete, fresh="the test", force=self.force, source="the test")

    def delete(self, _connection, _project, resource):
        self.deleted.append(resource.id)

    def force(self, _connection, _project, resource):
        self.deleted.append(f"{resource.id} by force")

    def options(self, *_):
        return {}

    def related_types(self, *_):
        return ()


@pytest.mark.parametrize(
    ("values", "deleted"),
    [
        ({"purpose": RoundPurpose.DELETE}, ["1"]),
        ({"purpose": RoundPurpose.DELETE, "dry_run": True}, []),
        ({"purpose": RoundPurpose.INVENTORY}, []),
        ({"purpose": RoundPurpose.NONE}, []),
    ],
)
def test_a_sweep_deletes_in_a_round_of_deletes_and_never_in_a_dry_run(values, deleted):
    ports = Ports()
    made = task(deletion(status=Status.DELETING, **values), registry=ports)
    made.worker.store.append_events = lambda *_: True
    done(made)
    assert ports.deleted == deleted
    assert [each == made.work_on.guard for each in made.worker.clouds.guards] == [bool(deleted)]


@pytest.mark.parametrize(
    ("reason", "forced"),
    [
        (Reason.IN_USE, True),
        (Reason.ERROR, True),
        (Reason.PROTECTED, False),
        (Reason.FOREIGN, False),
        (Reason.OWNER_UNKNOWN, False),
        (Reason.NOT_PLANNED, False),
        (Reason.ON_HOLD, False),
        (Reason.PRESENT, False),
        (Reason.QUEUED, False),
        (Reason.RATE_LIMITED, False),
    ],
)
def test_force_is_used_on_what_an_ordinary_delete_left_and_no_other_project_uses(monkeypatch, reason, forced):
    monkeypatch.setattr(sweep_step_module.forcing, "works", lambda _: True)
    ports = Ports()
    step = dataclasses.replace(sweep_step("network.port"), state=StepState.RUNNING, round=1, forcing=True)
    made = task(step=step, registry=ports)
    made.worker.store.append_events = lambda *_: True
    made.worker.store.left = [Leftover("1", "one", reason)]
    done(made)
    assert ports.deleted == (["1 by force"] if forced else ["1"])


def needy(left, rule, mode=Mode.CASCADE, **values):
    """Return a sweep of two ports, of which some may be needed by servers, with what the servers' step has left."""
    ports = Ports()
    ports.rows = [{"id": id_, "name": id_, "project_id": "p"} for id_ in ("1", "2")]
    ports.needed_by = lambda *_: {"compute.server": rule}
    step = sweep_step("network.port", after=("compute.server",), needed_by=("compute.server",))
    record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE, mode=mode)
    made = task(record, dataclasses.replace(step, state=StepState.RUNNING, round=1), registry=ports)
    other = {"round": 1, "state": StepState.DONE, "outcome": Outcome.LEFTOVERS, "remaining": len(left), **values}
    made.worker.store.steps = lambda _: (made.step, sweep_step("compute.server", **other))
    made.worker.store.append_events = lambda *_: True
    made.worker.store.left = left
    return ports, made


@pytest.mark.parametrize("mode", [Mode.CASCADE, Mode.EMPTY])
def test_a_rule_of_what_a_type_serves_is_asked_only_if_the_project_is_kept(mode):
    ports, made = needy(SERVERS, needs_the_first, mode)
    asked = []
    ports.needed_by = lambda _service, _type, kept: asked.append(kept) or {"compute.server": needs_the_first}
    done(made)
    assert set(asked) == {mode is Mode.EMPTY}


def needs_the_first(_connection, _project, left):
    return lambda resource: sorted(left)[0] if resource.id == "1" else None


SERVERS = [Leftover("s1", "one", Reason.PROTECTED), Leftover("s2", "two", Reason.ERROR)]


@pytest.mark.parametrize(
    ("left", "values", "deleted", "why"),
    [
        (SERVERS, {}, ["2"], "the first one is needed"),
        (SERVERS, {"state": StepState.RUNNING}, ["2"], "its latest result still says what may be left"),
        ([], {"outcome": Outcome.CLEAR}, ["1", "2"], "nothing is left that could need one"),
        ([], {"outcome": Outcome.CLEAR, "round": 0}, [], "it was not listed in this round"),
        ([], {"outcome": Outcome.UNKNOWN}, [], "its list failed"),
        (SERVERS, {"remaining": 3}, [], "a new result is being stored"),
        (SERVERS, {"remaining": 1000}, [], "too many to ask about"),
        ([Leftover(f"s{n}", "", Reason.ERROR) for n in range(10)], {}, [], "its list was truncated: most_listed is 10"),
    ],
)
def test_what_the_leftovers_of_another_type_need_is_not_deleted(left, values, deleted, why):
    ports, made = needy(left, needs_the_first, **values)
    result = done(made)
    assert ports.deleted == deleted, why
    kept = {one.id: one for one in result.leftovers if one.reason is Reason.IN_USE}
    assert set(kept) == {"1", "2"} - set(deleted)
    if deleted == ["2"]:
        assert kept["1"].blocked_by == ({"type": "compute.server", "id": "s1", "owner": "p"},)


@pytest.mark.parametrize(("forced", "deleted"), [(True, ["1", "2"]), (False, ["2"])])
def test_what_abandoned_leftovers_need_is_deleted_while_force_works(monkeypatch, forced, deleted):
    monkeypatch.setattr(sweep_step_module.forcing, "works", lambda _: forced)
    ports, made = needy([dataclasses.replace(one, abandoned=True) for one in SERVERS], needs_the_first)
    done(made)
    assert ports.deleted == deleted


def test_a_rule_that_fails_makes_the_sweep_unknown_and_deletes_nothing():
    def fails(*_):
        raise TimeoutError("no answer")

    ports, made = needy(SERVERS, fails)
    assert done(made).outcome is Outcome.UNKNOWN
    assert ports.deleted == []


# ------------------------------------------------------------------------------------------------------ the removal
class Removal:
    """``Projects`` of one project, which goes when it is deleted, or does not."""

    def __init__(self, enabled=False, goes=True, held=True, conflict=False):
        self.enabled, self.goes, self.held, self.conflict = enabled, goes, held, conflict
        self.deleted = []

    def __call__(self, _identity):
        return self

    def get_uncached(self, project_id):
        return self.get(project_id)

    def get(self, project_id):
        if self.deleted and self.goes:
            raise ProjectNotFound("gone")
        return Project(project_id, "P", "dom", self.enabled)

    def delete(self, project_id, deletion_id, headers):
        if self.conflict:
            raise ka_exceptions.Conflict("the fence was changed")
        self.deleted.append((project_id, deletion_id, headers))

    def driver(self):
        """Return the drain driver, which sees whether the lock held."""
        return types.SimpleNamespace(
            close=lambda _context: self.delete("", "", {}),
            held_until_removed=lambda _context, _project: self.held,
            removal_headers=lambda _context: {"Serial": "7"},
        )


WAIVER = Waiver("w", "dns", "gone for good", T0, T0)


@pytest.mark.parametrize(
    ("projects", "waivers", "in_force", "outcome", "deleted"),
    [
        (Removal(), (), (), Outcome.CLEAR, True),
        (Removal(), (WAIVER,), (WAIVER,), Outcome.CLEAR, True),
        (Removal(), (WAIVER,), (), Outcome.UNKNOWN, False),
        (Removal(enabled=True), (), (), Outcome.UNKNOWN, False),
        (Removal(goes=False), (), (), Outcome.UNKNOWN, True),
        (Removal(held=False), (), (), Outcome.UNKNOWN, False),
        (Removal(conflict=True), (), (), Outcome.UNKNOWN, False),
    ],
    ids=["closed", "waived", "a waiver ended", "enabled again", "Keystone keeps it", "lock changed", "refused for it"],
)
def test_what_the_removal_asks_and_believes(monkeypatch, projects, waivers, in_force, outcome, deleted):
    projects.deleted.clear()
    monkeypatch.setattr(steps_context, "Projects", projects)
    record = deletion(status=Status.VERIFYING, purpose=RoundPurpose.PROJECT_SETTINGS, waivers=waivers, drained_at=T0)
    made = task(record, Step("s", "d", StepKind.REMOVE, round=1))
    made.worker.store.waivers = in_force
    made.worker.driver = projects.driver()
    result = done(made)
    assert result.outcome is outcome
    assert projects.deleted == [("p", "d", {"Serial": "7"})] * deleted
    if outcome is Outcome.UNKNOWN and not deleted:
        after, _ = actions.record(dataclasses.replace(record, empty_inventories=2), made.step, result, T0)
        assert (after.purpose, after.empty_inventories) == (RoundPurpose.NONE, 0), "it is proven empty anew"
        assert after.drained_at is None or waivers, "and locked anew, unless only a waiver ended"
    assert isinstance(result, StepResult)


class Refusing(Removal):
    """``Projects`` of one project, which Keystone neither disables nor deletes."""

    def __init__(self, below=(), immutable=False):
        super().__init__()
        self.below, self.immutable = below, immutable

    def get(self, project_id):
        return dataclasses.replace(super().get(project_id), immutable=self.immutable)

    def children(self, _project_id):
        return self.below

    def delete(self, *_):
        raise ka_exceptions.Forbidden("no")


@pytest.mark.parametrize("what", ["close", "remove"])
@pytest.mark.parametrize(
    ("projects", "reason", "named"),
    [
        (Refusing(), Reason.FORBIDDEN, "no"),
        (Refusing(immutable=True), Reason.PROJECT_IMMUTABLE, "no"),
        (Refusing(below=("c1", "c2")), Reason.PROJECT_HAS_CHILDREN, "c1, c2"),
    ],
    ids=["rights are missing", "immutable", "child projects"],
)
def test_why_keystone_keeps_a_project_is_said(monkeypatch, what, projects, reason, named):
    monkeypatch.setattr(steps_context, "Projects", projects)
    made = task(
        deletion(status=Status.VERIFYING, purpose=RoundPurpose.PROJECT_SETTINGS),
        Step("s", "d", StepKind(what), round=1),
    )
    made.worker.driver = projects.driver()
    monkeypatch.setattr(made.work_on, "drain_context", lambda: types.SimpleNamespace(projects=projects))
    result = done(made)
    assert (result.outcome, result.reason, result.learned) == (Outcome.UNKNOWN, reason, ())
    assert named in result.message
