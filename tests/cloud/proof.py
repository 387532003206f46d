"""Checks whether a project has anything left, without code of the package.

`counts` reads the lists of each service. `proof` reads the databases and the backends of Swift. It also works when the
project is gone and no token for it can be issued.
"""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import openstack
import openstack.connection

from tests.cloud.fillings.base import Rest

# Neutron's collections, and the extension without which there is no such thing.
NETWORK_COLLECTIONS = (
    ("networks", ""),
    ("subnets", ""),
    ("ports", ""),
    ("routers", "router"),
    ("floatingips", "router"),
    ("address-groups", "address-group"),
    ("address-scopes", "address-scope"),
    ("subnetpools", "subnet_allocation"),
    ("qos/policies", "qos"),
    ("trunks", "trunk"),
    ("rbac-policies", "rbac-policies"),
    ("metering/metering-labels", "metering"),
    ("local-ips", "local_ip"),
    ("ndp_proxies", "l3-ndp-proxy"),
    ("log/logs", "logging"),
    ("security-groups-default-statefulness", "security-groups-default-statefulness"),
)

Line = tuple[str, str, str, int]

# (service, table, what, SQL condition on the project's id). Rows that a service keeps as history are not the project's
# any more: those are left out by the condition.
NETWORK_TABLES = (
    "networks", "subnets", "ports", "routers", "floatingips", "securitygroups", "securitygrouprules", "address_groups",
    "address_scopes", "subnetpools", "qos_policies", "trunks", "meteringlabels", "local_ips", "ndp_proxies", "logs",
    "network_segment_ranges", "auto_allocated_topologies", "security_groups_default_statefulness", "quotas",
)  # fmt: skip
#: Tables that older releases lack, with the first release that has them.
NEWER = {"security_groups_default_statefulness": "2026.2"}
RBAC_TABLES = (
    "networkrbacs", "qospolicyrbacs", "securitygrouprbacs", "subnetpoolrbacs", "addressgrouprbacs", "addressscoperbacs",
)  # fmt: skip
CHECKS = (
    *(("neutron", table, table, "project_id = :id") for table in NETWORK_TABLES),
    *(("neutron", table, f"{table} (granted by it or to it)", "project_id = :id OR target_project = :id")
      for table in RBAC_TABLES),
    ("glance", "images", "images", "owner = :id AND deleted = 0"),
    ("glance", "image_members", "memberships of images", "member = :id AND deleted = 0"),
    ("glance", "metadef_namespaces", "metadef namespaces", "owner = :id"),
    *(("barbican", table, table,
       "deleted = 0 AND project_id IN (SELECT id FROM projects WHERE external_id = :id)")
      for table in ("secrets", "containers", "orders", "project_quotas")),
    ("keystone", "project", "the project itself", "id = :id"),
    ("keystone", "assignment", "role assignments", "target_id = :id"),
    ("keystone", "application_credential", "application credentials", "project_id = :id"),
    ("keystone", "credential", "EC2 and other credentials", "project_id = :id"),
    ("keystone", "trust", "trusts", "project_id = :id AND deleted_at IS NULL"),
    ("keystone", "limit", "limits", "project_id = :id"),
    ("keystone", "project_endpoint", "endpoint associations", "project_id = :id"),
    ("keystone", "project_tag", "tags", "project_id = :id"),
)  # fmt: skip


def pages(rest: Rest, path: str, key: str, **query: Any) -> Iterator[dict[str, Any]]:
    """All items of one of Glance's lists, which come in pages."""
    marker: dict[str, str] = {}
    while True:
        items = rest.call("GET", path, params={**query, **marker, "limit": 200})[key]
        yield from items
        if not items:
            return
        marker = {"marker": items[-1].get("id") or items[-1]["namespace"]}


def counts(
    admin_connection: openstack.connection.Connection,
    project_id: str,
    scoped_connection: openstack.connection.Connection | None = None,
) -> dict[str, int]:
    """Return the resources of the project in the lists of each service.

    Swift needs `scoped_connection`: a user of the project, or one with the role ResellerAdmin (the cloud's `auditor`).
    Barbican needs a user of the project. What cannot be seen is not in the answer.
    """
    result = network_counts(Rest(admin_connection.network), project_id)
    result |= image_counts(Rest(admin_connection.image), project_id)
    result |= identity_counts(Rest(admin_connection.identity), project_id)
    if scoped_connection is not None:
        result |= {name: len(found) for name, found in swift_contents(scoped_connection, project_id).items()}
        if scoped_connection.current_project_id == project_id:
            result |= secret_counts(Rest(scoped_connection.key_manager))
    quotas = Rest(admin_connection.key_manager).call("GET", f"/project-quotas/{project_id}", ok=(404,))
    return result | {"key-manager project-quotas": int("project_quotas" in quotas)}


def network_counts(rest: Rest, project_id: str) -> dict[str, int]:
    if not project_id:
        raise ValueError("an empty project id matches what belongs to Neutron itself")
    present = {extension["alias"] for extension in rest.call("GET", "/extensions")["extensions"]}
    result = {}
    for collection, extension in NETWORK_COLLECTIONS:
        if extension and extension not in present:
            continue
        # NDP proxies cannot be filtered by project (400): all are listed, and matched here.
        query = {} if collection == "ndp_proxies" else {"project_id": project_id}
        found = next(iter(rest.call("GET", f"/{collection}", params=query).values()))
        result[f"network {collection}"] = sum(item["project_id"] == project_id for item in found)
    # Asking for the groups of a project creates its default group: all are listed, and matched here.
    groups = rest.call("GET", "/security-groups")["security_groups"]
    result["network security-groups"] = sum(group["project_id"] == project_id for group in groups)
    granted = rest.call("GET", "/rbac-policies", params={"target_tenant": project_id})["rbac_policies"]
    result["network rbac-policies granted to it"] = len(granted)
    if "network-segment-range" in present:
        ranges = rest.call("GET", "/network_segment_ranges")["network_segment_ranges"]
        result["network network_segment_ranges"] = sum(item.get("project_id") == project_id for item in ranges)
    quotas = rest.call("GET", "/quotas")["quotas"]
    result["network quotas"] = sum(item["project_id"] == project_id for item in quotas)
    return result


def image_counts(rest: Rest, project_id: str) -> dict[str, int]:
    own = 0
    for hidden in ("false", "true"):
        found = pages(rest, "/images", "images", owner=project_id, visibility="all", os_hidden=hidden)
        own += sum(item["owner"] == project_id for item in found)
    member = 0
    for hidden in ("false", "true"):
        for item in pages(rest, "/images", "images", visibility="shared", member_status="all", os_hidden=hidden):
            members = rest.call("GET", f"/images/{item['id']}/members", ok=(403, 404)).get("members", [])
            member += sum(each["member_id"] == project_id for each in members)
    namespaces = pages(rest, "/metadefs/namespaces", "namespaces")
    return {
        "image images": own,
        "image memberships": member,
        "image metadef namespaces": sum(item["owner"] == project_id for item in namespaces),
    }


def identity_counts(rest: Rest, project_id: str) -> dict[str, int]:
    """Application credentials are listed by user only, and outlive the project: every user is asked."""
    credentials = 0
    for user in rest.call("GET", "/users")["users"]:
        listed = rest.call("GET", f"/users/{user['id']}/application_credentials")["application_credentials"]
        credentials += sum(item["project_id"] == project_id for item in listed)
    ec2 = rest.call("GET", "/credentials")["credentials"]
    trusts = rest.call("GET", "/OS-TRUST/trusts")["trusts"]
    limits = rest.call("GET", "/limits", params={"project_id": project_id})["limits"]
    assignments = rest.call("GET", "/role_assignments", params={"scope.project.id": project_id})["role_assignments"]
    return {
        "identity application credentials": credentials,
        "identity credentials": sum(item["project_id"] == project_id for item in ec2),
        "identity trusts": sum(item["project_id"] == project_id for item in trusts),
        "identity limits": len(limits),
        "identity role assignments": len(assignments),
    }


def secret_counts(rest: Rest) -> dict[str, int]:
    """Barbican lists only resources of the project of the token, without expired secrets."""
    return {
        f"key-manager {name}": rest.call("GET", f"/{name}", params={"limit": 1})["total"]
        for name in ("secrets", "containers", "orders")
    }


def swift_contents(connection: openstack.connection.Connection, project_id: str) -> dict[str, list[str]]:
    """The account's containers, objects, and versions of objects; and its metadata."""
    own = connection.object_store.get_endpoint()
    rest = Rest(connection.object_store)
    account = f"{own.rsplit('/', 1)[0]}/AUTH_{project_id}"

    def listing(path: str, **query: str) -> Iterator[dict[str, Any]]:
        marker = ""
        while True:
            answer = rest.raw("GET", path, params={"format": "json", "marker": marker, **query}, ok=(404, 410))
            if answer.status_code >= 400 or not (items := answer.json() if answer.content else []):
                return
            yield from items
            if "version_id" in items[-1]:  # pages of versions continue after a name and a version
                query["version_marker"] = items[-1]["version_id"]
            marker = items[-1]["name"]

    from tests.cloud.fillings.object_store import path as encoded

    containers = [item["name"] for item in listing(account)]
    objects, versions = [], []
    for container in containers:
        for item in listing(account + encoded(container), versions="true"):
            (objects if item.get("is_latest", True) else versions).append(f"{container}/{item['name']}")
    head = rest.raw("HEAD", account, ok=(404, 410))
    prefix = "x-account-meta-"
    return {
        "object-store containers": containers,
        "object-store objects": objects,
        "object-store older versions": versions,
        "object-store account metadata": [name for name in head.headers if name.lower().startswith(prefix)],
    }


# ---------------------------------------------------------------- databases and disks


def database(path: pathlib.Path) -> sqlite3.Connection:
    """Open the database of a service read-only."""
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)


def proof(cloud: Any, project_id: str) -> list[Line]:
    """Return (service, place, kind, number) for everything that a project could have left behind.

    `cloud` is the launcher's. The numbers come straight from the databases; Swift's come from its backends' databases
    and, while it runs, from the account itself as the auditor sees it.
    """
    if not project_id:
        raise ValueError("no project id")
    lines: list[Line] = []
    connections: dict[str, sqlite3.Connection] = {}
    try:
        for service, table, what, condition in CHECKS:
            if NEWER.get(table, "") > cloud.site.release:
                continue
            path = cloud.site.database(service)
            if service not in connections:
                connections[service] = database(path)
            sql = f'SELECT COUNT(*) FROM "{table}" WHERE {condition}'
            (count,) = connections[service].execute(sql, {"id": project_id}).fetchone()
            lines.append((service, f"{path.name}: {table}", what, count))
    finally:
        for connection in connections.values():
            connection.close()
    if "swift" in cloud.site.services:
        with openstack.connect(
            load_yaml_config=False,
            load_envvars=False,
            auth={
                "auth_url": cloud.auth_url,
                "username": "auditor",
                "password": cloud.site.password,
                "project_name": "service",
                "user_domain_id": "default",
                "project_domain_id": "default",
            },
            region_name="RegionOne",
            identity_api_version="3",
        ) as auditor:
            for what, found in swift_contents(auditor, project_id).items():
                lines.append(("swift", f"GET AUTH_{project_id} as auditor", what.split(" ", 1)[1], len(found)))
    # After the listings, which cause the container servers to apply pending updates.
    return lines + swift_proof(cloud.site.home("swift") / "devices", f"AUTH_{project_id}")


def left(cloud: Any, project_id: str) -> dict[str, int]:
    """Return how many rows of each kind a project has left in databases and on disks; empty: none."""
    return {f"{service}: {what}": number for service, _, what, number in proof(cloud, project_id) if number}


def swift_proof(devices: pathlib.Path, account: str) -> list[Line]:
    """Return what the account and container servers have on disk, including hidden containers of versions."""
    containers = objects = 0
    for path in devices.glob("*/accounts/*/*/*/*.db"):
        with database(path) as connection:
            if connection.execute("SELECT account FROM account_stat").fetchone() == (account,):
                containers += connection.execute("SELECT COUNT(*) FROM container WHERE deleted = 0").fetchone()[0]
        connection.close()
    for path in devices.glob("*/containers/*/*/*/*.db"):
        with database(path) as connection:
            if connection.execute("SELECT account FROM container_stat").fetchone() == (account,):
                objects += connection.execute("SELECT COUNT(*) FROM object WHERE deleted = 0").fetchone()[0]
        connection.close()
    return [
        ("swift", "account databases on disk", "containers", containers),
        ("swift", "container databases on disk", "objects, with versions", objects),
    ]


def scan(cloud: Any, project_id: str) -> dict[str, int]:
    """Every column of every table that holds the project's id, history included: {'service.table.column': rows}."""
    found = {}
    for service in ("keystone", "glance", "neutron", "barbican"):
        connection = database(cloud.site.database(service))
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            for column in [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]:
                sql = f'SELECT COUNT(*) FROM "{table}" WHERE "{column}" = ?'
                (count,) = connection.execute(sql, (project_id,)).fetchone()
                if count:
                    found[f"{service}.{table}.{column}"] = count
        connection.close()
    return found
