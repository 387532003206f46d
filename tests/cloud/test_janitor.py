"""One janitor for each deletion: what the holder of its token can do, and what is left when the deletion ends.

The holder is a service of the catalog that answers for itself, and that the operator has named: it says that it acts on
what users wrote, and so gets a token of the janitor for each project.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import http.server
import json
import secrets
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import requests

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.protocol.documents import Capabilities, Page, Problem, ProblemType, Resource, ResourceType
from tests.cloud.conftest import Sweeper, free_port_base
from tests.cloud.orchestrator import JANITOR, SPEAKER, Orchestrator, catalogued
from tests.cloud.test_undo import fenced, stock  # noqa: F401 # fixtures

SERVICE_TYPE = "hook-store"
OPTIONS = """
[orchestrator]
password = {password}
[drain]
driver = {driver}
"""
#: What Keystone has of a user, besides the user.
TABLES = {
    "assignment": "actor_id",
    "credential": "user_id",
    "application_credential": "user_id",
    "trust": "trustor_user_id",
    "local_user": "user_id",
}


class Vendor(http.server.ThreadingHTTPServer):
    """The service: one hook of each project. It keeps the token of each delete, and refuses the delete until told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", free_port_base()), Handler)
        self.tokens: dict[str, str] = {}  #: of the janitors, by project
        self.hooks: set[str] = set()  #: the projects that have one
        self.refuses = True
        self.listed: Callable[[str], None] = lambda _project_id: None  #: called with the project of each list
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Speaks the project resources protocol."""

    server: Vendor

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].split("/")[3:]  # without /project-resources/v1
        if not parts:
            types = (ResourceType("hook", "a hook", acts_on="an address"),)
            self.answer(200, Capabilities(SERVICE_TYPE, types).to_dict())
            return
        project_id = parts[1]
        found = [Resource(f"hook-{project_id}", project_id, "hook")] if project_id in self.server.hooks else []
        if len(parts) == 3:
            self.server.listed(project_id)
            self.answer(200, Page(tuple(found)).to_dict(project_id, "hook"))
        elif found:
            self.answer(200, found[0].to_dict())
        else:
            self.answer(404, Problem(ProblemType.NOT_FOUND, "it is gone").to_dict())

    def do_DELETE(self) -> None:
        project_id = self.path.split("/")[4]
        self.server.tokens[project_id] = self.headers["X-Auth-Token"]
        if self.server.refuses:
            self.answer(409, Problem(ProblemType.IN_USE, "it is in use").to_dict())
            return
        self.server.hooks.discard(project_id)
        self.answer(204)

    def answer(self, status: int, document: Any = None) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status < 400 else "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@dataclasses.dataclass
class Site:
    """A Keystone, the service, and the orchestrator."""

    cloud: Any
    vendor: Vendor
    running: Orchestrator
    driver: str

    def project(self) -> str:
        """Make a project with a member and a hook."""
        name = f"hooked-{secrets.token_hex(3)}"
        self.cloud.admin.ensure_user(name, "secret", name, ("member",))
        [project] = self.cloud.admin.call("GET", f"/projects?name={name}")["projects"]
        self.vendor.hooks.add(project["id"])
        return str(project["id"])

    def under_way(self, *project_ids: str) -> list[str]:
        """Begin to delete the projects; return the ids of the deletions once the service has each token."""
        begun = [self.running.request(project_id, Mode.CASCADE) for project_id in project_ids]
        for deletion_id, project_id in zip(begun, project_ids, strict=True):
            self.running.wait(deletion_id, until=lambda _, p=project_id: p in self.vendor.tokens)
        return begun

    def janitors(self) -> list[str]:
        """Return the names of all janitors in Keystone."""
        names = [user["name"] for user in self.cloud.admin.call("GET", "/users?domain_id=default")["users"]]
        return sorted(name for name in names if "janitor" in name)

    def rows(self, user_id: str) -> dict[str, int]:
        """Return how many rows Keystone's database has of a user, by table; without what is deleted softly."""
        sweeper, found = Sweeper(self.cloud), {}
        for table, column in TABLES.items():
            alive = " AND deleted_at IS NULL" if table == "trust" else ""
            found[table] = len(sweeper.rows("keystone", f"SELECT * FROM {table} WHERE {column} = ?{alive}", user_id))
        return {table: count for table, count in found.items() if count}


@pytest.fixture(scope="module", params=["revoke", "fence"])
def site(request, tmp_path_factory):
    cloud = request.getfixturevalue("fenced" if request.param == "fence" else "stock")
    password = cloud.site.password if request.param == "fence" else "orchestrator"
    cloud.admin.ensure_user("orchestrator", password, "service", ("admin", "service"))
    cloud.admin.ensure_user("speaker", "speaker", "service", ("service",))
    vendor = Vendor()
    values = {"password": password, "auth_url": cloud.auth_url, "service_type": SERVICE_TYPE, "driver": request.param}
    with catalogued(cloud, SERVICE_TYPE, vendor.url):
        made = Orchestrator(
            cloud, tmp_path_factory.mktemp(request.param), JANITOR + (SPEAKER + OPTIONS).format(**values)
        )
        yield Site(cloud, vendor, made, request.param)
        made.running.close()
    vendor.shutdown()
    vendor.server_close()


class Holder:
    """The holder of a janitor's token of one project, who tries to get more out of it.

    Each way to a token is a method ``by_...``: it returns a token, or ``None``.
    """

    def __init__(self, site: Site, token: str, accomplice: dict[str, str]) -> None:
        self.site, self.token, self.url, self.accomplice = site, token, site.cloud.auth_url, accomplice
        shown = self._call("GET", "/auth/tokens", headers={"X-Subject-Token": token}).json()["token"]
        self.user_id, self.project_id = shown["user"]["id"], shown["project"]["id"]
        self.roles = {role["name"] for role in shown["roles"]}

    def _call(self, method: str, path: str, body: Any = None, headers: Any = (), token: str = "") -> requests.Response:
        sent = {"X-Auth-Token": token or self.token, **dict(headers)}
        return requests.request(method, self.url + path, json=body, headers=sent, timeout=60)

    def _login(self, identity: dict[str, Any], scope: dict[str, Any] | None) -> str | None:
        body = {"auth": {"identity": identity} | ({"scope": scope} if scope else {})}
        answer = requests.post(f"{self.url}/auth/tokens", json=body, timeout=60)
        return answer.headers["X-Subject-Token"] if answer.status_code == 201 else None

    # -- what is made with the token
    def ec2(self, project_id: str) -> dict[str, str] | None:
        answer = self._call("POST", f"/users/{self.user_id}/credentials/OS-EC2", {"tenant_id": project_id})
        return answer.json()["credential"] if answer.status_code == 201 else None

    def application_credential(self) -> dict[str, str] | None:
        wanted = {"name": secrets.token_hex(4), "unrestricted": True}
        path = f"/users/{self.user_id}/application_credentials"
        answer = self._call("POST", path, {"application_credential": wanted})
        return answer.json()["application_credential"] if answer.status_code == 201 else None

    def trust(self, project_id: str) -> dict[str, str] | None:
        wanted = {"trustor_user_id": self.user_id, "trustee_user_id": self.accomplice["id"], "project_id": project_id}
        wanted |= {"impersonation": True, "roles": [{"name": "member"}]}
        answer = self._call("POST", "/OS-TRUST/trusts", {"trust": wanted})
        return answer.json()["trust"] if answer.status_code == 201 else None

    # -- the logins
    def by_rescope(self, project_id: str, token: str = "") -> str | None:
        identity = {"methods": ["token"], "token": {"id": token or self.token}}
        return self._login(identity, {"project": {"id": project_id}})

    def by_ec2(self, made: dict[str, str] | None) -> str | None:
        if made is None:
            return None
        params = {"AWSAccessKeyId": made["access"], "SignatureMethod": "HmacSHA256", "SignatureVersion": "2"}
        text = "GET\nhost\n/\n" + "&".join(f"{k}={v}" for k, v in sorted(params.items()))
        digest = hmac.new(made["secret"].encode(), text.encode(), hashlib.sha256).digest()
        signed = {"access": made["access"], "signature": base64.b64encode(digest).decode(), "host": "host"}
        signed |= {"verb": "GET", "path": "/", "params": params}
        self.site.cloud.admin.call("GET", "/roles")  # so that it has a token
        admins = self.site.cloud.admin._token
        answer = self._call("POST", "/ec2tokens", {"credentials": signed}, token=admins)
        return answer.headers["X-Subject-Token"] if answer.status_code == 200 else None

    def by_application_credential(self, made: dict[str, str] | None) -> str | None:
        if made is None:
            return None
        own = {"id": made["id"], "secret": made["secret"]}
        return self._login({"methods": ["application_credential"], "application_credential": own}, None)

    def by_trust(self, made: dict[str, str] | None) -> str | None:
        if made is None:
            return None
        identity = {"methods": ["password"], "password": {"user": self.accomplice}}
        return self._login(identity, {"OS-TRUST:trust": {"id": made["id"]}})

    def works(self, token: str | None, project_id: str) -> bool:
        """Return whether Keystone accepts a token as one of the project."""
        if token is None:
            return False
        admin = self.site.cloud.admin
        admin.call("GET", "/roles")
        answer = self._call("GET", "/auth/tokens", headers={"X-Subject-Token": token}, token=admin._token)
        return answer.status_code == 200 and answer.json()["token"]["project"]["id"] == project_id


@pytest.fixture
def accomplice(site):
    """A user without any role on the projects."""
    name = f"accomplice-{secrets.token_hex(3)}"
    user = site.cloud.admin.ensure_user(name, "secret", f"{name}-home", ("member",))
    return {"id": user["id"], "password": "secret"}


def test_a_leaked_token_opens_no_other_project_and_nothing_outlives_a_cancel(site, accomplice):
    site.vendor.refuses = True
    mine, other = site.project(), site.project()
    cancelled, going_on = site.under_way(mine, other)
    holder = Holder(site, site.vendor.tokens[mine], accomplice)
    assert (holder.project_id, holder.roles) == (mine, {"member", "reader"})
    assert site.janitors() == sorted(f"cleanup-janitor-{id_}" for id_ in (cancelled, going_on))

    made = {"ec2": holder.ec2(mine), "application credential": holder.application_credential()}
    made |= {"trust": holder.trust(mine)}
    by = {"ec2": holder.by_ec2, "application credential": holder.by_application_credential, "trust": holder.by_trust}

    def of(project_id: str) -> dict[str, bool]:
        """Return which ways lead to a token of a project, straight or exchanged."""
        logins = {way: login(made[way]) for way, login in by.items()} | {"token": holder.token}
        reached = {way: holder.works(token, project_id) for way, token in logins.items()}
        for way, token in logins.items():
            reached[f"{way}, exchanged"] = bool(token) and holder.works(
                holder.by_rescope(project_id, token), project_id
            )
        far = {"ec2": holder.ec2(project_id), "trust": holder.trust(project_id)} if project_id != mine else {}
        return reached | {f"{way} of it": holder.works(by[way](one), project_id) for way, one in far.items()}

    inside = of(mine)
    print(f"\n{site.driver}: inside:", inside, "\nother:", of(other))
    assert inside["token"], "the deletion works with it"
    assert not any(of(other).values())

    site.running.cancel(cancelled)
    site.running.wait(cancelled, Status.CANCELLED)
    after = of(mine)
    print("after the cancel:", after)
    assert not any(after.values()), "nothing outlives the janitor"
    assert not any(of(other).values())
    assert site.rows(holder.user_id) == {}
    assert site.janitors() == [f"cleanup-janitor-{going_on}"]
    if site.driver == "fence":
        shown = site.cloud.admin.call("GET", f"/projects/{mine}")["project"]["options"]
        assert not shown.get("cleanup_fence") and not shown.get("cleanup_janitor")

    site.vendor.refuses = False
    site.running.wait(going_on, Status.DELETED)
    assert site.janitors() == []


def test_a_project_that_is_deleted_again_gets_nothing_that_an_earlier_janitor_made(site, accomplice):
    """Before, the one janitor got its role again, and with it all that was made with an earlier token."""
    site.vendor.refuses = True
    project_id = site.project()
    [first] = site.under_way(project_id)
    holder = Holder(site, site.vendor.tokens.pop(project_id), accomplice)
    trust, credential = holder.trust(project_id), holder.application_credential()
    site.running.cancel(first)
    site.running.wait(first, Status.CANCELLED)
    [second] = site.under_way(project_id)
    assert not holder.works(holder.token, project_id)
    assert holder.by_trust(trust) is None and holder.by_application_credential(credential) is None
    assert Holder(site, site.vendor.tokens[project_id], accomplice).user_id != holder.user_id
    site.vendor.refuses = False
    site.running.wait(second, Status.DELETED)
    assert site.janitors() == []


def test_no_token_that_a_service_got_works_while_the_project_is_proven_empty(site, accomplice):
    """With it, its holder could make a resource after the last list, also behind the fence."""
    site.vendor.refuses = False
    project_id, accepted = site.project(), []

    def listed(id_: str) -> None:
        if id_ == project_id and id_ in site.vendor.tokens:
            accepted.append(Holder.works(holder, site.vendor.tokens[id_], id_))

    holder = Holder.__new__(Holder)
    holder.site, holder.token, holder.url = site, "", site.cloud.auth_url
    site.vendor.listed = listed
    site.running.run(project_id, Mode.CASCADE, Status.DELETED)
    print(f"\n{site.driver}: the token is accepted at each list after the delete: {accepted}")
    assert accepted[0], "at the second list of the sweep that deleted"
    assert accepted[-2:] == [False, False], "at the lists that count"
    assert site.janitors() == []


def test_the_janitor_goes_with_a_project_that_others_delete(site):
    """The deletion then ends without a removal of its own."""
    site.vendor.refuses = True
    project_id = site.project()
    [deletion_id] = site.under_way(project_id)
    if site.driver == "fence":
        site.cloud.admin.call("PATCH", f"/projects/{project_id}", {"project": {"options": {"cleanup_fence": None}}})
    site.cloud.admin.call("DELETE", f"/projects/{project_id}")
    site.vendor.hooks.discard(project_id)
    site.running.wait(deletion_id)
    assert site.janitors() == []


def test_a_janitor_whose_password_another_user_reset_is_not_used(site):
    site.vendor.refuses = True
    project_id = site.project()
    [deletion_id] = site.under_way(project_id)
    name = f"cleanup-janitor-{deletion_id}"
    [user] = site.cloud.admin.call("GET", f"/users?name={name}")["users"]
    assert "password" not in user
    site.cloud.admin.call("PATCH", f"/users/{user['id']}", {"user": {"password": str(uuid.uuid4())}})
    blocked = f"{SERVICE_TYPE}.hook"
    site.running.wait(deletion_id, until=lambda _: site.running.blockers(deletion_id).get(blocked) == "no_janitor")
    site.cloud.admin.call("DELETE", f"/users/{user['id']}")  # the way out that the message names
    site.vendor.refuses = False
    site.running.wait(deletion_id, Status.DELETED)
    assert site.janitors() == []
