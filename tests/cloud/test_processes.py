"""API, engine and two workers as processes over RabbitMQ and PostgreSQL; one of the workers is killed half-way."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.store import tables
from tests.cloud import filler
from tests.cloud.conftest import free_port_base
from tests.cloud.processes import Child, Children
from tests.support.brokers import RABBITMQ, need_broker
from tests.support.databases import database
from tests.support.timing import wait

LEASE = 6
STOP = 60  #: seconds in which a process has to be gone after SIGTERM
IDS = re.compile(r"^[-\d]{10} [\d:.]{12} \d+ [A-Z]+ \S+ \[\S+ deletion=\S+ project=\S+( global_request_id=\S+)?\]")

CONFIGURATION = """
[DEFAULT]
transport_url = {rabbitmq}
control_exchange = {exchange}
[oslo_messaging_rabbit]
# Nothing of the test stays on the broker, nor what a killed worker leaves for long.
amqp_auto_delete = true
rabbit_transient_queues_ttl = 60
[database]
connection = {database}
[orchestrator]
auth_type = password
auth_url = {auth_url}
username = processes
password = processes
project_name = service
user_domain_id = default
project_domain_id = default
interface = public
[keystone_authtoken]
auth_section = orchestrator
www_authenticate_uri = {auth_url}
[api]
port = {port}
[drain]
token_cache_time = 5
[engine]
tick = 0.5
[worker]
lease = {lease}
"""


class Orchestrator:
    """The processes, their database, and the requests of a client."""

    def __init__(self, cloud, token: str, directory, database_url: str) -> None:
        cloud.admin.ensure_user("processes", "processes", "service", ("admin", "service"))
        self.token, self.port = token, free_port_base()
        self.database = sa.create_engine(database_url, poolclass=sa.NullPool)
        self.configuration = directory / "orchestrator.conf"
        self.configuration.write_text(
            CONFIGURATION.format(
                rabbitmq=RABBITMQ,
                exchange=f"cleanup_test_{uuid.uuid4().hex}",
                database=database_url,
                auth_url=cloud.auth_url,
                port=self.port,
                lease=LEASE,
            )
        )
        self.children = Children(directory / "log")
        manage = [*self.command("manage"), "db", "upgrade"]
        subprocess.run(manage, check=True, capture_output=True, timeout=300)

    def command(self, module: str, *part: str) -> list[str]:
        module = f"cleanup_orchestrator.cmd.{module}"
        return [sys.executable, "-m", module, *part, "--config-file", str(self.configuration)]

    def start(self, name: str, part: str) -> Child:
        return self.children.start(name, ["exec", "--", *self.command("processes", part)], python=sys.executable)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"X-Auth-Token": self.token, "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def up(self) -> bool:
        self.children.check()
        try:
            return bool(self.call("GET", "/"))
        except OSError:
            return False

    def running(self, worker: Child) -> str | None:
        """A step that the worker has under way."""
        steps = tables.steps.c
        query = sa.select(steps.id).where(
            steps.state == "running", steps.kind == "sweep", steps.worker.endswith(f":{worker.popen.pid}")
        )
        with self.database.connect() as connection:
            return connection.execute(query).scalar()

    def step(self, step_id: str) -> Any:
        with self.database.connect() as connection:
            return connection.execute(sa.select(tables.steps).where(tables.steps.c.id == step_id)).one()

    def kill_while_it_works(self, worker: Child) -> str | None:
        """Kill the worker while it has a claimed step; return the step. First stop it, so that it cannot finish."""
        if self.running(worker) is None:
            return None
        worker.signal(signal.SIGSTOP)
        time.sleep(1)  # what it has sent to the database is written now
        held = self.running(worker)
        worker.signal(signal.SIGKILL if held else signal.SIGCONT)
        return held


@pytest.fixture
def orchestrator(cloud, admin, tmp_path) -> Iterator[Orchestrator]:
    need_broker()
    with database("postgresql", tmp_path) as url:
        admin.session.invalidate()  # the next token lasts for an hour
        made = Orchestrator(cloud, admin.session.get_token(), tmp_path, url)
        try:
            yield made
        finally:
            made.children.stop()
            made.database.dispose()


def test_a_cascade_ends_although_a_worker_is_killed_half_way(cloud, admin, orchestrator):
    filled = filler.fill(admin, "processes", only=("network", "key-manager", "identity"))
    project_id = filled.project_id
    parts = {"api": "api", "engine": "engine", "doomed": "worker", "survivor": "worker"}
    children = {name: orchestrator.start(name, part) for name, part in parts.items()}
    wait("the API answers", orchestrator.up, 180, 0.2)

    asked = {"project_id": project_id, "mode": "cascade"}
    deletion_id = orchestrator.call("POST", "/v1/deletions", asked)["deletion"]["id"]

    def status() -> str:
        return orchestrator.call("GET", f"/v1/deletions/{deletion_id}")["deletion"]["status"]

    wait("it deletes", lambda: status() == "deleting", 300, 0.05)
    doomed = children["doomed"]
    held = wait("it is killed", lambda: orchestrator.kill_while_it_works(doomed), 120, 0.01)
    killed = time.monotonic()
    assert doomed.popen.wait(60) == -signal.SIGKILL
    fence = orchestrator.step(held).fencing_token
    wait("its step is taken up", lambda: orchestrator.step(held).fencing_token > fence, LEASE + 120, 0.2)
    assert time.monotonic() - killed > LEASE / 3, "not before the lease was over: it was renewed every third of it"

    # Casts to the killed worker that it had not begun are repeated after [engine] claim_timeout.
    wait("the project is gone", lambda: status() == "deleted", 600, 0.2)
    assert [line for line in filler.proof(cloud, project_id) if line[-1]] == []
    del children["doomed"]

    began = time.monotonic()
    for child in children.values():
        child.signal(signal.SIGTERM)
    codes = {name: child.popen.wait(STOP) for name, child in children.items()}
    assert codes == dict.fromkeys(children, 0)
    assert time.monotonic() - began < STOP

    for name, child in children.items():
        text = child.log.read_text()
        assert "Traceback" not in text and "Deprecat" not in text, f"{name}: {text}"
        assert [line for line in text.splitlines() if not IDS.match(line)] == [], name
    # A worker logs a line only after an error.
    for name in ("api", "engine"):
        context = rf"\[req-\S+ deletion={deletion_id} project={project_id}\]"
        assert re.search(context, children[name].log.read_text()), name
