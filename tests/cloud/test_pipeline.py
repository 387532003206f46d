"""The hook in a real Keystone's pipeline, and the filter before one, with the real orchestrator behind."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import openstack
import pytest
from keystoneauth1 import session as ka_session
from keystoneauth1.identity.v3 import Password
from keystoneclient.v3 import client as keystoneclient

from cleanup_orchestrator import service
from cleanup_orchestrator import store as storage
from cleanup_orchestrator.cloud.projects import ProjectNotFound, Projects
from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.keystone import protocol
from cleanup_orchestrator.store import tables
from tests.cloud import releases
from tests.cloud.conftest import ROOT, free_port_base
from tests.cloud.launcher import Cloud, answers
from tests.cloud.processes import HOST
from tests.cloud.services import Ini, Process, ini

PASSWORD = "a-password"
HOOKED = "cleanup_orchestrator.keystone.wsgi:application"
#: A Keystone with the filter before it, as an operator's own WSGI file would have it.
FILTERED = """
try:
    from keystone.wsgi.api import application as keystone
except ModuleNotFoundError:  # before release 27
    from keystone.server.wsgi import initialize_public_application
    keystone = initialize_public_application()
from cleanup_orchestrator.keystone.filter import filter_factory
application = filter_factory({{}}, **{options!r})(keystone)
"""
#: The same in a paste pipeline, before a proxy to a Keystone elsewhere.
PROXIED = """
[pipeline:main]
pipeline = cleanup_orchestrator keystone
[filter:cleanup_orchestrator]
paste.filter_factory = cleanup_orchestrator.keystone.filter:filter_factory
{options}
[app:keystone]
use = egg:Paste#proxy
address = {address}
"""
CONFIGURATION = """
[database]
connection = sqlite:///{directory}/orchestrator.sqlite
[orchestrator]
{login}
interface = public
[keystone_authtoken]
{login}
www_authenticate_uri = {auth_url}
token_cache_time = -1
[api]
host = 127.0.0.1
port = {port}
max_limit = 2
[drain]
token_cache_time = 1
[engine]
tick = 0.5
retry_cap = 2
"""
LOGIN = """auth_type = password
auth_url = {auth_url}
username = orchestrator
password = a-password
project_name = service
user_domain_id = default
project_domain_id = default"""


@dataclasses.dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def error(self) -> str:
        """Return the message of an error; it must have the format of Keystone."""
        assert set(self.body) == {"error"}
        assert set(self.body["error"]) == {"code", "title", "message"}
        assert self.body["error"]["code"] == self.status
        return self.body["error"]["message"]

    def stock(self) -> tuple[int, bytes, dict[str, str]]:
        """Return what has to be the same for all Keystone processes."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.status != 500:  # a server whose application failed sends neither
            del headers["date"], headers["x-openstack-request-id"]
        if "allow" in headers:  # a set, in another order in every process
            headers["allow"] = ", ".join(sorted(headers["allow"].split(", ")))
        return self.status, self.raw, headers


def send(url: str, method: str, path: str, token: str = "", **headers: str) -> Answer:
    """Send one request with an unchanged path, which a client library would normalize."""
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=60)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, headers=({"X-Auth-Token": token} if token else {}) | sent)
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()


class World:
    """A Keystone with the hook, set to ``always``, in front; others of the same cloud beside it."""

    def __init__(self, cloud: Cloud, api_port: int, user_id: str) -> None:
        self.cloud, self.orchestrator_id = cloud, user_id
        self.api = f"http://{HOST}:{api_port}"
        self.urls = {"always": f"http://{HOST}:{cloud.ports['keystone']}"}
        self._ports = iter(range(cloud.ports["keystone"] + 5, cloud.ports["keystone"] + 20))
        self._callers: dict[tuple[str, str], tuple[str, str]] = {}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return self.cloud.admin.call(method, path, body)

    # -- Keystones
    def options(self, **changed: object) -> dict[str, object]:
        return {"intercept": "always", "endpoint": self.api, "user_id": self.orchestrator_id, "timeout": 20} | changed

    def start(self, name: str, module: tuple[str, str], config: Ini, path: pathlib.Path) -> None:
        """Start one more Keystone over the same database, and note its URL."""
        keystone = self.cloud.site.home("keystone") / "keystone.conf"
        (path / f"{name}.conf").write_text(ini(config))
        port = next(self._ports)
        self.cloud.children.start(
            name,
            ["wsgi", "--name", name, "--port", str(port), "--threads", "4", *module],
            python=self.cloud.site.bin("python"),
            environment={
                "OS_KEYSTONE_CONFIG_FILES": f"{keystone};{path / f'{name}.conf'}",
                "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)]),
                "PYTHONWARNINGS": "ignore",
            },
        )
        self.urls[name] = f"http://{HOST}:{port}"

    def wait(self) -> None:
        deadline = time.monotonic() + 180
        for name, url in self.urls.items():
            while not answers(Process(name, (), int(url.rpartition(":")[2]))):
                assert time.monotonic() < deadline, f"{name} did not start; see {self.cloud.log(name)}"
                self.cloud.check()
                time.sleep(0.1)

    # -- who
    def token(self, name: str, scope: Any, password: str = PASSWORD) -> str:
        user = {"name": name, "domain": {"id": "default"}, "password": password}
        identity = {"methods": ["password"], "password": {"user": user}}
        body = {"auth": {"identity": identity, "scope": scope}}
        _, headers = self.cloud.admin._send("POST", f"{self.cloud.auth_url}/auth/tokens", body, {})
        return headers["X-Subject-Token"]

    def user(self, name: str, role: str, target: str) -> str:
        """A user of the default domain with a role on /projects/ID or /domains/ID; the id."""
        attributes = {"name": name, "password": PASSWORD, "domain_id": "default"}
        user_id = self.cloud.admin.ensure("users", "user", attributes, domain_id="default")["id"]
        role_id = self.cloud.admin.ensure("roles", "role", {"name": role})["id"]
        self.call("PUT", f"{target}/users/{user_id}/roles/{role_id}")
        return user_id

    def caller(self, who: str, project_id: str = "") -> tuple[str, str]:
        """Return the user id and the token of a kind of caller."""
        if (who, project_id) not in self._callers:
            self._callers[who, project_id] = self._caller(who, project_id)
        return self._callers[who, project_id]

    def _caller(self, who: str, project_id: str) -> tuple[str, str]:
        if who == "no token":
            return "", ""
        if who == "bad token":
            return "", "gAAAAABnot-a-token"
        if who == "admin":
            user = self.call("GET", "/users?name=admin")["users"][0]["id"]
            scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
            return user, self.token("admin", scope, self.cloud.site.password)
        if who == "domain manager":
            return self.user("boss", "manager", "/domains/default"), self.token("boss", {"domain": {"id": "default"}})
        if who == "another domain's manager":
            domain = self.cloud.admin.ensure("domains", "domain", {"name": "elsewhere"})["id"]
            return self.user("stranger", "manager", f"/domains/{domain}"), self.token(
                "stranger", {"domain": {"id": domain}}
            )
        role = {"member": "member", "project admin": "admin"}[who]
        name = f"{role}-{project_id}"
        return self.user(name, role, f"/projects/{project_id}"), self.token(name, {"project": {"id": project_id}})

    # -- what
    def project(self, name: str = "", domain_id: str = "default", **attributes: Any) -> str:
        project = {"name": name or f"p-{uuid.uuid4().hex[:12]}", "domain_id": domain_id} | attributes
        return self.call("POST", "/projects", {"project": project})["project"]["id"]

    def exists(self, project_id: str) -> bool:
        """Return whether it is in the database, without the caches of processes."""
        with contextlib.closing(sqlite3.connect(self.cloud.site.database("keystone"), timeout=30)) as database:
            return database.execute("SELECT id FROM project WHERE id = ?", [project_id]).fetchall() == [(project_id,)]


class Orchestrator:
    """The real orchestrator in this process: its API always, engine and worker only where a test needs them."""

    def __init__(self, cloud: Cloud, directory: pathlib.Path, port: int) -> None:
        path = directory / "orchestrator.conf"
        login = LOGIN.format(auth_url=cloud.auth_url)
        path.write_text(CONFIGURATION.format(directory=directory, login=login, auth_url=cloud.auth_url, port=port))
        self.parts = service.Components(service.load(["--config-file", str(path)]), in_process=True)
        self.store = self.parts.store
        tables.metadata.create_all(self.store.database.engine)
        self.running = service.Running(self.parts)
        self.running.start_api()

    def records(self, project_id: str) -> list[Any]:
        return list(self.store.list(storage.Page(100), project_id=project_id))

    def wait(self, deletion_id: str, status: Status) -> Any:
        deadline = time.monotonic() + 300
        while (record := self.store.get(deletion_id)).status in transitions.LIVE:
            steps = self.store.steps(deletion_id)
            assert time.monotonic() < deadline, (record.status, record.message, blockers(record, steps))
            time.sleep(0.1)
        assert record.status is status, (record.status, record.message)
        return record


@pytest.fixture(scope="module")
def world(cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    base, directory, more = free_port_base(), tmp_path_factory.mktemp("cloud"), tmp_path_factory.mktemp("more")
    shared: dict[str, Any] = {"port_base": base, "services": ()}
    # Keystone's configuration names the orchestrator's user: the user comes first, in a stock Keystone.
    first = Cloud(directory, cloud_venv, **shared)
    with first:
        user_id = first.admin.ensure_user("orchestrator", PASSWORD, "service", ("admin", "service"))["id"]
    made = World(Cloud(directory, cloud_venv, **shared), base + 30, user_id)
    made.cloud = Cloud(
        directory,
        cloud_venv,
        keystone_module=HOOKED,
        python_path=(str(ROOT),),
        extra_config={"keystone": {protocol.GROUP: made.options()}},
        **shared,
    )
    nowhere = {"endpoint": "http://127.0.0.1:1", "timeout": 5}
    strings = {name: str(value) for name, value in made.options().items()}
    (more / "filtered.py").write_text(FILTERED.format(options=strings))
    with made.cloud:
        made.start("stock", ("--module", "keystone.wsgi.api:application"), {}, more)
        for name, options in {
            "off": {"intercept": "off"},
            "opt-in": {"intercept": "opt-in"},
            "alone": nowhere,
        }.items():
            made.start(name, ("--module", HOOKED), {protocol.GROUP: made.options(**options)}, more)
        made.start("filter", ("--module", "filtered:application"), {}, more)
        lines = "\n".join(f"{name} = {value}" for name, value in strings.items())
        (more / "proxied.ini").write_text(PROXIED.format(options=lines, address=made.urls["stock"]))
        made.start("proxy", ("--paste", str(more / "proxied.ini")), {}, more)
        made.wait()
        yield made


@pytest.fixture(scope="module")
def orchestrator(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    made = Orchestrator(world.cloud, tmp_path_factory.mktemp("orchestrator"), int(world.api.rpartition(":")[2]))
    yield made
    made.running.close()


@pytest.fixture
def working(orchestrator: Orchestrator) -> Iterator[None]:
    """Run engine and worker during one test. Deletions of other tests are removed first."""
    with orchestrator.store.database.engine.begin() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            connection.execute(table.delete())
    running = service.Running(orchestrator.parts)
    running.start_engine()
    running.start_worker()
    yield
    assert running.close(), "every thread has ended"


INTERCEPTING = ["always", "filter", "proxy"]
EVERY = ["always", "opt-in", "filter", "proxy"]
#: The release whose Keystone has no domain managers in its policy, and answers 500 where later ones answer 405.
EARLIEST = next(iter(releases.RELEASES))


# -------------------------------------------------------------------------------------------------- it becomes a record
@pytest.mark.parametrize("who", ["admin", "domain manager", "project admin"])
@pytest.mark.parametrize("front", INTERCEPTING)
def test_a_plain_delete_becomes_a_deletion_in_the_name_of_the_caller(world, orchestrator, front, who):
    project_id = world.project()
    user_id, token = world.caller(who, project_id)
    answer = send(world.urls[front], "DELETE", f"/v3/projects/{project_id}", token)
    if who == "domain manager" and front == "always" and world.cloud.release == EARLIEST:
        assert answer.status == 403, "Keystone asks its own policy, which has no domain managers yet"
        return
    assert answer.status == 202, answer.raw
    (record,) = orchestrator.records(project_id)
    assert (record.user_id, record.mode, record.status) == (user_id, Mode.REPORT, Status.ACCEPTED)
    assert answer.headers["Location"] == f"{world.api}/v1/deletions/{record.id}"
    assert answer.body["deletion"]["id"] == record.id
    assert f"openstack project deletion show {record.id}" in answer.body["message"]
    assert world.exists(project_id)
    shown = send(world.api, "GET", f"/v1/deletions/{record.id}", world.caller("admin")[1])
    assert shown.body["deletion"] == answer.body["deletion"]


@pytest.mark.parametrize(
    ("query", "headers", "mode"),
    [
        ("?cleanup=cascade", {}, Mode.CASCADE),
        ("?cleanup=report", {}, Mode.REPORT),
        ("", {"X_Project_Cleanup": "cascade"}, Mode.CASCADE),
        ("", {"X_Project_Cleanup": "report"}, Mode.REPORT),
        ("?cleanup=report", {"X_Project_Cleanup": "report"}, Mode.REPORT),
    ],
)
@pytest.mark.parametrize("front", EVERY)
def test_the_requested_mode_is_used(world, orchestrator, front, query, headers, mode):
    project_id = world.project()
    _, token = world.caller("admin")
    answer = send(world.urls[front], "DELETE", f"/v3/projects/{project_id}{query}", token, **headers)
    assert answer.status == 202, answer.raw
    assert [record.mode for record in orchestrator.records(project_id)] == [mode]
    assert world.exists(project_id)


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("?cleanup=everything", {}),
        ("?cleanup=", {}),
        ("?cleanup=report&cleanup=cascade", {}),
        ("", {"X_Project_Cleanup": "CASCADE"}),
        ("?cleanup=report", {"X_Project_Cleanup": "cascade"}),
    ],
)
@pytest.mark.parametrize("front", EVERY)
def test_a_mode_that_is_none_deletes_nothing(world, orchestrator, front, query, headers):
    project_id = world.project()
    answer = send(world.urls[front], "DELETE", f"/v3/projects/{project_id}{query}", world.caller("admin")[1], **headers)
    assert answer.status == 400
    assert "report, cascade" in answer.error
    assert world.exists(project_id)
    assert orchestrator.records(project_id) == []


def test_in_opt_in_a_delete_without_a_mode_is_left_to_keystone(world, orchestrator):
    project_id = world.project()
    answer = send(world.urls["opt-in"], "DELETE", f"/v3/projects/{project_id}", world.caller("admin")[1])
    assert (answer.status, answer.raw) == (204, b"")
    assert not world.exists(project_id)
    assert orchestrator.records(project_id) == []


def test_off_is_stock_for_every_request(world, orchestrator):
    said = []
    for front in ("stock", "off"):
        project_id = world.project()
        path, token = f"/v3/projects/{project_id}?cleanup=report", world.caller("admin")[1]
        said.append(send(world.urls[front], "DELETE", path, token, X_Project_Cleanup="nonsense").stock())
        assert not world.exists(project_id)
        assert orchestrator.records(project_id) == []
    assert said[0] == said[1]
    assert said[0][0] == 204


# ------------------------------------------------------------------------------------------------- who may not, may not
@pytest.mark.parametrize("front", ["always", "opt-in", "off", "alone"])
@pytest.mark.parametrize("case", ["no token", "bad token", "member", "another domain's manager"])
def test_a_user_who_may_not_delete_gets_the_exact_answer_of_a_stock_keystone(world, orchestrator, front, case):
    project_id = world.project()
    for target in (project_id, uuid.uuid4().hex):
        _, token = world.caller(case, project_id)
        path = f"/v3/projects/{target}?cleanup=cascade"
        stock = send(world.urls["stock"], "DELETE", path, token)
        assert stock.status in (401, 403)
        assert send(world.urls[front], "DELETE", path, token).stock() == stock.stock()
        domain = path.replace("projects", "domains")
        stock = send(world.urls["stock"], "DELETE", domain, token)
        assert stock.status in (401, 403, 404)
        assert send(world.urls[front], "DELETE", domain, token).stock() == stock.stock()
    assert world.exists(project_id)
    assert orchestrator.records(project_id) == []


@pytest.mark.parametrize("front", ["always", "opt-in", "off", "alone"])
def test_a_missing_or_immutable_project_gets_the_exact_answer_of_a_stock_keystone(world, orchestrator, front):
    _, token = world.caller("admin")
    immutable = world.project(options={"immutable": True})
    no_method = 500 if world.cloud.release == EARLIEST else 405
    for path, status in (
        (f"/v3/projects/{uuid.uuid4().hex}", 404),
        (f"/v3/projects/{immutable}", 403),
        (f"/v3/domains/{uuid.uuid4().hex}", 404),
        (f"/v3/domains/{immutable}", 404),
        ("/v3/projects/", no_method),
        ("/v3/projects", no_method),
    ):
        stock = send(world.urls["stock"], "DELETE", path, token, X_Project_Cleanup="report")
        assert stock.status == status
        assert send(world.urls[front], "DELETE", path, token, X_Project_Cleanup="report").stock() == stock.stock()
    assert world.exists(immutable)
    assert orchestrator.records(immutable) == []


@pytest.mark.parametrize("front", ["filter", "proxy"])
@pytest.mark.parametrize("case", ["no token", "bad token", "member", "another domain's manager"])
def test_with_the_filter_users_have_no_more_rights_than_without(world, orchestrator, front, case):
    project_id = world.project()
    _, token = world.caller(case, project_id)
    answer = send(world.urls[front], "DELETE", f"/v3/projects/{project_id}", token)
    assert answer.status == (401 if case in ("no token", "bad token") else 403)
    assert answer.error
    missing = send(world.urls[front], "DELETE", f"/v3/projects/{uuid.uuid4().hex}", token)
    assert missing.status == answer.status, "it does not say what there is"
    assert world.exists(project_id)
    assert orchestrator.records(project_id) == []


@pytest.mark.parametrize("front", ["filter", "proxy"])
def test_before_the_filter_what_is_not_there_is_keystones_404_and_an_immutable_project_stays(world, front):
    _, token = world.caller("admin")
    path = f"/v3/projects/{uuid.uuid4().hex}"
    stock = send(world.urls["stock"], "DELETE", path, token)
    assert send(world.urls[front], "DELETE", path, token).body == stock.body
    immutable = world.project(options={"immutable": True})
    answer = send(world.urls[front], "DELETE", f"/v3/projects/{immutable}", token)
    assert (answer.status, "immutable" in answer.error) == (403, True)
    assert world.exists(immutable)


# --------------------------------------------------------------------------------------------------------- path tricks
TRICKS = {
    "a slash at the end": lambda i: f"/v3/projects/{i}/",
    "slashes at the end": lambda i: f"/v3/projects/{i}///",
    "an encoded letter": lambda i: f"/v3/%70rojects/{i}",
    "an encoded letter of the version": lambda i: f"/%763/projects/{i}",
    "an encoded id": lambda i: "/v3/projects/" + "".join(f"%{ord(c):02x}" for c in i),
    "an encoded slash": lambda i: f"/v3%2Fprojects%2F{i}",
    "an encoded slash at the end": lambda i: f"/v3/projects/{i}%2F",
    "a query": lambda i: f"/v3/projects/{i}?subtree_as_ids",
    "two slashes": lambda i: f"/v3//projects//{i}",
    "slashes at the front": lambda i: f"///v3/projects/{i}",
    "dots": lambda i: f"/v3/users/../projects/{i}",
    "encoded dots": lambda i: f"/v3/users/%2e%2e/projects/{i}",
    "a dot": lambda i: f"/v3/./projects/{i}",
    "a dot at the end": lambda i: f"/v3/projects/{i}/.",
    "encoded twice": lambda i: f"/v3/%2570rojects/{i}",
    "a parameter": lambda i: f"/v3/projects/{i};v=1",
    "a parameter in the middle": lambda i: f"/v3/projects;v=1/{i}",
    "a question mark, encoded": lambda i: f"/v3/projects/{i}%3Fx",
    "a backslash": lambda i: f"/v3/projects%5C{i}",
    "a NUL": lambda i: f"/v3/projects/{i}%00",
    "a line feed": lambda i: f"/v3/projects/{i}%0A",
    "no UTF-8": lambda i: f"/v3/projects/{i}%ff",
    "capitals": lambda i: f"/v3/Projects/{i}",
    "an absolute URL": lambda i: f"http://keystone.example.com/v3/projects/{i}",
}
#: What a stock Keystone deletes with: measured below.
ROUTED = {
    "a slash at the end",
    "slashes at the end",
    "an encoded letter",
    "an encoded letter of the version",
    "an encoded id",
    "a query",
}


@pytest.mark.parametrize("trick", TRICKS)
def test_no_spelling_of_the_path_slips_past(world, orchestrator, trick):
    _, token = world.caller("admin")
    victim = world.project()
    stock = send(world.urls["stock"], "DELETE", TRICKS[trick](victim), token).status
    assert (stock == 204) == (not world.exists(victim))
    for front in INTERCEPTING:
        project_id = world.project()
        answer = send(world.urls[front], "DELETE", TRICKS[trick](project_id), token)
        assert world.exists(project_id), (front, answer.status, answer.raw)
        assert answer.status != 204
        if stock == 204:
            assert answer.status == 202, (front, answer.raw)
        assert len(orchestrator.records(project_id)) == (answer.status == 202)


def test_the_tricks_are_tricks(world):
    """Some of these requests delete in a stock Keystone. Else the test above would prove nothing."""
    _, token = world.caller("admin")
    projects = {trick: world.project() for trick in TRICKS}
    for trick, project_id in projects.items():
        send(world.urls["stock"], "DELETE", TRICKS[trick](project_id), token)
    assert {trick for trick, project_id in projects.items() if not world.exists(project_id)} >= ROUTED


@pytest.mark.parametrize("front", INTERCEPTING)
def test_a_method_in_small_letters_does_not_slip_past(world, front):
    project_id = world.project()
    send(world.urls[front], "delete", f"/v3/projects/{project_id}", world.caller("admin")[1])
    assert world.exists(project_id)


@pytest.mark.parametrize("front", EVERY)
def test_other_requests_about_projects_are_passed_on(world, front):
    _, token = world.caller("admin")
    project_id = world.project(tags=["a;b", "tag"])
    for method, path, status in (
        ("GET", f"/v3/projects/{project_id}", 200),
        ("HEAD", f"/v3/projects/{project_id}", 200),
        ("DELETE", f"/v3/projects/{project_id}/tags/tag", 204),
        ("DELETE", f"/v3/projects/{project_id}/tags/a%3Bb", 204),
        ("DELETE", f"/v3/projects/{project_id}/tags", 204),
        ("GET", "/v3", 200),
    ):
        answer = send(world.urls[front], method, path, token, X_Project_Cleanup="cascade")
        assert answer.status == status, (method, path, answer.raw)


# ---------------------------------------------------------------------------------------------------------- the bypass
@pytest.mark.parametrize("front", INTERCEPTING)
def test_only_the_user_of_the_orchestrator_passes_with_the_header_of_the_final_delete(world, orchestrator, front):
    project_id = world.project()
    path = f"/v3/projects/{project_id}"
    own = world.token("orchestrator", {"project": {"name": "service", "domain": {"id": "default"}}})
    header = {"X_Project_Cleanup_Final": str(uuid.uuid4())}
    # no other user with the header, and not the user of the orchestrator without it
    assert send(world.urls[front], "DELETE", path, world.caller("admin")[1], **header).status == 202
    assert send(world.urls[front], "DELETE", path, own).status == 202
    assert send(world.urls[front], "DELETE", path, own, X_Project_Cleanup_Final="").status == 202
    assert send(world.urls[front], "DELETE", path, "", **header).status == 401
    assert send(world.urls[front], "DELETE", path, "gAAAAABnot-a-token", **header).status == 401
    assert world.exists(project_id)
    assert send(world.urls[front], "DELETE", path, own, **header).status == 204
    assert not world.exists(project_id)


@pytest.mark.parametrize("front", INTERCEPTING)
def test_a_user_with_the_name_of_the_orchestrator_does_not_pass(world, orchestrator, front):
    """The middleware of Keystone sets these headers. They must be ignored in a request of a client."""
    project_id = world.project()
    spoofed = {
        "X_Project_Cleanup_Final": str(uuid.uuid4()),
        "X_User_Id": world.orchestrator_id,
        "X_User": "orchestrator",
        "X_Identity_Status": "Confirmed",
        "X_Roles": "admin",
        "X_Project_Id": project_id,
        "Openstack_System_Scope": "all",
    }
    path = f"/v3/projects/{project_id}"
    own = world.token("orchestrator", {"project": {"name": "service", "domain": {"id": "default"}}})
    admin, member = world.caller("admin")[1], world.caller("member", project_id)[1]
    assert send(world.urls[front], "DELETE", path, "", **spoofed).status == 401
    assert send(world.urls[front], "DELETE", path, member, X_Service_Token=own, **spoofed).status == 403
    assert send(world.urls[front], "DELETE", path, member, X_Subject_Token=own, **spoofed).status == 403
    assert send(world.urls[front], "DELETE", path, admin, X_Subject_Token=own, **spoofed).status == 202
    assert world.exists(project_id)


def test_a_fenced_project_is_not_deleted_past_its_deletion(world, orchestrator):
    project_id, deletion_id = world.project(), str(uuid.uuid4())
    own = world.token("orchestrator", {"project": {"name": "service", "domain": {"id": "default"}}})
    option = {"project": {"options": {protocol.FENCE_OPTION: deletion_id}}}
    world.cloud.admin.call("PATCH", f"/projects/{project_id}", option, {"X-Auth-Token": own})
    _, token = world.caller("admin")
    answer = send(world.urls["opt-in"], "DELETE", f"/v3/projects/{project_id}", token)
    assert (answer.status, deletion_id in answer.error) == (409, True)
    assert world.exists(project_id)
    assert send(world.urls["always"], "DELETE", f"/v3/projects/{project_id}", token).status == 202
    assert world.exists(project_id)
    path = f"/v3/projects/{project_id}"
    assert send(world.urls["opt-in"], "DELETE", path, own, X_Project_Cleanup_Final=deletion_id).status == 204


def test_from_the_users_delete_to_the_end_of_the_project(world, orchestrator, working):
    project_id = world.project()
    user_id, token = world.caller("admin" if world.cloud.release == EARLIEST else "domain manager")
    answer = send(world.urls["always"], "DELETE", f"/v3/projects/{project_id}?cleanup=cascade", token)
    assert answer.status == 202
    record = orchestrator.wait(answer.body["deletion"]["id"], Status.DELETED)
    assert (record.user_id, record.mode) == (user_id, Mode.CASCADE)
    assert not world.exists(project_id)
    again = send(world.urls["always"], "DELETE", f"/v3/projects/{project_id}", world.caller("admin")[1])
    assert again.status == 404


# ------------------------------------------------------------------------------------------------------- refused: why
@pytest.mark.parametrize("front", INTERCEPTING)
def test_refusals_of_the_orchestrator_have_the_format_of_keystone(world, orchestrator, front):
    _, token = world.caller("admin")
    project_id = world.project()
    assert send(world.urls[front], "DELETE", f"/v3/projects/{project_id}", token).status == 202
    (record,) = orchestrator.records(project_id)
    other = send(world.urls[front], "DELETE", f"/v3/projects/{project_id}?cleanup=cascade", token)
    assert (other.status, record.id in other.error) == (409, True)
    again = send(world.urls[front], "DELETE", f"/v3/projects/{project_id}", token)
    assert (again.status, again.body["deletion"]["id"]) == (202, record.id)
    service_id = world.call("GET", "/projects?name=service")["projects"][0]["id"]
    protected = send(world.urls[front], "DELETE", f"/v3/projects/{service_id}", token)
    assert (protected.status, "never deleted" in protected.error) == (403, True)
    parent = world.project()
    child = world.project(parent_id=parent)
    refused = send(world.urls[front], "DELETE", f"/v3/projects/{parent}", token)
    assert (refused.status, child in refused.error) == (409, True)
    assert world.exists(parent)


@pytest.mark.parametrize("target", ["project", "parent", "domain", "domain as a project"])
def test_an_orchestrator_that_is_down_means_503_and_nothing_is_deleted(world, target):
    _, token = world.caller("admin")
    domain = world.call("POST", "/domains", {"domain": {"name": uuid.uuid4().hex}})["domain"]["id"]
    project_id = world.project(domain_id=domain)
    if target == "parent":
        world.project(domain_id=domain, parent_id=project_id)
    world.call("PATCH", f"/domains/{domain}", {"domain": {"enabled": False}})
    path = {"domain": f"/v3/domains/{domain}", "domain as a project": f"/v3/projects/{domain}"}.get(
        target, f"/v3/projects/{project_id}"
    )
    began = time.monotonic()
    answer = send(world.urls["alone"], "DELETE", path, token)
    assert (answer.status, "gives no usable answer" in answer.error) == (503, True)
    assert time.monotonic() - began < 10
    assert world.exists(project_id)
    assert world.exists(domain)


# -------------------------------------------------------------------------------------------------------------- domains
@pytest.mark.parametrize("route", ["domains", "projects"])
@pytest.mark.parametrize("front", EVERY)
def test_no_domain_is_deleted_while_a_deletion_is_under_way_below(world, orchestrator, front, route):
    _, token = world.caller("admin")
    domain = world.call("POST", "/domains", {"domain": {"name": uuid.uuid4().hex}})["domain"]["id"]
    parent = world.project(domain_id=domain)
    project_ids = [world.project(domain_id=domain, parent_id=parent) for _ in range(5)]  # more than one page
    deletions = []
    for project_id in project_ids:
        answer = send(world.urls[front], "DELETE", f"/v3/projects/{project_id}?cleanup=report", token)
        deletions.append(answer.body["deletion"]["id"])
    world.call("PATCH", f"/domains/{domain}", {"domain": {"enabled": False}})
    answer = send(world.urls[front], "DELETE", f"/v3/{route}/{domain}", token)
    assert answer.status == 409
    assert all(project_id in answer.error for project_id in project_ids)
    assert all(deletion_id in answer.error for deletion_id in deletions)
    assert all(world.exists(project_id) for project_id in [*project_ids, domain])
    # a project with children neither, and the sentence is not Keystone's
    answer = send(world.urls[front], "DELETE", f"/v3/projects/{parent}", token)
    assert (answer.status, deletions[4] in answer.error) == (409, True)


@pytest.mark.parametrize("route", ["domains", "projects"])
@pytest.mark.parametrize("front", EVERY)
def test_with_none_under_way_below_a_domain_is_keystones_to_delete(world, orchestrator, front, route):
    _, token = world.caller("admin")
    elsewhere = world.project()
    assert send(world.urls[front], "DELETE", f"/v3/projects/{elsewhere}?cleanup=report", token).status == 202
    domain = world.call("POST", "/domains", {"domain": {"name": uuid.uuid4().hex}})["domain"]["id"]
    path = f"/v3/{route}/{domain}"
    enabled = send(world.urls["stock"], "DELETE", path, token)
    assert enabled.status == 403
    assert send(world.urls[front], "DELETE", path, token).body == enabled.body
    world.call("PATCH", f"/domains/{domain}", {"domain": {"enabled": False}})
    asked = send(world.urls[front], "DELETE", f"{path}?cleanup=cascade", token)
    assert (asked.status, "is a domain" in asked.error) == (400, True)
    assert world.exists(domain)
    assert send(world.urls[front], "DELETE", path, token).status == 204
    assert not world.exists(domain)


# -------------------------------------------------------------------------------------------------------------- clients
def osc(world: World, project_id: str) -> None:
    command = [str(pathlib.Path(sys.executable).with_name("openstack")), "project", "delete", project_id]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "OS_CLIENT_CONFIG_FILE": str(world.cloud.clouds_yaml),
        "OS_CLOUD": "admin",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
    assert (done.returncode, done.stderr) == (0, "")


def login(world: World) -> ka_session.Session:
    return ka_session.Session(
        Password(
            world.cloud.auth_url,
            username="admin",
            password=world.cloud.site.password,
            project_name="admin",
            user_domain_id="default",
            project_domain_id="default",
        )
    )


def sdk(world: World, project_id: str) -> None:
    connection = openstack.connection.Connection(session=login(world), region_name="RegionOne")
    connection.identity.delete_project(project_id, ignore_missing=False)


def sdk_cloud_layer(world: World, project_id: str) -> None:
    connection = openstack.connection.Connection(session=login(world), region_name="RegionOne")
    assert connection.delete_project(project_id)


def python_keystoneclient(world: World, project_id: str) -> None:
    keystoneclient.Client(session=login(world), region_name="RegionOne").projects.delete(project_id)


@pytest.mark.parametrize("client", [osc, sdk, sdk_cloud_layer, python_keystoneclient])
def test_stock_clients_take_202_for_a_success(world, orchestrator, client: Callable[[World, str], None]):
    project_id = world.project()
    client(world, project_id)
    assert len(orchestrator.records(project_id)) == 1
    assert world.exists(project_id)


def test_the_client_code_of_the_orchestrator_passes(world, orchestrator):
    project_id = world.project()
    identity = orchestrator.parts.clouds.identity(orchestrator.parts.clouds.admin_session(lambda method, url: None))
    projects = Projects(identity)
    assert projects.delete(project_id, str(uuid.uuid4()))
    with pytest.raises(ProjectNotFound):
        projects.get(project_id)
