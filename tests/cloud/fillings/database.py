"""Trove: instances, a cluster, backups, strategies, configuration groups, modules and quotas.

No guest agent runs in the servers. So an instance has the status ERROR in the end, and Trove makes no backup of it: the
backups are those that Trove has taken over from an object in Swift.
"""

from __future__ import annotations

import time

from tests.cloud.fillings.base import FillError, Filling, Rest
from tests.cloud.services.trove import DATASTORES, FLAVOR, USAGE_TIMEOUT

SECONDS = USAGE_TIMEOUT + 240
CONTAINER = "database_backups"


def trove(connection) -> Rest:
    """Return a client of Trove."""
    return Rest(connection.database)


def network(f: Filling) -> None:
    """Trove needs a subnet that a router serves."""
    net = f.network.ensure("networks", "network", {"name": f"{f.name}-data"}, project_id=f.project_id)
    body = {"name": f"{f.name}-data", "network_id": net, "ip_version": 4, "cidr": "10.66.0.0/24"}
    subnet = f.network.ensure("subnets", "subnet", body, project_id=f.project_id)
    router = f.network.ensure("routers", "router", {"name": f"{f.name}-data"}, project_id=f.project_id)
    if not f.network.call("GET", "/ports", params={"device_id": router})["ports"]:
        f.network.call("PUT", f"/routers/{router}/add_router_interface", {"subnet_id": subnet})
    f.note("data network", net)


def configurations(f: Filling) -> None:
    rest = trove(f.filled.connection)
    known = {row["name"]: row["id"] for row in rest.call("GET", "/configurations")["configurations"]}
    for name in ("slow", "fast"):
        body = {
            "name": f"{f.name}-{name}",
            "datastore": {"type": "mysql", "version": DATASTORES["mysql"]},
            "values": {"connect_timeout": 17},
        }
        if body["name"] not in known:
            known[body["name"]] = rest.call("POST", "/configurations", {"configuration": body})["configuration"]["id"]
        f.note("configuration", known[body["name"]])


def modules(f: Filling) -> None:
    rest = trove(f.filled.connection)
    known = {row["name"]: row["id"] for row in rest.call("GET", "/modules")["modules"]}
    for name in ("one", "two"):
        name = f"{f.name}-{name}"
        if name not in known:
            body = {"name": name, "module_type": "ping", "contents": "message=pong"}
            known[name] = rest.call("POST", "/modules", {"module": body})["module"]["id"]
        f.note("module", known[name])


def instances(f: Filling) -> None:
    """Instances without a database that runs: one with a configuration group."""
    rest = trove(f.filled.connection)
    known = {row["name"]: row["id"] for row in rest.call("GET", "/instances")["instances"]}
    for name in ("primary", "replica", "single"):
        body = {
            "name": f"{f.name}-{name}",
            "flavorRef": FLAVOR,
            "datastore": {"type": "mysql", "version": DATASTORES["mysql"]},
            "nics": [{"net-id": f.first("data network")}],
        }
        if name == "single":
            body["configuration"] = f.first("configuration")
        if body["name"] not in known:
            known[body["name"]] = rest.call("POST", "/instances", {"instance": body})["instance"]["id"]
        f.note("instance", known[body["name"]])


def cluster(f: Filling) -> None:
    rest = trove(f.filled.connection)
    found = rest.call("GET", "/clusters")["clusters"]
    if not found:
        member = {"flavorRef": FLAVOR, "volume": {"size": 1}, "nics": [{"network_id": f.first("data network")}]}
        body = {
            "name": f"{f.name}-cluster",
            "datastore": {"type": "mariadb", "version": DATASTORES["mariadb"]},
            "instances": [member] * 2,
        }
        found = [rest.call("POST", "/clusters", {"cluster": body})["cluster"]]
    f.note("cluster", found[0]["id"])
    f.note("cluster member", *(row["id"] for row in found[0]["instances"]))


def built(f: Filling) -> None:
    """Wait until Trove has given up the instances. Before that, a member of a cluster has the status ERROR, too."""
    deadline = time.monotonic() + SECONDS
    query = {"project_id": f.project_id, "deleted": "false", "include_clustered": "true"}
    while True:
        rows = trove(f.admin_connection).call("GET", "/mgmt/instances", params=query)["instances"]
        tasks = {row["task_description"] for row in rows}
        if tasks == {"Build error: guestagent timeout."}:
            return
        if time.monotonic() > deadline:
            raise FillError(f"the tasks of the instances are {sorted(tasks)}")
        time.sleep(1)


def backups(f: Filling) -> None:
    """Backups that Trove takes over from objects in Swift."""
    rest = trove(f.filled.connection)
    known = {row["name"]: row["id"] for row in rest.call("GET", "/backups")["backups"]}
    version = next(
        row["id"]
        for row in rest.call("GET", "/datastores/mysql/versions")["versions"]
        if row["name"] == DATASTORES["mysql"]
    )
    f.objects_store.raw("PUT", f"/{CONTAINER}")
    endpoint = f.filled.connection.object_store.get_endpoint()
    for name in ("full", "increment"):
        f.objects_store.raw("PUT", f"/{CONTAINER}/{f.name}-{name}", data=b"data of a database")
        origin = {
            "remote_location": f"{endpoint}/{CONTAINER}/{f.name}-{name}",
            "local_datastore_version_id": version,
            "size": 0.1,
        }
        body = {"name": f"{f.name}-{name}", "restore_from": origin}
        if body["name"] not in known:
            known[body["name"]] = rest.call("POST", "/backups", {"backup": body})["backup"]["id"]
        f.note("backup", known[body["name"]])


def strategies(f: Filling) -> None:
    """One of the project, and one of an instance."""
    rest = trove(f.filled.connection)
    for extra in ({}, {"instance_id": f.first("instance")}):
        rest.call("POST", "/backup_strategies", {"backup_strategy": {"swift_container": CONTAINER, **extra}})
        f.note("backup strategy", extra.get("instance_id", "default"))


def quotas(f: Filling) -> None:
    body = {"quotas": {"instances": 12, "backups": 40}}
    trove(f.admin_connection).call("PUT", f"/mgmt/quotas/{f.project_id}", body)


KINDS = (quotas, network, configurations, modules, instances, cluster, backups, strategies, built)
