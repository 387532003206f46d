"""Peak memory of a worker and an engine that delete a project with 100,000 ports, or one with 40,000 Swift objects.

    python -m tests.benchmarks.memory [--json]

Engine and worker are the real processes, over RabbitMQ and SQLite. The emulated cloud answers without delay. Of the
ports, the worker lists all, and the measurement ends when it has deleted 6,000 of them, in two or more sweeps. The
project with the objects is deleted to its end. The memory is the largest resident set (`VmHWM`) of each process since
its start.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Self

from cleanup_orchestrator.core.deletion import Deletion, Mode, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.core.transitions import LIVE
from cleanup_orchestrator.store import Store
from tests.benchmarks.figures import Figure, main
from tests.cloud.processes import Child, Children
from tests.emulated.orchestrator import configuration
from tests.emulated.server import Process
from tests.support.brokers import RABBITMQ, connect
from tests.support.databases import copy_schema
from tests.support.servers import RabbitMQ

PORTS, DELETED, OBJECTS = 100_000, 6_000, 40_000
BOUND = 200  #: MB
PATIENCE = 1200  #: seconds
#: The limits of a cloud are not what is measured.
NO_LIMITS = {"calls_per_second": "default:0", "calls_at_once": "default:0", "deletes_per_second": "default:0"}


class Site:
    """An emulated cloud, an engine process and a worker process."""

    def __init__(self, folder: pathlib.Path, cloud: Process, transport_url: str) -> None:
        exchange = f"benchmark_{uuid.uuid4().hex}"
        path = configuration(
            folder,
            cloud.auth_url,
            DEFAULT={"transport_url": transport_url, "control_exchange": exchange},
            oslo_messaging_rabbit={"amqp_auto_delete": "true", "rabbit_transient_queues_ttl": 60},
            engine={"claim_timeout": 5},  # the first cast may come before the worker listens
            drain={"driver": "fence", "token_cache_time": 0},
            limits=NO_LIMITS,
        )
        self.store = Store.from_url(copy_schema(folder / "orchestrator.sqlite"))
        self._children = Children(folder / "log")
        self.processes = {part: self._start(part, path) for part in ("engine", "worker")}

    def _start(self, part: str, configuration_file: pathlib.Path) -> Child:
        module = ["-m", "cleanup_orchestrator.cmd.processes", part]
        command = [sys.executable, *module, "--config-file", str(configuration_file)]
        return self._children.start(part, ["exec", "--", *command], python=sys.executable)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._children.stop()
        self.store.close()

    def delete(self, project: str, until: Callable[[str], bool]) -> float:
        """Delete a project, until this is true of the deletion or it has ended; return the seconds."""
        began, now = time.monotonic(), self.store.now()
        id_ = str(uuid.uuid4())
        record = Deletion(id_, project, "?", "default", Mode.CASCADE, False, Status.ACCEPTED, now, now, now, now, now)
        self.store.create(record, TASKS, Event("deletion.accepted", "a benchmark asks for it"))
        while not until(id_):
            for name, child in self.processes.items():
                if how := child.ended():
                    raise SystemExit(f"the {name} ended ({how}): {child.log.read_text()[-2000:]}")
            if self.store.get(id_).status not in LIVE or time.monotonic() - began > PATIENCE:
                raise SystemExit(f"the deletion is {self.store.get(id_)}: {self.store.steps(id_)}")
            time.sleep(0.5)
        return time.monotonic() - began

    def deleted(self, id_: str) -> int:
        """Return how many ports of the deletion are confirmed gone."""
        return sum(step.deleted for step in self.store.steps(id_) if step.type == "port")

    def memory(self) -> Iterator[tuple[str, float]]:
        """Yield the peak memory of each process, in MB."""
        for name, child in self.processes.items():
            status = pathlib.Path(f"/proc/{child.popen.pid}/status").read_text()
            found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
            assert found is not None
            yield name, int(found[1]) / 1024


@contextlib.contextmanager
def broker(folder: pathlib.Path) -> Iterator[str]:
    """Yield the URL of the RabbitMQ of the tests; without one, start another."""
    try:
        with connect(connect_timeout=5) as connection:
            connection.connect()
    except Exception:
        server = RabbitMQ(folder).start()
        try:
            yield server.url
        finally:
            server.close()
    else:
        yield RABBITMQ


@contextlib.contextmanager
def site(**what: int) -> Iterator[tuple[Site, str]]:
    """Yield a site and a project that has so many ports or objects."""
    with (
        tempfile.TemporaryDirectory() as name,
        broker(pathlib.Path(name) / "broker") as url,
        Process("--projects", "0", "--bystanders", "0", "--small", "--fences") as cloud,
    ):
        project = cloud.call("add_empty", name="large")
        cloud.call("fill", project=project, **what)
        with Site(pathlib.Path(name), cloud, url) as made:
            yield made, project


def measure() -> Iterator[Figure]:
    """Measure both projects, each with new processes."""
    with site(ports=PORTS) as (made, project):
        seconds = made.delete(project, lambda id_: made.deleted(id_) >= DELETED)
        for name, megabytes in made.memory():
            yield Figure(f"{PORTS} ports, {DELETED} of them deleted: MB of the {name}", megabytes, BOUND)
        yield Figure(f"{PORTS} ports, {DELETED} of them deleted: seconds", seconds)
    with site(objects=OBJECTS) as (made, project):
        seconds = made.delete(project, lambda id_: made.store.get(id_).status is Status.DELETED)
        for name, megabytes in made.memory():
            yield Figure(f"{OBJECTS} objects in one container, all deleted: MB of the {name}", megabytes, BOUND)
        yield Figure(f"{OBJECTS} objects in one container, all deleted: seconds", seconds)


if __name__ == "__main__":
    main(__doc__, measure)
