"""The same as the hook, as paste-style WSGI middleware: for a proxy before Keystone, or a Keystone made with paste.

It sees paths as they were sent, and what stands behind it may read a path in more than one way. So it reads it in all
of them: if all say that this deletes the same project, it is that; if none says so, the request goes on; if they
differ, it is refused.

Keystone's policy is not at hand: who may not see the project gets Keystone's own answer, and who may delete it is for
the orchestrator's policy to say (whose default is Keystone's), by the caller's own token.
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

#: Percent-encoding within percent-encoding; nobody needs more, and no reading of it is worth the time.
_DECODINGS = 4
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KINDS = {"projects": "project", "domains": "domain"}
#: Of the client's request, what the questions about it take along.
_KEPT = re.compile(r"SERVER_.*|REMOTE_ADDR|SCRIPT_NAME|wsgi\..*|HTTP_HOST|HTTP_X_FORWARDED_.*|HTTP_FORWARDED")

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Unclear(Exception):
    """The path may, or may not, be that of a project or a domain."""


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """What a path names."""

    kind: str  #: ``project`` or ``domain``
    id: str
    prefix: tuple[str, ...] = ()  #: what stands before ``v3``


def read(path: str) -> Route | None:
    """Return the project or domain whose path this is, ``None`` if it is something else's in every reading.

    :param path: as WSGI has it: decoded once, bytes as latin-1
    :raises Unclear: when readings differ, or what stands in the place of the id cannot be one
    """
    text = path.encode("latin-1", "replace").decode("utf-8", "replace")
    found = {_match(segments) for segments in _readings(text)}
    if found == {None}:
        return None
    route = found.pop()
    if found or route is None or not _ID.fullmatch(route.id):
        raise Unclear(path)
    return route


def _readings(text: str) -> set[tuple[str, ...]]:
    """Return the path's segments in every way in which a server or a proxy is known to read it.

    Empty segments never count: a server merges them, or redirects to the merged path, or finds nothing.
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
    """Return the segments as they are, and with ``.`` and ``..`` followed, empty segments counted or not."""
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
    """Return what wraps an application: paste's entry point. The options are those of the hook.

    :raises cleanup_orchestrator.keystone.intercept.ConfigurationError: an option that cannot be worked with
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
        """Answer one request, or let it through."""
        # Servers behind take a method in any case.
        if environ["REQUEST_METHOD"].strip().upper() != "DELETE":
            return self._application(environ, start_response)
        try:
            route = read(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""))
            answer = self._answer(environ, route) if route else None
        except Unclear:
            answer = intercept.Refused(
                400,
                "This path can be read as that of a project or a domain, and as another one. Write it plainly: "
                "/v3/projects/{project_id}. This request has deleted nothing.",
            ).answer
        except intercept.Refused as refused:
            answer = refused.answer
        except _Said as said:
            shown: Iterable[bytes] = said.response(environ, start_response)
            return shown
        if answer is None:
            return self._application(environ, start_response)
        response = webob.Response(
            status=answer.status, body=json.dumps(answer.body).encode(), content_type="application/json"
        )
        response.headers.update({"Vary": "X-Auth-Token", **answer.headers})
        body: Iterable[bytes] = response(environ, start_response)
        return body

    def _answer(self, environ: Mapping[str, Any], route: Route) -> intercept.Answer | None:
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
        """Return whose token it is, by Keystone's word."""
        response = self._get(environ, route, ("auth", "tokens"), token, {"HTTP_X_SUBJECT_TOKEN": token})
        if response.status_int != 200:
            return None
        user = _member(_member(_json(response), "token"), "user")
        return user.get("id")

    def _target(self, environ: Mapping[str, Any], route: Route, token: str) -> intercept.Target:
        """Return what Keystone shows the caller of the target.

        :raises _Said: it shows them nothing
        """
        query = {"QUERY_STRING": "subtree_as_ids"} if route.kind == "project" else {}
        response = self._get(environ, route, (f"{route.kind}s", route.id), token, query)
        if 400 <= response.status_int < 500:
            raise _Said(response)
        found = _member(_json(response) if response.status_int == 200 else {}, route.kind)
        if found.get("id") != route.id:
            raise _keystone_failed()
        options = found.get("options") or {}
        if options.get("immutable"):
            raise intercept.Refused(
                403, f"{route.kind.capitalize()} {route.id} is immutable: unset this option of it first."
            )
        is_domain = route.kind == "domain" or bool(found.get("is_domain"))
        return intercept.Target(
            id=route.id,
            name=str(found.get("name")),
            domain_id=route.id if is_domain else str(found.get("domain_id")),
            is_domain=is_domain,
            below=frozenset(_ids(found.get("subtree"))),
            fence=options.get(protocol.FENCE_OPTION),
        )

    def _get(
        self, environ: Mapping[str, Any], route: Route, path: tuple[str, ...], token: str, more: Mapping[str, str]
    ) -> webob.Response:
        """Ask Keystone, through what is wrapped, with the caller's token."""
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
            _ = response.body  # here, where an error is still one of Keystone's
        except Exception as error:
            LOG.error("GET %s: Keystone does not answer: %s", asked["PATH_INFO"], error)
            raise _keystone_failed() from None
        if response.status_int >= 500:
            LOG.error("GET %s: Keystone answered %d", asked["PATH_INFO"], response.status_int)
            raise _keystone_failed()
        return response


class _Said(Exception):
    """What Keystone answered is the answer."""

    def __init__(self, response: webob.Response) -> None:
        super().__init__(response.status)
        self.response = response


def _keystone_failed() -> intercept.Refused:
    return intercept.Refused(
        503, "Keystone does not answer what is asked about the request. This request has deleted nothing."
    )


def _json(response: webob.Response) -> Any:
    try:
        return json.loads(response.body)
    except ValueError:
        raise _keystone_failed() from None


def _member(value: Any, name: str) -> Mapping[str, Any]:
    """Return an object's member that is an object itself."""
    member = value.get(name) if isinstance(value, dict) else None
    if not isinstance(member, dict):
        raise _keystone_failed()
    return member


def _ids(tree: Any) -> list[str]:
    return [id_ for key, below in (tree or {}).items() for id_ in (key, *_ids(below))]
