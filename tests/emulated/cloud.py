"""The emulated cloud: services, state, faults and the auditor behind one port."""

from __future__ import annotations

import json
import random
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Any

from tests.emulated import tables
from tests.emulated.audit import Audit
from tests.emulated.compute import Compute
from tests.emulated.faults import Faults
from tests.emulated.http import Request, Response, Server
from tests.emulated.identity import DOMAIN, Identity, Project, Token
from tests.emulated.image import Image
from tests.emulated.key_manager import KeyManager
from tests.emulated.network import Network
from tests.emulated.object_store import ObjectStore
from tests.emulated.service import Call, Refusal, Service
from tests.emulated.state import State, Touch
from tests.emulated.vendor import Vendor

REGIONAL = {Network: "neutron", Image: "glance", ObjectStore: "swift", KeyManager: "barbican"}
ROLES = ("reader", "member", "manager", "admin", "service", "ResellerAdmin")
READING = frozenset({"GET", "HEAD", "OPTIONS"})
USER = "orchestrator"  #: name and password of the user of the orchestrator
OWN_PROJECT = "service"


class Emulated:
    """A cloud with projects in it. The arguments determine all of it; `seed` decides what is random.

    The test deletes `projects`. `bystanders` share resources with them and must survive. `resources` is the minimum
    number of resources in each project. With `everything` each project gets one of every type. Otherwise the types are
    random: about forty resources with `small`, and twice as many without. `plugged` adds what other packages add to
    Neutron. `fences` adds the fence plugin to Keystone. `page` is `pagination_max_limit` of Neutron. `servers` adds a
    Nova in which each project has this number of servers. `without` names services that do not exist. `vendor` adds a
    service that speaks the project resources protocol.
    """

    def __init__(
        self,
        projects: int = 1,
        *,
        bystanders: int = 1,
        resources: int = 0,
        seed: int = 0,
        regions: tuple[str, ...] = ("RegionOne",),
        everything: bool = False,
        small: bool = False,
        plugged: bool = True,
        fences: bool = False,
        page: int = 1000,
        port: int = 0,
        servers: int | None = None,
        without: tuple[str, ...] = (),
        vendor: bool = False,
    ) -> None:
        from tests.emulated import population

        self.regions, self.page, self.seed = regions, page, seed
        self.extensions = tables.STOCK | (tables.EXTRA if plugged else frozenset())
        self.state: State = State(tables.KINDS, regions, seed)
        self.audit, self.faults = Audit(), Faults(seed)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = Server(self._answer, port)
        self.url = self._server.url
        self.identity = Identity(self, "")
        self.identity.fences = fences
        known = REGIONAL if servers is None else {**REGIONAL, Compute: "nova"}
        if vendor:
            known = {**known, Vendor: "vendor"}
        regional = {made: name for made, name in known.items() if made.type not in without}
        self.without = frozenset(without)
        self.services: dict[tuple[str, str], Service] = {
            (region, made.type): made(self, region) for region in regions for made in regional
        }
        self.hung: set[str] = set()  #: ids of resources that only a forced delete deletes
        self.stuck: set[str] = set()  #: ids of resources that no request deletes
        self.orchestrator_id = ""
        self.projects: list[str] = []
        self.bystanders: list[str] = []
        self.defects: list[str] = []  #: errors of the emulation itself, which no test requested
        self._furnish(regional)
        population.populate(self, projects, bystanders, resources, everything, small, servers or 0)
        self.audit.under_deletion = set(self.projects)
        self._server.start()

    def __enter__(self) -> Emulated:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop. Hanging calls end."""
        self._closing.set()
        self._server.close()

    # -- what is there from the start
    @property
    def auth_url(self) -> str:
        """The URL of Keystone."""
        return self.identity.url

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def _furnish(self, regional: Mapping[type[Service], str]) -> None:
        add = self.state.add
        add("", "identity.domain", "", id=DOMAIN, name="Default")
        for region in self.regions:
            add("", "identity.region", "", id=region)
        for role in ROLES:
            add("", "identity.role", "", name=role)
        self.add_service("identity", "keystone", self.identity.url, self.regions[:1])
        for made, name in regional.items():
            urls = {region: self.services[region, made.type] for region in self.regions}
            for region, service in urls.items():
                self.add_service(made.type, name, getattr(service, "endpoint", service.url), (region,))
        own = self.add_project(OWN_PROJECT)
        self.add_project("admin")
        self.orchestrator_id = self.add_user(USER, USER)
        for role in ("admin", "service", "ResellerAdmin"):
            self.grant(own, self.orchestrator_id, role)

    def add_service(self, type_: str, name: str, url: str, regions: tuple[str, ...]) -> str:
        """Put a service into the catalog."""
        known = self.state.table("", "identity.service").rows.values()
        row = next((s for s in known if s.get("type") == type_), None)
        row = row or self.state.add("", "identity.service", "", name=name, type=type_)
        for region in regions:
            for interface in ("public", "internal", "admin"):
                values = {"interface": interface, "region_id": region, "region": region, "service_id": row.id}
                self.state.add("", "identity.endpoint", "", url=url, **values)
        return row.id

    def add_domain(self, id_: str) -> None:
        """Make a domain."""
        self.state.add("", "identity.domain", "", id=id_, name=id_)

    def add_project(self, name: str, parent: str = "", domain: str = DOMAIN) -> str:
        """Make a project and return its id."""
        id_ = self.state.new_id(dashes=False)
        self.identity.projects[id_] = Project(id_, name, parent or domain, domain)
        self.identity.grants[id_] = set()
        return id_

    def add_empty(self, name: str) -> str:
        """Make a project under deletion that has one member and owns nothing; return its id."""
        project = self.add_project(name)
        self.grant(project, self.add_user(name), "member")
        self.projects.append(project)
        self.audit.under_deletion.add(project)
        return project

    def fill(self, project: str, ports: int = 0, objects: int = 0) -> None:
        """Give a project so many ports on a network, and a container with so many objects."""
        from tests.emulated import population

        filler = population.Filler(self, self.regions[0], project, random.Random(self.seed))
        if ports:
            network = filler.named("network.network").id
            for _ in range(ports):
                self.state.add(filler.region, "network.port", project, network_id=network)
        if objects:
            population.add_objects(filler, objects)

    def add_user(self, name: str, password: str = "") -> str:
        """Make a user and return its id."""
        row = self.state.add("", "identity.user", "", name=name)
        self.identity.passwords[row.id] = password or name
        return row.id

    def grant(self, target: str, user: str, role: str, actor: str = "users") -> None:
        """Give a role on a project, or on the domain (``default``), which its projects inherit."""
        roles = self.state.table("", "identity.role").rows.values()
        self.identity.grants[target].add((actor, user, next(r.id for r in roles if r.get("name") == role)))

    # -- what a test asks
    def left(self, project: str, project_setting: bool = True, history: bool = False) -> dict[str, int]:
        """Return the number of resources of a project by type, over all regions. Empty: nothing is left."""
        found: dict[str, int] = {}
        for table in self.state.tables.values():
            if (table.kind.project_setting and not project_setting) or (table.kind.history and not history):
                continue
            rows = list(table.owned.get(project, {}).values())
            if not project_setting and table.kind.service == "network":  # defaults that Neutron makes, and their rules
                rows = [row for row in rows if not str(row.get("name") or "").startswith("default")]
            if not project_setting and table.kind.name == "security_group_rule":
                continue
            if rows:
                found[table.kind.full] = found.get(table.kind.full, 0) + len(rows)
        for service in self.services.values():
            if isinstance(service, ObjectStore):
                for name, count in service.left(project).items():
                    found[name] = found.get(name, 0) + count
        return found

    def left_ids(self, project: str) -> dict[str, str]:
        """Return the types of the rows of a project by id, without rows that services create for every project."""
        found = {}
        for table in self.state.tables.values():
            if table.kind.project_setting or table.kind.history or table.kind.name == "security_group_rule":
                continue
            for id_, row in table.owned.get(project, {}).items():
                if table.kind.service != "network" or not str(row.get("name") or "").startswith("default"):
                    found[id_] = table.kind.full
        return found

    def things(self, project: str) -> dict[str, Any]:
        """Return a project, its grants and all its resources, to compare them with a later state."""
        known = self.identity.projects.get(project)
        rows = {
            f"{region} {kind} {id_}": row.render()
            for (region, kind), table in self.state.tables.items()
            for id_, row in table.owned.get(project, {}).items()
        }
        objects = {name: count for name, count in self.left(project).items() if name.startswith("object-store.")}
        grants = sorted(self.identity.grants.get(project, ()))
        return {"project": known and known.render(), "grants": grants, "rows": rows, "objects": objects}

    def project_deleted(self, project: str) -> None:
        """Record what a project had when Keystone deleted it."""
        if left := self.left(project, project_setting=False):
            self.audit.not_empty.append((project, left))

    def move(self, project: str, parent: str) -> None:
        """Put a project below another one."""
        self.identity.projects[project].parent_id = parent

    def forget(self, project: str) -> None:
        """Remove a project from Keystone as if an operator had deleted it in the database: all other rows stay."""
        del self.identity.projects[project]
        self.identity.grants.pop(project)

    def servers(self, project: str) -> dict[str, dict[str, Any]]:
        """The servers of a project: the status of each, and how often it was stopped and started."""
        found: dict[str, dict[str, Any]] = {}
        for (region, name), service in self.services.items():
            if name == Compute.type and isinstance(service, Compute):
                table = self.state.table(region, "compute.server")
                for id_, row in table.owned.get(project, {}).items():
                    actions = [action for server, action in service.power if server == id_]
                    found[id_] = {
                        "status": row.get("status"),
                        "stops": actions.count("os-stop"),
                        "starts": actions.count("os-start"),
                    }
        return found

    def exists(self, project: str) -> bool:
        """Whether Keystone knows a project."""
        return project in self.identity.projects

    # -- answering
    def _answer(self, request: Request) -> Response | None:
        service, region, parts = self._route(request)
        if service is None:
            return self._control(request)
        with self.audit.call(service.type, request.method, request.target):
            concerned = self._concerned(request, region, parts) if self.faults.by_project else ()
            fate = self.faults.fate(service.type, region, request.method, request.target, concerned)
            if fate.delay:
                self._closing.wait(fate.delay)
            if fate.kind == "hang":
                self._closing.wait(self.faults.hang)
            if fate.kind in ("reset", "hang"):
                return None
            if fate.kind == "error":
                return service.error(
                    Refusal(500, "An unexpected error prevented the server from fulfilling your request.")
                )
            if fate.kind == "unavailable":
                text = b"<html><body><h1>503 Service Unavailable</h1>No server is available.</body></html>"
                return Response(503, text, type="text/html")
            if fate.kind == "throttled":
                response = service.error(Refusal(429, "Too Many Requests"))
                response.headers["Retry-After"] = str(self.faults.retry_after)
                return response
            response = self._perform(service, request, parts, fate.kind)
        if fate.kind == "lost":
            return None
        if fate.kind == "truncated" and request.method != "HEAD":
            text = response.body if isinstance(response.body, bytes) else json.dumps(response.body).encode()
            response.body = text[: len(text) * 2 // 3]
        return response

    def _route(self, request: Request) -> tuple[Service | None, str, list[str]]:
        """Return the service of a path and the path below its version; no service: the path is of the emulation."""
        parts = [part for part in request.parts if part]
        service: Service | None
        if parts[:1] == ["identity"]:
            service, rest = self.identity, parts[1:]
        else:
            service, rest = self.services.get(tuple(parts[:2])), parts[2:]  # type: ignore[arg-type]
        if service is None:
            return None, "", parts
        return service, service.region, rest[1:] if rest[:1] == [service.version] else []

    def _perform(self, service: Service, request: Request, parts: list[str], fault: str) -> Response:
        with self._lock:
            call = Call(request, parts, Token("", ""))
            try:
                if not parts:
                    return service.versions(request)
                if not (service is self.identity and parts == ["auth", "tokens"] and request.method == "POST"):
                    token = self.identity.good(request.headers.get("x-auth-token", ""))
                    if token is None:
                        raise Refusal(401, "The request you have made requires authentication.", "Unauthorized")
                    call.token = token
                response = service.answer(call)
            except Refusal as refusal:
                response = service.error(refusal)
            except Exception:  # a defect of the emulation: it must not look like a fault that the test requested
                self.defects.append(f"{request.method} {request.target}\n{traceback.format_exc()}")
                response = service.error(Refusal(500, "the emulated service has a defect"))
            if request.method not in READING or call.touched:
                token, answered = call.token, fault not in ("lost", "truncated")
                self.audit.write(
                    token.user, token.project, request.method, request.target, response.status, answered, call.touched
                )
            return response

    def _concerned(self, request: Request, region: str, parts: list[str]) -> set[str]:
        """Return the projects of a request: that of the token, those that it names, and the owners of its targets."""
        names = {value for _, value in request.query}.union(parts, (part.removeprefix("AUTH_") for part in parts))
        token = self.identity.tokens.get(request.headers.get("x-auth-token", ""))
        found = {token.project} if token else set()
        with self._lock:
            found |= {name for name in names if name in self.identity.projects}
            for (where, _), table in self.state.tables.items():
                if where in ("", region):
                    found |= {table.rows[name].owner for name in names if name in table.rows}
        return found

    # -- the emulation itself, over HTTP
    def _control(self, request: Request) -> Response:
        if request.parts[:1] != ["emulated"] or request.method != "POST":
            return Response(404, {"error": f"nothing is at {request.path}"})
        said = request.json()
        try:
            return Response(200, {"answer": self.control(said["call"], said.get("with", {}))})
        except (KeyError, TypeError, ValueError) as error:
            return Response(400, {"error": f"{type(error).__name__}: {error}"})

    def control(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call one of the methods of the control interface by name."""
        calls: dict[str, Any] = {
            "faults.errors": self.faults.errors,
            "faults.down": self.faults.down,
            "faults.up": self.faults.up,
            "faults.latency": self.faults.latency,
            "faults.clear": self.faults.clear,
            "faults.hang": lambda seconds: setattr(self.faults, "hang", seconds),
            "faults.seen": lambda: {" ".join(key): count for key, count in self.faults.seen.items()},
            "audit.under_deletion": lambda projects: self.audit.under_deletion.update(projects),
            "audit.foreign_writes": lambda: [_plain(write) for write in self.audit.foreign_writes()],
            "audit.deleted_while_not_empty": self.audit.deleted_while_not_empty,
            "audit.clock": self.audit.clock,
            "audit.before_children": self.audit.before_children,
            "audit.written": self.audit.written,
            "audit.last_writes": self.audit.last_writes,
            "audit.concurrency": self.audit.concurrency,
            "audit.rates": self.audit.rates,
            "audit.trace": self.audit.trace,
            "defects": lambda: self.defects,
            "left": self.left,
            "left_ids": self.left_ids,
            "add_empty": self.add_empty,
            "fill": self.fill,
            "let_in": lambda project: self.grant(project, self.orchestrator_id, "admin"),
            "things": self.things,
            "move": self.move,
            "forget": self.forget,
            "servers": self.servers,
            "stick": lambda ids: self.stuck.update(ids),
            "change": self._change,
            "exists": self.exists,
            "add": lambda region, kind, owner, values: self.state.add(region, kind, owner, **values).id,
            "add_project": self.add_project,
            "projects": lambda: self.projects,
            "bystanders": lambda: self.bystanders,
        }
        with self._lock:
            return calls[name](**arguments)

    def _change(self, region: str, kind: str, id: str, values: dict[str, Any]) -> None:
        """Change a row without a request, as its owner would."""
        table = self.state.table(region, kind)
        table.change(table.rows[id], values)


def _plain(write: Any) -> dict[str, Any]:
    touched = [{key: getattr(touch, key) for key in Touch.__dataclass_fields__} for touch in write.touched]
    return {
        **{key: getattr(write, key) for key in ("at", "user", "project", "method", "target", "status")},
        "touched": touched,
    }
