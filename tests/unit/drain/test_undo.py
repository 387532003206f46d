"""What the drain changes is written down first, and undone in reverse; what each driver takes for a lock that holds."""

import contextlib
import math
import types

import pytest
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.journal import Change, Event
from cleanup_orchestrator.core.step import TASKS, StepKind, StepState
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.drain import fence as fencing
from cleanup_orchestrator.drain.fence import Fence
from cleanup_orchestrator.drain.revoke import Revoke
from cleanup_orchestrator.errors import CleanupError, NoProjectToken, Stopped
from cleanup_orchestrator.keystone import protocol
from cleanup_orchestrator.store import tables
from cleanup_orchestrator.worker.steps.release import Release, undo_all
from tests.unit.world import deletion


def undoing(store, step):
    """Return what the undoing of changes works with."""
    worker = types.SimpleNamespace(name="w")
    return types.SimpleNamespace(store=store, step=step, deletion=deletion(), worker=worker)


def grant(who, role="member", actor="users"):
    return {"actor": actor, "actor_id": who, "role_id": role}


class Keystone:
    """One project; what is done to it is written down in ``did``, with what was intended before."""

    def __init__(self, *grants, members=(), enabled=True, fence=None, serial=7):
        self.grants, self.others = list(grants), set(members)
        self.enabled, self.fence, self.did, self.broken = enabled, fence, [], set()
        self.serial = serial

    def get_uncached(self, project_id):
        return Project(project_id, "P", "dom", self.enabled, fence=self.fence, fence_serial=self.serial)

    def grant(self, _project_id, actor, who, role):
        if who in self.broken:
            raise RuntimeError("Keystone says no")
        self.did.append(("grant", who, role))

    def ungrant(self, _project_id, actor, who, role):
        self.did.append(("ungrant", who, role))
        self.grants = [each for each in self.grants if each != grant(who, role, actor)]

    def set_enabled(self, _project_id, enabled):
        self.did.append(("enable" if enabled else "disable",))
        self.enabled = enabled

    def set_fence(self, _project_id, fence):
        self.did.append(("fence", fence))
        self.serial += bool(self.serial) and fence != self.fence
        self.fence = fence

    def assignments(self, project_id):
        scope = {"project": {"id": project_id}}
        return [
            {each["actor"][:-1]: {"id": each["actor_id"]}, "role": {"id": each["role_id"]}, "scope": scope}
            for each in self.grants
        ]

    def members(self, _project_id):
        return {each["actor_id"] for each in self.grants} | self.others

    def inherited_groups(self, _project_id):
        return ()

    def ground(self, clouds=None, evidence=""):
        record_intent = lambda type_, data: self.did.append(("intend", type_, *data.values()))  # noqa: E731
        return drain.DrainContext("d", "p", "me", clouds, self, lambda *_: None, record_intent, evidence=evidence)


# --------------------------------------------------------------------------------------------------------- in reverse
#: In the order in which a drain makes them.
CHANGES = [
    (drain.GRANT_ADDED, grant("me", "admin")),
    (drain.GRANT_REMOVED, grant("u1")),
    (drain.GRANT_REMOVED, grant("u2")),
    (drain.PROJECT_FENCED, {"fence": "d"}),
    (drain.PROJECT_DISABLED, {}),
]
UNDONE = [
    ("enable",),
    ("fence", None),
    ("grant", "u2", "member"),
    ("grant", "u1", "member"),
    ("ungrant", "me", "admin"),
]


@pytest.fixture
def step(store):
    """A step in the hands of a worker, with the changes of a drain on record."""
    store.create(deletion(status=Status.DRAINING), TASKS, Event("deletion.accepted", ""))
    with store.database.engine.begin() as connection:
        mine = tables.steps.c.kind == str(StepKind.DRAIN)
        connection.execute(tables.steps.update().where(mine).values(state=str(StepState.DISPATCHED), round=1))
    held = store.claim(next(s for s in store.steps("d") if s.kind is StepKind.DRAIN).id, "w", 3600)[1]
    for type_, data in CHANGES:
        assert store.record_intent(held, type_, data)
    return held


def test_changes_are_undone_in_reverse(store, step):
    """Users get their roles back once the project is open, and the orchestrator goes last: it does all the rest."""
    keystone = Keystone(fence="d")
    assert undo_all(undoing(store, step), keystone) == 5
    assert keystone.did == UNDONE
    assert store.changes("d") == ()


JANITOR = {"name": "cleanup-janitor-d", "domain_id": "dom"}


class WithJanitor(Keystone):
    """The same, with the janitor of the deletion, and with the project or without it."""

    def __init__(self, there=True, known=True, janitor="j"):
        super().__init__()
        self.users, self.there, self.known, self.janitor = self, there, known, janitor

    def get_uncached(self, project_id):
        if not self.known:
            raise ProjectNotFound("gone")
        return Project(project_id, "P", "dom", True, janitor=self.janitor)

    def set_janitor(self, _project_id, user_id):
        self.did.append(("option", user_id))
        self.janitor = user_id

    def remove(self, name, domain_id):
        self.did.append(("remove", name, domain_id))
        there, self.there = self.there, False
        return there


REMOVED = ("remove", *JANITOR.values())


@pytest.mark.parametrize(
    ("keystone", "did", "text"),
    [
        (WithJanitor(), [REMOVED, ("option", None)], "deleted the janitor"),
        (WithJanitor(there=False), [REMOVED, ("option", None)], "not there any more"),
        (WithJanitor(janitor=None), [REMOVED], "deleted the janitor"),
        (WithJanitor(known=False), [REMOVED], "deleted the janitor"),
    ],
    ids=["fenced", "the user does not exist", "no fence", "the project is gone"],
)
def test_the_janitor_is_deleted_also_without_its_project(keystone, did, text):
    change = Change("c", "d", 1, drain.JANITOR_MADE, JANITOR)
    assert text in drain.undo(keystone, "p", change)
    assert keystone.did == did
    keystone.did.clear()
    assert "not there any more" in drain.undo(keystone, "p", change)
    assert keystone.did == [REMOVED], "idempotent"


@pytest.mark.parametrize("name", ["admin", "cleanup-janitor-e", "cleanup-janitor-", "Cleanup-Janitor-d"])
def test_no_other_user_is_ever_deleted(name):
    keystone = WithJanitor()
    with pytest.raises(CleanupError, match="not the janitor of deletion d"):
        drain.undo(keystone, "p", Change("c", "d", 1, drain.JANITOR_MADE, {**JANITOR, "name": name}))
    assert keystone.did == []


def test_what_is_undone_is_not_undone_again(store, step):
    first = store.changes("d")[-1]
    assert store.undone(step, first, Event("drain.undone", ""))
    keystone = Keystone(fence="d")
    assert undo_all(undoing(store, step), keystone) == 4
    assert keystone.did == UNDONE[1:]


def test_a_change_that_cannot_be_undone_stops_no_other_and_is_reported_at_the_end(store, step):
    keystone = Keystone(fence="d")
    keystone.broken = {"u2"}
    with pytest.raises(RuntimeError):
        undo_all(undoing(store, step), keystone)
    assert keystone.did == [each for each in UNDONE if each[1:2] != ("u2",)]
    assert [change.data["actor_id"] for change in store.changes("d")] == ["u2"]


def test_a_worker_that_lost_its_claim_stops_at_once(store, step):
    assert store.renew(step, -1)
    keystone = Keystone(fence="d")
    with pytest.raises(Stopped):
        undo_all(undoing(store, step), keystone)
    assert keystone.did == UNDONE[:1]


@pytest.mark.parametrize("broken", [set(), {"u2"}])
def test_with_the_roles_the_token_of_the_project_is_dropped(store, step, broken):
    """Barbican accepted it for five more seconds: the next dry run listed secrets with a role that was taken back."""
    keystone = Keystone(fence="d")
    keystone.broken, dropped = broken, []
    context = undoing(store, step)
    context.clouds = types.SimpleNamespace(forget_project=dropped.append)
    context.projects = lambda writing: keystone
    with pytest.raises(RuntimeError) if broken else contextlib.nullcontext():
        Release(context).run()
    assert dropped == [context.deletion.project_id]
    assert ("ungrant", "me", "admin") in keystone.did


def undo(keystone, type_, data):
    return drain.undo(keystone, "p", Change("c", "d", 1, type_, data))


def test_a_fence_is_lifted_by_the_deletion_that_it_belongs_to():
    for fence, did in (("d", [("fence", None)]), ("another", []), (None, [])):
        keystone = Keystone(fence=fence)
        undo(keystone, drain.PROJECT_FENCED, {"fence": "d"})
        assert keystone.did == did


@pytest.mark.parametrize(("change", "did"), list(zip(CHANGES[:3], [UNDONE[4], UNDONE[3], UNDONE[2]], strict=True)))
def test_each_grant_is_given_back_or_taken_back(change, did):
    keystone = Keystone()
    undo(keystone, *change)
    assert keystone.did == [did]


# --------------------------------------------------------------------------------------------------------------- revoke
@pytest.fixture
def forgetful(monkeypatch):
    monkeypatch.setattr(drain, "forget_tokens", lambda _: None)


def test_a_grant_is_recorded_before_its_removal_and_the_grant_of_the_orchestrator_stays(forgetful):
    keystone = Keystone(grant("me", "admin"), grant("u1"), grant("g", actor="groups"))
    assert Revoke().drain(keystone.ground()).full
    assert keystone.did == [
        ("intend", drain.GRANT_REMOVED, "users", "u1", "member"),
        ("ungrant", "u1", "member"),
        ("intend", drain.GRANT_REMOVED, "groups", "g", "member"),
        ("ungrant", "g", "member"),
    ]
    assert keystone.grants == [grant("me", "admin")]


def test_a_drain_is_not_full_while_others_inherit_a_role(forgetful):
    result = Revoke().drain(Keystone(grant("u1"), members={"u2"}).ground())
    assert (result.full, result.reason) == (False, "inherited_grants")


@pytest.mark.parametrize(
    ("grants", "members", "held"),
    [
        ([], (), True),
        ([grant("me", "admin")], ("me",), True),
        ([grant("u1")], (), False),
        ([grant("g", actor="groups")], (), False),
        ([], ("u2",), False),
    ],
)
def test_a_drain_is_in_effect_while_no_other_user_has_a_role(grants, members, held):
    keystone = Keystone(*grants)
    keystone.members = lambda _: set(members)
    assert Revoke().held(keystone.ground()) is held


# ---------------------------------------------------------------------------------------------------------------- fence
class Fenced:
    """Clouds of a Keystone whose processes obey the fence, or one of which does not, or refuses the own token.

    `confirms`: its answer says that the fence is the cause. An older release of the code inside Keystone does not.
    """

    def __init__(self, obeys=True, token=True, ours=True, confirms=True):
        self.obeys, self.token, self.ours, self.confirms = obeys, token, ours, confirms
        self.cache_checked_at = [math.inf]  # it was checked just now
        self.fences_checked_at = []
        self.asked = 0

    def project_auth(self, _project_id, fresh=False):
        return None

    def project_session(self, _project_id):
        if not self.token:
            raise NoProjectToken("no")
        return types.SimpleNamespace(get_token=lambda: "token")

    def admin_auth(self):
        return None

    def session(self, *_, **__):
        return None

    def identity(self, _session):
        def get(_path, headers):
            self.asked += 1
            canary = headers.get(protocol.CANARY_HEADER)
            if canary and self.ours and self.obeys and canary == "d":
                said = {protocol.FENCED_HEADER: canary} if self.confirms else {}
                raise ka_exceptions.NotFound(response=types.SimpleNamespace(headers=said))
            if not self.ours:
                raise ka_exceptions.NotFound(response=types.SimpleNamespace(headers={}))

        return types.SimpleNamespace(get=get)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(fencing, "time", types.SimpleNamespace(sleep=lambda _: None, monotonic=lambda: 0.0))


def test_a_fence_is_written_down_before_it_is_set():
    keystone = Keystone()
    assert Fence().drain(keystone.ground(Fenced())).full
    assert keystone.did == [("intend", drain.PROJECT_FENCED, "d"), ("fence", "d")]


def test_the_evidence_of_a_fence_is_its_serial_and_the_delete_names_it():
    keystone = Keystone()
    evidence = Fence().drain(keystone.ground(Fenced())).evidence
    assert evidence == "fence serial 8"
    assert Fence().removal_headers(keystone.ground(evidence=evidence)) == {protocol.SERIAL_HEADER: "8"}
    assert Fence().drain(keystone.ground(Fenced())).evidence == evidence, "it was there already"


def test_a_keystone_that_counts_no_changes_of_the_fence_has_no_fence():
    with pytest.raises(drain.NotHeld, match="older release"):
        Fence().drain(Keystone(serial=0).ground(Fenced()))


@pytest.mark.parametrize(
    ("fence", "serial", "evidence", "held"),
    [
        ("d", 8, "fence serial 8", True),
        ("d", 9, "fence serial 8", False),  # lifted, and set again
        ("d", 8, "fence serial 80", False),
        ("d", 8, "", False),  # no fence was set by this driver
        ("d", 8, "8", False),
        (None, 8, "fence serial 8", False),
        ("another", 8, "fence serial 8", False),
    ],
)
def test_a_fence_that_was_changed_since_the_drain_is_another_fence(fence, serial, evidence, held):
    keystone = Keystone(fence=fence, serial=serial, enabled=False)
    context = keystone.ground(Fenced(), evidence)
    assert Fence().held_until_closed(context) is held
    assert Fence().held_until_removed(context, keystone.get_uncached("p")) is held
    # A copy from before the fence, or of another deletion's, is no sign that this one was set again.
    assert Fence().replaced(context, keystone.get_uncached("p")) is (fence == "d" and not held)


def test_the_fence_of_another_deletion_is_left_alone():
    keystone = Keystone(fence="another")
    with pytest.raises(drain.NotHeld, match="deletion another"):
        Fence().drain(keystone.ground(Fenced()))
    assert keystone.did == []


@pytest.mark.parametrize("clouds", [Fenced(obeys=False), Fenced(token=False), Fenced(ours=False)])
def test_a_fence_is_in_effect_where_it_causes_the_refusal_of_a_valid_token(clouds):
    with pytest.raises(drain.NotHeld):
        Fence().drain(Keystone().ground(clouds))
    assert not Fence().held(Keystone().ground(clouds))
    assert Fence().held(Keystone().ground(Fenced()))


@pytest.mark.parametrize(("confirms", "calls"), [(True, fencing.PROBES), (False, 2 * fencing.PROBES)])
def test_a_keystone_that_does_not_confirm_the_fence_is_asked_twice(confirms, calls):
    clouds = Fenced(confirms=confirms)
    assert Fence().held(Keystone().ground(clouds))
    assert clouds.asked == calls


def test_all_keystone_processes_are_asked_again_after_a_minute(monkeypatch):
    clouds, now = Fenced(), [0.0]
    monkeypatch.setattr(fencing, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    asked = []
    for now[0] in (0.0, 59.0, 61.0, 62.0):
        before = clouds.asked
        assert Fence().held(Keystone().ground(clouds))
        asked.append(clouds.asked - before)
    assert asked == [fencing.PROBES, 2, fencing.PROBES, 2]


def test_after_a_problem_all_keystone_processes_are_asked_at_once():
    clouds = Fenced()
    assert Fence().held(Keystone().ground(clouds))
    clouds.obeys = False
    assert not Fence().held(Keystone().ground(clouds))
    clouds.obeys, before = True, clouds.asked
    assert Fence().held(Keystone().ground(clouds))
    assert clouds.asked - before == fencing.PROBES


def test_behind_the_fence_the_project_is_disabled_without_a_wait():
    keystone = Keystone(fence="d")
    assert Fence().close(keystone.ground(Fenced())).full
    assert keystone.did == [("intend", drain.PROJECT_DISABLED), ("disable",)]


@pytest.mark.parametrize("state", [{"fence": None}, {"fence": "another"}, {"fence": "d", "enabled": False}])
def test_without_the_fence_the_project_is_disabled_in_every_process(monkeypatch, state):
    asked = []
    monkeypatch.setattr(drain, "disable", lambda context: asked.append(context) or drain.Result(True))
    Fence().close(Keystone(**state).ground(Fenced()))
    assert len(asked) == 1


def test_that_the_processes_share_their_cache_is_checked_once_in_ten_minutes(monkeypatch):
    checks, now = [], [0.0]
    monkeypatch.setattr(drain, "_flush_token_cache", checks.append)
    monkeypatch.setattr(drain, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    ground = Keystone(fence="d").ground(types.SimpleNamespace(cache_checked_at=[]))
    for now[0] in (0.0, 599.0, 601.0, 700.0, 1300.0):
        drain.check_shared_cache(ground)
    assert len(checks) == 3
