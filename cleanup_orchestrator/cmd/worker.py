"""The ``cleanup-orchestrator-worker`` process."""

from __future__ import annotations

import sys

from cleanup_orchestrator import service
from cleanup_orchestrator.cmd import schema


def main() -> int:
    """Run a worker until SIGTERM; return the exit code."""
    description = (
        "Finds and deletes the resources of projects. "
        "Example: cleanup-orchestrator-worker --config-file /etc/cleanup-orchestrator/cleanup-orchestrator.conf"
    )
    return service.main("cleanup-orchestrator-worker", description, "worker", check=schema.require)


if __name__ == "__main__":
    sys.exit(main())
