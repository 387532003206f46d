"""``/v1/brake``: stops all deletions of the cloud, and lets them continue."""

from __future__ import annotations

from typing import Any

import pecan
import webob
from oslo_log import log

from cleanup_orchestrator import shapes
from cleanup_orchestrator.api import policies
from cleanup_orchestrator.api.context import ApiContext, Body
from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.shapes.render import render

LOG = log.getLogger(__name__)


class Brakes:
    """The handlers. There is only one brake, so it has no id."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context

    @pecan.expose("json")
    def get(self, req: webob.Request, resp: webob.Response) -> dict[str, Any]:
        """Return the brake: whether it is set, and the user who changed it last.

        :raises ApiError: 403 forbidden
        """
        return {"brake": render(shapes.Brake, self._context.store.brake())}

    @pecan.expose("json")
    def set(self, req: webob.Request, resp: webob.Response, body: Body) -> dict[str, Any]:
        """Set the brake: no worker begins another lock or delete.

        A brake that is set already keeps its first reason. The answer has the reason if the caller may read the brake.

        :raises ApiError: 400 invalid_json, invalid_body; 403 forbidden; 415
        """
        brake = self._set(req, True, body["reason"].strip())
        own = brake.request_id == (req.context.request_id or "")
        may_read = own or self._context.enforcer.may(req.context, policies.BRAKE_GET)
        return {"brake": render(shapes.Brake, brake) if may_read else {"on": brake.on}}

    @pecan.expose(content_type="application/json")
    def lift(self, req: webob.Request, resp: webob.Response) -> None:
        """Lift the brake.

        Deletions continue within one tick of the engines, unless something else holds them.

        :raises ApiError: 403 forbidden
        """
        self._set(req, False, self._context.store.brake().reason)

    def _set(self, req: webob.Request, on: bool, reason: str) -> Brake:
        who = req.context
        brake: Brake = self._context.store.set_brake(
            Brake(on, reason, None, who.user_id or "", who.user_name or "", who.request_id or "")
        )
        LOG.warning("brake %s by %s (%s): %s", "set" if on else "lifted", who.user_name, who.user_id, brake.reason)
        return brake
