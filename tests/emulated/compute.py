"""Nova: servers that run, are stopped, started and deleted by an action; of all else, empty lists.

The bodies have the fields that the API reference of Nova names and that the plugin reads.
"""

from __future__ import annotations

from typing import Any

from tests.emulated.http import Request, Response
from tests.emulated.service import Call, Place, Refusal, Service
from tests.emulated.state import Kind, Row

ACTIVE, SHUTOFF, ERROR = "ACTIVE", "SHUTOFF", "ERROR"
#: Collections that are always empty here: path -> key of the body.
EMPTY = {"os-server-groups": "server_groups", "os-keypairs": "keypairs", "os-aggregates": "aggregates",
         "flavors": "flavors"}  # fmt: skip
QUOTAS = {"cores": 20, "instances": 10}


class Compute(Service):
    """Nova."""

    type = "compute"
    version = "v2.1"

    def __init__(self, cloud: Any, region: str) -> None:
        super().__init__(cloud, region)
        self.power: list[tuple[str, str]] = []  #: (server, ``os-stop`` or ``os-start``) of effective actions, in order

    @property
    def endpoint(self) -> str:
        """Where the catalog says that it is."""
        return f"{self.url}/{self.version}"

    def versions(self, request: Request) -> Response:
        links = [{"rel": "self", "href": f"{self.endpoint}/"}]
        version = {"id": "v2.1", "status": "CURRENT", "version": "2.96", "min_version": "2.1", "links": links}
        return Response(200, {"version": version} if self.version in request.parts else {"versions": [version]})

    def error(self, refusal: Refusal) -> Response:
        return Response(refusal.status, {refusal.type or "error": {"code": refusal.status, "message": str(refusal)}})

    def missing(self, place: Place) -> Refusal:
        """Return the refusal for a row that does not exist; its type is the word that Nova uses."""
        return Refusal(404, f"{place.kind.name} {place.id} could not be found.", "itemNotFound")

    def allow(self, call: Call, kind: Kind, row: Row | None) -> None:
        if row is None or row.owner != call.token.project:
            super().allow(call, kind, row)

    def answer(self, call: Call) -> Response:
        parts, method = call.parts, call.request.method
        if method == "GET" and parts in (["servers"], ["servers", "detail"]):
            return self._servers(call)
        if method == "GET" and len(parts) == 1 and parts[0] in EMPTY:
            return Response(200, {EMPTY[parts[0]]: []})
        if method == "GET" and parts[0] == "os-quota-sets":
            return Response(200, {"quota_set": {"id": parts[1], **QUOTAS}})
        if method == "GET" and parts == ["limits"]:
            return Response(200, {"limits": {"absolute": {"maxTotalCores": 20, "maxTotalInstances": 10}}})
        return super().answer(call)

    def _servers(self, call: Call) -> Response:
        """Return the servers of all projects with ``all_tenants``, else those of the token's project."""
        request, table = call.request, self.table("server")
        wanted = call.token.project
        if request.first("all_tenants") in ("1", "true", "True"):
            self.allow(call, table.kind, None)
            wanted = request.first("project_id")
        rows = list((table.owned.get(wanted, {}) if wanted else table.rows).values())
        if status := request.first("status"):
            rows = [row for row in rows if row.get("status") == status]
        if image := request.first("image"):
            rows = [row for row in rows if (row.get("image") or {}).get("id") == image]
        limit = int(request.first("limit") or 1000)
        return Response(200, {"servers": [self.body(row) for row in rows[:limit]]})

    def action(self, call: Call, place: Place, row: Row) -> Response:
        if place.action == "os-instance-actions" and call.request.method == "GET":
            return Response(200, {"instanceActions": []})
        if place.action != "action" or call.request.method != "POST":
            return super().action(call, place, row)
        super().allow(call, place.kind, None)
        (name,) = call.request.json()
        if name == "forceDelete":
            super().delete(call, row)
        elif name == "os-resetState":
            # A reset state frees a server that was stuck only in its state.
            self.cloud.hung.discard(row.id)
            self.change(call, row, {"status": ERROR})
        elif name in ("os-stop", "os-start"):
            before, after = (ACTIVE, SHUTOFF) if name == "os-stop" else (SHUTOFF, ACTIVE)
            if row.get("status") != before:
                text = f"Cannot '{name[3:]}' instance {row.id} while it is in vm_state {row.get('status')}"
                raise Refusal(409, text, "conflictingRequest")
            self.change(call, row, {"status": after})
            self.power.append((row.id, name))
        else:
            raise Refusal(400, f"There is no such action: {name}", "badRequest")
        return Response(202)
