"""A correct service that speaks the project resources protocol, and one lie of it for each value of `Lie`.

The service is plain WSGI in memory, independent of `cleanup_orchestrator.protocol`: an error of the package is no error
of this service. It validates tokens of a fixed table itself. `serve` starts it on a port of loopback; `caller` calls it
without one.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import json
import socketserver
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any
from wsgiref import simple_server

from cleanup_orchestrator.protocol.conformance import Response, Send

BASE = "/storage/project-resources/v1"
SERVICE_TYPE = "storage"
#: Two projects that own resources after `Service.fill`; and what their rows are named after.
PROJECT, OTHER = "11111111111111111111111111111111", "22222222222222222222222222222222"
SERVICE_TOKEN, MEMBER_TOKEN = "token-of-the-service-user", "token-of-a-member"

Row = dict[str, Any]


class Lie(StrEnum):
    """What the service does wrong; the comment says what it answers."""

    # rules 1 and 2
    ANONYMOUS = "anonymous"  #: it needs no token
    ANY_TOKEN = "any-token"  #: a token that it does not know is as good as the service user's
    FORGED_ROLES = "forged-roles"  #: it believes the headers of keystonemiddleware when a client sends them
    ANY_ROLE = "any-role"  #: a valid token is enough
    # rule 3
    NO_TYPES = "no-types"  #: the capabilities lack the field `types`
    OTHER_SERVICE = "other-service"  #: the capabilities name another service type
    UNKNOWN_AFTER = "unknown-after"  #: `after` names a type that the service does not have
    ACTS_FOR_ALL = "acts-for-all"  #: a type declares both `acts_on` and `delete_all`
    # rule 4
    NO_OWNER = "no-owner"  #: rows have no project_id
    FOREIGN_ROWS = "foreign-rows"  #: the list of a project has the rows of another one, too
    RELABELS = "relabels"  #: the same, and these rows carry the project that was asked for
    # rule 5
    EMPTY_WITHOUT_BACKEND = "empty-without-backend"  #: the list is empty while the backend does not answer
    FEWER_WITHOUT_BACKEND = "fewer-without-backend"  #: the list lacks what the backend holds
    GONE_WITHOUT_BACKEND = "gone-without-backend"  #: a show answers 404 while the backend does not answer
    # rule 6
    IGNORES_LIMIT = "ignores-limit"  #: each page has all rows
    IGNORES_MARKER = "ignores-marker"  #: each page is the first one
    ENDLESS = "endless"  #: each page is the first one, with a new marker
    SKIPS_A_ROW = "skips-a-row"  #: the next page begins one row too late
    ANY_LIMIT = "any-limit"  #: a limit that is not allowed counts as 1000
    ANY_MARKER = "any-marker"  #: an unknown marker means an empty last page
    NO_NEXT = "no-next"  #: pages lack the field `next`
    HTML = "html"  #: a list is answered with 200 and a web page
    # rule 7
    UNKNOWN_PROJECT_404 = "unknown-project-404"  #: a project without resources is not found
    ALL_FOR_UNKNOWN_PROJECT = "all-for-unknown-project"  #: a project without resources gets everyone's rows
    # rule 8
    SHOW_DIFFERS = "show-differs"  #: the show has another name than the list
    SHOWS_FOREIGN = "shows-foreign"  #: the show finds by id alone
    # rule 9
    GONE_THAT_IS_NOT = "gone-that-is-not"  #: a delete is answered with 204, and nothing happens
    NEVER_GONE = "never-gone"  #: a delete is answered with 202, the state is `deleting`, and nothing else happens
    ACCEPTED_AND_PRESENT = "accepted-and-present"  #: a delete is answered with 202; until it is gone it looks present
    DELETES_BY_ID = "deletes-by-id"  #: a delete ignores the project of the path
    DELETES_MORE = "deletes-more"  #: a delete removes another resource, too
    TAKES_ANOTHERS = "takes-anothers"  #: a delete removes resources of another type, of all other projects
    TAKES_OTHERS_LATER = "takes-others-later"  #: a delete begins to delete resources of all other projects
    TAKES_UNDECLARED = "takes-undeclared"  #: a delete removes resources of a type that does not declare it
    UNKNOWN_IS_DELETED = "unknown-is-deleted"  #: the delete of an unknown id is answered with 204
    DELETES_ALL_OF_EVERYONE = "deletes-all-of-everyone"  #: "delete all" ignores the project of the path
    DELETES_ALL_UNDECLARED = "deletes-all-undeclared"  #: "delete all" works on types that do not declare it
    EMPTY_ID_DELETES_ALL = "empty-id-deletes-all"  #: a slash at the end of the path of a list is ignored in a delete
    LEAVES_PARTS = "leaves-parts"  #: the delete of a parent leaves what `deleted_with` says goes with it
    # rule 10 and redirects
    PROXY_404 = "proxy-404"  #: a 404 is the web page of a proxy
    PLAIN_ERRORS = "plain-errors"  #: an error is JSON, and no problem document
    UNKNOWN_PATH_NOT_FOUND = "unknown-path-not-found"  #: a path that the protocol lacks is a resource that is gone
    UNKNOWN_TYPE_EMPTY = "unknown-type-empty"  #: the list of an unknown type is empty
    REDIRECT = "redirect"  #: a list is answered with a redirect to another host
    # rule 11
    DRAINS_NOTHING = "drains-nothing"  #: a drain is answered with 204, and nothing happens
    DRAINS_ALL = "drains-all"  #: a drain drains every project
    DRAIN_DELETES = "drain-deletes"  #: a drain deletes what the project has
    # rule 12
    EMPTY_ID_IS_ALL = "empty-id-is-all"  #: the list of an empty project id has everyone's rows
    PATTERN = "pattern"  #: the project id is a pattern of SQL
    # what no test can see
    HIDES_FAILED = "hides-failed"  #: the list lacks what is in an error state


def _type(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": f"{name}s of the liar", **fields}


#: The types of the service; a job is deleted asynchronously.
TYPES = (
    _type("widget", after=["job"]),
    _type("part", deleted_with=["widget"]),
    _type("bucket", delete_all=True),
    _type("job"),
    _type("hook", acts_on="the address that a user wrote"),
    _type("licence", delete=False),
)
NAMES = tuple(str(one["name"]) for one in TYPES)


@dataclasses.dataclass(frozen=True)
class Identity:
    """What a token says."""

    roles: frozenset[str]
    project_id: str


TOKENS: Mapping[str, Identity] = {
    SERVICE_TOKEN: Identity(frozenset({"service"}), "33333333333333333333333333333333"),
    MEMBER_TOKEN: Identity(frozenset({"member", "reader"}), PROJECT),
}


class Reply(Exception):
    """An answer; raised from anywhere below `Service.__call__`."""

    def __init__(self, status: int, document: Any = None, **headers: str) -> None:
        self.status, self.document, self.headers = status, document, headers


class Problem(Reply):
    """An error as a problem document."""

    def __init__(self, status: int, kind: str, detail: str) -> None:
        urn = f"urn:project-resources:{kind}"
        super().__init__(
            status, {"type": urn, "title": kind, "status": status, "detail": detail, "request_id": "req-1"}
        )


def _not_found() -> Problem:
    return Problem(404, "not-found", "the project owns no such resource")


class Service:
    """The service: a WSGI application.

    :param lie: the one thing that it does wrong; default: nothing
    :param tokens: who may call, by token
    :param seconds: how long a job stays in the list after its delete was accepted
    """

    def __init__(self, lie: Lie | None = None, tokens: Mapping[str, Identity] = TOKENS, seconds: float = 0.2) -> None:
        self.lie, self.tokens, self.seconds = lie, tokens, seconds
        self.rows: dict[str, list[Row]] = {type_["name"]: [] for type_ in TYPES}
        self.drained: set[str] = set()
        self.backend_down = False
        self.requests: list[tuple[str, str]] = []  #: method and path of each request, as it came
        self._ends: dict[tuple[str, str], float] = {}  #: when an accepted delete is done (monotonic), by type and id
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def add(self, type_: str, project_id: str, id_: str, **fields: Any) -> None:
        """Create a resource."""
        self.rows[type_].append({"id": id_, "project_id": project_id, "name": f"{type_} {id_}", **fields})

    def fill(self, project_id: str, types: Iterable[str] = NAMES) -> None:
        """Create three resources of each type in a project; one id has a slash, and one resource is in error."""
        for type_, (number, mark) in itertools.product(types, enumerate(("", "/", "-error"))):
            parent = {"part_of": {"widget": f"widget-{project_id[:2]}-0"}} if type_ == "part" else {}
            failed = {"description": "in error"} if mark == "-error" else {}
            self.add(type_, project_id, f"{type_}-{project_id[:2]}{mark or '-'}{number}", **parent, **failed)

    def without_backend(self) -> Service:
        """Return another process of the same service, whose backend does not answer."""
        other = copy.copy(self)
        other.backend_down = True
        return other

    def ids(self, type_: str, project_id: str) -> list[str]:
        """Return the ids of the resources that a project really has."""
        return [row["id"] for row in self.rows[type_] if row["project_id"] == project_id]

    # -- WSGI
    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        """Answer one request."""
        # The path as the client sent it, where the server offers it: only that tells an encoded slash from a slash.
        raw = environ.get("REQUEST_URI", "").partition("?")[0]
        path = raw or urllib.parse.quote(environ.get("SCRIPT_NAME", "") + environ["PATH_INFO"], encoding="latin-1")
        self.requests.append((environ["REQUEST_METHOD"], path))
        with self._lock:
            try:
                self._finish_deletes()
                self._answer(environ, path)
            except Reply as answer:
                reply = self._distorted(answer)
        body = reply.document if isinstance(reply.document, bytes) else b""
        kind = "text/html"
        if isinstance(reply.document, dict):
            body = json.dumps(reply.document).encode()
            kind = "application/problem+json" if isinstance(reply, Problem) else "application/json"
        start_response(
            f"{reply.status} -",
            [("Content-Type", kind), ("Content-Length", str(len(body))), *reply.headers.items()],
        )
        return [body]

    def _distorted(self, reply: Reply) -> Reply:
        if self.lie is Lie.PROXY_404 and reply.status == 404:
            return Reply(404, b"<html><body>404 Not Found</body></html>")
        if self.lie is Lie.PLAIN_ERRORS and isinstance(reply, Problem):
            return Reply(reply.status, {"error": {"code": reply.status, "message": "an error"}})
        return reply

    def _answer(self, environ: dict[str, Any], path: str) -> None:
        """Raise the answer to a request."""
        if not path.startswith(BASE):
            raise Problem(404, "not-found", "no such path")
        segments = [urllib.parse.unquote(part) for part in path[len(BASE) :].split("/")[1:]]
        method = environ["REQUEST_METHOD"]
        if self.lie is Lie.EMPTY_ID_DELETES_ALL and method == "DELETE" and segments[-1:] == [""]:
            del segments[-1]
        self._authorize(environ, method, segments)
        for segment in segments[1:]:
            empty_is_all = self.lie is Lie.EMPTY_ID_IS_ALL and segment == segments[1]
            if segment in (".", "..") or not segment.isprintable() or (not segment.strip() and not empty_is_all):
                raise Problem(400, "bad-request", "an id is empty or not allowed")
        query = urllib.parse.parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        match method, segments:
            case "GET", []:
                raise Reply(200, self.capabilities())
            case "GET", ["projects", project, type_]:
                raise Reply(200, self._list(project, self._known(type_), query))
            case "DELETE", ["projects", project, type_]:
                self._delete_all(project, self._known(type_))
            case "GET", ["projects", project, type_, id_]:
                raise Reply(200, self._show(project, self._known(type_), id_))
            case "DELETE", ["projects", project, type_, id_]:
                self._delete(project, self._known(type_), id_)
            case _, ["drains", project]:
                self._drain(method, project)
        if self.lie is Lie.UNKNOWN_PATH_NOT_FOUND:
            raise _not_found()
        raise Problem(400, "bad-request", "no such path")

    # -- who asks
    def _authorize(self, environ: dict[str, Any], method: str, segments: list[str]) -> None:
        if self.lie is Lie.ANONYMOUS:
            return
        token = environ.get("HTTP_X_AUTH_TOKEN", "")
        identity = self.tokens.get(token)
        if self.lie is Lie.ANY_TOKEN and token and identity is None:
            return
        if self.lie is Lie.FORGED_ROLES and "HTTP_X_ROLES" in environ:
            roles = frozenset(environ["HTTP_X_ROLES"].split(","))
            identity = Identity(roles, environ.get("HTTP_X_PROJECT_ID", ""))
        if identity is None:
            raise Problem(401, "not-authenticated", "a token is needed")
        if "service" in identity.roles or self.lie is Lie.ANY_ROLE:
            return
        match method, segments:
            case "DELETE", ["projects", project, "hook", _] if project == identity.project_id:
                return  # the service acts on what users wrote with a token of the project
        raise Problem(403, "forbidden", "the role service is needed")

    # -- reads
    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities."""
        types: list[Any] = copy.deepcopy(list(TYPES))
        if self.lie is Lie.UNKNOWN_AFTER:
            types[0]["after"] = ["screw"]
        if self.lie is Lie.ACTS_FOR_ALL:
            types[NAMES.index("hook")]["delete_all"] = True
        service_type = "other-storage" if self.lie is Lie.OTHER_SERVICE else SERVICE_TYPE
        document = {"protocol": "project-resources", "version": "1.0", "service_type": service_type, "drain": True}
        return document if self.lie is Lie.NO_TYPES else {**document, "types": types}

    def _known(self, type_: str) -> str:
        if type_ not in self.rows and self.lie is not Lie.UNKNOWN_TYPE_EMPTY:
            raise Problem(404, "unknown-type", "the service has no such type")
        return type_

    def _owned(self, project: str, type_: str) -> list[Row]:
        """Return the rows that a list of the project has, without the lies about pages."""
        everyones = self.rows.get(type_, [])
        rows = [row for row in everyones if row["project_id"] == project]
        if self.lie is Lie.EMPTY_ID_IS_ALL and not project:
            return everyones
        if self.lie is Lie.PATTERN and project == "%":
            return everyones
        if not rows and self.lie is Lie.UNKNOWN_PROJECT_404:
            raise Problem(404, "not-found", "no such project")
        if not rows and self.lie is Lie.ALL_FOR_UNKNOWN_PROJECT:
            return everyones
        if rows and self.lie is Lie.FOREIGN_ROWS:
            return everyones
        if rows and self.lie is Lie.RELABELS:
            return [{**row, "project_id": project} for row in everyones]
        if self.lie is Lie.HIDES_FAILED:
            return [row for row in rows if row.get("description") != "in error"]
        if self.lie is Lie.NO_OWNER:
            return [{name: value for name, value in row.items() if name != "project_id"} for row in rows]
        return rows

    def _list(self, project: str, type_: str, query: Mapping[str, list[str]]) -> Row:
        if self.lie is Lie.REDIRECT:
            raise Reply(302, None, Location="http://127.0.0.2:9/storage")
        if self.lie is Lie.HTML:
            raise Reply(200, b"<html><body>It works</body></html>")
        rows = self._owned(project, type_)
        if self.backend_down:
            match self.lie:
                case Lie.EMPTY_WITHOUT_BACKEND:
                    rows = []
                case Lie.FEWER_WITHOUT_BACKEND:
                    rows = rows[:1]
                case _:
                    raise Problem(503, "unavailable", "the backend does not answer")
        page = {"project_id": project or "all", "type": type_, **self._page(rows, query)}
        if self.lie is Lie.NO_NEXT:
            del page["next"]
        return page

    def _page(self, rows: list[Row], query: Mapping[str, list[str]]) -> Row:
        limit, marker = query.get("limit", ["1000"])[0], query.get("marker", [""])[0]
        if not limit.isdecimal() or not 1 <= int(limit) <= 1000:
            if self.lie is not Lie.ANY_LIMIT:
                raise Problem(400, "bad-request", "limit must be 1 to 1000")
            limit = "1000"
        known = {f"after {row['id']}": number + 1 for number, row in enumerate(rows)}
        if marker and marker not in known and self.lie not in (Lie.ENDLESS, Lie.ANY_MARKER):
            raise Problem(400, "bad-request", "no such marker")
        if self.lie is Lie.ANY_MARKER and marker and marker not in known:
            return {"resources": [], "next": None}
        if self.lie is Lie.IGNORES_LIMIT:
            return {"resources": rows, "next": None}
        if rows and self.lie is Lie.ENDLESS:
            return {"resources": rows[: int(limit)], "next": f"more {next(self._numbers)}"}
        if self.lie is Lie.IGNORES_MARKER:
            marker = ""
        first = known.get(marker, 0)
        if marker and self.lie is Lie.SKIPS_A_ROW:
            first += 1
        found = rows[first : first + int(limit)]
        more = found and first + int(limit) < len(rows)
        return {"resources": found, "next": f"after {found[-1]['id']}" if more else None}

    def _show(self, project: str, type_: str, id_: str) -> Row:
        if self.backend_down:
            if self.lie is Lie.GONE_WITHOUT_BACKEND:
                raise _not_found()
            raise Problem(503, "unavailable", "the backend does not answer")
        for row in self.rows.get(type_, []):
            if row["id"] == id_ and (row["project_id"] == project or self.lie in (Lie.SHOWS_FOREIGN, Lie.RELABELS)):
                return self._shown(row, project)
        raise _not_found()

    def _shown(self, row: Row, project: str) -> Row:
        match self.lie:
            case Lie.SHOW_DIFFERS:
                return {**row, "name": "another name"}
            case Lie.RELABELS:
                return {**row, "project_id": project}
            case Lie.NO_OWNER:
                return {name: value for name, value in row.items() if name != "project_id"}
        return row

    # -- writes
    def _finish_deletes(self) -> None:
        now = time.monotonic()
        for (type_, id_), end in [*self._ends.items()]:
            if now >= end:
                self._remove(type_, id_)
                del self._ends[type_, id_]

    def _remove(self, type_: str, id_: str) -> None:
        self.rows[type_] = [row for row in self.rows[type_] if row["id"] != id_]
        if type_ == "widget" and self.lie is not Lie.LEAVES_PARTS:
            self.rows["part"] = [row for row in self.rows["part"] if row.get("part_of", {}).get("widget") != id_]

    def _delete(self, project: str, type_: str, id_: str) -> None:
        if self.backend_down:
            raise Problem(503, "unavailable", "the backend does not answer")
        if type_ == "licence":
            raise Problem(405, "not-supported", "only an operator deletes it")
        by_id = self.lie is Lie.DELETES_BY_ID
        found = [row for row in self.rows[type_] if row["id"] == id_ and (by_id or row["project_id"] == project)]
        if not found:
            raise Reply(204) if self.lie is Lie.UNKNOWN_IS_DELETED else _not_found()
        if found[0].get("protected"):
            raise Problem(409, "protected", found[0]["protected"])
        if self.lie is Lie.GONE_THAT_IS_NOT:
            raise Reply(204)
        if type_ == "job" or self.lie is Lie.NEVER_GONE:
            if self.lie is not Lie.ACCEPTED_AND_PRESENT:
                found[0]["state"] = "deleting"
            if self.lie is not Lie.NEVER_GONE:
                self._ends.setdefault((type_, id_), time.monotonic() + self.seconds)
            raise Reply(202)
        self._remove(type_, id_)
        if self.lie is Lie.DELETES_MORE:
            self.rows[type_] = self.rows[type_][1:]
        if type_ == "bucket":
            self._take_along(project)
        raise Reply(204)

    def _take_along(self, project: str) -> None:
        """Do what a delete must not do."""
        match self.lie:
            case Lie.TAKES_ANOTHERS:
                self.rows["licence"] = [row for row in self.rows["licence"] if row["project_id"] == project]
            case Lie.TAKES_UNDECLARED:
                self.rows["licence"] = [row for row in self.rows["licence"] if row["project_id"] != project]
            case Lie.TAKES_OTHERS_LATER:
                for row in self.rows["bucket"]:
                    if row["project_id"] != project:
                        row["state"] = "deleting"

    def _delete_all(self, project: str, type_: str) -> None:
        if type_ != "bucket" and self.lie is not Lie.DELETES_ALL_UNDECLARED:
            raise Problem(405, "not-supported", "delete one by one")
        everyones = self.lie is Lie.DELETES_ALL_OF_EVERYONE
        for row in [*self.rows[type_]]:
            if (everyones or row["project_id"] == project) and not row.get("keep") and not row.get("protected"):
                self._remove(type_, row["id"])
        raise Reply(204)

    def _drain(self, method: str, project: str) -> None:
        match method:
            case "GET":
                drained = project in self.drained or (self.lie is Lie.DRAINS_ALL and bool(self.drained))
                raise Reply(200, {"project_id": project, "drained": drained})
            case "PUT":
                if self.lie is Lie.DRAIN_DELETES:
                    for name, rows in self.rows.items():
                        self.rows[name] = [row for row in rows if row["project_id"] != project]
                if self.lie is not Lie.DRAINS_NOTHING:
                    self.drained.add(project)
            case "DELETE":
                self.drained.discard(project)
            case _:
                raise Problem(405, "not-supported", "no such call")
        raise Reply(204)


def filled(lie: Lie | None = None) -> Service:
    """Return a service in which both projects have resources of each type."""
    service = Service(lie)
    for project in (PROJECT, OTHER):
        service.fill(project)
    return service


class _Handler(simple_server.WSGIRequestHandler):
    """Passes the path on as it came, and logs nothing."""

    def get_environ(self) -> dict[str, Any]:
        return {**super().get_environ(), "REQUEST_URI": self.path}

    def log_message(self, *_args: Any) -> None:
        pass


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


def caller(application: Callable[..., Any], token: str = "") -> Send:
    """Return what calls a WSGI application in place of a host: a check makes hundreds of requests."""

    def send(method: str, where: str, headers: Mapping[str, str]) -> Response:
        path, _mark, query = where.partition("?")
        given = {"Accept": "application/json", **({"X-Auth-Token": token} if token else {}), **headers}
        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": urllib.parse.unquote(BASE + path, encoding="latin-1"),
            "QUERY_STRING": query,
            "REQUEST_URI": BASE + where,
            **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in given.items()},
        }
        status, answered = 0, {}

        def start_response(line: str, fields: list[tuple[str, str]]) -> None:
            nonlocal status, answered
            status, answered = int(line.partition(" ")[0]), {name.lower(): value for name, value in fields}

        body = b"".join(application(environ, start_response))
        return Response(f"{method} {where or '/'}", status, answered, body)

    return send


@contextlib.contextmanager
def serve(application: Callable[..., Any], endpoint: str = BASE.removesuffix("/project-resources/v1")) -> Iterator[str]:
    """Serve a WSGI application on a port of loopback while the context is open; yield the URL of an endpoint of it.

    :param endpoint: the path of the endpoint; default: that of `Service`, below which is the base of the protocol
    """
    with simple_server.make_server("127.0.0.1", 0, application, _Server, _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}{endpoint}"
        finally:
            server.shutdown()
            thread.join()
