"""The URL table, and the versions document."""

from __future__ import annotations

from typing import Any

import pecan
import webob
import webob.multidict
from keystoneauth1 import access
from pecan import hooks

from cleanup_orchestrator import log
from cleanup_orchestrator.api import errors, schemas, views
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
    offered = list(handler._pecan["content_types"])
    accept = request.headers.get("Accept", "")
    if request.accept.acceptable_offers(offered) or any(accept.startswith(each) for each in offered):
        return
    raise errors.of_status(406)


class Identity(hooks.PecanHook):
    """Sets ``request.context`` from the token check.

    Requests below ``/v1`` without a confirmed token are refused.
    """

    def on_route(self, state: Any) -> None:
        """Set the context of the requester.

        :raises ApiError: 401
        """
        environ = state.request.environ
        if segments(state.request.path_info)[:1] != ("v1",):
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
        deletions, deletion, actions = Deletions(context), SingleDeletion(context), DeletionActions(context)
        brakes, liens, waivers = Brakes(context), Liens(context), Waivers(context)
        forcing, plans = Forcing(context), Plans(context)
        scans, services = OrphanScans(context), Services(context)
        self._table: dict[tuple[str, ...], dict[str, Any]] = {
            (): {"GET": self.versions},
            ("v1",): {"GET": self.version},
            ("v1", "brake"): {"GET": brakes.get, "POST": brakes.pull, "DELETE": brakes.lift},
            ("v1", "deletions"): {"GET": deletions.index, "POST": deletions.create},
            ("v1", "deletions", "{id}"): {"GET": deletion.get},
            ("v1", "deletions", "{id}", "leftovers"): {"GET": deletion.leftovers},
            ("v1", "deletions", "{id}", "events"): {"GET": deletion.events},
            ("v1", "deletions", "{id}", "retry"): {"POST": actions.retry},
            ("v1", "deletions", "{id}", "cancel"): {"POST": actions.cancel},
            ("v1", "orphan-scans"): {"GET": scans.index, "POST": scans.create},
            ("v1", "orphan-scans", "{id}"): {"GET": scans.get, "DELETE": scans.cancel},
            ("v1", "orphan-scans", "{id}", "orphans"): {"GET": scans.orphans},
            ("v1", "orphan-scans", "{id}", "projects"): {"GET": scans.projects},
            ("v1", "orphan-scans", "{id}", "adopt"): {"POST": scans.adopt},
            ("v1", "deletions", "{id}", "approve"): {"POST": actions.approve},
            ("v1", "deletions", "{id}", "restore"): {"POST": actions.restore},
            ("v1", "plans", "{id}"): {"GET": plans.get},
            ("v1", "plans", "{id}", "resources"): {"GET": plans.resources},
            ("v1", "liens"): {"GET": liens.index, "POST": liens.create},
            ("v1", "liens", "{id}"): {"GET": liens.get, "DELETE": liens.delete},
            ("v1", "projects", "{id}", "force"): {"DELETE": forcing.force},
            ("v1", "services"): {"GET": services.index},
            ("v1", "waivers"): {"GET": waivers.index, "POST": waivers.create},
            ("v1", "waivers", "{id}"): {"GET": waivers.get, "DELETE": waivers.delete},
        }

    def operations(self) -> set[tuple[str, str]]:
        """Return every (method, path) of the API.

        A test compares them with the schemas and the API reference.
        """
        return {(method, "/" + "/".join(path)) for path, methods in self._table.items() for method in methods}

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
        """Return the document of version 1."""
        schemas.check_query(req, schemas.NOTHING)
        return {"version": views.version(req.application_url)}
