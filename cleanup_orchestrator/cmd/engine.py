"""The ``cleanup-orchestrator-engine`` process."""

from __future__ import annotations

import sys

from cleanup_orchestrator import service
from cleanup_orchestrator.cmd import schema


def main() -> int:
    """Run an engine until SIGTERM; return the exit code."""
    description = (
        "Decides what happens next with each deletion. "
        "Example: cleanup-orchestrator-engine --config-file /etc/cleanup-orchestrator/cleanup-orchestrator.conf"
    )
    return service.main("cleanup-orchestrator-engine", description, "engine", check=schema.require)


if __name__ == "__main__":
    sys.exit(main())
