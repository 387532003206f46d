"""Ironic: nodes that a project leases or owns, its allocations, and a runbook. An admin makes the nodes."""

from __future__ import annotations

import time
from typing import Any

import openstack
from openstack.connection import Connection

from tests.cloud.fillings.base import FillError, Filling, Rest

RUNBOOK = [{"interface": "bios", "step": "apply_configuration", "args": {}, "order": 1}]


def ironic(connection: Any) -> Rest:
    """Return a client of Ironic."""
    return Rest(connection.baremetal, {"X-OpenStack-Ironic-API-Version": "1.109"})


def operator(admin: Connection) -> Connection:
    """Return a connection of the administrator with a token of the system."""
    known = admin.config.get_auth_args()
    auth = {name: known[name] for name in ("auth_url", "username", "password", "user_domain_id")}
    return openstack.connect(
        load_yaml_config=False, load_envvars=False, auth={**auth, "system_scope": "all"}, region_name="RegionOne"
    )


def until(what: str, ready: Any) -> Any:
    """Return the first true answer of a function."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if answer := ready():
            return answer
        time.sleep(0.2)
    raise FillError(f"no {what}")


def provision(rest: Rest, node: str, target: str, state: str) -> None:
    rest.call("PUT", f"/nodes/{node}/states/provision", {"target": target})
    until(f"node in {state}", lambda: rest.call("GET", f"/nodes/{node}")["provision_state"] == state)


def make_node(admin: Connection, name: str, **attributes: Any) -> str:
    """Return a node that can be allocated; make it if there is none of the name."""
    rest = ironic(operator(admin))
    until("conductor", lambda: rest.call("GET", "/drivers")["drivers"])
    if found := rest.call("GET", f"/nodes/{name}", ok={404}):
        return found["uuid"]
    body = {"driver": "fake-hardware", "name": name, "resource_class": "metal", **attributes}
    node = rest.call("POST", "/nodes", body)["uuid"]
    provision(rest, node, "manage", "manageable")
    provision(rest, node, "provide", "available")
    rest.call("PUT", f"/nodes/{node}/states/power", {"target": "power off"})  # one in an unknown state is not allocated
    until("power", lambda: rest.call("GET", f"/nodes/{node}")["power_state"] == "power off")
    return node


def allocate(connection: Connection, name: str, node: str, **attributes: Any) -> str:
    """Return an allocation of the connection's project, once Ironic has looked for a node."""
    rest = ironic(connection)
    if not rest.call("GET", f"/allocations/{name}", ok={404}):
        body = {"name": name, "resource_class": "metal", "candidate_nodes": [node], **attributes}
        rest.call("POST", "/allocations", body)

    def done() -> Any:
        row = rest.call("GET", f"/allocations/{name}")
        return row if row["state"] != "allocating" else None

    return until("allocation", done)["uuid"]


def deploy(admin: Connection, node: str) -> None:
    rest = ironic(operator(admin))
    if rest.call("GET", f"/nodes/{node}")["provision_state"] == "available":
        provision(rest, node, "active", "active")


def leases(f: Filling) -> None:
    """Of three nodes: one without anything on it, one with an allocation, and one with a deployed instance."""
    free, allocated, deployed = (
        f.note("lease", make_node(f.admin_connection, f"{f.name}-{suffix}", lessee=f.project_id))
        for suffix in ("free", "allocated", "deployed")
    )
    f.note("free node", free)
    f.note("allocation", allocate(f.filled.connection, f"{f.name}-waiting", allocated))
    f.note("allocation", allocate(f.filled.connection, f"{f.name}-running", deployed))
    deploy(f.admin_connection, deployed)
    f.note("instance", deployed)


def failed_allocation(f: Filling) -> None:
    """It has no node, as there is none of the class."""
    attributes = {"resource_class": "none", "candidate_nodes": []}
    f.note("allocation", allocate(f.filled.connection, f"{f.name}-failed", "", **attributes))


def owned_nodes(f: Filling) -> None:
    """The second one is a child of the first one. Lists leave child nodes out by default."""
    parent = make_node(f.admin_connection, f"{f.name}-parent", owner=f.project_id)
    child = make_node(f.admin_connection, f"{f.name}-child", owner=f.project_id, parent_node=parent)
    f.note("node", parent, child)


def runbook(f: Filling) -> None:
    name = f"CUSTOM_{f.name.upper().replace('-', '_')}"
    rest = ironic(operator(f.admin_connection))
    found = rest.call("GET", f"/runbooks/{name}", ok={404})
    body = {"name": name, "owner": f.project_id, "steps": RUNBOOK}
    f.note("runbook", (found or rest.call("POST", "/runbooks", body))["uuid"])


KINDS = (leases, failed_allocation, owned_nodes, runbook)
