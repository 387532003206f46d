"""The driver for a stock Keystone, against several real Keystone processes under permanent requests."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import requests
from keystoneauth1 import exceptions as ka_exceptions
from oslo_config import cfg

from cleanup_orchestrator import opts
from cleanup_orchestrator.cloud.connections import Clouds
from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.condition_types import Condition
from cleanup_orchestrator.core.deletion import Deletion, Mode, Status
from cleanup_orchestrator.core.journal import Change
from cleanup_orchestrator.core.reasons import REMEDIES, Reason
from cleanup_orchestrator.drain import base
from cleanup_orchestrator.drain.revoke import Revoke
from tests.cloud import filler
from tests.cloud.conftest import free_port_base
from tests.cloud.errors import CloudError
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import CONFIGURATION, Orchestrator

ROUNDS = int(os.environ.get("CLEANUP_RACE_ROUNDS", "6"))  # more of them by hand


class Keystones:
    """Several Keystone processes; a user in a project; and the driver's view of it."""

    def __init__(self, cloud: Cloud, directory: pathlib.Path) -> None:
        self.cloud = cloud
        admin = cloud.admin
        self.me = admin.ensure_user("orchestrator", "orchestrator", "service", ("admin", "service"))["id"]
        path = directory / "orchestrator.conf"
        path.write_text(CONFIGURATION.format(directory=directory, auth_url=cloud.auth_url))
        conf = cfg.ConfigOpts()  # a separate one: several test processes may run at once
        opts.register(conf)
        conf(["--config-file", str(path)], project="cleanup-orchestrator")
        self.clouds = Clouds(conf)
        self.roles = {r["name"]: r["id"] for r in admin.call("GET", "/roles")["roles"]}
        name = f"raced-{secrets.token_hex(4)}"
        self.user = admin.ensure_user(name, "secret", name, ("member",))["id"]
        self.id = admin.call("GET", f"/projects?name={name}")["projects"][0]["id"]
        self.grant(self.me, "admin")
        self.changes: list[tuple[str, dict]] = []

    def grant(self, user_id: str, role: str, method: str = "PUT") -> None:
        self.cloud.admin.call(method, f"/projects/{self.id}/users/{user_id}/roles/{self.roles[role]}")

    def enable(self, enabled: bool) -> None:
        self.cloud.admin.call("PATCH", f"/projects/{self.id}", {"project": {"enabled": enabled}})

    def ground(self) -> base.DrainContext:
        def record_intent(type_, data):
            self.changes.append((type_, dict(data)))

        projects = Projects(self.clouds.identity(self.clouds.admin_session(lambda *_: None)))
        guard = lambda *_: None  # noqa: E731
        return base.DrainContext("d", self.id, self.me, self.clouds, projects, guard, record_intent)

    def undo(self) -> None:
        for type_, data in reversed(self.changes):
            base.undo(self.ground().projects, self.id, Change("c", "d", 1, type_, data))
        self.changes.clear()

    def token(self) -> str:
        """Return a token of the user for the project."""
        user = {"id": self.user, "password": "secret"}
        identity = {"methods": ["password"], "password": {"user": user}}
        body = {"auth": {"identity": identity, "scope": {"project": {"id": self.id}}}}
        answer = requests.post(f"{self.cloud.auth_url}/auth/tokens", json=body, timeout=60)
        answer.raise_for_status()
        return answer.headers["X-Subject-Token"]

    def asked(self, url: str, token: str, session=requests) -> int:
        headers = {"X-Auth-Token": self.cloud.admin._token, "X-Subject-Token": token}
        return session.get(f"{url}/auth/tokens?nocatalog", headers=headers, timeout=60).status_code

    def takers(self, token: str) -> int:
        """Return how many of the processes accept the token."""
        return sum(self.asked(url, token) == 200 for url in self.cloud.keystone_urls)

    @contextlib.contextmanager
    def hammered(self, token: str) -> Iterator[None]:
        """Validate the token in every process without a pause, as services do."""
        stop = threading.Event()

        def ask(url: str) -> None:
            with requests.Session() as session:
                while not stop.is_set():
                    self.asked(url, token, session)

        threads = [threading.Thread(target=ask, args=(url,)) for url in self.cloud.keystone_urls for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def race(self, lock: Callable[[], object]) -> int:
        """Return how many processes still accept the token of the user after the lock."""
        token = self.token()
        with self.hammered(token):
            time.sleep(0.5)
            lock()
            time.sleep(0.3)
            taken = self.takers(token)
        return max(taken, self.takers(token))


@contextlib.contextmanager
def running(venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory, cache: str) -> Iterator[Keystones]:
    directory = tmp_path_factory.mktemp(f"keystones-{cache}")
    with Cloud(
        directory, venv, port_base=free_port_base(), services=(), keystone_processes=3, keystone_cache=cache
    ) as cloud:
        yield Keystones(cloud, tmp_path_factory.mktemp("orchestrator"))


@pytest.fixture(scope="module")
def keystones(cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keystones]:
    """Three processes that share their cache, as in production."""
    with running(cloud_venv, tmp_path_factory, "shared") as made:
        yield made


def test_after_the_drain_no_process_accepts_an_old_token(keystones):
    plain = driven = 0
    for _ in range(ROUNDS):
        plain += keystones.race(lambda: keystones.grant(keystones.user, "member", "DELETE")) > 0
        keystones.grant(keystones.user, "member")
    for _ in range(ROUNDS):
        driven += keystones.race(lambda: Revoke().drain(keystones.ground())) > 0
        keystones.undo()
    print(f"\nold token still good: {plain} of {ROUNDS} after a plain removal, {driven} of {ROUNDS} after the drain")
    assert driven == 0


def test_after_the_closing_disable_no_process_accepts_an_old_token(keystones):
    plain = driven = 0
    for _ in range(ROUNDS):
        plain += keystones.race(lambda: keystones.enable(False)) > 0
        keystones.enable(True)
    for _ in range(ROUNDS):
        driven += keystones.race(lambda: base.disable(keystones.ground())) > 0
        with pytest.raises(ka_exceptions.Unauthorized):
            keystones.clouds.session(
                keystones.clouds.project_auth(keystones.id, fresh=True), lambda *_: None
            ).get_token()
        keystones.undo()
    print(f"\nold token still good: {plain} of {ROUNDS} after a plain PATCH, {driven} of {ROUNDS} after the closing")
    assert driven == 0


def test_processes_with_separate_caches_are_noticed(cloud_venv, tmp_path_factory):
    with running(cloud_venv, tmp_path_factory, "process") as keystones:
        token = keystones.token()
        assert keystones.takers(token) == 3
        with pytest.raises(base.NotHeld, match="do not share their cache"):
            Revoke().drain(keystones.ground())
        assert keystones.takers(token) > 0, "it was right to complain"


def test_a_group_that_admits_federated_users_is_not_treated_as_empty(keystones):
    admin = keystones.cloud.admin
    group = admin.call("POST", "/groups", {"group": {"name": "federated", "domain_id": "default"}})["group"]["id"]
    inherited = f"/OS-INHERIT/domains/default/groups/{group}/roles/{keystones.roles['member']}/inherited_to_projects"
    direct = f"/projects/{keystones.id}/groups/{group}/roles/{keystones.roles['member']}"
    try:
        admin.call("PUT", direct)
        assert Revoke().drain(keystones.ground()).full
        assert Revoke().held(keystones.ground())
        admin.call("PUT", direct)
        assert not Revoke().held(keystones.ground())
        admin.call("DELETE", direct)
        admin.call("PUT", inherited)
        assert not Revoke().held(keystones.ground())
        result = Revoke().drain(keystones.ground())
        assert (result.full, result.reason) == (False, "inherited_grants")
        assert group in result.message
        admin.call("PUT", f"/groups/{group}/users/{keystones.user}")
        message = Revoke().drain(keystones.ground()).message
        assert (keystones.user in message, group in message) == (True, False), "Keystone lists its users"
    finally:
        admin.call("DELETE", f"/groups/{group}")
        keystones.undo()


def test_a_group_that_inherits_from_a_project_above_is_seen_too(keystones):
    admin = keystones.cloud.admin
    made = {"project": {"name": secrets.token_hex(4), "domain_id": "default", "parent_id": keystones.id}}
    child = admin.call("POST", "/projects", made)["project"]["id"]
    group = admin.call("POST", "/groups", {"group": {"name": child, "domain_id": "default"}})["group"]["id"]
    role = keystones.roles["member"]
    admin.call("PUT", f"/OS-INHERIT/projects/{keystones.id}/groups/{group}/roles/{role}/inherited_to_projects")
    try:
        projects = keystones.ground().projects
        assert projects.inherited_groups(child) == (group,)
        assert projects.inherited_groups(keystones.id) == (), "it reaches what is below, not the project itself"
    finally:
        admin.call("DELETE", f"/groups/{group}")
        admin.call("DELETE", f"/projects/{child}")


# ---------------------------------------------------------------------------------------------------- inherited grants
@pytest.fixture
def heir(cloud: Cloud) -> Iterator[str]:
    """A user with a role on every project of the domain, until the test removes it."""
    role = cloud.admin.call("GET", "/roles?name=member")["roles"][0]["id"]
    user = cloud.admin.ensure_user("heir-of-all", "heir", "service", ("member",))["id"]
    path = f"/OS-INHERIT/domains/default/users/{user}/roles/{role}/inherited_to_projects"
    cloud.admin.call("PUT", path)
    yield user
    with contextlib.suppress(CloudError):
        cloud.admin.call("DELETE", path)


@pytest.fixture
def blocking(orchestrator: Orchestrator) -> Iterator[Orchestrator]:
    """An orchestrator that waits for the removal of inherited grants."""
    conf = orchestrator.parts.conf
    conf.set_override("inherited_grants", "block", group="drain")
    yield orchestrator
    conf.clear_override("inherited_grants", group="drain")


def condition(record: Deletion, type_: str) -> Condition | None:
    return next((c for c in record.conditions if c.type == type_), None)


def test_where_inherited_grants_block_a_cascade_waits_until_an_admin_has_removed_them(cloud, admin, blocking, heir):
    filled = filler.fill(admin, "blocked", only=("key-manager",))
    deletion_id = blocking.request(filled.project_id, Mode.CASCADE)

    def blocked(record: Deletion) -> bool:
        found = condition(record, "blocked")
        return found is not None and found.status and "inherited_grants" in found.message

    record = blocking.wait(deletion_id, until=blocked)
    assert (record.status, record.drained_at) == (Status.DRAINING, None)
    (blocker,) = blockers(record, blocking.store.steps(deletion_id))
    assert (blocker.type, blocker.reason) == ("drain", "inherited_grants")
    assert heir in blocker.message
    assert blocker.remedy == REMEDIES[Reason.INHERITED_GRANTS].replace("{deletion}", deletion_id)
    assert blocking.step(deletion_id, "key-manager.secret").deleted == 0
    role = cloud.admin.call("GET", "/roles?name=member")["roles"][0]["id"]
    cloud.admin.call("DELETE", f"/OS-INHERIT/domains/default/users/{heir}/roles/{role}/inherited_to_projects")
    record = blocking.wait(deletion_id, Status.DELETED)
    assert record.drained_at < record.closed_at


def test_where_inherited_grants_block_a_report_ends_with_their_names_and_gives_the_project_back(
    cloud, admin, sweeper, blocking, heir
):
    filled = filler.fill(admin, "blocked-report", only=())
    grants = sweeper.assignments(filled.project_id)
    deletion_id = blocking.request(filled.project_id, Mode.REPORT)
    record = blocking.wait(deletion_id, Status.LEFTOVERS)
    assert heir in record.message
    assert sweeper.assignments(filled.project_id) == grants
    assert blocking.store.changes(deletion_id) == ()


def test_where_they_do_not_block_the_record_names_types_of_the_last_scoped_inventory(cloud, admin, orchestrator, heir):
    filled = filler.fill(admin, "not-blocked", only=("key-manager",))
    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
    record = orchestrator.wait(deletion_id, Status.DELETED)
    text = condition(record, "drained").message
    assert "key-manager.secret" in text
    assert "while others still got tokens" in text
    assert f"drained: {text}" in {e.event.message for e in orchestrator.store.events(deletion_id, 1000)}
