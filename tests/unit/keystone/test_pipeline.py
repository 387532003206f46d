"""What the hook and the filter do with an orchestrator's answer, or with none: over real HTTP, to a stub of its API."""

import contextlib
import dataclasses
import http.server
import itertools
import json
import threading
import time
import types
import urllib.parse
import uuid

import pytest
from oslo_config import cfg

from cleanup_orchestrator.keystone import intercept, pipeline, protocol
from cleanup_orchestrator.keystone.intercept import Caller, Settings, Target
from tests.support import hostile

PROJECT = Target(id="p1", name="demo", domain_id="d1")
PARENT = dataclasses.replace(PROJECT, below=frozenset({"child", "grandchild"}))
DOMAIN = Target(id="d1", name="dom", domain_id="d1", is_domain=True)
TARGETS = {"project": PROJECT, "parent": PARENT, "domain": DOMAIN}


class Stub:
    """An API that answers what it is told; ``asked`` has every request."""

    def __init__(self):
        self.asked = []
        self.answer = lambda method, path, query: (500, {}, b"")
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                url = urllib.parse.urlsplit(self.path)
                stub.asked.append((self.command, url.path, dict(self.headers), json.loads(body) if body else None))
                status, headers, raw = stub.answer(self.command, url.path, urllib.parse.parse_qs(url.query))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                with contextlib.suppress(OSError):  # who asked has given up
                    self.wfile.write(raw)

            do_POST = do_DELETE = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def says(self, status, body, **headers):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answer = lambda method, path, query: (status, headers, raw)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def stub():
    made = Stub()
    yield made
    made.close()


def ask(url, target=PROJECT, mode=None, query="", **changed):
    settings = Settings(**({"intercept": "always", "endpoint": url, "user_id": "o", "timeout": 60} | changed)).check()
    return intercept.handle(settings, target, Caller("a-token", mode, query, "req-1"))


def deletion(project_id="p1", **changed):
    return {"id": str(uuid.uuid4()), "project_id": project_id, "domain_id": "d1", "status": "accepted"} | changed


def error(status, code, detail="no, because", **more):
    return {"errors": [{"status": status, "code": code, "title": "T", "detail": detail, "request_id": "r", **more}]}


# -------------------------------------------------------------------------------------------------------- handed over
@pytest.mark.parametrize("root", ["", "/", "/cleanup", "/cleanup/"])
def test_the_request_is_forwarded_with_the_token_and_request_id_of_the_caller(stub, root):
    made = deletion()
    stub.says(202, {"deletion": made}, Location="https://cleanup.example.com/v1/deletions/x")
    answer = ask(stub.url + root, mode="cascade")
    assert (answer.status, answer.body["deletion"]) == (202, made)
    assert answer.headers == {"Location": "https://cleanup.example.com/v1/deletions/x"}
    ((method, path, headers, body),) = stub.asked
    assert (method, path) == ("POST", root.rstrip("/") + "/v1/deletions")
    assert body == {"project_id": "p1", "mode": "cascade"}
    assert (headers["X-Auth-Token"], headers["X-OpenStack-Request-Id"]) == ("a-token", "req-1")


def test_without_a_location_there_is_one_all_the_same(stub):
    made = deletion()
    stub.says(202, {"deletion": made})
    assert ask(stub.url).headers == {"Location": f"{stub.url}/v1/deletions/{made['id']}"}


@pytest.mark.parametrize("mode", ["report", "cascade"])
def test_the_message_says_what_happens_and_how_to_follow_it(stub, mode):
    made = deletion()
    stub.says(202, {"deletion": made})
    message = ask(stub.url, default_mode=mode).body["message"]
    assert f"'openstack project deletion show {made['id']}'" in message
    assert "demo (p1)" in message
    assert ("All resources" in message) == (mode == "cascade")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "project_is_domain"),
        (401, "unauthorized"),
        (403, "project_protected"),
        (403, "forbidden"),
        (404, "project_not_found"),
        (409, "project_has_children"),
        (409, "deletion_under_way"),
        (409, "of_tomorrow"),
        (429, "deletion_limit_reached"),
    ],
)
def test_a_refusal_keeps_its_status_and_its_reason_in_keystones_shape(stub, status, code):
    stub.says(status, error(status, code), **{"WWW-Authenticate": "Keystone", "Retry-After": "3", "X-Other": "x"})
    answer = ask(stub.url)
    assert answer.status == status
    assert list(answer.body) == ["error"]
    assert answer.body["error"]["code"] == status
    assert answer.body["error"]["message"] == "No, because. This request has deleted nothing."
    assert answer.headers == {"WWW-Authenticate": "Keystone", "Retry-After": "3"}


NONSENSE = {
    "an error of the server": (500, error(500, "internal_error")),
    "a proxy's word": (502, b"<html>Bad Gateway</html>"),
    "503": (503, error(503, "store_unavailable")),
    "a 404 of another server": (404, b"<html>Not Found</html>"),
    "a 404 of another server in JSON": (404, {"error": {"code": 404, "message": "no"}}),
    "a 404 of the path": (404, error(404, "not_found")),
    "a 405": (405, error(405, "method_not_allowed")),
    "another release's body": (400, error(400, "invalid_query")),
    "a refusal that contradicts itself": (409, error(404, "project_not_found")),
    "a refusal without a reason": (409, {"errors": [{"status": 409, "code": "x"}]}),
    "a refusal that is a list": (409, []),
    "errors that are none": (409, {"errors": ["no"]}),
    "a redirect": (307, b""),
    "a page": (200, b"<html>Welcome</html>"),
    "nothing": (202, b""),
    "half of it": (202, b'{"deletion": {"id": "'),
    "no JSON of ours": (202, []),
    "no deletion": (202, {"deletion": None}),
    "no id": (202, {"deletion": deletion(id=None)}),
    "an id that is none": (202, {"deletion": deletion(id="../../x")}),
    "another project": (202, {"deletion": deletion("p2")}),
    "200 instead of 202": (200, {"deletion": deletion()}),
    "204": (204, b""),
}


@pytest.mark.parametrize("what", NONSENSE)
@pytest.mark.parametrize("target", TARGETS)
def test_an_unclear_answer_gives_503_and_never_a_delete(stub, what, target):
    status, body = NONSENSE[what]
    stub.says(status, body, Location=f"{stub.url}/elsewhere")
    answer = ask(stub.url, TARGETS[target])
    assert answer.status == 503
    assert answer.body["error"]["code"] == 503
    assert [asked[1] for asked in stub.asked] == ["/v1/deletions"], "no redirect was followed"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("intercept_", ["opt-in", "always"])
def test_an_unreachable_orchestrator_gives_503(target, intercept_):
    answer = ask("http://127.0.0.1:1", TARGETS[target], "report" if target == "project" else None, intercept=intercept_)
    assert answer.status == 503


@pytest.mark.parametrize("target", TARGETS)
def test_an_orchestrator_that_does_not_answer_in_time_gives_503(stub, target):
    over = threading.Event()

    def late(method, path, query):
        over.wait(5)
        return 202, {}, json.dumps({"deletion": deletion(), "deletions": []}).encode()

    stub.answer = late
    try:
        assert ask(stub.url, TARGETS[target], timeout=0.1).status == 503
    finally:
        over.set()


LIES = hostile.lies(17)


@pytest.mark.parametrize("path", ["/gzip", "/gzip-of-gzip", "/endless", "/endless-trailer", "/slow-body", "/deep"])
@pytest.mark.usefixtures("no_garbage_collection")
def test_an_answer_that_takes_too_much_gives_503(path):
    with hostile.serving({"*": LIES[path]}) as (url, _):
        began = time.monotonic()
        assert ask(url, timeout=2).status == 503
        assert time.monotonic() - began < 4


def test_the_token_goes_through_no_proxy_of_the_environment(stub, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    stub.says(202, {"deletion": deletion()})
    assert ask(stub.url).status == 202


@pytest.mark.parametrize("token", ["", "a\r\nX-Evil: 1", "caf\u00e9", "\u65e5\u672c", "x" * 100000])
def test_a_token_that_is_none_does_no_harm(stub, token):
    stub.says(401, error(401, "unauthorized"))
    settings = Settings("always", stub.url, user_id="o").check()
    assert intercept.handle(settings, PROJECT, Caller(token)).status in (401, 503)
    assert all("X-Evil" not in asked[2] for asked in stub.asked)


# ----------------------------------------------------------------------------------------------------------- the modes
@pytest.mark.parametrize(
    ("setting", "default", "header", "query", "mode"),
    [
        ("opt-in", "report", None, "", None),
        ("opt-in", "cascade", None, "", None),
        ("opt-in", "report", None, "a=b&cleanup=cascade", "cascade"),
        ("opt-in", "cascade", "report", "", "report"),
        ("opt-in", "cascade", " report ", "", "report"),
        ("always", "report", None, "", "report"),
        ("always", "cascade", None, "", "cascade"),
        ("always", "cascade", "report", "cleanup=report", "report"),
        ("always", "report", None, "cleanup=%63ascade", "cascade"),
        ("opt-in", "report", "", "", 400),
        ("always", "report", "no", "", 400),
        ("always", "report", "report,cascade", "", 400),
        ("always", "report", None, "cleanup", 400),
        ("always", "report", None, "cleanup=report&cleanup=cascade", 400),
        ("opt-in", "report", "cascade", "cleanup=report", 400),
    ],
)
def test_the_mode_is_the_requested_one_or_the_default_of_the_operator(stub, setting, default, header, query, mode):
    stub.says(202, {"deletion": deletion()})
    answer = ask(stub.url, mode=header, query=query, intercept=setting, default_mode=default)
    if mode is None:
        assert answer is None
    else:
        assert answer.status == (400 if mode == 400 else 202)
    assert [asked[3]["mode"] for asked in stub.asked] == ([mode] if mode in ("report", "cascade") else [])


def test_a_fenced_project_goes_to_the_orchestrator_and_never_to_keystone(stub):
    fenced = dataclasses.replace(PROJECT, fence="d-1")
    answer = ask(stub.url, fenced, intercept="opt-in")
    assert (answer.status, stub.asked) == (409, [])
    assert "d-1" in answer.body["error"]["message"]
    stub.says(202, {"deletion": deletion()})
    assert ask(stub.url, fenced, "report", intercept="opt-in").status == 202


# ------------------------------------------------------------------------------------------------------------ the guard
def pages(stub, rows, size):
    """A list in pages, as the API gives it, with links to a host that must never get a token."""

    def answer(method, path, query):
        stub.queries.append(query)
        marker = query.get("marker", [""])[0]
        rest = sorted((row for row in rows if row["id"] > marker), key=lambda row: row["id"])
        body = {"deletions": rest[:size]}
        if rest[size:]:
            href = f"http://127.0.0.1:1/v1/deletions?status=live&limit={size}&marker={body['deletions'][-1]['id']}"
            body["links"] = [{"rel": "prev", "href": "x"}, {"rel": "next", "href": href}]
        return 200, {}, json.dumps(body).encode()

    stub.queries, stub.answer = [], answer


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("target", ["parent", "domain"])
@pytest.mark.parametrize("intercept_", ["opt-in", "always"])
def test_a_deletion_under_way_below_is_found_on_any_page_and_named(stub, target, size, intercept_):
    rows = [deletion(f"other-{number}") for number in range(5)]
    below = deletion("grandchild")
    pages(stub, [*rows, below], size)
    answer = ask(stub.url, TARGETS[target], intercept=intercept_)
    assert answer.status == 409
    assert f"grandchild (deletion {below['id']})" in answer.body["error"]["message"]
    assert ("other-0" in answer.body["error"]["message"]) == (target == "domain")
    assert all((query["status"], query["domain_id"]) == (["live"], ["d1"]) for query in stub.queries)
    assert len(stub.queries) == -(-6 // size)


@pytest.mark.parametrize("size", [1, 100])
def test_with_none_below_a_domain_is_keystones_to_delete(stub, size):
    pages(stub, [], size)
    assert ask(stub.url, DOMAIN) is None
    assert len(stub.queries) == 1


def test_a_parent_with_deletions_elsewhere_only_is_keystones_to_refuse(stub):
    pages(stub, [deletion("p1"), deletion("sibling")], 1)
    assert ask(stub.url, PARENT, intercept="opt-in") is None


def test_a_mode_in_the_delete_of_a_domain_is_refused_and_not_ignored(stub):
    answer = ask(stub.url, DOMAIN, "report")
    assert (answer.status, stub.asked) == (400, [])


@pytest.mark.parametrize(
    "body",
    [
        {"deletions": [deletion(domain_id="elsewhere")]},
        {"deletions": [{"id": "x"}]},
        {"deletions": "none"},
        {},
        {"deletions": [], "links": "x"},
        {"deletions": [], "links": [{"rel": "next", "href": "http://x/v1/deletions"}]},
    ],
    ids=["another domain's", "not a deletion", "not a list", "nothing", "no links", "no marker"],
)
@pytest.mark.parametrize("target", ["parent", "domain"])
def test_a_list_that_is_not_whole_is_503(stub, body, target):
    stub.says(200, body)
    assert ask(stub.url, TARGETS[target]).status == 503


def test_a_list_without_an_end_is_503(stub, monkeypatch):
    """The time that the whole request may take is for all pages of a list together."""
    stub.says(200, {"deletions": [], "links": [{"rel": "next", "href": "http://x/?marker=m"}]})
    assert ask(stub.url, DOMAIN).status == 503
    assert len(stub.asked) == 2
    stub.asked.clear()
    numbers, now = itertools.count(10**6), 0.0
    monkeypatch.setattr(intercept, "time", types.SimpleNamespace(monotonic=lambda: now))

    def endless(method, path, query):
        nonlocal now
        now += 10
        if len(stub.asked) > 100:
            return 500, {}, b""
        href = f"http://x/?marker={next(numbers)}"
        return 200, {}, json.dumps({"deletions": [], "links": [{"rel": "next", "href": href}]}).encode()

    stub.answer = endless
    assert ask(stub.url, DOMAIN, timeout=60).status == 503
    assert len(stub.asked) == 6


def test_a_user_who_may_not_list_the_deletions_below_may_not_delete_the_domain(stub):
    stub.says(403, error(403, "forbidden"))
    assert ask(stub.url, DOMAIN).status == 403


def test_of_very_many_deletions_the_first_are_named(stub):
    pages(stub, [deletion(f"child-{number}") for number in range(30)], 7)
    message = ask(stub.url, DOMAIN).body["error"]["message"]
    assert message.count("(deletion ") == 10
    assert "and 20 more" in message


# -------------------------------------------------------------------------------------------------- the final delete
@pytest.mark.parametrize(
    ("own", "user_id", "header", "final"),
    [
        ("o", "o", "d1", True),
        ("o", "admin", "d1", False),
        ("o", None, "d1", False),
        ("o", "o", None, False),
        ("o", "o", "", False),
        ("", "", "d1", False),
        ("", None, "d1", False),
    ],
)
def test_the_final_delete_needs_the_user_of_the_orchestrator_and_the_header(own, user_id, header, final):
    assert Settings(user_id=own).is_final(user_id, header) is final


# ------------------------------------------------------------------------------------------------------- the options
def configured(tmp_path, **options):
    path = tmp_path / "keystone.conf"
    path.write_text("\n".join([f"[{protocol.GROUP}]", *(f"{name} = {value}" for name, value in options.items())]))
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(path)], project="keystone")
    return pipeline.settings(conf)


def test_nothing_configured_means_off(tmp_path):
    assert configured(tmp_path) == Settings()
    assert Settings().intercept == "off"


def test_every_option_arrives(tmp_path):
    options = {"intercept": "opt-in", "endpoint": "https://c:8790/x", "default_mode": "cascade", "timeout": 3.5}
    options |= {"cafile": "/etc/ca.pem", "user_id": "u1"}
    assert configured(tmp_path, **options) == Settings(**options)
    assert {field.name for field in dataclasses.fields(Settings)} == set(options)


@pytest.mark.parametrize("setting", ["opt-in", "always"])
@pytest.mark.parametrize("missing", ["endpoint", "user_id"])
def test_what_is_required_stops_the_start_and_is_named(tmp_path, setting, missing):
    options = {"intercept": setting, "endpoint": "http://c", "user_id": "u1"}
    del options[missing]
    with pytest.raises(intercept.ConfigurationError, match=rf"\[project_cleanup\] {missing}"):
        configured(tmp_path, **options)


@pytest.mark.parametrize(
    ("name", "value"),
    [("intercept", "yes"), ("endpoint", "c:8790"), ("default_mode", "force"), ("timeout", "0"), ("timeout", "soon")],
)
def test_a_value_that_it_cannot_have_stops_the_start(tmp_path, name, value):
    options = {"intercept": "always", "endpoint": "http://c", "user_id": "u1"} | {name: value}
    with pytest.raises((ValueError, intercept.ConfigurationError), match=name):
        configured(tmp_path, **options)
