"""The pipeline hook as paste-style WSGI middleware.

It is for a proxy in front of Keystone, or for a Keystone that is assembled with paste.

The middleware sees paths as they were sent, and the server behind it can interpret a path in several ways. Therefore it
interprets the path in all known ways. If all of them name the same project, the request deletes that project. If none
names a project, the request passes. If they differ, the request is refused.

The middleware cannot check Keystone's policy. A caller who may not see the project gets Keystone's answer. Whether the
caller may delete the project is decided by the orchestrator's policy (its default is Keystone's), with the caller's
token.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import webob
from oslo_log import log

from cleanup_orchestrator.keystone import intercept, protocol

LOG = log.getLogger(__name__)

#: Levels of nested percent-encoding that are decoded. A path with more levels is refused.
_DECODINGS = 4
_ID = re.compile(protocol.ID_PATTERN)
_KINDS = {"projects": "project", "domains": "domain"}
#: Keys of the client's request that are copied to the requests to Keystone.
_KEPT = re.compile(r"SERVER_.*|REMOTE_ADDR|SCRIPT_NAME|wsgi\..*|HTTP_HOST|HTTP_X_FORWARDED_.*|HTTP_FORWARDED")

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Unclear(Exception):
    """The path is ambiguous: only some interpretations name a project or a domain."""


@dataclasses.dataclass(frozen=True)
class Route:
    """The object that a path names."""

    kind: str  #: ``project`` or ``domain``
    id: str
    prefix: tuple[str, ...] = ()  #: segments before ``v3``


def read(path: str) -> Route | None:
    """Return the project or domain that a path names, or ``None``.

    :param path: the path of WSGI: decoded once, bytes as latin-1
    :raises Unclear: if the interpretations differ, or if the id is malformed
    """
    text = path.encode("latin-1", "replace").decode("utf-8", "replace")
    routes = {_match(segments) for segments in _readings(text)}
    if routes == {None}:
        return None
    route = routes.pop()
    if routes or route is None or not _ID.fullmatch(route.id):
        raise Unclear(path)
    return route


def _readings(text: str) -> set[tuple[str, ...]]:
    """Return the segments of a path in every known interpretation.

    Empty segments are dropped: a server merges them, redirects to the merged path, or answers 404.
    """
    decoded = [text]
    while (following := urllib.parse.unquote(decoded[-1])) != decoded[-1]:
        if len(decoded) > _DECODINGS:
            raise Unclear(text)
        decoded.append(following)
    variants: list[Callable[[str], str]] = [
        lambda path: path.replace("\\", "/"),
        lambda path: re.sub(";[^/]*", "", path),
        lambda path: re.split("[?#]", path, maxsplit=1)[0],
        lambda path: "".join(c for c in path if c.isprintable() and not c.isspace()),
    ]
    texts = set(decoded)
    for change in variants:
        texts |= {change(one) for one in texts}
    return set(itertools.chain.from_iterable(_walks(one) for one in texts))


def _walks(path: str) -> set[tuple[str, ...]]:
    """Return the segments as they are, and with ``.`` and ``..`` resolved.

    Resolving is done both with and without the empty segments.
    """
    parts = path.removeprefix("/").split("/")
    plain = tuple(part for part in parts if part)
    return {plain, _followed(plain), tuple(part for part in _followed(parts) if part)}


def _followed(parts: Iterable[str]) -> tuple[str, ...]:
    stack: list[str] = []
    for part in parts:
        if part == "..":
            del stack[-1:]
        elif part != ".":
            stack.append(part)
    return tuple(stack)


def _match(segments: tuple[str, ...]) -> Route | None:
    if len(segments) < 3 or segments[-3] != "v3" or segments[-2] not in _KINDS:
        return None
    return Route(_KINDS[segments[-2]], segments[-1], segments[:-3])


def filter_factory(global_conf: Mapping[str, str], **local_conf: str) -> Callable[[Application], Application]:
    """Return the function that wraps an application; the entry point of paste.

    The options are those of the hook.

    :raises cleanup_orchestrator.keystone.intercept.ConfigurationError: if an option is invalid
    """
    known = {field.name for field in dataclasses.fields(intercept.Settings)}
    values: dict[str, Any] = dict(local_conf)
    if unknown := sorted(set(values) - known):
        raise intercept.ConfigurationError(f"unknown option {unknown[0]}; known are: {', '.join(sorted(known))}")
    if "timeout" in values:
        try:
            values["timeout"] = float(values["timeout"])
        except ValueError:
            raise intercept.ConfigurationError("timeout must be a number of seconds") from None
    settings = intercept.Settings(**values).check()

    def wrap(application: Application) -> Application:
        return application if settings.intercept == intercept.OFF else Filter(application, settings)

    return wrap


class Filter:
    """The middleware."""

    def __init__(self, application: Application, settings: intercept.Settings) -> None:
        self._application, self._settings = application, settings

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request, or pass it on."""
        # Some servers accept methods in any letter case.
        if environ["REQUEST_METHOD"].strip().upper() != "DELETE":
            return self._application(environ, start_response)
        try:
            route = read(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""))
            response = self._intercepted(environ, route) if route else None
        except Unclear:
            response = intercept.Refused(
                400,
                "This path is ambiguous. Write it in its plain form: /v3/projects/{project_id}. "
                "This request has deleted nothing.",
            ).response
        except intercept.Refused as refused:
            response = refused.response
        except _Said as said:
            shown: Iterable[bytes] = said.response(environ, start_response)
            return shown
        if response is None:
            return self._application(environ, start_response)
        wsgi_response = webob.Response(
            status=response.status, body=json.dumps(response.body).encode(), content_type="application/json"
        )
        wsgi_response.headers.update({"Vary": "X-Auth-Token", **response.headers})
        body: Iterable[bytes] = wsgi_response(environ, start_response)
        return body

    def _intercepted(self, environ: Mapping[str, Any], route: Route) -> intercept.Response | None:
        token = environ.get("HTTP_X_AUTH_TOKEN", "")
        final = environ.get("HTTP_" + protocol.FINAL_HEADER.upper().replace("-", "_"))
        if final and self._settings.is_final(self._user_id(environ, route, token), final):
            return None
        caller = intercept.Caller(
            token=token,
            mode=environ.get("HTTP_" + protocol.MODE_HEADER.upper().replace("-", "_")),
            query=environ.get("QUERY_STRING", ""),
            request_id=environ.get("HTTP_X_OPENSTACK_REQUEST_ID") or environ.get("openstack.request_id", ""),
        )
        return intercept.handle(self._settings, self._target(environ, route, token), caller)

    def _user_id(self, environ: Mapping[str, Any], route: Route, token: str) -> str | None:
        """Return the user of a token, as Keystone validates it."""
        response = self._get(environ, route, ("auth", "tokens"), token, {"HTTP_X_SUBJECT_TOKEN": token})
        if response.status_int != 200:
            return None
        user = _member(_member(_json(response), "token"), "user")
        return user.get("id")

    def _target(self, environ: Mapping[str, Any], route: Route, token: str) -> intercept.Target:
        """Return the target as Keystone shows it to the caller.

        :raises _Said: if Keystone answers with an error
        """
        query = {"QUERY_STRING": "subtree_as_ids"} if route.kind == "project" else {}
        response = self._get(environ, route, (f"{route.kind}s", route.id), token, query)
        if 400 <= response.status_int < 500:
            raise _Said(response)
        ref = _member(_json(response) if response.status_int == 200 else {}, route.kind)
        if ref.get("id") != route.id:
            raise _keystone_failed()
        options = ref.get("options") or {}
        if options.get("immutable"):
            raise intercept.Refused(
                403, f"{route.kind.capitalize()} {route.id} is immutable: unset its option 'immutable' first."
            )
        is_domain = route.kind == "domain" or bool(ref.get("is_domain"))
        return intercept.Target(
            id=route.id,
            name=str(ref.get("name")),
            domain_id=route.id if is_domain else str(ref.get("domain_id")),
            is_domain=is_domain,
            below=frozenset(_ids(ref.get("subtree"))),
            fence=options.get(protocol.FENCE_OPTION),
        )

    def _get(
        self, environ: Mapping[str, Any], route: Route, path: tuple[str, ...], token: str, more: Mapping[str, str]
    ) -> webob.Response:
        """Send a GET to Keystone through the wrapped application, with the caller's token."""
        script = tuple(part for part in environ.get("SCRIPT_NAME", "").split("/") if part)
        below = (*route.prefix, "v3", *path)[len(script) :]
        asked = {name: value for name, value in environ.items() if _KEPT.fullmatch(name)} | {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": "/" + "/".join(below),
            "QUERY_STRING": "",
            "CONTENT_LENGTH": "0",
            "wsgi.input": io.BytesIO(),
            "HTTP_ACCEPT": "application/json",
            "HTTP_X_AUTH_TOKEN": token,
            **more,
        }
        try:
            response = webob.Request(asked).get_response(self._application)
            _ = response.body  # read here, so that an error counts as an error of Keystone
        except Exception as error:
            LOG.error("GET %s: Keystone does not answer: %s", asked["PATH_INFO"], error)
            raise _keystone_failed() from None
        if response.status_int >= 500:
            LOG.error("GET %s: Keystone answered %d", asked["PATH_INFO"], response.status_int)
            raise _keystone_failed()
        return response


class _Said(Exception):
    """Keystone's answer is the answer to the client."""

    def __init__(self, response: webob.Response) -> None:
        super().__init__(response.status)
        self.response = response


def _keystone_failed() -> intercept.Refused:
    return intercept.Refused(503, "Keystone does not answer. This request has deleted nothing. Try again later.")


def _json(response: webob.Response) -> Any:
    try:
        return json.loads(response.body)
    except ValueError:
        raise _keystone_failed() from None


def _member(value: Any, name: str) -> Mapping[str, Any]:
    """Return the member of an object, which must be an object itself."""
    member = value.get(name) if isinstance(value, dict) else None
    if not isinstance(member, dict):
        raise _keystone_failed()
    return member


def _ids(tree: Any) -> list[str]:
    return [id_ for key, below in (tree or {}).items() for id_ in (key, *_ids(below))]
