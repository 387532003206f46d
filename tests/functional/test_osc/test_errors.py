"""Every error is one line that says what to do, and exit code 1."""

import json
import os
import socket
import subprocess
import sys

import openstack as openstacksdk
import pytest

from cleanup_orchestrator import sdk
from cleanup_orchestrator.sdk import proxy
from tests.functional.test_osc import stub

LIST = ("project", "deletion", "list")
DELETIONS = "/cleanup/v1/deletions"
HTML_404 = "<html><head><title>404</title></head><body><h1>Not Found</h1></body></html>"


def one_error(result):
    assert result.code == 1
    assert result.out == ""
    (line,) = result.err.splitlines()
    return line


@pytest.mark.parametrize(
    ("status", "answer", "expected"),
    [
        (
            401,
            {"error": {"code": 401, "title": "Unauthorized", "message": "The request requires authentication."}},
            f"The request requires authentication (HTTP 401, {stub.REQUEST_ID}): the token is not valid, log in again",
        ),
        (
            403,
            {"error": {"message": "Policy does not allow that."}},
            f"Policy does not allow that (HTTP 403, {stub.REQUEST_ID}): "
            "use the admin role, or the manager role on the project's domain",
        ),
        (
            404,
            HTML_404,
            f"HOST answered Not Found (HTTP 404, {stub.REQUEST_ID}): "
            "this is not the project-cleanup API, check its endpoint in the catalog",
        ),
        (
            503,
            "<html><body>Critical keystone service is unavailable</body></html>",
            f"HOST answered Critical keystone service is unavailable (HTTP 503, {stub.REQUEST_ID}): "
            "the project-cleanup API or Keystone is down, try again later",
        ),
        (500, {}, f"HOST answered Internal Server Error (HTTP 500, {stub.REQUEST_ID})"),
        (400, {"errors": []}, f"HOST answered Bad Request (HTTP 400, {stub.REQUEST_ID})"),
        (400, [1], f"HOST answered Bad Request (HTTP 400, {stub.REQUEST_ID})"),
    ],
)
def test_what_something_in_front_of_the_api_answers(openstack, stub_cloud, status, answer, expected):
    stub_cloud.answers["GET", DELETIONS] = [(status, answer, {})]
    assert one_error(openstack(*LIST)) == expected.replace("HOST", stub_cloud.url.removeprefix("http://"))


def test_an_error_in_the_format_of_the_api(openstack, stub_cloud):
    stub_cloud.answers["GET", DELETIONS] = [
        stub_cloud.error(400, "bad_sort", "There is no key 'x' to sort by.\nTry\x1b[1m id.")
    ]
    expected = f"There is no key 'x' to sort by. Try?[1m id (HTTP 400, bad_sort, {stub.REQUEST_ID})"
    assert one_error(openstack(*LIST, "--sort", "x")) == expected


def test_a_request_above_a_limit(openstack, stub_cloud):
    """One line with the way out, and no repetition by the client."""
    detail = "50 deletions are under way, and [api] live_per_requester is 50: wait for the end of some or cancel some"
    status, answer, _headers = stub_cloud.error(429, "deletion_limit_reached", detail, limit=50)
    stub_cloud.answers["POST", DELETIONS] = [(status, answer, {"Retry-After": "60"})]
    stub_cloud.add_project("demo")
    result = openstack("project", "delete", "--async", "demo")
    assert f"{detail} (HTTP 429, deletion_limit_reached, {stub.REQUEST_ID})" in one_error(result)
    assert len(stub_cloud.made("POST", DELETIONS)) == 1


@pytest.mark.parametrize("command", ["show", "leftovers", "events"])
def test_an_id_that_does_not_exist(openstack, command):
    for text in ("a/../b", "0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11"):
        assert one_error(openstack("project", "deletion", command, text)) == (
            f"no deletion and no project has the name or ID '{text}'. "
            "List the deletions with: openstack project deletion list"
        )


@pytest.mark.parametrize("answer", ["<html>Welcome to nginx</html>", [], {"deletions": 5}, {"other": []}])
def test_something_else_answers_at_the_endpoint(openstack, stub_cloud, answer):
    stub_cloud.answers["GET", DELETIONS] = [(200, answer, {})]
    assert one_error(openstack(*LIST)) == (
        f"{stub_cloud.url}/cleanup/v1 does not answer like the project-cleanup API: "
        "check the endpoint in the catalog or OS_PROJECT_CLEANUP_ENDPOINT_OVERRIDE"
    )


def test_not_in_the_catalog(openstack, stub_cloud):
    stub_cloud.catalog = False
    stub_cloud.add_project("demo")
    missing = (
        "the catalog has no public endpoint of type project-cleanup in region RegionOne: register one "
        "('openstack service create project-cleanup', then 'openstack endpoint create'), "
        "or set OS_PROJECT_CLEANUP_ENDPOINT_OVERRIDE to its URL"
    )
    assert one_error(openstack(*LIST)) == missing
    expected = f"Cannot delete project 'demo': {missing}"
    assert one_error(openstack("project", "delete", "--async", "demo")) == expected
    assert not stub_cloud.made("DELETE")


@pytest.mark.parametrize("path", ["/cleanup", "/cleanup/", "/cleanup/v1", "/cleanup/v1/"])
def test_endpoint_override_without_a_catalog_entry(openstack, stub_cloud, monkeypatch, path):
    stub_cloud.catalog = False
    id_ = stub_cloud.add_deletion(stub_cloud.add_project("demo"), "deleted")
    monkeypatch.setenv("OS_PROJECT_CLEANUP_ENDPOINT_OVERRIDE", stub_cloud.url + path)
    result = openstack(*LIST, "-f", "value", "-c", "ID")
    assert (result.code, result.out) == (0, f"{id_}\n")


def test_endpoint_override_with_clouds_yaml(openstack, stub_cloud, env, monkeypatch):
    """openstacksdk alone would not read the variable while a cloud is chosen."""
    stub_cloud.catalog = False
    auth = {"auth_url": env["OS_AUTH_URL"], "username": "admin", "password": "x", "project_name": "admin"}
    auth |= {"user_domain_id": "default", "project_domain_id": "default"}
    with open(env["OS_CLIENT_CONFIG_FILE"], "w") as file:
        json.dump({"clouds": {"here": {"auth": auth, "region_name": "RegionOne"}}}, file)
    for name in env:
        if name.startswith("OS_") and name != "OS_CLIENT_CONFIG_FILE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("OS_CLOUD", "here")
    assert openstack(*LIST).code == 1
    monkeypatch.setenv("OS_PROJECT_CLEANUP_ENDPOINT_OVERRIDE", stub_cloud.url + "/cleanup")
    assert openstack(*LIST).code == 0


def test_no_answer_at_all(openstack, stub_cloud, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("OS_PROJECT_CLEANUP_ENDPOINT_OVERRIDE", f"http://127.0.0.1:{port}")
    expected = f"no answer from http://127.0.0.1:{port}/v1: [Errno 111] Connection refused"
    assert one_error(openstack(*LIST)) == expected


def test_an_answer_that_does_not_come(openstack, monkeypatch):
    monkeypatch.setattr(proxy.Proxy, "call_timeout", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("OS_PROJECT_CLEANUP_ENDPOINT_OVERRIDE", url)
        assert one_error(openstack(*LIST)) == f"no answer from {url}/v1: the connection timed out"


def test_not_tls_at_the_other_end(openstack, stub_cloud, monkeypatch):
    url = stub_cloud.url.replace("http:", "https:")
    monkeypatch.setenv("OS_PROJECT_CLEANUP_ENDPOINT_OVERRIDE", url)
    line = one_error(openstack(*LIST))
    assert line.startswith(f"the TLS connection to {url}/v1 failed: [SSL")


def test_the_version_option(openstack, stub_cloud):
    assert openstack("--os-project-cleanup-api-version", "1.0", *LIST).code == 0
    result = openstack("--os-project-cleanup-api-version", "7", *LIST)
    assert "version 7 is not in supported versions: 1, 1.0" in result.err


def test_the_token_goes_to_the_endpoint_only(openstack, stub_cloud):
    demo = stub_cloud.add_project("demo")
    for _ in range(5):
        stub_cloud.add_deletion(demo, "deleted")
    assert openstack(*LIST).code == 0
    assert all(r["token"] == "the-token" for r in stub_cloud.requests if r["path"].startswith("/cleanup"))


def test_paging_that_goes_round_in_circles_ends(openstack, stub_cloud):
    link = [{"rel": "next", "href": "http://x/v1/deletions?marker=1"}]
    row = stub.deletion(stub_cloud.admin, id="1")
    stub_cloud.answers["GET", DELETIONS] = [(200, {"deletions": [row], "links": link}, {})]
    assert openstack(*LIST).code == 0


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("deletion list", "deletions"),
        ("deletion lien list", "liens"),
        ("deletion waiver list", "waivers"),
        ("orphan scan list", "orphan-scans"),
        ("orphan project list --scan s", "orphan-scans/s/projects"),
        (f"deletion plan resources {stub.PLAN_ID}", f"plans/{stub.PLAN_ID}/resources"),
    ],
)
def test_a_list_that_breaks_off_is_not_shown(openstack, stub_cloud, command, path):
    """A script would take the first page for the whole list."""
    row = {"id": "1", "project_id": "1"}
    page = {key: [row] for key in ("deletions", "liens", "waivers", "orphan_scans", "projects", "resources")}
    page["links"] = [{"rel": "next", "href": "http://x/?marker=1"}]
    stub_cloud.answers["GET", f"/cleanup/v1/{path}"] = [(200, page, {}), stub_cloud.error(503, "down", "down")]
    assert "down (HTTP 503" in one_error(openstack("project", *command.split(), "-f", "value"))


def test_sdk_service_description(stub_cloud, env):
    """A program may add the service to its connection."""
    id_ = stub_cloud.add_deletion(stub_cloud.add_project("demo"), "deleted")
    with openstacksdk.connect(load_yaml_config=False) as connection:
        connection.add_service(sdk.DESCRIPTION)
        assert connection.project_cleanup.get_deletion(id_)["id"] == id_
        assert [d["id"] for d in proxy.from_connection(connection).deletions()] == [id_]


def test_the_plugin_is_light(env):
    """osc imports the plugin for every command there is."""
    code = (
        "import sys, openstackclient.shell; "
        "import cleanup_orchestrator.osc.plugin;"
        "print([m for m in sys.modules if m.startswith('cleanup_orchestrator') and m.count('.') > 0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, timeout=180)
    assert done.stdout == "['cleanup_orchestrator.osc', 'cleanup_orchestrator.osc.plugin']\n"


def test_the_plugin_needs_nothing_of_the_service(env):
    """It imports only what the extra ``osc`` installs, and no library of the server."""
    code = (
        "import sys\n"
        "class No:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        top = name.partition('.')[0]\n"
        "        if top in ('sqlalchemy', 'alembic', 'oslo_messaging', 'oslo_db', 'pecan', 'oslo_policy', 'oslo_log',\n"
        "                   'keystonemiddleware', 'oslo_context', 'oslo_middleware', 'waitress'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, No())\n"
        "import cleanup_orchestrator.osc.deletion, cleanup_orchestrator.osc.project_delete\n"
        "import cleanup_orchestrator.osc.service, cleanup_orchestrator.osc.plugin\n"
        "print('fine')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, timeout=180)
    assert done.stdout == "fine\n", done.stderr


@pytest.mark.parametrize(
    ("code", "expected"), [("invalid_query", 2), ("invalid_body", 2), ("not_in_catalog", 2), ("not_waivable", 1)]
)
def test_a_value_that_only_the_api_can_check_is_a_wrong_command_line(openstack, stub_cloud, code, expected):
    stub_cloud.answers["GET", DELETIONS] = [stub_cloud.error(400, code, "'sort' must be a key")]
    result = openstack(*LIST, "--sort", "x")
    assert (result.code, result.out, len(result.err.splitlines())) == (expected, "", 1)


def test_a_wrong_value_in_one_of_several_requests_is_a_wrong_command_line(openstack, stub_cloud):
    ids = [stub_cloud.add_deletion(stub_cloud.add_project(name), "leftovers") for name in ("one", "two")]
    stub_cloud.answers["POST", f"{DELETIONS}/{ids[0]}/retry"] = [stub_cloud.error(400, "invalid_body", "no")]
    result = openstack("project", "deletion", "retry", *ids)
    assert result.code == 2 and "2 of 2 requests failed" in result.err
