"""How soon deletes end after a lien, the brake or a cancel, over four real worker processes that delete at full speed.

The emulated cloud records each write when it answers; these records count. The numbers are printed::

    tox -e py -- -n 0 tests/functional/test_hold_latency.py

``CLEANUP_HOLD_ROUNDS`` is how often the brake is set and each lien recorded (3).
"""

from __future__ import annotations

import time

import pytest

from cleanup_orchestrator.core.deletion import Status
from tests.functional.chaos import Chaos, environment
from tests.support.servers import PostgreSQL, RabbitMQ
from tests.support.timing import wait

#: It measures real time, over a separate database and broker.
pytestmark = [pytest.mark.real, pytest.mark.long]

ROUNDS = environment("CLEANUP_HOLD_ROUNDS", 3)
PROJECTS = 6
#: Seconds without a write after which no more come: a call takes 20 ms, and more on a slow machine.
QUIET = 3.0
#: Seconds after which the test fails on a slow machine; it is no promise.
PATIENCE = 10.0


class Scene:
    """An orchestrator that deletes, and the writes that reach the cloud."""

    def __init__(self, chaos, projects):
        self.chaos, self.projects = chaos, projects
        self.deletions = {project: chaos.request(project, "cascade") for project in projects}

    def now(self):
        return self.chaos.cloud.call("audit.clock")

    def destructive(self, since, *projects):
        """Return when deletes of the projects (of all) were answered; the undo of a cancel deletes only grants."""
        writes = self.chaos.cloud.call("audit.last_writes", since=since)
        return [
            at
            for at, method, target, owner in writes
            if method in ("DELETE", "POST") and "/identity/" not in target and owner in (projects or self.projects)
        ]

    def until_it_deletes(self, *projects):
        """Wait until deletes of the projects reach the cloud, and go on."""
        since = self.now()

        def deletes():
            self.chaos.end_windows(())  # without effect once the windows are over
            return len(self.destructive(since, *projects)) >= 3

        wait("deletes", deletes, 120, 0.1)

    def measure(self, what, act, *projects):
        """Carry out an action that ends deletes.

        Return seconds from the request to the last delete that was answered, and to the answer to the request itself;
        and how many deletes there had been in the second before.
        """
        self.until_it_deletes(*projects)
        began = self.now()
        rate = len(self.destructive(began - 1, *projects))
        act()
        acted = self.now()
        time.sleep(QUIET)
        late = self.destructive(began, *projects)
        last = max(late, default=began)
        assert last - acted < PATIENCE, f"{what}: deletes went on for {last - acted:.1f} s"
        before = len(late)
        time.sleep(1)
        assert len(self.destructive(began, *projects)) == before, f"{what}: and one more came"
        return last - began, acted - began, rate

    def status(self, project):
        return self.chaos.ask("GET", f"/v1/deletions/{self.deletions[project]}")[1]["deletion"]


def test_deletes_end_at_once_on_every_worker(tmp_path, capsys):
    RabbitMQ.need()
    PostgreSQL.need()
    # Enough that a fast machine still deletes when the last of them is cancelled.
    size = ["--projects", str(PROJECTS), "--resources", "2500", "--fences", "--seed", "1"]
    numbers = {"brake": [], "lien": [], "cancel": []}
    with Chaos(tmp_path, PostgreSQL, "fence", *size) as chaos:
        chaos.cloud.call("faults.latency", milliseconds=20, jitter=5)
        scene = Scene(chaos, chaos.cloud.call("projects"))
        first, second = scene.projects[:2]

        def ask(method, path, body=None, expected=(200, 201, 202, 204)):
            status, answer = chaos.ask(method, path, body)
            assert status in expected, (status, answer)
            return answer

        for _ in range(ROUNDS):
            numbers["brake"].append(scene.measure("brake", lambda: ask("POST", "/v1/brake", {"reason": "a test"})))
            held = wait("it says so", lambda: conditions(scene.status(first)).get("on_hold"), 60, 0.5)
            assert held["reason"] == "brake"
            ask("DELETE", "/v1/brake")
        for _ in range(ROUNDS):
            lien = {"project_id": second, "origin": "test", "reason": "a test"}
            made = {}
            act = lambda made=made, lien=lien: made.update(ask("POST", "/v1/liens", lien))  # noqa: E731
            numbers["lien"].append(scene.measure("lien", act, second))
            held = wait("it says so", lambda: conditions(scene.status(second)).get("on_hold"), 60, 0.5)
            assert (held["reason"], made["lien"]["id"] in held["message"]) == ("lien", True)
            ask("DELETE", f"/v1/liens/{made['lien']['id']}")
        for project in (first, second):
            path = f"/v1/deletions/{scene.deletions[project]}/cancel"
            numbers["cancel"].append(scene.measure("cancel", lambda path=path: ask("POST", path, {}), project))
        wait("it is given back", lambda: scene.status(first)["status"] == Status.CANCELLED, 60, 0.5)
        assert not chaos.unexpected
        assert chaos.cloud.call("audit.deleted_while_not_empty") == []
    with capsys.disabled():
        print()
        for what, found in numbers.items():
            print(
                f"{what}: the last delete was answered {shown(n[0] for n in found)} s after the request was sent, "
                f"and the request {shown(n[1] for n in found)} s; deletes in the second before: "
                f"{', '.join(str(n[2]) for n in found)}"
            )


def conditions(deletion):
    return {c["type"]: c for c in deletion["conditions"] if c["status"]}


def shown(values):
    return ", ".join(f"{value:.2f}" for value in values)
