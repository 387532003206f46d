"""Nova: servers in every state that a fake hypervisor can bring about, and what else names the project."""

from __future__ import annotations

import base64
import time
from typing import Any

from tests.cloud.fillings.base import Filled, FillError, Filling, Rest
from tests.cloud.fillings.image import make_image

PATIENCE = 600.0  # seconds for a server to change its state: a small machine may be building a dozen at once


def compute(connection: Any) -> Rest:
    """Nova, with servers without a network (2.37) and server groups with one policy (2.64)."""
    return Rest(connection.compute, {"OpenStack-API-Version": "compute 2.64"})


def await_server(nova: Rest, server_id: str, *statuses: str) -> dict[str, Any]:
    """Wait until a server has one of these states; return it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        # A busy machine's API closes a connection now and then.
        server = nova.call("GET", f"/servers/{server_id}", connect_retries=6)["server"]
        if server["status"] in statuses and server["OS-EXT-STS:task_state"] is None:
            return server
        if server["status"] == "ERROR" or time.monotonic() > deadline:
            raise FillError(f"server {server['name']} is {server['status']}: {server.get('fault')}")
        time.sleep(0.3)


def flavor(nova: Rest) -> str:
    return next(each["id"] for each in nova.call("GET", "/flavors")["flavors"] if each["name"] == "m1.nano")


def make_server(filled: Filled, name: str, beside: dict[str, Any] | None = None, **attributes: Any) -> str:
    """Begin the creation of a server, once; without a network unless one is named.

    `beside` has the hints for the scheduler, next to the server in the body.
    """
    nova = compute(filled.connection)
    listed = nova.call("GET", "/servers", params={"name": f"^{name}$"})["servers"]
    if not listed:
        body = {"name": name, "flavorRef": flavor(nova), "networks": "none", **attributes}
        listed = [nova.call("POST", "/servers", {"server": body, **(beside or {})})["server"]]
    return listed[0]["id"]


def quotas(f: Filling) -> None:
    """One of the project, and one of a user in it."""
    nova = compute(f.admin_connection)
    nova.call("PUT", f"/os-quota-sets/{f.project_id}", {"quota_set": {"key_pairs": 33, "server_groups": 77}})
    path = f"/os-quota-sets/{f.project_id}?user_id={f.filled.user_id}"
    nova.call("PUT", path, {"quota_set": {"server_groups": 55}})
    f.note("compute quota", f.project_id)


def keypair(f: Filling) -> None:
    """A key pair belongs to the user and not to the project."""
    nova = compute(f.filled.connection)
    kind, key = b"ssh-ed25519", bytes(range(32))  # the private key does not exist
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (kind, key))
    public = f"{kind.decode()} {base64.b64encode(blob).decode()} {f.name}"
    body = {"keypair": {"name": f"{f.name} key", "public_key": public}}
    nova.call("POST", "/os-keypairs", body, ok=(409,))  # it exists
    f.note("keypair", f"{f.filled.user_id}/{f.name} key")


def private_flavor(f: Filling) -> None:
    """Made by an administrator, for the project and its partner."""
    nova = compute(f.admin_connection)
    name = f"{f.name}-private"
    known = {each["name"]: each["id"] for each in nova.call("GET", "/flavors?is_public=false")["flavors"]}
    if name not in known:
        body = {"name": name, "ram": 64, "disk": 1, "vcpus": 1, "os-flavor-access:is_public": False}
        known[name] = nova.call("POST", "/flavors", {"flavor": body})["flavor"]["id"]
    for tenant in (f.project_id, f.filled.partner_id):
        path = f"/flavors/{known[name]}/action"
        nova.call("POST", path, {"addTenantAccess": {"tenant": tenant}}, ok=(409,))  # it has it
    f.note("flavor access", known[name])


def aggregate(f: Filling) -> None:
    """An aggregate (without hosts) that an operator has reserved for the project."""
    nova = compute(f.admin_connection)
    known = {each["name"]: each["id"] for each in nova.call("GET", "/os-aggregates")["aggregates"]}
    if (name := f"{f.name}-hosts") not in known:
        aggregate_id = nova.call("POST", "/os-aggregates", {"aggregate": {"name": name}})["aggregate"]["id"]
        metadata = {"filter_tenant_id": f"{f.project_id},{f.filled.partner_id}"}
        nova.call("POST", f"/os-aggregates/{aggregate_id}/action", {"set_metadata": {"metadata": metadata}})
        known[name] = aggregate_id
    f.note("aggregate", str(known[name]))


def server_group(f: Filling) -> None:
    nova = compute(f.filled.connection)
    known = {each["name"]: each["id"] for each in nova.call("GET", "/os-server-groups")["server_groups"]}
    for suffix, policy in (("group", "soft-anti-affinity"), ("empty group", "affinity")):
        if (name := f"{f.name}-{suffix}") not in known:
            body = {"server_group": {"name": name, "policy": policy}}
            known[name] = nova.call("POST", "/os-server-groups", body)["server_group"]["id"]
        f.note("server group", known[name])


def servers(f: Filling) -> None:
    """One server in each state that a request can cause."""
    nova, everything = compute(f.filled.connection), compute(f.admin_connection)
    image = f.note("image", make_image(f.image, f.project_id, f"{f.name}-boot"))
    network = f.network.ensure("networks", "network", {"name": f"{f.name}-servers"}, project_id=f.project_id)
    subnet = {"name": f"{f.name}-servers", "network_id": network, "ip_version": 4, "cidr": "10.11.0.0/24"}
    f.network.ensure("subnets", "subnet", subnet, project_id=f.project_id)
    port = {"name": f"{f.name}-brought-along", "network_id": network}
    port_id = f.note("port", f.network.ensure("ports", "port", port, project_id=f.project_id))
    ways: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("plain", {}, "ACTIVE"),
        ("locked", {"lock": {}}, "ACTIVE"),
        ("stopped", {"os-stop": None}, "SHUTOFF"),
        ("paused", {"pause": None}, "PAUSED"),
        ("suspended", {"suspend": None}, "SUSPENDED"),
        ("shelved", {"shelve": None}, "SHELVED_OFFLOADED"),
        ("resized", {"resize": {"flavorRef": f.first("flavor access")}}, "VERIFY_RESIZE"),
        ("in error", {"os-resetState": {"state": "error"}}, "ERROR"),
    )
    for suffix, _, _ in ways:  # all at once: each takes seconds
        name, more, hints = f"{f.name}-{suffix}", {}, {}
        if suffix == "plain":
            # One port that the user brings, and one that Nova makes.
            more = {"networks": [{"port": port_id}, {"uuid": network}], "metadata": {"colour": "green"}}
            hints = {"os:scheduler_hints": {"group": f.first("server group")}}
        f.note("server", make_server(f.filled, name, hints, imageRef=image, **more))
    for (suffix, action, wanted), server_id in zip(ways, f.filled.ids["server"], strict=False):
        server = nova.call("GET", f"/servers/{server_id}")["server"]
        if server["status"] != wanted:  # not filled in before
            await_server(nova, server_id, "ACTIVE")
        if action and (server["status"] != wanted or suffix == "locked"):
            caller = everything if wanted == "ERROR" else nova
            caller.call("POST", f"/servers/{server_id}/action", action)
    for (_, _, wanted), server_id in zip(ways, f.filled.ids["server"], strict=False):
        if wanted != "ERROR":
            await_server(nova, server_id, wanted)
    nova.call("PUT", f"/servers/{f.first('server')}/tags", {"tags": ["demo", "until-friday"]})


KINDS = (quotas, keypair, private_flavor, aggregate, server_group, servers)
