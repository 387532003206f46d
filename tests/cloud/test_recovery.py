"""The recovery window on a real Nova: running servers are stopped, locked ones too, and exactly they run afterwards."""

from __future__ import annotations

import pathlib
import secrets
from collections.abc import Iterator

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.drain import base as drain
from tests.cloud import filler
from tests.cloud.fillings.base import Rest
from tests.cloud.fillings.compute import await_server, compute, make_server
from tests.cloud.fillings.image import make_image
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import Orchestrator

WINDOW = """
[deletion]
recovery_window = 1
recovery_stop_servers = true
"""
#: The change of each server before the request of the deletion.
SERVERS = {"plain": None, "locked": {"lock": {}}, "stopped": {"os-stop": None}, "paused": {"pause": None}}
AFTERWARDS = {"plain": "ACTIVE", "locked": "ACTIVE", "stopped": "SHUTOFF", "paused": "PAUSED"}


@pytest.fixture
def orchestrator(full_cloud: Cloud, tmp_path: pathlib.Path) -> Iterator[Orchestrator]:
    made = Orchestrator(full_cloud, tmp_path, WINDOW)
    yield made
    made.running.close()


@pytest.fixture
def projects_with_servers(full_admin) -> Iterator[list[tuple[filler.Filled, dict[str, str]]]]:
    """Two projects with the same servers; the fixture deletes them at the end, without the orchestrator."""
    nova, made = compute(full_admin), []
    for which in ("recovered", "neighbour"):
        name = f"{which}-{secrets.token_hex(2)}"
        filled = filler.make_project(full_admin, name, password=None, partner=None)
        filled.note("image", make_image(Rest(filled.connection.image), filled.project_id, name))
        ids = {suffix: make_server(filled, f"{name}-{suffix}", imageRef=filled.first("image")) for suffix in SERVERS}
        made.append((filled, ids))
    for filled, ids in made:
        for suffix, action in SERVERS.items():
            await_server(nova, ids[suffix], "ACTIVE")
            if action:
                compute(filled.connection).call("POST", f"/servers/{ids[suffix]}/action", action)
        for suffix, status in AFTERWARDS.items():
            await_server(nova, ids[suffix], status)
    yield made
    identity, images = Rest(full_admin.identity), Rest(full_admin.image)
    for filled, ids in made:
        for id_ in ids.values():
            nova.call("POST", f"/servers/{id_}/action", {"forceDelete": None}, ok=(404, 409))
        images.call("DELETE", f"/images/{filled.first('image')}", ok=(404, 409))
        identity.call("DELETE", f"/projects/{filled.project_id}", ok=(404,))


def test_servers_rest_with_their_project_and_a_restore_starts_those_that_ran(
    full_admin, orchestrator, projects_with_servers
):
    nova = compute(full_admin)
    status = lambda ids: {k: nova.call("GET", f"/servers/{i}")["server"]["status"] for k, i in ids.items()}  # noqa: E731
    (filled, ids), (_, neighbours) = projects_with_servers

    deletion_id = orchestrator.request(filled.project_id, Mode.CASCADE)
    halted = lambda r: any(c.type == "halted" and c.status for c in r.conditions)  # noqa: E731
    record = orchestrator.wait(deletion_id, until=halted, seconds=600)
    assert record.status is Status.RECOVERABLE
    assert status(ids) == {**AFTERWARDS, "plain": "SHUTOFF", "locked": "SHUTOFF"}
    assert status(neighbours) == AFTERWARDS
    written = [c for c in orchestrator.store.changes(deletion_id) if c.type == drain.RESOURCE_STOPPED]
    assert {change.data["id"] for change in written} == {ids["plain"], ids["locked"]}

    orchestrator.cancel(deletion_id)
    orchestrator.wait(deletion_id, Status.CANCELLED, seconds=600)
    for suffix in ("plain", "locked"):
        await_server(nova, ids[suffix], "ACTIVE")
    assert status(ids) == status(neighbours) == AFTERWARDS
    assert not orchestrator.store.get(deletion_id).has_changes
