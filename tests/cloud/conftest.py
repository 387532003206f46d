"""A real cloud for the tests of this folder, with the sessions of the orchestrator."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session
from openstack.connection import Connection

from cleanup_orchestrator.cloud.session import GuardedSession, http_pool, read_only
from cleanup_orchestrator.core.step import StepResult, Token
from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.base import ProjectDefinition, ResourceType, Service
from cleanup_orchestrator.worker.sweep.context import OtherType
from tests.cloud import filler, releases, rows
from tests.cloud.fillings.base import Filled
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import Orchestrator
from tests.cloud.processes import last_line
from tests.cloud.services import NO_BUS, SERVICES
from tests.support import commit, ports, sweeps, tiers
from tests.support.servers import MariaDB, RabbitMQ

if TYPE_CHECKING:
    from tests.cloud.common import Case

pytest.register_assert_rewrite("tests.cloud.common")

ROOT = pathlib.Path(__file__).parents[2]
#: In a dump of Keystone: the column ``last_active_at`` of a user, which any first token of a day changes.
LAST_ACTIVE = re.compile(r"""^(INSERT INTO "user" VALUES\(.*),(?:NULL|'[-\d]{10}'),'[^']*'\);$""", re.M)
PORTS = range(20000, 30000, 50)  # a cloud needs fewer than 50
LIGHT = ("identity", "network", "image", "key-manager", "object-store")  # the types of the light cloud's services


def free_port_base() -> int:
    """Reserve the ports of one cloud until this process ends; return the first of them."""
    return ports.reserve(PORTS, PORTS.step)


def installed(variable: str, default: str, command: str, **options: Any) -> pathlib.Path:
    """Return the venv of the services; install it if the variable names it and it does not exist yet.

    An older release (`releases.VARIABLE`) has a venv beside that of the newest one, named after the release.
    """
    wanted = os.environ.get(variable)
    venv = releases.venv(releases.wanted(), pathlib.Path(wanted or ROOT / ".tox" / default))
    if not wanted and not (venv / "bin" / command).exists():
        pytest.skip(f"no cloud: set {variable}, or run tox")
    with tempfile.TemporaryDirectory() as folder:
        Cloud(folder, venv, **options).install()
    return venv


@pytest.fixture(scope="session")
def cloud_venv() -> pathlib.Path:
    """The venv of the light cloud's services."""
    return installed("CLEANUP_CLOUD_VENV", "cloud", "keystone-manage")


@pytest.fixture(scope="session")
def older() -> tuple[str, pathlib.Path]:
    """The older release that this commit tries, and the venv of its light cloud."""
    release = releases.wanted()
    if release == releases.NEWEST:
        release, _ = releases.in_turn(commit.commit().number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(releases.VARIABLE, release)
        return release, installed("CLEANUP_CLOUD_VENV", "cloud", "keystone-manage")


@pytest.fixture(scope="session")
def full_cloud_venv() -> pathlib.Path:
    """The venv of all services."""
    RabbitMQ.need()
    MariaDB.need()
    return installed("CLEANUP_FULL_CLOUD_VENV", "cloud-full", "nova-manage", full=True)


@pytest.fixture(scope="session")
def further_cloud_venv() -> pathlib.Path:
    """The venv of the services that only the clouds of their test files have."""
    MariaDB.need()
    return installed("CLEANUP_FURTHER_CLOUD_VENV", "cloud-further", "aodh-dbsync", services=tuple(SERVICES))


@pytest.fixture(scope="module")
def further_cloud(
    request: pytest.FixtureRequest, further_cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cloud]:
    """Keystone and the services that the file names in `CLOUD`, on MariaDB, until the file has ended."""
    services = request.module.CLOUD
    if not set(services) <= set(NO_BUS):
        RabbitMQ.need()
    made = Cloud(tmp_path_factory.mktemp("cloud"), further_cloud_venv, port_base=free_port_base(), services=services)
    with made:
        yield made


@pytest.fixture(scope="module")
def further_admin(further_cloud: Cloud) -> Connection:
    """The administrator of that cloud."""
    return filler.connect(further_cloud.auth_url, "admin", further_cloud.site.password, "admin")


@pytest.fixture(scope="module")
def further_sweeper(further_cloud: Cloud) -> Sweeper:
    """The orchestrator's user in that cloud."""
    return Sweeper(further_cloud)


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
def full_cloud(full_cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """All thirteen services, Keystone with the fence plugin: one cloud for all test processes of a run.

    The first process that needs it starts it in a process that ends with the run. Tests that share it use separate
    projects, and restore the catalog when they have changed it. CLEANUP_FULL_CLOUD names the directory of one that
    runs already (`launcher --full --fence up`) and is used instead.
    """
    directory = pathlib.Path(os.environ.get("CLEANUP_FULL_CLOUD") or shared_folder(tmp_path_factory) / "full-cloud")
    if "CLEANUP_FULL_CLOUD" not in os.environ:
        with lock(directory.with_suffix(".lock"), fcntl.LOCK_EX):
            if not directory.exists():
                start_full_cloud(directory, full_cloud_venv)
    made = Cloud.attach(directory, full_cloud_venv)
    yield made
    made.down()


def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder that all test processes of this run see, and no other run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@contextlib.contextmanager
def lock(path: pathlib.Path, kind: int) -> Iterator[None]:
    """Hold a lock on a file, which all test processes of this run see."""
    with open(path, "a") as file:
        fcntl.flock(file, kind)
        yield


def start_full_cloud(directory: pathlib.Path, venv: pathlib.Path) -> None:
    """Start the whole cloud in a process that ends when the run does; return when every service answers."""
    run = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    log = directory.with_suffix(".log")
    command = [sys.executable, "-m", "tests.cloud.launcher", "--full", "--fence", "up", "--directory", str(directory)]
    command += ["--venv", str(venv), "--port-base", str(free_port_base()), "--until", str(run)]
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True
        )
    while not (directory / Cloud.FACTS).exists():
        if process.poll() is not None:
            pytest.fail(f"the whole cloud did not start: {last_line(log)}; see {log}")
        time.sleep(0.2)


@pytest.fixture(scope="module", autouse=True)
def share_of_the_full_cloud(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give a file whose tests compare every row of the whole cloud (`ALONE`) exclusive use; the others share it."""
    if not tiers.uses_whole_cloud(request.path):
        yield
        return
    folder = shared_folder(request.getfixturevalue("tmp_path_factory"))
    with lock(
        folder / "full-cloud.in-use", fcntl.LOCK_EX if getattr(request.module, "ALONE", False) else fcntl.LOCK_SH
    ):
        yield


@pytest.fixture(scope="session")
def full_admin(full_cloud: Cloud) -> Connection:
    """The whole cloud's administrator."""
    return filler.connect(full_cloud.auth_url, "admin", full_cloud.site.password, "admin")


@pytest.fixture(scope="session")
def full_sweeper(full_cloud: Cloud) -> Sweeper:
    """The orchestrator's user in the whole cloud."""
    return Sweeper(full_cloud)


@pytest.fixture(scope="session")
def admin(cloud: Cloud) -> Connection:
    """The administrator of the cloud, who fills projects and reads the results."""
    return filler.connect(cloud.auth_url, "admin", cloud.site.password, "admin")


#: All plugins.
installed_plugins = functools.cache(registry.load)


class Sweeper:
    """The user of the orchestrator, and the sweeps that a worker does with it."""

    NAME, PASSWORD, PROJECT = "sweeper", "sweeper", "service"
    ROLES: tuple[str, ...] = ("admin", "service", "ResellerAdmin")

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.user_id = cloud.admin.ensure_user(self.NAME, self.PASSWORD, self.PROJECT, self.ROLES)["id"]
        self.sessions: list[GuardedSession] = []

    def session(self, project_id: str | None = None, write: bool = False, user: str = "") -> GuardedSession:
        scope = (
            {"project_id": project_id} if project_id else {"project_name": self.PROJECT, "project_domain_id": "default"}
        )
        auth = Password(
            self.cloud.auth_url, username=user or self.NAME, password=self.PASSWORD, user_domain_id="default", **scope
        )
        session = GuardedSession((lambda method, url: None) if write else read_only, auth=auth, session=http_pool())
        self.sessions.append(session)
        return session

    def connection(self, project_id: str | None = None, write: bool = False) -> Connection:
        return Connection(session=self.session(project_id, write), region_name="RegionOne")

    def system_scoped(self) -> Connection:
        """Return a connection of the cloud's administrator with a token of the system, and of no project."""
        auth = Password(
            self.cloud.auth_url,
            username="admin",
            password=self.cloud.site.password,
            user_domain_id="default",
            system_scope="all",
        )
        return Connection(session=Session(auth=auth), region_name="RegionOne")

    def connection_for(self, type_: ResourceType, filled: Filled, write: bool = False) -> Connection:
        """Return a connection with the token that the orchestrator uses for a type."""
        if type_.token.scoped:
            self.enter(filled)
        if type_.token is Token.MEMBER:
            return self.janitor(filled.project_id)
        return self.connection(filled.project_id if type_.token.scoped else None, write)

    def enter(self, filled: Filled) -> None:
        """Take a role on the project, as the drain does."""
        self.cloud.admin.ensure_role(filled.project_id, self.user_id, "admin")

    def janitor(self, project_id: str) -> Connection:
        """Return the connection of the janitor to a project, on which it gets the role of a member."""
        user = {"name": f"{self.NAME}-janitor", "password": self.PASSWORD, "domain_id": "default"}
        user_id = self.cloud.admin.ensure("users", "user", user, domain_id="default")["id"]
        self.cloud.admin.ensure_role(project_id, user_id, "member")
        return Connection(session=self.session(project_id, True, user["name"]), region_name="RegionOne")

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

    def inventory_of(
        self,
        service: Service,
        filled: Filled,
        type_: ResourceType,
        connection: Connection | None = None,
        **options: object,
    ) -> StepResult:
        """Return the inventory of one type, by default with the token that the orchestrator uses for the type."""
        definition = self.definition(service, filled, **options)
        return sweeps.inventory(type_, connection or self.connection_for(type_, filled), definition)

    def delete_of(
        self, service: Service, filled: Filled, type_: ResourceType, gone: bool = False, **options: object
    ) -> StepResult:
        """Delete what the project has of one type, with the tokens that the orchestrator uses for the type.

        :param gone: whether Keystone has deleted the project, so that there is no token for it
        """
        definition = dataclasses.replace(self.definition(service, filled, **options), gone=gone)
        if gone:
            return sweeps.delete(type_, self.connection(write=True), definition)
        janitor = functools.partial(self.janitor, filled.project_id)
        return sweeps.delete(type_, self.connection_for(type_, filled, write=True), definition, janitor=janitor)

    def run(
        self, service: Service, filled: Filled, *more: str, write: bool, foresee: bool = False, **options: object
    ) -> dict[str, StepResult]:
        """List or delete each type of the service, in its order."""
        self.enter(filled)
        definition = self.definition(service, filled, *more, **options)
        known = registry.Registry([service])
        connections: dict[Token, Connection] = {}  # each asks for a token
        results = {}
        for name in known.order:
            type_ = known.find(*name.split("."))
            if type_.token not in connections:
                connections[type_.token] = self.connection_for(type_, filled, write)
            connection = connections[type_.token]
            if write:
                janitor = functools.partial(self.janitor, filled.project_id)
                how = {"janitor": janitor, "find_type": functools.partial(self.find_type, filled)}
                results[type_.name] = sweeps.delete(type_, connection, definition, name=name, **how)
            else:
                results[type_.name] = sweeps.inventory(type_, connection, definition, foresee)
        return results

    def find_type(self, filled: Filled, name: str) -> OtherType | None:
        """Return a type of any plugin by its full name."""
        known = installed_plugins()
        service = known.services[name.rpartition(".")[0]]
        type_ = known.find(service.service_type, name.rpartition(".")[2])
        return OtherType(name, type_, self.connection_for(type_, filled), self.definition(service, filled))

    def inventory(self, service: Service, filled: Filled, *more: str, **options: object) -> dict[str, StepResult]:
        return self.run(service, filled, *more, write=False, **options)

    def delete(self, service: Service, filled: Filled, *more: str, **options: object) -> dict[str, StepResult]:
        return self.run(service, filled, *more, write=True, **options)

    def dump(self, *services: str) -> str:
        """Return all rows of the databases of the services, without those that change by themselves."""
        if self.cloud.on_mariadb:
            found = rows.read(self.cloud).steady()
            mine = {place: all_ for place, all_ in found.tables.items() if place[0].startswith(services)}
            return "\n".join(rows.Rows(mine).lines(width=100_000))
        texts = []
        for service in services:
            with sqlite3.connect(
                f"{self.cloud.site.database(service).as_uri()}?mode=ro", uri=True, timeout=30
            ) as database:
                texts.append(LAST_ACTIVE.sub(r"\1", "\n".join(database.iterdump())))
            database.close()
        return "\n".join(texts)

    def live(self, project_id: str, *places: str) -> dict[str, int]:
        """Return how many rows name a project, and count as its resources, by table.

        :param places: the beginnings of the names of tables: ``aodh.``, ``keystone.trust``
        """
        found = rows.read(self.cloud).live(project_id).named()
        return {table: count for table, count in found.items() if table.startswith(places)}

    def dump_of(self, project_id: str) -> str:
        """Return all rows of all databases that name a project, without those that change by themselves."""
        return "\n".join(rows.read(self.cloud).steady().of(project_id).lines(width=100_000))

    def assignments(self, project_id: str) -> set[tuple]:
        """Return the assignments on the project from the database of Keystone."""
        return set(self.rows("keystone", "SELECT * FROM assignment WHERE target_id = ?", project_id))

    def rows(self, database: str, sql: str, *arguments: object) -> list[tuple]:
        """Read rows from the database of a service, or run another statement on it."""
        if self.cloud.on_mariadb:
            with rows.connect(self.cloud, database) as ask:
                return [tuple(row.values()) for row in ask(sql, *arguments)]
        with sqlite3.connect(self.cloud.site.database(database), timeout=30) as connection:
            found = connection.execute(sql, arguments).fetchall()
        connection.close()
        return found


@pytest.fixture(scope="session")
def sweeper(cloud: Cloud) -> Sweeper:
    return Sweeper(cloud)


def of_service(request: pytest.FixtureRequest, name: str) -> Any:
    """Return a fixture of the smallest cloud that has the service which the test file is about (`SERVICE`)."""
    light = request.module.SERVICE.service_type in LIGHT
    where = "further_" if hasattr(request.module, "CLOUD") else "" if light else "full_"
    return request.getfixturevalue(f"{where}{name}")


def fill_service(request: pytest.FixtureRequest, name: str, partner: Filled | None = None, objects: int = 5) -> Filled:
    """Fill a project in the service that the test file is about."""
    service = request.module.SERVICE.service_type
    partner_id = partner.project_id if partner else None
    admin = of_service(request, "admin")
    filled = filler.fill(admin, f"{service}-{name}", partner=partner_id, only=[service], objects=objects)
    if case := getattr(request.module, "CASE", None):
        case.prepare(of_service(request, "sweeper"), filled, partner)
    return filled


@pytest.fixture(scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    """The description of the service of the test file."""
    return request.module.CASE


@pytest.fixture(scope="module")
def own_sweeper(request: pytest.FixtureRequest) -> Sweeper:
    """The orchestrator's user in the cloud of the test file."""
    return of_service(request, "sweeper")


@pytest.fixture(scope="module")
def another(request: pytest.FixtureRequest, neighbour: Filled) -> Callable[[str], Filled]:
    """A function that fills a further project with a resource of each type."""
    return lambda name: fill_service(request, name, neighbour)


@pytest.fixture(scope="module")
def neighbour(request: pytest.FixtureRequest) -> Filled:
    """A project that must stay unchanged, with a resource of each type of the `SERVICE` of the file."""
    return fill_service(request, "neighbour")


@pytest.fixture(scope="module")
def projects(request: pytest.FixtureRequest, neighbour: Filled) -> tuple[Filled, Filled]:
    """The project to delete, which shares resources with its neighbour, and the neighbour. Both have every type.

    A file whose tests need more of it extends this fixture. `OBJECTS` of the file is the size of the big container.
    """
    objects = getattr(request.module, "OBJECTS", 5)
    return fill_service(request, "target", neighbour, objects), neighbour


@pytest.fixture(scope="module")
def orchestrator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    """Engine and workers in this process, over the light cloud, or over that of the file (`CLOUD`).

    The file may add to their configuration: `OPTIONS`.
    """
    cloud = request.getfixturevalue("further_cloud" if hasattr(request.module, "CLOUD") else "cloud")
    options = getattr(request.module, "OPTIONS", "")
    made = Orchestrator(cloud, tmp_path_factory.mktemp("orchestrator"), options)
    yield made
    made.running.close()
