"""What each driver shares: how a change is undone, and how the project is disabled."""

import json
import types
from unittest import mock

import pytest
import requests
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.projects import Project
from cleanup_orchestrator.core.journal import Change
from cleanup_orchestrator.drain import base
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.drain.fence import Fence
from cleanup_orchestrator.errors import BadAnswer, CleanupError, NoProjectToken
from tests.unit.drain.test_fence import Fenced, Keystone, grant

pytestmark = pytest.mark.usefixtures("no_waiting")

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


@pytest.mark.parametrize("actor", ["users", "groups"])
def test_a_role_that_could_not_be_given_back_is_named_with_the_call(actor, monkeypatch):
    """Keystone does not find a user whom the directory leaves out for a while, and keeps the user's role until then."""
    keystone = Keystone()
    monkeypatch.setattr(keystone, "grant", mock.Mock(side_effect=ka_exceptions.NotFound))
    said = undo(keystone, drain.GRANT_REMOVED, grant("u1", actor=actor))
    assert f"openstack role add --{actor[:-1]} u1 --project p member" in said


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


def answering(status, body):
    """Return a ground whose Keystone answers so to the validation of a token."""
    response = requests.Response()
    response.status_code, response._content = status, body.encode()

    def get(*_, **__):
        if status == 404:
            raise ka_exceptions.NotFound(response=response, method="GET", url="/auth/tokens")
        return response

    identity = types.SimpleNamespace(get=get)
    made = types.SimpleNamespace(identity=lambda _: identity, session=lambda *_, **__: None, admin_auth=lambda: None)
    return types.SimpleNamespace(clouds=made, guard=None)


def test_a_token_is_refused_only_by_keystone_itself():
    """A proxy without a backend answers 404 as well: the process behind it may still accept the token."""
    refused = json.dumps({"error": {"code": 404, "message": "Could not find token.", "title": "Not Found"}})
    assert base._accepted(answering(200, "{}"), "t")
    assert not base._accepted(answering(404, refused), "t")
    with pytest.raises(BadAnswer):
        base._accepted(answering(404, "<html>no backend</html>"), "t")


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
