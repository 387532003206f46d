"""The gate without code in Keystone: a real Keystone, whose policy file has the rules of ``etc/``.

Both variants: only the orchestrator's user deletes projects; and oslo.policy's remote check against the API.
"""

from __future__ import annotations

import contextlib
import datetime
import http.client
import json
import os
import pathlib
import re
import secrets
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from cleanup_orchestrator import service
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.store import tables
from tests.cloud.conftest import ROOT, free_port_base
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import Orchestrator
from tests.cloud.processes import HOST
from tests.cloud.test_pipeline import World, send

SECRET = secrets.token_hex(32)
API = """
[api]
host = 127.0.0.1
port = {port}
[gate]
secret = {secret}
[keystone_authtoken]
auth_type = password
auth_url = {auth_url}
www_authenticate_uri = {auth_url}
username = orchestrator
password = orchestrator
project_name = service
user_domain_id = default
project_domain_id = default
"""


class Gated(World):
    """A Keystone without code of this package, whose policy file the tests write, and the orchestrator."""

    def __init__(self, cloud: Cloud, folder: pathlib.Path, policy: pathlib.Path, port: int) -> None:
        options = API.format(port=port, secret=SECRET, auth_url=cloud.auth_url)
        self.orchestrator = Orchestrator(cloud, folder, options)
        self.port, self.policy, self._age = port, policy, 0
        super().__init__(cloud, port, self.orchestrator.user_id)
        self._parts = service.Components(
            service.load(["--config-file", str(folder / "orchestrator.conf")]), in_process=True
        )
        self.running: service.Running | None = None
        self.start_api()

    def start_api(self) -> None:
        self.running = service.Running(self._parts)
        self.running.start_api()

    def stop_api(self) -> None:
        assert self.running is not None
        assert self.running.close()
        self.running = None

    def use(self, variant: str, secret: str = SECRET, port: int = 0) -> None:
        """Write the rules of a file of ``etc/`` into Keystone's policy file, with the values of this cloud.

        Keystone reads the file again if its time has changed: two writes within a second must not look alike.
        """
        text = (ROOT / "etc" / f"keystone-gate-{variant}.yaml").read_text() if variant else "{}\n"
        text = text.replace("ID_OF_THE_WORKERS_USER", self.orchestrator_id)
        text = text.replace(
            "https://keystone:SECRET@cleanup.example.org", f"http://keystone:{secret}@{HOST}:{port or self.port}"
        )
        assert not re.search(r"^\"[^#]*(SECRET|example\.org|ID_OF)", text, re.M)
        self.policy.write_text(text)
        self._age += 1
        at = self.policy.stat().st_mtime + self._age
        os.utime(self.policy, (at, at))

    def image(self, project_id: str) -> str:
        """Make a resource of a project."""
        url = f"{self.cloud.site.url('glance')}/v2/images"
        return self.call("POST", url, {"name": "a", "owner": project_id})["id"]

    def report(self, project_id: str, domain_id: str = "default") -> str:
        """Let the orchestrator make a dry run of a project; return its id."""
        made = self.orchestrator.request(project_id, Mode.REPORT, dry_run=True)
        self.orchestrator.wait(made, Status.PLANNED)
        return made

    def delete(self, path: str, who: str = "admin", project_id: str = "") -> int:
        return send(self.urls["always"], "DELETE", f"/v3/{path}", self.caller(who, project_id)[1]).status


@pytest.fixture(scope="module")
def gated(cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gated]:
    base, folder = free_port_base(), tmp_path_factory.mktemp("gate")
    policy = folder / "policy.yaml"
    policy.write_text("{}\n")
    made = Cloud(
        tmp_path_factory.mktemp("cloud"),
        cloud_venv,
        port_base=base,
        services=("glance",),
        keystone_processes=2,
        keystone_cache="shared",
        extra_config={"keystone": {"oslo_policy": {"policy_file": policy, "remote_timeout": 2}}},
    )
    with made:
        world = Gated(made, folder, policy, base + 30)
        yield world
        if world.running is not None:
            world.stop_api()
        world.orchestrator.running.close()


@pytest.fixture
def only_orchestrator(gated: Gated) -> Gated:
    gated.use("orchestrator-only")
    return gated


@pytest.fixture
def proven(gated: Gated) -> Gated:
    gated.use("proven-empty")
    return gated


def refused(gated: Gated, project_id: str, who: str = "admin", status: int = 403) -> None:
    assert (
        gated.delete(f"projects/{project_id}", who, project_id if who in ("member", "project admin") else "") == status
    )
    assert gated.exists(project_id)


def domain(gated: Gated, enabled: bool = False) -> str:
    body = {"domain": {"name": secrets.token_hex(4), "enabled": enabled}}
    return gated.call("POST", "/domains", body)["domain"]["id"]


# ----------------------------------------------------------------------------------------- only the orchestrator's user
def test_without_the_rules_keystone_deletes_at_once(gated):
    """And the image stays."""
    gated.use("")
    project_id = gated.project()
    image = gated.image(project_id)
    assert gated.delete(f"projects/{project_id}") == 204
    url = f"{gated.cloud.site.url('glance')}/v2/images/{image}"
    assert gated.call("GET", url)["owner"] == project_id


@pytest.mark.parametrize("who", ["admin", "domain manager", "project admin", "member"])
def test_nobody_else_deletes_a_project(only_orchestrator, who):
    project_id = only_orchestrator.project()
    only_orchestrator.report(project_id)
    refused(only_orchestrator, project_id, who)


def test_nobody_else_deletes_a_domain(only_orchestrator):
    domain_id = domain(only_orchestrator)
    assert only_orchestrator.delete(f"domains/{domain_id}") == 403
    refused(only_orchestrator, domain_id)


@pytest.mark.parametrize("variant", ["orchestrator-only", "proven-empty"])
def test_the_orchestrators_own_deletion_completes(gated, variant):
    gated.use(variant)
    project_id = gated.project()
    image = gated.image(project_id)
    refused(gated, project_id)
    gated.orchestrator.run(project_id, Mode.CASCADE, Status.DELETED)
    assert not gated.exists(project_id)
    url = f"{gated.cloud.site.url('glance')}/v2/images?owner={project_id}&visibility=all"
    assert image not in str(gated.call("GET", url))


@pytest.mark.parametrize("variant", ["orchestrator-only", "proven-empty"])
def test_other_rules_are_as_before(gated, variant):
    """A project can be made, changed, tagged and listed, by an admin and by a manager of the domain."""
    seen = {}
    for used in ("", variant):
        gated.use(used)
        seen[used] = []
        for who in ("admin", "domain manager", "member"):
            _user, token = gated.caller(who, gated.project() if who == "member" else "")
            project_id = gated.project()
            for method, path in (
                ("GET", f"projects/{project_id}"),
                ("GET", "projects"),
                ("PUT", f"projects/{project_id}/tags/a"),
                ("DELETE", f"projects/{project_id}/tags/a"),
                ("DELETE", f"projects/{project_id}/tags"),
                ("GET", "domains/default"),
                ("DELETE", f"users/{secrets.token_hex(16)}"),
                ("DELETE", f"domains/{secrets.token_hex(16)}"),
            ):
                seen[used].append((who, method, send(gated.urls["always"], method, f"/v3/{path}", token).status))
    assert seen[variant] == seen[""]
    assert {status for *_, status in seen[""]} >= {200, 201, 204, 403, 404}


# ----------------------------------------------------------------------------------------------------- the remote check
@pytest.mark.parametrize("who", ["admin", "domain manager", "project admin"])
def test_a_project_that_is_proven_empty_is_deleted(proven, who):
    project_id = proven.project()
    caller = project_id if who == "project admin" else ""
    proven.caller(who, caller)
    refused(proven, project_id, who)
    proven.report(project_id)
    assert proven.delete(f"projects/{project_id}", who, caller) == 204
    assert not proven.exists(project_id)


def test_a_project_with_resources_is_not(proven):
    project_id = proven.project()
    image = proven.image(project_id)
    refused(proven, project_id)
    proven.report(project_id)
    refused(proven, project_id)
    proven.call("DELETE", f"{proven.cloud.site.url('glance')}/v2/images/{image}")
    refused(proven, project_id)
    proven.report(project_id)
    assert proven.delete(f"projects/{project_id}") == 204


def test_a_resource_that_is_made_after_the_report_is_left_behind(proven):
    """The manual says this of the second variant: the first one has no such time."""
    project_id = proven.project()
    proven.report(project_id)
    image = proven.image(project_id)
    assert proven.delete(f"projects/{project_id}") == 204
    assert proven.call("GET", f"{proven.cloud.site.url('glance')}/v2/images/{image}")["owner"] == project_id


def test_an_old_report_proves_nothing(proven):
    project_id = proven.project()
    made = proven.report(project_id)
    store = proven.orchestrator.store
    with store.database.begin() as c:
        old = store.now() - datetime.timedelta(seconds=61)
        c.execute(
            tables.steps.update()
            .where(tables.steps.c.owner_id == made, tables.steps.c.started_at.is_not(None))
            .values(started_at=old)
        )
    refused(proven, project_id)


def test_a_caller_who_may_not_delete_it_causes_no_check(proven, caplog):
    project_id = proven.project()
    proven.report(project_id)
    caplog.set_level("INFO")
    refused(proven, project_id, "member")
    refused(proven, project_id, "another domain's manager")
    assert "/gate/" not in caplog.text
    assert proven.delete(f"projects/{project_id}") == 204
    assert f"POST /gate/projects/{project_id}: 200" in caplog.text
    assert SECRET not in caplog.text


def test_what_keystone_does_not_know(proven):
    """A project is refused (an unmodified Keystone answers 404), because there is no proof about it."""
    unknown = secrets.token_hex(16)
    assert proven.delete(f"projects/{unknown}") == 403
    assert proven.delete(f"projects/{unknown}", "domain manager") == 403
    assert proven.delete(f"domains/{unknown}") == 404


def test_another_spelling_of_a_project_is_not_proven(proven):
    empty, filled = proven.project(), proven.project()
    proven.image(filled)
    proven.report(empty)
    for path in (f"{filled}%20", f"{filled.upper()}", f"{empty}%3F", f"{filled}%3F/../{empty}", f"{empty}%23{filled}"):
        assert proven.delete(f"projects/{path}") in (403, 404), path
    assert proven.exists(empty)
    assert proven.exists(filled)


def test_a_body_of_the_request_changes_nothing(proven):
    """Before CVE-2026-42999 was fixed, the body replaced what the rules are about: such a Keystone needs variant 1."""
    empty, filled = proven.project(), proven.project()
    proven.image(filled)
    proven.report(empty)
    token = proven.caller("admin")[1]
    forged = json.dumps({"project_id": empty, "target": {"project": {"id": empty, "domain_id": "default"}}})
    url = proven.urls["always"].removeprefix("http://")
    with contextlib.closing(http.client.HTTPConnection(url, timeout=60)) as connection:
        headers = {"X-Auth-Token": token, "Content-Type": "application/json"}
        connection.request("DELETE", f"/v3/projects/{filled}", body=forged, headers=headers)
        assert connection.getresponse().status == 403
    assert proven.exists(filled)


def test_another_secret_is_refused(proven):
    project_id = proven.project()
    proven.report(project_id)
    proven.use("proven-empty", secret="0" * 64)
    refused(proven, project_id)
    proven.use("proven-empty")
    assert proven.delete(f"projects/{project_id}") == 204


def test_without_the_api_nothing_is_deleted(proven):
    """Keystone answers 500: oslo.policy passes the error of the connection on."""
    project_id, domain_id = proven.project(), domain(proven)
    proven.report(project_id)
    proven.stop_api()
    try:
        refused(proven, project_id, status=500)
        assert proven.delete(f"domains/{domain_id}") == 500
        assert proven.exists(domain_id)
        other = proven.project()
        proven.orchestrator.run(other, Mode.CASCADE, Status.DELETED)
    finally:
        proven.start_api()
    assert proven.delete(f"domains/{domain_id}") == 204
    assert proven.delete(f"projects/{project_id}") == 204


def test_an_api_that_hangs_is_no_permission(proven):
    """Keystone answers 500 after ``[oslo_policy] remote_timeout``."""
    project_id = proven.project()
    proven.report(project_id)
    with socket.create_server((HOST, 0)) as silent:
        proven.use("proven-empty", port=silent.getsockname()[1])
        refused(proven, project_id, status=500)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nFalse",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue",
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_another_answer_is_no_permission(proven, answer):
    project_id = proven.project()
    proven.report(project_id)
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        proven.use("proven-empty", port=server.getsockname()[1])
        refused(proven, project_id)
        thread.join()


# -------------------------------------------------------------------------------------------------------------- domains
def test_a_domain_is_deleted_once_it_has_no_project(proven):
    domain_id = domain(proven, enabled=True)
    assert proven.delete(f"domains/{domain_id}") == 403, "it is enabled"
    project_id = proven.project(domain_id=domain_id)
    proven.call("PATCH", f"/domains/{domain_id}", {"domain": {"enabled": False}})
    assert proven.delete(f"domains/{domain_id}") == 403, "it has a project"
    assert proven.delete(f"projects/{domain_id}") == 403, "the same by another path"
    assert proven.exists(project_id)
    proven.call("PATCH", f"/domains/{domain_id}", {"domain": {"enabled": True}})
    proven.orchestrator.run(project_id, Mode.CASCADE, Status.DELETED)
    proven.call("PATCH", f"/domains/{domain_id}", {"domain": {"enabled": False}})
    assert proven.delete(f"projects/{domain_id}") == 403
    assert proven.delete(f"domains/{domain_id}", "domain manager") == 403
    assert proven.delete(f"domains/{domain_id}") == 204
    assert not proven.exists(domain_id)


def test_the_rules_of_a_manual_are_those_of_the_files(gated) -> Any:
    """What these tests have tried is what an operator copies."""
    page = (ROOT / "doc" / "source" / "admin" / "gate.rst").read_text()
    for name in ("orchestrator-only", "proven-empty"):
        assert f".. literalinclude:: ../../../etc/keystone-gate-{name}.yaml" in page
