"""Promise 5: changes of the drain are undone after a kill of the worker at any point. Against a real Keystone."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import importlib.metadata
import os
import pathlib
import secrets
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from cleanup_orchestrator.core.deletion import Deletion, Mode, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.keystone.protocol import CHANGED_BY_OPTION, OPTION_IDS, SERIAL_OPTION
from cleanup_orchestrator.store import Store, tables
from tests.cloud import mortal
from tests.cloud.conftest import Sweeper, free_port_base
from tests.cloud.errors import Conflict
from tests.cloud.flows import until_known
from tests.cloud.launcher import FENCED, Cloud
from tests.cloud.orchestrator import CONFIGURATION
from tests.support import commit, real_services
from tests.support.stores import save

#: A run kills the process before every STRIDEth effect, and six rotations run before all; `tox -e nightly` sets 1.
STRIDE = int(os.environ.get("CLEANUP_CRASH_STRIDE") or 6)
DRIVERS = sorted(e.name for e in importlib.metadata.entry_points(group="cleanup_orchestrator.drain"))
#: Everything that Keystone has of one project.
TABLES = {
    "project": "id",
    "project_option": "project_id",
    "project_tag": "project_id",
    "assignment": "target_id",
    "application_credential": "project_id",
    "trust": "project_id",
    "credential": "project_id",
}


#: Options that stay when a fence is lifted, so that each fence of a project has a serial of its own.
COUNTS = {OPTION_IDS[SERIAL_OPTION], OPTION_IDS[CHANGED_BY_OPTION]}


@dataclasses.dataclass
class Person:
    """A user with a password."""

    id: str
    name: str
    password: str = "secret"


class Tenant:
    """A project and users with each kind of access."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.sweeper = cloud, Sweeper(cloud)
        self.name = f"tenant-{secrets.token_hex(4)}"
        admin = cloud.admin
        self.id = admin.call("POST", "/projects", {"project": {"name": self.name, "domain_id": "default"}})["project"][
            "id"
        ]
        self.roles = {r["name"]: r["id"] for r in admin.call("GET", "/roles")["roles"]}
        self.user, self.colleague, self.heir = (self.person(who) for who in ("user", "colleague", "heir"))
        group = {"name": f"{self.name}-group", "domain_id": "default"}
        self.group = admin.call("POST", "/groups", {"group": group})["group"]["id"]
        admin.call("PUT", f"/groups/{self.group}/users/{self.colleague.id}")
        self.grant("users", self.user.id, "member")
        self.grant("users", self.user.id, "manager")
        self.grant("groups", self.group, "reader")
        self.inherited = (
            f"/OS-INHERIT/domains/default/users/{self.heir.id}/roles/{self.roles['reader']}/inherited_to_projects"
        )
        admin.call("PUT", self.inherited)
        self._headers = {"X-Auth-Token": self._token(self._password(self.user), project=True)}
        credential = {"application_credential": {"name": self.name}}
        self.credential = self._make(f"/users/{self.user.id}/application_credentials", credential)
        trust = {"trustor_user_id": self.user.id, "trustee_user_id": self.colleague.id, "project_id": self.id}
        trust |= {"impersonation": False, "roles": [{"name": "member"}]}
        self.trust = self._make("/OS-TRUST/trusts", {"trust": trust})
        self.ec2 = self._make(f"/users/{self.user.id}/credentials/OS-EC2", {"tenant_id": self.id})

    def close(self) -> None:
        """Take the inherited grant away: it reaches all projects of the domain."""
        self.cloud.admin.call("DELETE", self.inherited)

    def person(self, suffix: str) -> Person:
        user = {"name": f"{self.name}-{suffix}", "password": "secret", "domain_id": "default"}
        return Person(self.cloud.admin.call("POST", "/users", {"user": user})["user"]["id"], user["name"])

    def grant(self, actor: str, actor_id: str, role: str, method: str = "PUT") -> None:
        self.cloud.admin.call(method, f"/projects/{self.id}/{actor}/{actor_id}/roles/{self.roles[role]}")

    def enable(self, enabled: bool) -> None:
        self.cloud.admin.call("PATCH", f"/projects/{self.id}", {"project": {"enabled": enabled}})

    def _make(self, path: str, body: dict) -> dict:
        url = self.cloud.auth_url + path
        answer = until_known(lambda: requests.post(url, json=body, headers=self._headers, timeout=60))
        answer.raise_for_status()
        return next(iter(answer.json().values()))

    # -- who gets a token
    @staticmethod
    def _password(person: Person) -> dict:
        return {"methods": ["password"], "password": {"user": {"id": person.id, "password": person.password}}}

    def _ask(self, identity: dict, scope: dict | None) -> requests.Response:
        body = {"auth": {"identity": identity} | ({"scope": scope} if scope else {})}
        return until_known(lambda: requests.post(f"{self.cloud.auth_url}/auth/tokens", json=body, timeout=60))

    def _token(self, identity: dict, project: bool) -> str:
        answer = self._ask(identity, {"project": {"id": self.id}} if project else None)
        answer.raise_for_status()
        return answer.headers["X-Subject-Token"]

    def _signed(self) -> requests.Response:
        params = {"AWSAccessKeyId": self.ec2["access"], "SignatureMethod": "HmacSHA256", "SignatureVersion": "2"}
        text = "GET\nhost\n/\n" + "&".join(f"{k}={v}" for k, v in sorted(params.items()))
        digest = hmac.new(self.ec2["secret"].encode(), text.encode(), hashlib.sha256).digest()
        credentials = {"access": self.ec2["access"], "signature": base64.b64encode(digest).decode(), "host": "host"}
        credentials |= {"verb": "GET", "path": "/", "params": params}
        self.cloud.admin.call("GET", "/roles")  # so that it has a token
        url, headers = f"{self.cloud.auth_url}/ec2tokens", {"X-Auth-Token": self.cloud.admin._token}
        return until_known(lambda: requests.post(url, json={"credentials": credentials}, headers=headers, timeout=60))

    def logins(self) -> dict[str, bool]:
        """Return for each way to a project token whether it works."""
        scope = {"project": {"id": self.id}}
        credential = {"id": self.credential["id"], "secret": self.credential["secret"]}
        trustee = {"OS-TRUST:trust": {"id": self.trust["id"]}}
        answers = {
            "user": self._ask(self._password(self.user), scope),
            "group": self._ask(self._password(self.colleague), scope),
            "inherited": self._ask(self._password(self.heir), scope),
            "application credential": self._ask(
                {"methods": ["application_credential"], "application_credential": credential}, None
            ),
            "trust": self._ask(self._password(self.colleague), trustee),
            "ec2": self._signed(),
        }
        return {way: answer.status_code in (200, 201) for way, answer in answers.items()}

    def usable(self) -> bool:
        """Return whether every way works again. Other tests measure how soon a lifted fence has no more effect."""
        deadline = time.monotonic() + 60
        while not all(self.logins().values()):
            if time.monotonic() > deadline:
                return False
        return True

    def state(self) -> dict[str, list[tuple]]:
        """Return all that Keystone's database has of the project, without the count of the changes of its fence."""
        found = {
            table: sorted(self.sweeper.rows("keystone", f"SELECT * FROM {table} WHERE {column} = ?", self.id), key=str)
            for table, column in TABLES.items()
        }
        found["project_option"] = [row for row in found["project_option"] if not COUNTS & set(row)]
        return found


class Record:
    """A store with deletions, on which other processes work."""

    def __init__(self, cloud: Cloud, directory: pathlib.Path, driver: str) -> None:
        # A Keystone with the fence plugin names the user in its configuration, so the user exists already.
        password = cloud.site.password if cloud.site.cleanup_user else "orchestrator"
        cloud.admin.ensure_user("orchestrator", password, "service", ("admin", "service"))
        self.cloud, self.driver = cloud, driver
        self.config = directory / "orchestrator.conf"
        text = CONFIGURATION.format(directory=directory, auth_url=cloud.auth_url)
        text = text.replace("password = orchestrator", f"password = {password}")
        self.config.write_text(text.replace("[drain]", f"[drain]\ndriver = {driver}"))
        self.store = Store.from_url(f"sqlite:///{directory}/orchestrator.sqlite")
        tables.metadata.create_all(self.store.database.engine)

    def deletion(self, project_id: str) -> str:
        now = self.store.now()
        made = Deletion(
            str(uuid.uuid4()), project_id, "?", "default", Mode.CASCADE, False, Status.DRAINING, now, now, now, now, now
        )
        return self.store.create(made, TASKS, Event("deletion.accepted", "a test asks for it")).id

    def run(self, what: str, deletion_id: str, die_before: int = 0) -> tuple[bool, list[str]]:
        return mortal.run(what, self.config, deletion_id, die_before)

    def lock(self, project_id: str) -> str:
        """Lock the project completely, with all changes on record; return the id of the deletion."""
        deletion_id = self.deletion(project_id)
        ended, _ = self.run("lock", deletion_id)
        assert ended
        before, now = self.store.get(deletion_id), self.store.now()
        closed = dataclasses.replace(before, status=Status.VERIFYING, drained_at=now, closed_at=now)
        save(self.store, before, closed)
        return deletion_id

    def cancel(self, deletion_id: str) -> None:
        ended, _ = self.run("cancel", deletion_id)
        assert ended
        assert self.store.get(deletion_id).status is Status.CANCELLED
        assert self.store.changes(deletion_id) == ()

    def yielded(self, deletion_id: str) -> list[str]:
        """Return the lines of the journal about changes that another user undid."""
        return [e.event.message for e in self.store.events(deletion_id, 1000, type="drain.yielded")]


def keystone(directory: pathlib.Path, venv: pathlib.Path, **parameters: Any) -> Cloud:
    """A cloud of only Keystone: the drain writes to no other service."""
    return Cloud(directory, venv, port_base=free_port_base(), services=(), **parameters)


@pytest.fixture(scope="module")
def stock(cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Keystone as it is shipped."""
    with keystone(tmp_path_factory.mktemp("stock"), cloud_venv) as made:
        yield made


@pytest.fixture(scope="module")
def fenced(cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Keystone with the fence plugin."""
    parameters = {**FENCED, "cleanup_user": "orchestrator"}
    with keystone(tmp_path_factory.mktemp("fenced"), cloud_venv, **parameters) as made:
        yield made


@pytest.fixture(params=DRIVERS)
def record(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Record]:
    cloud = request.getfixturevalue("fenced" if request.param == "fence" else "stock")
    made = Record(cloud, tmp_path, request.param)
    yield made
    made.store.close()


@pytest.fixture
def tenant(record: Record) -> Iterator[Tenant]:
    made = Tenant(record.cloud)
    assert all(made.logins().values()), made.logins()
    yield made
    made.close()


def points(effects: list[str]) -> range:
    """Return the numbers of the effects before which this run kills the process; six rotations of the files try all."""
    print(f"\n{len(effects)} effects, of which every {STRIDE}th is tried:", *effects, sep="\n  ")
    return range(1 + commit.commit().rotation(real_services.TURNS) % STRIDE, len(effects) + 1, STRIDE)


def test_after_a_crash_of_the_drain_at_any_point_a_cancel_restores_everything(record, tenant):
    before = tenant.state()

    def die(die_before: int) -> list[str]:
        deletion_id = record.deletion(tenant.id)
        ended, effects = record.run("lock", deletion_id, die_before)
        assert ended is (die_before == 0)
        record.run("cancel", deletion_id)
        assert tenant.state() == before, (die_before, effects)
        assert record.store.changes(deletion_id) == ()
        assert record.store.get(deletion_id).status is Status.CANCELLED
        return effects

    for die_before in points(die(0)):
        die(die_before)
    assert tenant.usable()


def test_after_a_crash_of_the_release_at_any_point_the_next_one_completes_it(record, tenant):
    before = tenant.state()

    def die(die_before: int) -> list[str]:
        deletion_id = record.deletion(tenant.id)
        ended, _ = record.run("lock", deletion_id)
        assert ended
        assert not any(tenant.logins().values())
        ended, effects = record.run("cancel", deletion_id, die_before)
        assert ended is (die_before == 0)
        record.run("cancel", deletion_id) if not ended else None
        assert tenant.state() == before, (die_before, effects)
        assert record.store.changes(deletion_id) == ()
        return effects

    for die_before in points(die(0)):
        die(die_before)
    assert tenant.usable()


def without(state: dict[str, list[tuple]], *gone: str) -> list[tuple]:
    """Return the assignments of a state without those of these actors or roles."""
    return [row for row in state["assignment"] if not set(row) & set(gone)]


def refused(record: Record, change: Callable[[], None]) -> bool:
    """Make a change as an admin; return whether Keystone refuses it because of the fence."""
    if record.driver != "fence":
        change()
        return False
    with pytest.raises(Conflict, match="token fence"):
        change()
    return True


def test_what_an_admin_granted_meanwhile_stays(record, tenant):
    before = tenant.state()
    deletion_id = record.lock(tenant.id)
    if refused(record, lambda: tenant.grant("users", tenant.heir.id, "manager")):
        record.cancel(deletion_id)
        assert tenant.state() == before
        return
    record.cancel(deletion_id)
    after = tenant.state()
    assert without(after, tenant.heir.id) == before["assignment"]
    assert len(after["assignment"]) == len(before["assignment"]) + 1


def test_users_groups_and_roles_that_were_deleted_meanwhile_do_not_stop_the_undo(record, tenant):
    admin = tenant.cloud.admin
    role = admin.call("POST", "/roles", {"role": {"name": tenant.name}})["role"]["id"]
    # Not to the user with the application credential: Keystone would delete that together with the role.
    admin.call("PUT", f"/projects/{tenant.id}/users/{tenant.heir.id}/roles/{role}")
    tenant.grant("users", tenant.colleague.id, "member")
    before = tenant.state()
    deletion_id = record.lock(tenant.id)
    for path in (f"/roles/{role}", f"/groups/{tenant.group}", f"/users/{tenant.colleague.id}"):
        admin.call("DELETE", path)
    record.cancel(deletion_id)
    after = tenant.state()
    assert after["assignment"] == without(before, role, tenant.group, tenant.colleague.id)
    assert len(after["assignment"]) == 2
    assert after["project"] == before["project"]


def test_a_project_that_an_admin_had_disabled_stays_disabled(record, tenant):
    tenant.enable(False)
    before = tenant.state()
    record.cancel(record.lock(tenant.id))
    assert tenant.state() == before


def test_a_project_that_an_admin_enabled_after_the_closing_is_theirs_from_then_on(record, tenant):
    before = tenant.state()
    deletion_id = record.lock(tenant.id)
    if refused(record, lambda: tenant.enable(True)):
        record.cancel(deletion_id)
        assert tenant.state() == before
        return
    assert record.run("survey", deletion_id)[0]
    assert len(record.yielded(deletion_id)) == 1
    seen = record.store.get(deletion_id)
    assert (seen.closed_at, seen.drained_at) == (None, None)
    tenant.enable(False)
    before = tenant.state()
    record.cancel(deletion_id)
    assert tenant.state()["project"] == before["project"], "it was an admin who disabled it last"
    tenant.enable(True)
    assert tenant.usable()


def test_a_role_that_an_admin_gave_back_and_took_again_stays_taken(record, tenant):
    before = tenant.state()
    deletion_id = record.lock(tenant.id)
    if refused(record, lambda: tenant.grant("users", tenant.user.id, "manager")):
        record.cancel(deletion_id)
        assert tenant.state() == before
        return
    assert record.run("survey", deletion_id)[0]
    assert len(record.yielded(deletion_id)) == (record.driver == "revoke")
    tenant.grant("users", tenant.user.id, "manager", method="DELETE")
    record.cancel(deletion_id)
    assert tenant.state()["assignment"] == without(before, tenant.roles["manager"])


def test_a_survey_that_finds_no_change_releases_nothing(record, tenant):
    deletion_id = record.lock(tenant.id)
    held = record.store.changes(deletion_id)
    assert record.run("survey", deletion_id)[0]
    assert record.store.changes(deletion_id) == held
    assert record.yielded(deletion_id) == []
    record.cancel(deletion_id)
