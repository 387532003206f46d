"""Keystone: tokens, projects and grants by hand, everything else as rows."""

from __future__ import annotations

import datetime
import itertools
import secrets
from dataclasses import dataclass, field
from typing import Any

from cleanup_orchestrator.keystone import guard, protocol
from tests.emulated.http import Request, Response
from tests.emulated.service import Call, Place, Refusal, Service, candidates
from tests.emulated.state import Kind, Row, Touch
from tests.emulated.tables import WITH_PROJECT

DOMAIN = "default"
TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
}
UNAUTHENTICATED = "The request you have made requires authentication."


@dataclass(slots=True)
class Project:
    """A project."""

    id: str
    name: str
    parent_id: str = DOMAIN
    domain_id: str = DOMAIN
    enabled: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    def render(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "domain_id": self.domain_id,
            "description": "",
            "enabled": self.enabled,
            "parent_id": self.parent_id,
            "is_domain": False,
            "tags": [],
            "options": self.options,
            "links": {},
        }


@dataclass(slots=True)
class Token:
    """A token, as services need it. Its validity is checked for each request: nothing is cached here."""

    id: str
    user: str
    project: str = ""
    issued: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    roles: frozenset[str] = frozenset()  #: names, as of the latest validation


class Identity(Service):
    """Keystone."""

    type = "identity"
    version = "v3"

    def __init__(self, cloud: Any, region: str) -> None:
        super().__init__(cloud, region)
        self.projects: dict[str, Project] = {}
        self.passwords: dict[str, str] = {}
        self.members: dict[str, set[str]] = {}  #: users by group
        #: (``users`` or ``groups``, id, role id) by project; those on the domain are inherited by all its projects
        self.grants: dict[str, set[tuple[str, str, str]]] = {DOMAIN: set()}
        self.endpoint_filters: dict[str, list[str]] = {}
        self.tokens: dict[str, Token] = {}
        self.fences = False  #: whether the fence plugin is installed

    @property
    def url(self) -> str:
        return f"{self.cloud.url}/identity/v3"

    def versions(self, request: Request) -> Response:
        version = {
            "id": "v3.14",
            "status": "stable",
            "updated": "2020-04-07T00:00:00Z",
            "links": [{"rel": "self", "href": f"{self.url}/"}],
            "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
        }
        if self.version in request.parts:
            return Response(200, {"version": version})
        if any(request.parts[1:]):  # a version that Keystone does not have
            return self.error(Refusal(404, "The requested URL was not found on the server."))
        return Response(300, {"versions": {"values": [version]}})

    def error(self, refusal: Refusal) -> Response:
        code = refusal.status
        return Response(code, {"error": {"code": code, "message": refusal.message, "title": TITLES.get(code, "Error")}})

    # -- who may what
    def roles(self, user: str, project: str) -> frozenset[str]:
        """The names of the roles in effect."""
        names = self.table("role").rows
        return frozenset(names[role].get("name") for who, role, _ in self.effective(project) if who == user)

    def effective(self, project: str) -> list[tuple[str, str, str]]:
        """(user, role, the group it comes by) of all roles in effect."""
        found = []
        domain = self.projects[project].domain_id if project in self.projects else DOMAIN
        for actor, id_, role in sorted(self.grants.get(project, set()) | self.grants.get(domain, set())):
            users = [id_] if actor == "users" else sorted(self.members.get(id_, ()))
            found += [(user, role, id_ if actor == "groups" else "") for user in users]
        return found

    def good(self, token_id: str, canary: str = "") -> Token | None:
        """The token, if Keystone would validate it now."""
        token = self.tokens.get(token_id)
        if token is None or not token.project:
            return token
        if not self._open(token.user, token.project, canary):
            return None
        token.roles = self.roles(token.user, token.project)
        return token if token.roles else None

    def _open(self, user: str, project_id: str, canary: str = "") -> bool:
        """Whether the project is there, enabled, and not behind a fence for this user."""
        project = self.projects.get(project_id)
        if project is None or not project.enabled:
            return False
        fence = project.options.get(protocol.FENCE_OPTION)
        exempt = (self.cloud.orchestrator_id, project.options.get(protocol.JANITOR_OPTION))
        return fence is None or (user in exempt and canary != fence)

    def _caller(self, call: Call) -> guard.Caller:
        """The caller, for the checks of the package: every caller of Keystone is an admin here."""
        return guard.Caller(call.token.user, call.token.user == self.cloud.orchestrator_id, lambda: True)

    @staticmethod
    def _check(refusal: guard.Refusal | None) -> None:
        if refusal is not None:
            raise Refusal(refusal.status, refusal.message)

    # -- requests
    def answer(self, call: Call) -> Response:
        parts, method = call.parts, call.request.method
        if parts == ["auth", "tokens"]:
            return self._tokens(call, method)
        if "admin" not in call.token.roles:
            raise Refusal(403, "You are not authorized to perform the requested action.")
        if parts[0] == "role_assignments" and method == "GET":
            return self._assignments(call)
        if parts[0] == "projects":
            return self._project(call, method)
        if parts[:2] == ["OS-EP-FILTER", "projects"]:
            self._get(parts[2])
            ids = self.endpoint_filters.get(parts[2], [])
            rows = [self.table("endpoint").rows[i].render() for i in ids]
            if parts[3] == "endpoint_groups":  # of the same endpoints
                rows = [{"id": f"group-{i}", "name": "group", "description": None, "filters": {}} for i in ids]
            return self._listed(call, parts[3], rows)
        return super().answer(call)

    def missing(self, place: Place) -> Refusal:
        return Refusal(404, f"Could not find {place.kind.one}: {place.id}.")

    def shown(self, row: Row) -> dict[str, Any]:
        body = super().shown(row)
        if row.kind.name == "trust":
            body["trust"] |= {
                "roles": [role.render() for role in self.table("role").rows.values()][:1],
                "roles_links": {},
            }
        return body

    def collection(self, call: Call, kind: Kind, parent: str) -> Response:
        # Keystone returns an empty list for an unknown user, and no error.
        filters = {k: {v} for k, v in call.request.query if k in kind.shape or k in (kind.id, *kind.owner)}
        if parent:
            filters[kind.parent] = {parent}
        return self._listed(call, kind.many, [row.render() for row in candidates(self.table(kind), filters)])

    def _listed(self, call: Call, key: str, rows: list[dict[str, Any]]) -> Response:
        links = {"next": None, "self": f"{self.cloud.url}{call.request.target}", "previous": None}
        return Response(200, {key: rows, "links": links})

    # -- tokens
    def _tokens(self, call: Call, method: str) -> Response:
        if method == "POST":
            canary = call.request.headers.get(protocol.CANARY_HEADER.lower(), "")
            token = self._authenticate(call.request.json()["auth"])
            if canary and not self._open(token.user, token.project, canary):
                del self.tokens[token.id]
                refused = self.error(Refusal(401, UNAUTHENTICATED))
                refused.headers[protocol.FENCED_HEADER] = canary
                return refused
            call.token = token
            call.touched.append(Touch("made", "identity.token", token.id, token.project))
            return Response(201, self._shown(token, True), {"X-Subject-Token": token.id})
        subject = call.request.headers.get("x-subject-token", "")
        canary = call.request.headers.get(protocol.CANARY_HEADER.lower(), "")
        found = self.good(subject, canary)
        if found is None:
            refused = self.error(Refusal(404, "Could not find token."))
            if canary and self.good(subject):
                refused.headers[protocol.FENCED_HEADER] = canary
            return refused
        if method == "DELETE":
            del self.tokens[subject]
            call.touched.append(Touch("deleted", "identity.token", subject, found.project))
            return Response(204)
        catalog = all(key != "nocatalog" for key, _ in call.request.query)
        return Response(200, self._shown(found, catalog), {"X-Subject-Token": subject})

    def _authenticate(self, auth: dict[str, Any]) -> Token:
        refusal = Refusal(401, UNAUTHENTICATED)
        identity = auth["identity"]
        if "password" in identity["methods"]:
            said = identity["password"]["user"]
            by = {said["id"]: 0} if "id" in said else {
                row.id: 0 for row in candidates(self.table("user"), {"name": {said["name"]}})
            }  # fmt: skip
            user = next(iter(by), "")
            if not user or self.passwords.get(user) != said.get("password"):
                raise refusal
        elif "token" in identity["methods"]:
            old = self.good(identity["token"]["id"])
            if old is None:
                raise refusal
            user = old.user
        else:
            raise refusal
        token = Token(secrets.token_urlsafe(32), user)
        if wanted := auth.get("scope", {}).get("project"):
            named = (p.id for p in self.projects.values() if p.name == wanted.get("name"))
            token.project = wanted.get("id") or next(named, "")
            token.roles = self.roles(user, token.project)
            if not token.roles or not self._open(user, token.project):
                raise refusal
        self.tokens[token.id] = token
        return token

    def _shown(self, token: Token, catalog: bool) -> dict[str, Any]:
        domain = {"id": DOMAIN, "name": "Default"}
        user = self.table("user").rows[token.user]
        issued, expires = token.issued, token.issued + datetime.timedelta(hours=1)
        body: dict[str, Any] = {
            "methods": ["password"],
            "user": {"domain": domain, "id": user.id, "name": user.get("name"), "password_expires_at": None},
            "audit_ids": [token.id[:22]],
            "expires_at": expires.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "issued_at": issued.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        if token.project:
            project = self.projects[token.project]
            of = {"id": project.domain_id, "name": self.table("domain").rows[project.domain_id].get("name")}
            body["project"] = {"domain": of, "id": project.id, "name": project.name}
            body["is_domain"] = False
            roles = self.table("role").rows.values()
            body["roles"] = [{"id": r.id, "name": r.get("name")} for r in roles if r.get("name") in token.roles]
            if catalog:
                body["catalog"] = self._catalog(token.project)
        return {"token": body}

    def _catalog(self, project: str) -> list[dict[str, Any]]:
        by_service: dict[str, list[dict[str, Any]]] = {}
        for row in self.table("endpoint").rows.values():
            shown = {key: row.get(key) for key in ("id", "interface", "region_id", "region")}
            shown["url"] = row.get("url").replace("%(project_id)s", project)
            by_service.setdefault(row.get("service_id"), []).append(shown)
        return [
            {"endpoints": by_service.get(s.id, []), "id": s.id, "type": s.get("type"), "name": s.get("name")}
            for s in self.table("service").rows.values()
        ]

    # -- projects
    def _get(self, project_id: str) -> Project:
        if project_id not in self.projects:
            raise Refusal(404, f"Could not find project: {project_id}.")
        return self.projects[project_id]

    def _project(self, call: Call, method: str) -> Response:
        parts, query = call.parts, dict(call.request.query)
        if len(parts) == 1:
            wanted = {k: v for k, v in query.items() if k in ("name", "parent_id", "domain_id")}
            rows = [p.render() for p in self.projects.values()]
            return self._listed(call, "projects", [r for r in rows if all(r[k] == v for k, v in wanted.items())])
        project = self._get(parts[1])
        if len(parts) == 6 and parts[4] == "roles":
            return self._grant(call, project, parts[2], parts[3], parts[5])
        if len(parts) > 2:
            raise Refusal(404, "The requested URL was not found on the server.")
        shown = project.render()
        if method == "GET":
            if "subtree_as_ids" in query:
                shown["subtree"] = self._subtree(project.id)
            return Response(200, {"project": shown})
        if method == "PATCH":
            return self._update(call, project)
        if method == "DELETE":
            return self._delete(call, project)
        raise Refusal(405, "The method is not allowed for the requested URL.")

    def _subtree(self, project_id: str) -> dict[str, Any] | None:
        return {p.id: self._subtree(p.id) for p in self.projects.values() if p.parent_id == project_id} or None

    def _update(self, call: Call, project: Project) -> Response:
        values = call.request.json()["project"]
        options = values.get("options", {})
        known = {"immutable", *(protocol.OPTION_IDS if self.fences else ())}
        if unknown := set(options) - known:
            raise Refusal(400, f"Invalid input for field/attribute options: {sorted(unknown)} was unexpected")
        if self.fences:
            self._check(guard.update(values, project.options, self._caller(call)))
            clock = int(datetime.datetime.now(datetime.UTC).timestamp() * 1000)
            options = guard.next_options(options, project.options, self._caller(call), clock)
        below = [p for p in self.projects.values() if p.parent_id == project.id and p.enabled]
        if values.get("enabled") is False and below:
            raise Refusal(403, f"Cannot disable project {project.id} since its subtree contains enabled projects.")
        project.enabled = values.get("enabled", project.enabled)
        merged = {**project.options, **options}
        project.options = {k: v for k, v in merged.items() if v is not None}
        call.touched.append(Touch("changed", "identity.project", project.id, project.id))
        return Response(200, {"project": {**project.render(), "extra": {}}})

    def _delete(self, call: Call, project: Project) -> Response:
        if any(p.parent_id == project.id for p in self.projects.values()):
            raise Refusal(403, f"Cannot delete the project {project.id} since it is not a leaf in the hierarchy.")
        if project.options.get("immutable"):
            raise Refusal(403, f"Cannot delete project {project.id}: it is immutable.")
        headers = call.request.headers
        names = (protocol.FINAL_HEADER, protocol.SERIAL_HEADER)
        sent = {name: headers[name.lower()] for name in names if name.lower() in headers}
        self._check(guard.delete(project.id, {project.id: project.options}, self._caller(call), sent))
        del self.projects[project.id]
        self.grants.pop(project.id, None)
        self.endpoint_filters.pop(project.id, None)
        call.touched.append(Touch("deleted", "identity.project", project.id, project.id))
        for name in WITH_PROJECT:
            for row in list(self.table(name).owned.get(project.id, {}).values()):
                call.touched += self.state.delete("", row)
        self.cloud.project_deleted(project.id)
        return Response(204)

    # -- grants
    def _grant(self, call: Call, project: Project, actor: str, id_: str, role: str) -> Response:
        method = call.request.method
        # The role of a user that a directory no longer lists can be taken (allow_non_existing), and not be given.
        known = id_ in self.table(actor.removesuffix("s")).rows or method == "DELETE"
        if role not in self.table("role").rows or not known:
            raise Refusal(404, f"Could not find {actor.removesuffix('s')} {id_}, or role {role}.")
        grants, grant = self.grants.setdefault(project.id, set()), (actor, id_, role)
        if method in ("PUT", "DELETE"):
            self._check(guard.change(project.options, self._caller(call)))
        if method == "PUT":
            grants.add(grant)
            call.touched.append(Touch("made", "identity.grant", f"{id_}/{role}", project.id))
            return Response(204)
        if grant not in grants:
            raise Refusal(404, f"Could not find role assignment with role: {role}, on project {project.id}.")
        if method == "DELETE":
            grants.discard(grant)
            call.touched.append(Touch("deleted", "identity.grant", f"{id_}/{role}", project.id))
        return Response(204)

    def _assignments(self, call: Call) -> Response:
        query = dict(call.request.query)
        wanted = query.get("scope.project.id")
        projects = [wanted] if wanted else list(self.projects)
        if wanted:
            self._get(wanted)
        rows = itertools.chain.from_iterable(self._assigned(p, "effective" in query) for p in projects)
        return self._listed(call, "role_assignments", list(rows))

    def _assigned(self, project: str, effective: bool) -> list[dict[str, Any]]:
        scope = {"project": {"id": project}}
        link = f"{self.url}/projects/{project}"
        if not effective:
            return [
                {
                    "links": {"assignment": f"{link}/{actor}/{id_}/roles/{role}"},
                    "scope": scope,
                    actor.removesuffix("s"): {"id": id_},
                    "role": {"id": role},
                }
                for actor, id_, role in sorted(self.grants.get(project, ()))
            ]
        rows: list[dict[str, Any]] = []
        for user, role, group in self.effective(project):
            links = {"assignment": f"{link}/{f'groups/{group}' if group else f'users/{user}'}/roles/{role}"}
            if group:
                links["membership"] = f"{self.url}/groups/{group}/users/{user}"
            rows.append({"links": links, "scope": scope, "user": {"id": user}, "role": {"id": role}})
        return rows
