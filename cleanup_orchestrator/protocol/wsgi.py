"""The WSGI application of a service that speaks the project resources protocol.

It needs the standard library alone. Authentication is that of keystonemiddleware: its filter ``auth_token`` must be in
front of the application. The application decides by ``keystone.token_info``, which the filter writes into the
environment of the request. No header of a client becomes such a key. Without it every request gets 401.
"""

from __future__ import annotations

import dataclasses
import http
import json
import logging
import re
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cleanup_orchestrator.protocol import checks
from cleanup_orchestrator.protocol.documents import (
    LONGEST_DETAIL,
    MAX_ROWS,
    PATH,
    ROLE,
    Problem,
    ProblemType,
    Resource,
    ResourceType,
    State,
)
from cleanup_orchestrator.protocol.provider import (
    Caller,
    InUse,
    NotFound,
    Outcome,
    Protected,
    Provider,
    Refusal,
    Unavailable,
    UnknownMarker,
)

Environ = dict[str, Any]
Wsgi = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

#: The role with which a token of the project may delete a resource of a type with ``acts_on``.
MEMBER = "member"

_PAGING = ("limit", "marker")
_LIMIT = re.compile(r"[0-9]{1,4}")
_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,255}")
_BYTE = re.compile(rb"%[0-9A-Fa-f]{2}|.", re.DOTALL)  # what one byte of a decoded path was

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class _Response:
    status: int
    document: Mapping[str, Any] | None = None
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = "application/json"


class _Refused(Exception):
    """The request is refused with a problem document."""

    def __init__(self, type_: ProblemType, detail: str, *headers: tuple[str, str]) -> None:
        super().__init__(detail)
        self.type, self.detail, self.headers = type_, detail, headers


_Handler = Callable[[], _Response]
_OUTCOMES = {Outcome.GONE: _Response(204), Outcome.ACCEPTED: _Response(202)}


def app(provider: Provider, *, role: str = ROLE) -> Wsgi:
    """Return the application, for the filter ``auth_token`` to be put in front.

    It answers below its ``SCRIPT_NAME``. :func:`mounted` puts it beside the service's own API.

    :param role: the role of a token that may use the protocol
    :raises ValueError: if the role is empty
    """
    if not role:
        raise ValueError("the protocol needs a role")
    return _App(provider, role)


def mounted(application: Wsgi, beside: Wsgi) -> Wsgi:
    """Return an application that passes the requests below ``/project-resources/v1`` to one, and all others to another.

    :param application: what answers below the path
    :param beside: the service's own API
    """
    base = f"/{PATH}"

    def dispatch(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path != base and not path.startswith(f"{base}/"):
            return beside(environ, start_response)
        moved = {"SCRIPT_NAME": environ.get("SCRIPT_NAME", "") + base, "PATH_INFO": path[len(base) :]}
        return application({**environ, **moved}, start_response)

    return dispatch


class _App:
    """Checks each request, asks the provider, and checks what the provider returns."""

    def __init__(self, provider: Provider, role: str) -> None:
        self._provider, self._role = provider, role
        self._types = {type_.name: type_ for type_ in provider.capabilities.types}

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        request_id = _request_id(environ)
        try:
            answer = self._answer(environ)
        except _Refused as refused:
            answer = _problem(refused.type, refused.detail, request_id, refused.headers)
        except Exception:
            _LOG.exception("request %s failed", request_id)
            detail = "A defect of the service. The log of the service has the error under the ID of the request."
            answer = _problem(ProblemType.INTERNAL, detail, request_id)
        body = b"" if answer.document is None else json.dumps(answer.document).encode()
        headers = [("Cache-Control", "no-store"), ("X-Openstack-Request-Id", request_id), *answer.headers]
        if answer.status != 204:
            headers.append(("Content-Length", str(len(body))))
        if body:
            headers.append(("Content-Type", answer.media_type))
        start_response(f"{answer.status} {http.HTTPStatus(answer.status).phrase}", headers)
        return [body]

    def _answer(self, environ: Environ) -> _Response:
        caller, method = _caller(environ), environ["REQUEST_METHOD"]
        segments = _segments(environ)
        if self._role not in caller.roles and not self._is_member_delete(caller, method, segments):
            detail = f"This call needs a token with the role {self._role}."
            raise _Refused(ProblemType.FORBIDDEN, detail)
        query = _query(environ, _PAGING if method == "GET" and len(segments) == 3 else ())
        handlers = self._route(segments, query, caller)
        if method not in handlers:
            detail = f"The service does not offer {method} here."
            raise _Refused(ProblemType.NOT_SUPPORTED, detail, ("Allow", ", ".join(handlers)))
        return handlers[method]()

    def _is_member_delete(self, caller: Caller, method: str, segments: tuple[str, ...]) -> bool:
        """Return whether a member deletes a resource of its project that the service acts on."""
        if method != "DELETE" or len(segments) != 4 or segments[0] != "projects":
            return False
        _, project_id, name, _ = segments
        type_ = self._types.get(name)
        acts = type_ is not None and bool(type_.acts_on)
        return acts and MEMBER in caller.roles and caller.project_id == project_id

    def _route(self, segments: tuple[str, ...], query: Mapping[str, str], caller: Caller) -> Mapping[str, _Handler]:
        """Return what answers each method of a path.

        An unknown path is a bad request, and never ``not-found``, which says that a resource is gone.
        """
        if not segments:
            return {"GET": lambda: _Response(200, self._provider.capabilities.to_dict())}
        collection, *names = segments
        if collection == "projects" and len(names) == 2:
            project_id, name = names
            type_ = self._type(project_id, name)
            handlers = {"GET": lambda: self._list(project_id, name, query)}
            if type_.delete_all:
                handlers["DELETE"] = lambda: self._delete_all(project_id, name, caller)
            return handlers
        if collection == "projects" and len(names) == 3:
            project_id, name, id_ = names
            type_ = self._type(project_id, name)
            handlers = {"GET": lambda: _Response(200, self._resource(project_id, name, id_).to_dict())}
            if type_.delete:
                handlers["DELETE"] = lambda: self._delete(type_, project_id, id_, caller)
            return handlers
        if collection == "drains" and len(names) == 1:
            return self._drains(_project(names[0]))
        raise _Refused(ProblemType.BAD_REQUEST, "The protocol has no such path.")

    def _type(self, project_id: str, name: str) -> ResourceType:
        """Return a type of the service, after a check of the project's ID."""
        _project(project_id)
        if name not in self._types:
            raise _Refused(ProblemType.UNKNOWN_TYPE, "The capabilities of the service have no such type.")
        return self._types[name]

    def _list(self, project_id: str, name: str, query: Mapping[str, str]) -> _Response:
        limit, marker = _paging(query)
        may_raise = (Unavailable,) if marker is None else (Unavailable, UnknownMarker)
        page = _ask(may_raise, self._provider.list, project_id, name, limit, marker)
        return _Response(200, checks.page(page, project_id, limit, marker).to_dict(project_id, name))

    def _resource(self, project_id: str, name: str, id_: str) -> Resource:
        """Return a resource of the project. A provider that looks up by ID alone finds those of others, too."""
        shown = _ask((Unavailable, NotFound), self._provider.show, project_id, name, id_)
        if shown is None:
            raise _Refused(ProblemType.NOT_FOUND, NotFound().detail)
        if isinstance(shown, Resource) and shown.project_id != project_id and _is_owner(shown.project_id):
            raise _Refused(ProblemType.NOT_FOUND, NotFound().detail)
        checked = checks.resource(shown, project_id)
        if checked.id != id_:
            raise checks.Defect(f"show returned {checked.id!r} for {id_!r}")
        return checked

    def _delete(self, type_: ResourceType, project_id: str, id_: str, caller: Caller) -> _Response:
        resource = self._resource(project_id, type_.name, id_)
        if reason := resource.protected or resource.keep:
            raise _Refused(ProblemType.PROTECTED, reason)
        if resource.state == State.DELETING:
            return _OUTCOMES[Outcome.ACCEPTED]
        _LOG.info("user %s deletes %s %s of project %s", caller.user_id, type_.name, id_, project_id)
        may_raise = (Unavailable, NotFound, InUse, Protected)
        if type_.acts_on:
            assert self._provider.delete_acting is not None  # Provider checks it
            return _outcome(_ask(may_raise, self._provider.delete_acting, project_id, type_.name, id_, caller))
        return _outcome(_ask(may_raise, self._provider.delete, project_id, type_.name, id_))

    def _delete_all(self, project_id: str, name: str, caller: Caller) -> _Response:
        assert self._provider.delete_all is not None  # Provider checks it
        _LOG.info("user %s deletes every %s of project %s", caller.user_id, name, project_id)
        return _outcome(_ask((Unavailable, InUse, Protected), self._provider.delete_all, project_id, name))

    def _drains(self, project_id: str) -> Mapping[str, _Handler]:
        drain, undrain, is_drained = self._provider.drain, self._provider.undrain, self._provider.is_drained
        if drain is None or undrain is None or is_drained is None:
            return {}

        def show() -> _Response:
            drained = _ask((Unavailable,), is_drained, project_id)
            if not isinstance(drained, bool):
                raise checks.Defect(f"is_drained returned {drained!r}")
            return _Response(200, {"project_id": project_id, "drained": drained})

        def change(function: Callable[[str], None]) -> _Response:
            _ask((Unavailable,), function, project_id)
            return _Response(204)

        return {"GET": show, "PUT": lambda: change(drain), "DELETE": lambda: change(undrain)}


def _ask(may_raise: tuple[type[Refusal], ...], function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the provider.

    :param may_raise: the refusals that mean something here; ``NotFound`` of a list would be read as "gone"
    """
    try:
        return function(*arguments)
    except may_raise as refusal:
        raise _Refused(refusal.type, refusal.detail) from refusal


def _outcome(outcome: object) -> _Response:
    if not isinstance(outcome, Outcome):
        raise checks.Defect(f"the delete returned {outcome!r} instead of an Outcome")
    return _OUTCOMES[outcome]


def _is_owner(value: object) -> bool:
    """Return whether a value can be the ID of another owner: without an owner the answer is unknown."""
    return isinstance(value, str) and value != ""


def _problem(type_: ProblemType, detail: str, request_id: str, headers: tuple[tuple[str, str], ...] = ()) -> _Response:
    problem = Problem(type_, detail[:LONGEST_DETAIL].encode(errors="replace").decode(), request_id)
    return _Response(problem.status, problem.to_dict(), headers, "application/problem+json")


def _request_id(environ: Environ) -> str:
    """Return the ID that oslo.middleware gave the request, or a new one."""
    known = environ.get("openstack.request_id", "")
    return known if isinstance(known, str) and _REQUEST_ID.fullmatch(known) else f"req-{uuid.uuid4()}"


def _caller(environ: Environ) -> Caller:
    """Return who makes the request, as ``auth_token`` found.

    The headers of ``auth_token`` can only refuse: a client can send them if the filter is missing.
    """
    info = environ.get("keystone.token_info")
    confirmed = environ.get("HTTP_X_IDENTITY_STATUS") == "Confirmed"
    with_service_token = environ.get("HTTP_X_SERVICE_IDENTITY_STATUS", "Confirmed") == "Confirmed"
    if info is None or not confirmed or not with_service_token:
        detail = "No valid token of Keystone: send one in X-Auth-Token."
        raise _Refused(ProblemType.NOT_AUTHENTICATED, detail, ("WWW-Authenticate", "Keystone"))
    token = info["token"]
    return Caller(
        environ.get("HTTP_X_AUTH_TOKEN", ""),
        token["user"]["id"],
        token.get("project", {}).get("id", ""),
        tuple(role["name"] for role in token.get("roles", ())),
    )


def _segments(environ: Environ) -> tuple[str, ...]:
    """Return the decoded segments of the path below ``SCRIPT_NAME``; none for the base itself.

    A WSGI server decodes ``PATH_INFO``: a slash in an ID looks like one between segments. The segments are those of the
    path as the client sent it, if the server has it and it ends with ``PATH_INFO``.
    """
    path = environ.get("PATH_INFO", "").encode("latin-1")
    if path in (b"", b"/"):
        return ()
    sent = str(environ.get("REQUEST_URI") or environ.get("RAW_URI") or "").partition("?")[0].encode("latin-1")
    encoded = b"".join(_BYTE.findall(sent)[-len(path) :])
    if urllib.parse.unquote_to_bytes(encoded) == path:
        parts = [urllib.parse.unquote_to_bytes(part) for part in encoded.split(b"/")]
    else:
        parts = path.split(b"/")
    try:
        first, *segments = [part.decode() for part in parts]
    except UnicodeDecodeError as error:
        raise _Refused(ProblemType.BAD_REQUEST, "The path is not UTF-8.") from error
    if first or not all(map(checks.is_id, segments)):
        raise _Refused(ProblemType.BAD_REQUEST, "A segment of the path is empty or malformed.")
    return tuple(segments)


def _project(project_id: str) -> str:
    if not checks.is_project_id(project_id):
        raise _Refused(ProblemType.BAD_REQUEST, "The ID of the project is malformed.")
    return project_id


def _query(environ: Environ, names: tuple[str, ...]) -> dict[str, str]:
    """Return the parameters of the query. Unknown ones are refused, so that no filter of a client is ignored."""
    text = environ.get("QUERY_STRING", "")
    try:
        pairs = urllib.parse.parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=10)
    except ValueError as error:
        raise _Refused(ProblemType.BAD_REQUEST, "The query is malformed.") from error
    parameters = dict(pairs)
    if len(parameters) != len(pairs) or not parameters.keys() <= {*names}:
        known = ", ".join(names) or "none"
        raise _Refused(ProblemType.BAD_REQUEST, f"Unknown or repeated parameters. Parameters of this call: {known}.")
    return parameters


def _paging(query: Mapping[str, str]) -> tuple[int, str | None]:
    """Return limit and marker of a list."""
    limit, marker = query.get("limit", str(MAX_ROWS)), query.get("marker")
    if not _LIMIT.fullmatch(limit) or not 1 <= int(limit) <= MAX_ROWS:
        raise _Refused(ProblemType.BAD_REQUEST, f"limit is a number from 1 to {MAX_ROWS}.")
    if marker == "":
        raise _Refused(ProblemType.BAD_REQUEST, UnknownMarker().detail)
    return int(limit), marker
