"""Measures the start of each process and its idle time: processor seconds until it is ready, and percent while idle.

    python -m tests.benchmarks.start [--json]

Each process runs over SQLite and an emulated Keystone. The separate processes use the tests' RabbitMQ if it answers,
and otherwise kombu's in-memory transport, which polls and so is not idle. Python may write bytecode, as it has in an
installed package, into a folder of the benchmark: the first start of each process fills it and does not count. A
process is ready when its monitoring port, which it opens last, accepts connections. While it is idle it has no record
to work on and gets no request.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from cleanup_orchestrator.monitoring.server import OFFSETS
from tests.benchmarks.figures import Figure, main
from tests.cloud.processes import SPAWNER
from tests.emulated.orchestrator import configuration
from tests.emulated.server import Process
from tests.support.brokers import RABBITMQ, connect
from tests.support.databases import copy_schema
from tests.support.ports import reserve

#: Command: the part whose monitoring port it opens.
COMMANDS = {"engine": "engine", "worker": "worker", "api": "api", "all_in_one": "api"}
STARTS = 3
BOUND = 1.5
#: Seconds from the start of a process until the measurement of its idle time, and of the measurement.
SETTLE, IDLE = 5.0, 30.0
#: Percent of one processor.
IDLE_BOUND = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Site:
    """An emulated Keystone, a database and a configuration file for one process."""

    def __init__(self, command: str, folder: pathlib.Path, auth_url: str) -> None:
        self.command, self._folder = command, folder / command
        self._folder.mkdir()
        self._bytecode = folder / "bytecode"
        copy_schema(self._folder / "orchestrator.sqlite")
        port = reserve(range(20000, 30000, 10), 10)
        self._port = port + 2 + OFFSETS[COMMANDS[command]]
        self._configuration = configuration(
            self._folder,
            auth_url,
            DEFAULT={"transport_url": broker(), "control_exchange": f"bench_start_{folder.name}"},
            oslo_messaging_rabbit={"amqp_auto_delete": "true", "rabbit_transient_queues_ttl": 60},
            api={"port": port},
            metrics={"port": port + 2},
            engine={"tick": 5},
            keystone_authtoken={"auth_section": "orchestrator", "www_authenticate_uri": auth_url},
        )

    @contextlib.contextmanager
    def running(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start the process, wait until it is ready, and end it.

        :param options: of Python
        """
        module = "cleanup_orchestrator.cmd.processes"
        command = [sys.executable, *options, "-m", module, self.command, "--config-file", str(self._configuration)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(self._bytecode)
        with (self._folder / "log").open("wb") as log:
            process = SPAWNER.call(lambda: subprocess.Popen(command, stdout=log, stderr=log, env=environment))
        try:
            until = time.monotonic() + 120
            while not self._answers():
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"{self.command} is not ready:\n{self.log()[-2000:]}")
                time.sleep(0.02)
            yield process
        finally:
            process.kill()
            process.wait()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1):
                return True
        except OSError:
            return False

    def log(self) -> str:
        """Return what the process wrote."""
        return (self._folder / "log").read_text(errors="replace")

    def start(self) -> float:
        """Return the processor seconds until the process is ready."""
        with self.running() as process:
            return processor(process.pid)

    def modules(self) -> int:
        """Return how many modules the process has imported when it is ready."""
        with self.running("-X", "importtime"):
            return sum(line.startswith("import time:") for line in self.log().splitlines()) - 1


def broker() -> str:
    """Return the URL of the tests' RabbitMQ if it answers, otherwise that of kombu's in-memory transport."""
    try:
        with connect(connect_timeout=5) as connection:
            connection.connect()
    except Exception:  # whatever the driver raises
        return "kombu+memory://"
    return RABBITMQ


def processor(pid: int) -> float:
    """Return the processor seconds of a process and all its threads, user and system."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def idle(sites: list[Site]) -> Iterator[Figure]:
    """Yield the processor time of all processes while none of them has work; they run at the same time."""
    with contextlib.ExitStack() as stack:
        processes = [(site.command, stack.enter_context(site.running()).pid) for site in sites]
        time.sleep(SETTLE)
        before, began = {pid: processor(pid) for _, pid in processes}, time.monotonic()
        time.sleep(IDLE)
        seconds = time.monotonic() - began
        for command, pid in processes:
            used = processor(pid) - before[pid]
            yield Figure(f"{command}, idle: percent of a processor", 100 * used / seconds, IDLE_BOUND)


def measure() -> Iterator[Figure]:
    """Measure each process, one after the other, then all of them idle."""
    with Process("--small") as cloud, tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        sites = [Site(command, folder, cloud.auth_url) for command in COMMANDS]
        for site in sites:
            modules = site.modules()  # the first start, which writes the bytecode
            times = [site.start() for _ in range(STARTS)]
            note = f"best of {STARTS}; {modules} modules"
            yield Figure(f"{site.command}, start until ready: processor seconds", min(times), BOUND, note=note)
        yield from idle(sites)


if __name__ == "__main__":
    main(__doc__, measure)
