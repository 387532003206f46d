"""Force in the light cloud with the `openstack` command: what is deleted, what stays, and what is refused."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cloud import filler
from tests.cloud.fillings.base import Rest
from tests.cloud.forcing import FORCE, PATIENCE, WAIT, Forcing, shipped
from tests.cloud.launcher import Cloud


def blocked_by(*types: str) -> Callable[[dict[str, Any]], bool]:
    """Return whether a deletion is in its deletes, and exactly these types are left."""

    def left(shown: dict[str, Any]) -> bool:
        there = {c["type"] for c in shown["counts"] if c["remaining"]}
        return shown["status"] == "deleting" and there == set(types)

    return left


def make_network(api: Rest, name: str, project_id: str) -> str:
    body = {"network": {"name": name, "project_id": project_id}}
    return str(api.call("POST", "/networks", body)["network"]["id"])


def of_project(row: dict[str, Any]) -> str:
    return str(row["project_id"])


@pytest.fixture(scope="module")
def light(cloud: Cloud) -> Iterator[Forcing]:
    yield from shipped(cloud, FORCE.format(PATIENCE))


def test_resources_in_use_by_another_project_are_abandoned_by_name_and_the_project_is_removed(light, cloud, admin):
    """A port of the neighbour on the project's network must not be deleted, and so the network cannot be deleted."""
    tag = secrets.token_hex(2)
    filled = filler.fill(admin, f"forced-{tag}", only=("image", "key-manager"))
    neighbour = filler.fill(admin, f"neighbour-{tag}", only=())
    project, api = filled.project_id, Rest(admin.network)
    network = make_network(api, "held", project)
    wanted = {"network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24", "project_id": project}
    subnet = api.call("POST", "/subnets", {"subnet": wanted})["subnet"]["id"]
    body = {"port": {"network_id": network, "project_id": neighbour.project_id}}
    port = api.call("POST", "/ports", body)["port"]
    spare = make_network(api, "spare", project)
    reason = "the neighbour does not answer, ticket 4711"

    code, said = light.command("project", "deletion", "force", filled.project_name, "--reason", reason)
    assert (code, "no_deletion_under_way" in said) == (1, True), said
    assert light.command("project", "delete", "--async", "--cascade", filled.project_name)[0] == 0
    shown = light.stuck(filled.project_name, blocked_by("network", "subnet"))
    assert shown["forced"] is None
    # After any number of attempts nothing is abandoned without force.
    light.beyond(PATIENCE, shown["id"])
    assert light.under_way(filled.project_name)["status"] == "deleting"

    arguments = ("--wait", "--wait-timeout", WAIT, "--reason", reason, filled.project_name)
    code, said = light.command("project", "deletion", "force", *arguments)
    assert code == 0, said
    ended = light.ask("project", "deletion", "show", shown["id"])
    assert (ended["status"], ended["reason"]) == ("deleted", "deleted_by_force")
    assert (
        f"by force of admin ({reason}): 2 abandoned: 1 network.network in RegionOne, 1 network.subnet"
        in ended["message"]
    )
    assert (ended["forced"]["abandoned"], ended["forced"]["unseen"]) == (2, [])

    assert cloud.admin.call("GET", "/projects?name=" + filled.project_name)["projects"] == []
    assert of_project(api.call("GET", f"/networks/{network}")["network"]) == project, (
        "abandoned: there, with no project"
    )
    assert api.call("GET", f"/ports/{port['id']}")["port"]["fixed_ips"] == port["fixed_ips"]
    assert api.raw("GET", f"/networks/{spare}", ok=(404,)).status_code == 404, "all else is gone"
    listed = light.ask("project", "deletion", "leftovers", "--abandoned", "--long", shown["id"])
    assert {row["ID"] for row in listed} == {network, subnet}
    assert {(row["Region"], row["Owner"], row["Abandoned"]) for row in listed} == {("RegionOne", project, True)}
    assert all(row["Remedy"].startswith("as an admin") and row["ID"] in row["Remedy"] for row in listed)
    journal = light.ask("project", "deletion", "events", "--long", shown["id"])
    kinds = [row["Type"] for row in journal]
    assert kinds.index("deletion.forced") < kinds.index("force.abandoned") < kinds.index("resource.abandoned")
    after = kinds[kinds.index("resource.abandoned") :]
    assert after.count("inventory.empty") >= 2 and after[-1] == "deletion.deleted"
    named = [each["id"] for row in journal if row["Type"] == "resource.abandoned" for each in row["Data"]["resources"]]
    assert sorted(named) == sorted([network, subnet])
    for path in (f"/ports/{port['id']}", f"/networks/{network}"):
        api.call("DELETE", path)
