"""The orchestrator's real processes over SQLite and RabbitMQ, with a small Keystone whose calls can be held up."""

from __future__ import annotations

import http.client
import json
import sys
import threading
import urllib.error
import urllib.request
import uuid

import sqlalchemy as sa

from cleanup_orchestrator import store as storage
from cleanup_orchestrator.core.deletion import Deletion, Mode, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.store import tables
from tests.cloud.conftest import free_port_base
from tests.cloud.processes import Children
from tests.functional.test_api import keystone as ks
from tests.support.brokers import RABBITMQ
from tests.support.databases import copy_schema
from tests.support.timing import wait

PASSWORD = "a-very-secret-password"

CONFIGURATION = """
[DEFAULT]
{default}
control_exchange = {exchange}
graceful_stop_timeout = {patience}
[oslo_messaging_rabbit]
amqp_auto_delete = true
rabbit_transient_queues_ttl = 60
[database]
connection = sqlite:///{folder}/all.sqlite
[orchestrator]
auth_type = password
auth_url = {keystone}/v3
username = orchestrator
password = {password}
user_domain_id = default
project_id = {project}
[keystone_authtoken]
auth_section = orchestrator
www_authenticate_uri = {keystone}
token_cache_time = -1
http_request_max_retries = 0
[api]
port = {port}
[metrics]
port = {metrics}
[engine]
tick = 0.3
claim_timeout = 5
[worker]
lease = {lease}
{more}
"""


class Keystone(ks.Keystone):
    """Delays the calls that a test names until the test releases them; has a role for each grant."""

    def __init__(self):
        self.held = []  # calls that wait, or have waited
        self._hold = None
        self._go = threading.Event()
        super().__init__()

    def hold(self, method, path):
        """Delay only the next call of this kind."""
        self._go.clear()
        self._hold = (method, path)

    def resume(self):
        self._hold = None
        self._go.set()

    def close(self):
        self.resume()
        super().close()

    def _answer(self, method, path, environ):
        if self._hold == (method, path):
            self._hold = None
            self.held.append((method, path))
            self._go.wait(120)
        if "/roles/" in path:
            return 204, {}, []
        return super()._answer(method, path, environ)


class Processes:
    def __init__(
        self, folder, keystone, patience=3, lease=60, default=f"transport_url = {RABBITMQ}", more="", **values
    ):
        self.folder, self.keystone = folder, keystone
        self.port = free_port_base()
        self.metrics = self.port + 4
        self.configuration = folder / "orchestrator.conf"
        self.values = {
            "default": default,
            "exchange": f"cleanup_test_{uuid.uuid4().hex}",
            "patience": patience,
            "folder": folder,
            "keystone": keystone.url,
            "password": PASSWORD,
            "project": ks.OWN_PROJECT,
            "port": self.port,
            "metrics": self.metrics,
            "lease": lease,
            "more": more,
            **values,
        }
        self.configure()
        self.children = Children(folder / "log")
        self.store = storage.Store.from_url(copy_schema(folder / "all.sqlite"))

    def configure(self, **values):
        self.values.update(values)
        self.configuration.write_text(CONFIGURATION.format(**self.values))

    def start(self, part, name=None):
        command = [
            sys.executable,
            "-m",
            "cleanup_orchestrator.cmd.processes",
            part,
            "--config-file",
            str(self.configuration),
        ]
        child = self.children.start(name or part, ["exec", "--", *command], python=sys.executable)

        def there():
            assert child.ended() is None, f"{part} ended ({child.ended()}): {child.log.read_text()}"
            return "monitoring" in child.log.read_text()

        # The monitoring port is what a process opens last, or cannot open: the second worker finds it taken.
        wait(f"{part} is there", there, 180)
        return child

    def close(self):
        self.keystone.resume()
        self.children.stop()
        self.store.close()

    # -- requests to them
    def ask(self, path, port=None, method="GET", body=None, headers=None, timeout=30):
        """Return (status, text, headers) of an answer."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{port or self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"X-Auth-Token": ks.ADMIN, "Content-Type": "application/json", **(headers or {})},
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers

    def up(self, port, path="/"):
        try:
            return self.ask(path, port)[0] < 500
        except (OSError, http.client.HTTPException):
            return False

    # -- what is on record
    def record(self, project_id="p1", **values):
        """Make a record, as the API would; an engine's tick finds it."""
        some_time = self.store.now()
        times = dict.fromkeys(("created_at", "updated_at", "status_at", "progress_at", "wake_at"), some_time)
        deletion = Deletion(
            id=str(uuid.uuid4()),
            project_id=project_id,
            project_name="one",
            domain_id="d1",
            **{"mode": Mode.CASCADE, "dry_run": False, "status": Status.ACCEPTED, **times, **values},
        )
        return self.store.create(deletion, TASKS, Event("deletion.accepted", "test"))

    def change(self, deletion, type_, **data):
        """Record a change that is to be undone."""
        row = {"id": str(uuid.uuid4()), "deletion_id": deletion.id, "sequence": 1, "type": type_, "undone": False}
        with self.store.database.engine.begin() as connection:
            connection.execute(tables.changes.insert(), [{**row, "data": data}])

    def nudge(self, deletion):
        """Make it due at the next tick, and not only after the heartbeat."""
        with self.store.database.engine.begin() as connection:
            mine = tables.deletions.c.id == deletion.id
            connection.execute(tables.deletions.update().where(mine).values(wake_at=deletion.created_at))

    def step(self, deletion, kind):
        with self.store.database.engine.connect() as connection:
            query = sa.select(tables.steps).where(tables.steps.c.owner_id == deletion.id)
            return next(row for row in connection.execute(query) if row.kind == kind)
