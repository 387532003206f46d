"""CloudKitty: prices that an admin made for the project, its scope, and a request to rate a day of it again."""

from __future__ import annotations

from typing import Any

from tests.cloud.fillings.base import Filling, Rest, client

HASHMAP = "/v1/rating/module_config/hashmap"


def cloudkitty(connection: Any) -> Rest:
    """Return a client of CloudKitty whose paths begin with the version of the API."""
    rest = client(connection, "rating")
    rest.proxy.endpoint_override = rest.proxy.get_endpoint(skip_discovery=True)
    return rest


def made(rest: Rest, name: str, body: dict[str, Any], **query: str) -> str:
    """Return the id of a new service, field or group of the operator, or of that with the same name."""
    found = [row for row in rest.call("GET", f"{HASHMAP}/{name}s", params=query)[f"{name}s"]
             if row["name"] == body["name"]]  # fmt: skip
    return (found or [rest.call("POST", f"{HASHMAP}/{name}s", body)])[0][f"{name}_id"]


def prices(f: Filling) -> None:
    """Mappings and thresholds of a service, of a field, and in a group. Prices for all projects are there as well."""
    rest = cloudkitty(f.admin_connection)
    service = made(rest, "service", {"name": "instance"})
    field = made(rest, "field", {"name": "flavor", "service_id": service}, service_id=service)
    group = made(rest, "group", {"name": "discounts"})
    places = ({"service_id": service}, {"field_id": field}, {"field_id": field, "group_id": group})
    for whose, owner in (("everyone", {}), (f.name, {"tenant_id": f.project_id})):
        for number, place in enumerate(places, 1):
            price = {**place, **owner, "type": "flat", "cost": "1.5"}
            value = {"value": f"flavor-{number}"} if "field_id" in place else {}
            rest.call("POST", f"{HASHMAP}/mappings", {**price, **value, "name": f"{whose}-{number}"}, ok={409})
            rest.call("POST", f"{HASHMAP}/thresholds", {**price, "level": number}, ok={409})
    mine = {"tenant_id": f.project_id, "filter_tenant": "true"}
    for kind, of in (("mapping", {}), ("threshold", {"service_id": service}), ("threshold", {"field_id": field})):
        rows = rest.call("GET", f"{HASHMAP}/{kind}s", params={**mine, **of})[f"{kind}s"]
        f.note(kind, *(row[f"{kind}_id"] for row in rows))


def scope(f: Filling) -> None:
    """As the processor makes it. A second call is refused."""
    rest = cloudkitty(f.admin_connection)
    body = {"scope_id": f.project_id, "scope_key": "project_id", "fetcher": "keystone", "collector": "prometheus",
            "active": True, "last_processed_timestamp": "2026-11-01T00:00:00+00:00"}  # fmt: skip
    rest.call("POST", "/v2/scope", body, ok={404})
    again = {"scope_ids": [f.project_id], "reason": "a wrong price",
             "start_reprocess_time": "2026-10-01T00:00:00+00:00",
             "end_reprocess_time": "2026-10-02T00:00:00+00:00"}  # fmt: skip
    rest.call("POST", "/v2/task/reprocesses", again, ok={400})


KINDS = (prices, scope)
