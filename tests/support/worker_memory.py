"""A process with an engine and a worker that makes dry runs and tells how its memory grew.

``python -m tests.support.worker_memory FOLDER AUTH_URL PROJECT...`` prints a line for each project: the status in which
its dry run ended, and the greatest resident memory of the process so far, in kilobytes.
"""

from __future__ import annotations

import pathlib
import resource
import sys
import types

from tests.emulated.orchestrator import Orchestrator


def main(folder: str, auth_url: str, *projects: str) -> None:
    """Make one dry run after the other."""
    cloud = types.SimpleNamespace(auth_url=auth_url)
    with Orchestrator(cloud, pathlib.Path(folder)) as made:  # type: ignore[arg-type]
        for project in projects:
            id_ = made.request(project, dry_run=True)
            [status] = made.wait([id_]).values()
            print(status, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
