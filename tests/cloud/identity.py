"""The few idempotent Keystone calls that the cloud needs, with nothing but the standard library."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from tests.cloud.errors import CloudError, Conflict, Unauthorized

INTERFACES = ("public", "internal", "admin")
#: Seconds for which a request is repeated when Keystone answers 503: on a busy machine a Keystone with the fence plugin
#: may have no recent reading of the fences.
PATIENCE = 60.0
_ERRORS: Mapping[int, type[CloudError]] = {401: Unauthorized, 409: Conflict}


class Rest:
    """An administrator's session: one token, JSON in, JSON out."""

    def __init__(self, auth_url: str, user: str, password: str, project: str) -> None:
        self.auth_url = auth_url
        self._user, self._password, self._project = user, password, project
        self._token = ""

    def _authenticate(self) -> None:
        domain = {"id": "default"}
        body = {
            "auth": {
                "identity": {
                    "methods": ["password"],
                    "password": {"user": {"name": self._user, "domain": domain, "password": self._password}},
                },
                "scope": {"project": {"name": self._project, "domain": domain}},
            }
        }
        _, headers = self._send("POST", f"{self.auth_url}/auth/tokens", body, {})
        self._token = headers["X-Subject-Token"]

    @staticmethod
    def _send(method: str, url: str, body: object, headers: dict[str, str]) -> tuple[Any, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            url, data=data, method=method, headers={"Content-Type": "application/json", **headers}
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    text = answer.read()
                    return (json.loads(text) if text else {}), answer.headers
            except urllib.error.HTTPError as error:
                if error.code == 503 and time.monotonic() < deadline:
                    time.sleep(0.2)
                    continue
                said = " ".join(error.read().decode(errors="replace").split())[:300]
                kind = _ERRORS.get(error.code, CloudError)
                raise kind(f"{method} {url} answered {error.code}: {said}") from error
            except OSError as error:
                raise CloudError(f"{method} {url} failed: {error}") from error

    def call(self, method: str, url: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:
        """Send a request; a URL that begins with a slash is Keystone's."""
        if not self._token:
            self._authenticate()
        if url.startswith("/"):
            url = self.auth_url + url
        try:
            return self._send(method, url, body, {"X-Auth-Token": self._token, **(headers or {})})[0]
        except Unauthorized:  # a token lasts for an hour, and a cloud may run for longer
            self._authenticate()
            return self._send(method, url, body, {"X-Auth-Token": self._token, **(headers or {})})[0]

    def ensure(self, collection: str, key: str, attributes: dict[str, Any], **match: str) -> dict[str, Any]:
        """Return the object with that name; create it if there is none, also if another process does the same."""
        url = f"/{collection}?{urllib.parse.urlencode({'name': attributes['name'], **match})}"
        if found := self.call("GET", url)[collection]:
            return found[0]
        try:
            return self.call("POST", f"/{collection}", {key: attributes})[key]
        except Conflict:
            return self.call("GET", url)[collection][0]

    def ensure_role(self, project_id: str, user_id: str, role: str) -> None:
        """Give the user the role on the project; the role is created if need be."""
        role_id = self.ensure("roles", "role", {"name": role})["id"]
        self.call("PUT", f"/projects/{project_id}/users/{user_id}/roles/{role_id}")

    def ensure_inherited_role(self, user: str, role: str, domain_id: str = "default") -> None:
        """Give the user the role on every project of the domain.

        The orchestrator's user needs it for complete plans: Barbican and Swift show its resources only to a token
        of the project, and a dry run grants no role.
        """
        (found,) = self.call("GET", f"/users?{urllib.parse.urlencode({'name': user, 'domain_id': 'default'})}")["users"]
        role_id = self.ensure("roles", "role", {"name": role})["id"]
        path = f"/OS-INHERIT/domains/{domain_id}/users/{found['id']}/roles/{role_id}/inherited_to_projects"
        self.call("PUT", path)

    def ensure_user(self, name: str, password: str, project: str, roles: tuple[str, ...]) -> dict[str, Any]:
        """A user with these roles on a project of the default domain; both are created if need be."""
        domain = {"domain_id": "default"}
        project_id = self.ensure("projects", "project", {"name": project, **domain}, **domain)["id"]
        user = self.ensure("users", "user", {"name": name, "password": password, **domain}, **domain)
        for role in roles:
            self.ensure_role(project_id, user["id"], role)
        return user

    def ensure_domain_admin(self, domain: str, user: str, password: str) -> None:
        """A domain, and a user in it who administers it; both are created if need be."""
        domain_id = self.ensure("domains", "domain", {"name": domain})["id"]
        attributes = {"name": user, "password": password, "domain_id": domain_id}
        user_id = self.ensure("users", "user", attributes, domain_id=domain_id)["id"]
        role_id = self.ensure("roles", "role", {"name": "admin"})["id"]
        self.call("PUT", f"/domains/{domain_id}/users/{user_id}/roles/{role_id}")

    def ensure_service(self, service_type: str, name: str, url: str, region: str) -> None:
        """Register a service with its three endpoints at `url`; correct endpoints with another URL."""
        found = self.call("GET", f"/services?{urllib.parse.urlencode({'type': service_type})}")["services"]
        service = (
            found[0]
            if found
            else self.call("POST", "/services", {"service": {"type": service_type, "name": name}})["service"]
        )
        endpoints = self.call("GET", f"/endpoints?service_id={service['id']}")["endpoints"]
        for interface in INTERFACES:
            known = [e for e in endpoints if e["interface"] == interface and e["region_id"] == region]
            if not known:
                endpoint = {"service_id": service["id"], "interface": interface, "region_id": region, "url": url}
                self.call("POST", "/endpoints", {"endpoint": endpoint})
            elif known[0]["url"] != url:
                self.call("PATCH", f"/endpoints/{known[0]['id']}", {"endpoint": {"url": url}})
