"""``/v1/brake``: stops all deletions of the cloud, and lets them continue."""

from __future__ import annotations

from typing import Any

import pecan
import webob
from oslo_log import log

from cleanup_orchestrator.api import policies, schemas, views
from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.core.holds import Brake

LOG = log.getLogger(__name__)


class Brakes:
    """The handlers. There is only one brake, so it has no id."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    @pecan.expose("json")
    def get(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Return the brake: whether it is on, and the user who changed it last.

        :raises ApiError: 403 forbidden
        """
        schemas.check_query(req, schemas.NOTHING)
        self._permit(req, policies.BRAKE_GET)
        return {"brake": views.brake(self._context.store.brake())}

    @pecan.expose("json")
    def pull(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Pull the brake: no worker begins another lock or delete.

        A brake that is on already keeps its first reason. It is shown to callers who may read the brake.

        :raises ApiError: 400 invalid_json, invalid_body; 403 forbidden; 415
        """
        schemas.check_query(req, schemas.NOTHING)
        self._permit(req, policies.BRAKE_SET)
        body = schemas.check_body(req, schemas.BRAKE_BODY)
        brake = self._set(req, True, body["reason"].strip())
        own = brake.request_id == (req.context.request_id or "")
        may_read = own or self._context.enforcer.may(req.context, policies.BRAKE_GET)
        return {"brake": views.brake(brake) if may_read else {"on": brake.on}}

    @pecan.expose("json")
    def lift(self, req: webob.Request, resp: webob.Response) -> webob.Response:
        """Lift the brake.

        Deletions continue within one tick of the engines, unless something else holds them.

        :raises ApiError: 403 forbidden
        """
        schemas.check_query(req, schemas.NOTHING)
        self._permit(req, policies.BRAKE_UNSET)
        self._set(req, False, self._context.store.brake().reason)
        resp.status, resp.content_type = 204, None
        return resp  # pecan would render None as a body

    def _set(self, req: webob.Request, on: bool, reason: str) -> Brake:
        who = req.context
        brake: Brake = self._context.store.set_brake(
            Brake(on, reason, None, who.user_id or "", who.user_name or "", who.request_id or "")
        )
        LOG.warning("brake %s by %s (%s): %s", "pulled" if on else "lifted", who.user_name, who.user_id, brake.reason)
        return brake

    def _permit(self, req: webob.Request, rule: str) -> None:
        if not self._context.enforcer.may(req.context, rule):
            raise ApiError(
                403, "forbidden", "only an admin may pull or lift the brake; a reader of the system may see it"
            )
