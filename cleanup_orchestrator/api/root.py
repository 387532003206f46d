"""Routes requests to their handlers, and checks them before."""

from __future__ import annotations

import types
from typing import Any

import pecan
import webob
import webob.multidict
from keystoneauth1 import access
from pecan import hooks

from cleanup_orchestrator import compat, log
from cleanup_orchestrator.api import errors, inputs, openapi
from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.api.discovery import Discovery
from cleanup_orchestrator.api.operations import OPERATIONS, Operation
from cleanup_orchestrator.api.policies import PolicyEnforcer

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

    pecan has the same check, but logs a refusal as an error of the service (``test_app``).

    :raises ApiError: 406
    """
    offered = compat.content_types(handler)
    accept = request.headers.get("Accept", "")
    if request.accept.acceptable_offers(offered) or any(accept.startswith(each) for each in offered):
        return
    raise errors.of_status(406)


_PUBLIC = frozenset(segments(path) for (_, path), operation in OPERATIONS.items() if operation.public)


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
    """Keeps pecan from parsing queries and bodies: :class:`Checks` does that.

    pecan decodes them before it calls a handler, and answers 500 if one is not UTF-8 (``test_inputs``).
    """

    @property
    def json(self) -> Any:
        """Refuse to parse the body for pecan."""
        raise ValueError("bodies are read by Checks")

    @property
    def params(self) -> Any:
        """Return no parameters to pecan."""
        return webob.multidict.MultiDict()

    GET = params


#: The key of the WSGI environment with the operation of the request.
OPERATION = "project-cleanup.operation"


class Checks(hooks.PecanHook):
    """Checks a request by the table of operations, and gives its query and its body to the handler."""

    def __init__(self, enforcer: PolicyEnforcer) -> None:
        self._enforcer = enforcer

    def before(self, state: Any) -> None:
        """Check the request, and set the status of a success. pecan drops an empty argument that is no keyword.

        :raises ApiError: 400; 403 forbidden; 415
        """
        request, given = state.request, state.arguments.varkw
        operation: Operation = request.environ[OPERATION]
        query = inputs.check_query(request, operation.query)
        if operation.query.fields:
            given["query"] = query
        if operation.rule.refusal and not self._enforcer.may(request.context, operation.rule.name):
            raise errors.ApiError(403, "forbidden", operation.rule.refusal)
        if operation.body is not None:
            body = inputs.check_body(request, operation.body)
            if operation.body.fields:
                given["body"] = body
        state.response.status = operation.success


class Root:
    """Finds the operation for a path and a method in a table.

    pecan routes over attributes of objects, which would make each public attribute of a handler an operation. Its
    documented ``_route`` replaces that.
    """

    def __init__(self, context: ApiContext) -> None:
        owners: dict[type[Any], Any] = {Discovery: Discovery(openapi.document)}
        self._table: dict[tuple[str, ...], dict[str, tuple[Operation, Any]]] = {}
        for (method, path), operation in OPERATIONS.items():
            if operation.owner not in owners:
                owners[operation.owner] = operation.owner(context)
            handler = types.MethodType(operation.handler, owners[operation.owner])
            self._table.setdefault(segments(path), {})[method] = (operation, handler)

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
                request.environ[OPERATION], handler = methods[method]
                _check_accept(request, handler)
                return handler, [got for want, got in zip(pattern, path, strict=True) if want == "{id}"]
        raise errors.of_status(404)
