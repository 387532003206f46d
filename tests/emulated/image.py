"""Glance: pages with a next link, JSON patches, and errors in HTML."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from tests.emulated.http import Request, Response
from tests.emulated.service import Call, Place, Refusal, Service, candidates
from tests.emulated.state import Kind, Row, Touch

DEFAULT_PAGE, LARGEST_PAGE = 25, 1000
#: What a namespace holds; only the namespace itself shows it, lists do not.
WITHIN = {
    "properties": {"colour": {"type": "string", "title": "colour"}},
    "objects": [
        {
            "name": "thing",
            "required": [],
            "properties": {},
            "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z",
            "self": "/v2/metadefs/namespaces/demo/objects/thing",
            "schema": "/v2/schemas/metadefs/object",
        }
    ],
    "tags": [{"name": "demo"}],
}


class Image(Service):
    """Glance."""

    type = "image"
    version = "v2"

    def versions(self, request: Request) -> Response:
        links = [{"rel": "self", "href": f"{self.url}/v2/"}]
        known = [
            {"id": f"v2.{n}", "status": "CURRENT" if n == 17 else "SUPPORTED", "links": links} for n in (17, 15, 0)
        ]
        return Response(300, {"versions": known})

    def error(self, refusal: Refusal) -> Response:
        text = f"<html><head><title>{refusal.status}</title></head><body>{refusal.message}</body></html>"
        return Response(refusal.status, text.encode(), type="text/html; charset=UTF-8")

    def body(self, row: Row) -> dict[str, Any]:
        body = row.render()
        body.pop("members", None)
        path = f"/v2/{row.kind.path}/{quote(row.id)}"
        body["self"] = path
        if row.kind.name == "image":
            body["file"] = f"{path}/file"
        return body

    def collection(self, call: Call, kind: Kind, parent: str) -> Response:
        request = call.request
        limit = min(int(request.first("limit") or DEFAULT_PAGE), LARGEST_PAGE)
        marker = request.first("marker")
        if marker and marker not in self.table(kind).rows:
            raise Refusal(400, "Invalid marker: the image was not found.")
        filters: dict[str, set[str]] = {}
        names = {"image": ("owner", "visibility", "os_hidden", "name", "status"), "task": ("owner", "status", "type")}
        for name in names.get(kind.name, ()):
            value = request.first(name, "false" if name == "os_hidden" else "")
            if value and value != "all":
                filters[name] = {value}
        page = []
        for row in candidates(self.table(kind), filters, marker, descending=True):
            page.append(row)
            if len(page) == limit:
                break
        query = [(k, v) for k, v in request.query if k != "marker"]
        path = f"/v2/{kind.path}"
        answer: dict[str, Any] = {
            kind.many: [self.body(row) for row in page],
            "first": f"{path}?{urlencode(query)}",
            "schema": f"/v2/schemas/{kind.path}",
        }
        if page and len(page) == limit:
            answer["next"] = f"{path}?{urlencode([*query, ('marker', page[-1].id)])}"
        return Response(200, answer)

    def shown(self, row: Row) -> dict[str, Any]:
        within = WITHIN if row.kind.name == "metadef_namespace" else {}
        return self.body(row) | within

    def check_delete(self, row: Row) -> None:
        if row.kind.history:
            raise Refusal(405, "The method specified is not allowed for this resource.")
        if row.get("protected"):
            raise Refusal(403, f"{row.kind.name} {row.id} is protected and cannot be deleted.")

    def update(self, call: Call, row: Row) -> Response:
        if row.kind.name == "image":
            values = {op["path"].lstrip("/"): op.get("value") for op in call.request.json()}
        else:  # a PUT of a namespace resets what it leaves out
            said = call.request.json()
            values = {"visibility": "private", "protected": False, **said}
            if values.pop("owner", call.token.project) != row.owner:
                raise Refusal(403, "the owner would change")
            values.pop(row.kind.id, None)
        self.change(call, row, values)
        return Response(200, self.body(row))

    def action(self, call: Call, place: Place, row: Row) -> Response:
        """The members of an image; theirs are rows of the image here."""
        members = list(row.get("members") or ())
        if place.action != "members" or row.kind.name != "image":
            return super().action(call, place, row)
        wanted = call.parts[3] if len(call.parts) > 3 else ""
        shown = [
            {
                "member_id": member,
                "image_id": row.id,
                "status": "accepted",
                "created_at": "2026-01-01T00:00:00Z",
                "updated_at": "2026-01-01T00:00:00Z",
                "schema": "/v2/schemas/member",
            }
            for member in members
        ]
        if not wanted:
            return Response(200, {"members": shown, "schema": "/v2/schemas/members"})
        if wanted not in members:
            raise Refusal(404, f"{wanted} not found in the member list of the image {row.id}.")
        if call.request.method == "DELETE":
            row.table.change(row, {"members": [member for member in members if member != wanted]})
            call.touched.append(Touch("deleted", "image.membership", row.id, wanted))
            return Response(204)
        return Response(200, next(each for each in shown if each["member_id"] == wanted))
