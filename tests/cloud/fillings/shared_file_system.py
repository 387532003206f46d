"""Manila: shares in every state that a user can cause, and all that depends on them; networks, access, quotas."""

from __future__ import annotations

import time
from typing import Any

from keystoneauth1.discover import version_to_string

from tests.cloud.fillings.base import Filled, FillError, Filling, Rest

SECONDS = 900


def client(proxy: Any) -> Rest:
    """Return a client that asks for the newest microversion of this Manila, and for what is experimental."""
    newest = version_to_string(proxy.get_endpoint_data().max_microversion)
    return Rest(proxy, {"X-OpenStack-Manila-API-Version": newest, "X-OpenStack-Manila-API-Experimental": "true"})


def user(f: Filling) -> Rest:
    return client(f.filled.connection.shared_file_system)


def admin(f: Filling) -> Rest:
    return client(f.admin_connection.shared_file_system)


def ensure(rest: Rest, path: str, plural: str, singular: str, body: dict[str, Any], **match: str) -> str:
    """Return the id of the object with that name; create it if there is none."""
    known = rest.call("GET", path, params={"name": body["name"], **match})[plural]
    found = [row for row in known if row.get("name") == body["name"]]
    return (found or [rest.call("POST", path, {singular: body})[singular]])[0]["id"]


def share_type(f: Filling) -> str:
    """Return the type of all shares here; an existing type may lack snapshots."""
    wanted = "of-the-filling"
    specs = {"driver_handles_share_servers": "False", "snapshot_support": "True"}
    body = {"name": wanted, "share_type_access:is_public": True, "extra_specs": specs}
    return once(f, "/types", "share_types", "share_type", body)


def group_type(f: Filling) -> str:
    body = {"name": "of-the-filling", "is_public": True, "share_types": [share_type(f)], "group_specs": {}}
    return once(f, "/share-group-types", "share_group_types", "share_group_type", body)


def once(f: Filling, path: str, plural: str, singular: str, body: dict[str, Any]) -> str:
    """A type for all projects: several fillings may want it at once."""

    def known() -> list[dict[str, Any]]:
        listed = admin(f).call("GET", path, params={"is_public": "all"})[plural]
        return [row for row in listed if row["name"] == body["name"]]

    if not (found := known()):
        admin(f).call("POST", path, {singular: body}, ok=(409,))
        found = known()
    return str(found[0]["id"])


def access(f: Filling) -> None:
    """Private types that the project may use."""
    specs = {"driver_handles_share_servers": "False"}
    body: dict[str, Any] = {"name": f"{f.name}-private", "share_type_access:is_public": False, "extra_specs": specs}
    type_id = f.note("private share type", once(f, "/types", "share_types", "share_type", body))
    grant = {"addProjectAccess": {"project": f.project_id}}
    admin(f).call("POST", f"/types/{type_id}/action", grant, ok=(409,))
    body = {"name": f"{f.name}-private", "is_public": False, "share_types": [share_type(f)], "group_specs": {}}
    type_id = f.note("private group type", once(f, "/share-group-types", "share_group_types", "share_group_type", body))
    admin(f).call("POST", f"/share-group-types/{type_id}/action", grant, ok=(409,))


def quotas(f: Filling) -> None:
    admin(f).call("PUT", f"/quota-sets/{f.project_id}", {"quota_set": {"shares": 70}})
    f.note("share quota", f.project_id)
    path = f"/quota-sets/{f.project_id}?share_type={share_type(f)}"
    admin(f).call("PUT", path, {"quota_set": {"shares": 40}})
    f.note("share type quota", share_type(f))


def share(f: Filling, suffix: str, **attributes: Any) -> str:
    body = {"name": f"{f.name}-{suffix}", "size": 1, "share_proto": "NFS", "share_type": share_type(f), **attributes}
    return f.note("share", ensure(user(f), "/shares", "shares", "share", body))


def wait(f: Filling, path: str, key: str, *states: str) -> str:
    """Wait until a resource is in one of these states, `available` by default."""
    deadline = time.monotonic() + SECONDS
    while (status := admin(f).call("GET", path)[key]["status"]) not in (states or ("available",)):
        if status == "error" or time.monotonic() > deadline:
            raise FillError(f"{path} is {status}")
        time.sleep(0.5)
    return path


def shares(f: Filling) -> None:
    """Plain, with a snapshot, locked, on offer, and one whose delete has failed."""
    plain = share(f, "plain", metadata={"keep": "no"})
    held = share(f, "with-snapshot")
    locked = share(f, "locked")
    offered = share(f, "offered")
    failed = share(f, "failed")
    for each in (plain, held, locked, offered):
        wait(f, f"/shares/{each}", "share", "available", "awaiting_transfer")
    wait(f, f"/shares/{failed}", "share", "available", "error_deleting")
    rule = {"allow_access": {"access_type": "ip", "access_to": "198.51.100.7", "access_level": "rw"}}
    user(f).call("POST", f"/shares/{plain}/action", rule, ok=(400,))  # it exists
    body = {"name": f"{f.name}-snapshot", "share_id": held}
    snapshot = f.note("share snapshot", ensure(user(f), "/snapshots", "snapshots", "snapshot", body))
    wait(f, f"/snapshots/{snapshot}", "snapshot", "available", "error_deleting")
    lock = {"resource_id": locked, "resource_type": "share", "resource_action": "delete", "lock_reason": "dear to me"}
    known = user(f).call("GET", "/resource-locks", params={"resource_id": locked})["resource_locks"]
    made = known or [user(f).call("POST", "/resource-locks", {"resource_lock": lock})["resource_lock"]]
    f.note("resource lock", made[0]["id"])
    known = user(f).call("GET", "/share-transfers")["transfers"]
    body = {"share_id": offered, "name": f"{f.name}-transfer"}
    f.note(
        "share transfer", (known or [user(f).call("POST", "/share-transfers", {"transfer": body})["transfer"]])[0]["id"]
    )
    for path in (f"/shares/{failed}", f"/snapshots/{snapshot}"):
        admin(f).call("POST", f"{path}/action", {"reset_status": {"status": "error_deleting"}})


def recycled(f: Filling) -> None:
    """A share in the recycle bin, which only a special filter shows."""
    known = user(f).call("GET", "/shares", params={"is_soft_deleted": "true"})["shares"]
    if known:
        f.note("recycled share", known[0]["id"])
        return
    one = share(f, "recycled")
    wait(f, f"/shares/{one}", "share")
    user(f).call("POST", f"/shares/{one}/action", {"soft_delete": None})
    f.filled.ids["share"].remove(one)
    f.note("recycled share", one)


def group(f: Filling) -> None:
    """A share group with a share and a snapshot of both."""
    body = {"name": f"{f.name}-group", "share_group_type_id": group_type(f), "share_types": [share_type(f)]}
    made = f.note("share group", ensure(user(f), "/share-groups", "share_groups", "share_group", body))
    wait(f, f"/share-groups/{made}", "share_group")
    member = share(f, "member", share_group_id=made)
    wait(f, f"/shares/{member}", "share")
    body = {"name": f"{f.name}-group-snapshot", "share_group_id": made}
    path = "/share-group-snapshots"
    snapshot = ensure(user(f), path, "share_group_snapshots", "share_group_snapshot", body)
    f.note("share group snapshot", snapshot)
    wait(f, f"{path}/{snapshot}", "share_group_snapshot")


def network(f: Filling) -> None:
    """A share network with two subnets, and a security service that is attached to it."""
    name = f"{f.name}-shares"
    net = f.network.ensure("networks", "network", {"name": name}, project_id=f.project_id)
    body: dict[str, Any] = {"name": name, "network_id": net, "ip_version": 4, "cidr": "10.92.0.0/24"}
    subnet = f.network.ensure("subnets", "subnet", body, project_id=f.project_id)
    ids = {"neutron_net_id": net, "neutron_subnet_id": subnet}
    made = ensure(user(f), "/share-networks", "share_networks", "share_network", {"name": name, **ids})
    f.note("share network", made)
    subnets = user(f).call("GET", f"/share-networks/{made}")["share_network"]["share_network_subnets"]
    if len(subnets) < 2:
        zone = user(f).call("GET", "/availability-zones")["availability_zones"][0]["name"]
        body = {"share-network-subnet": {"availability_zone": zone, **ids}}
        user(f).call("POST", f"/share-networks/{made}/subnets", body)
    body = {"name": name, "type": "ldap", "server": "198.51.100.3", "user": "x", "password": "x"}
    service = ensure(user(f), "/security-services", "security_services", "security_service", body)
    f.note("security service", service)
    action = {"add_security_service": {"security_service_id": service}}
    user(f).call("POST", f"/share-networks/{made}/action", action, ok=(403, 409))  # it is there


def make_public(admin_rest: Rest, filled: Filled, share_id: str) -> None:
    """Make it public; only an admin may do that."""
    admin_rest.call("PUT", f"/shares/{share_id}", {"share": {"is_public": True}})
    filled.note("public share", share_id)


KINDS = (access, quotas, shares, recycled, group, network)
