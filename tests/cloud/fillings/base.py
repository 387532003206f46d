"""The common part of all fillings: the project, its user, and a REST call that raises when it is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import openstack.connection


class FillError(Exception):
    """The cloud refused to create something."""


class Rest:
    """A client of one service with one token. JSON in, JSON out, and an exception for every failure.

    The bodies are those of the REST APIs, and not resources of openstacksdk: the fillings must not depend on the types
    and fields that the SDK supports.
    """

    def __init__(self, proxy: Any, headers: dict[str, str] | None = None) -> None:
        self.proxy = proxy
        self.headers = headers or {}

    def raw(self, method: str, path: str, ok: Iterable[int] = (), **options: Any) -> Any:
        headers = {**self.headers, **options.pop("headers", {})}
        # On a busy machine Keystone may answer 503 for a moment, because it has no recent reading of the fences.
        options.setdefault("status_code_retries", 4)
        options.setdefault("timeout", 300)  # seconds without a byte: a service that hangs is named, and not the test
        answer = self.proxy.request(path, method, raise_exc=False, headers=headers, **options)
        if answer.status_code >= 400 and answer.status_code not in ok:
            raise FillError(f"{method} {path} answered {answer.status_code}: {answer.text[:300]}")
        return answer

    def call(self, method: str, path: str, body: object = None, ok: Iterable[int] = (), **options: Any) -> Any:
        if body is not None:
            options["json"] = body
        answer = self.raw(method, path, ok, **options)
        if answer.status_code >= 400 or not answer.content:  # a tolerated refusal may be HTML
            return {}
        return answer.json()

    def ensure(self, collection: str, key: str, body: dict[str, Any], by: str = "name", **match: str) -> str:
        """Return the id of the object with the same name (or field `by`); create it if there is none."""
        short = collection.rsplit("/", 1)[-1].replace("-", "_")
        found = self.call("GET", f"/{collection}", params={by: body[by], **match})[short]
        if not found:
            found = [self.call("POST", f"/{collection}", {key: body})[key]]
        return found[0]["id"]


def client(connection: openstack.connection.Connection, service_type: str, **headers: str) -> Rest:
    """Return a client of a service that openstacksdk does not know."""
    proxy = connection.config.get_session_client(service_type)
    proxy._connection = connection  # the SDK's client raises without it
    return Rest(proxy, headers)


@dataclass
class Filled:
    """A project, its users, and the ids of its resources by kind."""

    project_id: str
    project_name: str
    user_id: str
    user_name: str
    password: str
    group_id: str
    colleague_id: str  # has access to the project only through the group
    connection: openstack.connection.Connection  # scoped into the project, as the user
    partner_id: str  # the project that things are shared with
    ids: dict[str, list[str]] = field(default_factory=dict)

    def note(self, kind: str, *ids: str) -> str:
        """Record ids; return the first."""
        known = self.ids.setdefault(kind, [])
        known.extend(i for i in ids if i not in known)
        return ids[0]

    def first(self, kind: str, at: int = 0) -> str:
        return self.ids[kind][at]


class Filling:
    """The context of every function that makes resources: clients, project and partner."""

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
