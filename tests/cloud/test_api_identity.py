"""The API with a read-only user: the role reader on the system is enough, and reader on a project is not."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest
import webob
from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session
from openstack.connection import Connection

from cleanup_orchestrator import service
from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.store import tables
from tests.cloud.conftest import Sweeper
from tests.cloud.launcher import Cloud

CONFIGURATION = """
[database]
connection = sqlite:///{folder}/orchestrator.sqlite
[orchestrator]
auth_type = v3password
auth_url = {url}
username = {user}
password = {user}
user_domain_id = default
{scope}
interface = public
{more}
[keystone_authtoken]
auth_type = v3password
auth_url = {url}
www_authenticate_uri = {url}
username = {user}
password = {user}
user_domain_id = default
{scope}
interface = public
"""
SYSTEM = "system_scope = all"
PROJECT = "project_name = admin\nproject_domain_id = default"


class Api:
    """The application as its process creates it, over a store without engines and workers."""

    def __init__(self, cloud: Cloud, folder: Any, user: str, scope: str, more: str = "") -> None:
        path = folder / "api.conf"
        path.write_text(CONFIGURATION.format(folder=folder, url=cloud.auth_url, user=user, scope=scope, more=more))
        self.parts = service.Components(service.load(["--config-file", str(path)]), in_process=True)
        tables.metadata.create_all(self.parts.store.database.engine)
        self.parts.log_in()
        self.app = self.parts.api()

    def __call__(self, method: str, path: str, token: str, body: Any = None) -> tuple[int, Any]:
        request = webob.Request.blank(path, method=method, headers={"X-Auth-Token": token})
        if body is not None:
            request.body, request.content_type = json.dumps(body).encode(), "application/json"
        response = request.get_response(self.app)
        return response.status_int, json.loads(response.body) if response.body else None


@pytest.fixture(scope="module")
def reader(full_cloud: Cloud) -> str:
    """A user whose only roles are reader on the system and on the project admin."""
    admin, name = full_cloud.admin, "api-reader"
    roles = {role["name"]: role["id"] for role in admin.call("GET", "/roles")["roles"]}
    user_id = admin.ensure_user(name, name, "admin", ("reader",))["id"]
    admin.call("PUT", f"/system/users/{user_id}/roles/{roles['reader']}")
    found = admin.call("GET", f"/role_assignments?user.id={user_id}")["role_assignments"]
    assert {row["role"]["id"] for row in found} == {roles["reader"]}
    return name


@pytest.fixture(scope="module")
def tree(full_admin: Connection) -> Any:
    """A project with two below it."""
    name = f"reader-{secrets.token_hex(2)}"
    top = full_admin.identity.create_project(name=name, domain_id="default")
    below = [
        full_admin.identity.create_project(name=f"{name}-{n}", domain_id="default", parent_id=top.id) for n in range(2)
    ]
    yield top, below
    for project in (*below, top):
        full_admin.identity.delete_project(project)


def test_a_reader_of_the_system_is_enough_for_the_api(full_cloud, full_admin, full_sweeper, reader, tree, tmp_path):
    top, below = tree
    own = full_admin.identity.find_project(Sweeper.PROJECT, domain_id="default").id
    api = Api(full_cloud, tmp_path, reader, SYSTEM, f"own_project_id = {own}")
    admin = full_admin.session.get_token()

    assert api.parts.clouds.check() is None
    assert api("GET", "/v1/liens", admin)[0] == 200
    status, services = api("GET", "/v1/services", admin)
    assert status == 200 and "identity" in {one["service_type"] for one in services["services"]}
    status, refused = api("POST", "/v1/deletions", admin, {"project_id": top.id})
    assert (status, refused["errors"][0]["code"]) == (409, "project_has_children")
    body = {"project_id": top.id, "mode": "cascade", "include_subtree": True}
    status, made = api("POST", "/v1/deletions", admin, body)
    assert status == 202, made
    assert {each["project_id"] for each in made["deletion"]["children"]} == {each.id for each in below}
    assert made["deletion"]["project_name"] == top.name
    status, refused = api("POST", "/v1/deletions", admin, {"project_id": own})
    assert (status, refused["errors"][0]["code"]) == (403, "project_protected")
    status, refused = api("POST", "/v1/deletions", admin, {"project_id": secrets.token_hex(16)})
    assert (status, refused["errors"][0]["code"]) == (404, "project_not_found")
    # The reads of an adoption: the project, and a project that certainly exists.
    projects = Projects(api.parts.clouds.identity(api.parts.clouds.admin_session()))
    assert projects.knows(secrets.token_hex(16), api.parts.clouds.project_id()) is False
    assert projects.knows(top.id, api.parts.clouds.project_id()) is True
    api.parts.store.close()


def test_it_can_write_nothing(full_cloud, reader, tree):
    """An attacker with its password can read assignments and change nothing."""
    auth = Password(full_cloud.auth_url, username=reader, password=reader, user_domain_id="default", system_scope="all")
    session = Session(auth=auth)
    top, _below = tree
    member = next(r["id"] for r in full_cloud.admin.call("GET", "/roles")["roles"] if r["name"] == "member")
    url = f"{full_cloud.auth_url}/projects/{top.id}"
    for method, path, body in (
        ("PATCH", "", {"project": {"enabled": False}}),
        ("DELETE", "", None),
        ("PUT", f"/users/{session.get_user_id()}/roles/{member}", None),
    ):
        answer = session.request(url + path, method, json=body, raise_exc=False)
        assert answer.status_code == 403, (method, path, answer.text)
    assert session.get(url).json()["project"]["enabled"] is True


def test_a_reader_of_a_project_is_not_enough(full_cloud, full_admin, reader, tree, tmp_path):
    """Keystone shows it no other project: the request is refused as if Keystone did not answer."""
    api = Api(full_cloud, tmp_path, reader, PROJECT)
    status, refused = api("POST", "/v1/deletions", full_admin.session.get_token(), {"project_id": tree[0].id})
    assert status == 503, refused
    api.parts.store.close()


def test_without_a_project_the_option_names_the_project_that_is_never_deleted(full_cloud, reader, tmp_path):
    with pytest.raises(CleanupError, match="own_project_id"):
        Api(full_cloud, tmp_path, reader, SYSTEM)
