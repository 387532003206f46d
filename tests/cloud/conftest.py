"""A real cloud for the tests of this folder, and an orchestrator's view of it."""

from __future__ import annotations

import os
import pathlib
import random
import re
import sqlite3
from collections.abc import Iterator

import pytest
from keystoneauth1.identity.v3 import Password
from openstack.connection import Connection

from cleanup_orchestrator import sweep
from cleanup_orchestrator.clouds import GuardedSession, read_only
from cleanup_orchestrator.model import Sweep, Token
from cleanup_orchestrator.plugins.base import ProjectDefinition, Service
from cleanup_orchestrator.plugins.registry import Registry
from tests.cloud import filler
from tests.cloud.fillings.base import Filled
from tests.cloud.launcher import Cloud
from tests.cloud.processes import port_is_free

ROOT = pathlib.Path(__file__).parents[2]
#: In a dump of Keystone: the column ``last_active_at`` of a user, which any first token of a day changes.
LAST_ACTIVE = re.compile(r"""^(INSERT INTO "user" VALUES\(.*),(?:NULL|'[-\d]{10}'),'[^']*'\);$""", re.M)
PORTS = 32  # a cloud takes fewer


def free_port_base() -> int:
    """The first of a range of ports that nobody listens on; of two test processes each has ranges of its own."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 2
    for _ in range(200):
        base = random.randrange(20000, 30000, 100) + 50 * number
        if all(port_is_free(base + offset) for offset in range(PORTS)):
            return base
    raise RuntimeError("no free range of ports")


@pytest.fixture(scope="session")
def cloud_venv(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Where the services are installed; done here when CLEANUP_CLOUD_VENV says where and nobody has yet."""
    wanted = os.environ.get("CLEANUP_CLOUD_VENV")
    venv = pathlib.Path(wanted or ROOT / ".tox" / "cloud")
    if not wanted and not (venv / "bin" / "keystone-manage").exists():
        pytest.skip("no cloud: set CLEANUP_CLOUD_VENV, or run tox")
    Cloud(tmp_path_factory.mktemp("install"), venv).install()
    return venv


@pytest.fixture(scope="session")
def cloud(cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """The light cloud."""
    made = Cloud(
        tmp_path_factory.mktemp("cloud"),
        cloud_venv,
        port_base=free_port_base(),
        extra_config={"swift": {"app:proxy-server": {"allow_account_management": "yes"}}},
    )
    with made:
        yield made


@pytest.fixture(scope="session")
def admin(cloud: Cloud) -> Connection:
    """The cloud's administrator, who fills and looks."""
    return filler.connect(cloud.auth_url, "admin", cloud.site.password, "admin")


class Sweeper:
    """The orchestrator's user, and the sweeps that a worker would do with it."""

    NAME, PASSWORD, PROJECT = "sweeper", "sweeper", "service"

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.user_id = cloud.admin.ensure_user(
            self.NAME, self.PASSWORD, self.PROJECT, ("admin", "service", "ResellerAdmin")
        )["id"]
        self.sessions: list[GuardedSession] = []

    def session(self, project_id: str | None = None, write: bool = False) -> GuardedSession:
        scope = (
            {"project_id": project_id} if project_id else {"project_name": self.PROJECT, "project_domain_id": "default"}
        )
        auth = Password(
            self.cloud.auth_url, username=self.NAME, password=self.PASSWORD, user_domain_id="default", **scope
        )
        session = GuardedSession((lambda method, url: None) if write else read_only, auth=auth)
        self.sessions.append(session)
        return session

    def connection(self, project_id: str | None = None, write: bool = False) -> Connection:
        return Connection(session=self.session(project_id, write), region_name="RegionOne")

    def enter(self, filled: Filled) -> None:
        """Get a role on the project, as the drain would."""
        self.cloud.admin.ensure_role(filled.project_id, self.user_id, "admin")

    @staticmethod
    def definition(service: Service, filled: Filled, *more_members: str, **options: object) -> ProjectDefinition:
        return ProjectDefinition(
            filled.project_id,
            filled.project_name,
            "default",
            "RegionOne" if service.regional else "",
            member_ids=(filled.user_id, filled.colleague_id, *more_members),
            options={option.dest: option.default for option in service.options} | options,
        )

    def run(self, service: Service, filled: Filled, *more: str, write: bool, **options: object) -> dict[str, Sweep]:
        """Every type of the service in its order: looked at, or deleted."""
        self.enter(filled)
        definition = self.definition(service, filled, *more, **options)
        registry = Registry([service])
        results = {}
        for name in registry.order:
            type_ = registry.find(*name.split("."))
            project_id = filled.project_id if type_.token is Token.PROJECT else None
            connection = self.connection(project_id, write)
            results[type_.name] = (sweep.delete if write else sweep.look)(type_, connection, definition)
        return results

    def look(self, service: Service, filled: Filled, *more: str, **options: object) -> dict[str, Sweep]:
        return self.run(service, filled, *more, write=False, **options)

    def delete(self, service: Service, filled: Filled, *more: str, **options: object) -> dict[str, Sweep]:
        return self.run(service, filled, *more, write=True, **options)

    def dump(self, *services: str) -> str:
        """Everything that is in the services' databases, but for the day of each user's latest login."""
        texts = []
        for service in services:
            with sqlite3.connect(
                f"{self.cloud.site.database(service).as_uri()}?mode=ro", uri=True, timeout=30
            ) as database:
                texts.append(LAST_ACTIVE.sub(r"\1", "\n".join(database.iterdump())))
            database.close()
        return "\n".join(texts)

    def rows(self, service: str, sql: str, *arguments: object) -> list[tuple]:
        """Rows straight out of a service's database."""
        with sqlite3.connect(self.cloud.site.database(service), timeout=30) as database:
            found = database.execute(sql, arguments).fetchall()
        database.close()
        return found


@pytest.fixture(scope="session")
def sweeper(cloud: Cloud) -> Sweeper:
    return Sweeper(cloud)
