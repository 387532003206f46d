"""``/v1/services``: every entry of the catalog and who answers for it."""

from __future__ import annotations

from typing import Any

import pecan
import webob
from oslo_context.context import RequestContext

from cleanup_orchestrator.api import policies, schemas, views
from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.cloud.projects import ProjectNotFound


class Services:
    """The handlers."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    @pecan.expose("json")
    def index(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Return every entry, read from Keystone now, with the waivers that hold now for every project, or for one.

        :raises ApiError: 400 invalid_query; 403 forbidden; 503 keystone_unavailable
        """
        query = schemas.check_query(req, schemas.SERVICES_QUERY)
        if not self._context.enforcer.may_somewhere(req.context, policies.SERVICES):
            raise ApiError(403, "forbidden", "only an admin, or a domain's manager with a token of it, may see this")
        project_id = query.get("project_id", [""])[0]
        if project_id and not self._may_see(req.context, project_id):
            raise ApiError(403, "forbidden", "only an admin, or a manager of the project's domain, may see this")
        waivers = self._context.store.waivers_in_force(project_id)
        readable = self._context.enforcer.readable(req.context)
        return {"services": [views.service(answer, readable) for answer in self._context.answers(waivers)]}

    def _may_see(self, requester: RequestContext, project_id: str) -> bool:
        """Whether the requester may see what is waived for one project; who may not learns not whether it exists."""
        if self._context.enforcer.may(requester, policies.SERVICES):
            return True
        try:
            domain_id = self._context.projects.get(project_id).domain_id
        except ProjectNotFound:
            return False
        return self._context.enforcer.may(requester, policies.SERVICES, domain_id)
