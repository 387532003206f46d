"""The emulated cloud as a separate process.

    python -m tests.emulated.server --port N --seed S [--projects P] [--resources R] ... [--parent PID]

It prints one line when it answers, and ends with its parent. `Process` starts it and sends requests to it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import threading
import urllib.request
from typing import Any

from tests.cloud.processes import SPAWNER
from tests.cloud.serve import die_with
from tests.emulated.cloud import Emulated

ROOT = pathlib.Path(__file__).parents[2]


def main() -> int:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--projects", type=int, default=1)
    parser.add_argument("--bystanders", type=int, default=1)
    parser.add_argument("--resources", type=int, default=0, help="at least so many in each project")
    parser.add_argument("--small", action="store_true", help="little in each project, and no plugins in Neutron")
    parser.add_argument("--region", action="append", help="may be given more than once")
    parser.add_argument("--fences", action="store_true", help="Keystone has the orchestrator's part in it")
    parser.add_argument("--servers", type=int, help="with a Nova, and so many servers in each project")
    parser.add_argument("--without", action="append", help="a service that there is not; may be given more than once")
    parser.add_argument("--parent", type=int, default=os.getppid(), help="process id; ends when that ends")
    options = parser.parse_args()
    die_with(options.parent)
    cloud = Emulated(
        options.projects,
        bystanders=options.bystanders,
        resources=options.resources,
        seed=options.seed,
        regions=tuple(options.region or ("RegionOne",)),
        fences=options.fences,
        small=options.small,
        plugged=not options.small,
        port=options.port,
        servers=options.servers,
        without=tuple(options.without or ()),
    )
    print(f"the emulated cloud answers at {cloud.auth_url}", flush=True)
    threading.Event().wait()
    return 0


class Process:
    """An emulated cloud in another process, for as long as this one lives.

    `call` calls a method of `Emulated` there: `call("faults.errors", rate=0.1)`, `call("audit.foreign_writes")`.
    """

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.emulated.server", "--parent", str(os.getpid()), *arguments]
        self._popen = SPAWNER.call(lambda: subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        line = self._popen.stdout.readline()
        if "answers at" not in line:
            raise RuntimeError(f"the emulated cloud did not start: exit code {self._popen.wait()}")
        self.auth_url = line.rsplit(maxsplit=1)[-1]
        self.url = self.auth_url.removesuffix("/identity/v3")

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return int(self._popen.pid)

    def close(self) -> None:
        """Kill it: it has nothing to save."""
        self._popen.kill()
        self._popen.wait()
        self._popen.stdout.close()

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Call one of the methods that `Emulated.control` knows.

        :raises urllib.error.HTTPError: 400 for a call that is wrong
        """
        body = json.dumps({"call": name, "with": arguments}).encode()
        with urllib.request.urlopen(f"{self.url}/emulated", body, timeout=60) as answer:
            return json.load(answer)["answer"]


if __name__ == "__main__":
    sys.exit(main())
