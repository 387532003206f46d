"""Blazar: leases of floating IPs of an external network, one that has begun and one that has not."""

from __future__ import annotations

import datetime
import time
from typing import Any

from tests.cloud.fillings.base import FillError, Filling, Rest
from tests.cloud.services.blazar import ADDRESSES, NETWORK

#: Seconds after which an active lease has begun: Blazar looks every ten seconds.
PATIENCE = 60


def blazar(connection: Any) -> Rest:
    """Return a client of the API's version 1. By default the SDK takes version 2, which is deprecated."""
    proxy = connection.config.get_session_client("reservation", "1")
    proxy._connection = connection  # the SDK's client raises without it
    return Rest(proxy)


def date(days: float) -> str:
    """Return the time in some days, as Blazar takes it."""
    return (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)).strftime("%Y-%m-%d %H:%M")


def network(connection: Any) -> str:
    """Return the id of the network whose addresses Blazar lends."""
    found: str = Rest(connection.network).call("GET", "/networks", params={"name": NETWORK})["networks"][0]["id"]
    return found


def lease(connection: Any, name: str, start: str, end: str, amount: int = 1, *addresses: str) -> dict[str, Any]:
    """Return a new lease, or that with the same name.

    :param addresses: those that must be among the lent ones; by default any
    """
    rest = blazar(connection)
    for row in rest.call("GET", "/leases")["leases"]:
        if row["name"] == name:
            return dict(row)
    reservation = {"resource_type": "virtual:floatingip", "network_id": network(connection), "amount": amount}
    body = {"name": name, "start_date": start, "end_date": end, "events": [], "before_end_date": "",
            "reservations": [{**reservation, "required_floatingips": [*addresses]}]}  # fmt: skip
    return dict(rest.call("POST", "/leases", body)["lease"])


def active(connection: Any, name: str, amount: int = 1, *addresses: str) -> dict[str, Any]:
    """Return a lease that has begun: its floating IPs are there."""
    id_ = lease(connection, name, "now", date(1), amount, *addresses)["id"]
    until = time.monotonic() + PATIENCE
    while (row := blazar(connection).call("GET", f"/leases/{id_}")["lease"])["status"] != "ACTIVE":
        if time.monotonic() > until:
            raise FillError(f"the lease {name} is still {row['status']}")
        time.sleep(0.5)
    return dict(row)


def free(f: Filling) -> list[str]:
    """Return addresses that no project has now."""
    params = {"floating_network_id": network(f.admin_connection)}
    rows = f.network_admin.call("GET", "/floatingips", params=params)["floatingips"]
    taken = {row["floating_ip_address"] for row in rows}
    return [address for address in ADDRESSES if address not in taken]


def leases(f: Filling) -> None:
    """One with two floating IPs, and one that has not begun. It has an address of the other one."""
    connection, (one, other, *_) = f.filled.connection, free(f)
    f.note("lease", f.note("active lease", active(connection, f"{f.name}-active", 2, one, other)["id"]))
    f.note("lease", lease(connection, f"{f.name}-pending", date(2), date(3), 1, one)["id"])


KINDS = (leases,)
