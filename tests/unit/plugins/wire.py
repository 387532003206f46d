"""The calls that a plugin makes, as the services see them: method, path, query, headers and body.

A plugin is driven over a real openstacksdk connection. Below it, in place of the network, is an adapter that records
each request and answers from the text that also has the expected calls. So what a test compares was written by hand,
and does not come from the plugin.

A text of ``calls`` is of one service. Each line is one of these::

    load_balancer                           a type; what follows is about this type. A second text of the same type
                                            has a name: ``share / in no group``
      list GET /v2/lbaas/loadbalancers      the phase, and a call; a phase has its calls in the order of the lines
        = {"loadbalancers": []}             what the service answers to the call before; without it, an empty answer
      list -> ID of PROJECT                 what was read, of the list or of one resource: id and owner
      delete !! refused: in_use             the error that ends the phase

The phases are those of ``PHASES``. ``option`` sets an option of the service, and ``token`` says with which token the
calls are made. ``every type`` in place of a name has the phases that are not in a type's own text. An answer that is a
number is a status: ``= 404``. One with ``body`` may have ``status`` and ``headers``, too.

``PROJECT`` is the project under deletion, ``OWN`` that of the orchestrator, and ``MEMBER`` a user with a role on
``PROJECT``. The host of a call is left out if it is that of the text's service.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests
from keystoneauth1.identity import v3
from keystoneauth1.session import Session
from openstack.config import cloud_region
from openstack.connection import Connection
from requests.adapters import BaseAdapter

from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.plugins import admin, neutron
from cleanup_orchestrator.plugins.base import ProjectDefinition, Refused, Resource, ResourceType, Service
from cleanup_orchestrator.worker.sweep.calls import act, is_available, list_available, show

CALLS = pathlib.Path(__file__).parent / "calls"
EVERY = "every type"

#: The endpoints in the catalog, below the host. ``{scope}`` is the project of the token.
PATHS = {
    "accelerator": "/v2",
    "application-container": "/v1",
    "block-storage": "/v3",
    "compute": "/v2.1",
    "container-infrastructure-management": "/v1",
    "database": "/v1.0/{scope}",
    "identity": "/v3",
    "object-store": "/v1/AUTH_{scope}",
    "orchestration": "/v1/{scope}",
    "reservation": "/v1",
    "shared-file-system": "/v2",
    "workflow": "/v2",
}

#: What the version document of a service says: the versions, their path, and the least and the greatest microversion.
#: The calls that read it are not recorded.
VERSIONS = {
    "accelerator": ("v2.0", "/v2", "2.0", "2.0"),
    "alarm": ("v2", "/v2", "", ""),
    "application-container": ("v1", "/v1", "1.1", "1.40"),
    "backup": ("v2", "/v2", "", ""),
    "baremetal": ("v1", "/v1", "1.1", "1.115"),
    "block-storage": ("v3.0", "/v3", "3.0", "3.71"),
    "compute": ("v2.1", "/v2.1", "2.1", "2.104"),
    "container-infrastructure-management": ("v1", "/v1", "1.1", "1.11"),
    "database": ("v1.0", "/v1.0", "", ""),
    "dns": ("v2", "/v2", "", ""),
    "identity": ("v3.14", "/v3", "", ""),
    "image": ("v2.17", "/v2", "", ""),
    "key-manager": ("v1", "/v1", "1.0", "1.2"),
    "load-balancer": ("v2.27", "/v2", "", ""),
    "message": ("v2", "/v2", "", ""),
    "metric": ("v1", "/v1", "", ""),
    "network": ("v2.0", "/v2.0", "", ""),
    "nfv-orchestration": ("v1.0", "/v1.0", "", ""),
    "orchestration": ("v1.0", "/v1", "", ""),
    "placement": ("v1.0", "", "1.0", "1.39"),
    "rating": ("v1 v2", "", "", ""),
    "reservation": ("v1", "/v1", "", ""),
    "shared-file-system": ("v2.0", "/v2", "2.0", "2.91"),
    "workflow": ("v2", "/v2", "", ""),
}

#: Headers that say nothing of what a call does.
_IDLE = frozenset({"accept", "accept-encoding", "connection", "content-length", "user-agent", "x-auth-token"})

#: keystoneauth1 sends a microversion in two headers to these services. The one that is not read, or an older name of
#: the other one.
_TWICE = {
    "baremetal": "x-openstack-ironic-api-version",
    "compute": "x-openstack-nova-api-version",
    "shared-file-system": "openstack-api-version",
}

PHASES = (
    *("option", "token", "available", "proof", "list", "show", "stop", "start", "prepare", "delete", "may_force"),
    "force",
)

_DISCOVERY = re.compile(r"/?(v[0-9.]+/?)?")


class Unexpected(Exception):
    """A phase made a call that its text does not have."""


class Text:
    """The calls of one phase of one type, with the answers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.answers: dict[int, Any] = {}  #: by the place of the call


def read(text: str) -> dict[str, dict[str, Text]]:
    """Return the phases of each type in a text of ``calls``.

    :raises ValueError: a line is none of the documented ones
    """
    types: dict[str, dict[str, Text]] = {}
    phases: dict[str, Text] = {}
    last: Text | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if not raw.startswith(" "):
            if line in types:
                raise ValueError(f"line {number}: {line} is there twice")
            phases, last = types.setdefault(line, {}), None
            continue
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if word == "=" and last is not None:
            last.answers[len(last.lines) - 1] = json.loads(rest)
        elif word in PHASES and types:
            last = phases.setdefault(word, Text())
            last.lines.append(rest)
        else:
            raise ValueError(f"line {number}: {line!r} is no phase of a type, and no answer")
    return types


class Wire(BaseAdapter):
    """Records requests, and answers them from a text."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._own = f"{service}:"
        self.expected = Text()
        self.recorded: list[str] = []

    def begin(self, expected: Text) -> None:
        """Begin a phase."""
        self.expected = expected
        self.recorded.clear()

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        """Answer a request; see ``requests.adapters.BaseAdapter.send``."""
        url = urlsplit(str(request.url))
        if url.path.endswith("/auth/tokens"):
            return _response(request, 201, _token(json.loads(request.body or b"{}")), {"X-Subject-Token": "token"})
        if request.method == "GET" and not url.query and _DISCOVERY.fullmatch(url.path):
            return _response(request, 200, _versions(str(url.hostname)))
        place, line = len(self.recorded), _line(request).replace(self._own, "", 1)
        self.recorded.append(line)
        if line not in self.expected.lines[place : place + 1]:
            raise Unexpected(line)
        answer = self.expected.answers.get(place, "")
        if isinstance(answer, int):
            answer = {"status": answer, "body": {"error": {"code": answer, "message": "as the text says"}}}
        if not isinstance(answer, Mapping) or "body" not in answer:
            answer = {"status": 204 if answer == "" else 200, "body": answer}
        return _response(request, answer.get("status", 200), answer["body"], answer.get("headers", {}))


def _response(
    request: requests.PreparedRequest, status: int, body: Any, headers: Mapping[str, str] = {}
) -> requests.Response:
    response = requests.Response()
    response.status_code, response.url, response.request = status, str(request.url), request
    response._content = b"" if body == "" else json.dumps(body).encode()
    response.headers.update({"Content-Type": "application/json", **headers})
    return response


def _token(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    scope, name = asked["auth"]["scope"]["project"]["id"], asked["auth"]["identity"]["password"]["user"]["id"]
    catalog = []
    for service in (*VERSIONS, "object-store"):
        url = f"http://{service}{PATHS.get(service, '').format(scope=scope)}"
        endpoints = [{"id": service, "interface": "public", "region": "REGION", "region_id": "REGION", "url": url}]
        catalog.append({"id": service, "type": service, "name": service, "endpoints": endpoints})
    domain = {"id": "DOMAIN", "name": "DOMAIN"}
    project, user = ({"id": id_, "name": id_, "domain": domain} for id_ in (scope, name))
    times = {"issued_at": "2026-01-01T00:00:00Z", "expires_at": "2126-01-01T00:00:00Z"}
    roles = [{"id": name, "name": name.lower()}]
    return {"token": {"project": project, "user": user, "roles": roles, "catalog": catalog, "methods": [], **times}}


def _versions(service: str) -> Mapping[str, Any]:
    names, path, least, greatest = VERSIONS[service]
    about = {"status": "CURRENT", "min_version": least, "version": greatest, "max_version": greatest}
    links = [{"rel": "self", "href": f"http://{service}{path}"}]
    return {"versions": [{"id": name, "links": links, **about} for name in names.split()]}


def _line(request: requests.PreparedRequest) -> str:
    """Return a request as a line of a text; the host is named only if it is not the type's own service."""
    url = urlsplit(str(request.url))
    parameters = sorted(parse_qsl(url.query, keep_blank_values=True), key=lambda parameter: parameter[0])
    query = "&".join(f"{name}={value}" for name, value in parameters)
    line = f"{request.method} {url.hostname}:{url.path}" + (f"?{query}" if query else "")
    for name, value in sorted(request.headers.items()):
        name = name.decode() if isinstance(name, bytes) else name
        value = value.decode() if isinstance(value, bytes) else value
        plain = name.lower() in _IDLE or (name.lower(), value) == ("content-type", "application/json")
        if not plain and name.lower() != _TWICE.get(str(url.hostname)):
            line += f" [{name}: {value}]"
    body = request.body
    return line + (f" {body.decode() if isinstance(body, bytes) else body}" if body else "")


def connection(wire: Wire, token: Token) -> Connection:
    """Return a connection whose requests go to ``wire``, with one of the tokens that the sweep has."""
    pool = requests.Session()
    pool.mount("http://", wire)
    scope = "OWN" if token is Token.ADMIN else "PROJECT"
    user = "MEMBER" if token is Token.MEMBER else "ADMIN"
    auth = v3.Password("http://identity/v3", user_id=user, password="secret", project_id=scope)
    session = Session(auth, session=pool)
    config = cloud_region.from_session(session, name="wire", region_name="REGION", interface="public", force_ipv4=True)
    return Connection(config=config)


def phases_of(type_: ResourceType) -> tuple[str, ...]:
    """Return the phases that a type has, in their order."""
    has = {
        "available": type_.available is not None,
        "proof": type_.proof is not None,
        "show": type_.show is not None,
        "stop": type_.halt is not None,
        "start": type_.halt is not None,
        "delete": type_.delete is not None,
        "may_force": type_.force is not None and type_.force.allowed is not None,
        "force": type_.force is not None,
    }
    return tuple(phase for phase in PHASES if has.get(phase, True))


class Drive:
    """Drives the types of one service, phase by phase."""

    def __init__(self, service: Service, text: str) -> None:
        self.service, self.texts = service, read(text)
        self._wire = Wire(service.service_type)
        self._connections: dict[Token, Connection] = {}

    @property
    def titles(self) -> list[str]:
        """The texts, each of one type."""
        return [title for title in self.texts if title != EVERY]

    def type_of(self, title: str) -> ResourceType:
        """Return the type that a text is of."""
        return next(type_ for type_ in self.service.types if type_.name == title.partition(" / ")[0])

    def _expected(self, title: str, phase: str) -> Text:
        for name in (title, EVERY):
            if phase in self.texts.get(name, {}):
                return self.texts[name][phase]
        return Text()

    def _project(self, title: str) -> ProjectDefinition:
        options = {option.dest: option.default for option in self.service.options}
        for line in self._expected(title, "option").lines:
            name, _, value = line.partition("=")
            if name not in options:
                raise ValueError(f"{title}: {self.service.service_type} has no option {name}")
            options[name] = json.loads(value)
        return ProjectDefinition("PROJECT", "PROJECT_NAME", "DOMAIN", "REGION", ("MEMBER",), options)

    def _connection(self, token: Token) -> Connection:
        if token not in self._connections:
            self._connections[token] = connection(self._wire, token)
        return self._connections[token]

    def run(self, title: str) -> Iterator[tuple[str, list[str], list[str]]]:
        """Yield each phase of a text, with the lines that the text has and the lines that were recorded."""
        type_, project, said = self.type_of(title), self._project(title), self._wire.recorded
        # Each type makes these calls, whatever the types before have read.
        admin._proven.clear()
        neutron._extensions.clear()
        # The sweep makes these calls with the token of the janitor.
        deleting = Token.MEMBER if type_.user_content else type_.token
        cloud, janitors = self._connection(type_.token), self._connection(deleting)
        resources = [Resource("ID", "NAME", "PROJECT", {"id": "ID", "name": "NAME"})]

        def token() -> None:
            tokens = [str(type_.token)]
            tokens += [f"delete and force: {deleting}"] if deleting is not type_.token else []
            tokens += [f"once the project is gone: {type_.fallback.if_gone}"] if type_.fallback.if_gone else []
            said.append("; ".join(tokens))

        def available() -> None:
            if not is_available(type_, cloud, project):
                said.append("-> not there")

        def proof() -> None:
            assert type_.proof is not None
            admin.prove(type_.proof, cloud, project)

        def listing() -> None:
            # The sweep makes the call of the proof before it; that is the phase above.
            found = list(list_available(dataclasses.replace(type_, proof=None), cloud, project))
            said.extend(f"-> {resource.id} of {resource.owner}" for resource in found)
            resources[:] = found or resources

        def read_again() -> None:
            resource = show(type_, cloud, project, resources[0])
            said.append(f"-> {resource.id} of {resource.owner}")

        def stop() -> None:
            assert type_.halt is not None
            act(type_.halt.stop, cloud, project, resources[0])

        def start() -> None:
            assert type_.halt is not None
            act(type_.halt.start, cloud, project, resources[0])

        def prepare() -> None:
            for action in type_.prepare:
                act(action, cloud, project, resources[0])

        def delete() -> None:
            assert type_.delete is not None
            act(type_.delete, janitors, project, resources[0])

        def may_force() -> None:
            assert type_.force is not None and type_.force.allowed is not None
            type_.force.allowed(cloud, project)

        def force() -> None:
            assert type_.force is not None
            act(type_.force.act, janitors, project, resources[0])

        calls: dict[str, Callable[[], object]] = {
            "token": token,
            "available": available,
            "proof": proof,
            "list": listing,
            "show": read_again,
            "stop": stop,
            "start": start,
            "prepare": prepare,
            "delete": delete,
            "may_force": may_force,
            "force": force,
        }
        for phase in phases_of(type_):
            if phase == "option":
                continue
            expected = self._expected(title, phase)
            self._wire.begin(expected)
            try:
                calls[phase]()
            except Refused as refused:
                said.append(f"!! refused: {refused.verdict.reason}")
            except Exception as error:
                said.append(f"!! {type(error).__name__}: {error}")
            yield phase, expected.lines, [*said]
