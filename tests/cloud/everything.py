"""Two projects with all types that the thirteen services have: one to delete, and one that nothing may change.

`test_everything.py` deletes the first one. `test_everything_unchanged.py` only asks for lists of it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import pytest

from tests.cloud import filler
from tests.cloud.fillings.base import Filled
from tests.cloud.job import Job, uncovered
from tests.cloud.launcher import Cloud

PROJECT = f"everything-{secrets.token_hex(2)}"  # a cloud that still runs may have the orchestrator of an earlier test
BYSTANDER = f"{PROJECT}-bystander"


@pytest.fixture(scope="module")
def job(full_cloud: Cloud) -> Iterator[Job]:
    """The orchestrator, running."""
    made = Job(full_cloud)
    made.start_orchestrator()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def filled_projects(job: Job, full_cloud: Cloud, full_admin) -> tuple[Filled, Filled]:
    """The project to delete, and its bystander with the same types; both share resources with each other."""
    began = time.monotonic()
    # Fillings of services without a plugin wait for it.
    covered = set(filler.SERVICES) - set(uncovered(full_cloud))
    filled = filler.fill(full_admin, PROJECT, only=covered, objects=20)
    bystander = filler.bystander(full_admin, BYSTANDER, filled, only=covered)
    took, things = time.monotonic() - began, sum(map(len, filled.ids.values()))
    print(f"\nboth projects are filled after {took:.0f} s: {things} things each")
    return filled, bystander
