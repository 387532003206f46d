"""The command `cleanup-orchestrator-manage protocol check`: arguments, exit codes, output, and what it may write.

Keystone is a small one of the test, which issues the tokens that the services of `tests.support.liars` know.
"""

import io
import json

import pytest

from cleanup_orchestrator.cmd import manage, protocol_check
from cleanup_orchestrator.errors import WriteRefused
from cleanup_orchestrator.protocol.documents import PATH
from tests.support import liars
from tests.support.liars import MEMBER_TOKEN, OTHER, PROJECT, SERVICE_TOKEN, Lie, filled

pytestmark = pytest.mark.usefixtures("no_retries")

USERS = {"widgets": SERVICE_TOKEN, "demo": MEMBER_TOKEN, "root": "token-of-an-admin"}
TOKENS = {**liars.TOKENS, USERS["root"]: liars.Identity(frozenset({"admin", "service"}), OTHER)}


class Keystone:
    """Issues a token for each user, with a catalog."""

    def __init__(self, before=()):
        self.endpoint, self.before = "", before

    def __call__(self, environ, start_response):
        body = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        name = body["auth"]["identity"]["password"]["user"]["name"]
        identity = TOKENS[USERS[name]]
        root = self.endpoint.removesuffix("/storage")
        urls = [*((type_, root + path) for type_, path in self.before), (liars.SERVICE_TYPE, self.endpoint)]
        catalog = [{"type": type_, "name": "", "endpoints": [self.public(url)]} for type_, url in urls]
        token = {
            "expires_at": "2999-01-01T00:00:00.000000Z",
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "methods": ["password"],
            "user": {"id": name, "name": name, "domain": {"id": "default", "name": "Default"}},
            "project": {"id": identity.project_id, "name": "p", "domain": {"id": "default", "name": "Default"}},
            "roles": [{"id": role, "name": role} for role in identity.roles],
            "catalog": catalog,
        }
        start_response("201 Created", [("X-Subject-Token", USERS[name]), ("Content-Type", "application/json")])
        return [json.dumps({"token": token}).encode()]

    @staticmethod
    def public(url):
        return {"id": "1", "interface": "public", "region": "r", "region_id": "r", "url": url}


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Return a function that runs the command against a service and returns exit code, output and errors."""

    def run(service, *arguments, below="", before=()):
        keystone = Keystone(before)
        with liars.serve(keystone, endpoint="/v3") as identity, liars.serve(service) as url:
            keystone.endpoint = url
            clouds = {
                name: {
                    "auth_type": "v3password",
                    "auth": {
                        "auth_url": identity,
                        "username": name,
                        "password": "x",
                        "project_name": "p",
                        "user_domain_id": "default",
                        "project_domain_id": "default",
                    },
                }
                for name in USERS
            }
            (tmp_path / "clouds.yaml").write_text(json.dumps({"clouds": clouds}))
            monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
            code = manage.main(["protocol", "check", url + below, "--cloud", "widgets", *arguments])
        return code, *capsys.readouterr()

    return run


PROJECTS = ("--project", PROJECT, "--other-project", OTHER)


@pytest.mark.parametrize("below", ["", "/", f"/{PATH}", f"/{PATH}/"])
def test_the_url_is_the_base_or_the_endpoint(check, below):
    code, out, _err = check(filled(), below=below)
    assert code == 0
    assert out.splitlines()[0].endswith(f"/storage/{PATH}")
    assert "0 FAILED" in out.splitlines()[-1]


def test_the_output_names_each_rule_and_what_to_pass(check):
    _code, out, _err = check(filled())
    lines = [line.strip() for line in out.splitlines()]
    for number, sentence in protocol_check.RULES.items():
        assert f"{number} {sentence}" in lines
    assert any(line.startswith("not checked owner:") for line in lines)
    assert "pass --project ID with resources of each type" in lines


def test_a_whole_check_passes_and_deletes(check):
    service = filled()
    code, out, _err = check(service, *PROJECTS, "--as-member", "demo", "--delete", "--yes", "--format", "json")
    report = json.loads(out)
    assert code == 0
    assert report["summary"] == {"ok": len(report["checks"]) - 2, "FAILED": 0, "not checked": 2}
    assert {one["check"] for one in report["checks"] if one["verdict"] == "not checked"} == {
        "list-without-backend", "show-without-backend",
    }  # fmt: skip
    assert service.ids("widget", PROJECT) == []
    assert len(service.ids("widget", OTHER)) == 3


def test_the_service_type_is_that_of_the_catalog(check):
    code, out, _err = check(filled(Lie.OTHER_SERVICE), "--format", "json")
    finding = next(one for one in json.loads(out)["checks"] if one["check"] == "service-type")
    assert (code, finding["verdict"]) == (1, "FAILED")
    assert "the catalog has 'storage'" in finding["seen"]
    assert "would count for another one" in finding["harm"]


def test_a_failed_check_says_what_was_seen_and_what_it_means(check):
    code, out, _err = check(filled(Lie.NO_OWNER), *PROJECTS)
    assert code == 1
    assert "FAILED      owner: " in out
    assert f"GET /projects/{PROJECT}/widget: in the row 'widget-11-0' project_id is missing" in out
    assert "This means: " in out


WRONG = {
    "--delete without a project": (("--delete", "--yes"), "--delete needs --project ID"),
    "the same project twice": (("--project", PROJECT, "--other-project", PROJECT), "are the same project"),
    "a member with the role": (("--as-member", "widgets"), "has the role service"),
    "a cloud that does not exist": (("--as-member", "nowhere"), "cloud nowhere"),
    "--delete without a terminal": ((*PROJECTS, "--delete"), "--delete without a terminal needs --yes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_is_one_line_and_code_2(check, case, monkeypatch):
    arguments, said = WRONG[case]
    monkeypatch.setattr("sys.stdin", io.StringIO(PROJECT))
    service = filled()
    code, out, err = check(service, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert {method for method, _path in service.requests} <= {"GET"}


@pytest.mark.parametrize(
    "url", ["", "widgets.example.org", "http://", "ftp://x", "http://[::1", "http://x?y=1", "http://x#y"]
)
@pytest.mark.parametrize("before", [(), ("https://widgets.example.org", "--without-backend")])
def test_a_malformed_url_is_wrong_usage(capsys, before, url):
    with pytest.raises(SystemExit) as ended:
        manage.main(["protocol", "check", "--cloud", "widgets", *before, url])
    assert ended.value.code == 2
    assert f"{url!r} is not a URL such as https://widgets.example.org/v1" in capsys.readouterr().err


def test_the_service_type_is_that_of_the_longest_url_in_the_catalog(check):
    """Another service of the catalog has the root of the host."""
    code, out, _err = check(filled(), "--format", "json", before=[("web-site", "")])
    finding = next(one for one in json.loads(out)["checks"] if one["check"] == "service-type")
    assert (code, finding["seen"]) == (0, "GET / and the catalog name 'storage'")


@pytest.mark.parametrize("argument", ["--cloud", "--as-member"])
def test_the_token_of_an_admin_is_sent_to_no_service(check, argument):
    service = filled()
    code, _out, err = check(service, argument, "root")
    assert code == 2
    assert service.requests == [] or argument == "--as-member"
    assert "has the role admin" in err


def test_what_does_not_speak_the_protocol_is_code_2(check):
    code, _out, err = check(filled(), below="/elsewhere")
    assert code == 2
    assert f"/storage/elsewhere/{PATH}: 404" in err


class Terminal(io.StringIO):
    """What a person types."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("typed", "code"), [(f"{PROJECT}\n", 0), ("yes\n", 2), ("", 2)])
def test_a_person_confirms_with_the_id_of_the_project(check, monkeypatch, typed, code):
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    service = filled()
    assert check(service, *PROJECTS, "--delete")[0] == code
    assert bool(service.ids("widget", PROJECT)) is (code == 2)


BASE = "https://widgets.example.org/project-resources/v1"


@pytest.mark.parametrize("where", ["/projects/p/widget/1", "/drains/p"])
def test_a_write_below_the_base_is_allowed(where):
    protocol_check.below([BASE])("DELETE", BASE + where)


@pytest.mark.parametrize(
    "url", [BASE, f"{BASE}/", f"{BASE}/projects", "https://other.example.org/projects/p", f"{BASE}x/projects/p"]
)
def test_a_write_elsewhere_is_refused(url):
    with pytest.raises(WriteRefused):
        protocol_check.below([BASE])("DELETE", url)
