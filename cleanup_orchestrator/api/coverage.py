"""``/v1/services``: every entry of the catalog and who answers for it."""

from __future__ import annotations

from typing import Any

import pecan
import webob

from cleanup_orchestrator.api import policies, schemas, views
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.api.wiring import Wiring


class Services:
    """The handlers."""

    def __init__(self, wiring: Wiring) -> None:
        self._w = wiring

    @pecan.expose("json")
    def index(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Return every entry, read from Keystone now.

        :raises ApiError: 400 invalid_query; 403 forbidden; 503 keystone_unavailable
        """
        schemas.check_query(req, schemas.NOTHING)
        if not self._w.judge.may_somewhere(req.context, policies.SERVICES):
            raise ApiError(403, "forbidden", "only an admin, or a domain's manager with a token of it, may see this")
        return {"services": [views.service(answer) for answer in self._w.answers()]}
