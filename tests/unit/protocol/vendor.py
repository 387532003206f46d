"""A service that speaks the project resources protocol, in memory, and a session that reaches it.

A test replaces single answers, to make the service lie.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import requests

from cleanup_orchestrator.core.step import StepResult
from cleanup_orchestrator.plugins.base import ProjectDefinition
from cleanup_orchestrator.protocol.documents import (
    Capabilities,
    Page,
    Problem,
    ProblemType,
    Resource,
    ResourceType,
    State,
)
from cleanup_orchestrator.protocol.plugin import service
from tests.support import sweeps

BASE = "http://vendor/project-resources/v1"
PROJECT = ProjectDefinition("p1", "P", "d", "R1")
WIDGET = ResourceType("widget", "a widget")

#: Takes the method and the parts of the path below the base URL; returns an answer in place of the honest one.
Lie = Callable[[str, list[str]], "requests.Response | None"]


def response(status: int, body: Any = None, type_: str = "application/json", **headers: str) -> requests.Response:
    """Return a response; a body that is no text is sent as JSON."""
    made = requests.Response()
    made.status_code = status
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    made._content = text.encode()
    made.headers.update({"Content-Type": type_, **headers})
    return made


def problem(type_: ProblemType, detail: str = "because") -> requests.Response:
    """Return an error of the protocol."""
    document = Problem(type_, detail, "req-1")
    return response(document.status, document.to_dict(), "application/problem+json")


class Vendor:
    """The service: its resources by type, and what was asked of it."""

    def __init__(self, *types: ResourceType, page: int = 1000) -> None:
        self.capabilities = Capabilities("vendor", types or (WIDGET,))
        self.rows: dict[str, dict[str, Resource]] = {type_.name: {} for type_ in self.capabilities.types}
        self.page = page
        self.lie: Lie = lambda *_: None
        self.asked: list[tuple[str, str]] = []
        self.options: list[dict[str, Any]] = []
        self.slow = False  #: whether a delete is accepted, and takes until the next list

    # -- for a test
    def add(self, id_: str, project_id: str = "p1", type_: str = "widget", **values: Any) -> None:
        """Add a resource."""
        self.rows[type_][id_] = Resource(id_, project_id, **{"name": f"name of {id_}", **values})

    def left(self, type_: str = "widget") -> list[str]:
        """Return the ids of the resources that are there."""
        return list(self.rows[type_])

    def deletes(self) -> list[str]:
        """Return the paths of the deletes that were asked for."""
        return [path for method, path in self.asked if method == "DELETE"]

    def type_(self, name: str = "widget") -> Any:
        """Return the resource type that the orchestrator makes of it."""
        return next(t for t in service(self.capabilities, BASE).types if t.name == name)

    def inventory(self, name: str = "widget", project: ProjectDefinition = PROJECT, **options: Any) -> StepResult:
        """Return the inventory of a type."""
        return sweeps.inventory(self.type_(name), Connection(self), project, **options)

    def delete(self, name: str = "widget", project: ProjectDefinition = PROJECT, **options: Any) -> StepResult:
        """Delete what the project owns of a type."""
        return sweeps.delete(self.type_(name), Connection(self), project, **options)

    # -- the session
    def request(self, url: str, method: str, **options: Any) -> requests.Response:
        """Answer a request."""
        assert url.startswith(BASE)
        path = urlsplit(url).path.removeprefix(urlsplit(BASE).path)
        self.asked.append((method, path))
        self.options.append(options)
        parts = [unquote(part) for part in path.split("/")[1:]]
        assert not parse_qs(urlsplit(url).query), "the query is passed as params"
        lie = self.lie(method, parts)  # a response with an error is false
        return self.answer(method, parts, options.get("params") or {}) if lie is None else lie

    def answer(self, method: str, parts: list[str], query: dict[str, Any]) -> requests.Response:
        """Answer as the protocol says."""
        _, project_id, type_, *rest = parts
        rows = self.rows[type_]
        mine = [row for row in rows.values() if row.project_id == project_id]
        if not rest:
            start, limit = int(query.get("marker") or 0), min(int(query["limit"]), self.page)
            more = str(start + limit) if start + limit < len(mine) else None
            page = Page(tuple(mine[start : start + limit]), more)
            return response(200, page.to_dict(project_id, type_))
        found = next((row for row in mine if row.id == rest[0]), None)
        if found is None:
            return problem(ProblemType.NOT_FOUND)
        if method == "GET":
            return response(200, found.to_dict())
        if found.used_by:
            return problem(ProblemType.IN_USE, "it is in use")
        if found.protected:
            return problem(ProblemType.PROTECTED, "it is locked")
        if self.slow:
            rows[found.id] = dataclasses.replace(found, state=State.DELETING)
            return response(202)
        del rows[found.id]
        return response(204)


class Connection:
    """The connection that a hook is given."""

    def __init__(self, session: Any) -> None:
        self.session = session
