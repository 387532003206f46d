"""The URL table, and the versions document."""

from __future__ import annotations

from typing import Any

import pecan
import webob
import webob.multidict
from keystoneauth1 import access
from pecan import hooks

from cleanup_orchestrator import compat, log
from cleanup_orchestrator.api import errors, openapi, operations, schemas, views
from cleanup_orchestrator.api.brake import Brakes
from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.api.coverage import Services
from cleanup_orchestrator.api.deletion import SingleDeletion
from cleanup_orchestrator.api.deletion_actions import DeletionActions
from cleanup_orchestrator.api.deletions import Deletions
from cleanup_orchestrator.api.force import Forcing
from cleanup_orchestrator.api.liens import Liens
from cleanup_orchestrator.api.orphans import OrphanScans
from cleanup_orchestrator.api.plans import Plans
from cleanup_orchestrator.api.searches import Searches
from cleanup_orchestrator.api.waivers import Waivers

#: Only the token check sets this key: WSGI prefixes the headers of clients with ``HTTP_``.
TOKEN_INFO = "keystone.token_info"


def segments(path: str) -> tuple[str, ...]:
    """Return the segments of a path.

    One slash at the end is ignored. An empty segment in the middle is kept. A path without a slash at its beginning,
    such as the ``*`` of an OPTIONS request, is one segment.
    """
    parts = path.split("/")
    parts = parts[1:] if not parts[0] else ["/", *parts]
    return tuple(parts[:-1] if parts and parts[-1] == "" else parts)


def _check_accept(request: webob.Request, handler: Any) -> None:
    """Check that the client accepts a type that the handler returns.

    pecan has the same check, but logs a refusal as an error of the service.

    :raises ApiError: 406
    """
    offered = compat.content_types(handler)
    accept = request.headers.get("Accept", "")
    if request.accept.acceptable_offers(offered) or any(accept.startswith(each) for each in offered):
        return
    raise errors.of_status(406)


_PUBLIC = frozenset(segments(path) for (_, path), operation in operations.OPERATIONS.items() if operation.public)


def is_public(path: str) -> bool:
    """Return whether a path is of discovery: it needs no token and has no microversion."""
    return segments(path) in _PUBLIC


def needs_token(path: str) -> bool:
    """Return whether a request to a path needs a token: everything below ``/v1`` that is not public."""
    return segments(path)[:1] == ("v1",) and not is_public(path)


class Identity(hooks.PecanHook):
    """Sets ``request.context`` from the token check.

    Requests that need a token and have no confirmed one are refused.
    """

    def on_route(self, state: Any) -> None:
        """Set the context of the requester.

        :raises ApiError: 401
        """
        environ = state.request.environ
        if not needs_token(state.request.path_info):
            return
        if TOKEN_INFO not in environ or environ.get("HTTP_X_IDENTITY_STATUS") != "Confirmed":
            raise errors.of_status(401)
        token = access.create(body=environ[TOKEN_INFO], auth_token="")
        state.request.context = log.Context.from_environ(
            environ,
            request_id=environ.get(errors.REQUEST_ID),
            delegated=bool(token.trust_id or token.oauth_access_token_id),
            trust_user_ids=[user for user in (token.trustor_user_id, token.trustee_user_id) if user],
        )


class Request(pecan.Request):
    """Keeps pecan from parsing queries and bodies: handlers check them by schema."""

    @property
    def json(self) -> Any:
        """Refuse to parse the body for pecan."""
        raise ValueError("bodies are read by the handlers")

    @property
    def params(self) -> Any:
        """Return no parameters to pecan."""
        return webob.multidict.MultiDict()

    GET = params


class Root:
    """Finds the handler for a path and a method in a table.

    pecan's own routing over attributes is not used.
    """

    def __init__(self, context: ApiContext) -> None:
        objects = {
            "root": self,
            "deletions": Deletions(context),
            "deletion": SingleDeletion(context),
            "actions": DeletionActions(context),
            "plans": Plans(context),
            "forcing": Forcing(context),
            "services": Services(context),
            "liens": Liens(context),
            "brakes": Brakes(context),
            "waivers": Waivers(context),
            "scans": OrphanScans(context),
            "searches": Searches(context),
        }
        self._table: dict[tuple[str, ...], dict[str, Any]] = {}
        for (method, path), operation in operations.OPERATIONS.items():
            owner, _, name = operation.handler.partition(".")
            self._table.setdefault(segments(path), {})[method] = getattr(objects[owner], name)

    @pecan.expose()
    def _route(self, args: list[str], request: webob.Request) -> tuple[Any, list[str]]:
        path = segments(request.path_info)
        for pattern, methods in self._table.items():
            if len(pattern) != len(path):
                continue
            if all(got and want in ("{id}", got) for want, got in zip(pattern, path, strict=True)):
                method = "GET" if request.method == "HEAD" else request.method
                if method not in methods:
                    allowed = sorted({*methods, *(["HEAD"] if "GET" in methods else [])})
                    raise errors.of_status(405, {"Allow": ", ".join(allowed)})
                _check_accept(request, methods[method])
                return methods[method], [got for want, got in zip(pattern, path, strict=True) if want == "{id}"]
        raise errors.of_status(404)

    @pecan.expose("json")
    def versions(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Return the versions document. It needs no token."""
        schemas.check_query(req, schemas.NOTHING)
        return {"versions": [views.version(req.application_url)]}

    @pecan.expose("json")
    def version(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Return the document of version 1. It needs no token."""
        schemas.check_query(req, schemas.NOTHING)
        return {"version": views.version(req.application_url)}

    @pecan.expose("json")
    def openapi(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Return the OpenAPI document. It needs no token."""
        schemas.check_query(req, schemas.NOTHING)
        return openapi.document(req.application_url)
