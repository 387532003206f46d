"""``/v1/liens``: protects single projects from deletion."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from typing import Any

import pecan
import webob

from cleanup_orchestrator import log as our_log
from cleanup_orchestrator.api import inputs
from cleanup_orchestrator.api.context import Body, tell_engine
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.api.expiring import Expiring
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.store import Page


class Liens(Expiring[Lien]):
    """The handlers.

    A lien overrides what a domain manager may delete. Therefore only admins manage liens by default.
    """

    noun, ended = "lien", "removed"

    @pecan.expose("json")
    def create(self, req: webob.Request, resp: webob.Response, body: Body) -> dict[str, Any]:
        """Record a lien. It is in force at once: workers check it before each delete.

        Keystone is not asked whether the project exists: a lien may be older than its project, and outlives it.

        :raises ApiError: 400 invalid_json, invalid_body; 403 forbidden; 415
        """
        now = self._context.store.now()
        lien = Lien(
            id=str(uuid.uuid4()),
            project_id=body["project_id"],
            origin=body["origin"].strip(),
            reason=body["reason"].strip(),
            created_at=now,
            expires_at=inputs.moment(body["expires_at"], "expires_at") if body.get("expires_at") else None,
            user_id=req.context.user_id or "",
            user_name=req.context.user_name or "",
            request_id=req.context.request_id,
        )
        if lien.expires_at is not None and lien.expires_at <= now:
            raise inputs.invalid_field("expires_at", f"must be later than now, which is {utc(now)}")
        our_log.about("-", lien.project_id)
        lien = self._context.store.add_lien(lien)
        self._log.warning("recorded by %s (%s): %s", lien.user_name, lien.user_id, lien.explained)
        self._tell(lien)
        return self._made(req, resp, lien)

    def _page(
        self, page: Page, in_force: bool | None, filters: dict[str, str]
    ) -> tuple[Sequence[Lien], datetime.datetime]:
        liens, now = self._context.store.liens(page, in_force, **filters)
        return liens, now

    def _one(self, id_: str) -> tuple[Lien, datetime.datetime]:
        lien, now = self._context.store.lien(id_)
        return lien, now

    def _not_found(self) -> ApiError:
        return ApiError(404, "lien_not_found", "no lien has this id; GET /v1/liens lists them")

    def _end(self, id_: str, user_id: str) -> Lien:
        """Remove a lien. A deletion that it held continues, unless another hold exists."""
        lien: Lien = self._context.store.remove_lien(id_, user_id)
        self._tell(lien)
        return lien

    def _tell(self, lien: Lien) -> None:
        """Have an engine update the condition of the project's deletion at once.

        Workers do not depend on this: they check the liens before each delete.
        """
        if live := self._context.store.live(lien.project_id):
            tell_engine(self._context.engine.decide, live.id)
