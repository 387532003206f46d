"""What every filling works with: the project, who acts in it, and a REST call that raises when refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import openstack.connection


class FillError(Exception):
    """The cloud refused to create something."""


class Rest:
    """One service behind one token. JSON in, JSON out, and an exception for whatever is not a success.

    The bodies are the services' own, not those of openstacksdk's resources: what is created must not depend on what the
    SDK happens to know.
    """

    def __init__(self, proxy: Any, headers: dict[str, str] | None = None) -> None:
        self.proxy = proxy
        self.headers = headers or {}

    def raw(self, method: str, path: str, ok: Iterable[int] = (), **options: Any) -> Any:
        headers = {**self.headers, **options.pop("headers", {})}
        # On a machine with too much to do, Keystone may refuse for a moment to say what is fenced.
        options.setdefault("status_code_retries", 4)
        answer = self.proxy.request(path, method, raise_exc=False, headers=headers, **options)
        if answer.status_code >= 400 and answer.status_code not in ok:
            raise FillError(f"{method} {path} answered {answer.status_code}: {answer.text[:300]}")
        return answer

    def call(self, method: str, path: str, body: object = None, ok: Iterable[int] = (), **options: Any) -> Any:
        if body is not None:
            options["json"] = body
        answer = self.raw(method, path, ok, **options)
        if answer.status_code >= 400 or not answer.content:  # a tolerated refusal may well be HTML
            return {}
        return answer.json()

    def ensure(self, collection: str, key: str, body: dict[str, Any], by: str = "name", **match: str) -> str:
        """The id of the object that has the same name (or what `by` says), created if there is none."""
        short = collection.rsplit("/", 1)[-1].replace("-", "_")
        found = self.call("GET", f"/{collection}", params={by: body[by], **match})[short]
        if not found:
            found = [self.call("POST", f"/{collection}", {key: body})[key]]
        return found[0]["id"]


@dataclass
class Filled:
    """A project, who may act in it, and the ids of what was put into it, by kind."""

    project_id: str
    project_name: str
    user_id: str
    user_name: str
    password: str
    group_id: str
    colleague_id: str  # gets at the project by way of the group alone
    connection: openstack.connection.Connection  # scoped into the project, as the user
    partner_id: str  # the project that things are shared with
    ids: dict[str, list[str]] = field(default_factory=dict)

    def note(self, kind: str, *ids: str) -> str:
        """Record ids; gives back the first."""
        known = self.ids.setdefault(kind, [])
        known.extend(i for i in ids if i not in known)
        return ids[0]

    def first(self, kind: str, at: int = 0) -> str:
        return self.ids[kind][at]


class Filling:
    """Who acts, and where: handed to every function that fills something in."""

    def __init__(self, admin: openstack.connection.Connection, filled: Filled, expiring_in: int, objects: int) -> None:
        self.admin_connection = admin
        self.filled = filled
        self.project_id = filled.project_id
        self.name = filled.project_name
        self.expiring_in = expiring_in
        self.objects = objects
        user = filled.connection
        self.network, self.network_admin = Rest(user.network), Rest(admin.network)
        self.image, self.image_admin = Rest(user.image), Rest(admin.image)
        self.identity, self.identity_admin = Rest(user.identity), Rest(admin.identity)
        self.objects_store = Rest(user.object_store)
        # 1.1 brings the consumers of secrets
        self.secrets = Rest(user.key_manager, {"OpenStack-API-Version": "key-manager 1.1"})
        self.secrets_admin = Rest(admin.key_manager)
        self._extensions: set[str] = set()

    def extension(self, alias: str) -> bool:
        """Whether this Neutron has the extension."""
        if not self._extensions:
            self._extensions = {e["alias"] for e in self.network.call("GET", "/extensions")["extensions"]}
        return alias in self._extensions

    def note(self, kind: str, *ids: str) -> str:
        return self.filled.note(kind, *ids)

    def first(self, kind: str, at: int = 0) -> str:
        return self.filled.first(kind, at)
