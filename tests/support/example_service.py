"""Starts the example service of the manual (``doc/examples/service``) as a process, for tests with a real Keystone."""

from __future__ import annotations

import configparser
import dataclasses
import pathlib
import socket
import sys
import time
from typing import Self

from tests.cloud.errors import CloudError
from tests.cloud.processes import HOST, Child, Children, last_line

FOLDER = pathlib.Path(__file__).parents[2] / "doc" / "examples" / "service"
SERVICE_TYPE = "widget-store"
#: Seconds within which the service has to answer.
PATIENCE = 60.0


@dataclasses.dataclass
class ExampleService:
    """A running widget store."""

    port: int
    keystone_url: str  #: with ``/v3``
    folder: pathlib.Path  #: for its database, configuration and log
    username: str  #: a user of the project ``service`` in the domain ``default``, who may validate tokens
    password: str
    cancel_seconds: float = 1.0  #: for which the delete of an order takes

    def __post_init__(self) -> None:
        self._children = Children(self.folder)
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """The URL for the catalog."""
        return f"http://{HOST}:{self.port}"

    @property
    def database(self) -> pathlib.Path:
        """The SQLite file with all resources."""
        return self.folder / "widgets.sqlite"

    @property
    def log(self) -> pathlib.Path:
        """What the service printed."""
        return self.folder / "example-service.log"

    def start(self) -> Self:
        """Start the service, also after :meth:`stop` with the same data; return when it listens.

        :raises CloudError: if it ended, or did not listen in time
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "widgets.conf"
        self._write(configuration)
        command = [sys.executable, "-m", "waitress", f"--listen={HOST}:{self.port}", "wsgi:application"]
        path = ":".join(map(str, (FOLDER, FOLDER.parents[2])))
        environment = {"WIDGETS_CONFIGURATION": str(configuration), "PYTHONPATH": path}
        self._children.reset()
        self._child = self._children.start(
            "example-service",
            ["exec", "--", *command],
            python=sys.executable,
            environment=environment,
            cwd=self.folder,
            log=self.log,
        )
        deadline = time.monotonic() + PATIENCE
        while not self._listens():
            if (how := self._child.ended()) or time.monotonic() > deadline:
                self.stop()
                raise CloudError(f"the example service: {how or 'no answer'}: {last_line(self.log)}; see {self.log}")
            time.sleep(0.1)
        return self

    def stop(self) -> None:
        """Stop the service."""
        self._children.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    def _write(self, path: pathlib.Path) -> None:
        """Write the sample configuration with the values of this service."""
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(FOLDER / "widgets.conf")
        parser["widgets"].update(database=str(self.database), cancel_seconds=str(self.cancel_seconds))
        parser["keystone_authtoken"].update(
            auth_url=self.keystone_url,
            www_authenticate_uri=self.keystone_url,
            username=self.username,
            password=self.password,
            interface="public",
        )
        with path.open("w") as file:
            parser.write(file)
