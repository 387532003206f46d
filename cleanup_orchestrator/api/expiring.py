"""The common handlers of liens and waivers, which end at a time."""

from __future__ import annotations

import abc
import datetime
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import pecan
import webob
from oslo_log import log

from cleanup_orchestrator import store as storage
from cleanup_orchestrator.api import inputs, policies, views
from cleanup_orchestrator.api.context import ApiContext, Query
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.api.paging import Paging
from cleanup_orchestrator.core.holds import Lien, Waiver
from cleanup_orchestrator.shapes import queries

T = TypeVar("T", Lien, Waiver)


class Expiring(abc.ABC, Generic[T]):
    """The handlers to list, show and end; subclasses add ``create``."""

    noun: ClassVar[str]
    ended: ClassVar[str]  #: the state of one that a user has ended

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._log = log.getLogger(type(self).__module__)

    # --------------------------------------------------------------------------------------------------- of the store
    @abc.abstractmethod
    def _page(
        self, page: storage.Page, in_force: bool | None, filters: dict[str, str]
    ) -> tuple[Sequence[T], datetime.datetime]:
        """Return a page of records, and the time."""

    @abc.abstractmethod
    def _one(self, id_: str) -> tuple[T, datetime.datetime]:
        """Return one record, and the time.

        :raises storage.NotFound: if it does not exist
        """

    @abc.abstractmethod
    def _not_found(self) -> ApiError:
        """Return the error for an unknown id."""

    @abc.abstractmethod
    def _end(self, id_: str, user_id: str) -> T:
        """End one record."""

    # ------------------------------------------------------------------------------------------------------- handlers
    @pecan.expose("json")
    def index(self, req: webob.Request, resp: webob.Response, query: Query) -> dict[str, Any]:
        """Return a page of records; without ``state``, of those in force.

        :raises ApiError: 400 invalid_query; 403 forbidden
        """
        filters = {
            name: values[0] for name, values in query.items() if name not in ("state", "limit", "marker", "sort")
        }
        state = query.get("state", [queries.IN_FORCE])[0]
        paging = Paging.of(query, self._context)
        try:
            records, now = self._page(paging.page, None if state == queries.ANY else state == queries.IN_FORCE, filters)
        except storage.NotFound:
            raise inputs.invalid_field("marker", f"is not the id of a {self.noun}", "invalid_query") from None
        shown, links = paging.cut(req, records, lambda row: row.id)
        readable = self._context.enforcer.readable(req.context)  # another rule than that of the list
        return {f"{self.noun}s": [self._shown(req, row, now, readable) for row in shown], **links}

    @pecan.expose("json")
    def get(self, req: webob.Request, resp: webob.Response, id_: str) -> dict[str, Any]:
        """Return one record, in force or ended.

        :raises ApiError: 403 forbidden; 404 lien_not_found, waiver_not_found
        """
        record, now = self._find(id_)
        return {self.noun: self._shown(req, record, now)}

    @pecan.expose(content_type="application/json")
    def delete(self, req: webob.Request, resp: webob.Response, id_: str) -> None:
        """End a record. The database keeps the record.

        :raises ApiError: 403 forbidden; 404 lien_not_found, waiver_not_found
        """
        self._find(id_)
        ended = self._end(id_, req.context.user_id or "")
        self._log.warning("%s by %s (%s): %s", self.ended, req.context.user_name, req.context.user_id, ended.explained)

    # -------------------------------------------------------------------------------------------------------- helpers

    def _find(self, id_: str) -> tuple[T, datetime.datetime]:
        try:
            if not inputs.is_uuid(id_):
                raise storage.NotFound(id_)
            return self._one(id_)
        except storage.NotFound:
            raise self._not_found() from None

    def _made(self, req: webob.Request, resp: webob.Response, made: T) -> dict[str, Any]:
        """Return the answer for a new record."""
        resp.headers["Location"] = self._href(req, made.id)
        return {self.noun: self._shown(req, made, made.created_at)}

    def _href(self, req: webob.Request, id_: str) -> str:
        return f"{req.application_url}/v1/{self.noun}s/{id_}"

    def _shown(
        self, req: webob.Request, row: T, now: datetime.datetime, readable: Collection[str] = policies.READ
    ) -> dict[str, Any]:
        state = self.ended if row.deleted_at else "in_force" if row.in_force(now) else "expired"
        return {
            **views.hold(row, readable),
            "state": state,
            "links": views.self_link(self._href(req, row.id)),
        }
