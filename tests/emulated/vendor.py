"""A service of a vendor without a plugin: it answers for itself, over the project resources protocol."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.protocol import (
    Capabilities,
    Outcome,
    Page,
    Provider,
    Resource,
    ResourceType,
    app,
)
from cleanup_orchestrator.protocol.provider import InUse
from tests.emulated.http import Request, Response
from tests.emulated.service import Call, Refusal, Service
from tests.emulated.state import Touch

if TYPE_CHECKING:
    from tests.emulated.cloud import Emulated

TYPES = (
    ResourceType("gadget", "uses a widget"),
    ResourceType("widget", after=("gadget",)),
    ResourceType("part", "a part of a widget", after=("widget",), deleted_with=("widget",), delete=False),
)


class Vendor(Service):
    """Widgets, their parts, and gadgets that use widgets."""

    type = "vendor"
    version = "project-resources"

    def __init__(self, cloud: Emulated, region: str) -> None:
        super().__init__(cloud, region)
        self.rows: dict[tuple[str, str], Resource] = {}  #: by type and id
        self.drained: set[str] = set()  #: ids of projects
        self.drains: list[tuple[str, str]] = []  #: what was asked, and for which project
        self.users: set[str] = set()  #: ids of the users whose tokens were seen
        #: Answers in place of the service: takes method and the parts of the path below ``v1``.
        self.lie: Callable[[str, list[str]], Response | None] = lambda *_: None
        self._touched: list[Touch] = []
        capabilities = Capabilities(self.type, TYPES, drain=True)
        self._app = app(
            Provider(
                capabilities,
                self._list,
                self._show,
                self._delete,
                drain=self._drain,
                undrain=self._undrain,
                is_drained=self.drained.__contains__,
            )
        )

    # -- for a test
    def add(self, type_: str, id_: str, project: str, **values: Any) -> None:
        """Add a resource."""
        self.rows[type_, id_] = Resource(id_, project, f"name of {id_}", **values)

    def owned(self, project: str) -> list[str]:
        """Return the ids of what a project owns."""
        return sorted(row.id for row in self.rows.values() if row.project_id == project)

    # -- the provider
    def _list(self, project_id: str, type_: str, limit: int, marker: str | None) -> Page:
        rows = [row for (kind, _), row in sorted(self.rows.items()) if (kind, row.project_id) == (type_, project_id)]
        rows = [row for row in rows if marker is None or row.id > marker]
        return Page(tuple(rows[:limit]), rows[limit - 1].id if len(rows) > limit else None)

    def _show(self, project_id: str, type_: str, id_: str) -> Resource | None:
        row = self.rows.get((type_, id_))
        return row if row is not None and row.project_id == project_id else None

    def _delete(self, project_id: str, type_: str, id_: str) -> Outcome:
        if any(self._uses(row, id_) for row in self.rows.values()):
            raise InUse("a gadget uses it")
        gone = [key for key, row in self.rows.items() if key == (type_, id_) or row.part_of.get(type_) == id_]
        for key in gone:
            self._touched.append(Touch("deleted", f"vendor.{key[0]}", key[1], self.rows.pop(key).project_id))
        return Outcome.GONE

    @staticmethod
    def _uses(row: Resource, id_: str) -> bool:
        return row.description == f"uses {id_}"

    def _drain(self, project_id: str) -> None:
        self.drained.add(project_id)
        self.drains.append(("drain", project_id))

    def _undrain(self, project_id: str) -> None:
        self.drained.discard(project_id)
        self.drains.append(("undrain", project_id))

    # -- the service
    def versions(self, request: Request) -> Response:
        return Response(404, b"<html>Not Found</html>", type="text/html")

    def error(self, refusal: Refusal) -> Response:
        return Response(refusal.status, {"message": str(refusal)})

    def answer(self, call: Call) -> Response:
        self.users.add(call.token.user)
        method, target = call.request.method, call.request.target
        if (lie := self.lie(method, call.parts[1:])) is not None:
            return lie
        path, _, query = target.partition("?")
        below = path.partition("/project-resources/v1")[2]
        roles = [{"name": role} for role in call.token.roles]
        token = {"user": {"id": call.token.user}, "roles": roles, "project": {"id": call.token.project}}
        environ = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": urllib.parse.unquote_to_bytes(below).decode("latin-1"),
            "QUERY_STRING": query,
            "HTTP_X_AUTH_TOKEN": call.token.id,
            "HTTP_X_IDENTITY_STATUS": "Confirmed",
            "keystone.token_info": {"token": token},
            "REQUEST_URI": f"{below}{'?' if query else ''}{query}",
        }
        started: list[tuple[str, dict[str, str]]] = []
        body = b"".join(self._app(environ, lambda status, headers: started.append((status, dict(headers)))))
        call.touched += self._touched
        self._touched.clear()
        [(status, headers)] = started
        return Response(int(status.split()[0]), body, type=headers.get("Content-Type", "application/json"))
