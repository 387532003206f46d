"""The commands that run the processes: ``cleanup-orchestrator-api`` and the three others."""

from __future__ import annotations

import functools
import sys

from cleanup_orchestrator import service
from cleanup_orchestrator.cmd import schema

#: What each process does, and the parts that it starts, in this order.
PROCESSES = {
    "api": ("Serves the REST API.", "api"),
    "engine": ("Decides what happens next with each deletion.", "engine"),
    "worker": ("Finds and deletes the resources of projects.", "worker"),
    "all_in_one": ("API, engine and worker in one process, without a message broker.", "engine", "worker", "api"),
}


def run(name: str) -> int:
    """Run a process until SIGTERM; return its exit code.

    :param name: a key of :data:`PROCESSES`
    """
    purpose, *parts = PROCESSES[name]
    prog = f"cleanup-orchestrator-{name.replace('_', '-')}"
    description = f"{purpose} Example: {prog} --config-file /etc/cleanup-orchestrator/cleanup-orchestrator.conf"
    return service.main(prog, description, *parts, check=schema.require, in_process=len(parts) > 1)


# The console scripts.
api, engine, worker, all_in_one = (functools.partial(run, name) for name in PROCESSES)

if __name__ == "__main__":
    sys.exit(run(sys.argv.pop(1)))
