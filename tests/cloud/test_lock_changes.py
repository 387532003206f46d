"""Changes of the lock by a domain manager between two looks: real Keystone, its notifications over a real RabbitMQ.

Keystone has no history of role assignments and of ``enabled``, so that without its notifications nothing shows these
changes. Each test makes its change with the manager's own token, and creates a secret or an image as the member.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import requests

from cleanup_orchestrator.core.deletion import Deletion, Mode, Status
from cleanup_orchestrator.core.journal import EventType
from cleanup_orchestrator.drain.roles import ByRoles
from cleanup_orchestrator.engine.keystone_listener import Listener
from tests.cloud.launcher import Cloud
from tests.cloud.noisy import listening
from tests.cloud.orchestrator import Orchestrator


@pytest.fixture(scope="module", params=["revoke", "none"])
def site(request, cloud_venv, tmp_path_factory) -> Iterator[Site]:
    options = f"[drain]\ndriver = {request.param}\n"
    with listening(tmp_path_factory, cloud_venv, "cadf", "glance", "barbican", options=options) as (
        cloud,
        orchestrator,
    ):
        yield Site(cloud, orchestrator, request.param)


class Site:
    """A cloud with a domain, its manager, and one project with a member."""

    def __init__(self, cloud: Cloud, orchestrator: Orchestrator, driver: str) -> None:
        self.cloud, self.orchestrator, self.driver = cloud, orchestrator, driver
        call = cloud.admin.call
        self.roles = {r["name"]: r["id"] for r in call("GET", "/roles")["roles"]}
        self.domain = call("POST", "/domains", {"domain": {"name": secrets.token_hex(4)}})["domain"]["id"]
        self.manager, self.member = self.user(), self.user()
        call("PUT", f"/domains/{self.domain}/users/{self.manager}/roles/{self.roles['manager']}")
        self.project = ""

    def user(self) -> str:
        made = {"name": secrets.token_hex(4), "password": "secret", "domain_id": self.domain}
        return self.cloud.admin.call("POST", "/users", {"user": made})["user"]["id"]

    def new_project(self) -> None:
        made = {"name": secrets.token_hex(4), "domain_id": self.domain}
        self.project = self.cloud.admin.call("POST", "/projects", {"project": made})["project"]["id"]
        self.cloud.admin.call("PUT", self.grant)

    @property
    def grant(self) -> str:
        return f"/projects/{self.project}/users/{self.member}/roles/{self.roles['member']}"

    @property
    def inherited(self) -> str:
        role = self.roles["member"]
        return f"/OS-INHERIT/domains/{self.domain}/users/{self.member}/roles/{role}/inherited_to_projects"

    def token(self, user_id: str, scope: dict[str, object]) -> str:
        identity = {"methods": ["password"], "password": {"user": {"id": user_id, "password": "secret"}}}
        answer = requests.post(
            f"{self.cloud.auth_url}/auth/tokens", json={"auth": {"identity": identity, "scope": scope}}, timeout=60
        )
        answer.raise_for_status()
        return answer.headers["X-Subject-Token"]

    def manage(self, method: str, path: str, body: object = None) -> None:
        """Send a request as the domain's manager."""
        token = self.token(self.manager, {"domain": {"id": self.domain}})
        answer = requests.request(
            method, self.cloud.auth_url + path, json=body, headers={"X-Auth-Token": token}, timeout=60
        )
        assert answer.status_code in (200, 204), (method, path, answer.status_code, answer.text)

    def enable(self, enabled: bool) -> None:
        self.manage("PATCH", f"/projects/{self.project}", {"project": {"enabled": enabled}})

    def create(self) -> None:
        """Create a secret and an image as the member."""
        token = self.token(self.member, {"project": {"id": self.project}})
        urls = {e["type"]: e for e in self.catalog()}
        for type_, path, body in (
            ("key-manager", "/v1/secrets", {"name": "kept", "payload": "x", "payload_content_type": "text/plain"}),
            ("image", "/v2/images", {"name": "kept", "disk_format": "raw", "container_format": "bare"}),
        ):
            url = urls[type_]["url"].rstrip("/") + path
            answer = requests.post(url, json=body, headers={"X-Auth-Token": token}, timeout=60)
            assert answer.status_code == 201, (url, answer.status_code, answer.text)

    def catalog(self) -> list[dict[str, str]]:
        call = self.cloud.admin.call
        types = {s["id"]: s["type"] for s in call("GET", "/services")["services"]}
        endpoints = call("GET", "/endpoints?interface=public")["endpoints"]
        return [{"type": types[e["service_id"]], "url": e["url"]} for e in endpoints]

    def left(self) -> list[str]:
        """Return what the services have of the project, as an admin sees it."""
        token = self.cloud.admin._token
        urls = {e["type"]: e["url"].rstrip("/") for e in self.catalog()}
        answer = requests.get(
            f"{urls['image']}/v2/images?owner={self.project}&member_status=all",
            headers={"X-Auth-Token": token},
            timeout=60,
        )
        return [f"image {image['id']}" for image in answer.json()["images"]]

    # -- the manager's manipulations
    def granted(self) -> None:
        self.manage("PUT", self.grant)
        self.create()
        self.manage("DELETE", self.grant)

    def heir(self) -> None:
        self.manage("PUT", self.inherited)
        self.create()
        self.manage("DELETE", self.inherited)

    def enabled(self) -> None:
        self.enable(True)
        self.manage("PUT", self.grant)
        self.create()
        self.manage("DELETE", self.grant)
        self.enable(False)

    def void_lines(self, deletion_id: str) -> list[tuple[str, str]]:
        rows = self.orchestrator.store.events(deletion_id, 1000, type=EventType.INVENTORY_VOID)
        return [(row.event.actor, row.event.message) for row in rows]


@contextlib.contextmanager
def slow_bus(monkeypatch) -> Iterator[None]:
    """Hold the notifications back: without this the project is locked again before the member can create anything."""
    handled, arrived = Listener.changed, threading.Event()

    def changed(self, *args):
        assert arrived.wait(60)
        handled(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Listener, "changed", changed)
        yield
        arrived.set()


def before(monkeypatch, method: str, once: Callable[[], None]) -> None:
    """Make a change at the worst moment, right before the first call of a method: the driver has compared all it can.

    :param method: ``close`` disables the project; after ``removal_headers`` the project is deleted
    """
    original, made = getattr(ByRoles, method), []

    def changed(self, context):
        if not made:
            made.append(1)
            once()
        return original(self, context)

    monkeypatch.setattr(ByRoles, method, changed)


def waited(until: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not until() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert until()


def test_an_undisturbed_deletion_is_not_voided(site):
    site.new_project()
    deletion_id = site.orchestrator.request(site.project, Mode.CASCADE)
    record = site.orchestrator.wait(deletion_id, Status.DELETED)
    assert site.void_lines(deletion_id) == []
    assert record.lock_evidence.startswith(f"user:{site.orchestrator.user_id} ")


@pytest.mark.parametrize("change", [Site.granted, Site.heir], ids=["grant", "inherited role"])
def test_a_role_that_is_given_and_taken_back_behind_the_drain_voids_the_proof(site, monkeypatch, change):
    if site.driver == "none":
        pytest.skip("nothing rests on the roles before the project is closed")
    site.new_project()
    deletion_id = site.orchestrator.request(site.project, Mode.CASCADE)

    def drained(record: Deletion) -> bool:
        return record.status is Status.VERIFYING and record.drained_at is not None and not record.closed_at

    first = site.orchestrator.wait(deletion_id, until=drained).drained_at
    with slow_bus(monkeypatch):
        change(site)
    record = site.orchestrator.wait(deletion_id, Status.DELETED)
    ((by, text), *_) = site.void_lines(deletion_id)
    print(f"\n{by}: {text}")
    assert by == (site.manager if change is Site.granted else "")  # Keystone does not name who gives an inherited role
    assert record.drained_at > first
    assert site.left() == []
    assert site.orchestrator.step(deletion_id, "key-manager.secret").deleted == 1


@pytest.mark.parametrize(
    ("method", "change"),
    [("close", Site.granted), ("removal_headers", Site.enabled)],
    ids=["a role right before it is disabled", "enabled right before it is removed"],
)
def test_a_change_after_the_last_look_voids_the_proof(site, monkeypatch, method, change):
    if site.driver == "none" and change is Site.granted:
        pytest.skip("nothing rests on the roles before the project is closed")
    site.new_project()
    deletion_id: list[str] = []

    def make() -> None:
        with slow_bus(monkeypatch):
            change(site)
        assert site.left()
        waited(lambda: site.void_lines(deletion_id[0]))

    before(monkeypatch, method, make)
    deletion_id.append(site.orchestrator.request(site.project, Mode.CASCADE))
    site.orchestrator.wait(deletion_id[0], Status.DELETED)
    ((by, text), *_) = site.void_lines(deletion_id[0])
    print(f"\n{by}: {text}")
    assert by == site.manager
    assert site.left() == []
    assert site.orchestrator.step(deletion_id[0], "key-manager.secret").deleted == 1
