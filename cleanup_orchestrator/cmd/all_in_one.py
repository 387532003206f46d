"""The ``cleanup-orchestrator-all-in-one`` process.

It runs the API, an engine and a worker over the in-process bus.
"""

from __future__ import annotations

import sys

from cleanup_orchestrator import service
from cleanup_orchestrator.cmd import schema


def main() -> int:
    """Run all parts in one process until SIGTERM; return the exit code."""
    description = (
        "API, engine and worker in one process, without a message broker. "
        "Example: cleanup-orchestrator-all-in-one --config-file /etc/cleanup-orchestrator/cleanup-orchestrator.conf"
    )
    return service.main(
        "cleanup-orchestrator-all-in-one",
        description,
        "engine",
        "worker",
        "api",
        check=schema.require,
        in_process=True,
    )


if __name__ == "__main__":
    sys.exit(main())
