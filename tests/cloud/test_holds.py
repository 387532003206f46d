"""Liens, the brake and approvals on the real services, by commands of an admin: a project on hold keeps everything."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import pytest

from tests.cloud import filler
from tests.cloud.forcing import Forcing, shipped
from tests.cloud.launcher import Cloud
from tests.cloud.proof import left

APPROVAL = """
[approval]
resources = 1
"""


@pytest.fixture
def orchestrator(cloud: Cloud) -> Iterator[Forcing]:
    """An orchestrator that needs an approval for more than one resource."""
    yield from shipped(cloud, APPROVAL)


def test_a_lien_refuses_the_brake_holds_and_an_approval_is_needed(orchestrator, cloud, admin):
    filled = filler.fill(admin, f"held-{secrets.token_hex(2)}", only=("image", "key-manager"))
    name, before = filled.project_name, left(cloud, filled.project_id)

    def kept() -> bool:
        """Return its rows outside Keystone, where the orchestrator takes a role for the inventory also on hold."""
        now = left(cloud, filled.project_id)
        return {what: now.get(what) for what in before if "keystone" not in what} == {
            what: number for what, number in before.items() if "keystone" not in what
        }

    def run(*arguments: str, code: int = 0) -> str:
        ended, said = orchestrator.command("project", *arguments)
        assert ended == code, said
        return said

    run("deletion", "lien", "create", name, "--origin", "billing", "--reason", "the last invoice is open")
    said = run("delete", "--async", "--cascade", name, code=1)
    assert "billing" in said and "the last invoice is open" in said
    (lien,) = orchestrator.ask("project", "deletion", "lien", "list", "--project", name)
    assert left(cloud, filled.project_id) == before

    run("deletion", "brake", "set", "--reason", "the storage misbehaves")
    run("deletion", "lien", "delete", lien["ID"])
    run("delete", "--async", "--cascade", name)
    deadline = time.monotonic() + 600

    def held():
        return [c for c in orchestrator.under_way(name)["conditions"] if c["type"] == "on_hold" and c["status"]]

    while not held():
        assert time.monotonic() < deadline, orchestrator.under_way(name)
        time.sleep(1)
    time.sleep(3)  # a sample: with the brake on there is no event that a test could wait for
    shown = orchestrator.under_way(name)
    assert "the storage misbehaves" in held()[0]["message"]
    assert kept()

    run("deletion", "brake", "lift")
    deadline = time.monotonic() + 600
    while orchestrator.under_way(name)["status"] != "recoverable":
        assert time.monotonic() < deadline, orchestrator.under_way(name)
        time.sleep(2)
    waiting = orchestrator.ask("project", "deletion", "list", "--attention")
    assert shown["id"] in [row["ID"] for row in waiting]
    assert kept()
    said = run("deletion", "approve", "--reason", "it is mine as well", shown["id"], code=1)
    assert "approve" in said, "who asked for it is no second person"

    run("deletion", "restore", shown["id"])
    while orchestrator.ask("project", "deletion", "show", shown["id"])["status"] != "cancelled":
        assert time.monotonic() < deadline
        time.sleep(2)
    assert left(cloud, filled.project_id) == before
