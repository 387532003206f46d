"""The guarded session: every write asks first, whatever makes it."""

import contextlib
import http.server
import threading
import types

import pytest
import requests
from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1 import noauth
from oslo_config import cfg

from cleanup_orchestrator.cloud import connections, janitors
from cleanup_orchestrator.cloud import session as cloud_session
from cleanup_orchestrator.cloud.session import GuardedSession, read_only
from cleanup_orchestrator.errors import BadAnswer, CleanupError, Stopped, WriteRefused


@pytest.fixture
def server():
    """An HTTP server that counts what reaches it."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            seen.append(self.command)
            self.send_response(204)
            self.end_headers()

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_COPY = answer

        def log_message(self, *_):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_port}", seen
    httpd.shutdown()
    httpd.server_close()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "COPY", "delete"])
def test_an_inventory_cannot_write(server, method):
    url, seen = server
    session = GuardedSession(read_only, auth=noauth.NoAuth(endpoint=url))
    session.request(url + "/things", "GET")
    session.request(url + "/things", "HEAD")
    with pytest.raises(WriteRefused):
        session.request(url + "/things/1", method)
    with pytest.raises(WriteRefused):
        session.request(url + "/auth/tokens", method)
    assert seen == ["GET", "HEAD"]
    assert session.calls == 2


def test_getting_a_token_is_no_write(server):
    url, seen = server
    session = GuardedSession(read_only, auth=noauth.NoAuth(endpoint=url))
    session.post(url + "/v3/auth/tokens", json={}, authenticated=False)
    assert seen == ["POST"]


def test_each_write_asks_anew(server):
    url, seen = server
    answers = iter([None, Stopped("cancelled")])

    def guard(method, _url):
        if error := next(answers):
            raise error

    session = GuardedSession(guard, auth=noauth.NoAuth(endpoint=url))
    session.delete(url + "/1")
    with pytest.raises(Stopped):
        session.delete(url + "/2")
    assert seen == ["DELETE"]


# --------------------------------------------------------------------------------------------- what is asked once more
URL = "http://cloud/things/1"


class Wire(requests.Session):
    """A connection that answers what it is told to: an error, or (status, headers)."""

    def __init__(self, *answers):
        super().__init__()
        self.answers, self.sent = list(answers), []

    def request(self, method, url, **kwargs):
        self.sent.append(method)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        response = requests.Response()
        response.status_code, headers = answer
        response.headers.update(headers)
        response.url, response.request = url, requests.Request(method, url).prepare()
        response._content = b"{}"
        return response


LOST = requests.exceptions.ConnectionError("the connection was closed")


@pytest.fixture
def waits(monkeypatch):
    """The pauses between two tries, none of which passes."""
    found = []
    monkeypatch.setattr(cloud_session.time, "sleep", found.append)
    return found


def wired(*answers, guard=lambda *_: None):
    wire = Wire(*answers)
    return GuardedSession(guard, auth=noauth.NoAuth(endpoint="http://cloud"), session=wire), wire


# A revocation ends the token, and those that are issued in its second.
@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
@pytest.mark.parametrize("raises", [True, False])
def test_a_call_whose_token_was_revoked_is_made_with_a_token_of_a_later_second(waits, method, raises):
    """The service has not done it, so that a write is repeated, too. The guard is asked again."""
    asked = []
    session, wire = wired((401, {}), (401, {}), (204, {}), guard=lambda *_: asked.append(1))
    session.auth.invalidate = lambda: True  # keystoneauth asks for a new token at once, and calls again
    assert session.request(URL, method, raise_exc=raises).status_code == 204
    assert (wire.sent, waits) == ([method] * 3, [cloud_session.TOKEN_SECOND])
    assert len(asked) == (0 if method == "GET" else 3)


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({}, 4),
        ({"once": True}, 2),
        ({"authenticated": False}, 1),
        ({"allow_reauth": False}, 1),
        ({"data": iter(())}, 2),
    ],
)
def test_a_token_that_stays_refused_is_an_answer(waits, options, calls):
    session, wire = wired(*[(401, {})] * 9)
    session.auth.invalidate = lambda: True
    with pytest.raises(ka_exceptions.Unauthorized):
        session.request(URL, "PUT", **options)
    assert len(wire.sent) == calls


def test_a_login_that_is_refused_is_not_repeated(waits):
    """Keystone may lock a user out after a few of them."""
    session, wire = wired((200, {}))
    logins = []

    def refused(_session):
        logins.append(1)
        url = "http://keystone/v3/auth/tokens"
        raise ka_exceptions.Unauthorized("no", method="POST", url=url, http_status=401)

    session.auth.get_token = refused
    with pytest.raises(ka_exceptions.Unauthorized):
        session.request(URL, "GET")
    assert (len(logins), wire.sent, waits) == (1, [], [])


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_write_is_not_made_again_after_the_connection_failed(waits, method):
    """It may have been done: what is there now is looked at first."""
    session, wire = wired(LOST, (204, {}))
    with pytest.raises(ka_exceptions.ConnectFailure):
        session.request(URL, method)
    assert (wire.sent, waits) == ([method], [])


def test_a_read_is_made_again_a_few_times_after_the_connection_failed(waits):
    session, wire = wired(LOST, LOST, (200, {}))
    assert session.request(URL, "GET").status_code == 200
    assert (len(wire.sent), waits) == (3, [*cloud_session.AGAIN[:2]])
    session, wire = wired(*[LOST] * 9)
    with pytest.raises(ka_exceptions.ConnectFailure):
        session.request(URL, "GET")
    assert len(wire.sent) == len(cloud_session.AGAIN) + 1


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_write_is_not_made_again_after_an_answer_that_may_hide_its_success(waits, status):
    session, wire = wired((status, {"Retry-After": "1"}), (204, {}))
    with pytest.raises(ka_exceptions.HttpError):
        session.request(URL, "DELETE")
    assert len(wire.sent) == 1


class Willing:
    """Limits within which every call has its turn at once, and may wait for every pause."""

    def permit(self, *_, **__):
        return contextlib.nullcontext()

    def pause(self, *_):
        pass

    def may_wait(self, *_):
        return True


@pytest.mark.parametrize(("status", "sent"), [(500, 1), (502, 1), (503, 1), (504, 1), (413, 2), (429, 2), (498, 2)])
def test_within_limits_a_write_is_made_again_where_its_service_says_that_it_was_not_done(waits, status, sent):
    wire = Wire((status, {"Retry-After": "1"}), (204, {}))
    session = GuardedSession(lambda *_: None, Willing(), auth=noauth.NoAuth(endpoint="http://cloud"), session=wire)
    session.request(URL, "DELETE", raise_exc=False)
    assert len(wire.sent) == sent


@pytest.mark.parametrize(("asked", "sent"), [("1", 2), ("5", 2), ("6", 1), ("3600", 1)])
def test_a_service_that_asks_for_more_time_than_a_call_has_is_not_called_again(waits, asked, sent):
    session, wire = wired((503, {"Retry-After": asked}), (200, {}))
    if sent == 2:
        session.request(URL, "GET")
        assert waits == [float(asked)]
    else:
        with pytest.raises(ka_exceptions.HttpError):
            session.request(URL, "GET")
    assert len(wire.sent) == sent


def test_a_stream_is_sent_once(waits):
    session, wire = wired(LOST, (200, {}))
    with pytest.raises(ka_exceptions.ConnectFailure):
        session.request(URL, "GET", data=iter([b"x"]))
    assert len(wire.sent) == 1


def test_a_write_counts_as_under_way_before_the_guard_is_asked():
    """A worker that makes the guard refuse, and then sees no write under way, knows that no write follows."""
    session, wire = wired((204, {}), guard=lambda *_: seen.append(session.writing))
    seen = []
    session.delete(URL)
    assert (seen, wire.sent, session.writing) == ([1], ["DELETE"], 0)


@pytest.mark.parametrize(
    ("url", "kwargs"),
    [
        ("http://cloud/v3/auth/tokens", {}),  # with a token it is one of the project's own, or another service's
        ("http://cloud/things", {"authenticated": False}),
        ("http://cloud/v3/auth/tokens/1", {"authenticated": False}),
    ],
)
def test_every_other_post_is_a_write(url, kwargs):
    session, wire = wired((200, {}), guard=read_only)
    with pytest.raises(WriteRefused):
        session.request(url, "POST", **kwargs)
    assert wire.sent == []


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_session_that_was_ended_makes_no_further_call(method):
    session, wire = wired((200, {}))
    session.end("it hangs")
    with pytest.raises(Stopped, match="it hangs"):
        session.request(URL, method)
    assert wire.sent == []


def test_the_threads_that_have_made_a_call_are_known_until_they_end():
    session, _ = wired((200, {}), (200, {}))
    assert session.callers() == set()
    session.request(URL, "GET")
    other = threading.Thread(target=session.request, args=(URL, "GET"))
    other.start()
    other.join()
    assert session.calls == 2 and session.callers() == {threading.current_thread()}


# ------------------------------------------------------------------------------------------------------- whose token
def made(scope, **options):
    """Clouds that get a token of this project whatever they ask for."""
    conf = cfg.ConfigOpts()
    conf.register_opts(connections.OPTS[connections.GROUP], connections.GROUP)
    conf([])
    for name, value in options.items():
        conf.set_override(name, value, connections.GROUP)
    found = connections.Clouds(conf)
    found._load_auth = lambda **_: types.SimpleNamespace()
    found.session = lambda *_: types.SimpleNamespace(get_project_id=lambda: scope)
    found._unfiltered, found._know_endpoints = (lambda auth: auth), (lambda: None)  # there is no Keystone
    return found


def test_a_token_of_another_project_is_not_used():
    assert made("p").project_session("p").get_project_id() == "p"
    for scope in ("q", None):
        with pytest.raises(BadAnswer):
            made(scope).project_session("p")


def janitor(scope="p", **options):
    """Clouds with a janitor, whose token is one of this project."""
    found = made(scope)
    found._conf.register_opts(janitors.OPTS[janitors.GROUP], janitors.GROUP)
    for name, value in options.items():
        found._conf.set_override(name, value, janitors.GROUP)
    own = types.SimpleNamespace(user_domain_id="own", get_access=lambda _session: own, auth_url="http://keystone/v3")
    found._load_auth = lambda **_: own
    return found


def test_each_deletion_has_a_janitor_of_its_own():
    assert janitor().janitor("a") is None
    found = janitor(secret="s")
    one, other = found.janitor("a"), found.janitor("b")
    assert (one.name, one.domain_id) == ("cleanup-janitor-a", "own")
    assert (other.name, other.password != one.password) == ("cleanup-janitor-b", True)
    assert found.janitor("a") == one, "the same in each worker"
    assert one.password not in repr(one)
    assert janitor(secret="s", domain_id="named").janitor("a").domain_id == "named"
    assert janitor(secret="t").janitor("a").password != one.password


def test_the_janitor_logs_in_by_password_to_the_one_project(monkeypatch):
    found, asked = janitor(secret="s"), []
    monkeypatch.setattr(connections.v3, "Password", lambda url, **how: asked.append((url, how)))
    with pytest.raises(AttributeError):  # the test has no Keystone, which would tell the roles
        found.janitor_session(found.janitor("d"), "id", "p", read_only)
    password = found.janitor("d").password
    assert asked == [("http://keystone/v3", {"user_id": "id", "password": password, "project_id": "p"})]


def test_a_janitors_token_of_another_project_is_not_used(monkeypatch):
    found = janitor("q", secret="s")
    monkeypatch.setattr(connections.v3, "Password", lambda url, **how: None)
    with pytest.raises(BadAnswer, match="got one of q"):
        found.janitor_session(found.janitor("d"), "id", "p", read_only)


def test_a_project_token_is_requested_by_the_project_id():
    with pytest.raises(ValueError, match="empty"):
        janitor().janitor_session(None, "id", "", read_only)
    with pytest.raises(ValueError, match="empty"):
        made("p").project_auth("")


def test_the_token_of_one_project_is_dropped_and_no_other():
    found = made("p")
    kept, dropped = found.project_auth("kept"), found.project_auth("dropped")
    found.forget_project("dropped")
    found.forget_project("never met")
    assert found.project_auth("kept") is kept
    assert found.project_auth("dropped") is not dropped


# ------------------------------------------------------------------------------------------------ its own project
def test_the_project_of_the_orchestrator_is_that_of_its_token():
    assert made("p").project_id() == "p"
    assert made("p", own_project_id="p").project_id() == "p"


def test_a_token_of_the_system_names_no_project_and_the_option_does():
    assert made(None, own_project_id="p").project_id() == "p"


def test_without_option_and_token_project_the_project_of_the_orchestrator_is_an_error():
    """It was the text "None", which no project has as its id: so every project could be deleted."""
    with pytest.raises(CleanupError, match="own_project_id"):
        made(None).project_id()


def test_a_token_of_another_project_than_the_option_says_is_a_mistake():
    with pytest.raises(CleanupError, match="own_project_id"):
        made("q", own_project_id="p").project_id()
