"""Starts and stops a real cloud on loopback: Keystone, Glance, Neutron, Swift and Barbican; with --full, eight more.

With --only NAME (repeat it for more) the cloud is Keystone and the services that are named; this is also the way to
start the services that are in neither of the two, such as Aodh.

The light cloud needs no other server (SQLite, in-process bus) and no compiler. The whole cloud (with Placement, Nova,
Cinder, Octavia, Designate, Manila, Heat and Magnum) starts a separate RabbitMQ and MariaDB, which have to be installed
on the machine (Debian: rabbitmq-server, mariadb-server). Hypervisor, volumes, shares, load balancers and name servers
are fakes. All processes of a cloud end with the process that started them.

examples:
  python -m tests.cloud.launcher install --directory /tmp/cloud     once: about a minute
  python -m tests.cloud.launcher up --directory /tmp/cloud          until Ctrl-C
  OS_CLIENT_CONFIG_FILE=/tmp/cloud/clouds.yaml openstack --os-cloud admin project list
  python -m tests.cloud.launcher --full install --directory /tmp/whole
  python -m tests.cloud.launcher --full up --directory /tmp/whole
  python -m tests.cloud.launcher --full status --directory /tmp/whole
  python -m tests.cloud.launcher --only aodh install --directory /tmp/alarms
  python -m tests.cloud.launcher --only aodh up --directory /tmp/alarms
  python -m tests.cloud.launcher --release 2025.1 install --directory /tmp/older
  python -m tests.cloud.launcher --release 2025.1 up --directory /tmp/older
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import http.client
import json
import os
import pathlib
import queue
import secrets
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tests.cloud import releases
from tests.cloud.errors import CloudError
from tests.cloud.identity import Rest
from tests.cloud.installing import install, make_venv
from tests.cloud.processes import HOST, Children, last_line, port_is_free
from tests.cloud.services import (
    LIGHT,
    NO_BUS,
    PORT_OFFSETS,
    REGION,
    SERVICE_PROJECT,
    SERVICE_ROLES,
    SERVICES,
    STOCK_KEYSTONE,
    WHOLE,
    Ini,
    Process,
    Service,
    Site,
    clouds_yaml,
    keystone_processes,
)

if TYPE_CHECKING:
    from tests.cloud.schemas import Schemas
    from tests.support.servers import MariaDB, Server

#: What has to be installed for a cloud: services, the file of their requirements, which names the file before it, and
#: a program that is there once they are installed.
INSTALLATIONS = (
    (LIGHT, "requirements.txt", "keystone-manage"),
    (WHOLE, "requirements-full.txt", "nova-manage"),
    (tuple(SERVICES), "requirements-further.txt", "aodh-dbsync"),
)
DEFAULT_PORT_BASE = 15000
START_TIMEOUT = 600.0  # forty processes, on a machine with two processors
PROGRESS_PERIOD = 5.0  #: seconds after which `up` says what it waits for, if nothing else was said
#: Arguments of a cloud whose Keystone has the filter and the fence, and admits the user of the orchestrator.
FENCED: Mapping[str, Any] = {
    "keystone_module": "cleanup_orchestrator.keystone.wsgi:application",
    "cleanup_user": "cleanup-orchestrator",
    "python_path": (str(pathlib.Path(__file__).parents[2]),),
}
MARKER = "cloud.json"  # only a directory that has it is ever wiped

Progress = Callable[[str], None]


def silent(text: str) -> None:
    """Ignore progress messages."""


class Cloud:
    """One cloud in one directory.

    `ports` overrides single ports (by the names of `services.PORT_OFFSETS`) of those that `port_base` gives.
    `services` names those to start, Keystone always among them; `full` stands for `services.WHOLE`. With any that is
    not in `services.LIGHT` there is a MariaDB below the directory, and with any that is not in `services.NO_BUS` a
    RabbitMQ, too. `keystone_module` is Keystone's WSGI application, for one that is wrapped; a tuple of several starts
    one process for each, see `keystone_urls`.
    `keystone_cache` is a key of `services.keystone.CACHES`. `cleanup_user` is a user that is made before Keystone
    starts, an admin of the service project, and named in Keystone's configuration as the orchestrator's. `python_path`
    is put before the services' own modules; `extra_config` is added to their configuration: {service: {section:
    {option: value}}}. `release` is one of `releases.RELEASES`, by default the one that the environment asks for.
    """

    #: The file that exists while a cloud is up, with all that another process needs to use it.
    FACTS = "running.json"

    def __init__(
        self,
        directory: str | os.PathLike[str],
        venv: str | os.PathLike[str] | None = None,
        port_base: int = DEFAULT_PORT_BASE,
        ports: Mapping[str, int] | None = None,
        token_cache_time: int = 5,
        progress: Progress = silent,
        services: Collection[str] = LIGHT,
        full: bool = False,
        keystone_module: str | tuple[str, ...] = STOCK_KEYSTONE,
        keystone_processes: int = 1,
        keystone_cache: str = "process",
        cleanup_user: str = "",
        python_path: tuple[str, ...] = (),
        extra_config: Mapping[str, Ini] | None = None,
        port_hint: str = "choose another --port-base",
        release: str = "",
    ) -> None:
        self.directory = pathlib.Path(directory).expanduser().absolute()
        self.venv = pathlib.Path(venv).expanduser().absolute() if venv else self.directory / "venv"
        self.ports = {name: port_base + offset for name, offset in PORT_OFFSETS.items()} | dict(ports or {})
        self.progress = progress
        self.children = Children(self.directory / "log")
        self._token_cache_time = token_cache_time
        wanted = {"keystone", *(WHOLE if full else services)}
        self._services = tuple(name for name in SERVICES if name in wanted)
        self.servers: list[Server] = []
        modules = (keystone_module,) * keystone_processes if isinstance(keystone_module, str) else keystone_module
        self._keystone_modules = modules
        self._keystone_cache = keystone_cache
        self._cleanup_user = cleanup_user
        self._python_path = python_path
        self._extra_config = dict(extra_config or {})
        self._port_hint = port_hint
        self.release = release or releases.wanted()
        self._lock_file: int | None = None
        self._site: Site | None = None
        self._admin: Rest | None = None

    # ---------------------------------------------------------------- the interface for callers

    @property
    def site(self) -> Site:
        """The paths and ports; known once the directory has been made."""
        if self._site is None:
            self._site = Site(
                directory=self.directory,
                venv=self.venv,
                ports=self.ports,
                password=self._read_marker()["password"],
                token_cache_time=self._token_cache_time,
                keystone_modules=self._keystone_modules,
                keystone_cache=self._keystone_cache,
                cleanup_user=self._cleanup_user,
                services=self._services,
                extra_config=self._extra_config,
                release=self.release,
            )
        return self._site

    @property
    def on_mariadb(self) -> bool:
        """Whether the databases are in a MariaDB; those of the light cloud are SQLite files."""
        return not set(self._services) <= set(LIGHT)

    @property
    def mariadb(self) -> MariaDB:
        """The server of the databases, if they are not SQLite files."""
        from tests.support.servers import MariaDB

        return next(server for server in self.servers if isinstance(server, MariaDB))

    @property
    def admin(self) -> Rest:
        """Keystone's administrator."""
        if self._admin is None:
            self._admin = Rest(self.site.keystone_url, "admin", self.site.password, "admin")
        return self._admin

    @property
    def auth_url(self) -> str:
        return f"http://{HOST}:{self.ports['keystone']}/v3"

    @property
    def keystone_urls(self) -> tuple[str, ...]:
        """The URL of each Keystone process, besides the one that all of them share (`auth_url`)."""
        return tuple(f"http://{HOST}:{process.port}/v3" for process in keystone_processes(self.site))

    @property
    def clouds_yaml(self) -> pathlib.Path:
        return self.directory / "clouds.yaml"

    def log(self, process: str) -> pathlib.Path:
        """Return the log file of a process."""
        return self.directory / "log" / f"{process}.log"

    def __enter__(self) -> Cloud:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.down()

    # ---------------------------------------------------------------- install

    def installed(self) -> bool:
        """Return whether the venv has what the requirements name."""
        with contextlib.suppress(OSError):
            return self._stamp().read_text() == requirements_hash(self._services, self.release)
        return False

    def install(self, log: str | os.PathLike[str] | None = None) -> None:
        """Make the venv and install the services into it, unless that has been done."""
        if self.installed():
            return
        log = pathlib.Path(log) if log else self.log("install")
        log.parent.mkdir(parents=True, exist_ok=True)
        self.children.reset()
        with self._install_lock():
            if not self.installed():  # another process may have installed it meanwhile
                log.write_bytes(b"")
                self._install(log)

    @contextlib.contextmanager
    def _install_lock(self) -> Iterator[None]:
        """Only one process at a time installs into the venv."""
        self.venv.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.venv.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.progress(f"waiting: another process is installing into {self.venv.parent}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _install(self, log: pathlib.Path) -> None:
        python = str(self.venv / "bin" / "python")
        # After an interrupted pip the packages look installed, but are incomplete: such a venv is made again.
        unfinished = self.venv / "cleanup-cloud.installing"
        if unfinished.exists():
            for path in self.venv.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path != unfinished:
                    path.unlink()
        self.venv.mkdir(exist_ok=True)
        unfinished.touch()
        self._stamp().unlink(missing_ok=True)
        try:
            make_venv(self.children, self.venv, log)
            self.progress("installing the services: half a minute with uv, up to four with pip")
            release = releases.RELEASES[self.release]
            if release.before:
                install(self.children, python, list(release.before), log, self.progress)
            requirements = releases.requirements(self.release, requirements_files(self._services))
            install(self.children, python, requirements, log, self.progress, release.until)
        finally:
            self.children.stop()
        self._stamp().write_text(requirements_hash(self._services, self.release))
        unfinished.unlink()

    def _stamp(self) -> pathlib.Path:
        return self.venv / "cleanup-cloud.installed"

    # ---------------------------------------------------------------- up

    def up(self) -> None:
        """Start everything; return when every service answers. After an error no process is left."""
        began = time.monotonic()
        if self.release != releases.NEWEST and not set(self._services) <= set(WHOLE):
            raise CloudError(f"only these services were tried with release {self.release}: {', '.join(WHOLE)}")
        if not (self.venv / "bin" / installed_program(self._services)).exists():
            raise CloudError(f"the services are not installed in {self.venv}: run install first")
        self._claim_directory()
        try:
            self._facts.unlink(missing_ok=True)
            self._check_file_system()
            self.check_ports()
            self.children.reset()
            if self.on_mariadb:
                self._start_servers()
            services = self._made()
            self.progress(f"starting {', '.join(service.name for service in services)}: the first start takes longest")
            self._start(services)
            self.clouds_yaml.touch(mode=0o600)
            self.clouds_yaml.write_text(clouds_yaml(self.site))
        except BaseException:
            self.down()
            raise
        facts = {"ports": self.ports, "services": self._services, "mariadb_url": self.site.mariadb_url,
                 "cleanup_user": self._cleanup_user, "token_cache_time": self._token_cache_time,
                 "release": self.release}  # fmt: skip
        self._restarts.mkdir(exist_ok=True)
        partial = self._facts.with_suffix(".partial")
        partial.write_text(json.dumps(facts))
        partial.rename(self._facts)
        self.progress(f"the cloud is up after {time.monotonic() - began:.0f} s: {self.auth_url}")

    @property
    def _facts(self) -> pathlib.Path:
        """Return what another process needs to use this cloud while it runs (`attach`)."""
        return self.directory / self.FACTS

    @classmethod
    def attach(cls, directory: str | os.PathLike[str], venv: str | os.PathLike[str] | None = None) -> Cloud:
        """A cloud that another process runs, and goes on running when this one is done with it."""
        from tests.support.servers import MariaDB

        made = cls(directory, venv)
        if made.runner() is None or not made._facts.exists():
            raise CloudError(f"no cloud is up in {made.directory}")
        facts = json.loads(made._facts.read_text())
        made.ports, made._services = facts["ports"], tuple(facts["services"])
        made._cleanup_user, made._token_cache_time = facts["cleanup_user"], facts["token_cache_time"]
        made.release = facts["release"]
        made._site = dataclasses.replace(made.site, mariadb_url=facts["mariadb_url"])
        if made.on_mariadb:
            server = MariaDB(made.directory / "mariadb")
            server.port = int(facts["mariadb_url"].rpartition(":")[2])
            made.servers = [server]
        return made

    def _claim_directory(self) -> None:
        """Make the directory, or make sure that it is a cloud's and that no other launcher uses it."""
        if self._lock_file is not None:
            raise CloudError(f"the cloud in {self.directory} is up already")
        marker = self.directory / MARKER
        if not marker.exists():
            foreign = [p for p in self._contents() if p != self.venv and p.name != "log"]
            if foreign:
                raise CloudError(f"{self.directory} is neither empty nor a cloud's directory: choose another")
            self.directory.mkdir(parents=True, exist_ok=True)
            self.directory.chmod(0o700)  # keys and passwords
            partial = marker.with_suffix(".partial")
            partial.write_text(json.dumps({"password": secrets.token_urlsafe(12)}))
            partial.rename(marker)
        lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = os.pread(lock, 32, 0).decode() or "unknown"
            os.close(lock)
            raise CloudError(f"the cloud in {self.directory} is run by another process (id {pid})") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        self._lock_file = lock

    def _contents(self) -> list[pathlib.Path]:
        return list(self.directory.iterdir()) if self.directory.is_dir() else []

    def _read_marker(self) -> dict[str, str]:
        try:
            return json.loads((self.directory / MARKER).read_text())
        except (OSError, ValueError) as error:
            raise CloudError(f"{self.directory} is no cloud's directory ({error})") from error

    def _check_file_system(self) -> None:
        """Check for extended attributes, in which Swift stores the metadata of objects."""
        if "swift" not in self._services:
            return
        probe = self.directory / MARKER
        try:
            os.setxattr(probe, "user.swift.probe", b"1")
        except OSError as error:
            raise CloudError(
                f"Swift needs extended attributes, but {self.directory} takes none ({error.strerror});"
                " choose a directory on another one"
            ) from error

    def check_ports(self) -> None:
        """Raise if a process listens on a port of this cloud."""
        for name, port in self.ports.items():
            # Some ports are reserved for services that this cloud does not have yet.
            if name.partition("-")[0] in self._services and not port_is_free(port):
                raise CloudError(
                    f"port {port} (for {name}) is already in use; stop what listens there or {self._port_hint}"
                )

    def _start_servers(self) -> None:
        """The databases, and the bus if need be, before everything else. Databases are kept for the next start."""
        from tests.support.servers import MariaDB, RabbitMQ

        class Kept(MariaDB):
            def _make(self) -> None:
                if not (self.directory / "data" / "mysql").exists():
                    shutil.rmtree(self.directory, ignore_errors=True)
                    self.directory.mkdir()
                    super()._make()

        shutil.rmtree(self.directory / "rabbitmq", ignore_errors=True)  # its queues are for processes that are gone
        databases = Kept(self.directory / "mariadb")
        bus = None if set(self._services) <= set(NO_BUS) else RabbitMQ(self.directory / "rabbitmq")
        self.servers = [databases] if bus is None else [bus, databases]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda server: server.start(), self.servers))
        databases.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        url = databases.url("").rstrip("/")
        self._site = dataclasses.replace(self.site, mariadb_url=url)
        if bus is not None:
            self._site = dataclasses.replace(self.site, transport_url=bus.url)
        self.progress("MariaDB is up" if bus is None else "RabbitMQ and MariaDB are up")

    def _start(self, services: list[Service]) -> None:
        """Start all services at once: each in a thread, which waits only for the services that it needs."""
        results: queue.SimpleQueue[tuple[str, BaseException | None]] = queue.SimpleQueue()
        catalog = threading.Event()
        stop = threading.Event()
        up = {service.name: threading.Event() for service in services}
        doing = dict.fromkeys(up, "preparing")  # what is waited for, and what each of them does
        began = time.monotonic()

        def wait_for(event: threading.Event) -> None:
            while not event.wait(0.1):
                if stop.is_set():
                    raise CloudError("the cloud is being stopped")

        def bring_up(service: Service) -> None:
            try:
                self._prepare(service)
                for name in service.after:
                    doing[service.name] = f"waiting for {name}"
                    wait_for(up[name])
                doing[service.name] = "starting"
                self._launch(service, stop)
                if service.name == "keystone":
                    self._fill_catalog(services)
                    catalog.set()
                wait_for(catalog)
                if service.accounts:
                    service.accounts(self.site, self.admin)
                self._await_daemons(service, stop)
                self._run(service, service.settings, ".settled", service.files)
                if service.seed:
                    service.seed(self.site, self.admin)
                self._probe(service)
                up[service.name].set()
                results.put((service.name, None))
            except BaseException as error:  # raised again by the main thread
                results.put((service.name, error))

        try:
            for service in services:
                threading.Thread(target=bring_up, args=(service,), name=f"cloud-{service.name}", daemon=True).start()
            while doing:
                try:
                    name, error = results.get(timeout=PROGRESS_PERIOD)
                except queue.Empty:
                    self.progress(f"after {time.monotonic() - began:.0f} s: {what_each_does(doing)}")
                    continue
                if error is not None:
                    raise error
                del doing[name]
                self.progress(f"{name} is up" + (f"; {what_each_does(doing)}" if doing else ""))
        finally:
            stop.set()

    def _prepare(self, service: Service) -> None:
        """Write its files; run its preparation unless the same commands have been run."""
        home = self.site.home(service.name)
        for folder in ("", *service.folders):
            (home / folder).mkdir(parents=True, exist_ok=True)
        for name, text in service.files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.log(f"{service.name}-setup").unlink(missing_ok=True)
        if self.on_mariadb and service.databases:
            self._fill_databases(service)
        elif service.schema:
            self._fill_file(service)
        self._run(service, service.preparation, ".prepared")

    def _run(
        self, service: Service, commands: tuple[tuple[str, ...], ...], stamp_name: str, reading: object = ""
    ) -> None:
        """Run commands of a service unless the same ones have been run with the same `reading`."""
        done = hashlib.sha256(f"{commands!r}{reading or ''}".encode()).hexdigest()
        stamp = self.site.home(service.name) / stamp_name
        if not commands or (stamp.exists() and stamp.read_text() == done):
            return
        for command in commands:
            self.children.run(
                f"{service.name}-setup",
                command,
                guarded=True,
                cwd=self.site.home(service.name),
                environment={"PYTHONWARNINGS": "ignore"},
            )
        stamp.write_text(done)

    def _fill_databases(self, service: Service) -> None:
        """Make the databases of a service that are not there, with the schema that the migrations make."""
        server = self.mariadb
        known = {name for (name,) in server.sql("SHOW DATABASES")}
        stamp = self.site.home(service.name) / ".migrated"
        if stamp.exists() and known.issuperset(service.databases):
            return
        for database in service.databases:
            server.sql(f"DROP DATABASE IF EXISTS {database}")
            server.sql(f"CREATE DATABASE {database} CHARACTER SET utf8mb3")
        schemas, text = self._schemas(), self._normalized(service.schema)
        if not service.schema or not schemas.load(server, text, service.databases):
            self._run(service, service.schema, ".migrating")
            if service.schema:
                schemas.keep(server, text, service.databases)
        stamp.touch()

    def _fill_file(self, service: Service) -> None:
        """Copy the SQLite file that the service's migrations make; run them where no earlier cloud has kept it."""
        stamp = self.site.home(service.name) / ".migrated"
        if stamp.exists():
            return
        file, schemas = self.site.database(service.name), self._schemas()
        kept = schemas.path(self._normalized(service.schema), service.name).with_suffix(".sqlite")
        if kept.exists():
            shutil.copyfile(kept, file)
        else:
            file.unlink(missing_ok=True)
            self._run(service, service.schema, ".migrating")
            schemas.keep_file(file, kept)
        stamp.touch()

    def _schemas(self) -> Schemas:
        from tests.cloud.schemas import Schemas

        return Schemas(self.venv / "cleanup-cloud-schemas", requirements_hash(self._services, self.release))

    def _normalized(self, commands: tuple[tuple[str, ...], ...]) -> list[list[str]]:
        """The commands without the directory of this cloud, which says nothing about what they make."""
        return [[word.replace(str(self.directory), "") for word in command] for command in commands]

    def _launch(self, service: Service, stop: threading.Event) -> None:
        """Start its processes and wait until each of them answers; one that ends instead is an error at once."""
        for process in service.processes:
            self.log(process.name).unlink(missing_ok=True)
        children = [
            self.children.start(
                process.name,
                process.arguments,
                python=self.site.bin("python"),
                cwd=self.site.home(service.name),
                environment=self._environment(process),
            )
            for process in service.processes
        ]
        (self.directory / "run").mkdir(exist_ok=True)
        for child in children:
            (self.directory / "run" / child.name).write_text(str(child.popen.pid))
        deadline = time.monotonic() + START_TIMEOUT
        for process, child in zip(service.processes, children, strict=True):
            while process.port and not answers(process):
                if stop.is_set():
                    return
                if how := child.ended():
                    raise CloudError(f"{process.name} did not start ({how}): {last_line(child.log)}; see {child.log}")
                if time.monotonic() > deadline:
                    raise CloudError(f"{process.name} did not answer within {START_TIMEOUT:.0f} s; see {child.log}")
                time.sleep(0.1)

    def restart(self, service: str, name: str) -> None:
        """Restart one process of a service with its current configuration.

        If another process runs the cloud, this writes a file that it checks each second.

        :raises CloudError: that process did not restart it
        """
        if self._lock_file is None:
            request = self._restarts / f"{service} {name}"
            request.touch()
            deadline = time.monotonic() + START_TIMEOUT
            while request.exists():
                if time.monotonic() > deadline:
                    raise CloudError(f"{name} was not started anew within {START_TIMEOUT:.0f} s")
                time.sleep(0.1)
            return
        home = self.site.home(service)
        process = next(p for p in SERVICES[service](self.site).processes if p.name == name)
        self.children.end(name)
        arguments, python = process.arguments, self.site.bin("python")
        child = self.children.start(name, arguments, python=python, cwd=home, environment=self._environment(process))
        (self.directory / "run" / name).write_text(str(child.popen.pid))

    @property
    def _restarts(self) -> pathlib.Path:
        return self.directory / "restarts"

    def restart_what_is_asked_for(self) -> None:
        """Restart the processes that other processes have requested."""
        for request in list(self._restarts.iterdir()):
            self.restart(*request.name.split())
            request.unlink()

    def _environment(self, process: Process) -> dict[str, str]:
        """Return the environment of a process, in addition to that of this one."""
        given = dict(process.environment)
        path = [*self._python_path, given.pop("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")]
        path = [folder for folder in path if folder]
        return {
            "PATH": f"{self.venv}/bin{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PYTHONWARNINGS": "ignore",
            **({"PYTHONPATH": os.pathsep.join(path)} if path else {}),
            **given,
        }

    def _await_daemons(self, service: Service, stop: threading.Event) -> None:
        """Wait until the service itself says that all its daemons are up."""
        deadline = time.monotonic() + START_TIMEOUT
        for reports in service.reports:
            while True:
                self.children.check()
                try:
                    missing = reports.missing(self.admin)
                    said = f"{', '.join(sorted(missing))} not up"
                except CloudError as error:  # it may come late to its own database, too
                    missing, said = set(reports.names), str(error)
                if not missing:
                    break
                if stop.is_set():
                    return
                if time.monotonic() > deadline:
                    raise CloudError(f"{service.name} is not up after {START_TIMEOUT:.0f} s: {said}")
                time.sleep(0.5)

    def _probe(self, service: Service) -> None:
        """Check that a service that answers also accepts a token and finds its database."""
        if not service.probe:
            return
        try:
            self.admin.call("GET", service.probe)
        except CloudError as error:
            raise CloudError(f"{service.name} does not work: {error}; see {self.log(service.name)}") from error

    def _fill_catalog(self, services: list[Service]) -> None:
        for service in services:
            self.admin.ensure_service(service.catalog_type, service.name, service.catalog_url, REGION)
            if service.name != "keystone":
                self.admin.ensure_user(service.name, self.site.password, SERVICE_PROJECT, SERVICE_ROLES)

    # ---------------------------------------------------------------- while it runs

    def register(self, service_type: str, name: str, url: str, user: str, password: str) -> None:
        """Register a service of the tests in the catalog, with a user that is admin on the service project."""
        self.admin.ensure_user(user, password, SERVICE_PROJECT, SERVICE_ROLES)
        self.admin.ensure_service(service_type, name, url, REGION)

    def check(self) -> None:
        """Raise if a process of the cloud has died."""
        self.children.check()

    def status(self) -> dict[str, bool]:
        """Return for each process whether it answers or, without a port, exists; works from any process."""
        runner = self.runner() or os.getpid()
        processes = [process for service in self._made() for process in service.processes]
        return {p.name: answers(p) if p.port else self._is_child(p.name, runner) for p in processes}

    def _is_child(self, process: str, parent: int) -> bool:
        """Whether a process of this cloud is a living child of `parent`, which started it."""
        try:
            pid = (self.directory / "run" / process).read_text()
            state, ppid = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            return False
        return state != "Z" and int(ppid) == parent

    def _made(self) -> list[Service]:
        return [SERVICES[name](self.site) for name in self._services]

    # ---------------------------------------------------------------- down

    def down(self) -> None:
        """Stop every process of this cloud; call it as often as you like."""
        self.children.stop()
        while self.servers:
            server = self.servers.pop()
            try:
                if server.name == "mariadb":  # so that the next start does not begin with a recovery
                    server.stop()
            finally:
                server.close()
        self._admin = None
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def runner(self) -> int | None:
        """The process that runs this cloud now, if any."""
        try:
            lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            text = os.pread(lock, 32, 0).decode()
            return int(text) if text.isdigit() else None
        finally:
            os.close(lock)
        return None

    def stop_runner(self, timeout: float = 30.0) -> bool:
        """Stop the cloud that another process runs; False if none does."""
        pid = self.runner()
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + timeout
        while self.runner() == pid:
            if time.monotonic() > deadline:
                raise CloudError(f"process {pid}, which runs the cloud in {self.directory}, does not end")
            time.sleep(0.1)
        return True

    def wipe(self) -> None:
        """Stop it and remove its directory; the venv stays, it can serve again."""
        self.down()
        if not (self.directory / MARKER).exists():
            if [p for p in self._contents() if p != self.venv and p.name != "log"]:
                raise CloudError(f"{self.directory} is no cloud's directory: nothing was removed")
        elif (pid := self.runner()) is not None:
            raise CloudError(f"the cloud in {self.directory} is run by process {pid}: stop it first")
        # The marker goes last, so that a wipe that was interrupted can be repeated.
        for path in sorted(self._contents(), key=lambda p: p.name == MARKER):
            if path == self.venv or path in self.venv.parents:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        self._site = None
        if self.directory.is_dir() and not self._contents():
            self.directory.rmdir()


def _installation(services: Collection[str]) -> int:
    """Return which of `INSTALLATIONS` is the first with all of these services."""
    return next(n for n, (names, *_) in enumerate(INSTALLATIONS) if set(services) <= set(names))


def requirements_files(services: Collection[str] = LIGHT) -> list[pathlib.Path]:
    """Return the files of the requirements of these services, which together have all of them."""
    needed = INSTALLATIONS[: _installation(services) + 1]
    return [pathlib.Path(__file__).with_name(file) for _, file, _ in needed]


def installed_program(services: Collection[str]) -> str:
    """Return a program that is in a venv in which these services are installed."""
    return INSTALLATIONS[_installation(services)][2]


def requirements_hash(services: Collection[str] = LIGHT, release: str = releases.NEWEST) -> str:
    """Return a digest of what has to be installed for these services."""
    return releases.digest(release, requirements_files(services))


def what_each_does(doing: Mapping[str, str]) -> str:
    """Return the services by what they do: ``preparing: glance, keystone; waiting for nova: heat``."""
    return "; ".join(
        f"{verb}: {', '.join(sorted(name for name, does in doing.items() if does == verb))}"
        for verb in dict.fromkeys(sorted(doing.values()))
    )


def answers(process: Process) -> bool:
    """Return whether the process answers HTTP without a server error."""
    connection = http.client.HTTPConnection(HOST, process.port, timeout=5)
    try:
        connection.request("GET", process.path)
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cloud.launcher", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=["install", "up", "down", "status", "wipe"])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--full", action="store_true", help="the thirteen services, not only the five light ones")
    which.add_argument(
        "--only", action="append", choices=sorted(SERVICES), help="Keystone and this service; repeat it for more"
    )
    parser.add_argument(
        "--release",
        choices=releases.RELEASES,
        default="",
        help=f"of OpenStack (default: ${releases.VARIABLE}, else the newest)",
    )
    parser.add_argument("--fence", action="store_true", help="Keystone has our part in it, from this checkout")
    parser.add_argument("--directory", required=True, help="where the cloud keeps everything")
    parser.add_argument("--venv", help="where its services are installed (default: <directory>/venv)")
    parser.add_argument("--port-base", type=int, default=DEFAULT_PORT_BASE, help="first port (default: %(default)s)")
    parser.add_argument("--token-cache-time", type=int, default=5, help="seconds (default: %(default)s)")
    parser.add_argument("--until", type=int, default=0, metavar="PID", help="up: stop when this process has ended")
    options = parser.parse_args(arguments)
    cloud = Cloud(
        options.directory,
        options.venv,
        full=options.full,
        services=options.only or LIGHT,
        port_base=options.port_base,
        token_cache_time=options.token_cache_time,
        release=options.release,
        **(FENCED if options.fence else {}),
        progress=lambda text: print(text, flush=True),
    )
    # SIGTERM and a closed terminal end it like Ctrl-C does: by way of `finally`. Ctrl-C itself is ignored in what a
    # script starts in the background, and has to be set, too; under nohup SIGHUP stays ignored.
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:
            signal.signal(signum, signal.default_int_handler)
    try:
        return run(cloud, options.verb, Other(options.until))
    except CloudError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        cloud.down()


class Other:
    """A process that is not a child of this one; a descriptor names it, so that a reused number is no danger."""

    def __init__(self, pid: int) -> None:
        self._descriptor = os.pidfd_open(pid) if pid else -1

    def wait(self, seconds: float) -> bool:
        """Wait for its end; return whether it has ended. Without a process, only wait for the time."""
        if self._descriptor < 0:
            time.sleep(seconds)
            return False
        return bool(select.select([self._descriptor], [], [], seconds)[0])


def run(cloud: Cloud, verb: str, process: Other) -> int:
    """Run the command of the command line; return the exit code."""
    if verb == "install":
        cloud.install()
        print(f"installed in {cloud.venv}")
    elif verb == "up":
        cloud.up()
        print(f"export OS_CLIENT_CONFIG_FILE={cloud.clouds_yaml} OS_CLOUD=admin\nCtrl-C stops it", flush=True)
        while not process.wait(1):
            cloud.restart_what_is_asked_for()
            cloud.check()
    elif verb == "down":
        print("stopped" if cloud.stop_runner() else "it was not running")
    elif verb == "wipe":
        cloud.stop_runner()
        cloud.wipe()
        print(f"removed {cloud.directory}")
    elif verb == "status":
        status = cloud.status()
        for name, alive in status.items():
            print(f"{name:20} {'up' if alive else 'down'}")
        return 0 if all(status.values()) else 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
