"""Draining anew, and what a record says of a drain in part: the core's side, without any Keystone."""

import dataclasses
import datetime
import types
from unittest import mock

import pytest

from cleanup_orchestrator.cloud.projects import Project
from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.journal import Change
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult, Token
from cleanup_orchestrator.drain import base
from cleanup_orchestrator.errors import CleanupError, NoProjectToken
from tests.unit.world import CLEAR, DONE, World, deletion, sweep_step

PORT = sweep_step("network.port")
SECRET = sweep_step("key-manager.secret", token=Token.PROJECT)
INHERITED = StepResult(Outcome.UNKNOWN, str(Reason.INHERITED_GRANTS), "1 users keep getting tokens: heir")


def verifying(**values):
    """A world whose drain holds, right before its first verification."""
    world = World(deletion(**values), PORT, SECRET)
    assert world.run(until=Status.VERIFYING) is Status.VERIFYING
    assert world.deletion.drained_at
    return world


def let_in(world):
    """What a survey does with the record when it sees that others have roles on the project again."""
    world.deletion = dataclasses.replace(world.deletion, drained_at=None, closed_at=None, empty_inventories=0)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_project_to_which_a_user_regained_access_is_drained_again_before_its_results_count(mode):
    world = verifying(mode=mode)
    reopened = []

    def survey(_):
        if not reopened:
            reopened.append(world.now)
            let_in(world)
        return CLEAR

    world.answers = {"survey": survey}
    assert world.run() is DONE[mode]
    assert world.dispatched.count("drain") == 2
    held = [e for e in world.events if e.type == "drain.held"]
    assert len(held) == 2
    counted = [opened for opened in world.empty_rounds if opened > reopened[0]]
    assert len(counted) == (2 if mode is Mode.EMPTY else 3)  # the third one follows the closing
    drained_at = datetime.datetime.fromisoformat(held[-1].message.rsplit(" ", 1)[1].removesuffix("Z"))
    assert all(opened >= drained_at + world.rules.settle for opened in counted)
    assert drained_at > reopened[0]


def test_while_the_repeated_drain_is_blocked_nothing_is_listed_and_nothing_is_closed():
    world = verifying()
    let_in(world)
    world.answers = {"drain": lambda _: INHERITED}
    world.run(limit=200)
    assert world.deletion.status is Status.VERIFYING
    assert (world.empty_rounds, world.dispatched.count("close")) == ([], 0)
    blocked = next(c for c in world.deletion.conditions if c.type == "blocked")
    assert (blocked.status, blocked.message) == (True, "drain: inherited_grants")
    world.answers = {}
    assert world.run() is Status.DELETED


def test_a_report_does_not_wait_for_a_new_drain_that_is_blocked():
    world = verifying(mode=Mode.REPORT)
    let_in(world)
    world.answers = {"drain": lambda _: INHERITED}
    assert world.run() is Status.LEFTOVERS
    assert (world.deletion.message, world.deletion.has_changes) == (INHERITED.message, False)


@pytest.mark.parametrize("reason", ["no_drain", "inherited_grants"])
def test_a_drain_that_was_never_complete_is_not_repeated(reason):
    world = World(deletion(), PORT, SECRET)
    world.answers = {"drain": lambda _: StepResult(Outcome.CLEAR, reason, "in part")}
    assert world.run() is Status.DELETED
    assert world.dispatched.count("drain") == 1


def test_a_worker_that_fails_during_a_repeated_drain_is_replaced():
    world = verifying()
    let_in(world)
    world.settle_engine()
    world.claim("drain")  # and nothing more is heard of it
    assert world.run(limit=1) is Status.VERIFYING
    lease = world.step("drain").lease_until
    while world.now < lease:
        world.settle_engine()
        world.now = max(world.deletion.wake_at, world.now)
        assert world.deletion.purpose is RoundPurpose.NONE
    assert world.run() is Status.DELETED


@pytest.mark.parametrize(
    ("drained", "words"), [(CLEAR, "behind the drain"), (INHERITED, "while others still got tokens")]
)
def test_the_record_names_the_types_that_were_last_listed_with_a_project_token(drained, words):
    world = World(deletion(), PORT, SECRET)
    world.answers = {"drain": lambda _: dataclasses.replace(drained, outcome=Outcome.CLEAR)}
    assert world.run() is Status.DELETED
    [condition] = [c for c in world.deletion.conditions if c.type == "drained"]
    assert condition.message.endswith(f"; empty at the last list with a token of the project, {words}: {SECRET.name}")


# ---------------------------------------------------------------------------------------------- the closing disable
class OneProject:
    """Clouds and Projects over one project, which an admin may enable right after it was disabled."""

    def __init__(self, enabled, stubborn=False):
        self.enabled, self.stubborn, self.did = enabled, stubborn, []

    def get_uncached(self, project_id):
        return Project(project_id, "P", "dom", self.enabled)

    def set_enabled(self, _project_id, enabled):
        self.did.append("disable")
        self.enabled = enabled or self.stubborn

    def project_auth(self, _project_id, fresh=False):
        return None

    def project_session(self, _project_id):
        if not self.enabled:
            raise NoProjectToken("disabled")
        return types.SimpleNamespace(get_token=lambda: "token")

    def ground(self):
        record_intent = lambda type_, _: self.did.append(f"write down {type_}")  # noqa: E731
        return base.DrainContext("d", "p", "me", self, self, lambda *_: None, record_intent)


@pytest.fixture
def flushed(monkeypatch):
    """How often Keystone's cache was emptied."""
    times = []
    monkeypatch.setattr(base, "_WAIT", 0)
    monkeypatch.setattr(base, "_flush_token_cache", times.append)
    monkeypatch.setattr(base, "_accepted", lambda *_: False)
    return times


def test_the_disabling_is_written_down_before_it_is_done(flushed):
    keystone = OneProject(enabled=True)
    assert base.disable(keystone.ground()).full
    assert keystone.did == ["write down project_disabled", "disable"]
    assert len(flushed) == 1


def test_a_project_that_was_disabled_is_not_written_down_and_keystone_forgets_all_the_same(flushed):
    keystone = OneProject(enabled=False)
    assert base.disable(keystone.ground()).full
    assert keystone.did == []
    assert len(flushed) == 1


def test_a_project_that_is_enabled_during_its_disabling_is_not_closed(flushed):
    with pytest.raises(base.NotHeld, match="enabled project p again"):
        base.disable(OneProject(enabled=True, stubborn=True).ground())


def test_an_old_token_that_stays_good_keeps_the_project_from_being_closed(flushed, monkeypatch):
    monkeypatch.setattr(base, "_accepted", lambda *_: True)
    with pytest.raises(base.NotHeld, match="still gives or accepts"):
        base.disable(OneProject(enabled=True).ground())
    assert len(flushed) == 2


# ------------------------------------------------------------------------------------------------ changes of others
MEMBER = {"actor": "users", "actor_id": "u", "role_id": "member"}


class Roles:
    """``Projects`` of a Keystone with these roles, all of which the orchestrator's user has on the project."""

    def __init__(self):
        self.did = []

    def role_ids(self):
        return ("reader", "member", "admin")

    def assignments(self, _project_id):
        return [{"user": {"id": "me"}, "role": {"id": role}} for role in self.role_ids()]

    def grant(self, *what):
        self.did.append(("grant", what[-1]))

    def ungrant(self, *what):
        self.did.append(("ungrant", what[-1]))


@pytest.mark.parametrize(
    ("added", "taken_back"), [({"admin", "reader", "member"}, "reader"), ({"admin", "member"}, "member"), (set(), None)]
)
def test_a_role_that_a_failed_worker_recorded_is_granted_and_removed_by_the_next(monkeypatch, added, taken_back):
    """Else a few crashes in that moment leave no role to give and to take, and the project could never be locked."""
    roles, clouds = Roles(), mock.Mock()
    monkeypatch.setattr(base, "_accepted", lambda *_: False)
    ground = base.DrainContext("d", "p", "me", clouds, roles, lambda *_: None, lambda *_: None, lambda: added)
    if taken_back is None:  # it had them all before us
        with pytest.raises(CleanupError):
            base._flush_token_cache(ground)
    else:
        base._flush_token_cache(ground)
        assert roles.did == [("grant", taken_back), ("ungrant", taken_back)]


class Assignments:
    """Projects with these role assignments."""

    def __init__(self, *rows):
        self.rows = rows

    def assignments(self, project_id):
        return [{"scope": {"project": {"id": project_id}}, "role": {"id": "member"}} | row for row in self.rows]


def change(type_, data=None):
    return Change("c", "d", 1, type_, data or {})


@pytest.mark.parametrize(
    ("recorded", "enabled", "closed", "rows", "theirs"),
    [
        (change(base.PROJECT_DISABLED), True, True, (), True),
        (change(base.PROJECT_DISABLED), False, True, (), False),
        (change(base.PROJECT_DISABLED), True, False, (), False),  # written down, and not done yet
        (change(base.GRANT_REMOVED, MEMBER), True, False, ({"user": {"id": "u"}},), True),
        (change(base.GRANT_REMOVED, MEMBER), True, False, (), False),
        (change(base.GRANT_REMOVED, MEMBER), True, False, ({"user": {"id": "v"}},), False),
        (change(base.GRANT_REMOVED, MEMBER), True, False, ({"group": {"id": "u"}},), False),
        (change(base.GRANT_REMOVED, MEMBER), True, False, ({"user": {"id": "u"}, "role": {"id": "r"}},), False),
        (
            change(base.GRANT_REMOVED, MEMBER),
            True,
            False,
            ({"user": {"id": "u"}, "scope": {"project": {"id": "p"}, base.INHERITED: "projects"}},),
            False,
        ),
        (change(base.GRANT_ADDED, MEMBER), True, True, ({"user": {"id": "u"}},), False),
    ],
)
def test_only_a_change_that_another_user_undid_is_reported_as_undone(recorded, enabled, closed, rows, theirs):
    project = Project("p", "P", "dom", enabled)
    found = base.undone_by_others(Assignments(*rows), project, [recorded], closed)
    assert found == ([recorded] if theirs else [])
