"""RabbitMQ, MariaDB and PostgreSQL servers that one test uses alone and may kill.

Each server runs in a new directory, on a free port of loopback, as the user who runs the test (PostgreSQL refuses root
and runs as the user postgres instead). It ends when the process that started it ends. The programs are those of the
machine; the configuration of the machine is not read. Without the programs `need` skips the test with the reason; where
the variable CI is set it fails the test.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy import exc

from tests.cloud.errors import CloudError
from tests.cloud.processes import HOST, Child, Children, last_line
from tests.support import ports

#: Below what the kernel gives to clients: a port must still be free when its server comes back. The other ports of
#: clouds are not used either: 15000 to 15199 (the demo, the whole cloud of `.ci/run`) and 20000 to 30000.
PORTS = range(15200, 19900, 10)
#: Seconds within which a server has to answer, or to stop. Machines of CI are slow, and so is recovery.
PATIENCE = 180.0


def _found(name: str, *folders: str) -> str:
    """Return the path of a program, or "". `folders` (patterns) come before PATH, the newest version first."""
    for folder in folders:
        root = pathlib.Path(folder.split("*")[0])
        pattern = folder[len(str(root)) :].lstrip("/")
        places = root.glob(pattern) if pattern else [root]
        for place in sorted(places, key=lambda p: [int(n) for n in p.parts if n.isdigit()], reverse=True):
            if os.access(place / name, os.X_OK):
                return str(place / name)
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin") or ""


class Server:
    """A server that can be started, stopped, killed, and started again with the same data on the same port."""

    name: str
    #: The signal for an orderly stop that disconnects every client.
    STOP = signal.SIGTERM

    def __init__(self, directory: pathlib.Path | str) -> None:
        self.directory = pathlib.Path(directory)
        self.port = ports.reserve(PORTS, self._ports())
        self._children = Children(self.directory / "log")
        self._child: Child | None = None
        self._made = False

    # -- what each of them says about itself
    @classmethod
    def missing(cls) -> str:
        """Which program it lacks here; "" if none."""
        raise NotImplementedError

    def _ports(self) -> int:
        return 1

    def _make(self) -> None:
        """Once: make its configuration and its empty data."""

    def _command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return the command, and what its environment has besides that of this process."""
        raise NotImplementedError

    def _answers(self) -> bool:
        raise NotImplementedError

    # -- what a test asks for
    @classmethod
    def available(cls) -> bool:
        """Return whether the server can be started on this machine."""
        return not cls.missing()

    @classmethod
    def need(cls) -> None:
        """Skip the test if the server is missing. Where CI is set, fail it: CI must not skip a test silently."""
        import pytest

        if why := cls.missing():
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no {cls.name} of the test's own: {why} is missing")

    @property
    def pid(self) -> int:
        """The process to send signals to."""
        assert self._child is not None, f"{self.name} is not running"
        return self._child.popen.pid

    @property
    def log(self) -> pathlib.Path:
        """Return what the server printed since its first start."""
        return self.directory / "log" / f"{self.name}.log"

    def start(self) -> Self:
        """Start the server and wait until it answers.

        :raises CloudError: it ended, or did not answer in time
        """
        assert self._child is None, f"{self.name} is running"
        if why := self.missing():
            raise CloudError(f"{self.name} cannot be started: {why} is missing")
        if not self._made:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._make()
            self._made = True
        deadline = time.monotonic() + PATIENCE
        while not self._started(deadline):
            time.sleep(0.5)
        return self

    def _started(self, deadline: float) -> bool:
        """Wait until the server answers; return False if it ended at once and can be started again, as after a kill."""
        command, environment = self._command()
        child = self._children.start(
            self.name, ["exec", "--", *command], python=sys.executable, environment=environment, log=self.log
        )
        while not self._answers():
            if (how := child.ended()) or time.monotonic() > deadline:
                child.signal(signal.SIGKILL)
                child.popen.wait()
                if how and self._again(child) and time.monotonic() < deadline:
                    return False
                raise CloudError(f"{self.name}: {how or 'no answer'}: {last_line(child.log)}; see {child.log}")
            time.sleep(0.1)
        self._child = child
        return True

    def _again(self, child: Child) -> bool:
        return False

    def stop(self) -> None:
        """Stop the server in order, if it runs."""
        if self._child is None:
            return
        self._child.popen.send_signal(self.STOP)
        try:
            self._child.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise CloudError(f"{self.name} did not stop within {PATIENCE:g} s; see {self.log}") from None
        self._child = None

    def kill(self) -> None:
        """Kill the server: it writes nothing more and does not tell its clients."""
        if self._child is None:
            return
        others = _descendants(self._child.popen.pid)
        self._child.signal(signal.SIGKILL)
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._child.popen.wait()
        self._child = None

    def restart(self, kill: bool = False) -> None:
        """Stop or kill the server and start it again with its data."""
        self.kill() if kill else self.stop()
        self.start()

    def close(self) -> None:
        """End the server and all processes that it started; its directory stays."""
        self.kill()
        self._children.stop()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()


def _descendants(pid: int) -> list[int]:
    """Return the descendants of a process that are still below it."""
    try:
        tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        children = [int(word) for task in tasks for word in (task / "children").read_text().split()]
    except OSError:
        return []
    return [one for child in children for one in (child, *_descendants(child))]


class RabbitMQ(Server):
    """A RabbitMQ of one node, with a separate port mapper and cookie."""

    name = "rabbitmq"

    @staticmethod
    def _programs() -> dict[str, str]:
        return {
            # Not the wrapper script of the distribution: it requires a certain user and directory.
            "rabbitmq-server": _found(
                "rabbitmq-server", "/usr/lib/rabbitmq/bin", "/usr/lib/rabbitmq/lib/*/sbin", "/opt/rabbitmq/sbin"
            ),
            "epmd": _found("epmd", "/usr/lib/erlang/erts-*/bin"),
        }

    @classmethod
    def missing(cls) -> str:
        return next((name for name, path in cls._programs().items() if not path), "")

    def _ports(self) -> int:
        return 3  # AMQP, between nodes, the port mapper

    @property
    def url(self) -> str:
        """The value of ``transport_url``."""
        return f"rabbit://guest:guest@{HOST}:{self.port}/"

    def _make(self) -> None:
        (self.directory / "home").mkdir()
        (self.directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.local = {HOST}:{self.port}\n"
            "log.console = true\nlog.console.level = info\nlog.file = false\n"
            "disk_free_limit.absolute = 10MB\n"  # a test on a nearly full disk is still a test
        )
        (self.directory / "enabled_plugins").write_text("[].\n")
        # If the node found no port mapper, it would start one as a daemon, which would never be stopped.
        self._children.start(
            "epmd",
            ["exec", "--", self._programs()["epmd"], "-port", str(self.port + 2), "-address", HOST],
            python=sys.executable,
        )

    def _command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        folder = str(self.directory)
        return [self._programs()["rabbitmq-server"]], {
            "HOME": f"{folder}/home",
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{folder}/advanced.config",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/rabbitmq-env.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_GENERATED_CONFIG_DIR": f"{folder}/generated",
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_DIST_PORT": str(self.port + 1),
            "ERL_EPMD_PORT": str(self.port + 2),
            "ERL_EPMD_ADDRESS": HOST,
            # The child process is the node itself, not a shell around it.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none -noinput -kernel inet_dist_use_interface "
            "{127,0,0,1}",
        }

    def _answers(self) -> bool:
        """Return whether the server speaks AMQP: it opens this port last."""
        try:
            with socket.create_connection((HOST, self.port), timeout=5) as wire:
                wire.settimeout(5)
                wire.sendall(b"AMQP\x00\x00\x09\x01")
                return wire.recv(1) == b"\x01"  # a method frame: connection.start
        except OSError:
            return False


class Database(Server):
    """The common part of the two database servers."""

    #: The database for statements that concern no database, such as CREATE DATABASE.
    ADMINISTRATION: str

    def url(self, database: str) -> str:
        """The value of ``[database] connection``."""
        raise NotImplementedError

    def sql(self, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Execute one statement, commit it, and return its rows."""
        with self._engine(database or self.ADMINISTRATION).connect() as connection:
            result = connection.exec_driver_sql(statement)
            return [tuple(row) for row in result] if result.returns_rows else []

    def create(self, database: str) -> str:
        """Create an empty database and return its URL."""
        self.sql(f"CREATE DATABASE {database}{self._charset()}")
        return self.url(database)

    def _charset(self) -> str:
        return ""

    def _engine(self, database: str) -> sa.Engine:
        return sa.create_engine(
            self.url(database),
            poolclass=sa.NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={"connect_timeout": 5},
        )

    def _answers(self) -> bool:
        try:
            return self.sql("SELECT 1") == [(1,)]
        except exc.SQLAlchemyError:
            return False


class MariaDB(Database):
    """A MariaDB whose user root has no password."""

    name = "mariadb"
    ADMINISTRATION = "mysql"

    @staticmethod
    def _programs() -> dict[str, str]:
        return {
            "mariadbd": _found("mariadbd") or _found("mysqld"),
            "mariadb-install-db": _found("mariadb-install-db") or _found("mysql_install_db"),
        }

    @classmethod
    def missing(cls) -> str:
        return next((name for name, path in cls._programs().items() if not path), "")

    def url(self, database: str) -> str:
        return f"mysql+pymysql://root@{HOST}:{self.port}/{database}"

    def _charset(self) -> str:
        return " CHARACTER SET utf8mb4"

    def _user(self) -> list[str]:
        return ["--user=root"] if os.geteuid() == 0 else []

    def _make(self) -> None:
        (self.directory / "tmp").mkdir()
        self._children.run(
            f"{self.name}-install",
            [
                self._programs()["mariadb-install-db"],
                "--no-defaults",
                f"--datadir={self.directory / 'data'}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                *self._user(),
            ],
        )

    def _command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        return [
            self._programs()["mariadbd"],
            "--no-defaults",
            f"--datadir={self.directory / 'data'}",
            f"--tmpdir={self.directory / 'tmp'}",
            f"--bind-address={HOST}",
            f"--port={self.port}",
            # A relative path in the data directory: an absolute one may exceed the 107 characters of a socket.
            "--socket=mariadb.sock",
            f"--pid-file={self.directory / 'pid'}",
            "--skip-name-resolve",
            "--max-connections=500",
            # The kernel has what is committed: a kill loses nothing, and no commit waits for the disk.
            "--innodb-flush-log-at-trx-commit=2",
            *self._user(),
        ], {}


class PostgreSQL(Database):
    """A PostgreSQL that needs no password on loopback."""

    name = "postgresql"
    ADMINISTRATION = "postgres"
    #: "Fast shutdown": disconnects every client and writes what is committed. SIGTERM would wait for the clients.
    STOP = signal.SIGINT
    #: The user that it runs as if the test runs as root.
    USER = "postgres"

    @staticmethod
    def _programs() -> dict[str, str]:
        folders = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")
        found = {name: _found(name, *folders) for name in ("postgres", "initdb")}
        return found | ({"setpriv": _found("setpriv")} if os.geteuid() == 0 else {})

    @classmethod
    def missing(cls) -> str:
        if os.geteuid() == 0:
            try:
                pwd.getpwnam(cls.USER)
            except KeyError:
                return f"the user {cls.USER}"
        return next((name for name, path in cls._programs().items() if not path), "")

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://{self.USER}@{HOST}:{self.port}/{database}"

    def _as_user(self) -> list[str]:
        if os.geteuid() != 0:
            return []
        # The server has to pass the folders of root above its directory. The kernel clears a process's parent death
        # signal when its user changes, so setpriv sets it again.
        caps = "+dac_override,+dac_read_search"
        who = [f"--reuid={self.USER}", f"--regid={self.USER}", "--init-groups"]
        return [self._programs()["setpriv"], *who, f"--inh-caps={caps}", f"--ambient-caps={caps}", "--pdeathsig=KILL"]

    def _make(self) -> None:
        data = self.directory / "data"
        data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            user = pwd.getpwnam(self.USER)
            os.chown(data, user.pw_uid, user.pw_gid)
        self._children.run(
            f"{self.name}-initdb",
            [
                *self._as_user(),
                self._programs()["initdb"],
                *("-D", str(data), "-U", self.USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"),
            ],
        )

    def _command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        settings = {
            "listen_addresses": HOST,
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 500,
            # The kernel has what is committed: a kill loses nothing, and no commit waits for the disk.
            "fsync": "off",
        }
        given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [*self._as_user(), self._programs()["postgres"], "-D", str(self.directory / "data"), *given], {}

    def _again(self, child: Child) -> bool:
        """Return whether the start failed because a process of the killed server still ran."""
        return "shared memory block" in child.log.read_text(errors="replace").splitlines()[-2]
