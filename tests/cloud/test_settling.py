"""Promise 2 against token caches: a service still accepts a token that it validated before the drain.

A token of a user is used once on Glance and Neutron, which cache it. Then the project is drained: Keystone refuses the
token, and the services still accept it.
"""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import secrets
from collections.abc import Iterator

import pytest
import requests

from cleanup_orchestrator.core.deletion import Deletion, Mode, RoundPurpose, Status
from tests.cloud.conftest import Sweeper, free_port_base
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import Orchestrator

CACHE_TIME = 3600  # seconds: no test is over before it
SETTLE = datetime.timedelta(seconds=CACHE_TIME)


class Member:
    """A user of a project, with a token that is older than the drain."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        name = f"late-{secrets.token_hex(4)}"
        self.user_id = cloud.admin.ensure_user(name, "secret", name, ("member",))["id"]
        self.project_id = cloud.admin.call("GET", f"/projects?name={name}")["projects"][0]["id"]
        self.token = self.login().headers["X-Subject-Token"]
        for path in ("/v2/images", "/v2.0/subnetpools"):
            requests.get(self.url(path), headers=self.headers, timeout=60).raise_for_status()

    @property
    def headers(self) -> dict[str, str]:
        return {"X-Auth-Token": self.token}

    def url(self, path: str) -> str:
        return self.cloud.site.url("glance" if path.startswith("/v2/") else "neutron") + path

    def login(self) -> requests.Response:
        identity = {"methods": ["password"], "password": {"user": {"id": self.user_id, "password": "secret"}}}
        body = {"auth": {"identity": identity, "scope": {"project": {"id": self.project_id}}}}
        return requests.post(f"{self.cloud.auth_url}/auth/tokens", json=body, timeout=60)

    def known_to_keystone(self) -> bool:
        headers = {"X-Auth-Token": self.cloud.admin._token, "X-Subject-Token": self.token}
        return requests.get(f"{self.cloud.auth_url}/auth/tokens", headers=headers, timeout=60).status_code == 200

    def create(self) -> tuple[str, str]:
        """Create an image and a subnet pool with the old token; return their ids."""
        image = {"name": "late", "disk_format": "raw", "container_format": "bare"}
        pool = {"subnetpool": {"name": "late", "prefixes": ["10.0.0.0/8"]}}
        answers = [
            requests.post(self.url(path), json=body, headers=self.headers, timeout=60)
            for path, body in (("/v2/images", image), ("/v2.0/subnetpools", pool))
        ]
        assert [a.status_code for a in answers] == [201, 201], "the services no longer take it: nothing is shown"
        return answers[0].json()["id"], answers[1].json()["subnetpool"]["id"]


@pytest.fixture(scope="module")
def slow_cloud(cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Glance and Neutron with a long cache time of tokens."""
    with Cloud(
        tmp_path_factory.mktemp("cloud"),
        cloud_venv,
        port_base=free_port_base(),
        token_cache_time=CACHE_TIME,
        services=("glance", "neutron"),
    ) as made:
        yield made


@pytest.fixture(scope="module")
def waits_indefinitely(slow_cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    """An orchestrator with the same cache time in its configuration."""
    made = Orchestrator(slow_cloud, tmp_path_factory.mktemp("orchestrator"))
    settle(made, SETTLE)
    yield made
    made.running.close()


def settle(orchestrator: Orchestrator, time: datetime.timedelta) -> None:
    engine = orchestrator.parts.engine()
    engine.rules = dataclasses.replace(engine.rules, settle=time)


def left(cloud: Cloud, project_id: str) -> set[str]:
    """Return the ids of the images and subnet pools that the services' databases have of the project."""
    sweeper = Sweeper(cloud)
    images = sweeper.rows("glance", "SELECT id FROM images WHERE owner = ? AND NOT deleted", project_id)
    pools = sweeper.rows("neutron", "SELECT id FROM subnetpools WHERE project_id = ?", project_id)
    return {row[0] for row in (*images, *pools)}


def counted_from(orchestrator: Orchestrator, record: Deletion) -> list[datetime.datetime]:
    """Return when each inventory began that counted as empty."""
    events = orchestrator.store.events(record.id, 10000)
    begun: list[datetime.datetime] = []
    listed = None
    for line in events:
        if line.event.type == "round.opened":
            listed = line.at if line.event.data["purpose"] == RoundPurpose.INVENTORY else None
        elif line.event.type == "inventory.empty":
            assert listed is not None
            begun.append(listed)
    return begun


def created_behind_the_drain(orchestrator: Orchestrator, member: Member, mode: Mode) -> tuple[str, set[str]]:
    """Start a deletion; once it has drained, and found nothing, create something with the token from before."""
    deletion_id = orchestrator.request(member.project_id, mode)
    orchestrator.wait(deletion_id, until=lambda r: r.status is Status.VERIFYING)
    assert orchestrator.store.get(deletion_id).drained_at is not None
    for name in ("image.image", "network.subnet_pool"):
        step = orchestrator.step(deletion_id, name)
        assert (step.found, step.outcome) == (0, "clear"), "it has listed already"
    assert member.login().status_code == 401
    assert not member.known_to_keystone()
    late = set(member.create())
    # For the orchestrator the settling time is over, and with it the time for which the caches accept the token.
    passed = orchestrator.store.now() - orchestrator.store.get(deletion_id).drained_at
    settle(orchestrator, passed)
    return deletion_id, late


@pytest.fixture(autouse=True)
def unsettled(waits_indefinitely: Orchestrator) -> Iterator[None]:
    """Each test begins with a settling time that does not end by itself."""
    settle(waits_indefinitely, SETTLE)
    yield


def test_a_cascade_deletes_what_an_old_token_made_behind_the_drain(slow_cloud, waits_indefinitely):
    member = Member(slow_cloud)
    deletion_id, late = created_behind_the_drain(waits_indefinitely, member, Mode.CASCADE)
    assert late <= left(slow_cloud, member.project_id)
    record = waits_indefinitely.wait(deletion_id, Status.DELETED)
    events = waits_indefinitely.store.events(deletion_id, 10000)
    gone = {r["id"] for e in events if e.event.type == "resource.deleted" for r in e.event.data["resources"]}
    assert late <= gone
    assert left(slow_cloud, member.project_id) == set()
    begun = counted_from(waits_indefinitely, record)
    assert len(begun) >= 3
    assert min(begun) >= record.drained_at + waits_indefinitely.parts.engine().rules.settle


def test_a_report_names_what_an_old_token_made_behind_the_drain_and_gives_the_project_back(
    slow_cloud, waits_indefinitely
):
    member = Member(slow_cloud)
    deletion_id, late = created_behind_the_drain(waits_indefinitely, member, Mode.REPORT)
    record = waits_indefinitely.wait(deletion_id, Status.LEFTOVERS)
    assert record.reason == "found_while_verifying"
    named = {row.leftover.id for row in waits_indefinitely.store.leftovers(deletion_id, 1000)}
    assert late <= named
    assert late <= left(slow_cloud, member.project_id)
    assert counted_from(waits_indefinitely, record) == []
    assert waits_indefinitely.store.changes(deletion_id) == ()
    assert member.login().status_code == 201


def test_without_settling_the_same_token_leaves_something_behind(slow_cloud, waits_indefinitely):
    """Proves that the other tests of this file would fail without a settling time."""
    member = Member(slow_cloud)
    settle(waits_indefinitely, datetime.timedelta(0))
    waits_indefinitely.wait(waits_indefinitely.request(member.project_id, Mode.CASCADE), Status.DELETED)
    late = set(member.create())
    assert left(slow_cloud, member.project_id) == late
