"""The users of the simulated Keystone that the orchestrator makes: one janitor for each deletion."""

from __future__ import annotations

import dataclasses
from typing import Any
from urllib.parse import parse_qsl

from tests.simulation.keystone import Answer, Keystone, OnWrite, not_found
from tests.support.scheduler import Thread

_PREFIX = "janitor-"


@dataclasses.dataclass
class Janitors:
    """Serves ``/users``. Keystone deletes the grants of a user with it."""

    keystone: Keystone
    on_write: OnWrite
    names: dict[str, str] = dataclasses.field(default_factory=dict)  #: of those that exist, by id
    made: int = 0

    def serve(self, thread: Thread, method: str, parts: list[str], query: str, body: Any) -> Answer:
        """Let a call take effect."""
        if len(parts) == 3:
            return Answer(200, {"groups": []})
        if method == "GET":
            name = dict(parse_qsl(query))["name"]
            rows = [self._row(id_) for id_, found in self.names.items() if found == name]
            return Answer(200, {"users": rows})
        if method == "POST":
            return self._make(thread, body["user"]["name"])
        return self._delete(thread, parts[1])

    def _row(self, id_: str) -> dict[str, Any]:
        return {"id": id_, "name": self.names[id_], "domain_id": "dom"}

    def _make(self, thread: Thread, name: str) -> Answer:
        self.on_write(thread, "POST", f"user {name}", "", None)
        if name in self.names.values():
            return Answer(409, {"error": {"code": 409, "message": "Duplicate entry"}})
        self.made += 1
        id_ = f"{_PREFIX}{self.made}"
        self.names[id_] = name
        return Answer(201, {"user": self._row(id_)})

    def _delete(self, thread: Thread, id_: str) -> Answer:
        self.on_write(thread, "DELETE", f"user {id_}", "", None)
        if self.names.pop(id_, None) is None:
            return not_found()
        self.keystone.flush()
        for project in self.keystone.projects.values():
            project.grants = {grant for grant in project.grants if grant[1] != id_}
        return Answer(204)


def is_janitor(user_id: str) -> bool:
    """Return whether the orchestrator made a user."""
    return user_id.startswith(_PREFIX)
