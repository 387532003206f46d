"""What the manager of a domain, an admin and the orchestrator's own credentials can do to a fence: real Keystone.

The manager opens a hole in the lock, a member makes a network through it, and the manager closes the hole again. No
such deletion may end as ``deleted`` with the network left. ``CLEANUP_SWAPS`` is the number of these attempts.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import random
import secrets
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.keystone.protocol import (
    CHANGED_BY_OPTION,
    FENCE_OPTION,
    FINAL_HEADER,
    JANITOR_OPTION,
    SERIAL_HEADER,
    SERIAL_OPTION,
)
from tests.cloud.conftest import free_port_base
from tests.cloud.flows import oauth1_header, until_known
from tests.cloud.launcher import FENCED, Cloud
from tests.cloud.orchestrator import Orchestrator

SWAPS = int(os.environ.get("CLEANUP_SWAPS", "6"))  # more of them by hand
AT_ONCE = 6  #: deletions under attack at the same time
USER, PASSWORD = "orchestrator", "secret"
PROTECTED = "service"  #: a name on the never-delete list
FENCE = """
[orchestrator]
password = {password}
[drain]
driver = fence
"""


@dataclasses.dataclass
class Person:
    """A user who calls Keystone and Neutron with a token of one scope."""

    cloud: Cloud
    id: str
    scope: dict[str, Any]
    password: str = PASSWORD
    token: str = ""

    def log_in(self, scope: dict[str, Any] | None = None) -> requests.Response:
        user = {"id": self.id, "password": self.password}
        identity = {"methods": ["password"], "password": {"user": user}}
        body = {"auth": {"identity": identity, "scope": scope or self.scope}}
        url = f"{self.cloud.auth_url}/auth/tokens"
        return until_known(lambda: requests.post(url, json=body, timeout=60))

    def call(self, method: str, path: str, body: object = None, url: str = "", **headers: str) -> requests.Response:
        """Send a request to Keystone."""
        if not self.token:
            self.token = self.log_in().headers["X-Subject-Token"]
        sent = {"X-Auth-Token": self.token, **headers}
        target = (url or self.cloud.auth_url) + path
        return until_known(lambda: requests.request(method, target, json=body, headers=sent, timeout=60))

    def patch(self, project_id: str, **values: Any) -> int:
        """Change a project; return the status."""
        return self.call("PATCH", f"/projects/{project_id}", {"project": values}).status_code

    def options(self, project_id: str, **options: Any) -> int:
        """Change options of a project; return the status."""
        return self.patch(project_id, options=options)

    def make_project(self, domain_id: str, parent_id: str) -> int:
        """Make a project below another one; return the status."""
        values = {"name": f"p-{secrets.token_hex(4)}", "domain_id": domain_id, "parent_id": parent_id}
        return self.call("POST", "/projects", {"project": values}).status_code

    def make_network(self) -> int:
        """Make a network in the project of the token; return the status."""
        url = f"http://127.0.0.1:{self.cloud.ports['neutron']}/v2.0/networks"
        answer = requests.post(
            url, json={"network": {"name": "late"}}, headers={"X-Auth-Token": self.token}, timeout=60
        )
        return answer.status_code


class World:
    """A domain with its manager; projects with a member each."""

    def __init__(self, cloud: Cloud, orchestrator: Orchestrator) -> None:
        self.cloud, self.orchestrator = cloud, orchestrator
        admin = cloud.admin
        self.domain_id = admin.call("POST", "/domains", {"domain": {"name": f"d-{secrets.token_hex(4)}"}})["domain"][
            "id"
        ]
        self.roles = {role["name"]: role["id"] for role in admin.call("GET", "/roles")["roles"]}
        self.manager = self.person({"domain": {"id": self.domain_id}}, f"/domains/{self.domain_id}", "manager")
        service = {"project": {"name": "service", "domain": {"id": "default"}}}
        self.own = Person(cloud, orchestrator.user_id, service, cloud.site.password)
        (user,) = admin.call("GET", "/users?name=admin")["users"]
        scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
        self.admin = Person(cloud, user["id"], scope, cloud.site.password)

    def person(self, scope: dict[str, Any], where: str, role: str) -> Person:
        """Make a user with a role."""
        values = {"name": f"u-{secrets.token_hex(4)}", "password": PASSWORD, "domain_id": self.domain_id}
        made = Person(self.cloud, self.cloud.admin.call("POST", "/users", {"user": values})["user"]["id"], scope)
        self.cloud.admin.call("PUT", f"{where}/users/{made.id}/roles/{self.roles[role]}")
        return made

    def project(self) -> tuple[str, Person]:
        """Make a project and a member of it."""
        values = {"name": f"p-{secrets.token_hex(4)}", "domain_id": self.domain_id}
        project_id = self.cloud.admin.call("POST", "/projects", {"project": values})["project"]["id"]
        return project_id, self.person({"project": {"id": project_id}}, f"/projects/{project_id}", "member")

    def shown(self, project_id: str) -> dict[str, Any]:
        """Return a project as Keystone's database has it."""
        return self.cloud.admin.call("PATCH", f"/projects/{project_id}", {"project": {"description": "x"}})["project"]

    def networks(self, project_id: str) -> int:
        """Return how many networks a project has, whether Keystone knows it or not."""
        url = f"http://127.0.0.1:{self.cloud.ports['neutron']}/v2.0/networks?project_id={project_id}"
        return len(self.cloud.admin.call("GET", url)["networks"])


@pytest.fixture(scope="module")
def world(cloud_venv, tmp_path_factory) -> Iterator[World]:
    parameters = {**FENCED, "cleanup_user": USER}
    made = Cloud(
        tmp_path_factory.mktemp("managed"),
        cloud_venv,
        port_base=free_port_base(),
        services=("neutron",),
        keystone_processes=2,
        keystone_cache="shared",
        **parameters,
    )
    with made:
        extra = FENCE.format(password=made.site.password)
        orchestrator = Orchestrator(made, tmp_path_factory.mktemp("orchestrator"), extra)
        made.admin.ensure("roles", "role", {"name": "manager"})
        yield World(made, orchestrator)
        orchestrator.running.close()


DELETION = str(uuid.uuid4())
BLOB = json.dumps({"access": "a", "secret": "b"})

#: What is tried at a fenced project, with the answer to an admin, to the domain's manager and to a member.
ATTEMPTS: dict[str, tuple[Callable[[World, Person, str], int], tuple[int, int, int]]] = {
    "lift the fence": (lambda w, who, p: who.options(p, cleanup_fence=None), (200, 403, 403)),
    "replace the fence": (lambda w, who, p: who.options(p, cleanup_fence=str(uuid.uuid4())), (403, 403, 403)),
    "text as a fence": (lambda w, who, p: who.options(p, cleanup_fence="'; rm -rf /; '"), (400, 400, 400)),
    "a line break in a fence": (lambda w, who, p: who.options(p, cleanup_fence=DELETION + "\n"), (400, 400, 400)),
    "set the janitor": (lambda w, who, p: who.options(p, cleanup_janitor=who.id), (403, 403, 403)),
    "set the serial": (lambda w, who, p: who.options(p, cleanup_fence_serial=1), (403, 403, 403)),
    "set the author": (lambda w, who, p: who.options(p, cleanup_fence_changed_by="x"), (403, 403, 403)),
    "disable": (lambda w, who, p: who.patch(p, enabled=False), (409, 409, 403)),
    "enable": (lambda w, who, p: who.patch(p, enabled=True), (409, 409, 403)),
    "make immutable": (lambda w, who, p: who.options(p, immutable=True), (409, 409, 403)),
    "no option": (lambda w, who, p: who.patch(p, options={}), (409, 409, 403)),
    "tags by PATCH": (lambda w, who, p: who.patch(p, tags=["x"]), (409, 409, 403)),
    "tags by PUT": (
        lambda w, who, p: who.call("PUT", f"/projects/{p}/tags", {"tags": ["x"]}).status_code,
        (409, 409, 403),
    ),
    "a tag": (lambda w, who, p: who.call("PUT", f"/projects/{p}/tags/x").status_code, (409, 409, 403)),
    "no tags": (lambda w, who, p: who.call("DELETE", f"/projects/{p}/tags").status_code, (409, 409, 403)),
    "grant": (
        lambda w, who, p: who.call("PUT", f"/projects/{p}/users/{who.id}/roles/{w.roles['member']}").status_code,
        (409, 409, 403),
    ),
    "grant to children": (
        lambda w, who, p: (
            who.call(
                "PUT", f"/OS-INHERIT/projects/{p}/users/{who.id}/roles/{w.roles['member']}/inherited_to_projects"
            ).status_code
        ),
        (409, 409, 403),
    ),
    "delete": (lambda w, who, p: who.call("DELETE", f"/projects/{p}").status_code, (409, 409, 403)),
    "delete as if finally": (
        lambda w, who, p: who.call("DELETE", f"/projects/{p}", **{FINAL_HEADER: DELETION}).status_code,
        (409, 409, 403),
    ),
    "rename": (lambda w, who, p: who.patch(p, name=PROTECTED), (409, 409, 403)),
    "a project below": (lambda w, who, p: who.make_project(w.domain_id, p), (409, 409, 403)),
    "a description": (lambda w, who, p: who.patch(p, description="y"), (200, 200, 403)),
}


@pytest.mark.parametrize("what", ATTEMPTS)
def test_what_others_may_do_to_a_fenced_project(world, what):
    attempt, expected = ATTEMPTS[what]
    answers = []
    for number, which in enumerate(("admin", "manager", "member")):
        project_id, member = world.project()
        member.call("GET", "/auth/catalog")  # a token from before the fence, which a service may hold
        who = {"admin": world.admin, "manager": world.manager, "member": member}[which]
        if which == "member":  # behind the fence no token of the project is valid: an unscoped one
            who = dataclasses.replace(member, scope={"project": {"id": world.project()[0]}}, token="")
            world.cloud.admin.call(
                "PUT", f"/projects/{who.scope['project']['id']}/users/{member.id}/roles/{world.roles['member']}"
            )
        assert world.own.options(project_id, cleanup_fence=DELETION) == 200
        before = world.shown(project_id)
        answers.append(attempt(world, who, project_id))
        after = world.shown(project_id)
        if expected[number] >= 400:
            assert after == before, which
    assert tuple(answers) == expected


@pytest.mark.parametrize("what", ["rename", "a project below"])
def test_a_domain_manager_ends_no_cascade(world, what):
    project_id, member = world.project()
    member.call("GET", "/auth/catalog")
    assert member.make_network() == 201
    deletion_id = world.orchestrator.request(project_id, Mode.CASCADE)
    world.orchestrator.wait(deletion_id, until=lambda record: record.drained_at is not None)
    attempt, _ = ATTEMPTS[what]
    assert attempt(world, world.manager, project_id) == 409
    record = world.orchestrator.wait(deletion_id, until=lambda record: record.status not in LIVE)
    assert (record.status, world.networks(project_id)) == (Status.DELETED, 0), record


def test_a_lifted_fence_names_the_admin_and_leaves_the_project_as_usable_as_before(world):
    project_id, _ = world.project()
    world.own.options(project_id, cleanup_fence=DELETION, cleanup_janitor="a-janitor")
    fenced = world.shown(project_id)["options"]
    assert fenced[CHANGED_BY_OPTION] == world.own.id
    assert world.own.options(project_id, cleanup_fence=DELETION) == 200
    assert world.shown(project_id)["options"] == fenced, "it was there already"
    assert world.admin.options(project_id, cleanup_fence=None) == 200
    lifted = world.shown(project_id)["options"]
    assert lifted[CHANGED_BY_OPTION] == world.admin.id
    assert lifted[SERIAL_OPTION] > fenced[SERIAL_OPTION]
    assert not {FENCE_OPTION, JANITOR_OPTION} & lifted.keys()
    # Clients send back what they read; Keystone itself does when it removes a tag.
    assert world.manager.options(project_id, **lifted) == 200
    for method in ("PUT", "DELETE"):
        assert world.manager.call(method, f"/projects/{project_id}/tags/x").ok
    assert world.manager.patch(project_id, enabled=False) == 200
    assert world.own.options(project_id, cleanup_fence=DELETION) == 200
    assert world.shown(project_id)["options"][SERIAL_OPTION] > lifted[SERIAL_OPTION]


def test_the_manager_sets_no_fence_and_makes_no_project_with_one(world):
    project_id, _ = world.project()
    assert world.manager.options(project_id, cleanup_fence=DELETION) == 403
    assert world.admin.options(project_id, cleanup_fence=DELETION) == 403
    values = {"name": "born", "domain_id": world.domain_id, "options": {FENCE_OPTION: DELETION}}
    assert world.manager.call("POST", "/projects", {"project": values}).status_code == 403
    assert world.manager.options(project_id, immutable=False) == 200, "other options are not affected"


def test_a_domain_with_a_fenced_project_is_not_deleted(world):
    other = World(world.cloud, world.orchestrator)
    project_id, _ = other.project()
    world.own.options(project_id, cleanup_fence=DELETION)
    world.cloud.admin.call("PATCH", f"/domains/{other.domain_id}", {"domain": {"enabled": False}})
    for path in (f"/domains/{other.domain_id}", f"/projects/{other.domain_id}"):
        answer = world.admin.call("DELETE", path)
        assert answer.status_code == 409, path
        assert project_id in answer.json()["error"]["message"]
    assert world.admin.options(project_id, cleanup_fence=None) == 200
    assert world.admin.call("DELETE", f"/domains/{other.domain_id}").status_code == 204


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ((), 204),
        ((None,), 409),
        ((None, DELETION), 409),
        ((str(uuid.uuid4()),), 409),
    ],
    ids=["unchanged", "lifted", "lifted and set again", "replaced"],
)
def test_keystone_itself_compares_the_serial_before_the_final_delete(world, change, status):
    project_id, _ = world.project()
    world.own.options(project_id, cleanup_fence=DELETION)
    serial = str(world.shown(project_id)["options"][SERIAL_OPTION])
    for fence in change:
        assert world.own.options(project_id, cleanup_fence=fence) == 200
    headers = {FINAL_HEADER: DELETION, SERIAL_HEADER: serial}
    assert world.own.call("DELETE", f"/projects/{project_id}", **headers).status_code == status


def oauth1_request(world: World, project_id: str) -> str:
    """Have a new consumer of OAuth1 ask for access to a project; return the ID of the request token."""
    made = world.cloud.admin.call("POST", "/OS-OAUTH1/consumers", {"consumer": {"description": "x"}})["consumer"]
    url = f"{world.cloud.auth_url}/OS-OAUTH1/request_token"
    headers = {"Authorization": oauth1_header(url, made["id"], made["secret"]), "Requested-Project-Id": project_id}
    answer = requests.post(url, headers=headers, timeout=60)
    assert answer.status_code == 201, answer.text
    return urllib.parse.parse_qs(answer.text)["oauth_token"][0]


def test_no_credential_outlives_the_token_of_the_orchestrator(world):
    """A service that got its token can make no other way to log in of it."""
    project_id, _ = world.project()
    other_id, _ = world.project()
    user = world.own.id
    grant = f"/projects/{project_id}/users/{user}/roles/{world.roles['member']}"
    world.cloud.admin.call("PUT", grant)
    bodies = {
        f"/users/{user}/credentials/OS-EC2": {"tenant_id": other_id},
        "/credentials": {"credential": {"type": "ec2", "blob": BLOB, "project_id": other_id, "user_id": user}},
        f"/users/{user}/application_credentials": {"application_credential": {"name": "a", "unrestricted": True}},
        "/OS-TRUST/trusts": {
            "trust": {
                "trustor_user_id": user,
                "trustee_user_id": world.manager.id,
                "impersonation": True,
                "project_id": project_id,
                "roles": [{"id": world.roles["member"]}],
            }
        },
    }
    for url, (path, body) in itertools.product(world.cloud.keystone_urls, bodies.items()):
        assert world.own.call("POST", path, body, url).status_code == 403, path
    requested = oauth1_request(world, project_id)
    authorized = {"roles": [{"id": world.roles["member"]}]}
    for url in world.cloud.keystone_urls:
        assert world.own.call("PUT", f"/OS-OAUTH1/authorize/{requested}", authorized, url).status_code == 403
    # Others make theirs as before.
    world.cloud.admin.call("PUT", f"/projects/{project_id}/users/{world.admin.id}/roles/{world.roles['member']}")
    assert world.admin.call("PUT", f"/OS-OAUTH1/authorize/{requested}", authorized).status_code == 200
    mine = {"application_credential": {"name": "mine"}}
    assert world.admin.call("POST", f"/users/{world.admin.id}/application_credentials", mine).status_code == 201


def test_a_token_made_of_the_orchestrator_s_token_opens_no_fenced_project(world):
    project_id, _ = world.project()
    world.cloud.admin.call("PUT", f"/projects/{project_id}/users/{world.own.id}/roles/{world.roles['member']}")
    scope = {"project": {"id": project_id}}
    world.own.call("GET", "/auth/catalog")

    def rescope() -> requests.Response:
        identity = {"methods": ["token"], "token": {"id": world.own.token}}
        body = {"auth": {"identity": identity, "scope": scope}}
        return until_known(lambda: requests.post(f"{world.cloud.auth_url}/auth/tokens", json=body, timeout=60))

    before = rescope()
    assert before.status_code == 201
    world.own.options(project_id, cleanup_fence=DELETION)
    time.sleep(1)
    assert rescope().status_code == 401
    own = dataclasses.replace(world.own, scope=scope, token="")
    assert own.log_in().status_code == 201, "with its password"
    stale = dataclasses.replace(world.own, token=before.headers["X-Subject-Token"])
    assert stale.call("GET", "/auth/catalog").status_code == 401


# ------------------------------------------------------------------------------------------------- a hole in the lock
class Attack(threading.Thread):
    """Waits for a random moment of a deletion, opens a hole, has a member make a network, and closes the hole."""

    def __init__(self, world: World, who: Person, delay: float) -> None:
        super().__init__(daemon=True)
        self.world, self.who, self.delay = world, who, delay
        self.project_id, self.member = world.project()
        self.member.call("GET", "/auth/catalog")
        self.deletion_id = world.orchestrator.request(self.project_id, Mode.CASCADE)
        self.opened, self.made = False, 0
        self.start()

    def run(self) -> None:
        time.sleep(self.delay)
        fence = self.deletion_id
        lift = {"project": {"options": {FENCE_OPTION: None}}}
        answer = self.who.call("PATCH", f"/projects/{self.project_id}", lift)
        # Without a fence there is nothing to lift: 200.
        self.opened = answer.ok and answer.json()["project"]["options"].get(CHANGED_BY_OPTION) == self.who.id
        self.who.patch(self.project_id, enabled=True)
        over = time.monotonic() + 3  # the hole is in effect within a second
        while time.monotonic() < over and self.made != 201:
            self.member.token = self.member.log_in().headers.get("X-Subject-Token", self.member.token)
            self.made = self.member.make_network()
        self.who.patch(self.project_id, enabled=False)
        self.who.options(self.project_id, cleanup_fence=fence)


def attacked(world: World, who: Person, seed: int) -> list[Attack]:
    """Attack deletions at random moments; return the attacks after all deletions have ended."""
    chance, done = random.Random(seed), list[Attack]()
    while len(done) < SWAPS:
        attacks = [Attack(world, who, chance.uniform(0, 15)) for _ in range(min(AT_ONCE, SWAPS - len(done)))]
        for attack in attacks:
            attack.join()
            record = world.orchestrator.wait(attack.deletion_id, until=lambda r: r.status not in LIVE)
            left = world.networks(attack.project_id)
            assert (record.status, left) == (Status.DELETED, 0), (attack.delay, attack.opened, attack.made, record)
        done += attacks
        holes, networks = sum(a.opened for a in done), sum(a.made == 201 for a in done)
        print(f"{len(done)} attacks: {holes} holes, {networks} networks made")
    return done


def test_no_hole_of_a_domain_manager_at_any_moment_makes_a_false_deleted(world):
    attacks = attacked(world, world.manager, 1)
    assert not any(attack.opened for attack in attacks)


def test_no_hole_of_an_admin_at_any_moment_makes_a_false_deleted(world):
    """An admin may lift the fence. The project is locked and proven empty again, or it is gone before."""
    attacks = attacked(world, world.admin, 2)
    assert any(attack.opened for attack in attacks)
