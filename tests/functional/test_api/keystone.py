"""A small Keystone over real HTTP. It answers keystonemiddleware and ``projects.py`` from dictionaries."""

from __future__ import annotations

import json
import socketserver
import threading
import urllib.parse
import uuid
from wsgiref import simple_server

ADMIN, MANAGER, OTHER_MANAGER, MEMBER, SYSTEM = (
    "admin-token",
    "manager-token",
    "other-manager-token",
    "member-token",
    "system-token",
)
PROJECT_MANAGER, DOMAIN_MEMBER = "project-manager-token", "domain-member-token"
DOMAIN_READER, OTHER_READER, SYSTEM_READER = "domain-reader-token", "other-reader-token", "system-reader-token"
#: Another token of the user of ``MANAGER``, without any right on the domain.
MANAGERS_OTHER = "managers-other-token"
SECOND_ADMIN, THIRD_ADMIN, FOURTH_ADMIN = (f"{which}-admin-token" for which in ("second", "third", "fourth"))
OWN_PROJECT = "0123456789abcdef0123456789abcdef"


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


class _Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        pass


class Keystone:
    """One Keystone; ``broken`` makes it answer 500 to everything."""

    def __init__(self):
        self.projects = {}
        self.tokens = {}
        self.broken = False
        self.otherwise = 404  # the status of what it does not have
        self.list_limit = 10_000
        self.requests = []
        self.server = simple_server.make_server("127.0.0.1", 0, self, server_class=_Server, handler_class=_Quiet)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.project(OWN_PROJECT, "orchestrator")
        self.project("a" * 32, "admin", "default")
        self.project("b" * 32, "service", "default")
        self.project("d1", "Domain One", None, is_domain=True)
        self.project("d2", "Domain Two", None, is_domain=True)
        self.project("p1", "one", "d1")
        self.project("p2", "two", "d2")
        self.project("parent", "parent", "d1")
        self.project("child-1", "c1", "d1", parent="parent")
        self.project("child-2", "c2", "d1", parent="child-1")
        self.token(ADMIN, "admin", project_id=OWN_PROJECT)
        self.token(SECOND_ADMIN, "admin", project_id=OWN_PROJECT)
        self.token(THIRD_ADMIN, "admin", project_id=OWN_PROJECT)
        self.token(FOURTH_ADMIN, "admin", project_id=OWN_PROJECT)
        self.token(SYSTEM, "admin", system=True)
        self.token(MANAGER, "manager", domain_id="d1")
        self.token(OTHER_MANAGER, "manager", domain_id="d2")
        self.token(PROJECT_MANAGER, "manager", project_id="p1")
        self.token(DOMAIN_MEMBER, "member", domain_id="d1")
        self.token(MEMBER, "member", project_id="p1")
        self.token(DOMAIN_READER, "reader", domain_id="d1")
        self.token(OTHER_READER, "reader", domain_id="d2")
        self.token(SYSTEM_READER, "reader", system=True)
        self.token(MANAGERS_OTHER, "member", project_id="p2", user="manager")

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    def project(self, project_id, name, domain="default", parent=None, is_domain=False):
        self.projects[project_id] = {
            "id": project_id, "name": name, "domain_id": domain, "enabled": True, "is_domain": is_domain,
            "parent_id": parent, "options": {},
        }  # fmt: skip

    def token(self, token_id, role, project_id=None, domain_id=None, system=False, user=None, **more):
        """Make a token; ``more``: further members of its body, such as ``OS-TRUST:trust``."""
        user = user or token_id.removesuffix("-token")
        body = {
            "methods": ["password"],
            "user": {"id": f"{user}-id", "name": user, "domain": {"id": "default", "name": "Default"}},
            "roles": [{"id": role, "name": role}],
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "audit_ids": ["x"],
            **more,
        }
        if project_id:
            body["project"] = {"id": project_id, "name": "n", "domain": {"id": "default", "name": "Default"}}
        if domain_id:
            body["domain"] = {"id": domain_id, "name": "d"}
        if system:
            body["system"] = {"all": True}
        self.tokens[token_id] = body
        return token_id

    def _subtree(self, project_id):
        below = {i: self._subtree(i) for i, p in self.projects.items() if p["parent_id"] == project_id}
        return below or None

    def _catalog(self):
        endpoint = {"id": "e", "interface": "internal", "region_id": "RegionOne", "region": "RegionOne"}
        interfaces = ("public", "internal", "admin")
        urls = [{**endpoint, "interface": i, "url": f"{self.url}/v3"} for i in interfaces]
        return [{"id": "s", "type": "identity", "name": "keystone", "endpoints": urls}]

    def __call__(self, environ, start_response):
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        self.requests.append((method, path))
        status, body, headers = self._answer(method, path, environ)
        if status == 401:
            body = {"error": {"code": 401, "title": "Unauthorized", "message": "no"}}
        if status == 404:
            body = {"error": {"code": 404, "title": "Not Found", "message": "not there"}}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        phrase = {200: "OK", 201: "Created", 300: "Multiple Choices"}.get(status, "Error")
        start_response(f"{status} {phrase}", [("Content-Type", "application/json"), *headers])
        return [data]

    def _answer(self, method, path, environ):
        if self.broken:
            return 500, {"error": {"code": 500, "title": "Internal Server Error", "message": "broken"}}, []
        version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": f"{self.url}/v3/"}]}
        match [part for part in path.split("/") if part]:
            case []:
                return 300, {"versions": {"values": [version]}}, []
            case ["v3"]:
                return 200, {"version": version}, []
            case ["v3", "auth", "tokens"] if method == "POST":
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                token_id = uuid.uuid4().hex
                body = self.tokens[self.token(token_id, "admin", project_id=OWN_PROJECT)]
                return 201, {"token": {**body, "catalog": self._catalog()}}, [("X-Subject-Token", token_id)]
            case ["v3", "auth", "tokens"]:
                body = self.tokens.get(environ.get("HTTP_X_SUBJECT_TOKEN"))
                return (200, {"token": body}, []) if body else (404, {}, [])
            case ["v3", "projects"]:
                [(key, [value])] = urllib.parse.parse_qs(environ["QUERY_STRING"]).items()
                rows = [p for p in self.projects.values() if p[key] == value]
                cut = {"truncated": True} if len(rows) > self.list_limit else {}
                return 200, {"projects": rows[: self.list_limit], **cut}, []
            case ["v3", "projects", project_id]:
                project = self.projects.get(project_id)
                if project is None:
                    return 404, {}, []
                shown = dict(project)
                if "subtree_as_ids" in urllib.parse.parse_qs(environ["QUERY_STRING"], keep_blank_values=True):
                    shown["subtree"] = self._subtree(project_id)
                return 200, {"project": shown}, []
            case ["v3", "domains", domain_id] if (domain := self.projects.get(domain_id, {})).get("is_domain"):
                return 200, {"domain": {key: domain[key] for key in ("id", "name", "enabled")}}, []
            case ["v3", "services"]:
                kinds = ("identity", "network", "placement", "weather")
                return 200, {"services": [{"id": k, "type": k, "name": f"my {k}"} for k in kinds]}, []
            case ["v3", "endpoints"]:
                kinds = ("identity", "network", "placement", "weather")
                rows = [{"id": f"e-{k}", "service_id": k, "region_id": "RegionOne"} for k in kinds]
                return 200, {"endpoints": rows}, []
        return self.otherwise, {}, []
