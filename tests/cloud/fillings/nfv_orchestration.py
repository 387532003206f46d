"""Tacker: VIMs with the user's credentials, packages without content, and subscriptions."""

from __future__ import annotations

from typing import Any

from keystoneauth1 import exceptions as ka_exceptions

from tests.cloud.fillings.base import Filling, Rest, client

PACKAGES = "/vnfpkgm/v1/vnf_packages"
SUBSCRIPTIONS = "/vnflcm/v1/subscriptions"


def tacker(connection: Any) -> Rest:
    """Return a client of Tacker whose paths begin with the interface and its version."""
    rest = client(connection, "nfv-orchestration")
    rest.proxy.endpoint_override = rest.proxy.get_endpoint(skip_discovery=True)
    return rest


def vims(f: Filling) -> None:
    """The default VIM, and another one. Tacker logs in to each when it is made."""
    rest = tacker(f.filled.connection)
    known = {row["name"]: row["id"] for row in rest.call("GET", "/v1.0/vims")["vims"]}
    for number in range(2):
        name = f"{f.name}-{number}"
        credentials = {"username": f.filled.user_name, "password": f.filled.password,
                       "user_domain_name": "Default", "cert_verify": "False"}  # fmt: skip
        body = {"name": name, "description": "", "type": "openstack", "is_default": number == 0,
                "auth_url": f.admin_connection.config.get_auth_args()["auth_url"], "auth_cred": credentials,
                "vim_project": {"name": f.name, "project_domain_name": "Default"}}  # fmt: skip
        if name not in known:
            try:
                made = rest.call("POST", "/v1.0/vims", {"vim": body}, timeout=60)
            except ka_exceptions.ConnectTimeout:
                # The login may hang for ever in select() of eventlet (its issue 798): then no VIM is made.
                assert name not in [row["name"] for row in rest.call("GET", "/v1.0/vims")["vims"]]
                made = rest.call("POST", "/v1.0/vims", {"vim": body}, timeout=60)
            known[name] = made["vim"]["id"]
        f.note("vim", known[name])


def packages(f: Filling) -> None:
    rest = tacker(f.filled.connection)
    found = [row["id"] for row in rest.call("GET", PACKAGES)]
    while len(found) < 3:
        found.append(rest.call("POST", PACKAGES, {"userDefinedData": {"of": f.name}})["id"])
    f.note("vnf package", *sorted(found))


def subscriptions(f: Filling) -> None:
    """One with a filter, and one without."""
    rest = tacker(f.filled.connection)
    known = {row["callbackUri"]: row["id"] for row in rest.call("GET", SUBSCRIPTIONS)}
    for what, how in (("some", {"filter": {"operationTypes": ["TERMINATE"]}}), ("all", {})):
        address = f"http://127.0.0.1:9/{f.name}/{what}"
        if address not in known:
            known[address] = rest.call("POST", SUBSCRIPTIONS, {"callbackUri": address, **how})["id"]
        f.note("subscription", known[address])


KINDS = (vims, packages, subscriptions)
