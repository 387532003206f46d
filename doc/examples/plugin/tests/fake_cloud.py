"""Keystone and the imaginary service of functions, as far as the tests need them: one HTTP server on loopback."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PROJECT, OTHER = "11111111111111111111111111111111", "22222222222222222222222222222222"
#: Users with the project of their token, and their role. The password is the name.
USERS = {"admin": (OTHER, "admin"), "member": (OTHER, "member")}
CREATED = "2026-01-31T12:00:00Z"
PAGE = 100  #: rows of a page, if the request has no limit


def rows(kind, count, **values):
    """Return rows of the project, and one of another project."""
    owners = [PROJECT] * count + [OTHER]
    return [
        {"id": f"{kind}-{n:04}", "name": f"the {n}th", "project_id": owner, "created_at": CREATED, **values}
        for n, owner in enumerate(owners)
    ]


class FakeCloud:
    """The server, while the context is open."""

    def __init__(self):
        self.writes = []  #: method and path of each request that could change something
        self.tables = {"functions": rows("function", 3), "triggers": rows("trigger", 2)}
        self._tokens = {}
        handler = type("Handler", (_Handler,), {"cloud": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()

    def clouds(self):
        """Return the content of a clouds.yaml for the users."""
        return {"clouds": {user: self._cloud(user, project) for user, (project, _role) in USERS.items()}}

    def _cloud(self, user, project):
        who = {"username": user, "password": user, "user_domain_id": "default", "project_id": project}
        return {"auth": {"auth_url": f"{self.url}/v3", **who}, "region_name": "RegionOne"}

    # -- Keystone
    def log_in(self, body):
        user = body["auth"]["identity"]["password"]["user"]["name"]
        project = body["auth"]["scope"]["project"]["id"]
        role = USERS[user][1]
        token = f"token-{len(self._tokens)}"
        self._tokens[token] = (role, project)
        urls = {"identity": f"{self.url}/v3", "function-engine": f"{self.url}/functions/v1"}
        catalog = [
            {"type": type_, "id": type_, "name": type_, "endpoints": [self._endpoint(url)]}
            for type_, url in urls.items()
        ]
        domain = {"id": "default", "name": "Default"}
        said = {
            "user": {"id": user, "name": user, "domain": domain},
            "project": {"id": project, "name": project, "domain": domain},
            "roles": [{"id": role, "name": role}],
            "catalog": catalog,
            "methods": ["password"],
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": "2999-01-01T00:00:00.000000Z",
        }
        return 201, {"token": said}, {"X-Subject-Token": token}

    @staticmethod
    def _endpoint(url):
        return {"id": url, "interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": url}

    def identity(self, parts):
        if not parts:
            links = [{"rel": "self", "href": f"{self.url}/v3/"}]
            return 200, {"version": {"id": "v3.14", "status": "stable", "links": links}}, {}
        if parts[0] == "projects" and parts[1] in (PROJECT, OTHER):
            return 200, {"project": {"id": parts[1], "name": parts[1], "domain_id": "default", "enabled": True}}, {}
        if parts[0] == "role_assignments":
            return 200, {"role_assignments": [], "links": {"next": None}}, {}
        return 404, {"error": {"code": 404, "title": "Not Found", "message": "Could not find it."}}, {}

    # -- the service of functions
    def functions(self, parts, query, token):
        role, project = self._tokens[token]
        kind, identity = parts[0], parts[1] if len(parts) > 1 else ""
        if kind == "workers":
            return (
                (200, {"workers": []}, {}) if role == "admin" else (403, {"message": "only admins may list them"}, {})
            )
        seen = [row for row in self.tables[kind] if role == "admin" or row["project_id"] == project]
        if identity:
            found = [row for row in seen if row["id"] == identity]
            return (200, {kind.removesuffix("s"): found[0]}, {}) if found else (404, {"message": "no such id"}, {})
        wanted, marker = query.get("project_id", [""])[0], query.get("marker", [""])[0]
        seen = [row for row in seen if wanted in ("", row["project_id"]) and row["id"] > marker]
        return 200, {kind: seen[: int(query.get("limit", [PAGE])[0])]}, {}


class _Handler(BaseHTTPRequestHandler):
    cloud = None

    def do_GET(self):
        url = urlsplit(self.path)
        parts = [part for part in url.path.split("/") if part]
        if parts[:1] == ["v3"]:
            self._answer(*self.cloud.identity(parts[1:]))
        elif parts[:2] == ["functions", "v1"] and parts[2:]:
            self._answer(*self.cloud.functions(parts[2:], parse_qs(url.query), self.headers["X-Auth-Token"]))
        else:
            self._answer(404, {}, {})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/v3/auth/tokens":
            self._answer(*self.cloud.log_in(json.loads(body)))
        else:
            self.do_DELETE()

    def do_DELETE(self):
        self.cloud.writes.append((self.command, self.path))
        self._answer(202, {}, {})

    do_PUT = do_PATCH = do_POST

    def _answer(self, status, body, headers):
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(text)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments):
        """Write no log."""
