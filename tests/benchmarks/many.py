"""Many small cascades at once, by the processes of a small installation.

    python -m tests.benchmarks.many [--cascades 100] [--database mariadb|postgresql] [--json]

One API process, one engine and four workers run as an operator starts them, with a RabbitMQ and a database server that
the benchmark starts. The projects are in an emulated cloud with the fence, 30 ms a call. Each has a few resources of
Neutron, Glance, Swift and Barbican. All are requested at once over the REST API: first without rate limits, then with
the default ones. The settling time is 0. Then some are requested while a large project is being deleted.

All processes share the machine. The processor time of the orchestrator is that of the API, the engine and the workers
from the first request to the last removal, without their start. The emulated cloud, the database and the broker use
the same processors: separate figures say how much. The figures for the cascades a minute include all of this.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any, Self

from cleanup_orchestrator.cmd import manage
from cleanup_orchestrator.core.deletion import Status
from tests.benchmarks import figures
from tests.benchmarks.figures import Figure
from tests.benchmarks.start import processor
from tests.cloud.processes import Child, Children
from tests.emulated.cloud import OWN_PROJECT, USER
from tests.emulated.orchestrator import configuration
from tests.emulated.server import Process
from tests.support import ports
from tests.support.servers import PORTS, Database, MariaDB, PostgreSQL, RabbitMQ
from tests.support.timing import wait

WORKERS = 4
MILLISECONDS = 30  #: of a call
#: Resources that a project gets, besides a container with two objects and the default security group.
RESOURCES = ("network.network", "network.subnet", "network.port", "network.port", "image.image", "key-manager.secret")
#: Cascades that are requested while a large project is being deleted, and the ports of that.
BESIDE, LARGE = 20, 20_000
#: Seconds without the end of a cascade after which the benchmark gives up.
PATIENCE = 300.0
_KEYSTONE = "75 allow 40 a minute at 50 a second; a part are tests of the fence once a minute, less at a higher rate"
RATE = 50  #: calls to a service in a second, by default
OFF = {"calls_per_second": "default:0", "calls_at_once": "default:0", "deletes_per_second": "default:0"}
#: The defaults again, because the tests' configuration has short times.
OPTIONS: dict[str, dict[str, object]] = {
    "engine": {"tick": 5, "retry_base": 1, "retry_cap": 60},
    "drain": {"driver": "fence", "token_cache_time": 0},
}
SERVERS: dict[str, type[Database]] = {"mariadb": MariaDB, "postgresql": PostgreSQL}
#: By kind of database: the number of deadlocks since the server started, and the connections of the orchestrator.
_DEADLOCKS = {
    "mariadb": "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_DEADLOCKS'",
    "postgresql": "SELECT sum(deadlocks) FROM pg_stat_database",
}
_CONNECTIONS = {
    "mariadb": "SELECT count(*) FROM information_schema.processlist WHERE db = '{0}'",
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE datname = '{0}'",
}


@dataclasses.dataclass(frozen=True)
class Ended:
    """Some cascades that were requested at once and have all ended."""

    times: tuple[float, ...]  #: seconds from the first request to the end of each, ascending
    used: dict[str, float]  #: processor seconds by process
    calls: dict[str, int]  #: calls that the cloud received, by service
    conflicts: float
    deadlocks: int
    connections: int  #: to the database, at most

    @property
    def number(self) -> int:
        """How many there were."""
        return len(self.times)

    @property
    def a_minute(self) -> float:
        """How many ended in a minute."""
        return self.number / self.times[-1] * 60

    def each(self, *names: str) -> float:
        """Return the processor seconds of some processes for each cascade; `worker` names all workers."""
        found = sum(seconds for name, seconds in self.used.items() if name.partition("-")[0] in names)
        return found / self.number


class Site:
    """The processes of an installation."""

    def __init__(
        self,
        folder: pathlib.Path,
        cloud: Process,
        servers: tuple[Database, RabbitMQ],
        name: str,
        limits: dict[str, str] | None,
    ) -> None:
        folder.mkdir()
        self.cloud, self.name, (self.database, self.broker) = cloud, name, servers
        url = self.database.create(name)
        manage.upgrade(url)
        self.port = ports.reserve(PORTS, 10)
        options = {
            **OPTIONS,
            **({} if limits is None else {"limits": limits}),
            "DEFAULT": {"transport_url": self.broker.url, "control_exchange": name},
            "database": {"connection": url},
            "api": {"port": self.port},
            "keystone_authtoken": {
                "auth_section": "orchestrator",
                "www_authenticate_uri": cloud.auth_url,
                "interface": "public",
            },
        }
        self._configuration = configuration(folder, cloud.auth_url, **options)  # type: ignore[arg-type]
        self._children = Children(folder / "log")
        self.processes: dict[str, Child] = {}
        self._token = ""

    def __enter__(self) -> Self:
        try:
            names = ["api-1", "engine-1", *(f"worker-{number + 1}" for number in range(WORKERS))]
            for number, name in enumerate(names):
                self.processes[name] = self._start(name, self._metrics(number))
            for number, name in enumerate(names):
                wait(f"{name} answers", functools.partial(self._ready, name, number), PATIENCE)
            self._token = self._log_in()
        except BaseException:
            self._children.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._children.stop()

    # -- processes
    def _metrics(self, number: int) -> int:
        """Return the monitoring port of a process."""
        return self.port + 1 + number

    def _start(self, name: str, port: int) -> Child:
        part = name.partition("-")[0]
        base = port - {"api": 0, "engine": 1, "worker": 2}[part]
        command = [
            sys.executable,
            "-m",
            "cleanup_orchestrator.cmd.processes",
            part,
            "--config-file",
            str(self._configuration),
        ]
        return self._children.start(
            name, ["exec", "--", *command], python=sys.executable, environment={"OS_METRICS__PORT": str(base)}
        )

    def _ready(self, name: str, number: int) -> bool:
        child = self.processes[name]
        if how := child.ended():
            raise SystemExit(f"{name} ended ({how}): {child.log.read_text()[-2000:]}")
        with contextlib.suppress(OSError):
            return bool(self._get(number, "/healthcheck"))
        return False

    def _get(self, number: int, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics(number)}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    def _used(self) -> dict[str, float]:
        """Return the processor seconds of each process so far."""
        children = {name: child.popen.pid for name, child in self.processes.items()}
        others = {"cloud": self.cloud.pid, "database": self.database.pid, "broker": self.broker.pid}
        return {name: processor(pid) for name, pid in {**children, **others}.items()}

    def memory(self) -> dict[str, float]:
        """Return the largest resident set of each process, in MB."""
        found = {}
        for name, child in self.processes.items():
            status = pathlib.Path(f"/proc/{child.popen.pid}/status").read_text()
            found[name] = int(re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)[0]) / 1024
        return found

    # -- what is counted
    def _conflicts(self) -> float:
        found = re.findall(r"^cleanup_orchestrator_conflicts_total (\S+)$", self._get(1, "/metrics"), re.MULTILINE)
        return float(found[0])

    def _sql(self, statement: str) -> list[tuple[Any, ...]]:
        return self.database.sql(statement, self.name)

    def _number(self, statements: dict[str, str]) -> int:
        return int(self._sql(statements[self.database.name].format(self.name))[0][0] or 0)

    def _calls(self) -> dict[str, int]:
        return {service: rates["calls"] for service, rates in self.cloud.call("audit.rates").items()}

    # -- requests
    def _log_in(self) -> str:
        """Return a token of an admin."""
        user = {"name": USER, "domain": {"id": "default"}, "password": USER}
        scope = {"project": {"name": OWN_PROJECT, "domain": {"id": "default"}}}
        auth = {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}
        with self._ask(f"{self.cloud.auth_url}/auth/tokens", {"auth": auth}) as answer:
            return str(answer.headers["X-Subject-Token"])

    def _ask(self, url: str, body: object) -> Any:
        headers = {"Content-Type": "application/json", **({"X-Auth-Token": self._token} if self._token else {})}
        return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=120)

    def request(self, project: str) -> str:
        """Request a cascade and return its id."""
        body = {"project_id": project, "mode": "cascade"}
        with self._ask(f"http://127.0.0.1:{self.port}/v1/deletions", body) as answer:
            return str(json.load(answer)["deletion"]["id"])

    def status(self, deletion: str) -> Status:
        """Return the status of a deletion."""
        return Status(self._sql(f"SELECT status FROM deletions WHERE id = '{deletion}'")[0][0])

    def delete(self, projects: Sequence[str]) -> Ended:
        """Request cascades of projects at once, and wait for their ends."""
        before, calls, conflicts = self._used(), self._calls(), self._conflicts()
        deadlocks = self._number(_DEADLOCKS)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            ids = list(pool.map(self.request, projects))
        connections = self._wait(ids)
        used = self._used()
        named = ", ".join(f"'{each}'" for each in ids)
        rows = self._sql(f"SELECT status, created_at, finished_at FROM deletions WHERE id IN ({named})")
        if other := {status for status, *_ in rows} - {str(Status.DELETED)}:
            raise SystemExit(f"some deletions ended as {', '.join(sorted(other))}")
        began = min(created for _, created, _ in rows)
        return Ended(
            tuple(sorted((finished - began).total_seconds() for *_, finished in rows)),
            {name: used[name] - before[name] for name in used},
            {service: count - calls.get(service, 0) for service, count in self._calls().items()},
            self._conflicts() - conflicts,
            self._number(_DEADLOCKS) - deadlocks,
            connections,
        )

    def _wait(self, ids: Sequence[str]) -> int:
        """Wait until all deletions have ended; return the largest number of connections to the database."""
        named = ", ".join(f"'{each}'" for each in ids)
        living = f"SELECT count(*) FROM deletions WHERE finished_at IS NULL AND id IN ({named})"
        left, since, connections = len(ids), time.monotonic(), 0
        while left:
            time.sleep(1)
            connections = max(connections, self._number(_CONNECTIONS) - 1)  # without that of the question
            if (now := int(self._sql(living)[0][0])) < left:
                left, since = now, time.monotonic()
            for name, child in self.processes.items():
                if how := child.ended():
                    raise SystemExit(f"{name} ended ({how}): {child.log.read_text()[-2000:]}")
            if time.monotonic() - since > PATIENCE:
                raise SystemExit(f"no end of {left} cascades for {PATIENCE:g} seconds")
        return connections


def _filled(cloud: Process, name: str) -> str:
    """Make a project with a few resources and return its id."""
    project = str(cloud.call("add_empty", name=name))
    network = ""
    for kind in RESOURCES:
        more = {"network_id": network} if network and kind.startswith("network.") else {}
        made = cloud.call("add", region="RegionOne", kind=kind, owner=project, values={"name": name, **more})
        network = network or str(made)
    cloud.call("fill", project=project, objects=2)
    return project


def _figures(name: str, done: Ended, bound: float | None) -> Iterator[Figure]:
    ended, each = done.number, f"{name}, of each"
    busy = sum(done.used.values()) / done.times[-1] / (os.cpu_count() or 1)
    note = f"{ended} cascades in {done.times[-1]:.0f} s, all processes on this machine, {100 * busy:.0f} % of it used"
    yield Figure(f"{name}: cascades a minute", done.a_minute, bound, at_least=bound is not None, note=note)
    first = done.times[0] / done.times[-1]
    yield Figure(f"{name}: the first one is done after this part of the time", first, 0.25, note="the last one: 1")
    half = done.times[ended // 2] / done.times[-1]
    yield Figure(f"{name}: half of them are done after this part of the time", half)
    own = ("api", "engine", "worker")
    split = ", ".join(f"{part} {done.each(part):.2f}" for part in own)
    yield Figure(f"{each}: processor seconds of the orchestrator", done.each(*own), 2, note=split)
    for other, what in (("cloud", "the emulated cloud"), ("database", "the database"), ("broker", "the broker")):
        yield Figure(f"{each}: processor seconds of {what}", done.each(other))
    total = sum(done.calls.values())
    split = ", ".join(f"{service} {count / ended:.0f}" for service, count in sorted(done.calls.items()))
    yield Figure(f"{each}: calls", total / ended, note=split)
    yield Figure(
        f"{each}: calls to Keystone", done.calls["identity"] / ended, 75, note="50 a second: 40 cascades a minute"
    )
    service, most = max(done.calls.items(), key=lambda one: one[1])
    allowed = RATE * 60 / (most / ended)
    yield Figure(f"{name}: cascades a minute that {RATE} calls a second allow", allowed, note=f"because of {service}")
    yield Figure(f"{each}: conflicts", done.conflicts / ended, 0)
    yield Figure(f"{each}: deadlocks", done.deadlocks / ended, 0)
    yield Figure(f"{name}: connections to the database, at most", done.connections)


def _beside(site: Site, cloud: Process) -> Iterator[Figure]:
    """Measure small cascades beside a large one."""
    alone, beside = ([_filled(cloud, f"{name}-{n}") for n in range(BESIDE)] for name in ("alone", "beside"))
    large = cloud.call("add_empty", name="large")
    cloud.call("fill", project=large, ports=LARGE)
    before = site.delete(alone)
    deletion = site.request(large)
    wait("the large project is being deleted", lambda: site.status(deletion) is Status.DELETING, PATIENCE, 0.5)
    after = site.delete(beside)
    going = site.status(deletion) is Status.DELETING
    yield Figure(
        f"{BESIDE} cascades beside one of {LARGE} ports: times the time without it",
        after.times[-1] / before.times[-1],
        2,
        note=f"{before.times[-1]:.0f} and {after.times[-1]:.0f} s; the large one was {'not ' * going}done then",
    )


def measure(cascades: int, kind: str) -> Iterator[Figure]:
    """Measure without limits, with the default limits, and beside a large project."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)  # PostgreSQL runs as another user if the benchmark runs as root
        servers = (
            stack.enter_context(SERVERS[kind](folder / kind)),
            stack.enter_context(RabbitMQ(folder / "broker")),
        )
        cloud = stack.enter_context(Process("--projects", "0", "--bystanders", "0", "--small", "--fences"))
        cloud.call("faults.latency", milliseconds=MILLISECONDS)
        for name, limits, bound in (("off", OFF, 60), ("default", None, None)):
            projects = [_filled(cloud, f"{name}-{number}") for number in range(cascades)]
            with Site(folder / name, cloud, servers, f"many_{name}", limits) as site:
                yield from _figures(f"limits {name}", site.delete(projects), bound)
                memory = site.memory()
                workers = [megabytes for each, megabytes in memory.items() if each.startswith("worker")]
                yield Figure(f"limits {name}: MB of a worker, at most", max(workers))
                yield Figure(f"limits {name}: MB of the engine", memory["engine-1"])
                if limits is None:
                    yield from _beside(site, cloud)
        if wrong := cloud.call("audit.foreign_writes") + cloud.call("audit.deleted_while_not_empty"):
            raise SystemExit(f"the cloud was harmed: {wrong[:3]}")


def main() -> None:
    """Measure and print."""
    available = [kind for kind, server in SERVERS.items() if server.available()]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cascades", type=int, default=100, help="how many at once, without and with limits")
    parser.add_argument("--database", choices=available, default=available[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object for each figure")
    options = parser.parse_args()
    before = figures.machine()
    found = list(measure(options.cascades, options.database))
    if options.json:
        for each in found:
            print(json.dumps(dataclasses.asdict(each)), flush=True)
        return
    print(f"{before}; {options.database}")
    print("\n".join(figures.table(found)))


if __name__ == "__main__":
    main()
