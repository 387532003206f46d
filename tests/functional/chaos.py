"""The parts of a chaos run: servers to kill, an emulated cloud with faults, the shipped commands as processes.

The run itself, and what must hold after it, is in ``test_chaos``.
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import kombu
import sqlalchemy.exc

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.transitions import LIVE
from tests.cloud.processes import Child, Children, last_line
from tests.emulated.cloud import OWN_PROJECT, USER
from tests.emulated.server import Process
from tests.support import ports
from tests.support.servers import PORTS, MariaDB, PostgreSQL, RabbitMQ
from tests.support.timing import wait

#: Seconds after which a wait for one event fails the test. It is no limit for the duration of the event.
PATIENCE = 300.0

#: How calls fail. Few answers ask to slow down: after each of them all workers pause that service for a second.
FAULTS = {"error": 5, "unavailable": 5, "reset": 5, "lost": 5, "truncated": 5, "throttled": 0.5}

CONFIGURATION = """
[DEFAULT]
transport_url = {broker}
control_exchange = chaos
graceful_stop_timeout = 20
[database]
connection = {database}
[orchestrator]
auth_type = v3password
auth_url = {keystone}
username = {user}
password = {user}
user_domain_id = default
project_name = {project}
project_domain_id = default
interface = public
call_timeout = 10
[keystone_authtoken]
auth_section = orchestrator
www_authenticate_uri = {keystone}
interface = public
[api]
port = {port}
[drain]
driver = {driver}
token_cache_time = 1
[engine]
tick = 1
claim_timeout = 5
stall_after = {stall_after}
retry_base = 0.2
retry_cap = 3
[worker]
lease = {lease}
[deletion]
recovery_window = 1
recovery_stop_servers = true
[protection]
lien_types = image.image
[force]
attempts = 2
patience = 5
[orphans]
min_age = 0
reread_after = 1
[limits]
calls_per_second = default:2000
calls_at_once = default:64
deletes_per_second = default:1000
[service_image]
delete_shared_images = true
"""


@dataclass
class Part:
    """One process of the orchestrator, over all its restarts."""

    name: str  #: ``worker-2``
    command: str  #: ``worker``
    number: int
    metrics: int  #: the monitoring port, which every part has
    lives: list[Child] = field(default_factory=list)
    last: dict[str, float] = field(default_factory=dict)  #: its counters since the last start, as last read
    before: collections.Counter[str] = field(default_factory=collections.Counter)  #: its counters before the last start

    @property
    def child(self) -> Child:
        return self.lives[-1]

    @property
    def counted(self) -> collections.Counter[str]:
        return self.before + collections.Counter(self.last)


class Chaos:
    """A cloud, its orchestrator, and the methods that kill and restart the processes."""

    LEASE = 6
    STALL_AFTER = 20

    def __init__(
        self,
        folder: pathlib.Path,
        database: type[MariaDB | PostgreSQL],
        driver: str,
        *cloud: str,
        engines: int = 2,
        workers: int = 4,
    ) -> None:
        self.folder = folder
        self.children = Children(folder / "log")
        self.broker = RabbitMQ(folder / "rabbitmq")
        self.database = database(folder / database.name)
        self.cloud = Process(*cloud)
        base = ports.reserve(PORTS, 10)
        self.port, self._shared = base, folder / "orchestrator.conf"
        commands = ["api", *["engine"] * engines, *["worker"] * workers]
        self.parts = {}
        for number, command in enumerate(commands):
            name = f"{command}-{commands[: number + 1].count(command)}"
            self.parts[name] = Part(name, command, number, base + 1 + number)
        self.driver = driver
        self.parallel_deletes = 4
        self.answers: collections.Counter[str] = collections.Counter()  #: of the API, by operation and status
        self.unexpected: list[str] = []  #: processes that ended by themselves, and answers that must never occur
        self.marks: list[tuple[float, str]] = []  #: kills and restarts with their times
        self.taken_away = 0  #: steps that a process had claimed when it was killed
        self.drowned = 0  #: messages in the broker when it was stopped
        self._token = ""
        self._began = time.monotonic()

    def __enter__(self) -> Chaos:
        try:
            self._up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _up(self) -> None:
        from cleanup_orchestrator.cmd import manage

        self.broker.start()
        self.database.start()
        url = self.database.create("orchestrator")
        manage.upgrade(url)
        self._shared.write_text(
            CONFIGURATION.format(
                broker=self.broker.url, database=url, keystone=self.cloud.auth_url, user=USER, project=OWN_PROJECT,
                port=self.port, driver=self.driver, stall_after=self.STALL_AFTER, lease=self.LEASE,
            )
        )  # fmt: skip
        self.configure()
        for part in self.parts.values():
            self.launch(part.name)
        for part in self.parts.values():
            self.there(part.name)
        self._began = time.monotonic()

    def close(self) -> None:
        """Remove all but the logs."""
        self.children.stop()
        self.broker.close()
        self.database.close()
        self.cloud.close()

    # -- processes
    def configure(self) -> None:
        """Write the second file of each process: its own monitoring port, and what a SIGHUP is to bring."""
        offsets = {"api": 0, "engine": 1, "worker": 2}
        for part in self.parts.values():
            text = f"[metrics]\nport = {part.metrics - offsets[part.command]}\n"
            (self.folder / f"{part.name}.conf").write_text(
                f"{text}[worker]\nparallel_deletes = {self.parallel_deletes}\n"
            )

    def launch(self, name: str) -> None:
        """Start a process."""
        part = self.parts[name]
        part.before += collections.Counter(part.last)
        part.last = {}
        files = ["--config-file", str(self._shared), "--config-file", str(self.folder / f"{name}.conf")]
        command = [sys.executable, "-m", "cleanup_orchestrator.cmd.processes", part.command, *files]
        log = self.folder / "log" / f"{name}.log"
        part.lives.append(self.children.start(name, ["exec", "--", *command], python=sys.executable, log=log))

    def there(self, name: str) -> None:
        """Wait until a process answers on its monitoring port, which it opens last."""
        part = self.parts[name]

        def answers() -> bool:
            assert part.child.ended() is None, f"{name} ended ({part.child.ended()}): {part.child.log}"
            return bool(self._get(part.metrics, "/healthcheck"))

        wait(f"{name} is there", answers, PATIENCE)

    def begin_again(self, name: str) -> None:
        """Start a process that has ended; one that cannot start yet is started again, as systemd would."""

        def begun() -> bool:
            self.launch(name)
            part = self.parts[name]
            up = lambda: self._get(part.metrics, "/healthcheck") or part.child.ended()  # noqa: E731
            wait(f"{name} is there or gone", up, PATIENCE)
            if how := part.child.ended():
                self.mark(f"{name} did not start ({how}): {last_line(part.child.log)}")
            return how is None

        wait(f"{name} is up again", begun, PATIENCE, 1)

    def kill(self, name: str, at_work: bool = False) -> None:
        """Kill a process and start it again; `at_work`: repeat until it had a claimed step when it was killed."""
        while True:
            if at_work:
                self.busy(name)
            self.scrape()
            self.parts[name].child.signal(signal.SIGKILL)
            self.parts[name].child.popen.wait()
            held = self.holding(name) if at_work else []
            self.taken_away += len(held)
            self.begin_again(name)
            if held or not at_work:
                return

    def end(self, name: str) -> int:
        """Stop a process with SIGTERM and start it again; return the exit code."""
        self.scrape()
        child = self.parts[name].child
        child.popen.send_signal(signal.SIGTERM)
        code = child.popen.wait(PATIENCE)
        self.begin_again(name)
        return code

    def _get(self, port: int, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.read().decode() or "-"
        except urllib.error.HTTPError as error:
            return str(error.code)
        except (OSError, http.client.HTTPException):
            return ""

    def note_ended_processes(self) -> None:
        """Record the processes that ended by themselves."""
        for part in self.parts.values():
            if how := part.child.ended():
                self.unexpected.append(f"{part.name} ended by itself: {how}")
                self.begin_again(part.name)

    # -- what they count
    NAMES = re.compile(
        r"^cleanup_orchestrator_(steps|lease_takeovers|conflicts|casts_failed|calls)_total(\{[^}]*\})? (\S+)$", re.M
    )

    def scrape(self) -> None:
        """Read the counters of each process that answers."""
        for part in self.parts.values():
            found: dict[str, float] = collections.defaultdict(float)
            for name, labels, value in self.NAMES.findall(self._get(part.metrics, "/metrics")):
                found[name] += float(value)
                if "dropped" in labels or "released" in labels:
                    found["dropped" if "dropped" in labels else "released"] += float(value)
            if found:
                part.last = {**found, f"cpu of {part.command}": cpu(part.child.popen.pid)}

    def seconds(self) -> dict[str, float]:
        """Return the CPU time of the cloud and the servers; of the servers only since their last start."""
        pids = {"cloud": self.cloud.pid, self.broker.name: self.broker.pid, self.database.name: self.database.pid}
        return {name: cpu(pid) for name, pid in pids.items()}

    def counted(self) -> collections.Counter[str]:
        """Return all counters of all processes over all their restarts."""
        self.scrape()
        found: collections.Counter[str] = collections.Counter()
        for part in self.parts.values():
            found.update(part.counted)
        return found

    # -- what is on record
    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Query the database; wait for one that is down."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.database.sql(statement, "orchestrator")
            except sqlalchemy.exc.SQLAlchemyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def latest(self) -> dict[str, tuple[str, Status, list[dict[str, Any]]]]:
        """The latest deletion of each project: its id, its status and its conditions."""
        rows = self.sql("SELECT project_id, id, status, conditions FROM deletions ORDER BY created_at")
        return {
            project: (id_, Status(status), json.loads(found) if isinstance(found, str | bytes) else found)
            for project, id_, status, found in rows
        }

    def statuses(self) -> dict[str, Status]:
        """The status of the latest deletion of each project."""
        return {project: status for project, (_, status, _) in self.latest().items()}

    def deletion_of(self, project: str) -> str:
        """The id of the latest deletion of a project."""
        return self.latest()[project][0]

    def having(self, type_: str) -> dict[str, str]:
        """The projects whose latest deletion is live and has a condition, with its message."""
        return {
            project: condition["message"]
            for project, (_, status, conditions) in self.latest().items()
            for condition in conditions
            if status in LIVE and condition["type"] == type_ and condition["status"]
        }

    def blocked(self) -> dict[str, str]:
        """What blocks live deletions that need a person, by project."""
        return self.having("blocked")

    def end_windows(self, kept_resources: Iterable[str]) -> None:
        """Let the recovery windows of all projects but these be over.

        The test decides when a window ends, and no clock: each window is a day long, and ends here.
        """
        names = ", ".join(f"'{project}'" for project in (*kept_resources, "-"))
        past = "'2000-01-01 00:00:00'"
        self.sql(
            f"UPDATE deletions SET point_of_no_return_at = {past}, wake_at = {past}, version = version + 1 "
            f"WHERE status = 'recoverable' AND point_of_no_return_at > {past} AND project_id NOT IN ({names})"
        )

    def holding(self, name: str) -> list[str]:
        """Return the ids of the steps that a worker has claimed."""
        pid = self.parts[name].child.popen.pid
        return [id_ for (id_,) in self.sql(f"SELECT id FROM steps WHERE state = 'running' AND worker LIKE '%%:{pid}'")]

    def busy(self, name: str) -> list[str]:
        """Wait until a worker has claimed steps; return their ids."""
        return wait(f"{name} has work", lambda: self.holding(name), PATIENCE)

    # -- what users do
    def token(self) -> str:
        """Return a token of the orchestrator's user, who is an admin. Keystone fails now and then, too."""
        scope = {"project": {"name": OWN_PROJECT, "domain": {"id": "default"}}}
        who = {"name": USER, "domain": {"id": "default"}, "password": USER}
        identity = {"methods": ["password"], "password": {"user": who}}
        body = json.dumps({"auth": {"identity": identity, "scope": scope}}).encode()

        def asked() -> str | None:
            request = urllib.request.Request(f"{self.cloud.auth_url}/auth/tokens", body)
            request.add_header("Content-Type", "application/json")
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    token: str | None = answer.headers["X-Subject-Token"]
                    return token
            except (OSError, http.client.HTTPException):
                return None

        self._token = self._token or wait("a token", asked, PATIENCE)
        return self._token

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send one request to the API; return (0, None) without an answer."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", None if body is None else json.dumps(body).encode(), method=method
        )
        request.add_header("X-Auth-Token", self.token())
        request.add_header("Content-Type", "application/json")
        status, text = 0, "{}"
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        except (OSError, http.client.HTTPException):
            pass
        verb = method if method == "GET" else f"{method} {path.rsplit('/', 1)[1]}"
        self.answers[f"{verb}: {status or 'no answer'}"] += 1
        if status not in (0, 200, 201, 202, 204, 409, 503):
            self.unexpected.append(f"{method} {path}: {status} {text[:300]}")
        return status, json.loads(text or "{}")

    def insist(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Repeat a request until the answer is not a request to try again."""

        def asked() -> tuple[int, Any] | None:
            status, answer = self.ask(method, path, body)
            busy = status == 409 and answer["errors"][0]["code"] == "conflict"
            return None if status in (0, 503) or busy else (status, answer)

        return wait(f"{method} {path}", asked, PATIENCE, 0.5)

    def request(self, project_id: str, mode: str, **more: Any) -> str:
        """Ask for a deletion, and return its id."""
        status, answer = self.insist("POST", "/v1/deletions", {"project_id": project_id, "mode": mode, **more})
        assert status == 202, f"{status} {answer}"
        return str(answer["deletion"]["id"])

    # -- what is done to them
    def mark(self, what: str) -> None:
        """Record an action."""
        self.marks.append((round(time.monotonic() - self._began, 1), what))

    def drown(self) -> int:
        """Return how many messages in the broker have not been delivered to a process."""
        count = 0
        with contextlib.suppress(Exception), kombu.Connection(self.broker.url.replace("rabbit", "amqp", 1)) as wire:
            for part in ("engine", "worker"):
                with contextlib.suppress(Exception):
                    count += wire.channel().queue_declare(f"chaos.{part}", passive=True).message_count
        return count

    def away(self, server: RabbitMQ | MariaDB | PostgreSQL, kill: bool, seconds: float) -> None:
        """Stop a server for a while."""
        self.scrape()
        if server is self.broker:
            self.drowned += self.drown()
        server.kill() if kill else server.stop()
        time.sleep(seconds)
        server.start()


def cpu(pid: int) -> float:
    """Return the seconds of CPU time of a process and of its children that have ended and been waited for."""
    try:
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return round(sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK"), 1)


def background(target: Callable[[], None]) -> tuple[threading.Thread, list[BaseException]]:
    """Run a function in a thread beside the test; its error is raised in the test."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            target()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, raised


def environment(name: str, default: int) -> int:
    """A number from the environment."""
    return int(os.environ.get(name) or default)
