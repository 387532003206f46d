"""What a token fence decides, by a clock that the test sets; reading in a thread is in ``test_fence``."""

import sys
import types

import pytest

from cleanup_orchestrator.keystone import fence as fencing
from cleanup_orchestrator.keystone import protocol
from cleanup_orchestrator.keystone.fence import Fence, Fenced, Reader, Reading, Unknown

FENCES = {"p": Fenced("deletion", "janitor")}


class Known:
    """Stands for a reader that knows these fences, or knows nothing."""

    def __init__(self, fences):
        self._fences, self.asked = fences, 0

    def fences(self):
        self.asked += 1
        if self._fences is None:
            raise Unknown("no answer")
        return self._fences


@pytest.fixture
def clock(monkeypatch):
    """Set the clock; it stands still until it is set again."""
    now = [100.0]
    monkeypatch.setattr(fencing, "clock", lambda: now[0])
    return now


def made(monkeypatch, fences=FENCES):
    fence, reader = Fence(lambda: fences, "me", 0.2, 0.9), Known(fences)
    monkeypatch.setattr(fence, "_reader", lambda: reader)
    return fence, reader


def token(user, project_id, methods=("password",), **fields):
    """A token as Keystone's ``TokenModel`` shows it."""
    return types.SimpleNamespace(user_id=user, project_id=project_id, methods=list(methods), **fields)


@pytest.mark.parametrize(
    ("user", "project_id", "canary", "stopped"),
    [
        ("u", "p", None, True),
        ("u", "q", None, False),
        ("u", "p", "deletion", True),  # a canary never lets a token through
        ("u", "p", "another", True),
        ("u", "q", "deletion", False),
        ("me", "p", None, False),
        ("me", "p", "deletion", True),
        ("me", "p", "another", False),
        ("me", "q", "deletion", False),
        ("janitor", "p", None, False),
        ("janitor", "p", "deletion", True),
        ("janitor of another deletion", "p", None, True),
        ("", "p", None, True),
        (None, "p", None, True),
    ],
)
def test_which_tokens_are_stopped(monkeypatch, user, project_id, canary, stopped):
    fence, _ = made(monkeypatch)
    assert fence.stops(token(user, project_id), canary) is stopped


@pytest.mark.parametrize("user", ["u", "", None])
def test_a_fence_without_a_janitor_lets_no_other_user_through(monkeypatch, user):
    fence, _ = made(monkeypatch, {"p": Fenced("deletion")})
    assert fence.stops(token(user, "p"))


#: Tokens that a service can make of a token of the orchestrator, and ways to log in that it does not use.
DERIVED = {
    "a token of another scope": {"methods": ["password", "token"]},
    "only a token": {"methods": ["token"]},
    "EC2": {"methods": ["ec2credential"]},
    "EC2, in a release that forgets the method": {"methods": []},
    "no method": {"methods": None},
    "an application credential": {"methods": ["application_credential"], "application_credential_id": "a"},
    "a trust": {"trust_id": "t"},
    "OAuth1": {"methods": ["oauth1"], "access_token_id": "a"},
    "OAuth2": {"oauth2_credential_id": "o"},
    "federation": {"is_federated": True},
    "external": {"methods": ["external"]},
    "two factors": {"methods": ["password", "totp"]},
}


@pytest.mark.parametrize("how", DERIVED)
def test_a_fence_stops_the_orchestrator_with_any_token_but_that_of_its_password(monkeypatch, how):
    fence, _ = made(monkeypatch)
    derived = token("me", "p")
    vars(derived).update(DERIVED[how])
    assert fence.stops(derived)
    derived.project_id = "q"
    assert not fence.stops(derived)


@pytest.mark.parametrize("how", DERIVED)
def test_a_janitor_has_its_own_project_with_any_token_and_no_other(monkeypatch, how):
    """Heat acts through a trust of the janitor."""
    fence, _ = made(monkeypatch, FENCES | {"r": Fenced("another", "another janitor")})
    derived = token("janitor", "p")
    vars(derived).update(DERIVED[how])
    assert not fence.stops(derived)
    derived.project_id = "r"
    assert fence.stops(derived)


@pytest.mark.parametrize(
    ("user", "project_id", "canary"), [("u", None, None), ("u", "", "deletion"), ("me", "p", None)]
)
def test_what_needs_no_knowledge_is_let_through_without_any(monkeypatch, user, project_id, canary):
    fence, reader = made(monkeypatch, None)
    assert not fence.stops(token(user, project_id), canary)
    assert reader.asked == 0


@pytest.mark.parametrize(("user", "canary"), [("u", None), ("u", "deletion"), ("me", "deletion"), ("janitor", None)])
def test_not_to_know_is_not_to_let_through(monkeypatch, user, canary):
    fence, _ = made(monkeypatch, None)
    with pytest.raises(Unknown):
        fence.stops(token(user, "p"), canary)


# --------------------------------------------------------------------------------------------------------- the reader
class NoThread(Reader):
    """A reader whose thread never comes to anything: what is known is what the test says, and a wait sets the clock."""

    def __init__(self, clock, read=lambda: FENCES):
        super().__init__(read, 0.25, 0.5)
        self._clock = clock
        self._condition.wait = self._passes

    def _ensure_thread(self):
        pass

    def _passes(self, seconds):
        assert 0 < seconds <= 0.5
        self._clock[0] += seconds


def reader(clock, age, failed=None):
    made = NoThread(clock)
    made._last = Reading(clock[0] - age, FENCES)
    if failed is not None:
        made._failed = failed
    return made


@pytest.mark.parametrize("age", [0.0, 0.25, 0.5])
def test_a_recent_reading_is_used(clock, age):
    assert reader(clock, age).fences() == FENCES


def test_an_old_reading_is_unknown_when_a_newer_one_failed(clock):
    with pytest.raises(Unknown, match="cannot be read"):
        reader(clock, 0.625, failed=clock[0]).fences()


def test_a_reading_that_failed_before_the_question_came_is_waited_for_anew(clock):
    with pytest.raises(Unknown, match="in time"):
        reader(clock, 0.625, failed=clock[0] - 0.125).fences()


def test_a_reading_that_does_not_come_in_time_says_nothing(clock):
    with pytest.raises(Unknown, match="in time"):
        reader(clock, 0.625).fences()
    assert clock[0] == 100.5


class Halt(Exception):
    """Ends the thread's loop after one reading."""


def test_the_age_of_a_reading_counts_from_its_beginning(clock):
    def read():
        clock[0] += 0.375  # as long as the database takes; a fence that was set meanwhile may be missing
        return FENCES

    slow = NoThread(clock, read)
    slow._thread = fencing.threading.current_thread()

    class Wanted:
        def wait(self, _seconds):
            raise Halt

        def set(self):
            pass

    slow._wanted = Wanted()
    with pytest.raises(Halt):
        slow._run()
    assert slow.fences() == FENCES
    clock[0] = 100.625
    with pytest.raises(Unknown):
        slow.fences()


# ---------------------------------------------------------------------------------------- around Keystone's tokens
class Error(Exception):
    """Keystone's: it answers with the code of a subclass."""

    code = None


class TokenNotFound(Exception):
    """Keystone's."""

    def __init__(self, token_id):
        super().__init__(token_id)


class Unauthorized(Exception):
    """Keystone's."""


@pytest.fixture
def keystone(monkeypatch):
    """Stand-ins for the modules of Keystone and Flask that the fence imports; the header of the present request."""
    headers = {}
    exceptions = {
        "Error": Error,  # but no ServiceUnavailable: only Keystone 30 has it
        "TokenNotFound": TokenNotFound,
        "Unauthorized": Unauthorized,
    }
    exception = types.SimpleNamespace(**exceptions)
    provider = types.SimpleNamespace(Manager=None)
    modules = {
        "keystone": types.SimpleNamespace(exception=exception),
        "keystone.exception": exception,
        "keystone.token": types.SimpleNamespace(provider=provider),
        "keystone.token.provider": provider,
        "flask": types.SimpleNamespace(
            has_request_context=lambda: True,
            request=types.SimpleNamespace(headers=headers),
            after_this_request=lambda change: headers.setdefault("changes", []).append(change),
        ),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return headers


def guarded(fence):
    """Return a manager of tokens, whose token is named like user and project, with the fence around it."""

    class Manager:
        def validate_token(self, token_id):
            user_id, project_id, *methods = token_id.split("/")
            return types.SimpleNamespace(user_id=user_id, project_id=project_id, methods=methods or ["password"])

        issue_token = validate_token

    fencing.guard_tokens(fence, Manager)
    return Manager()


def test_tokens_of_a_fenced_project_are_neither_issued_nor_valid(monkeypatch, keystone):
    manager = guarded(made(monkeypatch)[0])
    with pytest.raises(TokenNotFound):
        manager.validate_token("u/p")
    with pytest.raises(Unauthorized):
        manager.issue_token("u/p")
    assert manager.validate_token("u/q").project_id == "q"
    assert manager.issue_token("u/q").project_id == "q"
    assert manager.validate_token("me/p").user_id == "me"


def test_a_token_that_a_service_made_of_the_orchestrator_s_token_is_neither_issued_nor_valid(monkeypatch, keystone):
    manager = guarded(made(monkeypatch)[0])
    with pytest.raises(Unauthorized):
        manager.issue_token("me/p/password/token")
    with pytest.raises(TokenNotFound):
        manager.validate_token("me/p/password/token")
    assert manager.issue_token("me/q/password/token").project_id == "q"


def test_the_canary_is_read_from_the_request(monkeypatch, keystone):
    manager = guarded(made(monkeypatch)[0])
    keystone[protocol.CANARY_HEADER] = "deletion"
    with pytest.raises(TokenNotFound):
        manager.validate_token("me/p")
    (change,) = keystone["changes"]
    response = types.SimpleNamespace(headers={})
    assert change(response) is response
    assert response.headers == {protocol.FENCED_HEADER: "deletion"}


def test_a_login_with_the_canary_is_refused_by_the_fence_that_it_names(monkeypatch, keystone):
    manager = guarded(made(monkeypatch)[0])
    keystone[protocol.CANARY_HEADER] = "another"
    assert manager.issue_token("me/p").user_id == "me"
    keystone[protocol.CANARY_HEADER] = "deletion"
    assert manager.issue_token("me/q").user_id == "me"
    with pytest.raises(Unauthorized):
        manager.issue_token("me/p")
    (change,) = keystone["changes"]
    assert change(types.SimpleNamespace(headers={})).headers == {protocol.FENCED_HEADER: "deletion"}
    with pytest.raises(Unauthorized):
        manager.issue_token("u/p")
    assert len(keystone["changes"]) == 1, "another user learns nothing"


@pytest.mark.parametrize(("token", "canary"), [("u/p", "deletion"), ("u/p", "another"), ("u/p", None)])
def test_a_refusal_of_other_users_confirms_no_fence(monkeypatch, keystone, token, canary):
    """Any client may send the header: it must learn nothing from the answer."""
    manager = guarded(made(monkeypatch)[0])
    if canary is not None:
        keystone[protocol.CANARY_HEADER] = canary
    with pytest.raises(TokenNotFound):
        manager.validate_token(token)
    assert "changes" not in keystone


def test_not_to_know_is_a_503(monkeypatch, keystone):
    manager = guarded(made(monkeypatch, None)[0])
    for ask in (manager.validate_token, manager.issue_token):
        with pytest.raises(Error) as refused:
            ask("u/p")
        assert refused.value.code == 503
