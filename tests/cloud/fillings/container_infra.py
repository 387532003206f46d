"""Magnum: cluster templates, clusters in every state, and a quota. The driver is tests/cloud/magnum_driver.py."""

from __future__ import annotations

import time
from typing import Any

from tests.cloud.fillings.base import FillError, Filling, Rest
from tests.cloud.magnum_driver import DISTRO

SECONDS = 600


def magnum(f: Filling, *, admin: bool = False) -> Rest:
    connection = f.admin_connection if admin else f.filled.connection
    return Rest(connection.container_infrastructure_management)


def quota(f: Filling) -> None:
    body = {"project_id": f.project_id, "resource": "Cluster", "hard_limit": 10}
    magnum(f, admin=True).call("POST", "/quotas", body, ok=(409,))
    f.note("cluster quota", f.project_id)


def needs(f: Filling) -> None:
    """The resources that a template names: an image of the project, a flavor and an external network of the cloud."""
    found = f.image.call("GET", "/images", params={"name": f"{f.name}-nodes"})["images"]
    body = {"name": f"{f.name}-nodes", "disk_format": "raw", "container_format": "bare", "os_distro": DISTRO}
    image = (found or [f.image.call("POST", "/images", body)])[0]["id"]
    f.image.raw(
        "PUT", f"/images/{image}/file", ok=(409,), data=b"nodes", headers={"Content-Type": "application/octet-stream"}
    )
    f.note("node image", image)
    compute = Rest(f.admin_connection.compute)
    flavor = {"name": "cleanup-node", "id": "cleanup-node", "ram": 64, "vcpus": 1, "disk": 1}
    compute.call("POST", "/flavors", {"flavor": flavor}, ok=(409,))
    body = {"name": "cleanup-outside", "router:external": True, "project_id": f.admin_connection.current_project_id}
    f.note("outside", f.network_admin.ensure("networks", "network", body))


def template(f: Filling, suffix: str, *, admin: bool = False, **attributes: Any) -> str:
    name = f"{f.name}-{suffix}"
    known = magnum(f).call("GET", "/clustertemplates", params={"limit": 1000})["clustertemplates"]
    found = next((row["uuid"] for row in known if row["name"] == name), None)
    if found is None:
        body = {
            "name": name,
            "coe": "kubernetes",
            "image_id": f.first("node image"),
            "flavor_id": "cleanup-node",
            "master_flavor_id": "cleanup-node",
            "external_network_id": f.first("outside"),
            **attributes,
        }
        found = magnum(f).call("POST", "/clustertemplates", body)["uuid"]
    return f.note("cluster template", found)


def templates(f: Filling) -> None:
    template(f, "private")
    template(f, "unused", labels={"made": "by-hand"})
    public = template(f, "public")
    publish(f, public)
    f.note("public cluster template", public)


def publish(f: Filling, template_id: str) -> None:
    """Only an admin with a token of the project may do it: Magnum finds no quota for others."""
    from tests.cloud.filler import connect

    args = f.admin_connection.config.get_auth_args()
    admin = f.identity_admin.call("GET", "/roles", params={"name": "admin"})["roles"][0]["id"]
    grant = f"/projects/{f.project_id}/users/{f.admin_connection.current_user_id}/roles/{admin}"
    f.identity_admin.call("PUT", grant)
    with connect(args["auth_url"], args["username"], args["password"], f.name) as inside:
        patch = [{"op": "replace", "path": "/public", "value": True}]
        Rest(inside.container_infrastructure_management).call("PATCH", f"/clustertemplates/{template_id}", patch)
    f.identity_admin.call("DELETE", grant)


def clusters(f: Filling) -> None:
    """One that works, one whose creation failed, and one whose delete fails."""
    known = {row["name"]: row["uuid"] for row in ask(magnum(f), "/clusters")["clusters"]}
    for suffix, labels in (
        ("works", {"team": "web"}),
        ("broken", {"cleanup_create": "fail"}),
        ("stubborn", {"cleanup_delete": "once"}),
    ):
        name = f"{f.name}-{suffix}"
        if name not in known:
            body = {"name": name, "cluster_template_id": f.first("cluster template"), "labels": labels}
            body |= {"master_count": 1, "node_count": 1}
            known[name] = magnum(f).call("POST", "/clusters", body)["uuid"]
        f.note("cluster", known[name])
    wait(f, "works", "CREATE_COMPLETE")
    wait(f, "broken", "CREATE_FAILED")
    if wait(f, "stubborn", "CREATE_COMPLETE", "DELETE_FAILED") == "CREATE_COMPLETE":
        magnum(f).call("DELETE", f"/clusters/{f.first('cluster', 2)}")
        wait(f, "stubborn", "DELETE_FAILED", but_not="CREATE_COMPLETE")
    f.note("failed cluster", f.first("cluster", 2))


def ask(api: Rest, path: str, **how: Any) -> dict[str, Any]:
    """Send a GET. Magnum answers 400 before a new cluster has its node groups."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return api.call("GET", path, **how)
        except FillError as error:
            if "master_count" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.5)


def wait(f: Filling, suffix: str, *wanted: str, but_not: str = "") -> str:
    deadline = time.monotonic() + SECONDS
    while True:
        rows = ask(magnum(f), "/clusters")["clusters"]
        status = next((row["status"] for row in rows if row["name"] == f"{f.name}-{suffix}"), "GONE")
        if status in wanted:
            return status
        on_its_way = status.endswith("IN_PROGRESS") or status in ("GONE", but_not)
        if not on_its_way or time.monotonic() > deadline:
            raise FillError(f"the cluster {f.name}-{suffix} is {status}")
        time.sleep(0.5)


KINDS = (quota, needs, templates, clusters)
