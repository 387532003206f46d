"""The example service of the protocol as a process, with keystonemiddleware against a real Keystone."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
import sqlite3
import urllib.parse

import pytest
import requests
from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session

from cleanup_orchestrator.cloud.catalog import AnsweredBy
from cleanup_orchestrator.cmd import manage
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.protocol import PATH
from cleanup_orchestrator.protocol.discovery import Discovery
from tests.cloud.conftest import free_port_base
from tests.cloud.orchestrator import JANITOR, SPEAKER, Orchestrator, catalogued
from tests.support.example_service import SERVICE_TYPE, ExampleService

PASSWORD = "widgets"


class Site:
    """The service, and the tokens of its callers: names of users are names of roles."""

    def __init__(self, cloud, store):
        self.cloud, self.store = cloud, store
        self.projects = {name: self.make_project(f"{name}-{secrets.token_hex(2)}") for name in ("mine", "other")}
        self.tokens = {}

    def make_project(self, name):
        return self.cloud.admin.ensure("projects", "project", {"name": name, "domain_id": "default"})

    def auth(self, role, project="mine"):
        """Return the credentials of a user that has one role in a project."""
        name, found = f"{role}-{project}", self.projects.get(project) or self.make_project(project)
        user = self.cloud.admin.ensure_user(name, PASSWORD, found["name"], (role,))
        own = {"user_id": user["id"], "password": PASSWORD, "project_id": found["id"]}
        return {"auth_url": self.cloud.auth_url, **own}

    def token(self, role, project="mine"):
        """Return the token of a user that has one role in a project."""
        if (role, project) not in self.tokens:
            self.tokens[role, project] = Session(auth=Password(**self.auth(role, project))).get_token()
        return self.tokens[role, project]

    def call(self, method, path, token=None, headers=(), url=None, **more):
        sent = dict(headers) | ({"X-Auth-Token": token} if token else {})
        return requests.request(method, (url or f"{self.store.url}/{PATH}") + path, headers=sent, timeout=60, **more)

    def ask(self, method, path):
        """Call with the token that the orchestrator uses."""
        return self.call(method, path, self.token("service", "service"))

    def create(self, kind, project="mine", **body):
        answer = self.call("POST", f"/{kind}s", self.token("member", project), url=self.store.url, json=body)
        return answer.json()[kind]["id"] if answer.status_code == 201 else answer.status_code

    def path(self, kind, id_=None, project="mine"):
        path = f"/projects/{self.projects[project]['id']}/{kind}"
        return path if id_ is None else f"{path}/{urllib.parse.quote(id_, safe='')}"

    def ids(self, kind, project="mine"):
        return [row["id"] for row in self.ask("GET", self.path(kind, project=project)).json()["resources"]]


@pytest.fixture(scope="module")
def site(cloud, tmp_path_factory):
    cloud.admin.ensure_user("widgets", PASSWORD, "service", ("admin",))
    folder = tmp_path_factory.mktemp("widgets")
    with ExampleService(free_port_base(), cloud.auth_url, folder, "widgets", PASSWORD, cancel_seconds=2) as store:
        yield Site(cloud, store)


def error(answer):
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def test_only_a_token_with_the_role_is_answered(site):
    for path in ("", site.path("widget"), site.path("widget", "x"), f"/drains/{site.projects['mine']['id']}"):
        assert site.call("GET", path).status_code == 401, path
        assert site.call("GET", path, "no-token").status_code == 401, path
        assert error(site.call("GET", path, site.token("member"))) == (403, "forbidden"), path
        assert error(site.call("GET", path, site.token("admin", "admin"))) == (403, "forbidden"), path
        assert error(site.call("DELETE", path, site.token("member"))) == (403, "forbidden"), path
    forged = {"X-Identity-Status": "Confirmed", "X-Roles": "service", "X-Project-Id": site.projects["mine"]["id"]}
    assert site.call("GET", "", headers=forged).status_code == 401
    assert error(site.call("GET", "", site.token("member"), headers=forged)) == (403, "forbidden")
    assert site.ask("GET", "").json()["service_type"] == SERVICE_TYPE


def test_it_lists_and_deletes_what_the_project_owns(site):
    widget = site.create("widget", name="wheel")
    part = site.create("part", name="rim", widget_id=widget)
    foreign = site.create("widget", project="other", name="theirs")
    assert (site.ids("widget"), site.ids("part")) == ([widget], [part])
    # Neither under the wrong project nor as a part of a path that a proxy resolves.
    assert error(site.ask("DELETE", site.path("widget", foreign))) == (404, "not-found")
    assert error(site.ask("DELETE", site.path("widget", ".."))) == (400, "bad-request")
    assert error(site.ask("DELETE", site.path("note", "") + "/")) == (400, "bad-request")
    assert error(site.ask("DELETE", site.path("widget", f"a/{widget}"))) == (404, "not-found")
    assert site.ids("widget", "other") == [foreign]
    order = site.create("order", project="other", name="their order", widget_id=widget)
    assert error(site.ask("DELETE", site.path("widget", widget))) == (409, "in-use")
    assert site.ask("GET", site.path("widget", widget)).json()["used_by"][0]["id"] == order
    assert site.ask("DELETE", site.path("order", order, "other")).status_code == 202
    while found := site.ask("GET", site.path("order", project="other")).json()["resources"]:
        assert found[0]["state"] == "deleting"
    assert site.ask("DELETE", site.path("widget", widget)).status_code == 204
    assert (site.ids("widget"), site.ids("part")) == ([], [])


def test_a_member_may_only_delete_what_the_service_acts_on_in_the_own_project(site):
    other = site.projects["other"]["id"]
    rules = [site.create("rule", name=str(n), target=other) for n in range(2)]
    note = site.create("note", name="n")
    assert error(site.call("DELETE", site.path("note", note), site.token("member"))) == (403, "forbidden")
    assert error(site.call("DELETE", site.path("note"), site.token("member"))) == (403, "forbidden")
    for method, path in (("GET", site.path("rule", rules[0])), ("DELETE", site.path("rule"))):
        assert error(site.call(method, path, site.token("member"))) == (403, "forbidden")
    stranger = site.token("member", "other")
    assert error(site.call("DELETE", site.path("rule", rules[0]), stranger)) == (403, "forbidden")
    assert site.call("DELETE", site.path("rule", rules[0]), site.token("member")).status_code == 204
    assert site.ask("DELETE", site.path("rule", rules[1])).status_code == 204
    # The author could write into the other project with no token of the two.
    assert (site.ids("rule"), site.ids("note", "other")) == ([], [])


def test_a_drained_project_gets_nothing_new_also_after_a_restart(site):
    drain = f"/drains/{site.projects['mine']['id']}"
    assert [site.ask(method, drain).status_code for method in ("PUT", "PUT")] == [204, 204]
    assert site.create("widget", name="late") == 403
    site.store.stop()
    site.store.start()
    assert site.ask("GET", drain).json()["drained"] is True
    assert site.create("widget", name="late") == 403
    assert isinstance(site.create("widget", project="other", name="x"), str)
    assert [site.ask(method, drain).status_code for method in ("DELETE", "DELETE")] == [204, 204]
    assert isinstance(site.create("widget", name="now"), str)


def test_an_unreadable_store_is_unavailable_and_not_empty(site):
    """The database is a folder for the time of the calls."""
    moved = site.store.database.with_suffix(".moved")
    site.store.database.rename(moved)
    site.store.database.mkdir()
    with contextlib.ExitStack() as stack:
        stack.callback(moved.rename, site.store.database)
        stack.callback(site.store.database.rmdir)
        assert error(site.ask("GET", site.path("widget"))) == (503, "unavailable")
        assert error(site.ask("DELETE", site.path("widget", "x"))) == (503, "unavailable")


def test_the_conformance_check_passes(site, tmp_path, monkeypatch, capsys):
    """The command of the vendor, with deletes, and with a second process whose database is gone."""
    for project in ("mine", "other"):
        for number in range(2):
            widget = site.create("widget", project, name=f"widget {number}")
            site.create("part", project, name=f"part {number}", widget_id=widget)
            site.create("order", project, name=f"order {number}", widget_id=widget)
            site.create("note", project, name=f"note {number}")
            site.create("rule", project, name=f"rule {number}", target=site.projects["other"]["id"])
    theirs = {kind: site.ids(kind, "other") for kind in ("widget", "part", "order", "note", "rule")}
    clouds = {"service": {"auth": site.auth("service", "service")}, "member": {"auth": site.auth("member")}}
    (tmp_path / "clouds.yaml").write_text(json.dumps({"clouds": clouds}))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    store = dataclasses.replace(site.store, port=free_port_base(), folder=tmp_path / "down")
    with store:
        store.database.unlink()
        store.database.mkdir()
        arguments = [
            "protocol", "check", site.store.url, "--cloud", "service", "--as-member", "member",
            "--project", site.projects["mine"]["id"], "--other-project", site.projects["other"]["id"],
            "--without-backend", store.url, "--service-type", SERVICE_TYPE,
            "--delete", "--yes", "--wait", "60", "--format", "json",
        ]  # fmt: skip
        code = manage.main(arguments)
    report = json.loads(capsys.readouterr().out)
    assert [one for one in report["checks"] if one["verdict"] != "ok"] == []
    assert code == 0
    assert {one["rule"] for one in report["checks"]} == set(range(1, 13))
    assert [site.ids(kind) for kind in theirs] == [[], [], [], [], []]
    assert {kind: site.ids(kind, "other") for kind in theirs} == theirs


# -------------------------------------------------------------------------------------------------- the orchestrator
@pytest.fixture
def orchestrator(site, cloud, tmp_path):
    """Engine and workers over a catalog with the service."""
    cloud.admin.ensure_user("speaker", "speaker", "service", ("service",))
    options = SPEAKER.format(auth_url=cloud.auth_url, service_type=SERVICE_TYPE) + JANITOR
    with catalogued(cloud, SERVICE_TYPE, site.store.url):
        made = Orchestrator(cloud, tmp_path, options)
        yield made
        made.running.close()


def rows(site, project):
    """Return the rows of a project in the service's own database."""
    with contextlib.closing(sqlite3.connect(site.store.database)) as connection:
        query = "SELECT * FROM resource WHERE project_id = ? ORDER BY id"
        return connection.execute(query, (site.projects[project]["id"],)).fetchall()


def test_a_cascade_deletes_what_the_project_owns_and_nothing_else(site, cloud, orchestrator):
    for project in ("doomed", "neighbour"):
        site.projects[project] = site.make_project(f"{project}-{secrets.token_hex(2)}")
    target = site.projects["neighbour"]["id"]
    for project in ("doomed", "neighbour"):
        widget = site.create("widget", project, name="wheel")
        site.create("part", project, name="rim", widget_id=widget)
        site.create("order", project, name="order", widget_id=widget)
        site.create("note", project, name="note")
        site.create("rule", project, name="rule", target=target)
    before = rows(site, "neighbour")
    assert (len(rows(site, "doomed")), len(before)) == (5, 5)

    parts = orchestrator.parts
    asked = Discovery(parts.conf, parts.store, parts.clouds, parts.registry)
    listed = parts.catalog.with_protocol(asked).statuses(parts.clouds.identity(parts.clouds.admin_session()))
    [widgets] = [each for each in listed if each.service_type == SERVICE_TYPE]
    assert (widgets.answered_by, set(widgets.types)) == (
        AnsweredBy.PROTOCOL, {"widget", "part", "order", "note", "rule"}
    )  # fmt: skip

    id_ = orchestrator.request(site.projects["doomed"]["id"], Mode.CASCADE)
    record = orchestrator.wait(id_)
    assert record.status is Status.DELETED, (record.message, orchestrator.blockers(id_))
    assert rows(site, "doomed") == []
    assert rows(site, "neighbour") == before, "the rule wrote nothing into it either"
    drains = [row.event for row in orchestrator.store.events(id_, 10_000) if "widget-store" in row.event.message]
    assert any(event.type == "drain.undone" for event in drains)
