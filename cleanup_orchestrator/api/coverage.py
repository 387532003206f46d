"""``/v1/services``: every entry of the catalog and who answers for it."""

from __future__ import annotations

from typing import Any

import pecan
import webob

from cleanup_orchestrator.api import policies, schemas, views
from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.cloud.projects import ProjectNotFound


class Services:
    """The handlers."""

    def __init__(self, wiring: ApiContext) -> None:
        self._w = wiring

    @pecan.expose("json")
    def index(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Return every entry, read from Keystone now, with the waivers that hold now for every project, or for one.

        :raises ApiError: 400 invalid_query; 403 forbidden; 503 keystone_unavailable
        """
        query = schemas.check_query(req, schemas.SERVICES_QUERY)
        if not self._w.enforcer.may_somewhere(req.context, policies.SERVICES):
            raise ApiError(403, "forbidden", "only an admin, or a domain's manager with a token of it, may see this")
        project_id = query.get("project_id", [""])[0]
        if project_id and not self._may_see(req.context, project_id):
            raise ApiError(403, "forbidden", "only an admin, or a manager of the project's domain, may see this")
        waivers = self._w.store.waivers_in_force(project_id)
        readable = self._w.enforcer.readable(req.context)
        return {"services": [views.service(answer, readable) for answer in self._w.answers(waivers)]}

    def _may_see(self, context: Any, project_id: str) -> bool:
        """Whether the requester may see what is waived for one project; who may not learns not whether it exists."""
        if self._w.enforcer.may(context, policies.SERVICES):
            return True
        try:
            domain_id = self._w.projects.get(project_id).domain_id
        except ProjectNotFound:
            return False
        return self._w.enforcer.may(context, policies.SERVICES, domain_id)
