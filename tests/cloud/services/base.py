"""The description of a service as data: configuration, databases, preparation, processes, catalog."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.cloud import releases
from tests.cloud.identity import Rest

HOST = "127.0.0.1"
REGION = "RegionOne"
SERVICE_PROJECT = "service"
SERVICE_ROLES = ("admin", "service")
STOCK_KEYSTONE = "keystone.wsgi.api:application"
INSIDE = pathlib.Path(__file__).parents[1] / "inside.py"
#: Modules of the tests that run inside the services: fakes of what this machine does not have.
FAKES = pathlib.Path(__file__).parents[1] / "fakes"
#: The host name of every agent and daemon of this cloud.
NODE = "cloudhost"

# Offsets from the port base. Some are reserved for later services, so that no port ever changes.
PORT_OFFSETS = {
    "keystone": 0,
    "glance": 1,
    "neutron": 2,
    "swift": 3,
    "barbican": 4,
    "placement": 5,
    "cinder": 6,
    "nova": 7,
    "octavia": 8,
    "designate": 9,
    "manila": 10,
    "heat": 11,
    "magnum": 12,
    "aodh": 13,
    "mistral": 14,
    "gnocchi": 15,
    "zaqar": 16,
    "freezer": 17,
    "cyborg": 18,
    "ironic": 19,
    "swift-account": 20,
    "swift-container": 21,
    "swift-object": 22,
    # With several Keystone processes: the port of each, besides the one that they share.
    "keystone-1": 23,
    "keystone-2": 24,
    "keystone-3": 25,
    "keystone-4": 26,
    "designate-mdns": 27,
    "designate-server": 28,
    "zaqar-redis": 29,
    "orchestrator": 30,
    "trove": 31,
    "cloudkitty": 33,
    "tacker": 35,
    "blazar": 32,
    "zun": 34,
}

Ini = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class Site:
    """The directory and ports of one cloud, and what its services need to know of each other."""

    directory: pathlib.Path
    venv: pathlib.Path
    ports: Mapping[str, int]
    password: str
    token_cache_time: int
    services: tuple[str, ...] = ()
    keystone_modules: tuple[str, ...] = (STOCK_KEYSTONE,)  #: one process for each
    keystone_cache: str = "process"  #: a key of services.keystone.CACHES
    cleanup_user: str = ""  #: the orchestrator's user, if Keystone has to know it from its configuration
    extra_config: Mapping[str, Ini] = field(default_factory=dict)
    transport_url: str = "fake://"  #: the bus between the processes of a service; by default each has its bus
    release: str = releases.NEWEST  #: of OpenStack
    mariadb_url: str = ""  #: of a server without its database's name; by default each database is a SQLite file

    @property
    def keystone_url(self) -> str:
        return f"{self.url('keystone')}/v3"

    def url(self, service: str) -> str:
        return f"http://{HOST}:{self.ports[service]}"

    def bin(self, command: str) -> str:
        return str(self.venv / "bin" / command)

    def home(self, service: str) -> pathlib.Path:
        return self.directory / service

    def database(self, service: str) -> pathlib.Path:
        """The service's SQLite file, where the cloud has no server for databases."""
        return self.home(service) / f"{service}.sqlite"

    def database_url(self, name: str) -> str:
        """Of a database; most have the name of their service."""
        return f"{self.mariadb_url}/{name}?charset=utf8mb4" if self.mariadb_url else f"sqlite:///{self.database(name)}"


@dataclass(frozen=True)
class Process:
    """One process: `arguments` are those of serve.py; it is up when `port` answers HTTP at `path`.

    One without a port is up when it has been started; whether it works, its service says (`Reports`).
    """

    name: str
    arguments: tuple[str, ...]
    port: int = 0
    path: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reports:
    """A service's own list of its daemons: the service counts as up when all of `names` are in it and are up."""

    url: str
    key: str
    names: frozenset[str]
    headers: Mapping[str, str] = field(default_factory=dict)

    def missing(self, admin: Rest) -> set[str]:
        """Those that are not up yet."""
        rows = admin.call("GET", self.url, headers=self.headers)[self.key]
        return set(self.names) - {self._name(row) for row in rows if self._up(row)}

    @staticmethod
    def _name(row: Mapping[str, object]) -> object:
        return next(row[key] for key in ("binary", "service_name", "hypervisor_hostname") if key in row)

    @staticmethod
    def _up(row: Mapping[str, object]) -> bool:
        # Nova and Cinder have a state beside the status, which is what the administrator wants: enabled.
        said = next(row[key] for key in ("state", "alive", "status") if key in row)
        return str(said).lower() in ("up", "true")


class Pools(Reports):
    """The backends (`names`) that a scheduler knows: before each has reported its capacity, there is no valid host."""

    @staticmethod
    def _name(row: Mapping[str, object]) -> object:
        return str(row["name"]).partition("@")[2].partition("#")[0]

    @staticmethod
    def _up(row: Mapping[str, object]) -> bool:
        return True


@dataclass(frozen=True)
class Service:
    """Everything the launcher does for one service, in the order of the fields."""

    name: str
    files: Mapping[str, str]  # below the service's directory; written at every start
    folders: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()  # on the server for databases, if the cloud has one
    schema: tuple[tuple[str, ...], ...] = ()  # commands that fill those; what they make is kept for the next cloud
    preparation: tuple[tuple[str, ...], ...] = ()  # commands; repeated only when they change
    after: tuple[str, ...] = ()  # services that have to be up before its processes are started
    processes: tuple[Process, ...] = ()
    catalog_type: str = ""
    catalog_url: str = ""
    accounts: Callable[[Site, Rest], None] | None = None  # in Keystone, before its own lists are asked; idempotent
    reports: tuple[Reports, ...] = ()
    settings: tuple[tuple[str, ...], ...] = ()  # commands that need the service to be there; repeated like preparation
    seed: Callable[[Site, Rest], None] | None = None  # over its API, idempotent
    probe: str = ""  # an authorised GET that has to succeed before the service counts as up


def ini(sections: Ini, extra: Ini | None = None) -> str:
    """An INI file; `extra` wins. An option whose value is a tuple is repeated for each of them."""
    merged: dict[str, dict[str, object]] = {}
    for source in (sections, extra or {}):
        for section, options in source.items():
            merged.setdefault(section, {}).update(options)
    parts = []
    for section, options in merged.items():
        parts.append(f"[{section}]")
        for option, value in options.items():
            parts += [f"{option} = {each}" for each in (value if isinstance(value, tuple) else (value,))]
        parts.append("")
    return "\n".join(parts)


def credentials(site: Site, user: str) -> dict[str, object]:
    """Return the options with which a service logs in to Keystone with its user, and finds the others."""
    return {
        "auth_url": site.keystone_url,
        "auth_type": "password",
        "username": user,
        "password": site.password,
        "project_name": SERVICE_PROJECT,
        "user_domain_id": "default",
        "project_domain_id": "default",
        "region_name": REGION,
    }


def auth_token(site: Site, service: str) -> dict[str, object]:
    """Return the options with which a service checks tokens."""
    return {
        **credentials(site, service),
        "www_authenticate_uri": site.keystone_url,
        "token_cache_time": site.token_cache_time,
        "service_token_roles_required": "true",
        "service_token_roles": "service",
    }


def common(site: Site, service: str, database: str = "") -> dict[str, dict[str, object]]:
    """Return the common options of the oslo services."""
    home = site.home(service)
    return {
        "DEFAULT": {
            "transport_url": site.transport_url,
            "state_path": home / "state",
            "host": NODE,
        },
        "database": {"connection": site.database_url(database or service)},
        "keystone_authtoken": auth_token(site, service),
        "oslo_concurrency": {"lock_path": home / "lock"},
    }


def wsgi(
    site: Site,
    service: str,
    target: tuple[str, str],
    *,
    threads: int = 8,
    options: tuple[str, ...] = (),
    arguments: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Process:
    """Return a WSGI service that serve.py runs."""
    option, value = target
    return Process(
        name=service,
        arguments=(
            "wsgi", "--name", f"{service}-api", "--port", str(site.ports[service]), "--threads", str(threads),
            *options, option, value, *(("--", *arguments) if arguments else ()),
        ),
        port=site.ports[service],
        environment=environment or {},
    )  # fmt: skip


def daemon(
    site: Site, name: str, *arguments: str, script: str = "", environment: Mapping[str, str] | None = None
) -> Process:
    """Return a process without an API: a command of the venv, or a script of the tests that its Python runs.

    Guarded, because most of them start children of their own.
    """
    command = (site.bin("python"), script or site.bin(name), *arguments)
    return Process(name=name, arguments=("guard", "--", *command), environment=environment or {})


def python_path(*folders: pathlib.Path) -> dict[str, str]:
    """Return an environment in which the modules of the tests are found."""
    return {"PYTHONPATH": os.pathsep.join(map(str, folders))}
