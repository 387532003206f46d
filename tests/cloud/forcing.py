"""The orchestrator as it is shipped, with a short wait before force, and the commands of an admin."""

from __future__ import annotations

import json
import pathlib
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.cloud import demo
from tests.cloud.job import Job, configuration
from tests.cloud.launcher import Cloud
from tests.support.timing import wait

#: Seconds. In the light cloud only resources that can never be deleted are left when force begins. In the whole cloud
#: services need time for forced deletes, and slow deletes must not be abandoned.
PATIENCE, WHOLE_PATIENCE = 10, 60
FORCE = """
[force]
attempts = 2
patience = {}
"""
WAIT = "900"


class Forcing(demo.Demo):
    """The orchestrator as it is shipped, and the commands of an admin."""

    def command(self, *arguments: str) -> tuple[int, str]:
        """Run `openstack`; return its exit code and output."""
        code, out, err = self._run(arguments, stdout=-1, stderr=-1)
        return code, out + err

    def under_way(self, project: str) -> dict[str, Any]:
        """Return the one live deletion of the project."""
        (found,) = self.ask("project", "deletion", "list", "--status", "live", "--project", project)
        return self.ask("project", "deletion", "show", found["ID"])

    def beyond(self, patience: float, deletion_id: str) -> None:
        """Wait for longer than the patience of force, until workers have begun steps of the deletion again."""

        def begun() -> int:
            with sqlite3.connect(self.home / "cleanup-orchestrator.sqlite", timeout=30) as database:
                rows = database.execute("SELECT sum(fencing_token) FROM steps WHERE owner_id = ?", (deletion_id,))
                ((number,),) = rows.fetchall()
            database.close()
            return int(number)

        before = begun()
        time.sleep(patience + 1)
        wait("steps are tried again", lambda: begun() >= before + 2, 300, 0.2)

    def without_workers(self) -> None:
        """Run the API alone, on a bus that no worker listens to, until `start_orchestrator` is called again."""
        self.cloud.children.end("orchestrator-out")
        configuration = self.home / "api-alone.conf"
        configuration.touch(mode=0o600)
        text = (self.home / "cleanup-orchestrator.conf").read_text()
        configuration.write_text(text.replace("[DEFAULT]\n", "[DEFAULT]\ntransport_url = fake://\n", 1))
        program = str(pathlib.Path(sys.executable).parent / "cleanup-orchestrator-api")
        arguments = ["exec", "--", program, "--config-file", str(configuration)]
        self.cloud.children.start("orchestrator-out", arguments, python=sys.executable)
        wait("the API answers", self._answers, 120, 0.2)

    def stuck(self, project: str, until: Callable[[dict[str, Any]], bool], seconds: float = 600) -> dict[str, Any]:
        """Wait until the deletion of the project makes no more progress; return it."""
        deadline = time.monotonic() + seconds
        while not until(shown := self.under_way(project)):
            assert time.monotonic() < deadline, json.dumps(shown, indent=1)
            time.sleep(2)
        return shown


def shipped(cloud: Cloud, more: str) -> Iterator[Forcing]:
    """Run the orchestrator in the light cloud, with more configuration; stop it after the last test of the module."""
    made = Forcing(cloud, demo.CONFIGURATION.replace("driver = fence", "driver = revoke") + more)
    made.start_orchestrator()
    yield made
    made.stop()
    cloud.children.end("orchestrator-out")
    for entry in cloud.admin.call("GET", "/services?type=project-cleanup")["services"]:
        cloud.admin.call("DELETE", f"/services/{entry['id']}")


class WholeForcing(Job, Forcing):
    """The same in the cloud of thirteen services."""


def in_the_whole_cloud(cloud: Cloud) -> Iterator[WholeForcing]:
    """The same orchestrator, running."""
    made = WholeForcing(cloud)
    made.configuration = configuration(["placement", "project-cleanup"]) + FORCE.format(WHOLE_PATIENCE)
    made.start_orchestrator()
    yield made
    made.stop()
