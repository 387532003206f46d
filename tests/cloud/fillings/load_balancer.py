"""Octavia: load balancers with all kinds of children, and a quota.

One call creates a load balancer with its children: separate calls would lock it, and would have to wait.
"""

from __future__ import annotations

import time
from typing import Any

from tests.cloud.fillings.base import FillError, Filling, Rest

SECONDS = 900  # a busy machine takes its time over a task flow


def quota(f: Filling) -> None:
    body = {"quota": {"loadbalancer": 20, "pool": 40}}
    Rest(f.admin_connection.load_balancer).call("PUT", f"/lbaas/quotas/{f.project_id}", body)
    f.note("load balancer quota", f.project_id)


def subnet(f: Filling) -> None:
    """Make a separate subnet: the filling of Neutron runs at the same time."""
    name = f"{f.name}-vips"
    network = f.note("vip network", f.network.ensure("networks", "network", {"name": name}, project_id=f.project_id))
    body = {"name": name, "network_id": network, "ip_version": 4, "cidr": "10.91.0.0/24"}
    f.note("vip subnet", f.network.ensure("subnets", "subnet", body, project_id=f.project_id))


def load_balancers(f: Filling) -> None:
    """One load balancer with one child of each kind, one without children, and one that is switched off."""
    pool = {
        "name": "back",
        "protocol": "HTTP",
        "lb_algorithm": "ROUND_ROBIN",
        "members": [{"address": "10.91.0.77", "protocol_port": 80}, {"address": "10.91.0.78", "protocol_port": 80}],
        "healthmonitor": {"type": "HTTP", "delay": 5, "timeout": 3, "max_retries": 2},
    }
    reject = {"name": "no-robots", "action": "REJECT", "rules": [
        {"type": "HEADER", "key": "User-Agent", "compare_type": "CONTAINS", "value": "robot"}]}  # fmt: skip
    listeners = [
        {"name": "http", "protocol": "HTTP", "protocol_port": 80, "default_pool": pool, "l7policies": [reject]},
        {"name": "tcp", "protocol": "TCP", "protocol_port": 5000},
    ]
    make(f, "web", tags=["web", "kept-in-git"], listeners=listeners)
    make(f, "empty")
    make(f, "off", admin_state_up=False)
    wait(f)
    balancers = Rest(f.filled.connection.load_balancer)
    for path in ("listeners", "pools", "healthmonitors", "l7policies"):
        f.note(path, *(row["id"] for row in balancers.call("GET", f"/lbaas/{path}")[path]))
    f.note("load balancer quota", f.project_id)


def make(f: Filling, suffix: str, **attributes: Any) -> str:
    """A load balancer on the subnet, once; it is not ready yet."""
    balancers = Rest(f.filled.connection.load_balancer)
    body = {"name": f"{f.name}-{suffix}", "vip_subnet_id": f.first("vip subnet"), **attributes}
    return f.note("load balancer", balancers.ensure("lbaas/loadbalancers", "loadbalancer", body))


def wait(f: Filling) -> None:
    """Wait until no load balancer is being worked on."""
    balancers = Rest(f.filled.connection.load_balancer)
    deadline = time.monotonic() + SECONDS
    for balancer in f.filled.ids["load balancer"]:
        path = f"/lbaas/loadbalancers/{balancer}"
        while (status := balancers.call("GET", path)["loadbalancer"]["provisioning_status"]).startswith("PENDING"):
            if time.monotonic() > deadline:
                raise FillError(f"the load balancer {balancer} is {status}")
            time.sleep(0.5)


KINDS = (quota, subnet, load_balancers)
