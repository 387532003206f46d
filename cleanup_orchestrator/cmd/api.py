"""The ``cleanup-orchestrator-api`` process."""

from __future__ import annotations

import sys

from cleanup_orchestrator import service
from cleanup_orchestrator.cmd import schema


def main() -> int:
    """Run the API until SIGTERM; return the exit code."""
    description = (
        "Serves the REST API. "
        "Example: cleanup-orchestrator-api --config-file /etc/cleanup-orchestrator/cleanup-orchestrator.conf"
    )
    return service.main("cleanup-orchestrator-api", description, "api", check=schema.require)


if __name__ == "__main__":
    sys.exit(main())
