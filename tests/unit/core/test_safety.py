"""Attempts to break the core's promises: one test for each way in which it once was, or might be, broken."""

import dataclasses
import datetime
import threading
import types
import uuid

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.catalog import Entry, ServiceCatalog, read_catalog
from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound
from cleanup_orchestrator.core import actions, lock, transitions
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.findings import ProjectLocked, ProjectReclosed, ProjectReopened
from cleanup_orchestrator.core.guard import HoldOptions
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.journal import Change, Event
from cleanup_orchestrator.core.proposals import Requester, Retry
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.snapshot import BY_MANAGERS
from cleanup_orchestrator.core.step import TASKS, Outcome, StepKind, StepResult, StepState
from cleanup_orchestrator.core.transitions import By, cancellable, move
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.drain.revoke import Revoke
from cleanup_orchestrator.drain.roles import roles_of_others
from cleanup_orchestrator.engine.alarms import Alarms
from cleanup_orchestrator.engine.deletions import Engine
from cleanup_orchestrator.errors import BadAnswer, NoProjectToken
from cleanup_orchestrator.plugins.base import ProjectDefinition, ResourceType, Service
from cleanup_orchestrator.plugins.registry import Registry
from cleanup_orchestrator.store import Conflict
from cleanup_orchestrator.worker import watchdog
from cleanup_orchestrator.worker.steps import RUNNERS
from cleanup_orchestrator.worker.steps import context as steps_context
from cleanup_orchestrator.worker.steps.context import StepContext
from cleanup_orchestrator.worker.steps.release import undo_all
from cleanup_orchestrator.worker.sweep.other_projects import OtherProjects
from cleanup_orchestrator.worker.task import StepTask
from tests.support import sqlite_stores, sweeps
from tests.support.examples import examples
from tests.support.no_protocol import NoProtocol
from tests.support.stores import save
from tests.unit.world import CLEAR, REMOVING, UNKNOWN, World, allowed, deletion, left, sweep_step

PORT = sweep_step("network.port")
GROUP = sweep_step("network.default_group", project_setting=True, after=("network.port",))
QUOTA = sweep_step("network.quota", project_setting=True, after=("network.default_group", "*"))


# ------------------------------------------------------------------------------------------------------------ decide
@pytest.mark.parametrize("mode", REMOVING)
def test_project_settings_that_wait_for_failing_project_settings_do_not_hold_an_empty_project(mode):
    world = World(deletion(mode=mode), PORT, GROUP, QUOTA)
    world.answers = {"network.default_group": lambda _: UNKNOWN}
    assert world.run(limit=500) is Status.DELETED


@pytest.mark.parametrize("reason", [Reason.PROJECT_HAS_CHILDREN, Reason.PROJECT_IMMUTABLE])
def test_a_project_that_keystone_keeps_is_given_back_after_a_report(reason):
    world = World(deletion(mode=Mode.REPORT), PORT)
    world.answers = {"remove": lambda _: StepResult(Outcome.UNKNOWN, str(reason), "Keystone says no")}
    assert world.run(limit=500) is Status.FAILED
    assert (world.deletion.reason, world.deletion.has_changes) == (str(reason), False)


def test_a_report_never_waits_for_ever_for_the_removal():
    world = World(deletion(mode=Mode.REPORT), PORT)
    world.answers = {"remove": lambda _: StepResult(Outcome.UNKNOWN, str(Reason.FORBIDDEN), "no role")}
    assert world.run(limit=500) is Status.FAILED
    assert not world.deletion.has_changes


def test_nothing_rests_while_a_step_that_may_still_change_something_runs():
    world = World(deletion(), PORT)
    world.run(until=Status.VERIFYING)
    access = world.step("access")
    world.settle_engine()
    lease = world.now + 20 * world.rules.settle
    world.steps["access"] = dataclasses.replace(access, state=StepState.RUNNING, lease_until=lease)
    fatal = StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_PROTECTED), "an operator protects it")
    world.answers = {"survey": lambda _: fatal}
    world.run(limit=20)
    assert world.now < lease
    assert world.deletion.status is Status.VERIFYING
    assert "release" not in world.dispatched
    world.finish("access", CLEAR)
    assert world.run(limit=500) is Status.FAILED


def obstructed(when, reason, **values):
    """Return a world with an obstacle to the removal from some time on, and what is there while the obstacle is."""
    world, there = World(deletion(**values), PORT), [True]
    refused = StepResult(Outcome.UNKNOWN, str(reason), "why")

    def found(_):
        now = "remove" in world.dispatched if when == "remove" else world.deletion.status in (when, Status.VERIFYING)
        return refused if there and now else CLEAR

    world.answers = {"survey": found}
    if when == "remove":
        world.answers["remove"] = lambda _: refused if there else CLEAR
    if when is Status.DELETING:
        world.finds("network.port", lambda _: left("r1", reason=Reason.IN_USE) if there else CLEAR)
    return world, there


@pytest.mark.parametrize("reason", sorted(BY_MANAGERS))
@pytest.mark.parametrize("when", [Status.DELETING, Status.VERIFYING, "remove"])
def test_a_cascade_that_has_locked_its_project_waits_for_the_end_of_what_a_manager_can_set_up(when, reason):
    world, there = obstructed(when, reason)
    world.run(limit=300)
    before, began = len(world.writes), world.now
    assert world.run(limit=100) is Status.VERIFYING
    assert world.writes[before:] == []
    assert "release" not in world.dispatched
    d = world.deletion
    assert d.condition(ConditionType.BLOCKED).message == f"survey: {reason}"
    assert d.condition(ConditionType.STALLED) is None
    assert cancellable(d)
    [blocker] = blockers(d, world.steps.values())
    assert "openstack project deletion cancel" in blocker.remedy
    surveys = [e for e in world.dispatched if e == "survey"]
    assert len(surveys) > 10 and world.now - began > datetime.timedelta(minutes=10)
    there.clear()
    assert world.run(limit=500) is Status.DELETED
    assert world.deletion.condition(ConditionType.BLOCKED) is None


@pytest.mark.parametrize(
    ("when", "reason", "values"),
    [
        (Status.ACCEPTED, Reason.PROJECT_RENAMED, {}),
        (Status.DRAINING, Reason.PROJECT_RENAMED, {"status": Status.DRAINING}),
        (Status.VERIFYING, Reason.PROJECT_RENAMED, {"mode": Mode.REPORT}),
        (Status.VERIFYING, Reason.PROJECT_RENAMED, {"mode": Mode.PURGE}),
        (Status.DELETING, Reason.PROJECT_PROTECTED, {}),
        (Status.VERIFYING, Reason.PROJECT_PROTECTED, {}),
        (Status.VERIFYING, Reason.PROJECT_IS_DOMAIN, {}),
    ],
)
def test_which_obstacles_end_a_deletion(when, reason, values):
    world, _ = obstructed(when, reason, **values)
    assert world.run(limit=500) is Status.FAILED
    assert (world.deletion.reason, world.deletion.has_changes) == (str(reason), False)


def test_a_removal_that_is_refused_for_no_reason_that_a_survey_sees_is_tried_ever_more_slowly():
    world = World(deletion(), PORT)
    world.answers["remove"] = lambda _: StepResult(Outcome.UNKNOWN, str(Reason.PROJECT_IMMUTABLE), "why")
    began = world.now
    while world.now - began < datetime.timedelta(hours=6):
        assert world.run(limit=10) is Status.VERIFYING
    assert world.deletion.round < 100


def reopen(world):
    """What a worker's survey or removal does with the record when a user enabled the project again."""
    world.deletion = dataclasses.replace(
        world.deletion, closed_at=None, drained_at=None, empty_inventories=0, purpose=RoundPurpose.NONE
    )


def test_a_project_that_is_enabled_again_is_closed_and_proven_empty_again():
    world = World(deletion(), PORT)
    reopened = []

    def answer(_):
        if reopened:
            return CLEAR
        reopened.append(world.now)
        reopen(world)
        return StepResult(Outcome.UNKNOWN, str(Reason.ERROR), "a user enabled it")

    world.answers = {"remove": answer}
    assert world.run() is Status.DELETED
    assert world.dispatched.count("close") == 2
    assert world.deletion.closed_at > reopened[0]
    # Drained again first; then two before the closing, and one after it.
    assert world.dispatched.count("drain") == 2
    after = [opened for opened in world.empty_rounds if opened > reopened[0]]
    assert len(after) == 3
    assert all(opened >= world.deletion.drained_at + world.rules.settle for opened in after)
    assert [e.data["status"] for e in world.events if e.type == "condition.drained"][-2:] == [False, True]


# ------------------------------------------------------------------------------------------------------------- store
def test_what_was_dispatched_for_another_round_or_attempt_does_not_run():
    d = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE, round=5, since_round=4)
    assert allowed(d, dataclasses.replace(PORT, round=5), writing=True)
    assert not allowed(d, dataclasses.replace(PORT, round=4))
    assert not allowed(d, dataclasses.replace(GROUP, round=5), writing=True)  # project settings, long before its time
    assert not allowed(d, dataclasses.replace(PORT, kind=StepKind.CLOSE, round=4))  # behind a repeated drain
    assert allowed(d, dataclasses.replace(PORT, kind=StepKind.CLOSE, round=5), writing=True)


def held(store, record, kind):
    """Dispatch a step of this kind and claim it."""
    record, steps, now = store.load(record.id)
    step = next(s for s in steps if s.kind is kind)
    applied = actions.apply(record, steps, (actions.Dispatch(step.id),), now)
    save(store, record, applied.deletion, applied.steps)
    return store.claim(step.id, "w", 60)[1]


def made(store, **values):
    return store.create(deletion(**values), TASKS, Event("deletion.accepted", ""))


def test_no_change_is_begun_once_it_must_not_be_made(store):
    step = held(store, made(store), StepKind.ACCESS)
    record = store.get("d")
    save(store, record, move(record, Status.CANCELLING, By.USER, record.created_at, "x"))
    assert store.record_intent(step, "grant_added", {}) is None
    assert not store.get("d").has_changes


def test_a_dry_run_writes_no_change_down(store):
    step = held(store, made(store, dry_run=True), StepKind.ACCESS)
    assert store.record_intent(step, "grant_added", {}) is None


def test_a_decision_that_nothing_was_changed_conflicts_with_a_recorded_change(store):
    step = held(store, made(store), StepKind.ACCESS)
    before = store.get("d")
    assert store.record_intent(step, "grant_added", {}) is not None
    with pytest.raises(Conflict):
        save(store, before, move(before, Status.FAILED, By.ENGINE, before.created_at, "x"))


@pytest.fixture
def ends_meanwhile(store, monkeypatch):
    """The deletion ``d`` ends right between the refusal of another one and the question who is in its way."""
    real = store.live

    def live(project_id):
        record = store.get("d")
        if record.status is Status.ACCEPTED:
            going = save(store, record, move(record, Status.CANCELLING, By.USER, record.created_at, "x"))
            save(store, going, move(going, Status.CANCELLED, By.ENGINE, record.created_at, "x"))
        return real(project_id)

    monkeypatch.setattr(store.live.__self__, "live", live)


def test_a_request_that_meets_one_that_ends_at_that_moment_is_recorded(store, ends_meanwhile):
    made(store)
    made(store, id="later")
    assert store.live("p").id == "later"


def test_a_retry_that_meets_a_deletion_that_ends_at_that_moment_is_applied(store, ends_meanwhile):
    made(store, id="old", status=Status.FAILED)
    made(store)
    assert store.propose(Retry(by=Requester("u"), seen=store.get("old")))
    assert store.live("p").id == "old"


# ------------------------------------------------------------------------------------------------------------- sweep
def test_the_projects_id_spelt_otherwise_is_not_another_project():
    project = ProjectDefinition("0a1b", "P", "dom", "R1")
    type_ = ResourceType("port", lambda *_: [{"id": "1", "project_id": "0a-1b"}], delete=None)
    result = sweeps.inventory(type_, None, project)
    assert (result.outcome, result.reason) == (Outcome.LEFTOVERS, "owner_unknown")


# ---------------------------------------------------------------------------------------------------------- keystone
class Keystone:
    """Projects and Clouds over one project in memory, seen by the user ``me``, who is in the group ``mine``."""

    def __init__(self, *grants, inherited=(), enabled=True):
        self.grants, self.inherited, self.enabled = set(grants), set(inherited), enabled
        self.changes, self.broken, self.evidence = [], set(), ""

    # -- Clouds
    def project_auth(self, _project_id, fresh=False):
        return self

    def project_roles(self, _project_id):
        if not self.enabled:
            raise NoProjectToken("disabled")
        roles = self.inherited | {r for _, who, r in self.grants if who in ("me", "mine")}
        if not roles:
            raise NoProjectToken("no role")
        return frozenset(f"name-{r}" for r in roles)

    def observed_by(self, _made):
        return self

    def project_session(self, _project_id):
        self.project_roles(_project_id)

    # -- Projects
    def get_uncached(self, project_id):
        return Project(project_id, "P", "dom", self.enabled)

    def user_id(self):
        return "me"

    def set_enabled(self, _project_id, enabled):
        self.enabled = enabled

    def role_id(self, name):
        return name.removeprefix("name-")

    def assignments(self, _project_id, effective=False):
        return [
            {actor[:-1]: {"id": who}, "role": {"id": role}, "scope": {"project": {"id": "p"}}}
            for actor, who, role in sorted(self.grants)
        ]

    def members(self, _project_id):
        return {who for _, who, _ in self.grants}

    def inherited_groups(self, _project_id):
        return ()

    def grant(self, _project_id, actor, who, role):
        if who in self.broken:
            raise RuntimeError("Keystone says no")
        self.grants.add((actor, who, role))

    def ungrant(self, _project_id, actor, who, role):
        self.grants.discard((actor, who, role))

    def ground(self):
        return drain.DrainContext(
            "d",
            "p",
            "me",
            self,
            self,
            lambda *_: None,
            lambda t, data: self.changes.append((t, data)),
            evidence=self.evidence,
        )


MINE = ("users", "me", "admin")


def test_a_grant_that_the_orchestrator_had_before_is_not_recorded():
    keystone = Keystone(MINE, enabled=False)
    with pytest.raises(NoProjectToken):
        drain.ensure_access(keystone.ground(), "name-admin")
    assert keystone.changes == []  # undoing it would take away what was there before us


def test_the_orchestrator_takes_a_direct_role_because_the_drain_removes_group_roles(monkeypatch):
    monkeypatch.setattr(drain, "forget_tokens", lambda *_: None)
    keystone = Keystone(("groups", "mine", "admin"))
    drain.ensure_access(keystone.ground(), "name-admin")
    assert MINE in keystone.grants
    Revoke().drain(keystone.ground())
    assert keystone.grants == {MINE}


def test_any_role_is_not_the_role_that_the_work_needs():
    keystone = Keystone(("users", "me", "reader"))
    drain.ensure_access(keystone.ground(), "name-admin")
    assert [c[0] for c in keystone.changes] == ["grant_added"]


def test_an_inherited_role_is_enough():
    keystone = Keystone(("users", "u", "member"), inherited=["admin"])
    drain.ensure_access(keystone.ground(), "name-admin")
    assert keystone.changes == []


class NeedsUs:
    """A driver that cannot see its lock hold without a token of the project, as the fence."""

    def drain(self, ground):
        ground.clouds.project_session(ground.project_id)
        return drain.Result(True, evidence="serial 1")


class NeedsNothing:
    def drain(self, ground):
        return drain.Result(True)


def done(worker, record, step, keystone):
    """Return what comes of a step in this Keystone."""
    context = StepContext(worker, record, step, str, lambda _made: None)
    context.drain_context = keystone.ground
    return RUNNERS[step.kind](context).run()


def drained(keystone, attempt, driver, changes=()):
    """Return the evidence of a worker's try at the drain; ``None``: it failed.

    :param changes: what the deletion has recorded; those that are undone leave the list
    """
    conf = types.SimpleNamespace(drain=types.SimpleNamespace(project_role="name-admin", inherited_grants="close"))
    store = types.SimpleNamespace(
        changes=lambda _deletion_id: tuple(changes), undone=lambda _step, change, _event: changes.remove(change) is None
    )
    worker = types.SimpleNamespace(
        name="w", store=store, clouds=keystone, driver=driver, conf=conf, protocol=NoProtocol()
    )
    step = dataclasses.replace(PORT, kind=StepKind.DRAIN, attempt=attempt)
    try:
        result = done(worker, deletion(), step, keystone)
    except NoProjectToken:
        return None
    assert result.outcome is Outcome.CLEAR
    (locked,) = result.learned
    return locked.evidence


def test_a_drain_that_failed_without_the_role_of_the_orchestrator_takes_it_again():
    keystone = Keystone(("users", "u", "member"))
    assert drained(keystone, 1, NeedsUs()) is None
    assert drained(keystone, 2, NeedsUs()) == "serial 1"
    assert keystone.changes == [("grant_added", {"actor": "users", "actor_id": "me", "role_id": "admin"})]


def test_a_repeated_drain_does_not_need_the_role_of_the_orchestrator():
    keystone = Keystone(MINE, enabled=False)
    assert drained(keystone, 2, NeedsNothing()) == ""


def test_a_project_that_this_deletion_has_disabled_is_enabled_and_locked_again(monkeypatch):
    monkeypatch.setattr(drain, "forget_tokens", lambda *_: None)
    grant = Change("g", "d", 1, drain.GRANT_REMOVED, {"actor": "users", "actor_id": "u", "role_id": "member"})
    changes = [grant, Change("c", "d", 2, drain.PROJECT_DISABLED, {})]
    keystone = Keystone(MINE, enabled=False)
    assert drained(keystone, 1, Revoke(), changes)
    assert (keystone.enabled, changes, keystone.changes) == (True, [grant], [])
    keystone.enabled = False  # by a user: it stays as it is
    assert drained(keystone, 1, Revoke(), changes)
    assert not keystone.enabled


LATER = deletion().created_at + datetime.timedelta(hours=1)


GUEST = ("users", "guest", "member")


def closed(keystone, drained_at, monkeypatch, meanwhile=()):
    """Return the outcome of a worker's closing of the project, and what it learned; and whether it was disabled.

    :param meanwhile: grants that a user makes while the project is disabled
    """
    store = types.SimpleNamespace(now=lambda: LATER, steps=lambda _id: ())
    worker = types.SimpleNamespace(store=store, clouds=keystone, driver=Revoke(), conf=None)
    record = deletion(drained_at=drained_at)
    keystone.evidence = lock.evidence("me", ()) if drained_at else ""

    def disable(_ground):
        keystone.enabled = False
        keystone.grants.update(meanwhile)
        return drain.Result(True)

    monkeypatch.setattr(drain, "disable", disable)
    result = done(worker, record, dataclasses.replace(PORT, kind=StepKind.CLOSE), keystone)
    return result.outcome, result.learned, not keystone.enabled


def test_access_before_the_closing_voids_all_earlier_inventories(monkeypatch):
    since = deletion().created_at
    assert closed(Keystone(MINE), since, monkeypatch) == (Outcome.CLEAR, (), True)
    # Nothing rests on a lock that never held as a whole.
    locked = ProjectLocked(lock.evidence("me", roles_of_others(Keystone(GUEST).ground())))
    assert closed(Keystone(MINE, GUEST), None, monkeypatch) == (Outcome.CLEAR, (locked,), True)
    # Not disabled: what needs a token of the project has to be listed again.
    assert closed(Keystone(MINE, GUEST), since, monkeypatch) == (Outcome.UNKNOWN, (ProjectReopened(),), False)


def test_access_while_the_project_is_closed_voids_all_earlier_inventories(monkeypatch):
    seen = closed(Keystone(MINE), deletion().created_at, monkeypatch, [GUEST])
    assert seen == (Outcome.CLEAR, (ProjectReclosed(LATER),), True)


def test_a_drain_is_not_in_effect_when_another_user_has_got_a_role():
    keystone = Keystone(MINE)
    assert Revoke().held(keystone.ground())
    keystone.grants.add(("users", "u", "member"))
    assert not Revoke().held(keystone.ground())


def undoing(store, step):
    """Return what the undoing of changes works with."""
    worker = types.SimpleNamespace(name="w")
    return types.SimpleNamespace(store=store, step=step, deletion=deletion(), worker=worker)


def test_a_change_that_cannot_be_undone_does_not_stop_the_undo_of_others(store):
    step = held(store, made(store), StepKind.DRAIN)
    for who in ("u1", "u2", "u3"):
        store.record_intent(step, drain.GRANT_REMOVED, {"actor": "users", "actor_id": who, "role_id": "member"})
    keystone = Keystone()
    keystone.broken = {"u2"}
    with pytest.raises(RuntimeError):
        undo_all(undoing(store, step), keystone)
    assert {who for _, who, _ in keystone.grants} == {"u1", "u3"}
    assert [c.data["actor_id"] for c in store.changes("d")] == ["u2"]


class Identity:
    """An adapter that answers these bodies by path."""

    def __init__(self, **bodies):
        self.bodies = bodies

    def get(self, path):
        body = self.bodies[path.strip("/")]
        return type("Response", (), {"json": staticmethod(lambda: body)})


def test_a_catalog_without_any_endpoint_is_no_answer():
    with pytest.raises(BadAnswer):
        read_catalog(Identity(services={"services": []}, endpoints={"endpoints": []}))


# -------------------------------------------------------------------------------------------------------- everything
class Crash(BaseException):
    """The worker's process dies here."""


class Cloud:
    """Keystone and one service in memory. Every call may be the last one that a worker's process makes."""

    def __init__(self):
        self.exists, self.enabled = True, True
        self.before = {("users", "u", "member"), ("groups", "g", "member")}
        self.grants, self.ports, self.quota = set(self.before), {"1", "2"}, True
        self.fuse, self.deleted = -1, set()
        self.zones, self.zones_waived = {"z"}, lambda: False
        self.dns_is_dead = False
        nothing = types.SimpleNamespace(catalog=types.SimpleNamespace(owns_nothing=("identity",)))
        self._catalog = ServiceCatalog(nothing, {"network": ("port", "quota"), "dns": ("zone",)})

    def call(self, session=None):
        if session is not None:
            session.guard("PUT", "somewhere")
        self.fuse -= 1
        if self.fuse == 0:
            raise Crash
        return self

    # -- what others do meanwhile
    def meddle(self, what):
        if not self.exists:
            return
        if what == "create" and self.enabled and any(who != "me" for _, who, _ in self.grants):
            self.ports.add(f"new{len(self.ports) + len(self.deleted)}")
        elif what == "enable":
            self.enabled = True
        elif what == "vanish":
            self.exists = False
        elif what == "invite" and self.enabled:
            self.grants.add(("users", "guest", "member"))
        elif what in ("die", "revive"):
            self.dns_is_dead = what == "die"

    # -- the worker's clouds
    def observed_by(self, _made):
        return self

    def admin_session(self, guard=None):
        return types.SimpleNamespace(guard=guard, calls=0)

    def project_session(self, project_id, guard=None):
        self.project_roles(project_id)
        return types.SimpleNamespace(guard=guard, calls=0, get_token=lambda: "token")

    def project_roles(self, _project_id):
        if not (self.exists and self.enabled and ("users", "me", "admin") in self.grants):
            raise NoProjectToken("no")
        return frozenset({"admin"})

    def project_auth(self, project_id, fresh=False):
        return None

    def forget(self, _project_id):
        pass

    def user_id(self):
        return "me"

    def identity(self, session):
        return session

    def connection(self, session, _region):
        return session

    # -- the plugin's hooks
    def list_ports(self, _session, project):
        self.call()
        return [{"id": i, "project_id": project.id} for i in sorted(self.ports)]

    def delete_port(self, session, _project, resource):
        self.call(session).ports.discard(resource.id)
        self.deleted.add(resource.id)
        self.call()

    def list_quota(self, _session, project):
        return [{"id": "q", "project_id": project.id}] if self.quota else []

    def delete_quota(self, session, _project, _resource):
        assert not self.ports and not (self.enabled and self.exists), "the quota goes right before the project"
        self.call(session).quota = False

    def list_zones(self, _session, project):
        if self.dns_is_dead:
            raise ConnectionError("no answer")
        return [{"id": i, "project_id": project.id} for i in sorted(self.zones)]

    def delete_zone(self, session, _project, resource):
        self.call(session).zones.discard(resource.id)
        self.deleted.add(resource.id)

    # -- the worker's coverage, over a catalog with two services
    def with_protocol(self, _protocol):
        return self

    def statuses(self, _identity, waivers):
        return tuple(self.status(Entry("R1", name, name), waivers) for name in ("network", "dns"))

    def status(self, entry, waivers=()):
        return self._catalog.status(entry, waivers)


def keystone_of(cloud):
    """Return what stands for ``Projects``: reads and writes of the cloud, through the session's guard."""

    class Fake:
        def __init__(self, session):
            self.session = session

        def get(self, project_id):
            if not cloud.exists:
                raise ProjectNotFound(project_id)
            return Project(project_id, "P", "dom", cloud.enabled)

        get_uncached = get

        def children(self, _project_id):
            return ()

        def members(self, _project_id):
            return tuple(sorted({who for _, who, _ in cloud.grants}))

        def inherited_groups(self, _project_id):
            return ()

        assignments = Keystone.assignments

        @property
        def grants(self):
            return cloud.grants

        def role_id(self, name):
            return name

        def grant(self, _project_id, *grant):
            cloud.call(self.session)
            if not cloud.exists:
                raise ka_exceptions.NotFound
            cloud.grants.add(grant)
            cloud.call()

        def ungrant(self, _project_id, *grant):
            cloud.call(self.session).grants.discard(grant)
            cloud.call()

        def set_enabled(self, _project_id, enabled):
            cloud.call(self.session)
            if not cloud.exists:
                raise ka_exceptions.NotFound
            cloud.enabled = enabled
            cloud.call()

        def delete(self, _project_id, _deletion_id, _headers):
            if not cloud.exists:
                return False
            assert not cloud.ports, "the project goes with something left in it"
            assert not cloud.zones or cloud.zones_waived(), "the project goes with a leftover that no admin waived"
            assert not cloud.enabled
            cloud.call(self.session).exists = False
            cloud.call()
            return True

    return Fake


OFTEN = ("create", "enable", "invite", "die", "waive", "withdraw")
MEDDLING = st.sampled_from([*OFTEN, "create", "revive", *OFTEN, "vanish"])
CHAOS = st.lists(
    st.one_of(
        st.tuples(st.just("work"), st.integers(0, 20)),
        st.tuples(st.just("crash"), st.integers(0, 20), st.integers(1, 6)),
        st.tuples(st.just("hang"), st.integers(0, 20)),
        st.tuples(st.just("meddle"), MEDDLING),
        st.tuples(st.just("cancel")),
    ),
    max_size=60,
)


def waiver(now):
    """An admin's word that the deletion goes on without the zones."""
    return Waiver(str(uuid.uuid4()), "dns", "retired", now, now + datetime.timedelta(hours=1))


@settings(max_examples=examples(12), suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
@given(CHAOS, st.sampled_from(Mode), st.integers(0, 25))
def test_for_every_sequence_of_events_the_project_ends_removed_and_empty_or_unchanged(chaos, mode, calm):
    cloud = Cloud()
    if mode is Mode.REPORT:
        cloud.ports.clear()  # else it ends with the first look
        cloud.zones.clear()
    zero = datetime.timedelta(0)
    rules = Rules(zero, datetime.timedelta(1), zero, zero, 3, 0.0, 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps_context, "Projects", keystone_of(cloud))
        patch.setattr("cleanup_orchestrator.worker.steps.survey.Projects", keystone_of(cloud))
        patch.setattr(drain.time, "sleep", lambda _: None)
        patch.setattr(drain, "_flush_token_cache", lambda _: None)
        patch.setattr(drain, "_accepted", lambda *_: False)
        store = sqlite_stores.in_memory()
        made(store, mode=mode)
        engine = Engine.__new__(Engine)
        engine.name = "an engine"
        bus = types.SimpleNamespace(steps=lambda _: None, decide=lambda _: None)  # every cast is lost
        engine.store, engine.bus, engine.rules = store, bus, rules
        engine._lock, engine._deciding, engine.alarms = threading.Lock(), {}, Alarms(bus.decide)
        port = ResourceType("port", cloud.list_ports, cloud.delete_port, why_no_show="test")
        zone = ResourceType("zone", cloud.list_zones, cloud.delete_zone, why_no_show="test")
        cloud.zones_waived = lambda: bool(store.waivers_in_force("p"))
        quota = ResourceType("quota", cloud.list_quota, cloud.delete_quota, why_no_show="test", project_setting=True)
        registry = Registry([Service("network", (port, quota)), Service("dns", (zone,))])
        worker = types.SimpleNamespace(
            store=store,
            clouds=cloud,
            name="w",
            registry=registry,
            protocol=NoProtocol(registry),
            others=OtherProjects(),
            catalog=cloud,
            driver=Revoke(),
            hold_options=HoldOptions(),
            protection=types.SimpleNamespace(why=lambda *_: None, listed=lambda *_: None),
            conf=types.SimpleNamespace(
                drain=types.SimpleNamespace(project_role="admin"),
                worker=types.SimpleNamespace(parallel_deletes=1, slice=60.0, most_listed=1000, deleting_patience=60),
                protection=types.SimpleNamespace(keep_tags=[], keep_properties=[], lien_types=[], ignored_uses=[]),
                deletion=types.SimpleNamespace(recovery_stop_servers=False, recovery_window=0.0),
            ),
        )
        hung = []

        def work(index, fuse=-1, hang=False):
            engine.handle("d")
            steps = [s for s in store.steps("d") if s.state is StepState.DISPATCHED]
            claim = store.claim(steps[index % len(steps)].id, "w", 60) if steps else None
            if claim is None:
                return
            if hang:  # its lease ends, and it goes on later, with what it knew
                hung.append(claim)
                store.renew(claim[1], -1)
                return
            cloud.fuse = fuse
            try:
                StepTask(worker, watchdog.HungThreads(), *claim).run()
            except Crash:
                store.renew(claim[1], -1)
            cloud.fuse = -1

        for _ in range(calm):
            work(0)
        for what, *how in chaos:
            if how == ["waive"]:
                store.add_waiver(waiver(store.now()))
            elif how == ["withdraw"]:
                for one in store.waivers_in_force("p"):
                    store.withdraw_waiver(one.id, "u")
            elif what == "meddle":
                cloud.meddle(*how)
            elif what == "cancel":
                record = store.get("d")
                if transitions.cancellable(record):
                    save(store, record, move(record, Status.CANCELLING, By.USER, record.created_at, "x"))
            else:
                work(how[0], *how[1:], hang=what == "hang")
        cloud.meddle("revive")
        for claim in hung:
            StepTask(worker, watchdog.HungThreads(), *claim).run()
        for index in range(300):
            work(index)
            record = store.get("d")
            if record.status not in transitions.LIVE:
                break
    vanished = any(what == "vanish" for what, *how in chaos if what == "meddle" for what in how)
    if mode is Mode.PURGE:  # nothing can be given back to the users of a project that is gone
        ends = {Status.PURGED, Status.LEFTOVERS, Status.CANCELLED, *((Status.FAILED,) if vanished else ())}
        assert record.status in ends, record
        assert cloud.quota
    else:
        assert record.status in (Status.DELETED, Status.LEFTOVERS, Status.CANCELLED), record
    assert not record.has_changes
    assert cloud.exists is (record.status is not Status.DELETED) or vanished
    if record.status is Status.DELETED:
        assert not cloud.exists and not cloud.ports
    if cloud.exists:
        assert cloud.enabled
        assert cloud.grants - {("users", "guest", "member")} == cloud.before
        # Residue goes right before the project: who opens the project in that moment, and cancels, has lost it.
        assert cloud.quota or ("meddle", "enable") in chaos
    if mode is Mode.REPORT:
        assert not cloud.deleted
