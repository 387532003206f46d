"""``/v1/services``: lists the catalog entries and the plugin of each."""

from __future__ import annotations

from typing import Any

import pecan
import webob
from oslo_context.context import RequestContext

from cleanup_orchestrator.api import policies, views
from cleanup_orchestrator.api.context import ApiContext, Query
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.cloud.projects import ProjectNotFound


class Services:
    """The handlers."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    @pecan.expose("json")
    def index(self, req: webob.Request, resp: webob.Response, query: Query) -> dict[str, Any]:
        """Return every catalog entry with the waivers in force.

        The catalog is read from Keystone at each request. Services without a plugin are asked whether they speak the
        project resources protocol, unless a recent answer is on record. With ``project_id`` the waivers for this
        project count, too.

        :raises ApiError: 400 invalid_query; 403 forbidden; 503 keystone_unavailable
        """
        if not self._context.enforcer.may_somewhere(req.context, policies.SERVICES):
            raise _forbidden("a domain")
        project_id = query.get("project_id", [""])[0]
        if project_id and not self._may_see(req.context, project_id):
            raise _forbidden("the project's domain")
        waivers = self._context.store.waivers_in_force(project_id)
        readable = self._context.enforcer.readable(req.context)
        everywhere = self._context.enforcer.may(req.context, policies.SERVICES)
        entries = self._context.catalog_status(waivers)
        return {"services": [views.service(entry, readable, everywhere) for entry in entries]}

    def _may_see(self, requester: RequestContext, project_id: str) -> bool:
        """Return whether the requester may see the waivers of a project.

        The answer for a project that does not exist is the same as for a forbidden one.
        """
        if self._context.enforcer.may(requester, policies.SERVICES):
            return True
        try:
            domain_id = self._context.projects.get(project_id).domain_id
        except ProjectNotFound:
            return False
        return self._context.enforcer.may(requester, policies.SERVICES, domain_id)


def _forbidden(domain: str) -> ApiError:
    who = f"an admin, a reader of the system, or a reader or manager of {domain} with a token of that domain"
    return ApiError(403, "forbidden", f"only {who} may see this")
