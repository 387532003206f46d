"""Barbican: what the token's project has, references instead of ids, pages by offset."""

from __future__ import annotations

from itertools import islice
from typing import Any

from tests.emulated.http import Request, Response
from tests.emulated.service import Call, Place, Refusal, Service
from tests.emulated.state import Kind, Row

DEFAULT_PAGE, LARGEST_PAGE = 10, 100


class KeyManager(Service):
    """Barbican."""

    type = "key-manager"
    version = "v1"

    def versions(self, request: Request) -> Response:
        media = [{"base": "application/json", "type": "application/vnd.openstack.key-manager-v1+json"}]
        links = [{"rel": "self", "href": f"{self.url}/v1/"}]
        value = {"id": "v1", "status": "stable", "links": links, "media-types": media}
        return Response(300, {"versions": {"values": [value]}})

    def error(self, refusal: Refusal) -> Response:
        body = {"code": refusal.status, "title": refusal.type or "Error", "description": refusal.message}
        return Response(refusal.status, body)

    def answer(self, call: Call) -> Response:
        asked = call.request.headers.get("openstack-api-version", "").rpartition(" ")[2] or "1.0"
        response = super().answer(call)
        response.headers["OpenStack-API-Version"] = f"key-manager {asked}"
        return response

    def allow(self, call: Call, kind: Kind, row: Row | None) -> None:
        if kind.name == "project_quota":
            super().allow(call, kind, row)
        elif row is not None and row.owner != call.token.project:
            raise Refusal(
                403, "Resource access attempt not allowed - please review your user/project privileges", "Forbidden"
            )

    def body(self, row: Row) -> dict[str, Any]:
        body = row.render()
        del body["id"]
        for private in ("secret_consumers", "readers"):
            body.pop(private, None)
        if row.kind.name != "project_quota":
            body[f"{row.kind.name}_ref"] = f"{self.url}/v1/{row.kind.path}/{row.id}"
        return body

    def collection(self, call: Call, kind: Kind, parent: str) -> Response:
        rows = self.table(kind).owned.get(call.token.project, {})
        limit = min(int(call.request.first("limit") or DEFAULT_PAGE), LARGEST_PAGE)
        offset = int(call.request.first("offset") or 0)
        page = [self.body(row) for row in islice(rows.values(), offset, offset + limit)]
        answer: dict[str, Any] = {kind.many: page, "total": len(rows)}
        base = f"{self.url}/v1/{kind.path}?limit={limit}&offset="
        if offset and page:
            answer["previous"] = f"{base}{max(0, offset - limit)}"
        if offset + limit < len(rows):
            answer["next"] = f"{base}{offset + limit}"
        return Response(200, answer)

    def action(self, call: Call, place: Place, row: Row) -> Response:
        if place.action == "acl":
            readers = row.get("readers")
            return Response(200, {"read": {"users": readers} if readers else {"project-access": True}})
        if place.action == "consumers":
            consumers = row.get("secret_consumers") or []
            return Response(200, {"consumers": consumers, "total": len(consumers)})
        return super().action(call, place, row)

    def check_delete(self, row: Row) -> None:
        pass

    def delete(self, call: Call, row: Row) -> Response:
        minor = int(call.request.headers.get("openstack-api-version", "1.0").rpartition(".")[2] or 0)
        if minor >= 2 and row.get("secret_consumers") and call.request.first("force") != "true":
            text = "Secret deletion issue seen - Secret cannot be deleted as it has consumers.."
            raise Refusal(400, text, "Bad Request")
        return super().delete(call, row)
