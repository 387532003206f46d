"""Zun: registries, containers, a capsule and a quota. There is no host: containers and capsules end in an error."""

from __future__ import annotations

from typing import Any

from tests.cloud.fillings.base import Filling, Rest, client


def zun(connection: Any) -> Rest:
    """Return a client of Zun."""
    return client(connection, "application-container", **{"OpenStack-API-Version": "container 1.40"})


def rows(rest: Rest, collection: str) -> dict[str, str]:
    """Return the ids of what the project has of a collection, by name."""
    return {row["name"]: row["uuid"] for row in rest.call("GET", f"/{collection}")[collection]}


def make(f: Filling, kind: str, collection: str, name: str, body: dict[str, Any], ok: tuple[int, ...] = ()) -> str:
    """Return the id of a new object, or of that with the same name."""
    rest = zun(f.filled.connection)
    if name not in rows(rest, collection):
        rest.call("POST", f"/{collection}", body, ok=ok)
    return f.note(kind, rows(rest, collection)[name])


def network(f: Filling) -> None:
    """Zun refuses a container without a network before it has stored it."""
    network_id = f.network.ensure("networks", "network", {"name": f"{f.name}-zun"}, project_id=f.project_id)
    subnet = {"name": f"{f.name}-zun", "network_id": network_id, "ip_version": 4, "cidr": "172.22.0.0/24"}
    f.network.ensure("subnets", "subnet", subnet, project_id=f.project_id)


def registries(f: Filling) -> None:
    """One that a container uses, and one that none uses."""
    for suffix in ("used", "spare"):
        name = f"{f.name}-{suffix}"
        body = {"name": name, "domain": "registry.example.org", "username": "user", "password": "secret"}
        make(f, "registry", "registries", name, {"registry": body})


def containers(f: Filling) -> None:
    """Zun answers 500, as it finds no host, and stores them."""
    for suffix, more in (("pulled", {"registry": f.first("registry")}), ("plain", {})):
        name = f"{f.name}-{suffix}"
        make(f, "container", "containers", name, {"name": name, "image": "cirros", **more}, ok=(500,))


def capsule(f: Filling) -> None:
    """With two containers."""
    name = f"{f.name}-capsule"
    spec = {"containers": [{"image": "cirros", "name": "one"}, {"image": "cirros", "name": "two"}]}
    template = {"kind": "capsule", "capsuleVersion": "beta", "metadata": {"name": name}, "spec": spec}
    make(f, "capsule", "capsules", name, {"template": template}, ok=(500,))


def quota(f: Filling) -> None:
    zun(f.admin_connection).call("PUT", f"/quotas/{f.project_id}", {"containers": 30})
    f.note("container quota", f.project_id)


KINDS = (network, registries, containers, capsule, quota)
