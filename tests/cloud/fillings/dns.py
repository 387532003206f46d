"""Designate: zones of all kinds, one below another, shared and offered; tasks, a TSIG key, a PTR record, a quota."""

from __future__ import annotations

import time
from typing import Any

from tests.cloud.fillings.base import Filled, FillError, Filling, Rest

SECONDS = 900
EVERYBODY = {"X-Auth-All-Projects": "true"}


def user(f: Filling) -> Rest:
    return Rest(f.filled.connection.dns)


def admin(f: Filling) -> Rest:
    return Rest(f.admin_connection.dns, EVERYBODY)


def apex(f: Filling) -> str:
    return f"{f.name}.example."


def quota(f: Filling) -> None:
    admin(f).call("PATCH", f"/quotas/{f.project_id}", {"zones": 60, "api_export_size": 2000})
    f.note("dns quota", f.project_id)


def zone(f: Filling, name: str, **attributes: Any) -> str:
    body = {"name": name, "email": "hostmaster@example.com", "type": "PRIMARY", **attributes}
    if body["type"] == "SECONDARY":
        body.pop("email")
    known = user(f).call("GET", "/zones", params={"name": name})["zones"]
    found = known or [user(f).call("POST", "/zones", body)]
    return f.note("zone", found[0]["id"])


def zones(f: Filling) -> None:
    """Three levels, because the deepest has to be deleted first; and a secondary one with data of another project."""
    top = zone(f, apex(f))
    zone(f, f"sub.{apex(f)}")
    zone(f, f"deep.sub.{apex(f)}")
    zone(f, f"{f.name}-secondary.example.", type="SECONDARY", masters=["198.51.100.53"])
    f.note("shared zone", zone(f, f"{f.name}-shared.example."))
    settle(f)
    for name, kind, records in (
        ("www", "A", ["198.51.100.10", "198.51.100.11"]),
        ("mail", "CNAME", [f"www.{apex(f)}"]),
        ("text", "TXT", ['"of no use"']),
    ):
        recordset(f, top, f"{name}.{apex(f)}", kind, records)


def recordset(f: Filling, zone_id: str, name: str, kind: str, records: list[str]) -> str:
    path = f"/zones/{zone_id}/recordsets"
    known = user(f).call("GET", path, params={"name": name, "type": kind})["recordsets"]
    found = known or [user(f).call("POST", path, {"name": name, "type": kind, "records": records})]
    return f.note("recordset", found[0]["id"])


def settle(f: Filling) -> None:
    """Wait until the primary zones are on the name servers; a secondary one waits for its masters for ever."""
    deadline = time.monotonic() + SECONDS
    for zone_id in f.filled.ids["zone"]:
        while (row := user(f).call("GET", f"/zones/{zone_id}"))["status"] == "PENDING" and row["type"] == "PRIMARY":
            if time.monotonic() > deadline:
                raise FillError(f"the zone {row['name']} is {row['status']}")
            time.sleep(0.5)


def share(f: Filling) -> None:
    """The partner may create recordsets in it, and has created none."""
    path = f"/zones/{f.first('shared zone')}/shares"
    known = user(f).call("GET", path)["shared_zones"]
    found = [row for row in known if row["target_project_id"] == f.filled.partner_id]
    f.note("zone share", (found or [user(f).call("POST", path, {"target_project_id": f.filled.partner_id})])[0]["id"])


def use_share(giver: Filled, taker: Filled) -> str:
    """Let `taker` create a recordset in the zone that `giver` shares with it; return its id."""
    name = f"{taker.project_name}.{giver.project_name}-shared.example."
    path = f"/zones/{giver.first('shared zone')}/recordsets"
    body = {"name": name, "type": "A", "records": ["198.51.100.99"]}
    rest = Rest(taker.connection.dns)
    known = rest.call("GET", path, params={"name": name})["recordsets"]
    return (known or [rest.call("POST", path, body)])[0]["id"]


def offer(f: Filling) -> None:
    """Offer a zone to the partner, who does not answer."""
    path = f"/zones/{f.first('zone', 1)}/tasks/transfer_requests"
    known = user(f).call("GET", "/zones/tasks/transfer_requests")["transfer_requests"]
    found = [row for row in known if row["zone_id"] == f.first("zone", 1)]
    found = found or [user(f).call("POST", path, {"target_project_id": f.filled.partner_id})]
    f.note("zone transfer request", found[0]["id"])


def import_and_export(f: Filling) -> None:
    """One import that makes a zone, one that fails; and an export."""
    known = user(f).call("GET", "/zones/tasks/imports")["imports"]
    if not known:
        name = f"{f.name}-imported.example."
        text = f"$ORIGIN {name}\n{name} 3600 IN SOA ns1.example. host.example. 1 3600 600 86400 3600\n"
        text += f"{name} 3600 IN NS ns1.example.\nwww.{name} 3600 IN A 198.51.100.77\n"
        for body in (text, "this is no zone file"):
            known.append(
                user(f).raw("POST", "/zones/tasks/imports", data=body, headers={"Content-Type": "text/dns"}).json()
            )
    f.note("zone import", *(row["id"] for row in known))
    exports = user(f).call("GET", "/zones/tasks/exports")["exports"]
    exports = exports or [user(f).call("POST", f"/zones/{f.first('zone')}/tasks/export")]
    f.note("zone export", exports[0]["id"])
    deadline = time.monotonic() + SECONDS
    while pending := [
        row
        for kind in ("imports", "exports")
        for row in user(f).call("GET", f"/zones/tasks/{kind}")[kind]
        if row["status"] == "PENDING"
    ]:
        if time.monotonic() > deadline:
            raise FillError(f"a task is still under way: {pending}")
        time.sleep(0.5)
    imported = user(f).call("GET", "/zones", params={"name": f"{f.name}-imported.example."})["zones"]
    f.note("zone", *(row["id"] for row in imported))
    settle(f)


def tsig_key(f: Filling) -> None:
    """Only an admin can create one, for a zone."""
    body = {"name": f"{f.name}-key", "algorithm": "hmac-sha256", "secret": "c2VjcmV0", "scope": "ZONE"}
    body["resource_id"] = f.first("zone")
    known = admin(f).call("GET", "/tsigkeys", params={"name": body["name"]})["tsigkeys"]
    f.note("tsig key", (known or [admin(f).call("POST", "/tsigkeys", body)])[0]["id"])


def ptr(f: Filling) -> None:
    """A PTR record for a separate floating IP: the filling of Neutron runs at the same time."""
    public = f.network.call("GET", "/networks", params={"name": "public", "router:external": True})["networks"]
    if not public:
        return
    wanted = f"{f.name}-with-a-name"
    known = f.network.call("GET", "/floatingips", params={"description": wanted})["floatingips"]
    body = {"floating_network_id": public[0]["id"], "description": wanted}
    ip = (known or [f.network.call("POST", "/floatingips", {"floatingip": body})["floatingip"]])[0]
    f.note("named floating ip", ip["id"])
    path = f"/reverse/floatingips/RegionOne:{ip['id']}"
    user(f).call("PATCH", path, {"ptrdname": f"host.{apex(f)}", "description": "of the filling"})
    f.note("ptr", f"RegionOne:{ip['id']}")


KINDS = (quota, zones, share, offer, import_and_export, tsig_key, ptr)
