"""A service made of answers: what a plugin's hooks ask, and what they make of it, without a service."""

from __future__ import annotations

import itertools
import json
import types
from collections.abc import Callable
from typing import Any

import requests
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.plugins.base import ProjectDefinition, Refused, Resource, Verdict

#: (method, path, query, body) to (status, body) or (status, body, headers); a body that is a string is no JSON.
Answer = Callable[[str, str, dict[str, Any], Any], tuple[Any, ...]]


_numbers = itertools.count()


class Answers(Adapter):
    """Writes down what it is asked in ``asked``, and answers from a function."""

    def __init__(self, answer: Answer) -> None:
        # Each is a service of its own: what one has proven says nothing of the next.
        super().__init__(session=None, endpoint_override=f"http://cloud/{next(_numbers)}")
        self.answer = answer
        self.asked: list[tuple[str, str, Any]] = []

    def request(self, url: str, method: str, params: Any = None, json: Any = None, **_: Any) -> requests.Response:
        """Answer a request; see ``keystoneauth1.adapter.Adapter.request``."""
        self.asked.append((method, url, json))
        status, body, *headers = self.answer(method, url, dict(params or {}), json)
        response = requests.Response()
        response.status_code, response.url = status, f"http://cloud{url}"
        response._content = body.encode() if isinstance(body, str) else _dumps(body).encode()
        response.headers["Content-Type"] = "application/json"
        response.headers.update(*headers)
        response.encoding = "utf-8"
        response.request = requests.PreparedRequest()
        response.request.method, response.request.url = method, response.url
        return response

    def writes(self) -> list[tuple[str, str, Any]]:
        """What it was asked to change."""
        return [each for each in self.asked if each[0] != "GET"]


_dumps = json.dumps  # a parameter above has the module's name, for it is requests' name for it


def connection(scope: str = "own", **services: Answer) -> types.SimpleNamespace:
    """A connection to these services, with a token of the project ``scope``."""
    session = types.SimpleNamespace(get_project_id=lambda: scope, get_user_id=lambda: "cleanup")
    config = types.SimpleNamespace(get_session_endpoint=lambda name: "http://cloud" if name in services else None)
    answers = {name: Answers(answer) for name, answer in services.items()}
    return types.SimpleNamespace(session=session, config=config, **answers)


def project(id_: str = "p", members: tuple[str, ...] = (), **options: Any) -> ProjectDefinition:
    """The project under deletion."""
    return ProjectDefinition(id_, "P", "default", "RegionOne", member_ids=members, options=options)


def resource(id_: str = "1", owner: str = "p", **row: Any) -> Resource:
    """A resource as listed, with its row."""
    return Resource(id_, f"n-{id_}", owner, {"id": id_, "project_id": owner, **row})


def ids(rows: list[dict[str, Any]]) -> list[Any]:
    """The ids of rows."""
    return [row["id"] for row in rows]


def listing(module: types.ModuleType, name: str) -> Any:
    """The list of a type of a plugin."""
    return next(type_.list for type_ in module.SERVICE.types if type_.name == name)


def refusal(hook: Callable[..., Any], *args: Any) -> Verdict | None:
    """Return the verdict with which a hook refuses, ``None`` if it does not."""
    try:
        hook(*args)
    except Refused as refused:
        return refused.verdict
    return None
