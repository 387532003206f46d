"""A service whose answers have no end, from end to end: its part is unknown, and everything else goes on."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.step import Outcome
from tests.emulated.orchestrator import OPTIONS, Orchestrator
from tests.support import hostile
from tests.support.emulated_site import LEAN
from tests.support.timing import wait

pytestmark = pytest.mark.slow

LONG = 120
REGION = "RegionOne"
IMAGE = "image.image"
CLOUD = {**LEAN, "things": {IMAGE: 3}}
TYPE = "key-manager"  #: of a service that nothing waits for
ROOT = pathlib.Path(__file__).parents[2]
#: The worker reads three lists of the service at once, each up to 256 MiB.
MOST = 1200  #: MB; measured 900 after, and 3900 before there were limits


@contextlib.contextmanager
def hostile_service(emulated, type_, answer):
    """Let the catalog name a server in place of a service that gives this answer to every request."""
    [service] = [row for row in emulated.state.table("", "identity.service").rows.values() if row.get("type") == type_]
    endpoints = emulated.state.table("", "identity.endpoint")
    with hostile.serving({"*": answer}) as (url, seen):
        for row in [row for row in endpoints.rows.values() if row.get("service_id") == service.id]:
            endpoints.change(row, {"url": url})
        yield seen


def test_the_other_parts_of_a_deletion_go_on(emulated, tmp_path):
    [project] = emulated.projects
    options = {**OPTIONS["orchestrator"], "answer_limit": 8, "answer_timeout": 5}
    bomb = hostile.bomb(100)
    answers = [
        lambda: hostile.whole(bomb, "Content-Encoding: gzip"),
        lambda: hostile.slowly(hostile.HEAD + b"\r\n", b" "),
        lambda: hostile.whole(b"[" * 100_000),
    ]

    def answer():
        answers.append(answers.pop(0))
        return answers[-1]()

    images = emulated.state.table(REGION, IMAGE).owned
    with (
        hostile_service(emulated, TYPE, answer) as seen,
        Orchestrator(emulated, tmp_path, orchestrator=options) as made,
    ):
        id_ = made.request(project)
        wait("the images are gone", lambda: not images.get(project), LONG)
        wait("each answer was given", lambda: len(seen) > 6, LONG)
        theirs = [step for step in made.store.steps(id_) if step.service == TYPE and step.finished_at]
        assert {step.outcome for step in theirs} == {Outcome.UNKNOWN}, "never clear"
        assert {step.reason for step in theirs} <= {"bad_answer", "unreachable"}
        assert made.store.get(id_).status is Status.DELETING
    assert emulated.identity.projects[project].enabled


def test_the_memory_of_a_worker_is_limited(emulated, tmp_path):
    [project] = emulated.projects
    bomb = hostile.bomb(300)
    with hostile_service(emulated, "image", lambda: hostile.whole(bomb, "Content-Encoding: gzip")) as seen:
        command = [sys.executable, "-m", "tests.support.worker_memory", str(tmp_path), emulated.auth_url, project]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    [(status, kilobytes)] = [line.split() for line in done.stdout.splitlines() if line.startswith("plan")]
    assert status == Status.PLANNED
    assert len(seen) >= 3
    assert int(kilobytes) / 1000 < MOST
