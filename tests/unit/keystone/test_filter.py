"""Which paths the filter takes for a project's or a domain's, against the router that Keystone has."""

import configparser
import importlib
import urllib.parse
from pathlib import Path

import pytest
import webob
from hypothesis import example, given, settings
from hypothesis import strategies as st
from werkzeug import exceptions, routing

from cleanup_orchestrator.keystone import filter as filtering
from cleanup_orchestrator.keystone import intercept
from cleanup_orchestrator.keystone.filter import Route, Unclear, read
from tests.support.cases import each_case
from tests.support.examples import examples

ROOT = Path(__file__).parents[3]
ID = "6f1f00aa11bb22cc33dd44ee55ff6677"
OPTIONS = {"intercept": "always", "endpoint": "http://127.0.0.1:1", "user_id": "orchestrator", "timeout": "2"}

#: Keystone's own rules below which something has an id; flask-restful adds nothing to them.
MAP = routing.Map(
    [
        routing.Rule("/v3/projects", endpoint="projects"),
        routing.Rule("/v3/projects/<string:project_id>", endpoint="project"),
        routing.Rule("/v3/projects/<string:project_id>/tags", endpoint="tags"),
        routing.Rule("/v3/projects/<string:project_id>/tags/<string:value>", endpoint="tag"),
        routing.Rule("/v3/projects/<string:project_id>/users/<string:user_id>/roles", endpoint="grants"),
        routing.Rule("/v3/domains/<string:domain_id>", endpoint="domain"),
        routing.Rule("/v3/domains/<string:domain_id>/config", endpoint="config"),
        routing.Rule("/v3/users/<string:user_id>/projects", endpoint="users"),
    ]
)


def routed(path):
    """Return what Keystone would delete for a path as WSGI has it: (kind, id); or nothing."""
    text = path.encode("latin-1", "replace").decode("utf-8", "replace")
    if len(text) > 1:
        text = text.rstrip("/")  # keystone's URLNormalizingMiddleware
    for _ in range(3):  # a client follows the redirect to merged slashes
        try:
            endpoint, values = MAP.bind("keystone").match(text or "/", method="DELETE")
        except routing.RequestRedirect as redirect:
            text = urllib.parse.unquote(urllib.parse.urlsplit(redirect.new_url).path)
            continue
        except exceptions.HTTPException:
            return None
        if endpoint in ("project", "domain"):
            return endpoint, *values.values()
        return None
    raise AssertionError("redirects without end")


def seen(path):
    """Return what the filter sees: (kind, id), nothing, or that it refuses to say."""
    try:
        route = read(path)
    except Unclear:
        return "unclear"
    return (route.kind, route.id) if route else None


# ------------------------------------------------------------------------------------------------------------ the path
@pytest.mark.parametrize(
    "path",
    [
        f"/v3/projects/{ID}",
        f"/v3/projects/{ID}/",
        f"/v3/projects/{ID}///",
        f"//v3///projects//{ID}//",
        f"v3/projects/{ID}",
    ],
)
def test_a_plain_path_is_the_projects(path):
    assert read(path) == Route("project", ID)


@pytest.mark.parametrize("prefix", ["/identity", "/a/b", "/keystone/main/", "/v3"])
def test_what_stands_before_the_version_does_not_matter(prefix):
    before = tuple(part for part in prefix.split("/") if part)
    assert read(f"{prefix}/v3/projects/{ID}") == Route("project", ID, before)
    assert read(f"{prefix}/v3/domains/default") == Route("domain", "default", before)


@each_case(
    "path",
    [
        "",
        "/",
        "/v3",
        "/v3/projects",
        "/v3/projects/",
        f"/v3/projects/{ID}/tags",
        f"/v3/projects/{ID}/tags/a;b",
        f"/v3/projects/{ID}/tags/100%25",
        f"/v3/projects/{ID}/tags/what?",
        f"/v3/projects/{ID}/tags/#1",
        f"/v3/projects/{ID}/tags/a b",
        f"/v3/projects/{ID}/tags/gr\u00c3\u00bcn",
        f"/v3/projects/{ID}/users/u/roles/r",
        f"/v3/Projects/{ID}",
        f"/V3/projects/{ID}",
        f"/v2.0/tenants/{ID}",
        f"/v3/users/{ID}",
        f"/v3/users/{ID}/projects",
        f"/v3/OS-EP-FILTER/projects/{ID}/endpoints/e",
        f"/v3/domains/{ID}/config",
        "/v3/domains/",
    ],
)
def test_the_filter_ignores_other_paths(path):
    assert read(path) is None


@each_case(
    "path",
    [
        f"/v3/%70rojects/{ID}",
        f"/v3/%2570rojects/{ID}",
        f"/v3/projects%2F{ID}",
        f"/v3/projects%252F{ID}",
        f"/v3/projects/{ID}%2F",
        f"/v3/projects/{ID}/tags/%2e%2e",
        f"/v3/projects/{ID}/tags/..",
        f"/v3/projects/{ID}/tags//..",
        f"/v3/projects/{ID}/.",
        f"/v3/./projects/{ID}",
        f"/v3/users/../projects/{ID}",
        f"/v3/projects/{ID};v=1",
        f"/v3/projects;v=1/{ID}",
        f"/v3;v=1/projects/{ID}",
        f"/v3/projects/{ID}/;v=1",
        f"/v3/projects/{ID}/tags/..;/",
        f"/v3/projects/{ID}?x/tags/y",
        f"/v3/projects/{ID}#/tags/y",
        f"/v3/projects\\{ID}",
        f"/v3/projects/{ID}\\",
        f"/v3/projects/{ID}/tags\\..",
        f"/v3/projects/{ID}\x00",
        f"/v3/projects/{ID}\n",
        f"/v3/pro\tjects/{ID}",
        f"/v3/projects/ {ID}",
        f"/v3/projects/{ID}\xff",
        "/v3/projects/" + "x" * 65,
        "/v3/projects/..%252f",
        "/v3/projects/" + "%2525252525252525" + "70",
    ],
)
def test_a_path_that_may_be_a_projects_is_refused(path):
    with pytest.raises(Unclear):
        read(path)


PIECES = st.sampled_from(
    [
        *("v3", "projects", "domains", "users", "tags", "config", ID, "default", "x", "V3", "v3%2Fprojects"),
        *("", ".", "..", "%2e", "%2e%2e", "%2E.", ";", "..;", "\\", "?", "#", "%2F", "%252F", "%5c", "%3F", "\xff"),
        *("%70rojects", "%2570rojects", "projects;a=b", "projects%00", "pro\njects"),
        *(f"{ID};x", f"{ID}%2F", f"{ID}\x00", f"{ID} ", f"{ID}?", f"{ID}#x"),
    ]
)
FREE = st.text(st.characters(max_codepoint=255), max_size=6)
PATHS = st.builds(
    lambda parts, separators: "".join(s + p for s, p in zip(separators, parts)),
    st.lists(st.one_of(PIECES, PIECES, PIECES, FREE), min_size=1, max_size=8),
    st.lists(st.sampled_from(["/", "/", "/", "//", "\\", "/./"]), min_size=8, max_size=8),
)
DELETES = st.builds(
    lambda prefix, kind, id_, end: f"{prefix}/{kind}/{id_}{end}",
    st.sampled_from(["/v3", "//v3", "/v3/", "/v3//", "/x/../v3", "/%763"]),
    st.sampled_from(["projects", "domains", "projects;a", "%70rojects"]),
    st.one_of(PIECES, FREE),
    st.sampled_from(["", "/", "//", "/.", "/..", ";", "%2F", "/tags", "/tags/..", "/tags/%2e%2e"]),
)


@settings(max_examples=examples(150))
@given(st.one_of(PATHS, DELETES))
@example(f"/v3/projects/{ID}/")
@example(f"//v3//domains/{ID}")
@example("/v3/projects/\xff")
@example("/v3/projects/a b")
def test_the_filter_reads_every_delete_as_the_router_of_keystone_or_refuses_it(path):
    wanted = routed(path)
    if wanted is not None:
        assert seen(path) in (wanted, "unclear")


@settings(max_examples=examples(150))
@given(st.one_of(PATHS, DELETES), st.integers(0, 3))
def test_what_the_filter_lets_through_stays_harmless_however_often_it_is_decoded(path, times):
    if seen(path) is None:
        for _ in range(times):
            path = urllib.parse.unquote(path, encoding="latin-1")
        assert routed(path) is None


@settings(max_examples=examples(150))
@given(st.one_of(PATHS, DELETES))
def test_no_other_project_is_taken_than_the_one_that_the_router_takes(path):
    found = seen(path)
    if isinstance(found, tuple):
        assert routed(path) in (found, None)


@pytest.mark.parametrize("path", [f"/v3/projects/{ID}", f"//v3/projects/{ID}/", "/v3/domains/default"])
def test_the_router_of_these_tests_does_route_deletes(path):
    assert routed(path) == seen(path)
    assert routed(path) is not None


# ------------------------------------------------------------------------------------------------------ the middleware
class Keystone:
    """What stands behind: it shows one project and one domain, and notes what reaches it."""

    def __init__(self, **changed):
        self.project = {"id": ID, "name": "demo", "domain_id": "default", "is_domain": False, "options": {}} | changed
        self.asked, self.deleted, self.broken = [], [], False
        self.owner = "somebody"

    def __call__(self, environ, start_response):
        request = webob.Request(environ)
        self.asked.append((request.method, environ.get("SCRIPT_NAME", ""), request.path_info, request.query_string))
        if self.broken:
            raise ConnectionError("no Keystone")
        if request.method == "DELETE":
            self.deleted.append(request.path)
            return webob.Response(status=204)(environ, start_response)
        known = {
            f"/v3/projects/{ID}": {"project": self.project},
            "/v3/domains/default": {"domain": {"id": "default", "name": "Default"}},
            "/v3/auth/tokens": {"token": {"user": {"id": self.owner}}},
        }
        path = "/v3" + (request.script_name + request.path_info).partition("/v3")[2]
        if request.headers.get("X-Auth-Token") != "good":
            return self.error(401, environ, start_response)
        if path == "/v3/auth/tokens" and request.headers.get("X-Subject-Token") != "good":
            return self.error(404, environ, start_response)
        if path not in known:
            return self.error(404, environ, start_response)
        return webob.Response(json_body=known[path])(environ, start_response)

    @staticmethod
    def error(status, environ, start_response):
        body = {"error": {"code": status, "title": "stock", "message": "stock"}}
        return webob.Response(json_body=body, status=status)(environ, start_response)


def delete(application, path, method="DELETE", script="", token="good", **headers):
    request = webob.Request.blank("/", method="POST" if method == "delete" else method)
    request.environ.update(REQUEST_METHOD=method, SCRIPT_NAME=script, PATH_INFO=path)
    request.headers["X-Auth-Token"] = token
    request.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    response = request.get_response(application)
    return response


def filtered(keystone, **changed):
    return filtering.filter_factory({}, **(OPTIONS | changed))(keystone)


@pytest.mark.parametrize("method", ["DELETE", "delete", "Delete"])
def test_an_unclear_path_is_refused_and_not_forwarded(method):
    keystone = Keystone()
    answer = delete(filtered(keystone), f"/v3/projects/{ID}/tags/..", method)
    assert (answer.status_int, answer.json["error"]["code"]) == (400, 400)
    assert keystone.asked == []


@pytest.mark.parametrize("method", ["GET", "PATCH", "POST", "PUT", "HEAD", "OPTIONS"])
def test_the_filter_handles_only_deletes(method):
    keystone = Keystone()
    delete(filtered(keystone), f"/v3/projects/{ID};x", method)
    assert [asked[0] for asked in keystone.asked] == [method]


@pytest.mark.parametrize("intercept_", ["always", "opt-in"])
def test_a_keystone_that_fails_means_503_and_no_delete(intercept_):
    keystone = Keystone()
    keystone.broken = True
    answer = delete(filtered(keystone, intercept=intercept_), f"/v3/projects/{ID}")
    assert answer.status_int == 503
    assert keystone.deleted == []


def test_an_orchestrator_that_is_not_there_means_503_and_no_delete():
    keystone = Keystone()
    answer = delete(filtered(keystone), f"/v3/projects/{ID}")
    assert (answer.status_int, answer.json["error"]["code"]) == (503, 503)
    assert keystone.deleted == []


def test_with_opt_in_a_plain_delete_goes_on_to_keystone():
    keystone = Keystone()
    assert delete(filtered(keystone, intercept="opt-in"), f"/v3/projects/{ID}").status_int == 204
    assert keystone.deleted == [f"/v3/projects/{ID}"]


def test_a_fenced_project_is_not_deleted_past_its_deletion():
    keystone = Keystone(options={"cleanup_fence": "d1"})
    answer = delete(filtered(keystone, intercept="opt-in"), f"/v3/projects/{ID}")
    assert (answer.status_int, "d1" in answer.json["error"]["message"]) == (409, True)
    assert keystone.deleted == []


@pytest.mark.parametrize(
    "shown", [{"id": "another"}, {"id": None}, {"subtree": {"child": None}}, {"is_domain": True}, {"options": None}]
)
def test_what_cannot_be_known_for_certain_is_not_deleted(shown):
    """Another project's answer; and where the orchestrator has to be asked and does not answer."""
    keystone = Keystone(**shown)
    answer = delete(filtered(keystone), f"/v3/projects/{ID}")
    assert answer.status_int == 503
    assert keystone.deleted == []


@pytest.mark.parametrize(
    ("shown", "status"), [({"id": "another"}, 503), ({"id": None}, 503), ({"options": {"immutable": True}}, 403)]
)
def test_a_delete_that_is_not_handed_over_passes_for_the_project_that_keystone_shows_only(shown, status):
    keystone = Keystone(**shown)
    answer = delete(filtered(keystone, intercept="opt-in"), f"/v3/projects/{ID}")
    assert (answer.status_int, keystone.deleted) == (status, [])


@pytest.mark.parametrize(
    ("script", "path", "asked"),
    [
        ("", f"/v3/projects/{ID}", f"/v3/projects/{ID}"),
        ("", f"/identity/v3/projects/{ID}/", f"/identity/v3/projects/{ID}"),
        ("/identity", f"/v3/projects/{ID}", f"/v3/projects/{ID}"),
        ("/v3", f"/projects/{ID}", f"/projects/{ID}"),
    ],
)
def test_keystone_is_called_at_its_mount_point(script, path, asked):
    keystone = Keystone()
    delete(filtered(keystone, intercept="opt-in"), path, script=script)
    assert keystone.asked[0] == ("GET", script, asked, "subtree_as_ids")
    assert len(keystone.deleted) == 1


@pytest.mark.parametrize(
    ("owner", "token", "header", "passes"),
    [
        ("orchestrator", "good", "d1", True),
        ("somebody", "good", "d1", False),
        ("orchestrator", "good", "", False),
        ("orchestrator", "good", None, False),
        ("orchestrator", "bad", "d1", False),
        ("orchestrator", "", "d1", False),
    ],
)
def test_the_final_delete_passes_only_by_the_token_that_keystone_validated(owner, token, header, passes):
    keystone = Keystone()
    keystone.owner = owner
    headers = {} if header is None else {"X_Project_Cleanup_Final": header}
    answer = delete(filtered(keystone), f"/v3/projects/{ID}", token=token, **headers)
    assert (answer.status_int == 204) == passes
    assert (keystone.deleted != []) == passes


def test_a_token_that_keystone_refuses_gets_the_answer_of_keystone():
    keystone = Keystone()
    answer = delete(filtered(keystone), f"/v3/projects/{ID}", token="bad")
    assert (answer.status_int, answer.json["error"]["title"]) == (401, "stock")


def test_off_adds_no_filter():
    keystone = Keystone()
    assert filtering.filter_factory({}, intercept="off")(keystone) is keystone


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"intercept": "allways"}, "intercept"),
        ({"endpoint": ""}, "endpoint"),
        ({"endpoint": "cleanup.example.com"}, "endpoint"),
        ({"user_id": ""}, "user_id"),
        ({"default_mode": "everything"}, "default_mode"),
        ({"timeout": "soon"}, "timeout"),
        ({"timeout": "0"}, "timeout"),
        ({"timeout": "nan"}, "timeout"),
        ({"endpiont": "http://x"}, "endpiont"),
    ],
)
def test_options_that_cannot_be_worked_with_stop_the_start_and_are_named(changed, named):
    with pytest.raises(intercept.ConfigurationError, match=named):
        filtering.filter_factory({}, **(OPTIONS | changed))


def test_the_section_of_the_sample_is_one_that_works():
    sample = configparser.ConfigParser(delimiters=("=",))
    sample.read(ROOT / "etc" / "keystone-paste-fragment.ini")
    (section,) = sample.sections()
    options = dict(sample[section])
    distribution, _, name = options.pop("use").removeprefix("egg:").partition("#")
    setup = configparser.ConfigParser(delimiters=("=",))
    setup.read(ROOT / "setup.cfg")
    assert distribution == setup["metadata"]["name"]
    points = dict(
        line.split(" = ") for line in setup["options.entry_points"]["paste.filter_factory"].strip().splitlines()
    )
    module, _, function = points[name].partition(":")
    factory = getattr(importlib.import_module(module), function)
    assert isinstance(factory({}, **options)(Keystone()), filtering.Filter)
