"""What the drain changes is written down first, and undone in reverse; what each driver takes for a lock that holds."""

import math
import types

import pytest
from keystoneauth1 import exceptions as ka_exceptions

from cleanup_orchestrator.cloud.projects import Project
from cleanup_orchestrator.cloud.session import TOKEN_SECOND
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.drain import fence
from cleanup_orchestrator.drain import fence as fencing
from cleanup_orchestrator.drain.base import NotHeld
from cleanup_orchestrator.drain.fence import Fence
from cleanup_orchestrator.errors import NoProjectToken, ScopeDisabled
from cleanup_orchestrator.keystone import protocol

pytestmark = pytest.mark.usefixtures("no_waiting")


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


# ---------------------------------------------------------------------------------------------------------------- fence
def answer(status, json=True, **headers):
    kind = {"Content-Type": "application/json" if json else "text/html"}
    return types.SimpleNamespace(status_code=status, headers=kind | headers)


class Fenced:
    """Clouds of a Keystone whose processes obey the fence, or one of which does not, or refuses the own token.

    `confirms`: its answer says that the fence is the cause. An older release of the code inside Keystone does not.
    `login`: what a login with the canary gets, `None`: a token; `other`: what another version of the API answers.
    """

    def __init__(self, obeys=True, token=True, ours=True, confirms=True, login="fenced", other=None):
        self.obeys, self.token, self.ours, self.confirms = obeys, token, ours, confirms
        self.login, self.other, self.logins = login, other or answer(404), []
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
        headers = {}

        def get_token():
            self.logins.append(headers)
            if self.login is not None:
                said = {protocol.FENCED_HEADER: headers[protocol.CANARY_HEADER]} if self.login == "fenced" else {}
                raise ka_exceptions.Unauthorized(response=answer(401, **said))

        return types.SimpleNamespace(get_token=get_token, additional_headers=headers)

    def forget_project(self, _project_id):
        pass

    def identity(self, _session):
        def get(path, headers):
            if path.startswith("http://"):
                self.logins.append(path)
                if self.other.status_code >= 400:
                    raise ka_exceptions.HttpError(response=self.other)
                return self.other
            self.asked += 1
            canary = headers.get(protocol.CANARY_HEADER)
            if canary and self.ours and self.obeys and canary == "d":
                said = {protocol.FENCED_HEADER: canary} if self.confirms else {}
                raise ka_exceptions.NotFound(response=types.SimpleNamespace(headers=said))
            if not self.ours:
                raise ka_exceptions.NotFound(response=types.SimpleNamespace(headers={}))

        return types.SimpleNamespace(get=get, get_endpoint=lambda: "http://keystone/v3")


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


def test_what_a_keystone_without_the_fence_says_is_one_line(monkeypatch):
    """The Keystone of 2024.1 answers 400 with a JSON schema in many lines."""
    keystone, said = Keystone(), ka_exceptions.BadRequest("Additional properties\n  are not allowed")
    monkeypatch.setattr(keystone, "set_fence", lambda *_: (_ for _ in ()).throw(said))
    with pytest.raises(NotHeld, match=r"^this Keystone has no token fence \(Additional properties are not allowed"):
        Fence().drain(keystone.ground(Fenced()))


def test_what_a_keystone_that_forbids_the_fence_says_is_one_line(monkeypatch):
    keystone, said = Keystone(), ka_exceptions.Forbidden("not\n  allowed")
    monkeypatch.setattr(keystone, "set_fence", lambda *_: (_ for _ in ()).throw(said))
    with pytest.raises(NotHeld, match=r"set a fence \(not allowed"):
        Fence().drain(keystone.ground(Fenced()))


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


@pytest.mark.parametrize(
    "clouds",
    [Fenced(obeys=False), Fenced(token=False), Fenced(ours=False), Fenced(login=None), Fenced(other=answer(200))],
)
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


OPEN = f"a Keystone process still accepts tokens for the project: {fence._INSTALL}"
DISABLED = ScopeDisabled("domain D is disabled; as an admin: openstack domain set --enable D")


class Clouds:
    """Gives a token, or the next of these errors."""

    def __init__(self, *errors):
        self.errors, self.tokens = list(errors), 0
        self.fences_checked_at = []

    def project_auth(self, _project_id, fresh=False):
        self.tokens += fresh

    def project_session(self, _project_id):
        if self.errors and (error := self.errors.pop(0)):
            raise error
        return types.SimpleNamespace(get_token=lambda: "token")


class Projects:
    """One project, enabled, with the fence of the deletion."""

    def get_uncached(self, _project_id):
        return types.SimpleNamespace(enabled=True, fence="d", fence_serial=7, janitor=None)

    def set_fence(self, *_):
        pass


def context(*errors):
    return types.SimpleNamespace(
        clouds=Clouds(*errors), projects=Projects(), project_id="p", deletion_id="d", user_id="me",
        record_intent=lambda *_: None,
    )  # fmt: skip


@pytest.fixture
def waits(monkeypatch):
    found = []
    monkeypatch.setattr(fence.time, "sleep", found.append)
    return found


def looks(monkeypatch, *answers):
    """Let each look see these problems, one of each process."""
    left = list(answers)
    monkeypatch.setattr(fence, "probe", lambda _check, _times: left.pop(0))
    monkeypatch.setattr(fence, "past_fence", lambda _context, _token: "")
    return left


@pytest.mark.parametrize(
    ("answers", "problem", "again"),
    [
        ([["", ""]], "", False),
        ([["", fence._REFUSED], ["", ""]], "", True),  # its tokens were revoked in this second
        ([["", fence._REFUSED], ["", fence._REFUSED]], fence._REFUSED, True),
        ([["", OPEN]], OPEN, False),  # a leak is never looked at twice
        ([[fence._REFUSED, OPEN]], OPEN, False),
        ([[fence._REFUSED, ""], [OPEN, ""]], OPEN, True),
    ],
)
def test_a_refused_token_is_looked_at_again_with_one_of_a_later_second(monkeypatch, waits, answers, problem, again):
    left, where = looks(monkeypatch, *answers), context()
    assert fence._problem(where) == problem
    assert waits == ([TOKEN_SECOND] if again else [])
    assert where.clouds.tokens == 1 + again and not left


def test_a_disabled_domain_is_said_and_the_lock_is_partial(monkeypatch, waits):
    """Not "check user_id in keystone.conf"."""
    result = Fence().drain(context(DISABLED))
    assert (result.full, result.reason) == (False, Reason.NO_PROJECT_TOKEN)
    assert "openstack domain set --enable D" in result.message and "keystone.conf" not in result.message
    assert result.evidence == "fence serial 7"


def test_whether_the_fence_holds_is_unknown_while_the_domain_is_disabled(monkeypatch, waits):
    """Neither that it does, nor that it was lifted."""
    with pytest.raises(ScopeDisabled):
        Fence().held(context(DISABLED))


def test_another_lack_of_a_token_is_the_configuration(monkeypatch, waits):
    with pytest.raises(NotHeld, match=r"user_id in the keystone\.conf"):
        Fence().drain(context(NoProjectToken("HTTP 401")))
