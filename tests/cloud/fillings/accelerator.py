"""Cyborg: requests of a user, for a device profile of the operator. Without a server they stay unbound."""

from __future__ import annotations

from typing import Any

from tests.cloud.fillings.base import Filling, Rest, client

PROFILE = "profile"


def cyborg(connection: Any) -> Rest:
    """Return a client of Cyborg."""
    return client(connection, "accelerator")


def requests(f: Filling) -> None:
    """Cyborg makes as many requests as the profile has resources."""
    admin, rest = cyborg(f.admin_connection), cyborg(f.filled.connection)
    profile = [{"name": PROFILE, "groups": [{"resources:FPGA": "2", "trait:CUSTOM_FPGA": "required"}]}]
    admin.call("POST", "/device_profiles", profile, ok={409})
    found = rest.call("GET", "/accelerator_requests")["arqs"]
    while len(found) < 4:
        found += rest.call("POST", "/accelerator_requests", {"device_profile_name": PROFILE})["arqs"]
    f.note("accelerator request", *(row["uuid"] for row in found))


KINDS = (requests,)
